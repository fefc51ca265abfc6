"""The whole protocol: the sum is exact, whoever drops out when, and every fault is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refused import refused
from twofold.errors import BadMessage, PlanMismatch, TooFewMessages
from twofold.secure_sum import MaskedMessage, add_masked, unmask


def random_values(group, length, seed=0, limit=None):
    rng = np.random.default_rng(seed)
    limit = group.terms.limit if limit is None else limit
    return {name: rng.integers(-limit, limit, size=length, dtype=np.int64, endpoint=True) for name in group.names}


def plain(values, names):
    return np.sum([values[name] for name in names], axis=0)


@settings(max_examples=40)
@given(data=st.data())
def test_the_sum_equals_the_plain_sum_whoever_drops_out(federation, data) -> None:
    entities = data.draw(st.integers(2, 9))
    bits = data.draw(st.sampled_from(range(16, 65, 8)))
    group = federation(entities, bits=bits, seed=data.draw(st.integers(0, 9)))
    values = random_values(group, data.draw(st.integers(1, 40)), seed=data.draw(st.integers(0, 99)))
    order = data.draw(st.permutations(group.names))
    spare = entities - group.terms.threshold
    ends = sorted(data.draw(st.lists(st.integers(0, spare), min_size=3, max_size=3)))
    before, sharing, masking = order[: ends[0]], order[ends[0] : ends[1]], order[ends[1] : ends[2]]
    opened = group.run(values, before_sharing=before, after_sharing=sharing, after_masking=masking)
    np.testing.assert_array_equal(opened.values, plain(values, order[ends[1] :]))
    assert opened.values.dtype == np.int64
    assert opened.doubtful == ()


@pytest.mark.parametrize("bits", range(16, 65, 8))
@pytest.mark.parametrize("sign", [-1, 1])
def test_everyone_at_the_limit_does_not_wrap_around(federation, bits: int, sign: int) -> None:
    group = federation(3, bits=bits)
    values = {name: np.array([sign * group.terms.limit, 0, -1]) for name in group.names}
    assert group.run(values).values.tolist() == [3 * sign * group.terms.limit, 0, -3]


@pytest.mark.parametrize(
    "stages",
    [
        {"before_sharing": ["e001"]},
        {"after_sharing": ["e001"]},
        {"after_masking": ["e001"]},
        {"before_sharing": ["e001", "e004"]},
        {"after_sharing": ["e000", "e006"]},
        {"after_masking": ["e002", "e003"]},
        {"before_sharing": ["e000"], "after_sharing": ["e006"]},
        {"before_sharing": ["e000"], "after_sharing": ["e006"], "after_masking": ["e003"]},
    ],
    ids=str,
)
def test_one_and_two_drop_outs_at_each_stage(federation, stages) -> None:
    group = federation(7, threshold=4, least_survivors=5, least_present=5)
    values = random_values(group, 11)
    gone = [*stages.get("before_sharing", []), *stages.get("after_sharing", [])]
    opened = group.run(values, **stages)
    np.testing.assert_array_equal(opened.values, plain(values, [name for name in group.names if name not in gone]))


def test_205_entities_with_20_drop_outs(federation) -> None:
    group = federation(205, threshold=180, least_survivors=185, least_present=200)
    values = random_values(group, 5)
    opened = group.run(
        values, before_sharing=group.names[:3], after_sharing=group.names[100:115], after_masking=group.names[-2:]
    )
    np.testing.assert_array_equal(opened.values, plain(values, [*group.names[3:100], *group.names[115:]]))


@pytest.mark.slow
def test_205_entities_with_20_drop_outs_and_105_000_numbers_each(federation) -> None:
    group = federation(205, threshold=180, least_survivors=185, least_present=200)
    values = random_values(group, 105_000)
    opened = group.run(values, before_sharing=group.names[:3], after_sharing=group.names[100:117])
    np.testing.assert_array_equal(opened.values, plain(values, [*group.names[3:100], *group.names[117:]]))


def sent_by_all(group, values, **replaced):
    present = group.share()
    sent = {name: group.mask(name, values[name], present) for name in present} | replaced
    return present, list(sent.values())


def open_all(group, present, sent):
    total, survivors = add_masked(sent, group.terms, present)
    answers = {name: group.answer(name, present, list(survivors)) for name in survivors}
    return unmask(total, answers, group.terms, group.shares, present, survivors)


@pytest.mark.parametrize("bits", [16, 48, 64])
def test_garbage_numbers_are_found_by_the_check_numbers(federation, bits: int) -> None:
    group = federation(4, bits=bits)
    present, sent = sent_by_all(group, random_values(group, 6))
    noise = np.random.default_rng(3).integers(0, 2**bits, size=8, dtype=np.uint64)
    garbage = MaskedMessage(sender="e002", present=sent[2].present, bits=bits, numbers=noise)
    with refused(BadMessage, "checks"):
        open_all(group, present, [*sent[:2], garbage, sent[3]])


def test_a_mask_of_another_plan_is_refused_by_its_digest_and_found_even_under_a_false_digest(federation) -> None:
    group, other = federation(4), federation(4, context=b"another plan")
    values = random_values(group, 6)
    present, sent = sent_by_all(group, values)
    foreign = other.mask("e002", values["e002"], present)
    with refused(PlanMismatch, "present"):
        open_all(group, present, [*sent[:2], foreign, sent[3]])
    disguised = dataclasses.replace(foreign, present=sent[2].present)
    with refused(BadMessage, "checks"):
        open_all(group, present, [*sent[:2], disguised, sent[3]])


def test_a_mask_over_another_list_of_who_shared_does_not_cancel(federation) -> None:
    group = federation(5)
    values = random_values(group, 6)
    present, sent = sent_by_all(group, values)
    shorter = group.mask("e002", values["e002"], [name for name in present if name != "e004"])
    disguised = dataclasses.replace(shorter, present=sent[2].present)
    with refused(BadMessage, "checks"):
        open_all(group, present, [*sent[:2], disguised, *sent[3:]])


def test_another_modulus_is_refused(federation) -> None:
    group, narrow = federation(4), federation(4, bits=32)
    values = random_values(group, 6, limit=5)
    present, sent = sent_by_all(group, values)
    with refused(PlanMismatch, "bits"):
        open_all(group, present, [*sent[:2], narrow.mask("e002", values["e002"], present), sent[3]])


def test_an_overflow_is_masked_and_found_in_the_sum(federation) -> None:
    """No refusal at the entity (audit M1); at the server it depends on the noisy sum alone."""
    group = federation(4, bits=24)
    values = random_values(group, 6, limit=3)
    present, sent = sent_by_all(group, values)
    huge = group.mask("e002", np.full(6, 2**23 - 1), present)
    with refused(BadMessage, "values"):
        open_all(group, present, [*sent[:2], huge, sent[3]])


def test_keys_under_the_wrong_name_are_refused_at_every_step(federation) -> None:
    group = federation(4)
    present = group.share()
    group.keys["e000"], group.keys["e001"] = group.keys["e001"], group.keys["e000"]
    for step in (
        lambda: group.share(),
        lambda: group.mask("e000", np.arange(3), present),
        lambda: group.answer("e000", present, present),
    ):
        with refused(PlanMismatch, "keys"):
            step()


def test_survivors_below_the_floor_open_nothing_on_either_side(federation) -> None:
    group = federation(6, threshold=4, least_survivors=5, least_present=6)
    values = random_values(group, 6)
    present = group.share()
    survivors = present[:4]
    total, _ = add_masked([group.mask(name, values[name], present) for name in survivors], group.terms, present)
    with refused(TooFewMessages, "survivors"):
        group.answer("e000", present, survivors)
    with refused(TooFewMessages, "survivors"):
        unmask(total, {}, group.terms, group.shares, present, survivors)


def test_the_threshold_is_sharp(federation) -> None:
    group = federation(7, threshold=5, least_survivors=6, least_present=7)
    values = random_values(group, 6)
    present, sent = sent_by_all(group, values)
    total, survivors = add_masked(sent, group.terms, present)
    answers = {name: group.answer(name, present, list(survivors)) for name in survivors[2:]}
    assert len(answers) == group.terms.threshold
    opened = unmask(total, answers, group.terms, group.shares, present, survivors)
    np.testing.assert_array_equal(opened.values, plain(values, present))
    answers.popitem()
    with refused(TooFewMessages, "answers"):
        unmask(total, answers, group.terms, group.shares, present, survivors)


def test_somebody_who_is_not_enrolled_is_refused(federation) -> None:
    group = federation(3)
    group.keys["nobody"] = group.keys["e000"]
    with refused(PlanMismatch, "name"):
        group.mask("nobody", np.arange(3), list(group.names))
