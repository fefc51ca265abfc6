"""What is special about both ends in one process."""

from __future__ import annotations

import pytest

from twofold.errors import RoundClosed
from twofold.federation.mailbox import KEYS, MASKED, ROUNDS, InProcess


def test_nobody_new_after_publication(message):
    box, data = InProcess(), message()
    box.submit(ROUNDS, data, entity="st-anna")
    box.publish(ROUNDS, b"factors")
    assert not box.submit(ROUNDS, data, entity="st-anna").new  # sent again out of doubt
    with pytest.raises(RoundClosed):
        box.submit(ROUNDS, message("late"), entity="late")
    assert box.rejected(ROUNDS) == []


def test_steps_are_kept_apart(message):
    box, data = InProcess(), message()
    box.publish(KEYS, b"participants")
    assert box.published(MASKED) is None
    assert box.submit(MASKED, data, entity="st-anna").new
    assert list(box.submissions(ROUNDS)) == []
