"""Two folders at each end, carried by whatever the sites have: SFTP, a shared drive, a stick. No ports.

::

    entity:  outbox/st-anna.<receipt>.round1   ── carried ──>   server:  inbox/...
             inbox/...                         <── carried ──            outbox/federation.<receipt>.round2

On a shared drive the entity's outbox may be the server's inbox, and all four may be one folder. Who wrote a file and
for which plan is read from its header; names may change on the way. A name that still holds the first digits of the
receipt is held to them, so that a copy which has its full length and not yet its content is waited for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Final

from twofold.errors import ConflictingMessage, NotReady, TransportError, TwofoldError
from twofold.federation.inbox import Scanner, read_again
from twofold.federation.mailbox import EMPTY, Rejected, Submission, as_bytes, check_sender, closed, conflict
from twofold.federation.messages import FACTORS, Header, receipt
from twofold.federation.plan import Plan
from twofold.federation.steps import ROUNDS, Phase
from twofold.storage.files import put_once, read_limited, unreadable

__all__ = ["EntityFolder", "ServerFolder"]


class EntityFolder:
    """The entity's end: a folder that is carried away, and one that is brought.

    Parameters
    ----------
    outbox, inbox : path-like
        The folders. They may be the same one.
    plan : Plan
        Whose messages these are; others in the folders are left alone.
    phase : Phase
        Which step; the two rounds by default.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     EntityFolder(folder, folder, plan).fetch()
    Traceback (most recent call last):
    twofold.errors.NotReady: the item factors have not arrived yet...
    """

    def __init__(
        self, outbox: str | PathLike[str], inbox: str | PathLike[str], plan: Plan, *, phase: Phase = ROUNDS
    ) -> None:
        self.outbox, self.inbox, self.plan, self.phase = Path(outbox), Path(inbox), plan, phase
        self._arrived = Scanner(
            self.inbox,
            limit=phase.down_limit(plan),
            refuse=partial(_other_step, phase.down),
            check=partial(_unsound, partial(_decoded, phase.decode_down, plan)),
        )

    def submit(self, data: bytes, *, entity: str) -> str:
        """Put the message into the outbox, whole; see `EntityMailbox`."""
        content, mark = as_bytes(data), receipt(data)
        check_sender(content, entity)
        self.phase.decode_up(content, self.plan)
        _make(self.outbox)
        if any(found.receipt != mark for found in self._own(entity).messages()):
            raise conflict(entity)
        path = self.outbox / f"{entity}.{mark[:16]}.{self.phase.up_suffix}"
        if not put_once(path, content):
            raise TransportError("another file has the name of the message.", found=path.name, fix="take it away")
        return mark

    def fetch(self) -> bytes:
        """Give what the server published and was brought; NotReady while it is not there, or not whole."""
        try:
            found = self._arrived.messages()
        except TransportError as error:
            raise NotReady("the folder of arrivals cannot be read yet.", found=error.found, fix=error.fix) from None
        if len(found) > 1:
            raise ConflictingMessage(
                f"two different versions of the {self.phase.down_words} arrived for this plan.",
                found=", ".join(one.path.name for one in found[:4]),
                expected="the one that the server published",
                fix="ask the server for its receipt, and take the others away",
            )
        if not found:
            raise self._nothing()
        return read_again(found[0], self.phase.down_limit(self.plan))

    def _own(self, entity: str) -> Scanner:
        """Look for this entity's messages in the outbox; a damaged one is none."""
        return Scanner(
            self.outbox,
            limit=self.phase.up_limit(self.plan),
            refuse=partial(_not_own, self.phase.up, self.plan, entity),
            check=partial(_unsound, partial(_decoded, self.phase.decode_up, self.plan)),
        )

    def _nothing(self) -> NotReady:
        # Where several steps pass, or all share one folder, files of the other steps are nothing to complain about.
        several = self.phase is not ROUNDS or self.inbox.resolve() == self.outbox.resolve()
        rejected = [one for one in self._arrived.rejected if not _is_mark(self.plan, one.name)]
        kept = [one for one in rejected if not (several and one.reason == OTHER_STEP)]
        other = [f"{one.name}: {one.reason}" for one in kept[:3]]
        return NotReady(
            f"the {self.phase.down_words} {'have' if self.phase.down == FACTORS else 'has'} not arrived yet.",
            found="; ".join(other) or EMPTY,
            expected=f"a {self.phase.down_suffix} file of plan {self.plan.hash[:12]} in {self.inbox.name}",
            fix="ask again later",
        )


