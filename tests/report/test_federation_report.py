"""The report says what happened, plainly, also when nothing was gained or nothing was private."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import pytest

from twofold.errors import BadParameter, BadShape
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.report.federation import FederationRun, budget_words, coalition_words, headline, kept_of_the_gain, verdict
from twofold.report.federation_page import federation_page, plan_words

Make = Callable[..., FederationRun]


def words(run: FederationRun) -> str:
    """What a reader sees, without markup."""
    text = federation_page(run, title="T", subtitle="S").html()
    return unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)))


def test_a_gain_is_called_one(made_up: Make) -> None:
    first, more = headline(made_up(gain=0.03))
    assert first.startswith("Joining helped")
    assert "12 of 12 hospitals" in more[0]
    assert more[1].startswith("Smallest quarter")
    assert "mean rank" in more[2]


def test_no_gain_is_said_plainly(made_up: Make) -> None:
    first, more = headline(made_up(gain=0.0005))
    assert "not measurably help" in first
    assert "not measurably different" in more[0]
    assert first != headline(made_up(gain=0.03))[0]


def test_a_loss_is_said_plainly(made_up: Make) -> None:
    run = made_up(gain=-0.05)
    assert "HURT" in headline(run)[0]
    assert "WORSE than alone" in words(run)


def test_the_smallest_are_named_when_theirs_is_another_story(made_up: Make) -> None:
    run = made_up(gain=0.0)
    alone = np.array(run.system("alone").ndcg)
    small = np.arange(12) < 3
    lifted = alone + np.where(small, 0.05, 0.0) + np.where(small, 0.001, 0.02) * np.resize([1, -1], 12)
    systems = tuple(replace(one, ndcg=tuple(lifted)) if one.key == "private" else one for one in run.systems)
    first, _ = headline(replace(run, systems=systems))
    everywhere, small_ones = first.split(". ")
    assert "not measurably help" in everywhere
    assert "smallest quarter of the hospitals" in small_ones
    assert "helped" in small_ones


def test_too_little_to_say_is_not_a_verdict(made_up: Make) -> None:
    run = made_up(n=1)
    assert run.gain().verdict == "unknown"
    assert "Too little" in headline(run)[0]
    assert "cannot be compared" in verdict(run)


def test_what_privacy_costs_is_a_share_of_the_gain(made_up: Make) -> None:
    kept = kept_of_the_gain(_without_scatter(made_up(gain=0.03)), "non_private")
    assert all(fact in kept for fact in ("0.0500", "0.0300", "60%"))
    nothing_kept = kept_of_the_gain(made_up(gain=0.0), "non_private")
    assert "0.0200" in nothing_kept
    assert "%" not in nothing_kept
    assert not re.search(r"\d", kept_of_the_gain(made_up(gain=-0.05), "non_private"))  # nothing to keep


def _without_scatter(run: FederationRun) -> FederationRun:
    """Gains of 0.03 and 0.05 at every entity, with hardly any scatter."""
    alone, tiny = np.array(run.system("alone").ndcg), 1e-6 * np.arange(len(run.entities))
    gains = {"private": 0.03, "non_private": 0.05}
    systems = tuple(
        replace(one, ndcg=tuple(alone + gains[one.key] + tiny)) if one.key in gains else one for one in run.systems
    )
    return replace(run, systems=systems)


def test_a_run_that_is_not_private_says_so_first(made_up: Make) -> None:
    page = federation_page(made_up(private=False))
    assert page.notice is not None
    assert page.notice.text.startswith("NOT PRIVATE")
    assert page.notice.warning
    assert "NOT PRIVATE" in dict(plan_words(made_up(private=False)))["Protects"]
    assert "NOT PRIVATE" not in words(made_up())


def test_the_plan_is_told_with_its_hash(made_up: Make) -> None:
    run = made_up()
    told = dict(plan_words(run))
    assert told["Plan SHA-256"] == run.plan.hash
    assert "73.2%" in told["Meaning"]
    assert "60 items" in told["Cut before release"]
    assert run.plan.hash in words(run)
    assert budget_words(run.plan.with_(delta=0)) == "ε = 1"


def test_every_part_is_on_the_page(made_up: Make) -> None:
    text = words(made_up())
    for part in (
        "hospital-011",
        "37,104",
        "ε = 1, δ = 1e-6",
        "Private federation",
        "Popularity, shared privately",
        "Federation without noise",
        "item-item",
        "003-00001",
        "heparin",
        "Everything is simulated.",
        "round 1",
        "Five entries of every fifth patient",
    ):
        assert part in text, part


def test_many_entities_are_folded(made_up: Make) -> None:
    assert "All 12 hospitals\n" not in words(made_up(n=12))
    assert "<summary>All 13 hospitals</summary>" in federation_page(made_up(n=13)).html()


def test_the_markup_is_sound_and_names_are_unique(made_up: Make, read_html: Callable[[str], Any]) -> None:
    found = read_html(federation_page(made_up(n=13)).html())
    assert len(found.names) == len(set(found.names))
    assert {target.removeprefix("#") for target in found.targets} <= set(found.names)


def test_equal_runs_give_equal_pages(made_up: Make) -> None:
    assert federation_page(made_up()).html() == federation_page(made_up()).html()


def test_hostile_names_stay_words(made_up: Make) -> None:
    run = made_up()
    hostile = replace(run.entities[0], name="<script>x</script>", model="<b>", strength="<i>")
    text = federation_page(replace(run, entities=(hostile, *run.entities[1:]), remarks=("<img src=x>",))).html()
    assert not re.search(r"<script|<b>|<i>|<img", text)


SECTIONS = [
    "section-two-rounds",
    "section-what-was-agreed",
    "section-what-left-each-hospital",
    "section-results",
    "section-what-joining-adds",
    "section-the-price-of-privacy",
    "section-local-models",
    "section-one-recommendation-explained",
    "section-time-and-what-to-keep-in-mind",
]


def test_every_section_stands_once_in_order(made_up: Make, read_html: Callable[[str], Any]) -> None:
    found = read_html(federation_page(made_up()).html())
    assert [name for name in found.names if name.startswith("section-")] == SECTIONS


def test_a_page_without_an_example_or_times(made_up: Make, read_html: Callable[[str], Any]) -> None:
    found = read_html(federation_page(made_up(example=None, timings=())).html())
    assert set(SECTIONS) - set(found.names) == {"section-one-recommendation-explained"}
    assert "Time taken" in words(made_up())
    assert "Time taken" not in words(made_up(timings=()))


def test_systems_must_fit(made_up: Make) -> None:
    run = made_up()
    with pytest.raises(BadParameter) as caught:
        made_up(systems=run.systems[:2])
    assert (caught.value.parameter, caught.value.found) == ("systems", "popularity, shared_popularity")
    with pytest.raises(BadShape) as uneven:
        made_up(systems=(replace(run.systems[2], ndcg=(0.1,)), run.systems[3]))
    assert (uneven.value.parameter, uneven.value.found) == ("systems", "alone")


def summed(make: Make, secure: OperatorSum | SecureSum, **more: Any) -> FederationRun:
    """A federation whose messages are added up."""
    key = CatalogKey(hash="ab" * 32, n_items=457)
    plan = Plan(catalog=key, feedback="counts", bound=5, max_items=60, mechanism="gram", n_entities=12, secure=secure)
    return make(plan=plan, **more)


@pytest.mark.parametrize(
    ("noise", "one_honest", "both"),
    [
        ("operators", "even if the other operator and all other hospitals work together", "no ε holds"),
        ("entities", "while at least 6 hospitals", "one message alone has ε = "),
        ("both", "even if the other operator and all other hospitals work together", "one message alone has ε = "),
    ],
)
def test_what_operators_see_and_what_holds_follows_from_the_plan(
    made_up: Make, noise: Any, one_honest: str, both: str
) -> None:
    run = summed(made_up, OperatorSum(floor=8, noise=noise))
    told = dict(coalition_words(run))
    assert one_honest in told["If one operator is honest"]
    assert told["If both work together"].startswith(both)
    assert "at least 8 hospitals" in told["Both see in the end"]
    text = words(run)
    assert all(sentence in text for sentence in told.values())
    assert ("adds a whole noise" in text) == (noise != "entities")


def test_two_operators_are_drawn_in_place_of_the_server(made_up: Make, read_html: Callable[[str], Any]) -> None:
    page = federation_page(summed(made_up, OperatorSum(floor=8))).html()
    read_html(page)
    picture = page.split("<svg", 1)[1].split("</svg>", 1)[0]
    assert ">operator 1<" in picture
    assert ">operator 2<" in picture
    assert ">server<" not in picture
    assert "two sealed shares" in picture
    assert "messages of keys" not in page
    peers = federation_page(summed(made_up, SecureSum(survivors=11))).html()
    assert ">server<" in peers
    assert "messages of keys" in peers


def test_a_run_that_is_not_private_promises_nothing_through_operators(made_up: Make) -> None:
    told = dict(coalition_words(summed(made_up, OperatorSum(floor=8), private=False)))
    assert told["If one operator is honest"].startswith("no ε")
