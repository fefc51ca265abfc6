"""What one entity does in each round: plain functions with plain arguments, so that any executor can run them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twofold.algorithms._blas_threads import one_blas_thread
from twofold.algorithms._jit import at_most_threads
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.entity.model import Model
from twofold.errors import LedgerBroken
from twofold.privacy.budget import NotPrivate
from twofold.privacy.ledger import Ledger
from twofold.protocol.plan import Plan

__all__ = ["Local", "Member", "Strength", "first_round", "second_round"]

Local = Literal["auto", "factors", "item-item", "patterns", "features"]
Strength = float | Literal["auto", "own", "shared"]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One entity of a simulation: everything its two rounds need, in a form that crosses process borders.

    Parameters
    ----------
    name : str
        As in the plan.
    ratings : Ratings
        Private; never in a result.
    plan : Plan
        The public parameters.
    ledger : Path, optional
        Its ledger; made when it does not exist, without a word: the calling process has warned (`settle_missing`).
    may_make : bool
        Whether a missing ledger is made.
    seed : int, optional
        Of its noise; None draws from the operating system.
    threads : int
        Threads of the compiled kernels.
    keys : Path or bytes, optional
        Its secret keys, for a secure sum: a file, or what `Keys.to_bytes` gave.
    """

    name: str
    ratings: Ratings
    plan: Plan
    ledger: Path | None = None
    may_make: bool = True
    seed: int | None = None
    threads: int = 1
    keys: Path | bytes | None = field(default=None, repr=False)

    def entity(self) -> Entity:
        """Wire it up; refuses ratings that are not of the plan."""
        return Entity(self.name, self.ratings, self.plan, ledger=self.ledger, rng=self.seed, keys=self._secrets())

    @contextmanager
    def working(self) -> Iterator[None]:
        """Keep to the member's threads, and have its ledger ready."""
        with at_most_threads(self.threads), one_blas_thread():
            _open_ledger(self)
            yield

    def _secrets(self) -> Any:
        if not isinstance(self.keys, bytes):
            return self.keys
        from twofold.secure_sum import Keys  # loads the library of ciphers

        return Keys.from_bytes(self.keys)


def first_round(member: Member) -> bytes:
    """Give the bytes an entity sends; with a ledger the stored ones if there are any."""
    with member.working():
        return bytes(member.entity().prototypes().data)


def second_round(member: Member, factors: bytes, local: Local, strength: Strength) -> Model:
    """Fit an entity's own model to the item factors that came back."""
    with at_most_threads(member.threads), one_blas_thread():
        return member.entity().personalize(factors, local=local, strength=strength, threads=member.threads)


def _open_ledger(member: Member) -> None:
    """Make the ledger of an entity that has none, with room for this plan's one release."""
    if member.ledger is None or member.ledger.exists():
        return
    if not member.may_make:  # it was there a moment ago, or this is a machine that does not see the folder
        raise LedgerBroken(
            "the ledger is not here, and none may be made; nothing was drawn.",
            fix="give a folder that every process of the executor can see",
        )
    plan, priced = member.plan, member.seed is None and member.plan.release_mechanism.private
    ceiling: Any = plan.budget if priced else NotPrivate(reason="a simulation")
    try:
        Ledger.create(member.ledger, dataset=member.name, ceiling=ceiling, unit=plan.unit)
    except LedgerBroken:
        if not member.ledger.exists():  # else another process made it first
            raise
