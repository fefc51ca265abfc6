"""The console in a real browser: forms by keyboard, light and dark, phone width, axe, nothing from elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import Tab, chromium, found, opened
from tests.browser.test_status import COLOURS, WIDTHS, contrast, picture
from tests.serve.conftest import SECRET, TITLES, make_model, make_records
from twofold.serve.api import LIMITS, Api, build_app
from twofold.serve.console import console_routes
from twofold.serve.current import Current
from twofold.server.service.run import Running, server_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(found() is None, reason="needs Chromium (Debian: apt install chromium)"),
]

PAGES = ("", "similar?item=item-4", "quality", "privacy", "cost?epsilon=0.5")
AXE = "axe-core@4.14.0"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("console")
    make_model().save(folder / "st-anna.model")
    pl.DataFrame({"item": list(TITLES), "title": list(TITLES.values())}).write_csv(folder / "items.csv")
    api = Api(Current(folder / "st-anna.model", catalog=folder / "items.csv"))
    app = build_app(api, more=console_routes(api, **vars(make_records(folder))))
    with Running(server_for(app, LIMITS, host="127.0.0.1", port=0)) as running:
        yield running.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


def ask_for_a_user(browser: Browser, url: str, **screen: Any) -> Tab:
    """Fill in the first form and send it, by keyboard alone."""
    tab = opened(browser, f"{url}/", **screen)
    tab.page.get_by_role("textbox", name="User id").focus()
    tab.page.keyboard.insert_text(SECRET)
    with tab.page.expect_navigation():
        tab.page.keyboard.press("Enter")
    return tab


def show(browser: Browser, url: str, page: str, **screen: Any) -> Tab:
    """Open a page of the console; the first one with an answer."""
    return opened(browser, f"{url}/{page}", **screen) if page else ask_for_a_user(browser, url, **screen)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_fits_every_screen(browser: Browser, url: str, page: str, width: str, dark: bool) -> None:
    tab = show(browser, url, page, width=WIDTHS[width], dark=dark, phone=width == "phone")
    if not page:
        assert tab.page.locator(".found li").count() > 0
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]
    assert (tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)") == dark
    assert tab.complaints == []
    assert all(one.startswith(url) for one in tab.requests)
    picture(tab, f"console-{page.partition('?')[0] or 'recommend'}", width, dark)


def test_numbers_of_a_list_stay_on_the_page(browser: Browser, url: str) -> None:
    """A marker of a list has no box of its own: its text is measured instead."""
    for phone in (False, True):
        page = ask_for_a_user(browser, url, width=360 if phone else 1000, phone=phone).page
        room, needed = page.evaluate(
            "(() => { const list = document.querySelector('.found'), text = document.createElement('span');"
            " text.textContent = '10.\\u00a0'; list.firstElementChild.append(text);"
            " return [parseFloat(getComputedStyle(list).paddingLeft), text.getBoundingClientRect().width]; })()"
        )
        assert needed <= room


def test_a_users_id_is_in_no_address(browser: Browser, url: str) -> None:
    tab = ask_for_a_user(browser, url)
    assert tab.page.url == f"{url}/"
    assert all(SECRET not in one for one in tab.requests)
    assert tab.page.get_by_role("textbox", name="User id").input_value() == SECRET


def test_a_typed_in_basket_leads_to_items_with_reasons(browser: Browser, url: str) -> None:
    page = opened(browser, f"{url}/").page
    page.get_by_role("textbox", name="What the person has had").fill(f"item-3 = 2\n{TITLES['item-5']}")
    page.get_by_role("button", name="Recommend").nth(1).click()
    shown = page.locator(".found li").all_text_contents()
    assert len(shown) == 10
    assert all("Everything else" in one for one in shown)
    assert any(TITLES["item-3"] in one for one in shown)


def test_keyboard_reaches_everything_and_shows_where_it_is(browser: Browser, url: str) -> None:
    for name in PAGES:
        page = opened(browser, f"{url}/{name}").page
        asked = page.locator("a, summary, [tabindex], input, textarea, button").count()
        hidden = page.locator("details:not([open]) [tabindex]").count()
        reached = set()
        for _ in range(asked - hidden):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert len(reached) == asked - hidden, name


def test_a_screen_reader_hears_names_of_fields_and_tabs(browser: Browser, url: str) -> None:
    page = ask_for_a_user(browser, url).page
    for role, name in (
        ("textbox", "User id"),
        ("textbox", "What the person has had"),
        ("button", "Recommend"),
        ("navigation", "Console"),
    ):
        assert page.get_by_role(role, name=name, exact=True).first.is_visible()  # type: ignore[arg-type]
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert set(levels[1:]) == {2}


def test_text_stands_out_from_its_ground(browser: Browser, url: str) -> None:
    """WCAG asks for 4.5 to 1."""
    for dark in (False, True):
        pairs = ask_for_a_user(browser, url, dark=dark).page.evaluate(COLOURS)
        assert len(pairs) > 20
        assert min(contrast(text, ground) for text, ground in pairs) >= 4.5


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from a file or from the registry of npm; it is not kept here."""
    if given := os.environ.get("TWOFOLD_AXE"):
        return Path(given).read_text(encoding="utf-8")
    if shutil.which("npm") is None:
        pytest.skip("needs npm, or TWOFOLD_AXE=axe.min.js")
    folder = tmp_path_factory.mktemp("axe")
    words = ["npm", "pack", "--silent", "--ignore-scripts", AXE]
    try:
        subprocess.run(words, cwd=folder, capture_output=True, timeout=120, check=True)
    except (subprocess.SubprocessError, OSError):
        pytest.skip(f"npm cannot fetch {AXE}; or give TWOFOLD_AXE=axe.min.js")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing(browser: Browser, url: str, axe: str, width: str, dark: bool) -> None:
    wrong: list[str] = []
    checked = 0
    for name in PAGES:
        page = show(browser, url, name, width=WIDTHS[width], dark=dark, phone=width == "phone").page
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        page.evaluate(f"{axe};0")
        found = page.evaluate("axe.run()")
        checked += len(found["passes"])
        wrong += [
            f"{name}: {one['impact']}: {one['id']}: {one['nodes'][0]['html'][:120]}" for one in found["violations"]
        ]
    assert wrong == []
    assert checked > 50
