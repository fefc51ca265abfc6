"""The steps of a federation, with endings and kinds that tell them apart."""

from __future__ import annotations

import pickle

from twofold.federation.mailbox import AGREE, ANSWERS, KEYS, MASKED, ROUNDS, steps_of
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum

PLAN = Plan(
    catalog=CatalogKey(hash="0" * 64, n_items=12),
    feedback="counts",
    bound=5,
    max_items=4,
    mechanism="gram",
    n_entities=5,
    secure=SecureSum(survivors=4),
)


def test_one_step_or_three_and_an_agreement_before_them_unless_it_is_a_simulation():
    assert steps_of(PLAN.with_(secure=None)) == (AGREE, ROUNDS)
    assert steps_of(PLAN) == (AGREE, KEYS, MASKED, ANSWERS)
    assert steps_of(PLAN.with_(secure=None, simulation=True)) == (ROUNDS,)
    assert steps_of(PLAN.with_(simulation=True)) == (KEYS, MASKED, ANSWERS)


def test_files_and_kinds_of_the_steps_differ():
    every = [suffix for one in steps_of(PLAN) for suffix in (one.up.suffix, one.down.suffix)]
    kinds = [kind for one in steps_of(PLAN) for kind in (one.up.schema, one.down.schema)]
    assert len(set(every)) == len(set(kinds)) == 8
    assert len({one.id for one in steps_of(PLAN)}) == 4


def test_limits_are_those_of_the_plan():
    for one in steps_of(PLAN):
        assert 0 < one.up.limit(PLAN) < 10**6
        assert 0 < one.down.limit(PLAN) < 10**6
    assert KEYS.down.limit(PLAN.with_(n_entities=205, secure=SecureSum(survivors=200))) > 205 * 204 * 164


def test_a_step_is_itself_in_another_process():
    for one in (AGREE, ROUNDS, KEYS, MASKED, ANSWERS):
        assert pickle.loads(pickle.dumps(one)) is one
