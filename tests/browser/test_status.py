"""The status page in a real browser: states, light and dark, phone width, keyboard, sign-in, nothing fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.browser.chromium import Tab, chromium, found
from tests.enrolled import Enrolled, enrolled
from tests.served import hosted, release_of, small_plan
from twofold.federation.https import Client, Connection, HttpsMailbox
from twofold.federation.mailbox import ROUNDS
from twofold.report.status_site import PASSWORD_FILE, status_routes
from twofold.server.service.app import Service, build_app
from twofold.server.service.run import Running, server_of

pytestmark = pytest.mark.skipif(found() is None, reason="needs Chromium (Debian: apt install chromium)")

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
def tab() -> Iterator[Tab]:
    with chromium() as one:
        yield one


def address(site: Site, path: str = "", password: str | None = None) -> str:
    """An address with the password in it, as a bookmark could have it."""
    base = site.url if password is None else site.url.replace("://", f"://reader:{password}@")
    return f"{base}/{path}"


@pytest.mark.parametrize("state", ["open", "waiting", "late", "closed"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_state_fits_every_screen(
    tab: Tab, site: Site, state: str, width: str, dark: bool, tmp_path: Path
) -> None:
    plan = site.made[state].plan
    tab.open(address(site, plan.hash, site.password()), width=WIDTHS[width], dark=dark, phone=width == "phone")
    told = tab.value("document.querySelector('.notice p').textContent").casefold()
    assert told.startswith(state)
    assert tab.value("document.documentElement.scrollWidth") <= WIDTHS[width]
    ground = tab.value("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == dark
    assert tab.complaints() == []
    assert {one.rpartition("/")[2] for one in tab.requests()} <= {plan.hash, "favicon.ico"}
    tab.picture(tmp_path / "page.png")
    if PICTURES is not None:
        (tmp_path / "page.png").rename(Path(PICTURES) / f"status-{state}-{width}{'-dark' if dark else ''}.png")


def test_text_stands_out_from_its_ground_in_light_and_dark(tab: Tab, site: Site) -> None:
    """WCAG asks for 4.5 to 1."""
    for dark in (False, True):
        tab.open(address(site, site.made["waiting"].plan.hash, site.password()), dark=dark)
        pairs = tab.value(COLOURS)
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


def test_a_stranger_sees_that_a_service_is_here_and_no_more(site: Site) -> None:
    with chromium() as tab:  # a browser that remembers no password
        tab.open(address(site), phone=True, width=360)
        text, complaints = tab.value("document.body.textContent"), tab.complaints()
        if PICTURES is not None:
            tab.picture(Path(PICTURES) / "status-door-phone.png")
    assert "password" in text
    for made in site.made.values():
        for word in (made.plan.name, made.plan.hash[:12], *NAMES):
            assert word not in text
    assert complaints == []


def test_the_operator_walks_from_the_door_to_a_federation(site: Site) -> None:
    with chromium() as tab:
        tab.open(address(site, "status", site.password()))
        assert tab.value("document.title") == "Federations"
        shown = tab.value("[...document.querySelectorAll('.cards .state')].map(one => one.textContent)")
        assert sorted(shown) == sorted(site.made)
        if PICTURES is not None:
            tab.picture(Path(PICTURES) / "status-overview-desktop.png")
        links = tab.value("[...document.querySelectorAll('.cards a')].map(one => one.getAttribute('href'))")
        tab.open(address(site, links[-1]))  # the browser sends the password for the whole site by itself
        assert tab.value("document.title") == "rare-drugs-2027"
        tab.open(address(site))
        assert tab.value("document.title") == "Federations"


def test_a_members_password_opens_one_federation(site: Site) -> None:
    with chromium() as tab:
        tab.open(address(site, "status", site.password("late")))
        assert tab.value("document.title") == "late-trial"
        tab.open(address(site, site.made["open"].plan.hash, site.password("late")))
        assert "no such page" in tab.value("document.body.textContent")


def test_a_page_loads_again_only_if_asked_to(tab: Tab, site: Site) -> None:
    where = address(site, site.made["open"].plan.hash, site.password())
    for query, reloads in (("", False), ("?live", True)):
        tab.open(where + query)
        assert (tab.value("document.querySelector('meta[http-equiv=refresh]')?.content") == "15") == reloads
    assert tab.value("[...document.querySelectorAll('.note a')].map(one => one.textContent)") == ["Stop that"]


def test_keyboard_and_screen_reader_reach_everything(tab: Tab, site: Site) -> None:
    tab.open(address(site, site.made["waiting"].plan.hash, site.password()))
    asked = tab.value("document.querySelectorAll('a, summary, [tabindex]').length")
    reached = set()
    for _ in range(asked):
        tab.press("Tab", 9)
        reached.add(tab.value("document.activeElement.outerHTML"))
        assert tab.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert len(reached) == asked
    tree = tab.ask("Accessibility.getFullAXTree")["nodes"]
    roles = [one["role"]["value"] for one in tree if not one["ignored"]]
    names = [one["name"]["value"] for one in tree if not one["ignored"] and one["role"]["value"] in ("table", "region")]
    assert {"main", "heading", "list", "table", "columnheader", "rowheader", "navigation"} <= set(roles)
    assert any("those waited for" in name for name in names)
    assert tab.value("document.querySelectorAll('[aria-current=step]').length") == 1
    levels = tab.value("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
