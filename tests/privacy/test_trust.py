"""What a promise rests on: every assumption in one paragraph, and weak promises are called weak."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from twofold.privacy.budget import weak_promise
from twofold.privacy.trust import NOT_RECORDED, deployment, preprocessing, trust_paragraph, unprotected


def test_a_plain_message_asks_nothing_of_others():
    said = trust_paragraph()
    assert "draws all of the noise itself" in said
    assert "integrity" in said
    assert not re.search(r"\d", said)


def test_a_secure_sum_names_every_number():
    """Audit H1: `colluders` was on no page."""
    said = trust_paragraph(sharing="peers", entities=20, honest=17, colluders=1, alone="9.1")
    for fact in ("up to 1 participant ", "colluders: 1", "At least 17 ", "20 names are 20 institutions", "ε = 9.1"):
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


def test_operators_must_not_show_each_other_anything():
    assert "two operators do not show each other" in trust_paragraph(sharing="operators", entities=5)


@pytest.mark.parametrize("sharing", ["plain", "peers", "operators"])
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
        trust_paragraph(sharing="peers", entities=20, honest=16, colluders=1, alone="4.54"),
    ],
)
def test_the_promise_page_says_what_the_card_says(said):
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "promise.md").read_text(encoding="utf-8")
    assert said in " ".join(page.split())
