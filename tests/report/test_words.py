"""Words are escaped, and numbers are written so that nobody misreads them."""

from __future__ import annotations

import pytest

from twofold.errors import BadParameter
from twofold.report.page import (
    Block,
    Facts,
    Folded,
    Links,
    Notice,
    Paragraph,
    Points,
    number,
    size,
    slug,
    span,
    whole,
    with_spread,
)

HOSTILE = "<script>alert(\"x\")</script> & 'y'"


@pytest.mark.parametrize(
    "block",
    [
        Paragraph(HOSTILE),
        Points((HOSTILE,)),
        Notice(text=HOSTILE, more=(HOSTILE,)),
        Folded(HOSTILE, Paragraph("x")),
        Folded("x", Paragraph(HOSTILE)),
        Links(((HOSTILE, "a.html", HOSTILE),)),
        Facts(rows=((HOSTILE, HOSTILE),)),
    ],
)
def test_everything_is_escaped_once(block: Block) -> None:
    text = block.html()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert '"x"' not in text
    assert "&amp;lt;" not in text


def test_blocks_have_their_markup() -> None:
    assert Paragraph("a < b").html() == "<p>a &lt; b</p>"
    assert Points(("one", "two")).html() == "<ul><li>one</li><li>two</li></ul>"
    assert Folded("all", Paragraph("long")).html() == "<details><summary>all</summary><p>long</p></details>"
    made = Links((("Figure 1", "figure-1.html", "mean rank"), ("x", "#y", ""))).html()
    assert '<a href="figure-1.html">Figure 1</a>: mean rank</li>' in made
    assert '<a href="#y">x</a></li>' in made


def test_a_drawing_stands_beside_the_sentence() -> None:
    made = Notice(text="x", picture=Paragraph("drawn")).html()
    assert 'class="notice drawn"' in made
    assert made.index("<p>drawn</p>") < made.index("<p>x</p>")


def test_a_warning_looks_like_one() -> None:
    assert 'class="notice warning"' in Notice(text="x", warning=True).html()
    assert "warning" not in Notice(text="x").html()


@pytest.mark.parametrize(
    "target", ["https://example.org/", "//example.org", "javascript:alert(1)", "/etc/passwd", "../up.html", "a b", ""]
)
def test_a_link_cannot_leave_the_folder(target: str) -> None:
    with pytest.raises(BadParameter) as caught:
        Links((("x", target, ""),))
    assert (caught.value.parameter, caught.value.found) == ("links", target)


@pytest.mark.parametrize("target", ["figure-1.html", "figures/one.html", "figure-1.html#results", "#results"])
def test_a_link_to_a_neighbour_is_kept(target: str) -> None:
    assert f'href="{target}"' in Links((("x", target, ""),)).html()


def test_numbers_are_written_plainly() -> None:
    assert (number(-0.0416), number(0.5, 1), number(float("inf"))) == ("−0.042", "0.5", "–")
    assert with_spread(1.0, 0.25, 2) == "1.00 ± 0.25"
    assert (whole(1234.6), size(999), size(1_000), size(999_600), size(12_345_678)) == (
        "1,235",
        "999 bytes",
        "1 kB",
        "1 MB",
        "12.3 MB",
    )
    assert (span(0.5), span(59.9), span(60.0), span(125.0)) == ("0.50 s", "59.9 s", "1 min 0 s", "2 min 5 s")


def test_a_slug_is_never_empty() -> None:
    assert (slug("Was ist δ?"), slug("δ")) == ("was-ist", "section")
