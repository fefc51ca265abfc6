"""Terms: numbers that fit together, rosters without doubles, lists in order, one digest for all of it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, BadPlan, PlanMismatch, TooFewMessages
from twofold.secure_sum import Keys, PublicKeys, Terms
from twofold.secure_sum.terms import _check_numbers


@pytest.mark.parametrize(
    "numbers",
    [
        {"threshold": 3},
        {"threshold": 4, "colluders": 2},
        {"threshold": 4, "least_survivors": 3},
        {"threshold": 4, "least_survivors": 5, "least_present": 4},
        {"least_present": 7},
        {"colluders": -1},
        {"colluders": 5},
        {"bits": 8},
        {"bits": 20},
        {"bits": 72},
        {"bits": 48.0},
        {"threshold": True},
    ],
    ids=str,
)
def test_numbers_that_do_not_fit_are_refused(federation, numbers) -> None:
    sound = {"threshold": 4, "least_survivors": 4, "least_present": 6}
    federation(6, **sound)
    with pytest.raises(BadPlan):
        federation(6, **(sound | numbers))


def test_a_roster_has_two_or_more_entities_with_keys_of_their_own(federation) -> None:
    group = federation(3)
    roster = dict(group.terms.roster)
    changed = [
        {"e000": roster["e000"]},
        roster | {"e001": roster["e000"]},
        roster | {"e001": PublicKeys(mask=roster["e000"].seal, seal=roster["e001"].seal)},
        roster | {"e001": "key"},
    ]
    for bad in changed:
        with pytest.raises(BadPlan):
            dataclasses.replace(group.terms, roster=bad)
    with refused(BadPlan, "entity"):
        dataclasses.replace(group.terms, roster=roster | {"": Keys.new().public})


def test_doubles_are_named(federation) -> None:
    roster = dict(federation(4).terms.roster)
    with pytest.raises(BadPlan, match="e000, e003"):
        Terms(context=b"c", roster=roster | {"e003": roster["e000"]}, threshold=3, least_survivors=3, least_present=3)


def test_every_term_is_in_the_digest(federation) -> None:
    terms = federation(6, threshold=5, least_survivors=5, least_present=5).terms
    others = [
        {"context": b"other"},
        {"threshold": 4},
        {"least_survivors": 6, "least_present": 6},
        {"least_present": 6},
        {"colluders": 1},
        {"bits": 56},
        {"roster": dict(terms.roster) | {"e005": Keys.new().public}},
        {"roster": {name + "x": keys for name, keys in terms.roster.items()}},
    ]
    digests = {dataclasses.replace(terms, **other).digest for other in others}
    assert len(digests | {terms.digest}) == len(others) + 1
    assert dataclasses.replace(terms, roster=dict(reversed(terms.roster.items()))).digest == terms.digest


def test_an_empty_context_is_refused(federation) -> None:
    for context in (b"", "plan"):
        with pytest.raises(BadPlan, match="context"):
            dataclasses.replace(federation(3).terms, context=context)


@pytest.mark.parametrize("names", [["e001", "e000", "e002"], ["e000", "e000", "e001"], ["e000", "e001", "x"], "abc"])
def test_lists_out_of_order_or_with_strangers_are_refused(federation, names) -> None:
    terms = federation(4, threshold=3).terms
    with pytest.raises(BadMessage):
        terms.check_present(names)
    with pytest.raises(BadMessage):
        terms.check_survivors(terms.names, names)


def test_lists_are_counted(federation) -> None:
    terms = federation(6, threshold=4, least_survivors=4, least_present=5).terms
    terms.check_present(terms.names[:5])
    terms.check_survivors(terms.names[:5], terms.names[:4])
    with pytest.raises(TooFewMessages, match="nothing is masked"):
        terms.check_present(terms.names[:4])
    with pytest.raises(TooFewMessages, match="nothing is unmasked"):
        terms.check_survivors(terms.names[:5], terms.names[:3])
    with pytest.raises(BadMessage, match="stranger"):
        terms.check_survivors(terms.names[:5], terms.names[2:6])


def test_swapped_keys_are_refused(federation) -> None:
    group = federation(3)
    with pytest.raises(PlanMismatch, match="not the ones the plan lists"):
        group.terms.own(group.keys["e001"], "e000")


def test_too_many_entities_for_the_bits_are_refused(federation) -> None:
    assert federation(2, bits=16).terms.limit == 16383
    assert federation(3, bits=64).terms.limit * 3 < 2**63
    numbers = {"threshold": 40_000, "least_survivors": 40_000, "least_present": 40_000, "colluders": 0, "bits": 16}
    with pytest.raises(BadPlan, match="so few bits"):  # 40,000 real key pairs would take long
        _check_numbers(SimpleNamespace(roster=range(40_000), limit=(2**15 - 1) // 40_000, **numbers))
