r"""The server's one step: all messages of round 1 in, the item factors of round 2 out.

Messages may come in any form. They are checked once and read again as often as needed, without being kept. Noisy
moments become shared factors according to the meaning of an absent entry.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadMessage, BadParameter, ConflictingMessage, PlanMismatch, ProtocolError, TooFewMessages
from twofold.federation.factors import MOST_USERS, ItemFactors
from twofold.federation.messages import ReleaseMessage, decode_release, message_limit, receipt
from twofold.federation.plan import Plan
from twofold.progress import tell
from twofold.release.combine import weighted_rows
from twofold.release.content import Moments, WeightedRows
from twofold.server.rows import SharedFactors, factorize_rows
from twofold.server.streaming import ahead, factorize_blocks
from twofold.storage.files import read_limited, write_whole

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = [
    "MEMORY_LIMIT",
    "Arrived",
    "MessageLike",
    "Server",
    "arrived",
    "check_number",
    "check_quorum",
    "checked",
    "conflict",
    "factorize_moments",
    "signed",
    "spilled",
]

#: Bytes of rows that are stacked in memory; more are read again in every pass.
MEMORY_LIMIT = 512 * 1024 * 1024


class Server:
    """Turn messages into item factors. Needs no data, no trust and no memory of who sent what.

    Parameters
    ----------
    plan : Plan
        The plan of all sides.
    memory_limit : int
        Bytes. Rows of each entity's own clusters beyond it are factorized in several passes, some messages at a time;
        messages given as bytes beyond it are kept in files. Below it, the work takes up to five times as much memory as
        the rows. Passes give slightly different numbers than a table in memory, so equal bytes need an equal limit.
        What adds up is read one message at a time whatever the limit.
    scratch : path, optional
        Folder for those files; the system's temporary folder by default.
    threads : int, optional
        All processors by default; the result does not depend on it.
    signer : SigningKey, optional
        The operator's, with which `coordinate` signs what it publishes.

    Privacy
    -------
    Post-processing: it sees only the messages. A message with repeatable noise or without a proof is refused unless
    the plan is a simulation, and then the factors say that they are not private.

    Paper
    -----
    Algorithm 2, line 4.

    Examples
    --------
    >>> from twofold.federation.messages import encode_release
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3, epsilon=9999)
    >>> released = plan.release_mechanism.release(np.array([[1, 2, 0]] * 500), plan.parameters)
    >>> factors = Server(plan).factorize([encode_release(released.value, entity="st-anna", plan=plan)])
    >>> factors.means.round(1) + 0.0, factors.entities, factors.private
    (array([1., 2., 0.]), 1, True)
    """

    def __init__(
        self,
        plan: Plan,
        *,
        memory_limit: int = MEMORY_LIMIT,
        scratch: str | PathLike[str] | None = None,
        threads: int | None = None,
        signer: SigningKey | None = None,
    ) -> None:
        if memory_limit < 1:
            raise BadParameter("memory_limit is out of range.", found=f"{memory_limit}", expected="bytes, at least 1")
        if plan.secure is not None:
            raise PlanMismatch(
                "the plan has a secure sum: its messages are masked and useless without the answers.",
                fix="twofold coordinate, or SecureServer(plan)",
                parameter="secure",
            )
        self.plan = plan
        self.memory_limit = memory_limit
        self.scratch = None if scratch is None else Path(scratch)
        self.threads = threads
        self.signer = signer

    def factorize(self, messages: Iterable[MessageLike]) -> ItemFactors:
        """Check and combine what arrived, and factorize it. Any order gives identical bytes.

        Parameters
        ----------
        messages : iterable of ReleaseMessage, bytes or paths
            One of each entity; the same bytes twice count once.

        Raises
        ------
        BadMessage, PlanMismatch, NotForRealUse
            A message that does not belong here.
        ConflictingMessage
            Two different messages from one entity.
        TooFewMessages
            Fewer entities than the plan's quorum.
        """
        with ExitStack() as stack:
            taken = arrived(messages, self.plan, spilled(_scratch(stack, self.scratch), self.memory_limit // 2))
            return self.factorize_arrived(taken)

    def factorize_arrived(self, taken: Sequence[Arrived]) -> ItemFactors:
        """Factorize messages that `twofold.server.factorize.arrived` has checked."""
        check_quorum(len(taken), self.plan)
        sound = not any(one.seeded for one in taken)
        return signed(self._shared(taken), self.plan, entities=len(taken), sound=sound)

    def _shared(self, taken: Sequence[Arrived]) -> SharedFactors:
        spec = self.plan.spec
        contents = _Contents(taken, self.plan)
        if spec.sum is not None:
            moments = self.plan.release_mechanism.combine(contents, self.plan.parameters)
            return factorize_moments(moments, self.plan)
        if spec.stacks and sum(one.size for one in taken) > self.memory_limit:
            return factorize_blocks(
                lambda: self._blocks(taken), self.plan, start_rows=self._room(), threads=self.threads
            )
        rows = self.plan.release_mechanism.combine(contents, self.plan.parameters)
        return factorize_rows(rows, self.plan, threads=self.threads)

    def _room(self) -> int:
        """Rows that fit into a quarter of the limit, for a start."""
        tables = 2 if self.plan.feedback == "ratings" else 1
        return max(1, self.memory_limit // (4 * 8 * tables * self.plan.n_items))

    def _blocks(self, taken: Iterable[Arrived]) -> Iterator[WeightedRows]:
        """Rows of some messages at a time; the next messages are read and checked while one block is worked on."""
        for contents in ahead(self._some(taken), self.threads):
            yield self._rows(contents)

    def _some(self, taken: Iterable[Arrived]) -> Iterator[list[Any]]:
        """Contents of some messages: what a pass adds up is as large as a message, and is added once a block."""
        held: list[Any] = []
        size = 0
        for one in taken:
            if held and size + one.size > self.memory_limit // 8:
                yield held
                held, size = [], 0
            held.append(one.load(self.plan).content)
            size += one.size
        if held:
            yield held

    def _rows(self, contents: list[Any]) -> WeightedRows:
        """Rows of these messages, which are dropped: others hold the list while the rows are worked on."""
        rows = weighted_rows(contents, self.plan.parameters)
        contents.clear()
        return rows


def signed(shared: SharedFactors, plan: Plan, *, entities: int, sound: bool) -> ItemFactors:
    """Attach the plan to the numbers; private only if every message is and the plan is not a simulation."""
    private = sound and plan.spec.private and not plan.simulation
    second = {"patterns": shared.patterns, "strengths": shared.strengths, "squares": shared.squares}
    if shared.patterns is not None:
        second["patterns"] = shared.patterns.astype(np.float32)
    return ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        factors=shared.factors.astype(np.float32),
        moments=shared.moments,
        means=shared.means,
        # Beyond what a message may say only liars get, and they are not to keep the factors from going out.
        support=np.minimum(shared.support, MOST_USERS),
        users=min(shared.users, MOST_USERS),
        entities=entities,
        private=private,
        note=shared.note,
        totals=shared.totals,
        **second,  # type: ignore[arg-type]
    )


def _scratch(stack: ExitStack, parent: Path | None) -> Callable[[], Path]:
    """Give a temporary folder that is created when needed and removed with the stack."""

    @cache
    def folder() -> Path:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="twofold-", dir=parent)))

    return folder


MessageLike = ReleaseMessage | bytes | str | PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A checked message, and how to get its bytes again.

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
    message : ReleaseMessage, optional
        The decoded message, if it stays in memory anyway.
    """

    entity: str
    receipt: str
    size: int
    seeded: bool
    read: Callable[[], bytes] = field(repr=False, compare=False)
    message: ReleaseMessage | None = field(default=None, repr=False, compare=False)

    def load(self, plan: Plan) -> ReleaseMessage:
        """Decode again; refuse bytes other than those that were checked."""
        if self.message is not None:
            return self.message
        data = self.read()
        if receipt(data) != self.receipt:
            raise BadMessage(
                "a message changed while the server worked on it.",
                found=f"the message of {self.entity}",
                expected=f"receipt {self.receipt[:12]}",
                fix="start again with files that nobody is writing to",
                parameter="messages",
            )
        return decode_release(data, plan, known=True)


