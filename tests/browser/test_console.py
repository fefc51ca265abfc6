"""The console in a real browser: forms by keyboard, light and dark, phone width, axe, nothing from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.browser.chromium import Tab, chromium, found
from tests.browser.test_status import COLOURS, PICTURES, WIDTHS, contrast
from tests.serve.conftest import SECRET, TITLES, make_model, make_records
from twofold.serve.api import LIMITS, Api, build_app
from twofold.serve.console import console_routes
from twofold.serve.current import Current
from twofold.server.service.run import Running, server_for

pytestmark = pytest.mark.skipif(found() is None, reason="needs Chromium (Debian: apt install chromium)")

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
def tab() -> Iterator[Tab]:
    with chromium() as one:
        yield one


def go_on(tab: Tab) -> None:
    """Wait for the page that a form leads to."""
    while not any(one.get("method") == "Page.loadEventFired" for one in tab.events):
        tab.events.append(tab._next())


def type_in(tab: Tab, text: str) -> None:
    tab.ask("Input.insertText", text=text)


def ask_for_a_user(tab: Tab, url: str, **screen: Any) -> None:
    """Fill in the first form and send it, by keyboard alone."""
    tab.open(f"{url}/", **screen)
    tab.value("document.querySelector('#known-user').focus()")
    type_in(tab, SECRET)
    tab.events.clear()
    for kind in ("keyDown", "keyUp"):
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        tab.ask("Input.dispatchKeyEvent", type=kind, **key, **({"text": "\r"} if kind == "keyDown" else {}))
    go_on(tab)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_fits_every_screen(tab: Tab, url: str, page: str, width: str, dark: bool, tmp_path: Path) -> None:
    screen: dict[str, Any] = {"width": WIDTHS[width], "dark": dark, "phone": width == "phone"}
    if page:
        tab.open(f"{url}/{page}", **screen)
    else:
        ask_for_a_user(tab, url, **screen)
        assert tab.value("document.querySelectorAll('.found li').length") > 0
    assert tab.value("document.documentElement.scrollWidth") <= WIDTHS[width]
    assert (tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)") == dark
    assert tab.complaints() == []
    assert all(one.startswith(url) for one in tab.requests())
    name = page.partition("?")[0] or "recommend"
    tab.picture(tmp_path / "page.png")
    if PICTURES is not None:
        (tmp_path / "page.png").rename(Path(PICTURES) / f"console-{name}-{width}{'-dark' if dark else ''}.png")


def test_a_users_id_is_in_no_address(tab: Tab, url: str) -> None:
    ask_for_a_user(tab, url)
    assert tab.value("location.href") == f"{url}/"
    assert all(SECRET not in one for one in tab.requests())
    assert tab.value("document.querySelector('#known-user').value") == SECRET


def test_a_typed_in_basket_leads_to_items_with_reasons(tab: Tab, url: str) -> None:
    tab.open(f"{url}/")
    tab.value("document.querySelector('#new-basket').focus()")
    type_in(tab, f"item-3 = 2\n{TITLES['item-5']}")
    tab.events.clear()
    tab.value("document.querySelectorAll('form')[1].requestSubmit()")
    go_on(tab)
    shown = tab.value("[...document.querySelectorAll('.found li')].map(one => one.textContent)")
    assert len(shown) == 10
    assert all("Everything else" in one for one in shown)
    assert any(TITLES["item-3"] in one for one in shown)


def test_keyboard_reaches_everything_and_shows_where_it_is(tab: Tab, url: str) -> None:
    for page in PAGES:
        tab.open(f"{url}/{page}")
        asked = tab.value("document.querySelectorAll('a, summary, [tabindex], input, textarea, button').length")
        hidden = tab.value("document.querySelectorAll('details:not([open]) [tabindex]').length")
        reached = set()
        for _ in range(asked - hidden):
            tab.press("Tab", 9)
            reached.add(tab.value("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
            assert tab.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert len(reached) == asked - hidden, page


def test_a_screen_reader_hears_names_of_fields_and_tabs(tab: Tab, url: str) -> None:
    ask_for_a_user(tab, url)
    nodes = [one for one in tab.ask("Accessibility.getFullAXTree")["nodes"] if not one["ignored"]]
    named = {(one["role"]["value"], one["name"]["value"]) for one in nodes if "name" in one}
    assert ("textbox", "User id") in named
    assert ("textbox", "What the person has had") in named
    assert ("button", "Recommend") in named
    assert ("navigation", "Console") in named
    levels = tab.value("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert set(levels[1:]) == {2}


def test_text_stands_out_from_its_ground(tab: Tab, url: str) -> None:
    """WCAG asks for 4.5 to 1."""
    for dark in (False, True):
        ask_for_a_user(tab, url, dark=dark)
        pairs = tab.value(COLOURS)
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
def test_axe_finds_nothing(tab: Tab, url: str, axe: str, width: str, dark: bool) -> None:
    wrong: list[str] = []
    checked = 0
    for page in PAGES:
        screen: dict[str, Any] = {"width": WIDTHS[width], "dark": dark, "phone": width == "phone"}
        if page:
            tab.open(f"{url}/{page}", **screen)
        else:
            ask_for_a_user(tab, url, **screen)
        tab.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
        tab.value(f"{axe};0")
        script = "axe.run().then(found => JSON.stringify([found.violations, found.passes.length]))"
        answer = tab.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        violations, passes = json.loads(answer["result"]["value"])
        checked += passes
        wrong += [f"{page}: {one['impact']}: {one['id']}: {one['nodes'][0]['html'][:120]}" for one in violations]
    assert wrong == []
    assert checked > 50
