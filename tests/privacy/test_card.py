"""The card says what the ledger holds, in the same words in every format, and nothing private."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import mpmath
import pytest

from tests.refused import refused
from twofold.errors import LedgerBroken, PrivacyError
from twofold.privacy.accountant import price, spent
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP, best_guess
from twofold.privacy.card import Card, alone_cost, card_from_ledger, percent
from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    DiscreteLaplaceShareEvent,
    Event,
    NonPrivateEvent,
)
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.site_words import AuditResult, SiteWords
from twofold.privacy.unit import Unit
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.contract import ReleaseParameters
from twofold.report.card import card_page, headline, to_html, to_markdown
from twofold.report.page import Facts, Paragraph, Points, Table

NUMBERS = {"n_items": 457, "n_users": 900, "bound": 1, "max_items": 66, "n_prototypes": 10}
DATA = digest(b"the raw data")


def make(
    tmp_path: Path, events: list[Event] | None = None, *, unit: Unit | None = None, cost: Any = None, **about: Any
) -> Ledger:
    """A ledger with one release."""
    unit = unit or Unit.person()
    ceiling = NotPrivate(reason="any") if cost is None and events is not None else ApproxDP(epsilon=3, delta=1e-5)
    ledger = Ledger.create(tmp_path / "x.ledger", dataset=about.pop("dataset", "visits"), ceiling=ceiling, unit=unit)
    events = events or [DiscreteLaplaceEvent(unit=unit, sensitivity=66, scale=66, coordinates=4580)]
    asked = {"plan": digest(b"plan"), "data": DATA, "events": events, "unit": unit, "cost": cost}
    ledger.release(**asked, about={"what": "10 prototypes", **about}, draw=lambda: b"x" * 100)
    return ledger


@pytest.fixture
def card(tmp_path: Path) -> Card:
    return card_from_ledger(make(tmp_path, public_numbers=NUMBERS))


def test_the_guess_at_epsilon_one_is_73_percent(card):
    assert "one person" in headline(card)
    assert "at most 73.2%" in headline(card)
    assert [figure.cost for figure in card.figures] == ["ε = 1", "ε = 2", "ε = 1"]


def test_replace_one_is_twice_and_delta_grows(tmp_path):
    gauss = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=50, coordinates=9)
    made = card_from_ledger(make(tmp_path, [gauss], cost=ApproxDP(epsilon=1, delta=1e-6)))
    assert made.figures[1].epsilon == 2
    assert made.figures[1].delta == pytest.approx(1e-6 * (1 + 2.718281828), rel=1e-6)
    assert "δ is slack" in to_markdown(made)
    assert made.noise == pytest.approx(50**0.5)


def test_several_entities_are_stated(tmp_path):
    made = card_from_ledger(make(tmp_path, unit=Unit.person(entities=3)))
    assert made.figures[2].epsilon == 3
    assert "up to 3 of the participating entities" in made.protects


def test_noise_stands_against_signal_from_public_numbers(card):
    # sd of discrete Laplace noise of scale 66; 90 users a prototype, 66 of 457 items each
    assert card.noise == pytest.approx(2**0.5 * 66, rel=1e-3)
    assert card.signal is not None
    assert card.signal["low"] == pytest.approx(90 * 66 / 457)
    assert "0.14 to 0.37 times the noise. Noise hides single numbers" in to_markdown(card)


@pytest.mark.parametrize(
    ("users", "words"), [(5000, "if the people in a group are alike"), (10**6, "Single numbers stand out.")]
)
def test_more_people_stand_out(tmp_path, users, words):
    made = card_from_ledger(make(tmp_path, public_numbers={**NUMBERS, "n_users": users}))
    assert words in to_markdown(made)


def test_without_public_numbers_no_ratio_is_invented(tmp_path):
    made = card_from_ledger(make(tmp_path))
    assert made.signal is None
    assert "Noise against signal" not in to_markdown(made)


@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplaceEvent(unit=Unit.person(), seeded=True, sensitivity=1, scale=1, coordinates=1),
        NonPrivateEvent(unit=Unit.person(), reason="exact counts"),
    ],
)
def test_what_is_not_private_says_so_first(tmp_path, event):
    made = card_from_ledger(make(tmp_path, [event]))
    assert not made.private
    assert (made.protects, made.against) == ("nobody", "nobody")
    assert "NOT PRIVATE" in to_markdown(made).splitlines()[2]
    assert "NOT PRIVATE" in to_html(made)
    assert "73.2%" not in to_html(made)
    assert json.loads(made.to_json())["figures"][0]["epsilon"] == "infinite"


def test_a_share_of_noise_promises_nothing_alone(tmp_path):
    share = DiscreteLaplaceShareEvent(unit=Unit.person(), sensitivity=1, scale=1, parties=5, coordinates=3)
    made = card_from_ledger(make(tmp_path, [share], cost=PureDP(epsilon=1)))
    assert "the published sum " in headline(made)
    assert "this message alone: 100%" in headline(made)
    assert made.not_promised[0].startswith("Anything about this message alone")


def test_a_visit_is_less_than_a_person(tmp_path):
    made = card_from_ledger(make(tmp_path, unit=Unit.visit()))
    assert made.protects == "each single visit"
    assert "v visits cost v times" in made.not_promised[0]


def test_all_releases_are_added_up(tmp_path):
    ledger = make(tmp_path)
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=2, coordinates=1)
    ledger.release(plan=digest(b"2"), data=DATA, events=[event], unit=Unit.person(), draw=lambda: b"more")
    assert card_from_ledger(ledger).spent == "ε = 1.5"
    assert card_from_ledger(ledger).figures[0].epsilon == 0.5
    assert card_from_ledger(ledger, record=1).figures[0].epsilon == 1
    assert card_from_ledger(ledger, record=1).figures[-1].epsilon == 1.5


def test_the_headline_speaks_of_this_release_and_then_of_all(tmp_path):
    """First reader A1: one sentence mixed the guess of all releases with that of one message."""
    ledger = make(tmp_path)
    assert "together" not in headline(card_from_ledger(ledger))
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=1, coordinates=1)
    ledger.release(plan=digest(b"2"), data=DATA, events=[event], unit=Unit.person(), draw=lambda: b"more")
    made = card_from_ledger(ledger)
    first, _, second = headline(made).partition("All 2 releases together")
    assert re.findall(r"[\d.]+%", first) == ["73.2%", "50%"]
    assert re.findall(r"[\d.]+%", second) == ["88.1%"]  # of ε = 2
    assert made.guess == made.figures[0].guess
    assert made.all_alone is None


def secure(tmp_path: Path, *costs: Any, **about: Any) -> Ledger:
    """A ledger with one release of a secure sum for each cost; 2 honest entities."""
    unit = Unit.person()
    ceiling = ApproxDP(epsilon=9, delta=1e-3)
    ledger = Ledger.create(tmp_path / "s.ledger", dataset="visits", ceiling=ceiling, unit=unit)
    for count, cost in enumerate(costs):
        delta = getattr(cost, "delta", 0)
        public = ReleaseParameters(n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=delta, honest=2)
        asked = {"plan": digest(b"%d" % count), "data": DATA, "unit": unit, "cost": cost, "about": about}
        ledger.release(**asked, events=[Bilinear(kind="gram").spec(public).event], draw=lambda: b"sum")
    return ledger


GAUSS = ApproxDP(epsilon=1, delta=1e-6)


def test_all_messages_alone_are_added_up(tmp_path):
    """First reader A1: two messages alone together stood nowhere; here they are twice one."""
    ledger = secure(tmp_path, GAUSS, GAUSS, entities=4, survivors=4, colluders=1)
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=2, coordinates=1)
    made = card_from_ledger(ledger)
    assert made.alone is not None
    assert made.all_alone is not None
    assert made.all_alone.epsilon == pytest.approx(2 * made.alone.epsilon)
    assert not made.all_alone.headline
    first, _, second = headline(made).partition("All 2 releases together")
    assert re.findall(r"[\d.]+%", first) == [percent(made.guess), "50%", percent(made.alone.guess)]
    assert re.findall(r"[\d.]+%", second) == ["88.1%", percent(made.all_alone.guess)]
    ledger.release(plan=digest(b"plain"), data=DATA, events=[event], unit=Unit.person(), draw=lambda: b"more")
    plain = card_from_ledger(ledger)
    assert plain.alone is None
    assert plain.all_alone is not None
    assert plain.all_alone.epsilon == pytest.approx(made.all_alone.epsilon + 0.5)


def test_one_message_without_a_bound_makes_all_of_them_infinite(tmp_path):
    made = card_from_ledger(secure(tmp_path, GAUSS, PureDP(epsilon=1)), record=1)
    assert made.alone is not None
    assert math.isfinite(made.alone.epsilon)
    assert made.all_alone is not None
    assert (made.all_alone.cost.partition(",")[0], made.all_alone.guess) == ("ε = infinite", 1)


def test_the_headline_counts_messages_not_shares_of_noise(tmp_path):
    """First reader B1: "the sum of 2 such messages" named the number of noise shares."""
    assert "sum (at least 4 messages)" in headline(
        card_from_ledger(secure(tmp_path, GAUSS, entities=4, survivors=4, colluders=1))
    )


def test_a_draw_that_failed_is_charged_and_said(tmp_path):
    ledger = make(tmp_path)
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=1, coordinates=1)

    def fail() -> bytes:
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError):
        ledger.release(plan=digest(b"2"), data=DATA, events=[event], unit=Unit.person(), draw=fail)
    said = headline(card_from_ledger(ledger))
    assert "charged so far: at most 88.1%" in said


def test_the_guess_follows_from_the_printed_figures(tmp_path):
    """First reader B4: ε = 1.46 stood beside 81.0%, which is the guess at 1.45."""
    made = card_from_ledger(secure(tmp_path, GAUSS))
    for figure in made.figures:
        epsilon, _, delta = figure.cost.removeprefix("ε = ").partition(", δ = ")
        assert figure.guess == best_guess(float(epsilon), float(delta))
        assert float(epsilon) >= figure.epsilon


def test_unlimited_computing_is_promised_of_the_noise_only(tmp_path):
    """First reader B3: "no matter how long they compute", yet masks are ciphers."""
    made = card_from_ledger(secure(tmp_path, GAUSS, colluders=1))
    assert made.alone is not None
    shown = made.alone.cost.partition(",")[0]
    assert "how long they compute" not in made.against
    assert made.against.endswith(f"X25519 or ChaCha20 is broken, now or later on recorded messages, {shown} remains")
    (tmp_path / "plain").mkdir()
    assert "how long they compute" in card_from_ledger(make(tmp_path / "plain")).against


def test_the_card_names_what_it_assumes(tmp_path):
    """First reader: these stood on the promise page only."""
    made = card_from_ledger(secure(tmp_path, GAUSS))
    for assumed in ("one ledger, never set back", "unchanged software", "one id per person", "one plan", "no intruder"):
        assert assumed in rows(made)["Site"]
    assert "under one id; the plan assumes nobody is in more than 1 entity" in rows(made)["Protects"]
    assert "X25519, HKDF, ChaCha20, Poly1305" in made.trust
    (tmp_path / "plain").mkdir()
    assert "one plan" not in rows(card_from_ledger(make(tmp_path / "plain")))["Site"]


def test_the_attack_tests_name_what_they_attacked(tmp_path):
    """First reader: "32 attempts" did not say on what, nor of which version."""
    ran = AuditResult(
        at="2026-05-03T10:00:00Z", software="twofold 1", passed=True, sound=9, broken=4, mechanisms=("gram", "sulq")
    )
    said = rows(card_from_ledger(secure(tmp_path, GAUSS), audit=ran))["Attack tests"]
    assert "(gram, sulq)" in said
    assert "twofold 1, another version" in said
    assert "not the masks" in said


def test_one_person_in_several_entities_is_in_the_headline(tmp_path):
    assert "88.1%" in headline(card_from_ledger(make(tmp_path, unit=Unit.person(entities=2))))


def test_a_simulation_is_not_private_whatever_it_spent(tmp_path):
    made = card_from_ledger(make(tmp_path, simulation=True))
    assert not made.private
    assert headline(made).startswith("NOT PRIVATE")


def test_the_version_of_the_data_is_stated(tmp_path):
    ledger = make(tmp_path)
    assert card_from_ledger(ledger).version == "1"
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=2, coordinates=1)
    asked = {"plan": digest(b"plan"), "data": DATA, "events": [event], "unit": Unit.person(), "version": "<May>"}
    ledger.release(**asked, draw=lambda: b"more")
    assert card_from_ledger(ledger).version == "<May>"
    assert "&lt;May&gt;" in to_html(card_from_ledger(ledger))


def test_reasons_of_raises_stand_on_the_card_and_cannot_make_it_too_long(tmp_path):
    ledger = make(tmp_path)
    ledger.raise_ceiling(ApproxDP(epsilon=11, delta=1e-3), reason="minutes of\n3 May")
    card = card_from_ledger(ledger)
    said = f"{ledger.state().raises[0].at[:10]} to ε = 11, δ = 0.001"
    for told in (card.renews, to_markdown(card).replace("\\", ""), to_html(card)):
        assert "1 so far" in told
        assert "minutes of?3 May" in told
    assert said in card.renews
    for number in range(12, 40):
        ledger.raise_ceiling(ApproxDP(epsilon=number, delta=1e-3), reason="x" * 900)
    many = card_from_ledger(ledger)
    assert many.is_sane
    assert "before that, in the ledger" in many.renews
    assert "ε = 39" in many.renews


def test_a_card_of_nothing_is_refused(tmp_path):
    ledger = make(tmp_path)
    with pytest.raises(PrivacyError, match="one of the records 1"):
        card_from_ledger(ledger, record=2)
    empty = Ledger.create(tmp_path / "e.ledger", dataset="x", ceiling=PureDP(epsilon=1), unit=Unit.person())
    with pytest.raises(PrivacyError, match="a ledger with a release"):
        card_from_ledger(empty)


def test_every_format_says_the_same(card):
    page, text = to_html(card), re.sub(r"\\(.)", r"\1", to_markdown(card))
    shown = _Text(page).text
    for section in card_page(card).sections:
        for said in [section.title, *(words for block in section.blocks for words in _said(block))]:
            assert said in text
            assert said in shown


def _said(block: Any) -> list[str]:
    match block:
        case Paragraph(text):
            return [text]
        case Points(points):
            return list(points)
        case Facts(rows=rows):
            return [cell for row in rows for cell in row]
        case Table(columns=columns, rows=rows):
            return [*(column.name for column in columns), *(cell for row in rows for cell in row)]
    raise AssertionError(block)


def test_the_page_has_every_section_once(card):
    names = [value for _, attrs in _Text(to_html(card)).tags for key, value in attrs if key == "id"]
    assert names == [
        "hatched",
        "section-what-left-and-whom-it-protects",
        "section-1-the-guarantee",
        "section-2-what-could-weaken-it",
        "section-3-what-it-rests-on",
        "section-what-is-not-promised",
        "section-who-decided",
        "section-where-it-is-recorded",
    ]


def test_the_page_is_one_sheet_that_can_be_dark(card):
    page = to_html(card)
    assert '<body class="sheet">' in page
    assert "<nav" not in page
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"=\"#[0-9a-f]{3}", page)  # every colour is the style sheet's


def test_the_gauge_shows_how_far_the_guess_is_from_a_coin(card):
    bars = [dict(attrs) for tag, attrs in _Text(to_html(card)).tags if tag == "rect"]
    reach = next(int(bar["width"]) for bar in bars if bar.get("fill") == "url(#hatched)")
    assert reach == round(170 * (card.guess - 0.5) * 2) == 79
    assert 'aria-label="best guess 73.2%"' in to_html(card)


def test_no_format_holds_the_digest_of_the_data(card):
    for content in (to_html(card), to_markdown(card), card.to_json()):
        assert DATA not in content
        assert card.record_hash in content


def test_the_page_fetches_nothing_and_runs_nothing(card):
    page = to_html(card)
    tags = {tag for tag, _ in _Text(page).tags}
    assert not tags & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?://|@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_a_name_cannot_become_markup(tmp_path):
    made = card_from_ledger(make(tmp_path, dataset="<script>alert(1)</script> | *x*"))
    assert "<script>" not in to_html(made)
    assert "<script>" not in to_markdown(made).replace("\\<", "")


def test_the_card_reads_from_the_file_alone(tmp_path):
    ledger = make(tmp_path, public_numbers=NUMBERS)
    before = card_from_ledger(ledger)
    assert card_from_ledger(Ledger(ledger.path)) == before
    assert Card(**vars(before)) == before


class _Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.tags: list[tuple[str, Any]] = []
        self.feed(page)

    @property
    def text(self) -> str:
        return "\n".join(self.parts)

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, attrs))


def test_both_figures_of_a_secure_sum(tmp_path):
    """ε = 1 for the sum of 205 entities is about 21 for one message alone, should all others collude."""
    public = ReleaseParameters(n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=1e-6, honest=205)
    event = Bilinear(kind="gram").spec(public).event
    made = card_from_ledger(make(tmp_path, [event], cost=ApproxDP(epsilon=1, delta=1e-6)))
    assert made.alone is not None
    assert made.alone.epsilon == pytest.approx(Bilinear(kind="gram").spec(public).sum.alone_epsilon)
    assert 21 < made.alone.epsilon < 22
    assert (made.figures[0].epsilon, made.parties, made.alone.headline) == (1, 205, False)
    assert "at most 73.2%" in headline(made)
    assert f"this message alone: {percent(made.alone.guess)}" in headline(made)
    assert "the published sum " in headline(made)
    for text in (to_markdown(made), to_html(made)):
        assert "this message alone" in text
    assert json.loads(made.to_json())["figures"][2]["epsilon"] == made.alone.epsilon


def test_a_share_of_a_laplace_alone_promises_nothing(tmp_path):
    public = ReleaseParameters(n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=0, honest=205)
    event = Bilinear(kind="gram").spec(public).event
    assert isinstance(event, DiscreteLaplaceShareEvent)
    made = card_from_ledger(make(tmp_path, [event], cost=PureDP(epsilon=1)))
    assert made.alone is not None
    assert made.alone.epsilon == float("inf")
    assert json.loads(made.to_json())["figures"][2]["epsilon"] == "infinite"
    assert made.alone.guess == 1
    assert made.guess == pytest.approx(0.731, abs=1e-3)


def test_one_party_has_no_figure_alone(card):
    assert card.alone is None
    assert "alone" not in headline(card)


def test_several_shares_are_not_priced_alone():
    """Nothing is proved of one entity's part of several shared noises, so nothing is promised."""
    public = ReleaseParameters(n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=1e-6, honest=205)
    event = Bilinear(kind="gram").spec(public).event
    assert alone_cost([event], ApproxDP(epsilon=1, delta=1e-6)).epsilon < 22
    assert alone_cost([event, event], ApproxDP(epsilon=1, delta=1e-6)).epsilon == float("inf")