class ServerFolder:
    """The server's end: a folder that fills, and one with what was published.

    Parameters
    ----------
    inbox, outbox : path-like
        The folders; made if they are not there. They may be the same one.
    plan : Plan
        Whose messages are taken.
    phase : Phase
        Which step; the two rounds by default.
    """

    def __init__(
        self, inbox: str | PathLike[str], outbox: str | PathLike[str], plan: Plan, *, phase: Phase = ROUNDS
    ) -> None:
        self.inbox, self.outbox, self.plan, self.phase = Path(inbox), Path(outbox), plan, phase
        self._shown = ""
        _make(self.inbox)
        _make(self.outbox)
        self._arrived = Scanner(
            self.inbox,
            limit=phase.up_limit(plan),
            refuse=partial(_other_step, phase.up),
            check=partial(_other_plan, phase, plan),
        )

    def submissions(self) -> Iterator[Submission]:
        """Give what arrived whole, by entity; see `ServerMailbox`."""
        found = self._arrived.messages()
        limit = self.phase.up_limit(self.plan)
        for one in sorted(found, key=lambda one: (one.header.entity or "", one.receipt)):
            yield Submission(entity=one.header.entity or "", receipt=one.receipt, read=partial(read_again, one, limit))

    def rejected(self) -> list[Rejected]:
        """Give the files that were not taken when the folder was last looked through, and why."""
        own = {self._shown} if self.inbox.resolve() == self.outbox.resolve() else set()
        several = self.phase is not ROUNDS  # then files of the other steps are nothing to complain about
        return [
            one
            for one in self._arrived.rejected
            if one.name not in own and not _is_mark(self.plan, one.name) and not (several and one.reason == OTHER_STEP)
        ]

    def publish(self, data: bytes) -> str:
        """Publish once; see `ServerMailbox`."""
        content = as_bytes(data)
        self.phase.decode_down(content, self.plan)
        if not put_once(self._kept, content):
            self._recorded()  # closed by a publication, not by whatever else may lie there
            raise closed()
        self._show(content)
        return receipt(content)

    def published(self) -> bytes | None:
        """Give what was published, or None; also puts the visible file back if a crash came before it.

        Raises
        ------
        TransportError
            Something else has the name of the first copy: a link, or what is not item factors of this plan. It is
            neither shown nor given.
        """
        content = self._recorded()
        if content is not None:
            self._show(content)
        return content

    def _recorded(self) -> bytes | None:
        """Read the first copy, from a folder where others may write."""
        if not os.path.lexists(self._kept):
            return None
        try:
            content = read_limited(self._kept, self.phase.down_limit(self.plan), links=False)
            self.phase.decode_down(content, self.plan)
        except TwofoldError as error:
            raise TransportError(
                "the server's copy of what it published cannot be used.",
                found=_words(error),
                expected=f"the {self.phase.down_words} of plan {self.plan.hash[:12]}, in a plain file",
                fix=f"see who may write into the folder, take {self._kept.name} away, then run the same again",
            ) from None
        return content

    @property
    def _kept(self) -> Path:
        """The first copy, under a name that does not depend on the content: who makes it has published."""
        step = "" if self.phase is ROUNDS else f"{self.phase.name}."
        return self.outbox / f"{_mark(self.plan)}{step}published"

    def _show(self, content: bytes) -> None:
        """Put the copy that is carried, under a name that lets a receiver tell when it is complete."""
        self._shown = f"{self.plan.name}.{receipt(content)[:16]}.{self.phase.down_suffix}"
        path = self.outbox / self._shown
        if not put_once(path, content):
            raise TransportError(
                "the published file was changed.", found=path.name, fix="take it away; it will be written again"
            )


def _mark(plan: Plan) -> str:
    """Beginning of the names of the server's first copies."""
    return f".{plan.name}.{plan.hash[:16]}."


def _is_mark(plan: Plan, name: str) -> bool:
    """Whether a file is one of these, which in a folder of all are nothing to complain about."""
    return name.startswith(_mark(plan)) and name.endswith("published")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unreadable(folder, error) from None


#: Why a file of another step is not taken.
OTHER_STEP: Final = "a message of another step"


def _other_step(schema: str, header: Header) -> str | None:
    return None if header.schema == schema else OTHER_STEP


def _decoded(decode: Callable[[bytes, Plan], object], plan: Plan, data: bytes) -> object:
    return decode(data, plan)


def _not_own(schema: str, plan: Plan, entity: str, header: Header) -> str | None:
    own = header.schema == schema and header.plan_hash == plan.hash and header.entity == entity
    return None if own else "not this entity's message for this plan"


def _other_plan(phase: Phase, plan: Plan, header: Header, data: bytes) -> str | None:
    """Name what differs in a message of another plan; those of this one the server decodes, and remembers the worse."""
    if header.plan_hash == plan.hash:
        return None
    return _unsound(partial(_decoded, phase.decode_up, plan), header, data) or "a message of another plan"


def _unsound(decode: Callable[[bytes], object], _: Header, data: bytes) -> str | None:
    """Say why bytes are not a message of the plan; a header alone proves nothing."""
    try:
        decode(data)
    except TwofoldError as error:
        return _words(error)
    return None


def _words(error: TwofoldError) -> str:
    return error.summary if error.found is None else f"{error.summary} {error.found}"
