"""The steps of a federation, with endings and kinds that tell them apart."""

from __future__ import annotations

from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.federation.steps import ANSWERS, KEYS, MASKED, ROUNDS, phases

PLAN = Plan(
    catalog=CatalogKey(hash="0" * 64, n_items=12),
    feedback="counts",
    bound=5,
    max_items=4,
    mechanism="gram",
    n_entities=4,
    secure=SecureSum(survivors=3),
)


def test_one_step_or_three():
    assert phases(PLAN.with_(secure=None)) == (ROUNDS,)
    assert phases(PLAN) == (KEYS, MASKED, ANSWERS)


def test_files_and_kinds_of_the_steps_differ():
    every = [suffix for one in phases(PLAN) for suffix in (one.up_suffix, one.down_suffix)]
    kinds = [kind for one in phases(PLAN) for kind in (one.up, one.down)]
    assert len(set(every)) == len(set(kinds)) == 6
    assert len({one.name for one in phases(PLAN)}) == 3


def test_limits_are_those_of_the_plan():
    for one in phases(PLAN):
        assert 0 < one.up_limit(PLAN) < 10**6
        assert 0 < one.down_limit(PLAN) < 10**6
    assert KEYS.down_limit(PLAN.with_(n_entities=205, secure=SecureSum(survivors=200))) > 205 * 204 * 164