@pytest.mark.parametrize("entities", [2, 10, 20])
def test_a_person_in_several_entities_of_one_sum(tmp_path, entities):
    """Exact for a person of full length: N(0, s²) against N(m Δ, s²). The stated pair must hold, and be near."""
    unit = Unit.person(entities=entities)
    public = ReleaseParameters(
        n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=1e-6, honest=205, unit=unit
    )
    event = Bilinear(kind="gram").spec(public).event
    made = card_from_ledger(make(tmp_path, [event], unit=unit, cost=ApproxDP(epsilon=1, delta=1e-6)))
    stated = next(one for one in made.figures if "of this one sum" in one.meaning)
    distance = entities**2 * event.sensitivity_squared / (event.parties * event.variance)
    assert stated.delta == pytest.approx(1e-6)
    assert _exact_delta(distance, stated.epsilon) <= stated.delta
    assert _exact_delta(distance, 0.85 * stated.epsilon) > stated.delta
    if entities >= 10:  # m separate releases would cost m ε: too little here
        assert _exact_delta(distance, entities) > entities * 1e-6


def _exact_delta(squared: Fraction, epsilon: float) -> mpmath.mpf:
    """Of continuous noise; in 40 digits, as the price is this close."""
    with mpmath.workdps(40):
        distance = mpmath.sqrt(mpmath.mpf(squared.numerator) / squared.denominator)
        inside, outside = distance / 2 - epsilon / distance, -distance / 2 - epsilon / distance
        return mpmath.ncdf(inside) - mpmath.exp(epsilon) * mpmath.ncdf(outside)


