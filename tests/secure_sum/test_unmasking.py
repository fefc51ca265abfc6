"""Step 4: adding messages, and what is refused on the way. Whole runs are in test_protocol."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadMessage, BadShape, ConflictingMessage, TooFewMessages
from twofold.secure_sum import add_masked, unmask


@pytest.fixture
def sent(federation):
    group = federation(4)
    present = group.share()
    return group, present, [group.mask(name, np.arange(3), present) for name in present]


def test_adding_is_modulo_and_in_any_order_and_changes_no_message(sent) -> None:
    group, present, messages = sent
    before = [message.numbers.copy() for message in messages]
    total, survivors = add_masked(messages, group.terms, present)
    again, _ = add_masked(reversed(messages), group.terms, present)
    np.testing.assert_array_equal(total, again)
    assert survivors == tuple(present)
    assert [int(x) for x in total] == [sum(int(x) for x in column) % 2**48 for column in zip(*before, strict=True)]
    for message, numbers in zip(messages, before, strict=True):
        np.testing.assert_array_equal(message.numbers, numbers)


def test_nothing_twice_nothing_of_another_length_nothing_from_strangers(sent) -> None:
    group, present, messages = sent
    with refused(ConflictingMessage, "sender", found="e000"):
        add_masked([*messages, messages[0]], group.terms, present)
    longer = group.mask("e003", np.arange(4), present)
    with refused(BadShape, "numbers"):
        add_masked([*messages[:3], longer], group.terms, present)
    with refused(BadMessage, "sender"):
        add_masked(messages[3:], group.terms, present[:3])
    with refused(BadMessage, "sender"):
        add_masked([dataclasses.replace(messages[0], sender="x")], group.terms, present)
    with refused(TooFewMessages, "messages"):
        add_masked([], group.terms, present)


def test_a_total_over_other_survivors_is_found(sent) -> None:
    group, present, messages = sent
    total, _ = add_masked(messages, group.terms, present)
    claimed = present[:3]
    answers = {name: group.answer(name, present, claimed) for name in claimed}
    with refused(BadMessage, "checks"):
        unmask(total, answers, group.terms, group.shares, present, claimed)


def test_the_total_is_not_changed_and_too_short_a_total_is_refused(sent) -> None:
    group, present, messages = sent
    total, survivors = add_masked(messages, group.terms, present)
    kept = total.copy()
    answers = {name: group.answer(name, present, present) for name in present}
    assert unmask(total, answers, group.terms, group.shares, present, survivors).values.tolist() == [0, 4, 8]
    np.testing.assert_array_equal(total, kept)
    for bad in (total[:2], total.reshape(1, -1), total.astype(np.float64)):
        with pytest.raises(BadShape):
            unmask(bad, answers, group.terms, group.shares, present, survivors)
