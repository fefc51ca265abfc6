"""The status page in a real browser: states, light and dark, phone width, keyboard, sign-in, nothing fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import Tab, chromium, found, opened
from tests.enrolled import Enrolled, enrolled
from tests.served import hosted, release_of, small_plan
from twofold.federation.https import Client, Connection, HttpsMailbox
from twofold.federation.mailbox import ROUNDS
from twofold.report.status_site import PASSWORD_FILE, status_routes
from twofold.server.service.app import Service, build_app
from twofold.server.service.run import Running, server_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(found() is None, reason="needs Chromium (Debian: apt install chromium)"),
]

NAMES = ("charite", "inselspital", "karolinska", "st-anna", "ucl-hospital")
#: Where pictures are kept, for people to look at; `python -m studies screenshots` makes those of the documentation.
PICTURES = os.environ.get("TWOFOLD_PICTURES")
WIDTHS = {"desktop": 1000, "phone": 360}


def plan_of(name: str, *, days: float, quorum: int = 3) -> Enrolled:
    due = datetime.now(UTC) + timedelta(days=days)
    return enrolled(
        small_plan(name=name, quorum=quorum, n_entities=len(NAMES), deadline=f"{due:%Y-%m-%dT%H:%M:00Z}"), *NAMES
    )


class Site:
    """A service over federations in every state, and its passwords."""

    def __init__(self, folder: Path) -> None:
        self.made = {
            "open": plan_of("open-trial", days=6),
            "waiting": plan_of("rare-drugs-2027", days=2.2),
            "late": plan_of("late-trial", days=-0.1),
            "closed": plan_of("closed-trial", days=1),
        }
        each = [hosted(one, agreements=None if key == "open" else one.agreements) for key, one in self.made.items()]
        self.url = ""
        self.service = Service(folder / "state", each, poll=0.05)
        self.routes = status_routes(self.service)

    def send(self, url: str) -> None:
        for state, names in {"waiting": NAMES[:3], "late": NAMES[:1], "closed": NAMES}.items():
            one = self.made[state]
            for name in names:
                with Client(Connection(server=url), name=name, signer=one.signer(name)) as client:
                    HttpsMailbox(client, one.plan).submit(ROUNDS, release_of(one, name), entity=name)
            self.service.federations[one.plan.hash].look()

    def password(self, state: str | None = None) -> str:
        folder = self.service.state if state is None else self.service.state / self.made[state].plan.hash
        return (folder / PASSWORD_FILE).read_text().strip()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    one = Site(tmp_path_factory.mktemp("site"))
    app = build_app(one.service, more=one.routes)
    with Running(server_of(one.service, host="127.0.0.1", port=0, app=app)) as running:
        one.url = running.url
        one.send(running.url)
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


def address(site: Site, path: str = "", password: str | None = None) -> str:
    """An address with the password in it, as a bookmark could have it."""
    base = site.url if password is None else site.url.replace("://", f"://reader:{password}@")
    return f"{base}/{path}"


@pytest.mark.parametrize("state", ["open", "waiting", "late", "closed"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_state_fits_every_screen(browser: Browser, site: Site, state: str, width: str, dark: bool) -> None:
    plan = site.made[state].plan
    where = address(site, plan.hash, site.password())
    tab = opened(browser, where, width=WIDTHS[width], dark=dark, phone=width == "phone")
    told = tab.page.locator(".notice p").first.text_content()
    assert told is not None
    assert told.casefold().startswith(state)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]
    ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == dark
    assert tab.complaints == []
    assert {one.rpartition("/")[2] for one in tab.requests} <= {plan.hash, "favicon.ico"}
    picture(tab, f"status-{state}", width, dark)


def picture(tab: Tab, name: str, width: str, dark: bool = False) -> None:
    """Keep a picture of the whole page, if somebody wants to look at it."""
    if PICTURES is not None:
        path = Path(PICTURES) / f"{name}-{width}{'-dark' if dark else ''}.png"
        tab.page.screenshot(path=path, full_page=True)


def test_text_stands_out_from_its_ground_in_light_and_dark(browser: Browser, site: Site) -> None:
    """WCAG asks for 4.5 to 1."""
    for dark in (False, True):
        tab = opened(browser, address(site, site.made["waiting"].plan.hash, site.password()), dark=dark)
        pairs = tab.page.evaluate(COLOURS)
        assert len(pairs) > 20
        assert min(contrast(text, ground) for text, ground in pairs) >= 4.5


#: Colours of every element with words of its own, and of the ground behind it.
COLOURS = """[...document.querySelectorAll('main *, footer')].filter(
  one => [...one.childNodes].some(child => child.nodeType === 3 && child.textContent.trim())
).map(one => {
  let behind = one;
  while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
  return [one, behind].map((each, at) => getComputedStyle(each)[at ? 'backgroundColor' : 'color']
    .match(/[0-9]+/g).map(Number));
})"""


def contrast(one: list[int], other: list[int]) -> float:
    """Contrast of two colours after WCAG 2."""
    low, high = sorted(
        sum(
            weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
            for weight, part in zip((0.2126, 0.7152, 0.0722), (value / 255 for value in colour), strict=True)
        )
        for colour in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def test_a_stranger_sees_that_a_service_is_here_and_no_more(browser: Browser, site: Site) -> None:
    tab = opened(browser, address(site), phone=True, width=360)
    picture(tab, "status-door", "phone")
    text = tab.page.locator("body").inner_text()
    assert "password" in text
    for made in site.made.values():
        for word in (made.plan.name, made.plan.hash[:12], *NAMES):
            assert word not in text
    assert tab.complaints == []


def test_the_operator_walks_from_the_door_to_a_federation(browser: Browser, site: Site) -> None:
    tab = opened(browser, address(site, "status", site.password()))
    assert tab.page.title() == "Federations"
    assert sorted(tab.page.locator(".cards .state").all_text_contents()) == sorted(site.made)
    picture(tab, "status-overview", "desktop")
    links = [one.get_attribute("href") for one in tab.page.locator(".cards a").all()]
    tab.page.goto(address(site, f"{links[-1]}"))  # the browser sends the password for the whole site by itself
    assert tab.page.title() == "rare-drugs-2027"
    tab.page.goto(address(site))
    assert tab.page.title() == "Federations"


def test_a_members_password_opens_one_federation(browser: Browser, site: Site) -> None:
    page = opened(browser, address(site, "status", site.password("late"))).page
    assert page.title() == "late-trial"
    page.goto(address(site, site.made["open"].plan.hash, site.password("late")))
    assert "no such page" in page.locator("body").inner_text()


def test_a_page_loads_again_only_if_asked_to(browser: Browser, site: Site) -> None:
    where = address(site, site.made["open"].plan.hash, site.password())
    for query, reloads in (("", False), ("?live", True)):
        page = opened(browser, where + query).page
        assert (page.evaluate("document.querySelector('meta[http-equiv=refresh]')?.content") == "15") == reloads
    assert page.locator(".note a").all_text_contents() == ["Stop that"]


def test_keyboard_and_screen_reader_reach_everything(browser: Browser, site: Site) -> None:
    page = opened(browser, address(site, site.made["waiting"].plan.hash, site.password())).page
    asked = page.locator("a, summary, [tabindex]").count()
    reached = set()
    for _ in range(asked):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert len(reached) == asked
    for role in ("main", "heading", "list", "table", "columnheader", "rowheader", "navigation"):
        assert page.get_by_role(role).count() > 0, role
    waited = [page.get_by_role(role, name="those waited for") for role in ("table", "region")]
    assert sum(one.count() for one in waited) > 0
    assert page.locator("[aria-current=step]").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
