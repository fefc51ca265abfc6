"""The report of an entity in a real browser: light and dark, phone width, keyboard, print, nothing fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.browser.chromium import Tab, chromium, found
from tests.browser.test_status import COLOURS, contrast
from tests.reported import reported
from twofold.cli import app

pytestmark = pytest.mark.skipif(found() is None, reason="needs Chromium (Debian: apt install chromium)")

#: Where pictures are kept, for people to look at; TWOFOLD_PICTURES=docs/images makes those of the documentation.
PICTURES = os.environ.get("TWOFOLD_PICTURES")
WIDTHS = {"desktop": 1000, "phone": 360}
AGAINST = "alone,popularity,item-item,shared-popularity,random"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = reported(tmp_path_factory.mktemp("report"), number=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        files = "--plan plan.toml --factors items.round2 --ledger anna.ledger"
        result = CliRunner().invoke(app, f"report anna.model {files} --against {AGAINST} -o report.html".split())
        assert result.exit_code == 0, result.output
    return folder / "report.html"


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as one:
        yield one


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_every_screen_and_asks_for_nothing(
    tab: Tab, page: Path, width: str, dark: bool, tmp_path: Path
) -> None:
    tab.open(page.as_uri(), width=WIDTHS[width], dark=dark, phone=width == "phone")
    assert tab.value("document.documentElement.scrollWidth") <= WIDTHS[width]
    ground = tab.value("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == dark
    assert tab.complaints() == []
    assert set(tab.requests()) == {page.as_uri()}
    tab.picture(tmp_path / "page.png", most=1_400)
    if PICTURES is not None:
        (tmp_path / "page.png").rename(Path(PICTURES) / f"entity-report-{width}{'-dark' if dark else ''}.png")


def test_wide_tables_scroll_by_themselves_on_a_phone(tab: Tab, page: Path) -> None:
    tab.open(page.as_uri(), width=360, phone=True)
    wide = tab.value(
        "[...document.querySelectorAll('.scroll')].map(one => [one.scrollWidth, one.clientWidth,"
        " getComputedStyle(one).overflowX, one.tabIndex])"
    )
    overflowing = [one for one in wide if one[0] > one[1]]
    assert overflowing
    assert all(flow == "auto" and index == 0 for _, _, flow, index in overflowing)  # by finger and by keyboard


def test_names_of_lines_do_not_overlap_nor_leave_the_picture(tab: Tab, page: Path) -> None:
    tab.open(page.as_uri())
    boxes = tab.value(
        "(() => { const drawn = document.querySelector('figure svg'), all = drawn.getBoundingClientRect();"
        " return [...drawn.querySelectorAll('text')].filter(one => "
        f"{['model', *AGAINST.split(',')]}.includes(one.textContent.trim())).map(one => {{"
        " const box = one.getBoundingClientRect();"
        " return [box.top, box.bottom, box.right - all.right]; }); })()"
    )
    assert len(boxes) == 6
    ordered = sorted(boxes)
    assert all(earlier[1] <= later[0] + 2 for earlier, later in pairwise(ordered))
    assert all(over <= 0.5 for _, _, over in boxes)


def test_text_stands_out_from_its_ground_in_light_and_dark(tab: Tab, page: Path) -> None:
    """WCAG asks for 4.5 to 1."""
    for dark in (False, True):
        tab.open(page.as_uri(), dark=dark)
        pairs = tab.value(COLOURS)
        assert len(pairs) > 50
        assert min(contrast(text, ground) for text, ground in pairs) >= 4.5


def test_headings_and_regions_are_in_order_for_a_screen_reader(tab: Tab, page: Path) -> None:
    tab.open(page.as_uri())
    levels = tab.value("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    tree = tab.ask("Accessibility.getFullAXTree")["nodes"]
    named = [
        one["name"]["value"]
        for one in tree
        if not one["ignored"] and one["role"]["value"] in ("image", "img", "region")
    ]
    assert all(named)
    assert any("nDCG@10" in name for name in named)