def rows(card: Card) -> dict[str, str]:
    """All rows of facts on the page."""
    blocks = [block for section in card_page(card).sections for block in section.blocks]
    return {name: text for block in blocks if isinstance(block, Facts) for name, text in block.rows}


def test_every_row_that_an_officer_or_a_registry_asks_for(card):
    assert set(rows(card)) >= {
        *("Curator", "Intended use", "Region", "Sector"),
        *("Variant", "Composition", "Budget", "Releases", "Data"),
        *("Preprocessing", "Tuning", "Post-processing", "Timing", "Attack tests", "Software", "Randomness"),
        *("Model", "Access", "Collection", "Neighbours", "Shown without noise"),
        *("Why this ε", "Decided by", "DPIA", "DP officer"),
        *("Record", "Record hash", "Ledger head", "Release SHA-256", "Plan SHA-256", "Data version", "Signed"),
    }


def test_what_the_site_does_not_say_is_not_stated(card):
    said = rows(card)
    for name in ("Curator", "Intended use", "Region", "Sector", "Why this ε", "Decided by", "DPIA"):
        assert said[name] == "not stated"
    assert "not run here" in said["Attack tests"]
    assert "not signed" in said["Signed"]


def test_the_site_s_words_are_on_the_card(tmp_path):
    site = SiteWords(curator="St. Anna", curator_type="Nonprofit", use="tests", dpia="DPIA-14", tuning="on open data")
    ran = AuditResult(at="2026-05-03T10:00:00Z", software="twofold 1", passed=True, sound=9, broken=4)
    said = rows(card_from_ledger(make(tmp_path), statement=site, audit=ran))
    assert (said["Curator"], said["Intended use"], said["DPIA"]) == ("St. Anna (Nonprofit)", "tests", "DPIA-14")
    assert "on open data" in said["Tuning"]
    assert "passed on 2026-05-03" in said["Attack tests"]


