"""What every transport can do: carry one message of an entity there, and the item factors back, as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, runtime_checkable

__all__ = ["EMPTY", "EntityMailbox", "Rejected", "ServerMailbox", "Submission"]


#: What `NotReady` found where nothing has come at all.
EMPTY: Final = "an empty folder"


class Rejected(NamedTuple):
    """Something that arrived and is not taken: its public name, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One message that arrived whole. Its bytes stay where they are until `read` is called.

    Parameters
    ----------
    entity : str
        Who sent it, as the header says; a hint until the message is decoded.
    receipt : str
        SHA-256 of its bytes.
    read : callable
        Gives the bytes, the same as when `receipt` was taken, or raises TransportError.

    Examples
    --------
    >>> one = Submission(entity="st-anna", receipt="0" * 64, read=lambda: b"...")
    >>> one.entity, one.read()
    ('st-anna', b'...')
    """

    entity: str
    receipt: str
    read: Callable[[], bytes] = field(repr=False, compare=False)


@runtime_checkable
class EntityMailbox(Protocol):
    """The entity's end. Both calls may be made again at any time: after a crash, a timeout, or out of doubt."""

    def submit(self, data: bytes, *, entity: str) -> str:
        """Hand over the entity's message; gives its receipt.

        The same bytes again change nothing. Other bytes for the same entity raise ConflictingMessage.
        """
        ...

    def fetch(self) -> bytes:
        """Give the published item factors, or raise NotReady."""
        ...


@runtime_checkable
class ServerMailbox(Protocol):
    """The server's end."""

    def submissions(self) -> Iterator[Submission]:
        """Give what arrived whole, each message once however often it was sent.

        Two different messages from one entity are both given: what to do with them is not for a transport to decide.
        """
        ...

    def rejected(self) -> list[Rejected]:
        """Give what arrived and was not taken, with the reason, as of the last time `submissions` was exhausted."""
        ...

    def publish(self, data: bytes) -> str:
        """Publish the item factors once; gives their receipt.

        The same bytes again change nothing. Other bytes raise RoundClosed.
        """
        ...

    def published(self) -> bytes | None:
        """Give what was published, or None."""
        ...
