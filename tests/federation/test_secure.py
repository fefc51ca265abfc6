"""What a plan says about the secure sum, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import BadPlan
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum, usual_survivors
from twofold.federation.tables import RosterKey
from twofold.identity.roster import Roster
from twofold.privacy.mechanisms.gaussian import DiscreteGaussianShare
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.secure_sum.terms import honest_in_any_sum, least_floor


def plan(secure: SecureSum | None, **changes: Any) -> Plan:
    given = {
        "catalog": CatalogKey(hash="0" * 64, n_items=12),
        "feedback": "counts",
        "bound": 5,
        "max_items": 4,
        "mechanism": "gram",
        "n_entities": 6,
    }
    return Plan(**(given | changes), secure=secure)


def roster(n: int = 6) -> Roster:
    return Roster.new([f"site-{number}" for number in range(n)])[0]


def test_a_plan_keeps_it_and_older_plans_keep_their_hash():
    keys = roster()
    secure = SecureSum(survivors=5, most_alone="40", share_deadline="2027-01-31T13:00:00+01:00")
    made = plan(secure, roster=keys)
    assert made.entities == tuple(keys.entities)
    assert made.secure.share_deadline == "2027-01-31T12:00:00Z"
    assert made.secure.most_alone == Fraction(40)
    again = Plan.from_dict(made.as_dict())
    assert (again, again.hash, again.members) == (made, made.hash, None)
    assert "secure" not in plan(None).as_dict()
    assert made.with_(rank=3).members is keys
    assert made.hash != plan(secure.with_(survivors=6), roster=keys).hash


def test_the_noise_is_shared_among_those_that_even_a_lying_server_cannot_leave_out():
    assert plan(SecureSum(survivors=6, colluders=0), simulation=True).parameters.honest == 5
    assert plan(SecureSum(survivors=6)).parameters.honest == 4
    assert plan(SecureSum(survivors=5)).parameters.honest == 3
    assert plan(SecureSum(survivors=6, colluders=2)).parameters.honest == 3
    assert plan(None).parameters.honest == 0


@pytest.mark.parametrize("survivors", [3, 4, 6])
def test_the_promise_holds_for_a_colluder_and_a_reader_who_take_their_own_noise_out_of_the_sum(survivors: int):
    """The item factors go to everybody, and everybody knows its own share. Audit M3: the reader was not counted."""
    made = plan(SecureSum(survivors=survivors), n_entities=survivors)
    noise = BilinearNoise(public=made.parameters, layout=BilinearLayout.of(made.parameters, "gram"))
    assert isinstance(noise.mechanism, DiscreteGaussianShare)
    left = (survivors - 2) * noise.mechanism.share_variance
    assert noise.layout.sensitivity / (2 * left) <= made.parameters.budget.rho
    assert noise.layout.sensitivity / (2 * left * Fraction(99, 100)) > made.parameters.budget.rho


@pytest.mark.parametrize(
    ("given", "parameter", "found", "expected"),
    [
        ({"survivors": 7}, "secure.survivors", "7 of 6", None),
        ({"survivors": 3}, "secure.survivors", "threshold 3, survivors 3, present 6", "5 <= "),
        ({"survivors": 1}, "secure.survivors", "1", "from 2"),
        ({"survivors": True}, "secure.survivors", "True", "from 2"),
        ({"survivors": 5, "threshold": 6}, "secure.survivors", "threshold 6, survivors 5, present 6", "5 <= "),
        ({"survivors": 5, "present": 4}, "secure.survivors", "threshold 5, survivors 5, present 4", "5 <= "),
        ({"survivors": 5, "colluders": 5}, "secure.colluders", "5 colluders of 5", None),
        ({"survivors": 6, "colluders": 5}, "secure.colluders", "5 colluders of 6", "at most 4"),
        ({"survivors": 5, "roster": "0" * 64}, "secure.roster", "secure.roster", None),
        ({"survivors": 5, "most_alone": 0}, "secure.most_alone", "0", "> 0"),
        ({"survivors": 5, "share_deadline": "soon"}, "secure.share_deadline", "'soon'", None),
    ],
)
def test_refused(given: dict[str, Any], parameter: str, found: str | None, expected: str | None):
    with refused(BadPlan, parameter, found=found, expected=expected):
        plan(SecureSum(**given))


def test_a_low_floor_among_many_would_let_a_lying_server_see_single_messages():
    with refused(
        BadPlan, "secure.threshold", found="threshold 12, survivors 12, present 12 of 20", expected="least 12"
    ):
        plan(SecureSum(survivors=12, present=12), n_entities=20)
    assert plan(SecureSum(survivors=18), n_entities=20).parameters.honest == 16


def test_keys_are_due_before_messages():
    secure = SecureSum(survivors=5, share_deadline="2027-01-31T12:00:00Z")
    assert plan(secure, deadline="2027-02-01T12:00:00Z").secure == secure
    with refused(BadPlan, "secure.share_deadline", found="2027-01-31T12:00:00Z"):
        plan(secure, deadline="2027-01-31T12:00:00Z")


def test_the_list_of_keys_is_that_of_the_entities():
    secure = SecureSum(survivors=5)
    with refused(BadPlan, "roster", found="5 names; keys of 6 entities"):
        plan(secure, roster=roster(), entities=["site-0", "site-1", "site-2", "site-3", "site-4"])
    with refused(BadPlan, "entities"):
        plan(secure, roster=roster(), entities=[f"other-{number}" for number in range(6)])
    with refused(BadPlan, "roster", found="0 names"):
        plan(secure, roster=RosterKey(hash="0" * 64, n_entities=6))
    with refused(BadPlan, "roster.hash", expected="64 hexadecimal digits"):
        RosterKey(hash="abc", n_entities=6)


@pytest.mark.parametrize("mechanism", ["buckets", "popularity", "sulq"])
def test_only_rows_of_whole_numbers_are_summed(mechanism: str):
    with refused(BadPlan, "mechanism", found=mechanism, expected="gram"):
        plan(SecureSum(survivors=5), mechanism=mechanism)


def test_a_floor_for_one_message_alone():
    """205 entities at ε = 1: one message alone is worth about 20, and a plan may refuse that."""
    secure = SecureSum(survivors=205, most_alone=30)
    assert plan(secure, n_entities=205).secure == secure
    with refused(BadPlan, "secure.most_alone", found="ε = 21.1", expected="at most 15"):
        plan(secure.with_(most_alone=15), n_entities=205)
    with refused(BadPlan, "secure.most_alone", found="ε = inf", expected="at most 30"):
        plan(secure, n_entities=205, delta=0)


@pytest.mark.parametrize("record", [{"survivors": 5, "friends": 1}, {}, {"survivors": 5, "roster": None}])
def test_another_form(record: dict[str, Any]):
    with pytest.raises(BadPlan):
        SecureSum.from_dict(record)


def test_the_default_withstands_a_dishonest_participant():
    """Audit H1: the default was 0 colluders, and one was enough to open a message."""
    assert SecureSum(survivors=5).colluders == 1
    with refused(BadPlan, "secure.colluders", found="0", expected="at least 1"):
        plan(SecureSum(survivors=6, colluders=0))
    assert plan(SecureSum(survivors=6, colluders=0), simulation=True).secure.colluders == 0


def test_the_survivors_of_the_audits_attack_are_refused_with_a_number_that_will_do():
    """Audit H1: 5 entities and 3 survivors were accepted."""
    with refused(BadPlan, "secure.survivors", "survivors=4", found="survivors 3", expected="4 <= threshold"):
        plan(SecureSum(survivors=3), n_entities=5)
    assert plan(SecureSum(survivors=4), n_entities=5).parameters.honest == 2


@pytest.mark.parametrize("colluders", [1, 2, 5])
def test_a_federation_too_small_for_any_numbers_is_told_so(colluders: int):
    entities = colluders + 1
    with refused(BadPlan, "secure.colluders", found=f"of {entities}", expected=f"at least {colluders + 2} entities"):
        plan(SecureSum(survivors=entities, colluders=colluders), n_entities=entities)
    made = plan(SecureSum(survivors=entities + 1, colluders=colluders), n_entities=entities + 1)
    assert made.parameters.honest == 1


def test_the_default_survivors_are_valid_at_every_size():
    for entities in range(3, 2_001):
        usual = SecureSum(survivors=usual_survivors(entities))
        usual.check(entities)
        assert usual.honest(entities) >= max(1, 0.87 * entities - 2), entities


@pytest.mark.parametrize("colluders", [1, 2, 3])
def test_the_number_offered_is_the_smallest_that_will_do(colluders: int):
    for entities in range(colluders + 2, 120):
        floor = least_floor(entities, colluders + 1)
        SecureSum(survivors=floor, colluders=colluders).check(entities)
        if floor - 1 > colluders:
            with pytest.raises(BadPlan):
                SecureSum(survivors=floor - 1, colluders=colluders).check(entities)


@pytest.mark.parametrize("colluders", [0, 1, 2, 3])
def test_one_more_reader_never_counts_for_less_than_one(colluders: int):
    """Audit M3 asks for the bound against the colluders, less one; a reader who uses its shares takes at least that."""
    for entities in range(colluders + 2, 40):
        for survivors in range((entities + colluders + 1) // 2 + 1, entities + 1):
            numbers = {"threshold": survivors, "least_survivors": survivors, "least_present": entities}
            before = honest_in_any_sum(entities=entities, colluders=colluders, **numbers)
            counted = SecureSum(survivors=survivors, colluders=colluders).honest(entities)
            assert counted <= max(0, min(before, survivors - colluders) - 1)