def test_the_variant_and_rho_are_named(tmp_path, card):
    assert card.rho is None
    assert "pure" in rows(card)["Variant"]
    (tmp_path / "g").mkdir()
    gauss = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=50, coordinates=9)
    made = card_from_ledger(make(tmp_path / "g", [gauss], cost=ApproxDP(epsilon=1, delta=1e-6)))
    assert made.rho == pytest.approx(0.01)
    assert "approximate" in rows(made)["Variant"]
    assert "ρ = 0.01 " in rows(made)["Variant"]


def test_a_simulation_has_no_variant(tmp_path):
    made = card_from_ledger(make(tmp_path, simulation=True))
    assert made.variant == "none"
    assert made.weak == ()


def share(tmp_path: Path, **about: Any) -> Card:
    public = ReleaseParameters(n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=1e-6, honest=17)
    event = Bilinear(kind="gram").spec(public).event
    return card_from_ledger(make(tmp_path, [event], cost=ApproxDP(epsilon=1, delta=1e-6), **about))


def test_a_secure_sum_says_how_many_may_collude(tmp_path):
    """Audit H1: `colluders` stood neither on the card nor anywhere else."""
    made = share(tmp_path, entities=20, survivors=18, colluders=1)
    assert (made.entities, made.survivors, made.colluders, made.parties) == (20, 18, 1, 17)
    assert rows(made)["Secure sum"] == (
        "entities: 20 named in the plan; survivors: 18 or more needed in the sum; "
        "colluders: 1 may work with the server; "
        "honest: the noise of at least 17 entities, this one and 16 more, suffices"
    )
    assert "at most 1 works with the server and at least 17 entities, this one and 16 more," in made.against
    for text in (to_markdown(made), to_html(made)):
        assert "colluders: 1" in text
        assert "20 names are 20 institutions" in text


