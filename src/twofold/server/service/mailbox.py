"""The server's end of a service: its store as a mailbox, alone or together with folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

from twofold.errors import TransportError
from twofold.federation.mailbox import OperatorMailbox, Rejected, Step, Submission, as_bytes, closed
from twofold.federation.messages import read_header
from twofold.server.service.store import Store

__all__ = ["JoinedMailbox", "ServiceMailbox", "now_text"]


def now_text() -> str:
    """Give the time as the store holds it.

    Examples
    --------
    >>> now_text().endswith("Z")
    True
    """
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ServiceMailbox:
    """An `OperatorMailbox` over a store: requests fill it, and it decides nothing.

    Parameters
    ----------
    store : Store
        Of one federation.
    published : callable
        Told of a step and a receipt after something was published.
    """

    def __init__(self, store: Store, *, published: Callable[[Step, str], None] = lambda _, __: None) -> None:
        self.store, self.plan = store, store.plan
        self._told = published

    def submissions(self, step: Step) -> Iterator[Submission]:
        """Give the messages that arrived, by entity; see `ServerMailbox`."""
        limit = step.up.limit(self.plan)
        for entity, mark in sorted([*self.store.messages(step), *self.store.parts(step)]):
            yield Submission(entity=entity, receipt=mark, read=partial(self.store.read, mark, limit))

    def rejected(self, step: Step) -> list[Rejected]:
        """Give second messages of one entity, which were refused and are kept as evidence."""
        reason = "a second, different message; the first counts, and both are kept"
        return [Rejected(entity, f"{reason} ({mark[:12]})") for entity, mark in self.store.conflicts(step)]

    def publish(self, step: Step, data: bytes) -> str:
        """Publish once; see `ServerMailbox`."""
        content = as_bytes(data)
        step.down.decode(content, self.plan)
        mark = self.store.put(content)
        if self.store.publish(step, mark, at=now_text()) != mark:
            raise closed()
        self._told(step, mark)
        return mark

    def published(self, step: Step) -> bytes | None:
        """Give what was published, or None."""
        mark = self.store.published_receipt(step)
        return None if mark is None else self.store.read(mark, step.down.limit(self.plan))

    def post(self, step: Step, data: bytes) -> None:
        """Keep a message until the other operator has it; see `OperatorMailbox`."""
        content = as_bytes(data)
        self.store.post(step, self.store.put(content), read_header(content).entity or "")

    def sent(self, step: Step) -> Iterator[Submission]:
        """Give the messages for the other operator; see `OperatorMailbox`."""
        limit = step.up.limit(self.plan)
        for entity, mark in self.store.posted(step):
            yield Submission(entity=entity, receipt=mark, read=partial(self.store.read, mark, limit))


class JoinedMailbox:
    """Two mailboxes as one: half of a federation by requests, half by files.

    Parameters
    ----------
    first, second : OperatorMailbox
        What arrives in either counts, and everything is published in both.

    Notes
    -----
    A message that came both ways is one message. What cannot be reached, such as a folder on a drive that is not there
    now, is looked at again next time, and the rest goes on.
    """

    def __init__(self, first: OperatorMailbox, second: OperatorMailbox) -> None:
        self.both = (first, second)

    def submissions(self, step: Step) -> Iterator[Submission]:
        """Give what arrived in either, each message once."""
        seen: set[str] = set()
        for box in self.both:
            try:
                found = list(box.submissions(step))
            except TransportError:
                continue
            for one in found:
                if one.receipt not in seen:
                    seen.add(one.receipt)
                    yield one

    def rejected(self, step: Step) -> list[Rejected]:
        """Give what either rejected."""
        return [one for box in self.both for one in box.rejected(step)]

    def publish(self, step: Step, data: bytes) -> str:
        """Publish in both."""
        marks = [box.publish(step, data) for box in self.both]
        return marks[0]

    def published(self, step: Step) -> bytes | None:
        """Give what was published, once it is in both."""
        first, second = (box.published(step) for box in self.both)
        return first if first == second else None

    def post(self, step: Step, data: bytes) -> None:
        """Hand over in both."""
        for box in self.both:
            box.post(step, data)

    def sent(self, step: Step) -> Iterator[Submission]:
        """Give what either handed over."""
        for box in self.both:
            yield from box.sent(step)