class _Contents(Sequence[Any]):
    """What checked messages hold: read and decoded whenever it is asked for, never kept."""

    def __init__(self, taken: Sequence[Arrived], plan: Plan) -> None:
        self._taken, self._plan = taken, plan

    def __len__(self) -> int:
        return len(self._taken)

    def __getitem__(self, place: Any) -> Any:
        tell("messages added", place, len(self._taken))
        return self._taken[place].load(self._plan).content


def arrived(messages: Iterable[MessageLike], plan: Plan, keep: Callable[[bytes], Callable[[], bytes]]) -> list[Arrived]:
    """Check every message and give one of each entity, in the order of their receipts.

    Parameters
    ----------
    messages : iterable of ReleaseMessage, bytes or paths
        Each is checked once and dropped; a path is read again later.
    plan : Plan
        The plan they must belong to.
    keep : callable
        Takes bytes, gives a function that returns them later; see `spilled`.

    Raises
    ------
    ConflictingMessage
        Two different messages from one entity. The same bytes twice count once.
    """
    found: dict[str, Arrived] = {}
    total = len(messages) if isinstance(messages, Sized) else 0
    for number, message in enumerate(_several(messages)):
        if total:
            tell("messages checked", number, total)
        try:
            one = _check(message, plan, keep, found)
        except ProtocolError as error:
            raise _named(error, message) from None
        if found.setdefault(one.entity, one).receipt != one.receipt:
            raise conflict(one.entity)
    return sorted(found.values(), key=lambda one: one.receipt)


