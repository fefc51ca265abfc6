r"""What every transport can do: carry one message of an entity there, and the item factors back, as bytes.

What every transport checks before it carries anything.

Both ends in one process: for the library, for tests and for simulations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, runtime_checkable

from twofold.checks import check_entity_name
from twofold.errors import BadMessage, ConflictingMessage, NotReady, RoundClosed
from twofold.federation.messages import read_header, receipt

__all__ = ["EMPTY", "EntityMailbox", "InProcess", "Rejected", "ServerMailbox", "Submission", "as_bytes", "check_sender"]

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


def as_bytes(data: object) -> bytes:
    """Refuse what is not bytes.

    Examples
    --------
    >>> as_bytes("text")
    Traceback (most recent call last):
    twofold.errors.BadMessage: a transport carries bytes...
    """
    if not isinstance(data, bytes):
        raise BadMessage("a transport carries bytes.", found=f"a {type(data).__name__}", fix="message.data")
    return data


def check_sender(data: bytes, entity: str) -> None:
    """Refuse a message under another name than the one in its header, or one that is not whole."""
    header = read_header(data)
    if header.entity != check_entity_name(entity):
        raise BadMessage("the message carries another name.", found=header.entity or "none", expected=entity)
    if header.size != len(data):
        raise BadMessage("the message is not whole.", found=f"{len(data):,} bytes", expected=f"{header.size:,}")


class InProcess:
    """An `EntityMailbox` and a `ServerMailbox` that keep the bytes in memory; threads may share one.

    Examples
    --------
    >>> box = InProcess()
    >>> box.fetch()
    Traceback (most recent call last):
    twofold.errors.NotReady: the server has not published anything yet...
    >>> box.publish(b"factors") == box.publish(b"factors"), box.fetch()
    (True, b'factors')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[str, bytes] = {}
        self._published: bytes | None = None

    def submit(self, data: bytes, *, entity: str) -> str:
        """Keep the entity's message; see `EntityMailbox`. After publication nothing new is taken."""
        content = as_bytes(data)
        check_sender(content, entity)
        with self._lock:
            known = self._messages.get(entity)
            if known is None and self._published is not None:
                raise closed()
            if known not in (None, content):
                raise conflict(entity)
            self._messages[entity] = content
        return receipt(content)

    def fetch(self) -> bytes:
        """Give what the server published, or raise NotReady."""
        found = self.published()
        if found is None:
            raise NotReady("the server has not published anything yet.", fix="ask again later")
        return found

    def submissions(self) -> Iterator[Submission]:
        """Give the messages by the names of their entities."""
        with self._lock:
            held = sorted(self._messages.items())
        for entity, content in held:
            yield Submission(entity=entity, receipt=receipt(content), read=lambda content=content: content)  # type: ignore[misc]

    def rejected(self) -> list[Rejected]:
        """Nothing: what is not taken is refused at once."""
        return []

    def publish(self, data: bytes) -> str:
        """Publish once; see `ServerMailbox`."""
        content = as_bytes(data)
        with self._lock:
            if self._published not in (None, content):
                raise closed()
            self._published = content
        return receipt(content)

    def published(self) -> bytes | None:
        """Give what was published, or None."""
        with self._lock:
            return self._published


def closed() -> RoundClosed:
    """Refuse what comes after the end."""
    return RoundClosed("the server has published; nothing new is taken.", fix="fetch it, or start a new plan")


def conflict(entity: str) -> ConflictingMessage:
    """Refuse a second, different message."""
    return ConflictingMessage(
        "this entity has another message already.",
        found=f"two different messages of {entity}",
        expected="one message for one plan, the same bytes however often it is sent",
        fix="send what the ledger stored: Entity.release() gives it again",
    )
