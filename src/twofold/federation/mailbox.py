"""The steps of a federation: in each, every entity sends one message up, and the server publishes one down.

A plain federation has one step, the two rounds. A secure sum among the entities has three: key shares up and the
participants down, masked numbers up and the survivors down, answers up and the item factors down. A plan that is not a
simulation has one before these: agreements up, and all agreements down. A secure sum with two operators has one step,
reports up and the item factors down; the agreements of its operators come with the plan. What the operators send each
other travels like messages of entities, in steps of their own. Mailboxes and coordinators work on any of them.

A transport is a mailbox: it carries an entity's messages up and what the server publishes down, as bytes.
`InProcess` has both ends in one process, for the library, for tests and for simulations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from twofold.checks import check_entity_name
from twofold.errors import BadMessage, ConflictingMessage, RoundClosed
from twofold.federation.bodies import body_limit
from twofold.federation.factors import decode_factors, factors_limit
from twofold.federation.messages import (
    AGREED,
    AGREEMENT,
    ANSWER,
    BUNDLE,
    DRAFT,
    FACTORS,
    FREEZE,
    LIST,
    RELEASE,
    REPORT,
    REVEAL,
    ROLL,
    SHARES,
    SURVIVORS,
    decode_release,
    message_limit,
    read_header,
    receipt,
)
from twofold.federation.plan import Plan

__all__ = [
    "AGREE",
    "ANSWERS",
    "BETWEEN",
    "BUNDLES",
    "DRAFTS",
    "FREEZES",
    "KEYS",
    "LISTS",
    "MASKED",
    "REPORTS",
    "REVEALS",
    "ROUNDS",
    "Channel",
    "EntityMailbox",
    "InProcess",
    "NothingYet",
    "OperatorMailbox",
    "Rejected",
    "ServerMailbox",
    "Step",
    "StepId",
    "Submission",
    "Submitted",
    "as_bytes",
    "check_sender",
    "steps_of",
]


class StepId(StrEnum):
    """Name of a step; also in file names."""

    AGREE = "agree"
    ROUNDS = "rounds"
    KEYS = "keys"
    MASKED = "masked"
    ANSWERS = "answers"
    REPORTS = "reports"
    BUNDLES = "bundles"
    LISTS = "lists"
    FREEZES = "freezes"
    REVEALS = "reveals"
    DRAFTS = "drafts"


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One direction of a step.

    Parameters
    ----------
    schema : str
        Kind of its messages, as their headers say.
    suffix : str
        Suffix of their files.
    decode : callable
        Reads and checks one; what an entity sends has an `entity`.
    limit : callable
        Most bytes of one under a plan.
    """

    schema: str
    suffix: str
    decode: Callable[[bytes, Plan], Any]
    limit: Callable[[Plan], int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One step: what entities send `up`, and what the server publishes, `down`. There is one object of each."""

    id: StepId
    up: Channel
    down: Channel

    def __repr__(self) -> str:
        return f"Step({self.id})"

    def __reduce__(self) -> tuple[object, ...]:
        """Stay the same object in another process."""
        return (_step, (self.id,))


def steps_of(plan: Plan) -> tuple[Step, ...]:
    """Give the steps of a plan, in order.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> steps_of(Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2))
    (Step(agree), Step(rounds))
    """
    if plan.operators is not None:
        return (REPORTS,)
    first = () if plan.simulation else (AGREE,)
    return (*first, ROUNDS) if plan.secure is None else (*first, KEYS, MASKED, ANSWERS)


def _step(name: StepId) -> Step:
    return next(step for step in _STEPS if step.id is name)


def _key_channel(
    module: str, schema: str, suffix: str, decoder: str, *, everybody: bool = False, limiter: str | None = None
) -> Channel:
    """Transfer messages of keys and signatures; the cipher library is loaded with the first one."""

    def decode(data: bytes, plan: Plan) -> Any:
        return getattr(import_module(f"twofold.federation.{module}"), decoder)(data, plan)

    def limit(plan: Plan) -> int:
        if limiter is None:
            return body_limit(plan, everybody=everybody)
        return int(getattr(import_module(f"twofold.federation.{module}"), limiter)(plan))

    return Channel(schema=schema, suffix=suffix, decode=decode, limit=limit)


_RELEASE: Final = Channel(schema=RELEASE, suffix="round1", decode=decode_release, limit=message_limit)
_FACTORS: Final = Channel(schema=FACTORS, suffix="round2", decode=decode_factors, limit=factors_limit)
AGREE: Final = Step(
    id=StepId.AGREE,
    up=_key_channel("agreement", AGREEMENT, "agreement", "decode_agreement"),
    down=_key_channel("agreement", AGREED, "agreed", "decode_agreed", everybody=True),
)
ROUNDS: Final = Step(id=StepId.ROUNDS, up=_RELEASE, down=_FACTORS)
KEYS: Final = Step(
    id=StepId.KEYS,
    up=_key_channel("key_messages", SHARES, "shares", "decode_shares"),
    down=_key_channel("key_messages", ROLL, "roll", "decode_participants", everybody=True),
)
MASKED: Final = Step(
    id=StepId.MASKED,
    up=_RELEASE,
    down=_key_channel("key_messages", SURVIVORS, "survivors", "decode_survivors"),
)
ANSWERS: Final = Step(
    id=StepId.ANSWERS, up=_key_channel("key_messages", ANSWER, "answer", "decode_answer"), down=_FACTORS
)

REPORTS: Final = Step(
    id=StepId.REPORTS,
    up=_key_channel("reports", REPORT, "report", "decode_report", limiter="report_limit"),
    down=_FACTORS,
)


def _between(name: StepId, schema: str, suffix: str) -> Step:
    """A step between the operators, in which nothing is published."""
    up = _key_channel("exchange", schema, suffix, f"decode_{suffix}", limiter=f"{suffix}_limit")
    return Step(id=name, up=up, down=up)


LISTS: Final = _between(StepId.LISTS, LIST, "list")
FREEZES: Final = _between(StepId.FREEZES, FREEZE, "freeze")
REVEALS: Final = _between(StepId.REVEALS, REVEAL, "reveal")
DRAFTS: Final = _between(StepId.DRAFTS, DRAFT, "draft")
#: Several reports in one file, for those who carry many.
_BUNDLE: Final = _key_channel("reports", BUNDLE, "bundle", "decode_bundle", limiter="bundle_limit")
BUNDLES: Final = Step(id=StepId.BUNDLES, up=_BUNDLE, down=_BUNDLE)
#: Steps in which one operator waits for the other, in order.
BETWEEN: Final = (StepId.LISTS, StepId.FREEZES, StepId.REVEALS, StepId.DRAFTS)
_STEPS: Final = (AGREE, ROUNDS, KEYS, MASKED, ANSWERS, REPORTS, LISTS, FREEZES, REVEALS, DRAFTS, BUNDLES)


class Rejected(NamedTuple):
    """Something that arrived and was rejected: its public name, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A message that was handed over: the SHA-256 of its bytes, and whether it was new."""

    receipt: str
    new: bool


@dataclass(frozen=True, kw_only=True)
class NothingYet:
    """The server has not visibly published yet; `rejected` says what arrived instead."""

    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One complete message. Its bytes stay where they are until `read` is called.

    Parameters
    ----------
    entity : str
        Sender according to the header; a hint until the message is decoded.
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
    """The entity's end. Both calls may be repeated at any time, for example after a crash or a timeout."""

    def submit(self, step: Step, data: bytes, *, entity: str) -> Submitted:
        """Hand over the entity's message.

        The same bytes again change nothing. Other bytes for the same entity raise ConflictingMessage.
        """
        ...

    def fetch(self, step: Step) -> bytes | NothingYet:
        """Give what the server published."""
        ...


