"""A value and its event travel together, and the mark shows through composition."""

from __future__ import annotations

import pytest

from twofold.privacy.events import NonPrivateEvent, SequentialEvent, ThresholdEvent
from twofold.privacy.mechanisms import Released
from twofold.privacy.unit import Unit

PERSON = Unit.person()
SOUND = ThresholdEvent(unit=PERSON, scale=1, threshold=5)
SEEDED = ThresholdEvent(unit=PERSON, scale=1, threshold=5, seeded=True)
LEAK = NonPrivateEvent(unit=PERSON, reason="exact counts")


@pytest.mark.parametrize(
    ("event", "marked"),
    [
        (SOUND, False),
        (SEEDED, True),
        (LEAK, True),
        (SequentialEvent.of(SOUND, SOUND), False),
        (SequentialEvent.of(SOUND, SEEDED), True),
        (SequentialEvent.of(SOUND, SequentialEvent.of(SOUND, LEAK)), True),
        (SequentialEvent(unit=PERSON, events=(SEEDED,), seeded=True), True),
    ],
)
def test_the_mark(event, marked):
    assert Released(value=0, event=event).not_private is marked


def test_it_cannot_be_changed():
    with pytest.raises(AttributeError):
        Released(value=0, event=SEEDED).event = SOUND