@pytest.mark.parametrize("colluders", [None, "1", -1, True, 1.5])
def test_an_older_ledger_records_no_colluders(tmp_path, colluders):
    made = share(tmp_path, **({} if colluders is None else {"colluders": colluders}))
    assert made.colluders is None
    assert "colluders: not recorded" in rows(made)["Secure sum"]
    assert "colluders: not recorded" in made.trust


@pytest.mark.parametrize(("epsilon", "delta", "marks"), [(25, 0.01, 2), (25, 1e-6, 1), (2, 0.01, 1), (2, 1e-6, 0)])
def test_a_weak_promise_is_marked_first(tmp_path, epsilon, delta, marks):
    """Audit L4: ε above 20 and δ above one in the number of people."""
    gauss = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=18, coordinates=9)
    ledger = Ledger.create(
        tmp_path / "w.ledger", dataset="v", ceiling=ApproxDP(epsilon=30, delta=0.2), unit=Unit.person()
    )
    asked = {"plan": digest(b"plan"), "data": DATA, "events": [gauss], "unit": Unit.person()}
    cost = ApproxDP(epsilon=epsilon, delta=delta)
    ledger.release(**asked, cost=cost, about={"public_numbers": NUMBERS}, draw=lambda: b"x")
    made = card_from_ledger(ledger)
    assert len(made.weak) == marks
    assert to_markdown(made).partition("##")[0].count("WEAK") == marks
    assert to_html(made).partition("<section")[0].count("WEAK") == marks


