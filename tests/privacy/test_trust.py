"""What a promise rests on: every assumption in one paragraph, and weak promises are called weak."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum, usual_survivors
from twofold.privacy.budget import best_guess, weak_promise
from twofold.privacy.card import percent, rounded_up
from twofold.privacy.trust import (
    NOT_RECORDED,
    Operated,
    deployment,
    needed,
    preprocessing,
    trust_paragraph,
    unprotected,
)

PROMISE = (Path(__file__).parents[2] / "docs" / "explanation" / "promise.md").read_text(encoding="utf-8")


def test_a_plain_message_asks_nothing_of_others():
    said = trust_paragraph()
    assert "draws all of the noise itself" in said
    assert "integrity" in said
    assert not re.search(r"\d", said)


def test_a_secure_sum_names_every_number():
    """Audit H1: `colluders` was on no page."""
    said = trust_paragraph(sharing="peers", entities=20, honest=17, colluders=1, alone="9.1")
    for fact in ("up to 1 participant ", "colluders: 1", "at least 17 ", "20 names are 20 institutions", "ε = 9.1"):
        assert fact in said


def test_what_no_cryptography_can_check_is_said():
    """Audit H2: the plan's writer was trusted, and nothing said so."""
    for sharing in ("peers", "operators"):
        said = trust_paragraph(sharing=sharing, entities=5, honest=3, colluders=1)
        assert "fingerprints people compared" in said
        assert "invented participants" in said


@pytest.mark.parametrize(("colluders", "said"), [(0, "colluders: 0"), (3, "colluders: 3"), (None, NOT_RECORDED)])
def test_colluders_are_always_printed(colluders, said):
    assert said in trust_paragraph(sharing="peers", entities=5, honest=3, colluders=colluders)


@pytest.mark.parametrize("alone", [None, "infinite"])
def test_nothing_is_promised_of_a_message_alone_without_a_price(alone):
    said = trust_paragraph(sharing="peers", entities=5, honest=3, colluders=1, alone=alone)
    assert "nothing is promised about this message alone" in said


@pytest.mark.parametrize(("honest", "said"), [(2, "at least 2 entities, this one and 1 more,"), (1, needed(1))])
def test_honest_counts_this_entity(honest, said):
    """First reader B2: "of the others" counted this entity among them."""
    assert said in trust_paragraph(sharing="peers", entities=4, honest=honest, colluders=1)
    assert "others must" not in trust_paragraph(sharing="peers", entities=4, honest=honest, colluders=1)


def test_the_price_alone_is_not_called_larger_by_rote():
    """First reader B7: "the much larger" was a fixed phrase."""
    told = {"sharing": "peers", "entities": 4, "honest": 2, "colluders": 1}
    assert trust_paragraph(**told, epsilon="1", alone="1.46").endswith("has ε = 1.46 instead of 1.")
    assert trust_paragraph(**told, epsilon="1", alone="1").endswith("still has ε = 1.")


def test_operators_must_not_show_each_other_anything():
    said = trust_paragraph(sharing="operators", entities=5)
    assert "one of them is honest: it shows nobody what it received" in said
    assert "If both work together, or one administrator reaches both, your exact sums are open to them" in said


@pytest.mark.parametrize("sharing", ["plain", "peers"])
def test_the_server_is_never_trusted(sharing):
    assert "the server is not trusted" in deployment(sharing)[1]


def test_who_drops_out_is_seen_in_a_sum_only():
    assert len(unprotected("peers")) == len(unprotected("plain")) + 1


def test_unknown_limits_are_not_invented():
    assert not re.search(r"\d", preprocessing(holder="person", bound=None, max_items=60))


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "marks"),
    [
        (20, 0, 10, 0),
        ("20.001", 0, 10, 1),
        (math.inf, 0, 10, 1),
        (1, "1/10", 10, 0),
        (1, 0.9, 10, 1),
        (21, 0.9, 10, 2),
        (1, 0.4, None, 0),
        (1, 0.9, None, 1),
    ],
)
def test_a_weak_promise_is_marked_from_its_numbers(epsilon, delta, users, marks):
    """Audit L4: δ = 0.9 passed without a word."""
    assert len(weak_promise(epsilon, delta, users)) == marks


@pytest.mark.parametrize(
    "said",
    [
        trust_paragraph(),
        trust_paragraph(sharing="peers", entities=20, honest=16, colluders=1, epsilon="1", alone="4.6"),
    ],
)
def test_the_promise_page_says_what_the_card_says(said):
    assert said in " ".join(PROMISE.split())


def test_the_example_of_the_promise_page_is_computed():
    """The usual numbers for 20 entities; 16 and 4.6 are not copied by hand."""
    key = CatalogKey(hash="0" * 64, n_items=60)
    secure = SecureSum(survivors=usual_survivors(20))
    plan = Plan(catalog=key, feedback="counts", bound=5, max_items=9, mechanism="gram", epsilon=1, delta=1e-6)
    plan = plan.with_(n_entities=20, secure=secure)
    assert plan.spec.sum is not None
    assert plan.parameters.honest == 16
    assert rounded_up(Fraction(str(plan.spec.sum.alone_epsilon))) == "4.6"


def test_the_table_of_the_promise_page_is_computed():
    table = [line.strip("| ").split(" | ")[1:] for line in PROMISE.splitlines() if line.startswith(("| ε", "| right"))]
    assert [percent(best_guess(float(epsilon))) for epsilon in table[0]] == table[1]


def test_one_word_for_one_limit():
    """First reader B6: the page called 3 weak, and the card 20."""
    assert "Above 20, the card says WEAK" in PROMISE
    assert "limit is weak" not in PROMISE
    assert weak_promise("20.001", 0, None)


def test_one_operator_is_trusted_and_the_page_says_with_what():
    assert "One must be honest" in deployment("operators")[1]
    assert "not trusted" not in deployment("operators")[1]
    for noise, said in (
        ("operators", "adds no noise"),
        ("both", "its share of one more"),
        ("entities", "adds its share"),
    ):
        who = Operated(noise=noise, operators=("uni", "clinic"), floor=103)
        paragraph = who.paragraph(entities=205, honest=101, colluders=1, epsilon="1", alone="19.2")
        assert "Two operators (uni; clinic)" in paragraph
        assert "at least 103 entities" in paragraph
        assert said in paragraph
        assert ("at least 101 entities" in paragraph) == (noise == "entities")
        assert ("your exact sums are open to them" in paragraph) == (noise == "operators")


def test_a_plan_writer_who_is_an_operator_is_named():
    paragraph = Operated(operators=("uni", "clinic"), writer="uni").paragraph()
    assert "uni wrote the plan and is one of its operators, which must not be" in paragraph
    assert "wrote the plan and is" not in Operated(operators=("uni", "clinic")).paragraph()


def test_people_are_told_that_taking_part_is_seen():
    assert "not that one was sent" in unprotected("operators", people=True)[0]
    assert "under its name" in unprotected("operators")[0]
