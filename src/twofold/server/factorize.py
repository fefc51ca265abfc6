"""The server's one step: all messages of round 1 in, the item factors of round 2 out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from twofold.errors import BadParameter, PlanMismatch
from twofold.protocol.expected import expected
from twofold.protocol.factor_messages import MOST_USERS
from twofold.protocol.factors import ItemFactors
from twofold.protocol.plan import Plan
from twofold.prototypes.combine import joined, weighted_rows
from twofold.prototypes.message import WeightedRows
from twofold.server.moments import factorize_moments
from twofold.server.rows import SharedFactors, factorize_rows
from twofold.server.sources import Arrived, MessageLike, arrived, check_quorum, spilled
from twofold.server.streaming import factorize_blocks

__all__ = ["MEMORY_LIMIT", "Server", "signed"]

#: Bytes of rows that are put under one another in memory; more are read again in every pass.
MEMORY_LIMIT = 512 * 1024 * 1024


class Server:
    """Turns messages into item factors. Needs no data, no trust and no memory of who sent what.

    Parameters
    ----------
    plan : Plan
        What all sides agreed on.
    memory_limit : int
        Bytes. Rows of each entity's own clusters beyond it are factorized in several passes, some messages at a time;
        messages given as bytes beyond it are put into files meanwhile. Below it the work takes up to five times as much
        as the rows. Passes end at slightly other numbers than a table in memory, so equal bytes need an equal limit.
    scratch : path, optional
        Folder for those files; the system's place for temporary files by default.
    threads : int, optional
        All processors by default; the result does not depend on it.

    Privacy
    -------
    Post-processing: the messages are all it sees. A message with repeatable noise or without a proof is refused unless
    the plan is a simulation, and then the factors say that they are not private.

    Paper
    -----
    Algorithm 2, line 4.

    Examples
    --------
    >>> from twofold.protocol.messages import encode_prototypes
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3, epsilon=9999)
    >>> released = plan.release_mechanism.release(np.array([[1, 2, 0]] * 500), plan.public)
    >>> factors = Server(plan).factorize([encode_prototypes(released.value, entity="st-anna", plan=plan)])
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
    ) -> None:
        if memory_limit < 1:
            raise BadParameter("memory_limit is out of range.", found=f"{memory_limit}", expected="bytes, at least 1")
        if plan.secure is not None:
            raise PlanMismatch(
                "the plan has a secure sum: its messages are masked, and mean something only with the answers.",
                fix="twofold collect, or SecureServer(plan)",
            )
        self.plan = plan
        self.memory_limit = memory_limit
        self.scratch = None if scratch is None else Path(scratch)
        self.threads = threads

    def factorize(self, messages: Iterable[MessageLike]) -> ItemFactors:
        """Check and combine what arrived, and factorize it. Any order gives identical bytes.

        Parameters
        ----------
        messages : iterable of PrototypesMessage, bytes or paths
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
        """Factorize messages that `twofold.server.sources.arrived` has checked."""
        check_quorum(len(taken), self.plan)
        return self._signed(self._shared(taken), taken)

    def _shared(self, taken: Sequence[Arrived]) -> SharedFactors:
        if expected(self.plan).length:  # one row of numbers from each, added up as they are read
            moments = self.plan.release_mechanism.combine(self._contents(taken), self.plan.public)
            return factorize_moments(moments, self.plan)
        large = sum(one.size for one in taken) > self.memory_limit
        if large and self._stacks(taken[0]):
            return factorize_blocks(
                lambda: self._blocks(taken), self.plan, start_rows=self._room(), threads=self.threads
            )
        rows = self.plan.release_mechanism.combine(self._contents(taken), self.plan.public)
        return factorize_rows(rows, self.plan, threads=self.threads)

    def _stacks(self, one: Arrived) -> bool:
        """Whether the mechanism puts rows under one another: the same message twice then gives more rows."""
        content: Any = one.load(self.plan).content
        rows = self.plan.release_mechanism.combine([content, content], self.plan.public)
        return bool(rows.n_rows > content.n_prototypes)

    def _room(self) -> int:
        """Rows that fit into a quarter of the limit, for a start."""
        tables = 2 if self.plan.feedback == "ratings" else 1
        return max(1, self.memory_limit // (4 * 8 * tables * self.plan.n_items))

    def _contents(self, taken: Iterable[Arrived]) -> Iterator[Any]:
        return (one.load(self.plan).content for one in taken)

    def _blocks(self, taken: Iterable[Arrived]) -> Iterator[WeightedRows]:
        """Rows of some messages at a time: what a pass adds up is as large as a message, and is added once a block."""
        held: list[WeightedRows] = []
        size = 0
        for one in taken:
            if held and size + one.size > self.memory_limit // 8:
                yield joined(held)
                held, size = [], 0
            content: Any = one.load(self.plan).content
            held.append(weighted_rows([content], self.plan.public))
            size += one.size
        if held:
            yield joined(held)

    def _signed(self, shared: SharedFactors, taken: Sequence[Arrived]) -> ItemFactors:
        sound = not any(one.seeded for one in taken)
        return signed(shared, self.plan, entities=len(taken), sound=sound)


def signed(shared: SharedFactors, plan: Plan, *, entities: int, sound: bool) -> ItemFactors:
    """Put the plan's name under the numbers; private only when every message was, and the plan is no simulation."""
    private = sound and plan.release_mechanism.private and not plan.simulation
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
        **second,  # type: ignore[arg-type]
    )


def _scratch(stack: ExitStack, parent: Path | None) -> Callable[[], Path]:
    """Give a temporary folder that is made at the first need and goes with the stack."""

    @cache
    def folder() -> Path:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="twofold-", dir=parent)))

    return folder