@runtime_checkable
class ServerMailbox(Protocol):
    """The server's end."""

    def submissions(self, step: Step) -> Iterator[Submission]:
        """Give the complete messages that arrived, each once however often it was sent.

        Two different messages from one entity are both given: the transport does not decide between them.
        """
        ...

    def rejected(self, step: Step) -> list[Rejected]:
        """Give what arrived and was rejected, with the reason, as of the last complete pass of `submissions`."""
        ...

    def publish(self, step: Step, data: bytes) -> str:
        """Publish once; gives the receipt.

        The same bytes again change nothing. Other bytes raise RoundClosed.
        """
        ...

    def published(self, step: Step) -> bytes | None:
        """Give what was published, or None."""
        ...


@runtime_checkable
class OperatorMailbox(ServerMailbox, Protocol):
    """An operator's end: a server's, and a way to the other operator."""

    def post(self, step: Step, data: bytes) -> None:
        """Hand over a message to the other operator; the same bytes again change nothing."""
        ...

    def sent(self, step: Step) -> Iterator[Submission]:
        """Give what this end handed over and can still see."""
        ...


def as_bytes(data: object) -> bytes:
    """Refuse anything but bytes.

    Examples
    --------
    >>> as_bytes("text")
    Traceback (most recent call last):
    twofold.errors.BadMessage: a transport carries bytes...
    """
    if not isinstance(data, bytes):
        raise BadMessage(
            "a transport carries bytes.",
            found=f"a {type(data).__name__}",
            fix="message.data",
            parameter="data",
        )
    return data


