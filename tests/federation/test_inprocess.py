"""What is special about both ends in one process."""

from __future__ import annotations

import pytest

from twofold.errors import RoundClosed
from twofold.federation.mailbox import InProcess


def test_nobody_new_after_publication(message):
    box, data = InProcess(), message()
    box.submit(data, entity="st-anna")
    box.publish(b"factors")
    assert box.submit(data, entity="st-anna")  # sent again out of doubt
    with pytest.raises(RoundClosed):
        box.submit(message("late"), entity="late")
    assert box.rejected() == []
