"""Both ends in one process: for the library, for tests and for simulations."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from twofold.errors import ConflictingMessage, NotReady, RoundClosed
from twofold.protocol.messages import receipt
from twofold.transport.base import Rejected, Submission
from twofold.transport.checks import as_bytes, check_sender

__all__ = ["InProcess"]


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
        fix="send what the ledger stored: Entity.prototypes() gives it again",
    )
