"""The report of an entity in a real browser: light and dark, phone width, keyboard, print, nothing fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from typer.testing import CliRunner

from tests.browser.chromium import chromium, found, opened
from tests.browser.test_status import COLOURS, WIDTHS, contrast, picture
from tests.reported import reported
from twofold.cli import app

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(found() is None, reason="needs Chromium (Debian: apt install chromium)"),
]

AGAINST = "alone,popularity,item-item,shared-popularity,random"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = reported(tmp_path_factory.mktemp("report"), number=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        files = "--plan plan.toml --factors items.round2 --ledger anna.ledger"
        result = CliRunner().invoke(app, f"report anna.model {files} --against {AGAINST} -o report.html".split())
        assert result.exit_code == 0, result.output
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_every_screen_and_asks_for_nothing(browser: Browser, report: Path, width: str, dark: bool) -> None:
    tab = opened(browser, report.as_uri(), width=WIDTHS[width], dark=dark, phone=width == "phone")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]
    ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == dark
    assert tab.complaints == []
    assert set(tab.requests) == {report.as_uri()}
    picture(tab, "entity-report", width, dark)


def test_wide_tables_scroll_by_themselves_on_a_phone(browser: Browser, report: Path) -> None:
    wide = opened(browser, report.as_uri(), width=360, phone=True).page.evaluate(
        "[...document.querySelectorAll('.scroll')].map(one => [one.scrollWidth, one.clientWidth,"
        " getComputedStyle(one).overflowX, one.tabIndex])"
    )
    overflowing = [one for one in wide if one[0] > one[1]]
    assert overflowing
    assert all(flow == "auto" and index == 0 for _, _, flow, index in overflowing)  # by finger and by keyboard


def test_names_of_lines_do_not_overlap_nor_leave_the_picture(browser: Browser, report: Path) -> None:
    boxes = opened(browser, report.as_uri()).page.evaluate(
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


def test_text_stands_out_from_its_ground_in_light_and_dark(browser: Browser, report: Path) -> None:
    """WCAG asks for 4.5 to 1."""
    for dark in (False, True):
        pairs = opened(browser, report.as_uri(), dark=dark).page.evaluate(COLOURS)
        assert len(pairs) > 50
        assert min(contrast(text, ground) for text, ground in pairs) >= 4.5


def test_headings_and_regions_are_in_order_for_a_screen_reader(browser: Browser, report: Path) -> None:
    page = opened(browser, report.as_uri()).page
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    for role in ("img", "region"):
        shown = page.get_by_role(role)  # type: ignore[arg-type]
        assert shown.count() == page.get_by_role(role, name=re.compile(".")).count() > 0  # type: ignore[arg-type]
    assert page.get_by_role("img", name="nDCG@10").count() > 0