def _named(error: ProtocolError, message: MessageLike) -> ProtocolError:
    """Name the file; among forty it would be hard to find."""
    if not isinstance(message, str | PathLike):
        return error
    return error.as_(type(error), summary=f"{Path(message).name}: {error.parts['summary']}")


def check_quorum(number: int, plan: Plan) -> None:
    """Refuse to continue with fewer entities than the plan requires.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> check_quorum(0, Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2))
    Traceback (most recent call last):
    twofold.errors.TooFewMessages: fewer entities answered than the plan requires...
    """
    check_number(number, plan.quorum, plan.expected_entities)


def check_number(number: int, quorum: int, expected: int) -> None:
    """Refuse to continue with fewer entities than a step needs.

    Examples
    --------
    >>> check_number(3, 3, 5)
    """
    if number < quorum:
        raise TooFewMessages(
            "fewer entities answered than the plan requires.",
            found=f"{number}",
            expected=f"at least {quorum} of {expected}",
            fix="wait for more messages; nothing was published",
            parameter="quorum",
        )


def conflict(entity: str) -> ConflictingMessage:
    """Name the entity that sent two different messages."""
    return ConflictingMessage(
        "an entity sent two different messages.",
        found=f"two messages of {entity}",
        expected="one message from each entity; the same bytes may arrive twice",
        fix=f"ask {entity} which one its ledger holds, and leave the other out",
        parameter="entity",
    )


