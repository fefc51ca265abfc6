"""Labels of any kind become names a plan can hold, the same in every run."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.checks import check_entity_name
from twofold.errors import BadIdentifier
from twofold.simulation import plan_name, plan_names

LABELS = st.one_of(
    st.text(max_size=200), st.integers(), st.floats(), st.booleans(), st.tuples(st.text(), st.integers())
)


@given(LABELS)
def test_every_label_gets_a_usable_name(label: object) -> None:
    assert check_entity_name(plan_name(label)) == plan_name(label)


def test_a_usable_label_stays_as_it_is() -> None:
    assert [plan_name(label) for label in ("st-anna", "7", 7)] == ["st-anna", "7", "7"]


@pytest.mark.parametrize("label", ["", "..", "../up", "a b", "ü", "x" * 65, -1, True, None, 1.5, (1, 2)])
def test_other_labels_carry_a_digest_that_tells_them_apart(label: object) -> None:
    name = plan_name(label)
    assert name != str(label)
    assert name != plan_name(f"{label} ")
    assert name == plan_name(label)


def test_a_type_is_part_of_a_name() -> None:
    day = datetime.date(2020, 1, 1)
    assert plan_name(day) != plan_name((day,)) != plan_name("2020-01-01")


def test_a_name_does_not_depend_on_the_others() -> None:
    assert plan_names(["a b", "c"])["a b"] == plan_names(["d", "a b"])["a b"]


@pytest.mark.parametrize("pair", [(7, "7"), ("Anna", "anna")])
def test_two_labels_never_share_a_file(pair: tuple[object, object]) -> None:
    with pytest.raises(BadIdentifier, match="capital letters and type"):
        plan_names(pair)
