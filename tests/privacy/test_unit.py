"""Whose presence is hidden, and what follows for a person in several entities."""

from __future__ import annotations

import pytest

from twofold.errors import BadPrivacyParameter, UnitMissing
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP
from twofold.privacy.unit import Unit


def test_a_person_in_m_entities_pays_m_times():
    unit = Unit.person(entities=3)
    assert unit.across(PureDP(epsilon="1/3")) == PureDP(epsilon=1)
    assert unit.across(ApproxDP(epsilon=1, delta=1e-6)) == ApproxDP(epsilon=3, delta=3e-6)
    assert unit.across(ZCDP(rho=1)) == ZCDP(rho=3)
    leak = NotPrivate(reason="exact")
    assert unit.across(leak) == leak


def test_one_noise_for_all_entities_is_a_group():
    unit = Unit.person(entities=3)
    assert unit.across_one_noise(PureDP(epsilon=1)) == PureDP(epsilon=3)
    assert unit.across_one_noise(ZCDP(rho="1/9")) == ZCDP(rho=1)
    assert Unit.person().across_one_noise(ZCDP(rho=1)) == ZCDP(rho=1)


def test_one_entity_changes_nothing():
    assert Unit.person().across(PureDP(epsilon=1)) == PureDP(epsilon=1)


@pytest.mark.parametrize("holder", ["record", "", None])
def test_an_unknown_holder_is_refused(holder):
    with pytest.raises(UnitMissing):
        Unit(holder=holder)


@pytest.mark.parametrize("entities", [0, -1, 1.5, True, "2"])
def test_entities_are_a_whole_number_from_one(entities):
    with pytest.raises(BadPrivacyParameter):
        Unit.person(entities=entities)


@pytest.mark.parametrize("unit", [Unit.person(), Unit.visit(entities=4)])
def test_records_round_trip(unit):
    assert Unit.from_dict(unit.as_dict()) == unit
    assert unit.as_dict()["adjacency"] == "add-or-remove-one"


def test_another_adjacency_is_refused():
    record = Unit.person().as_dict() | {"adjacency": "replace-one"}
    with pytest.raises(UnitMissing):
        Unit.from_dict(record)
    with pytest.raises(UnitMissing):
        Unit.from_dict({"holder": "person"})


@pytest.mark.parametrize("record", [None, 5, [], "x", {}, {1: 2}, {"holder": [], "entities": {}, "adjacency": []}])
def test_records_of_any_form_are_refused_in_our_words(record):
    with pytest.raises(UnitMissing):
        Unit.from_dict(record)
