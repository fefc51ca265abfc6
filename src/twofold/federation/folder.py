"""Two folders at each end, transferred by any means: SFTP, a shared drive, a USB stick. No ports.

::

    entity:  outbox/st-anna.<receipt>.round1   ── carried ──>   server:  inbox/...
             inbox/...                         <── carried ──            outbox/federation.<receipt>.round2

On a shared drive the entity's outbox may be the server's inbox, and all four may be one folder. Who wrote a file and
for which plan is read from its header; names may change on the way. If a name still holds the first digits of the
receipt, they must match, so that a copy with its full length but not yet its content is not read too early.

Strangers may write into these folders. With a roster, only what its maker signed counts, and a name that a stranger
has taken is avoided: they can neither lie nor stop a step, short of deleting files or filling the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Final

from twofold.errors import ConflictingMessage, TransportError, TwofoldError
from twofold.federation.inbox import Found, Scanner, read_again
from twofold.federation.mailbox import (
    ROUNDS,
    Channel,
    NothingYet,
    Rejected,
    Step,
    StepId,
    Submission,
    Submitted,
    as_bytes,
    check_sender,
    closed,
    conflict,
)
from twofold.federation.messages import AGREED, AGREEMENT, Header, read_header, receipt
from twofold.federation.plan import Plan
from twofold.storage.container import printable
from twofold.storage.files import put_once, unreadable

__all__ = ["EntityFolder", "ServerFolder"]

#: Names to try for one file; a stranger who takes more of them could as well fill the disk.
_NAMES: Final = 1_000
#: Files of the step before the two rounds, which stay in the folders.
_BEFORE: Final = (AGREEMENT, AGREED)


class EntityFolder:
    """The entity's end: an outgoing folder and an incoming one.

    Parameters
    ----------
    outbox, inbox : path-like
        The folders; they may be the same folder.
    plan : Plan
        The plan of these messages; others in the folders are ignored.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     EntityFolder(folder, folder, plan).fetch(ROUNDS)
    NothingYet(rejected=())
    """

    def __init__(self, outbox: str | PathLike[str], inbox: str | PathLike[str], plan: Plan) -> None:
        self.outbox, self.inbox, self.plan = Path(outbox), Path(inbox), plan
        self._arrived: dict[StepId, Scanner] = {}

    def submit(self, step: Step, data: bytes, *, entity: str) -> Submitted:
        """Put the complete message into the outbox; see `EntityMailbox`."""
        content, mark = as_bytes(data), receipt(data)
        check_sender(content, entity)
        step.up.decode(content, self.plan)
        _make(self.outbox)
        if any(found.receipt != mark for found in self._own(step.up, entity).messages()):
            raise conflict(entity)
        new = _put(self.outbox, f"{entity}.{mark[:16]}", step.up.suffix, content)
        return Submitted(receipt=mark, new=new)

    def fetch(self, step: Step) -> bytes | NothingYet:
        """Give what the server published, once it has arrived; an incomplete file does not count."""
        scanner = self._scanner(step)
        try:
            found = scanner.messages()
        except TransportError as error:
            reason = _words(error)
            return NothingYet(rejected=(Rejected(printable(self.inbox.name), reason),))
        if len(found) > 1:
            signed = ", all signed by the operator" if self.plan.roster is not None else ""
            raise ConflictingMessage(
                f"different {step.down.suffix} files arrived for this plan{signed}.",
                found=", ".join(one.path.name for one in found[:4]),
                expected="the one that the server published",
                fix="keep them as evidence, tell the others, and ask the operator; nothing more is sent meanwhile"
                if signed
                else "ask the server for its receipt, and remove the others",
                parameter="inbox",
            )
        if not found:
            return NothingYet(rejected=tuple(scanner.rejected))
        return read_again(found[0], step.down.limit(self.plan))

    def _scanner(self, step: Step) -> Scanner:
        if step.id not in self._arrived:
            # Where several steps pass, or all share one folder, files of the other steps are expected.
            several = step is not ROUNDS or self.inbox.resolve() == self.outbox.resolve()
            self._arrived[step.id] = Scanner(
                self.inbox,
                limit=step.down.limit(self.plan),
                ignore=lambda header: header.schema != step.down.schema and (several or header.schema in _BEFORE),
                refuse=partial(_other_step, step.down),
                check=partial(_unsound, step.down, self.plan),
            )
        return self._arrived[step.id]

    def _own(self, up: Channel, entity: str) -> Scanner:
        """Look for this entity's messages in the outbox; a damaged one does not count."""
        return Scanner(
            self.outbox,
            limit=up.limit(self.plan),
            refuse=partial(_not_own, up, self.plan, entity),
            check=partial(_unsound, up, self.plan),
        )


