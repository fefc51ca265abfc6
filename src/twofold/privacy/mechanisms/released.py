"""What a mechanism returns: the value that may leave, and the event that says what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from twofold.privacy.events import Event, NonPrivateEvent, flatten

__all__ = ["Released"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Released(Generic[T]):
    """A released value with its event; one is not to be had without the other.

    Examples
    --------
    >>> from twofold.privacy.events import NonPrivateEvent
    >>> from twofold.privacy.unit import Unit
    >>> event = NonPrivateEvent(unit=Unit.person(), reason="an exact count for a test")
    >>> Released(value=3, event=event).not_private
    True
    """

    value: T
    event: Event

    @property
    def not_private(self) -> bool:
        """True when the noise was seeded or the step had none."""
        return any(one.seeded or isinstance(one, NonPrivateEvent) for one in (self.event, *flatten(self.event)))