def test_the_limits_are_the_plan_s(card):
    assert "at most 66 items" in rows(card)["Preprocessing"]


def test_several_releases_are_many(tmp_path):
    ledger = make(tmp_path)
    assert rows(card_from_ledger(ledger))["Releases"].startswith("one release")
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=2, coordinates=1)
    ledger.release(plan=digest(b"2"), data=DATA, events=[event], unit=Unit.person(), draw=lambda: b"more")
    assert rows(card_from_ledger(ledger))["Releases"].startswith("many releases: 2")


@pytest.mark.parametrize(
    "numbers", [{"n_users": 900}, {**NUMBERS, "n_prototypes": 0}, {**NUMBERS, "bound": "x"}, [1, 2], "text", 7]
)
def test_a_record_with_impossible_facts_is_refused(tmp_path, numbers):
    """Audit L1: foreign exceptions from ledger files."""
    with refused(LedgerBroken, "about", found="record 1"):
        card_from_ledger(make(tmp_path, public_numbers=numbers))


def test_limits_of_a_sum_are_shown_where_they_are_recorded(tmp_path):
    made = share(tmp_path, n_users=40, bound=5, max_items=4)
    assert "at most 4 items" in made.preprocessing


WORDS = {"clinic": "skeleton sunset", "uni": "admiral giraffe"}