class ServerFolder:
    """The server's end: an incoming folder and one for what was published.

    Parameters
    ----------
    inbox, outbox : path-like
        The folders, created if missing; they may be the same folder.
    plan : Plan
        The plan whose messages are accepted.
    """

    def __init__(self, inbox: str | PathLike[str], outbox: str | PathLike[str], plan: Plan) -> None:
        self.inbox, self.outbox, self.plan = Path(inbox), Path(outbox), plan
        self._shown: set[str] = set()
        self._arrived: dict[StepId, Scanner] = {}
        self._left: dict[StepId, Scanner] = {}
        _make(self.inbox)
        _make(self.outbox)

    def submissions(self, step: Step) -> Iterator[Submission]:
        """Give the complete messages that arrived, by entity; see `ServerMailbox`."""
        found = self._scanner(step).messages()
        limit = step.up.limit(self.plan)
        for one in sorted(found, key=lambda one: (one.header.entity or "", one.receipt)):
            yield Submission(entity=one.header.entity or "", receipt=one.receipt, read=partial(read_again, one, limit))

    def rejected(self, step: Step) -> list[Rejected]:
        """Give the files that were rejected at the last check of the folder, and why."""
        own = self._shown if self.inbox.resolve() == self.outbox.resolve() else set()
        return [one for one in self._scanner(step).rejected if one.name not in own]

    def publish(self, step: Step, data: bytes) -> str:
        """Publish once; see `ServerMailbox`. What a stranger has put there does not count as published."""
        content, mark = as_bytes(data), receipt(data)
        step.down.decode(content, self.plan)
        if any(one.receipt != mark for one in self._visible(step)):
            raise closed()
        name = f"{self.plan.name}.{mark[:16]}"
        _put(self.outbox, name, step.down.suffix, content)
        self._shown.add(f"{name}.{step.down.suffix}")
        return mark

    def post(self, step: Step, data: bytes) -> None:
        """Put a message for the other operator into the outbox; see `OperatorMailbox`."""
        content, mark = as_bytes(data), receipt(data)
        step.up.decode(content, self.plan)
        name = f"{read_header(content).entity or self.plan.name}.{mark[:16]}"
        _put(self.outbox, name, step.up.suffix, content)
        self._shown.add(f"{name}.{step.up.suffix}")

    def sent(self, step: Step) -> Iterator[Submission]:
        """Give the messages to the other operator that are in the outbox; see `OperatorMailbox`."""
        limit = step.up.limit(self.plan)
        for one in self._visible(step):
            yield Submission(entity=one.header.entity or "", receipt=one.receipt, read=partial(read_again, one, limit))

    def published(self, step: Step) -> bytes | None:
        """Give what was published, or None."""
        found = self._visible(step)
        self._shown |= {one.path.name for one in found}
        return read_again(found[0], step.down.limit(self.plan)) if len(found) == 1 else None

    def _visible(self, step: Step) -> list[Found]:
        """Look for publications of this step in the outbox, where others may write."""
        if step.id not in self._left:
            self._left[step.id] = Scanner(
                self.outbox,
                limit=step.down.limit(self.plan),
                refuse=partial(_other_step, step.down),
                check=partial(_unsound, step.down, self.plan),
            )
        return self._left[step.id].messages()

    def _scanner(self, step: Step) -> Scanner:
        if step.id not in self._arrived:
            self._arrived[step.id] = Scanner(
                self.inbox,
                limit=step.up.limit(self.plan),
                # Of several steps, files of the others are expected.
                ignore=lambda header: (
                    header.schema != step.up.schema and (step is not ROUNDS or header.schema in _BEFORE)
                ),
                refuse=partial(_other_step, step.up),
                check=partial(_other_plan, step.up, self.plan),
            )
        return self._arrived[step.id]


def _put(folder: Path, name: str, suffix: str, content: bytes) -> bool:
    """Write a file, under another name if a stranger has taken the first; return whether it was not there before."""
    for number in range(_NAMES):
        path = folder / (f"{name}.{suffix}" if number == 0 else f"{name.rpartition('.')[0]}-{number}.{suffix}")
        new = not os.path.lexists(path)
        if put_once(path, content):
            return new
    raise TransportError(
        "other files have all names of the message.", found=f"{name}.{suffix}", fix="take them away", parameter="outbox"
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unreadable(folder, error) from None


def _other_step(channel: Channel, header: Header) -> str | None:
    return None if header.schema == channel.schema else "a message of another step"


def _not_own(up: Channel, plan: Plan, entity: str, header: Header) -> str | None:
    own = header.schema == up.schema and header.plan_hash == plan.hash and header.entity == entity
    return None if own else "not this entity's message for this plan"


def _other_plan(up: Channel, plan: Plan, header: Header, data: bytes) -> str | None:
    """Name what differs in a message of another plan; the server decodes those of this plan."""
    if header.plan_hash == plan.hash:
        return None
    return _unsound(up, plan, header, data) or "a message of another plan"


def _unsound(channel: Channel, plan: Plan, _: Header, data: bytes) -> str | None:
    """Say why bytes are not a message of the plan; a header alone proves nothing."""
    try:
        channel.decode(data, plan)
    except TwofoldError as error:
        return _words(error)
    return None


def _words(error: TwofoldError) -> str:
    return error.summary if error.found is None else f"{error.summary} {error.found}"
