"""Words are escaped, and numbers are written so that nobody misreads them."""

from __future__ import annotations

import pytest

from twofold.errors import BadParameter
from twofold.report.page import Folded, Links, Notice, Paragraph, Points, number, size, slug, span, whole, with_spread

HOSTILE = "<script>alert(\"x\")</script> & 'y'"


@pytest.mark.parametrize(
    "block",
    [
        Paragraph(HOSTILE),
        Points((HOSTILE,)),
        Notice(text=HOSTILE, more=(HOSTILE,)),
        Folded(HOSTILE, Paragraph("x")),
        Links(((HOSTILE, "a.html", HOSTILE),)),
    ],
)
def test_everything_is_escaped(block: Paragraph) -> None:
    text = block.html()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert '"x"' not in text


def test_a_warning_looks_like_one() -> None:
    assert 'class="notice warning"' in Notice(text="x", warning=True).html()
    assert "warning" not in Notice(text="x").html()


@pytest.mark.parametrize(
    "target", ["https://example.org/", "//example.org", "javascript:alert(1)", "/etc/passwd", "../up.html", "a b", ""]
)
def test_a_link_cannot_leave_the_folder(target: str) -> None:
    with pytest.raises(BadParameter, match="beside it"):
        Links((("x", target, ""),)).html()


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