def operated(tmp_path: Path, *, times: int = 1, unit: Unit | None = None, **changes: Any) -> Card:
    """A card of a sum with two operators."""
    honest, delta, about = changes.pop("honest", 0), changes.pop("delta", 1e-6), {"operators": WORDS, "floor": 103}
    unit, cost = unit or Unit.person(), ApproxDP(epsilon=1, delta=delta) if delta else PureDP(epsilon=1)
    public = ReleaseParameters(
        n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=delta, operators=2, honest=honest, unit=unit
    )
    ledger = Ledger.create(tmp_path / "o.ledger", dataset="v", ceiling=ApproxDP(epsilon=9, delta=1e-3), unit=unit)
    about |= {"sharing": "operators", "entities": 205, "colluders": 1, "noise": "operators", "writer": "anna"}
    for count in range(times):
        asked = {"plan": digest(b"%d" % count), "data": DATA, "unit": unit, "cost": cost, "about": about | changes}
        ledger.release(**asked, events=[Bilinear(kind="gram").spec(public).event], draw=lambda: b"sealed")
    return card_from_ledger(ledger)


def test_a_card_of_two_operators_prices_one_noise_and_has_a_row_for_every_coalition(tmp_path):
    """It called the message plain: "the entity draws all of the noise itself"."""
    made = operated(tmp_path)
    found = {one.meaning.partition(", ")[2]: one for one in made.figures}
    assert made.sharing == "operators"
    assert made.figures[0].epsilon == 1
    assert "against one operator and any number of entities" in made.figures[0].meaning
    (readers,) = (one for meaning, one in found.items() if "against readers of the sum" in meaning)
    assert readers.epsilon == pytest.approx(0.689, abs=1e-3)
    assert not readers.headline
    assert made.readers == readers
    assert (
        percent(made.guess) in headline(made).partition("Readers")[0]
    )  # of one operator, who knows more than a reader
    assert "One operator alone" in headline(made)
    assert percent(readers.guess) in headline(made)
    assert made.alone is not None
    assert made.alone.epsilon == math.inf
    assert "both operators work together" in made.alone.meaning
    assert Card.from_dict(json.loads(made.to_json())) == made


