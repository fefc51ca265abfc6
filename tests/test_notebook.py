"""What a notebook shows: shapes and promises of everything one holds, short, escaped, and never a value."""

from __future__ import annotations

import re
from typing import Any

import pytest

import twofold as tw
from tests.entity.evaluated import CATALOG, federation, people
from twofold.entity.agent import Entity
from twofold.html import block, facts_of, table_of


@pytest.fixture(scope="module")
def things() -> dict[str, Any]:
    made = federation(60, 90)
    return {
        "Plan": made.plan,
        "Ratings": made.federation["e0"],
        "ReleaseMessage": Entity("e0", made.federation["e0"], made.plan, rng=0).release(),
        "ItemFactors": made.factors,
        "Model": made.models["e0"],
        "FederatedRecommender": tw.FederatedRecommender(made.plan),
    }


NAMES = ("Plan", "Ratings", "ReleaseMessage", "ItemFactors", "Model", "FederatedRecommender")


@pytest.mark.parametrize("name", NAMES)
def test_a_repr_is_short_and_html_is_a_small_table(things: dict[str, Any], name: str) -> None:
    one = things[name]
    assert len(repr(one)) < 800
    html = one._repr_html_()
    assert 50 < len(html) < 3_000
    assert html.startswith("<div>")
    assert html.endswith("</div>")
    for tag in ("div", "table", "tbody", "tr", "th", "td", "strong"):
        assert len(re.findall(rf"<{tag}\b", html)) == html.count(f"</{tag}>")
    assert "<script" not in html
    assert "<style" not in html


@pytest.mark.parametrize("name", NAMES)
def test_nothing_shows_a_person_or_an_item(things: dict[str, Any], name: str) -> None:
    shown = repr(things[name]) + things[name]._repr_html_()
    for user in list(people(60, 1).user_ids) + list(CATALOG.items):
        assert not re.search(rf"\b{re.escape(str(user))}\b", shown)


@pytest.mark.parametrize("name", ["Plan", "ReleaseMessage", "ItemFactors", "Model"])
def test_a_simulation_is_marked(things: dict[str, Any], name: str) -> None:
    assert "NOT PRIVATE" in things[name]._repr_html_()


def test_a_large_message_is_printed_in_one_line(things: dict[str, Any]) -> None:
    message = things["ReleaseMessage"]
    assert len(message.data) > 5_000
    assert len(repr(message)) < 120
    assert f"{len(message.data):,} bytes" in repr(message)


def test_words_are_escaped() -> None:
    bad = '<b onload="x">'
    for html in (block(bad, [bad]), facts_of({bad: bad}), table_of([bad], [[bad, bad]])):
        assert "<b" not in html.replace("<body", "")


def test_an_estimator_says_whether_it_is_fitted() -> None:
    made = federation(60, 90)
    estimator = tw.FederatedRecommender(made.plan)
    assert "not fitted" in estimator._repr_html_()
    estimator.models_, estimator.private_ = made.models, False  # as fit leaves them
    assert "2 entities" in estimator._repr_html_()
