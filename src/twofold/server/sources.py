"""Messages in whatever form they come, checked once, and then read again as often as needed without being kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from twofold.errors import BadMessage, ConflictingMessage, ProtocolError, TooFewMessages
from twofold.protocol.files import read_limited, write_whole
from twofold.protocol.messages import PrototypesMessage, decode_prototypes, message_limit, receipt
from twofold.protocol.plan import Plan

__all__ = ["Arrived", "MessageLike", "arrived", "check_number", "check_quorum", "checked", "conflict", "spilled"]

MessageLike = PrototypesMessage | bytes | str | PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A message that was checked, and how to get its bytes again.

    Parameters
    ----------
    entity, receipt : str
        Who sent it, and the SHA-256 of its bytes.
    size : int
        Bytes.
    seeded : bool
        Whether its noise came from a seed.
    read : callable
        Gives the bytes.
    """

    entity: str
    receipt: str
    size: int
    seeded: bool
    read: Callable[[], bytes] = field(repr=False, compare=False)

    def load(self, plan: Plan) -> PrototypesMessage:
        """Decode once more; bytes other than those that were checked are refused."""
        data = self.read()
        if receipt(data) != self.receipt:
            raise BadMessage(
                "a message changed while the server worked on it.",
                found=f"the message of {self.entity}",
                expected=f"receipt {self.receipt[:12]}",
                fix="start again with files that nobody writes to",
            )
        return decode_prototypes(data, plan)


def arrived(messages: Iterable[MessageLike], plan: Plan, keep: Callable[[bytes], Callable[[], bytes]]) -> list[Arrived]:
    """Check every message and give one of each entity, in the order of their receipts.

    Parameters
    ----------
    messages : iterable of PrototypesMessage, bytes or paths
        Each is looked at once and let go; a path is read again later.
    plan : Plan
        What they must belong to.
    keep : callable
        Takes bytes, gives a function that returns them later; see `spilled`.

    Raises
    ------
    ConflictingMessage
        Two different messages from one entity. The same bytes twice count once.
    """
    found: dict[str, Arrived] = {}
    for message in _several(messages):
        try:
            one = _check(message, plan, keep, found)
        except ProtocolError as error:
            raise _named(error, message) from None
        if found.setdefault(one.entity, one).receipt != one.receipt:
            raise conflict(one.entity)
    return sorted(found.values(), key=lambda one: one.receipt)


def _named(error: ProtocolError, message: MessageLike) -> ProtocolError:
    """Say which file it was; among forty, nobody finds it otherwise."""
    if not isinstance(message, str | PathLike):
        return error
    return type(error)(
        f"{Path(message).name}: {error.summary}", found=error.found, expected=error.expected, fix=error.fix
    )


def check_quorum(number: int, plan: Plan) -> None:
    """Refuse to go on with fewer entities than the plan asks for.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> check_quorum(0, Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2))
    Traceback (most recent call last):
    twofold.errors.TooFewMessages: fewer entities answered than the plan asks for...
    """
    check_number(number, plan.quorum, len(plan.entities) or plan.n_entities)


def check_number(number: int, quorum: int, expected: int) -> None:
    """Refuse to go on with fewer entities than a step needs.

    Examples
    --------
    >>> check_number(3, 3, 5)
    """
    if number < quorum:
        raise TooFewMessages(
            "fewer entities answered than the plan asks for.",
            found=f"{number}",
            expected=f"at least {quorum} of {expected}",
            fix="wait for more messages; nothing was published",
        )


def conflict(entity: str) -> ConflictingMessage:
    """Name the entity that sent two different messages."""
    return ConflictingMessage(
        "an entity sent two different messages.",
        found=f"two messages of {entity}",
        expected="one message of each entity; the same bytes may come twice",
        fix=f"ask {entity} which one its ledger holds, and leave the other out",
    )


def spilled(folder: Callable[[], Path], limit: int) -> Callable[[bytes], Callable[[], bytes]]:
    """Keep bytes in memory up to a limit in all, and the rest in files of a folder that is made when needed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     keep = spilled(lambda: Path(place), limit=3)
    ...     read = [keep(b"abc"), keep(b"def")]
    ...     [one() for one in read], len(list(Path(place).iterdir()))
    ([b'abc', b'def'], 1)
    """
    held = 0

    def keep(data: bytes) -> Callable[[], bytes]:
        nonlocal held
        if held + len(data) <= limit:
            held += len(data)
            return lambda: data
        path, size = folder() / f"{receipt(data)}.round1", len(data)
        write_whole(path, data, mode=0o600)
        return lambda: read_limited(path, size)

    return keep


def _several(messages: Iterable[MessageLike]) -> Iterator[MessageLike]:
    if isinstance(messages, bytes | str | PathLike | PrototypesMessage):
        messages = [messages]
    yield from messages


def _check(
    message: MessageLike, plan: Plan, keep: Callable[[bytes], Callable[[], bytes]], known: dict[str, Arrived]
) -> Arrived:
    if isinstance(message, bytes | PrototypesMessage):
        data = message if isinstance(message, bytes) else message.data
        place = None
    elif isinstance(message, str | PathLike):
        place = Path(message)
        data = read_limited(place, message_limit(plan))
    else:
        raise BadMessage(
            "this is not a message.", found=f"a {type(message).__name__}", expected="PrototypesMessage, bytes or a path"
        )
    return _arrived(decode_prototypes(data, plan), place, plan, keep, known)


def _arrived(
    message: PrototypesMessage,
    place: Path | None,
    plan: Plan,
    keep: Callable[[bytes], Callable[[], bytes]],
    known: dict[str, Arrived],
) -> Arrived:
    before = known.get(message.entity)
    if before is not None and before.receipt == message.receipt:
        return before
    return checked(message, keep(message.data) if place is None else lambda: read_limited(place, message_limit(plan)))


def checked(message: PrototypesMessage, read: Callable[[], bytes]) -> Arrived:
    """Let go of a message that was decoded, but for what is needed to read it again."""
    return Arrived(
        entity=message.entity,
        receipt=message.receipt,
        size=len(message.data),
        seeded=message.content.seeded,
        read=read,
    )
