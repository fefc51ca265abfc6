"""Wrong answers: tolerated and named while enough are left, a clear refusal otherwise."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from twofold.errors import BadMessage, PlanMismatch
from twofold.secure_sum import add_masked, check_answer, unmask
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.messages import seal_box


@pytest.fixture
def answered(federation):
    """Seven entities, one drops out after sharing, threshold 4: six answers, two to spare."""
    group = federation(7, threshold=4, least_survivors=5, least_present=7)
    present = group.share()
    values = {name: np.arange(4) * (place - 3) for place, name in enumerate(present)}
    total, survivors = add_masked(
        [group.mask(name, values[name], present) for name in present[:6]], group.terms, present
    )
    answers = {name: group.answer(name, present, list(survivors)) for name in survivors}
    wanted = sum(values[name] for name in survivors)
    return group, total, answers, present, survivors, wanted


def lie(message, *, about=None):
    """The answer with garbage instead of its shares, or of its share of one secret."""

    def spoil(table):
        return {
            name: bytes([share[0] ^ 1]) + share[1:] if about in (None, name) else share for name, share in table.items()
        }

    return dataclasses.replace(message, seeds=spoil(message.seeds), keys=spoil(message.keys))


def open_with(answered, answers):
    group, total, _, present, survivors, _ = answered
    return unmask(total, answers, group.terms, group.shares, present, survivors)


def test_one_liar_is_tolerated_and_named(answered) -> None:
    answers = dict(answered[2]) | {"e001": lie(answered[2]["e001"])}
    opened = open_with(answered, answers)
    np.testing.assert_array_equal(opened.values, answered[-1])
    assert {name for name, _ in opened.doubtful} == {"e001"}


@pytest.mark.parametrize("owner", ["e000", "e001", "e006"])
def test_a_lie_about_one_secret_is_tolerated_and_named(answered, owner: str) -> None:
    answers = dict(answered[2]) | {"e001": lie(answered[2]["e001"], about=owner)}
    opened = open_with(answered, answers)
    np.testing.assert_array_equal(opened.values, answered[-1])
    assert opened.doubtful == (("e001", owner),)


def test_with_one_answer_to_spare_one_liar_is_still_found(answered) -> None:
    answers = {name: answered[2][name] for name in list(answered[2])[:5]}
    answers["e003"] = lie(answers["e003"])
    opened = open_with(answered, answers)
    np.testing.assert_array_equal(opened.values, answered[-1])
    assert {name for name, _ in opened.doubtful} == {"e003"}


def test_two_liars_are_too_many_for_six_answers(answered) -> None:
    answers = dict(answered[2])
    for name in ("e001", "e004"):
        answers[name] = lie(answers[name])
    with pytest.raises(BadMessage, match="do not fit together"):
        open_with(answered, answers)


def test_a_liar_among_just_enough_answers_is_detected(answered) -> None:
    answers = {name: answered[2][name] for name in list(answered[2])[:4]}
    answers["e002"] = lie(answers["e002"])
    with pytest.raises(BadMessage, match="nothing is unmasked"):
        open_with(answered, answers)


def test_a_dealer_of_garbage_is_named(federation) -> None:
    group = federation(4, threshold=3, least_survivors=3, least_present=4)
    present = group.share()
    message = group.shares["e002"]
    boxes = {
        name: seal_box(
            private_of(group.keys["e002"].seal),
            "e002",
            name,
            group.terms,
            commitment=message.commitment,
            key_share=bytes(33),
            seed_share=name.encode() * 8 + b"\0",
        )
        for name in message.boxes
    }
    group.shares["e002"] = dataclasses.replace(message, boxes=boxes)
    total, survivors = add_masked([group.mask(name, np.arange(3), present) for name in present], group.terms, present)
    answers = {name: group.answer(name, present, list(survivors)) for name in survivors}
    with pytest.raises(BadMessage, match="secret of 'e002'"):
        unmask(total, answers, group.terms, group.shares, present, survivors)


def test_the_error_holds_no_share(answered) -> None:
    answers = {name: lie(message) for name, message in answered[2].items()}
    with pytest.raises(BadMessage) as caught:
        open_with(answered, answers)
    shares = [share for message in answers.values() for share in (*message.seeds.values(), *message.keys.values())]
    assert not any(share.hex()[:12] in str(caught.value) for share in shares)


def test_answers_to_other_lists_or_with_other_names_are_refused(answered) -> None:
    group, _, answers, present, survivors, _ = answered
    message = answers["e001"]
    check_answer(message, "e001", group.terms, present, survivors)
    with pytest.raises(BadMessage, match="not come from a survivor"):
        check_answer(message, "e002", group.terms, present, survivors)
    with pytest.raises(PlanMismatch, match="other lists"):
        check_answer(message, "e001", group.terms, present, survivors[:5])
    with pytest.raises(BadMessage, match="does not cover"):
        check_answer(dataclasses.replace(message, keys={}), "e001", group.terms, present, survivors)
    with pytest.raises(BadMessage, match="not come from a survivor"):
        check_answer(dataclasses.replace(message, sender="e006"), "e006", group.terms, present, survivors)


def test_a_missing_commitment_is_named(answered) -> None:
    group, total, answers, present, survivors, _ = answered
    del group.shares["e004"]
    with pytest.raises(BadMessage, match="'e004'"):
        unmask(total, answers, group.terms, group.shares, present, survivors)
