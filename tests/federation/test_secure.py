"""What a plan says about the secure sum, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from twofold.errors import BadPlan, TwofoldError
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.identity.roster import Roster
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.secure_sum import Keys


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
    return Roster({f"site-{number}": Keys.new().public for number in range(n)})


def test_a_plan_keeps_it_and_older_plans_keep_their_hash():
    keys = roster()
    secure = SecureSum(survivors=5, most_alone="40", share_deadline="2027-01-31T13:00:00+01:00", roster=keys)
    made = plan(secure)
    assert made.entities == tuple(keys)
    assert made.secure.share_deadline == "2027-01-31T12:00:00Z"
    assert made.secure.most_alone == Fraction(40)
    again = Plan.from_dict(made.as_dict())
    assert (again, again.hash, again.secure.keys) == (made, made.hash, None)
    assert "secure" not in plan(None).as_dict()
    assert made.with_(rank=3).secure.keys is keys
    assert made.hash != plan(secure.with_(survivors=6)).hash


def test_the_noise_is_shared_among_those_that_even_a_lying_server_cannot_leave_out():
    assert plan(SecureSum(survivors=6)).parameters.honest == 5
    assert plan(SecureSum(survivors=5)).parameters.honest == 4
    assert plan(SecureSum(survivors=6, colluders=1)).parameters.honest == 5
    assert plan(SecureSum(survivors=6, colluders=2)).parameters.honest == 4
    assert plan(None).parameters.honest == 0


@pytest.mark.parametrize("survivors", [2, 4, 6])
def test_the_promise_holds_for_a_participant_who_takes_its_own_noise_out_of_the_sum(survivors: int):
    """The item factors go to everybody, and everybody knows its own share."""
    made = plan(SecureSum(survivors=survivors), n_entities=survivors)
    noise = BilinearNoise(public=made.parameters, layout=BilinearLayout.of(made.parameters, "gram"))
    left = (survivors - 1) * noise.deviation**2
    assert noise.layout.sensitivity / (2 * left) <= float(made.parameters.budget.rho)
    assert noise.layout.sensitivity / (2 * left * 0.99) > float(made.parameters.budget.rho)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"survivors": 7}, "more survivors"),
        ({"survivors": 3}, "not safe"),
        ({"survivors": 1}, "out of range"),
        ({"survivors": True}, "out of range"),
        ({"survivors": 5, "threshold": 6}, "not safe"),
        ({"survivors": 5, "present": 4}, "not safe"),
        ({"survivors": 5, "colluders": 5}, "all survivors could collude"),
        ({"survivors": 6, "colluders": 5}, "5 colluders of 6 entities"),
        ({"survivors": 5, "roster": "abc"}, "64 hexadecimal"),
        ({"survivors": 5, "roster": 5}, "list of keys"),
        ({"survivors": 5, "roster": "0" * 64}, r"entities = \[\] beside the hash"),
        ({"survivors": 5, "most_alone": 0}, "most_alone"),
        ({"survivors": 5, "share_deadline": "soon"}, "not a time"),
    ],
)
def test_refused(given: dict[str, Any], words: str):
    with pytest.raises(TwofoldError, match=words):
        plan(SecureSum(**given))


def test_a_low_floor_among_many_would_let_a_lying_server_see_single_messages():
    with pytest.raises(BadPlan, match="present 11 of 20"):
        plan(SecureSum(survivors=11, present=11), n_entities=20)
    assert plan(SecureSum(survivors=18), n_entities=20).parameters.honest == 17


def test_keys_are_due_before_messages():
    secure = SecureSum(survivors=5, share_deadline="2027-01-31T12:00:00Z")
    assert plan(secure, deadline="2027-02-01T12:00:00Z").secure == secure
    with pytest.raises(BadPlan, match="after the messages are due"):
        plan(secure, deadline="2027-01-31T12:00:00Z")


def test_the_list_of_keys_is_that_of_the_entities():
    with pytest.raises(BadPlan, match="Found: 6 keys"):
        plan(SecureSum(survivors=5, roster=roster()), entities=["site-0", "site-1", "site-2", "site-3", "site-4"])
    with pytest.raises(BadPlan, match="are not those of the list"):
        plan(SecureSum(survivors=5, roster=roster()), entities=[f"other-{number}" for number in range(6)])


@pytest.mark.parametrize("mechanism", ["buckets", "popularity", "sulq"])
def test_only_rows_of_whole_numbers_are_summed(mechanism: str):
    with pytest.raises(BadPlan, match=r"cannot be summed securely[\s\S]*gram"):
        plan(SecureSum(survivors=5), mechanism=mechanism)


def test_a_floor_for_one_message_alone():
    """205 entities at ε = 1: one message alone is worth about 20, and a plan may refuse that."""
    secure = SecureSum(survivors=205, most_alone=30)
    assert plan(secure, n_entities=205).secure == secure
    with pytest.raises(BadPlan, match=r"seen alone[\s\S]*ε = 20[\s\S]*at most 15"):
        plan(secure.with_(most_alone=15), n_entities=205)
    with pytest.raises(BadPlan, match=r"seen alone[\s\S]*ε = inf"):
        plan(secure, n_entities=205, delta=0)


@pytest.mark.parametrize("record", [{"survivors": 5, "friends": 1}, {}, {"survivors": 5, "roster": None}])
def test_another_form(record: dict[str, Any]):
    with pytest.raises(BadPlan):
        SecureSum.from_dict(record)