def check_sender(data: bytes, entity: str) -> None:
    """Refuse a message whose name differs from its header, or an incomplete one."""
    header = read_header(data)
    if header.entity != check_entity_name(entity):
        raise BadMessage(
            "the message has another name.", found=header.entity or "none", expected=entity, parameter="entity"
        )
    if header.size != len(data):
        raise BadMessage("the message is not complete.", found=f"{len(data):,} bytes", expected=f"{header.size:,}")


class InProcess:
    """An `EntityMailbox` and a `ServerMailbox` that keep the bytes in memory; threads may share one.

    Examples
    --------
    >>> from twofold.federation.mailbox import ROUNDS
    >>> box = InProcess()
    >>> box.fetch(ROUNDS)
    NothingYet(rejected=())
    >>> box.publish(ROUNDS, b"factors") == box.publish(ROUNDS, b"factors"), box.fetch(ROUNDS)
    (True, b'factors')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[tuple[StepId, str], Submission] = {}
        self._published: dict[StepId, bytes] = {}
        self._posted: dict[StepId, dict[str, Submission]] = {}

    def submit(self, step: Step, data: bytes, *, entity: str) -> Submitted:
        """Keep the entity's message; see `EntityMailbox`. After publication, nothing new is accepted."""
        content, mark = as_bytes(data), receipt(data)
        check_sender(content, entity)
        with self._lock:
            known = self._messages.get((step.id, entity))
            if known is None and step.id in self._published:
                raise closed()
            if known is not None and known.receipt != mark:
                raise conflict(entity)
            self._messages[step.id, entity] = Submission(entity=entity, receipt=mark, read=lambda: content)
        return Submitted(receipt=mark, new=known is None)

    def fetch(self, step: Step) -> bytes | NothingYet:
        """Give what the server published."""
        found = self.published(step)
        return NothingYet() if found is None else found

    def submissions(self, step: Step) -> Iterator[Submission]:
        """Give the messages by the names of their entities."""
        with self._lock:
            held = [one for (at, _), one in sorted(self._messages.items()) if at is step.id]
            held += self._posted.get(step.id, {}).values()
        yield from held

    def post(self, step: Step, data: bytes) -> None:
        """Keep a message of an operator; see `OperatorMailbox`."""
        content, mark = as_bytes(data), receipt(data)
        one = Submission(entity=read_header(content).entity or "", receipt=mark, read=lambda: content)
        with self._lock:
            self._posted.setdefault(step.id, {}).setdefault(mark, one)

    def sent(self, step: Step) -> Iterator[Submission]:
        """Give the messages of operators; see `OperatorMailbox`."""
        with self._lock:
            held = list(self._posted.get(step.id, {}).values())
        yield from held

    def rejected(self, step: Step) -> list[Rejected]:  # noqa: ARG002
        """Nothing: a rejected message is refused at once."""
        return []

    def publish(self, step: Step, data: bytes) -> str:
        """Publish once; see `ServerMailbox`."""
        content = as_bytes(data)
        with self._lock:
            if self._published.setdefault(step.id, content) != content:
                raise closed()
        return receipt(content)

    def published(self, step: Step) -> bytes | None:
        """Give what was published, or None."""
        with self._lock:
            return self._published.get(step.id)


def closed() -> RoundClosed:
    """Refuse messages after publication."""
    return RoundClosed("the server has published and takes no further messages.", fix="fetch it, or start a new plan")


def conflict(entity: str) -> ConflictingMessage:
    """Refuse a second, different message."""
    return ConflictingMessage(
        "this entity already has another message.",
        found=f"two different messages of {entity}",
        expected="one message per plan, with the same bytes each time it is sent",
        fix="send what the ledger stored: Entity.release() gives it again",
        parameter="entity",
    )