@pytest.mark.parametrize("write", [to_markdown, to_html])
def test_a_card_of_two_operators_says_who_adds_noise_and_what_breaks_it(tmp_path, write):
    said = write(operated(tmp_path))
    for fact in (
        *WORDS,
        *WORDS.values(),
        "floor: 103 entities or more",
        "The entity adds no noise",
        "If both operators work together: 100%",
        "If both work together, or one administrator reaches both, your exact sums are open to them",
        "A plan writer who owns both operators reads everything",
        "the operators draw their noise on their own machines",
    ):
        assert fact in said
    for untrue in ("draws all of the noise itself", "server is not trusted", "honest: the noise of"):
        assert untrue not in said


def test_a_writer_who_is_an_operator_is_named(tmp_path):
    assert "uni wrote the plan and is one of its operators, which must not be" in operated(tmp_path, writer="uni").trust


def test_a_share_of_the_entity_is_left_when_both_operators_work_together(tmp_path):
    made = operated(tmp_path, honest=101)
    assert made.alone is not None
    assert 1 < made.alone.epsilon < math.inf
    assert "only your share of the noise hides your sums" in made.trust
    assert made.figures[0].epsilon == 1


def test_pure_noise_of_operators(tmp_path):
    made = operated(tmp_path, delta=0)
    assert [one.epsilon for one in made.figures] == [1, 2, 1, math.inf, 1]


def test_people_are_told_that_they_are_seen(tmp_path):
    assert "not that one was sent" in operated(tmp_path, people=True).unprotected[0]


def test_all_sums_open_if_both_operators_work_together_each_time(tmp_path):
    made = operated(tmp_path, times=2)
    assert made.all_alone is not None
    assert made.all_alone.epsilon == math.inf


def test_a_person_in_several_entities_of_an_operators_sum(tmp_path):
    made = operated(tmp_path, unit=Unit.person(entities=3))
    (across,) = (one for one in made.figures if "3 entities of this one sum" in one.meaning)
    public = ReleaseParameters(n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=1e-6, operators=2)
    event = Bilinear(kind="gram").spec(public).event
    assert across.epsilon == pytest.approx(float(spent(event, delta=1e-6, units=3).epsilon))
    assert 3 < across.epsilon < float(ZCDP(rho=9 * price(event).rho).to_approx(1e-6).epsilon)
    assert made.guess == across.guess


def test_shares_beside_another_event_are_not_priced_alone():
    """The other event's cost would be missing."""
    public = ReleaseParameters(n_items=12, n_users=40, max_items=4, bound=5, epsilon=1, delta=1e-6, honest=5)
    event = Bilinear(kind="gram").spec(public).event
    other = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=1, coordinates=1)
    assert alone_cost([event, other], ApproxDP(epsilon=3, delta=1e-6)).epsilon == math.inf


def test_a_card_of_two_operators_whose_entities_add_the_noise(tmp_path):
    about = {"sharing": "operators", "operators": WORDS, "floor": 9, "entities": 10, "colluders": 1, "writer": "clinic"}
    made = card_from_ledger(secure(tmp_path, GAUSS, **about))
    assert (made.sharing, made.parties, made.survivors) == ("operators", 2, 9)
    assert made.alone is not None
    assert 1 < made.alone.epsilon < math.inf
    assert "The operators add no noise; each entity adds its share" in made.trust
    assert "clinic wrote the plan and is one of its operators" in made.trust
    said = to_markdown(made)
    assert "colluders: 1 may work with one operator" in said
    assert "honest: the noise of at least 2 entities" in said
    assert "exact sums are open to them" not in said


@pytest.mark.parametrize("operators", [5, "uni", [1, 2], {"uni": 3}, None])
def test_operators_that_no_plan_has_break_no_card(tmp_path, operators):
    """A ledger is a file: what others wrote into it becomes a card or a refusal."""
    try:
        made = operated(tmp_path, operators=operators)
    except LedgerBroken:
        return
    assert "Two operators" in made.trust
