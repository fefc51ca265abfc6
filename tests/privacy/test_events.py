"""Events say everything, survive JSON, and refuse what they do not know."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter, UnitMissing, UnsupportedEvent
from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    DiscreteLaplaceEvent,
    DiscreteLaplaceShareEvent,
    NonPrivateEvent,
    OperatorSumEvent,
    ParallelEvent,
    SelectionEvent,
    SequentialEvent,
    ThresholdEvent,
    event_from_dict,
    flatten,
    is_seeded,
)
from twofold.privacy.unit import Unit

PERSON = Unit.person()
SINGLE = [
    DiscreteLaplaceEvent(unit=PERSON, sensitivity=Fraction(60), scale=Fraction(600, 7), coordinates=457),
    DiscreteLaplaceShareEvent(unit=PERSON, sensitivity=Fraction(60), scale=Fraction(60), parties=205, coordinates=457),
    DiscreteGaussianEvent(
        unit=PERSON, sensitivity_squared=Fraction(3), variance=Fraction(1, 3), coordinates=1, grid=Fraction(1, 1024)
    ),
    DiscreteGaussianShareEvent(
        unit=PERSON, sensitivity_squared=Fraction(3), variance=Fraction(9), parties=7, coordinates=2, seeded=True
    ),
    SelectionEvent(
        unit=Unit.visit(entities=2),
        sensitivity=Fraction(1),
        scale=Fraction(5),
        picks=5,
        candidates=9,
        monotone=True,
    ),
    ThresholdEvent(unit=PERSON, scale=Fraction(10), threshold=0),
    NonPrivateEvent(unit=PERSON, reason="exact counts were printed"),
]
WHOLE = DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=4, variance=50, coordinates=9)
SHARE = DiscreteGaussianShareEvent(unit=PERSON, sensitivity_squared=4, variance=5, parties=10, coordinates=9)
OPERATED = [
    OperatorSumEvent(unit=PERSON, noise=WHOLE),
    OperatorSumEvent(unit=PERSON, noise=WHOLE, shares=(SHARE,)),
    OperatorSumEvent(unit=PERSON, noise=SINGLE[0], shares=(SINGLE[1],), seeded=True),
]
COMPOSED = [SequentialEvent.of(SINGLE[0], ParallelEvent.of(SINGLE[2], SINGLE[5]), SINGLE[6])]


@pytest.mark.parametrize("event", SINGLE + OPERATED + COMPOSED, ids=lambda event: event.kind)
def test_an_event_survives_json(event):
    assert event_from_dict(json.loads(event.to_json())) == event
    assert event_from_dict(json.loads(json.dumps(event.as_dict()))) == event


@pytest.mark.parametrize("event", SINGLE, ids=lambda event: event.kind)
def test_every_event_names_unit_adjacency_and_seed(event):
    record = event.as_dict()
    assert record["unit"]["adjacency"] == "add-or-remove-one"
    assert isinstance(record["seeded"], bool)
    assert not any(isinstance(value, float) for value in record.values())


def test_kinds_are_stable():
    """Stored ledgers depend on these names and fields: a failure here is a broken law, not an outdated test."""
    assert {event.kind: sorted(event.as_dict()) for event in SINGLE} == {
        "discrete-laplace/1": ["coordinates", "grid", "kind", "scale", "seeded", "sensitivity", "unit"],
        "discrete-laplace-share/1": [
            "coordinates", "grid", "kind", "parties", "scale", "seeded", "sensitivity", "unit",
        ],
        "discrete-gaussian/1": ["coordinates", "grid", "kind", "seeded", "sensitivity_squared", "unit", "variance"],
        "discrete-gaussian-share/1": [
            "coordinates", "grid", "kind", "parties", "seeded", "sensitivity_squared", "unit", "variance",
        ],
        "selection/1": [
            "candidates", "grid", "kind", "monotone", "picks", "scale", "seeded", "sensitivity", "unit",
        ],
        "threshold/1": ["cells_per_unit", "kind", "scale", "seeded", "threshold", "unit"],
        "non-private/1": ["kind", "reason", "seeded", "unit"],
    }  # fmt: skip
    assert SINGLE[0].to_json() == (
        '{"coordinates":457,"grid":"1","kind":"discrete-laplace/1","scale":"600/7","seeded":false,'
        '"sensitivity":"60","unit":{"adjacency":"add-or-remove-one","entities":1,"holder":"person"}}'
    )


def test_numbers_become_exact():
    event = DiscreteLaplaceEvent(unit=PERSON, sensitivity=0.1, scale="1/3", coordinates=1)
    assert (event.sensitivity, event.scale) == (Fraction(1, 10), Fraction(1, 3))


@pytest.mark.parametrize("change", [{"scale": 0}, {"scale": math.inf}, {"sensitivity": -1}, {"coordinates": 0}])
@pytest.mark.parametrize("also", [{}, {"seeded": True}])
def test_impossible_parameters_are_refused(change, also):
    fields = {"unit": PERSON, "sensitivity": 1, "scale": 1, "coordinates": 1} | also
    DiscreteLaplaceEvent(**fields)
    with pytest.raises(BadPrivacyParameter):
        DiscreteLaplaceEvent(**fields | change)


def test_types_are_held():
    for change in ({"seeded": 1}, {"unit": "person"}, {"coordinates": 2.0}, {"coordinates": True}):
        fields = {"unit": PERSON, "sensitivity": 1, "scale": 1, "coordinates": 1} | change
        with pytest.raises(BadPrivacyParameter):
            DiscreteLaplaceEvent(**fields)


def test_unknown_kinds_and_fields_are_refused():
    record = SINGLE[0].as_dict()
    for bad in (
        record | {"kind": "discrete-laplace/2"},
        record | {"extra": 1},
        {key: value for key, value in record.items() if key != "unit"},
        {},
    ):
        with pytest.raises(UnsupportedEvent):
            event_from_dict(bad)
    with pytest.raises(UnitMissing):
        event_from_dict(record | {"unit": {"holder": "person"}})


def test_composed_events_state_one_unit_and_carry_the_mark():
    seeded = SINGLE[3]
    joined = SequentialEvent.of(SINGLE[0], seeded)
    assert is_seeded(joined)
    assert joined.seeded
    assert not is_seeded(SequentialEvent.of(SINGLE[0]))
    with refused(BadPrivacyParameter, "unit"):
        SequentialEvent.of(SINGLE[0], SINGLE[4])
    with pytest.raises(BadPrivacyParameter):
        SequentialEvent.of()


def test_a_mark_cannot_be_hidden_inside():
    for kind in (SequentialEvent, ParallelEvent):
        with refused(BadPrivacyParameter, "seeded"):
            kind(unit=PERSON, seeded=False, events=(SINGLE[3],))
        record = kind.of(SINGLE[3]).as_dict()
        with refused(BadPrivacyParameter, "seeded"):
            event_from_dict(record | {"seeded": False})
        marked = kind(unit=PERSON, seeded=True, events=(SINGLE[0],))
        with refused(BadPrivacyParameter, "seeded"):
            SequentialEvent(unit=PERSON, events=(SINGLE[0], marked))
        assert [one.seeded for one in flatten(SequentialEvent.of(SINGLE[0], marked))] == [True, True]
        assert is_seeded(marked)


@pytest.mark.parametrize("kind", [SequentialEvent, ParallelEvent])
def test_a_unit_cannot_be_changed_by_composing(kind):
    with refused(BadPrivacyParameter, "unit"):
        kind(unit=PERSON, events=(SINGLE[4],))
    with refused(BadPrivacyParameter, "unit"):
        kind(unit=SINGLE[4].unit, events=(kind.of(SINGLE[0]),))
    record = kind.of(SINGLE[0]).as_dict()
    with refused(BadPrivacyParameter, "unit"):
        event_from_dict(record | {"unit": SINGLE[4].unit.as_dict()})
    with refused(BadPrivacyParameter, "events"):
        kind(unit=PERSON, events=[SINGLE[0]])


def test_flatten_keeps_order():
    kinds = [event.kind for event in flatten(COMPOSED[0])]
    assert kinds == ["discrete-laplace/1", "discrete-gaussian/1", "threshold/1", "non-private/1"]


def test_a_kind_cannot_be_taken_over():
    with refused(UnsupportedEvent, "kind"):
        type("Impostor", (DiscreteLaplaceEvent,), {})
    assert type(event_from_dict(SINGLE[0].as_dict())) is DiscreteLaplaceEvent


def test_the_record_of_an_operator_sum_is_stable():
    """Stored ledgers depend on it."""
    record = OPERATED[1].as_dict()
    assert sorted(record) == ["kind", "noise", "operators", "seeded", "shares", "unit"]
    assert (record["kind"], record["operators"]) == ("operator-sum/1", 2)
    assert (record["noise"], record["shares"]) == (WHOLE.as_dict(), [SHARE.as_dict()])


def test_an_operator_sum_is_one_event_and_carries_its_mark():
    """Two events would be charged twice, and the noise alone would lose the second operator."""
    for event in OPERATED:
        assert list(flatten(event)) == [event]
    assert [is_seeded(event) for event in OPERATED] == [False, False, True]
    (inner,) = flatten(SequentialEvent(unit=PERSON, seeded=True, events=(OPERATED[0],)))
    assert inner.seeded


@pytest.mark.parametrize("part", ["noise", "shares"])
def test_an_operator_sum_cannot_hide_a_mark(part):
    seeded = {"noise": WHOLE, "shares": ()}
    seeded |= {"noise": replace(WHOLE, seeded=True)} if part == "noise" else {"shares": (replace(SHARE, seeded=True),)}
    with refused(BadPrivacyParameter, "seeded"):
        OperatorSumEvent(unit=PERSON, **seeded)
    assert OperatorSumEvent(unit=PERSON, seeded=True, **seeded).seeded


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"operators": 1}, "operators"),
        ({"operators": 0}, "operators"),
        ({"noise": SHARE}, "noise"),
        ({"noise": SINGLE[6]}, "noise"),
        ({"noise": SequentialEvent.of(WHOLE)}, "noise"),
        ({"noise": OPERATED[0]}, "noise"),
        ({"noise": "much"}, "noise"),
        ({"shares": (WHOLE,)}, "shares"),
        ({"shares": (SHARE, SHARE)}, "shares"),
        ({"shares": SHARE}, "shares"),
    ],
)
def test_an_operator_sum_of_other_parts_is_refused(change, parameter):
    """What is not proved is not priced: one operator, a share or no noise at all in place of a whole one."""
    with refused(BadPrivacyParameter, parameter):
        OperatorSumEvent(**{"unit": PERSON, "noise": WHOLE} | change)


def test_an_operator_sum_of_two_units_is_refused():
    with refused(BadPrivacyParameter, "unit"):
        OperatorSumEvent(unit=Unit.visit(), noise=WHOLE)


def test_records_of_an_operator_sum_with_other_fields_are_refused():
    record = OPERATED[1].as_dict()
    for bad in (
        record | {"extra": 1},
        *({key: value for key, value in record.items() if key != name} for name in record if name != "kind"),
        record | {"noise": "much"},
        record | {"noise": WHOLE.as_dict() | {"kind": "magic/1"}},
        record | {"shares": [SHARE.as_dict() | {"extra": 1}]},
        record | {"kind": "operator-sum/2"},
    ):
        with pytest.raises(UnsupportedEvent):
            event_from_dict(bad)