def spilled(folder: Callable[[], Path], limit: int) -> Callable[[bytes], Callable[[], bytes]]:
    """Keep bytes in memory up to a total limit, and the rest in files of a folder that is created when needed.

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
    if isinstance(messages, bytes | str | PathLike | ReleaseMessage):
        messages = [messages]
    yield from messages


def _check(
    message: MessageLike, plan: Plan, keep: Callable[[bytes], Callable[[], bytes]], known: dict[str, Arrived]
) -> Arrived:
    place = Path(message) if isinstance(message, str | PathLike) else None
    if place is not None:
        data = read_limited(place, message_limit(plan))
    elif isinstance(message, bytes | ReleaseMessage):
        data = message if isinstance(message, bytes) else message.data
    else:
        raise BadMessage(
            "this is not a message.", found=f"a {type(message).__name__}", expected="ReleaseMessage, bytes or a path"
        )
    found = decode_release(data, plan)
    before = known.get(found.entity)
    if before is not None and before.receipt == found.receipt:  # not kept a second time
        return before
    return checked(found, keep(data) if place is None else partial(read_limited, place, message_limit(plan)))


def checked(message: ReleaseMessage, read: Callable[[], bytes] | None) -> Arrived:
    """Drop a decoded message except for what is needed to read it again; without `read`, keep it."""
    return Arrived(
        entity=message.entity,
        receipt=message.receipt,
        size=len(message.data),
        seeded=message.content.seeded,
        read=read or (lambda: message.data),
        message=message if read is None else None,
    )


def factorize_moments(moments: Moments, plan: Plan) -> SharedFactors:
    """Denoise the moments of all users and factorize them.

    Parameters
    ----------
    moments : Moments
        What a bilinear mechanism's ``combine`` gives.
    plan : Plan
        Rank, feedback and public features.

    Privacy
    -------
    Post-processing of released numbers.
    """
    if plan.feedback == "counts":
        from twofold.server.counts import factorize_counts

        return factorize_counts(moments, plan)
    from twofold.server.ratings import factorize_ratings

    return factorize_ratings(moments, plan)


#: Relative difference between the item factors of two machines that an operator still signs.
_SAME: Final = 1e-2
_SAME_SUM: Final = 1e-6  # the same for sums, which a message rounds to single precision


def differing(ours: ItemFactors, theirs: ItemFactors) -> str:
    """Name what differs between two sets of item factors by more than machines may; empty if nothing does.

    Factors and patterns may differ in sign, order and rotation. What an entity uses are their products, so those are
    compared, along public directions.
    """
    if (ours.entities, ours.private) != (theirs.entities, theirs.private):
        return "entities"
    if not np.isclose(ours.users, theirs.users, rtol=_SAME):
        return "users"
    for name in ("means", "support", "squares"):
        one, other = getattr(ours, name), getattr(theirs, name)
        if (one is None) != (other is None) or (one is not None and not _near(one, other)):
            return name
    line = np.cos(np.arange(ours.means.size, dtype=np.float64))  # any fixed direction
    if not _near(*(one.factors @ (one.moments @ (one.factors.T @ line)) for one in (ours, theirs))):
        return "factors"
    both = ours.patterns is not None and theirs.patterns is not None
    if both and not _near(_along(ours, line), _along(theirs, line)):
        return "patterns"
    return "" if _same_totals(ours.totals, theirs.totals) else "totals"


def _same_totals(one: Moments | None, other: Moments | None) -> bool:
    """Whether two operators hold the same noisy totals; these are sums, so machines agree far better on them."""
    if one is None or other is None:
        return one is other
    alike = (one.entities, one.seeded) == (other.entities, other.seeded)
    for name in ("users", "users_noise", "sums_noise", "pairs_noise", "weight_per_user", "sums", "pairs"):
        alike &= _near(*(np.atleast_1d(getattr(part, name)) for part in (one, other)), share=_SAME_SUM)
    return alike


def _along(one: ItemFactors, line: NDArray[np.float64]) -> NDArray[np.float64]:
    assert one.patterns is not None
    assert one.strengths is not None
    return np.asarray(one.patterns @ (one.strengths * (one.patterns.T @ line)), dtype=np.float64)


def _near(one: NDArray[np.float64], other: NDArray[np.float64], *, share: float = _SAME) -> bool:
    return one.shape == other.shape and bool(
        np.linalg.norm(one - other) <= share * max(float(np.linalg.norm(one)), 1e-12)
    )
