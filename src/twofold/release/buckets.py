r"""Public buckets: users go to cells by public random directions, and the whole budget is spent on noisy sums.

Popularity: one prototype of all users, the least that every federation gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.privacy.events import Released
from twofold.privacy.rng import Source, source
from twofold.release.cells import CellNoise, spec_usefulness
from twofold.release.combine import added_up
from twofold.release.content import Integers, Prototypes, WeightedRows
from twofold.release.contract import Adding, ReleaseParameters, ReleaseSpec, check_rows, check_whole
from twofold.release.records import Block, cell_sums, directions, total_of
from twofold.release.usefulness import Usefulness, fallback_note, noise_ratio

__all__ = ["Buckets", "Popularity", "bucket_of"]


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Cells by public directions: a user's cell is the direction that the user's own row follows most.

    Parameters
    ----------
    cells_per_prototype : int
        Cells released for each prototype the plan asks for. More cells separate users better and cost no privacy, but
        each holds fewer users under the same noise; `centres` merges them again. On mixtures of 10 clusters 12 did
        better on average than 6, and 24 no better than 12 (see docs/reference/mechanisms.md).
    name, note : str
        As for `Popularity`.

    Paper
    -----
    Not in it; section 3.5 of the audit proposes it for when the private tree cannot open.

    Privacy
    -------
    The cell of a user is a fixed function of that user's row, computed in whole numbers. Nothing is spent on it.
    Then one `CellNoise` over all cells. If by public numbers a split cannot pay, `Popularity` is released.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=3, n_users=10**6, max_items=2, bound=1, n_prototypes=2, epsilon=10)
    >>> released = Buckets().release(np.array([[1, 0, 1], [0, 1, 0]]), public)
    >>> released.value.sums.shape, released.event == Buckets().spec(public).event
    ((24, 3), True)
    """

    cells_per_prototype: int = 12
    name: str = "buckets"
    note: str = ""

    def __post_init__(self) -> None:
        check_whole("cells_per_prototype", self.cells_per_prototype)

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """Every cell is a prototype, or one after a fallback; one event, the whole budget."""
        fallback = self._fallback(public)
        if fallback is not None:
            return fallback.spec(public)
        return self._noise(public).spec(mechanism=self.name, stacks=False, note=self.note)

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Judge the noise on one sum, all entities added up."""
        return spec_usefulness(self.spec(public), public)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release sums and counts of every cell."""
        parts = self.adding(public)
        return parts.draw(parts.part(rows), source(rng))

    def adding(self, public: ReleaseParameters) -> Adding:
        """Sums of parts of the users, and noise on their total."""
        fallback = self._fallback(public)
        if fallback is not None:
            return fallback.adding(public)
        noise = self._noise(public)
        lines = directions(count=noise.cells, n_items=public.n_items, seed=public.seed)
        return _adding(noise, lambda block: bucket_of(block, lines), name=self.name, note=self.note)

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Add the messages up: cells are the same everywhere."""
        return added_up(messages, public)

    def _noise(self, public: ReleaseParameters) -> CellNoise:
        return CellNoise(public=public, budget=public.budget, cells=public.n_prototypes * self.cells_per_prototype)

    def _fallback(self, public: ReleaseParameters) -> Popularity | None:
        noise = self._noise(public).noise.values
        ratio = noise_ratio(public, noise=noise, cells=public.n_prototypes, entities=public.n_entities)
        if ratio <= 1 or public.n_prototypes == 1:
            return None
        return Popularity(name=self.name, note=fallback_note(ratio, public))


def bucket_of(block: Block, lines: Integers) -> Integers:
    """Number of the direction each row points along most; ties and empty rows go to the lower number.

    Examples
    --------
    >>> block = Block(
    ...     values=np.array([5, 7]), observed=None, columns=np.array([1, 0]), starts=np.array([0, 1, 2]), n_items=2
    ... )
    >>> bucket_of(block, np.array([[1, 0], [0, 1]]))
    array([1, 0])
    """
    return np.asarray(block.products(lines).argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Popularity:
    """Noisy item sums and a noisy number of users; the whole budget, nothing spent on clusters.

    Parameters
    ----------
    name : str
        Name of the mechanism in the message; mechanisms that fall back to this one keep their own name.
    note : str
        Put into the message.

    Privacy
    -------
    One `CellNoise` of one cell.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=3, n_users=100, max_items=2, bound=1, epsilon=10**6)
    >>> Popularity().release(np.array([[1, 0, 1], [0, 0, 1]]), public).value.value_sums().round(2)
    array([[1., 0., 2.]])
    """

    name: str = "popularity"
    note: str = ""

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """One prototype and one event, the whole budget."""
        return _noise(public).spec(mechanism=self.name, stacks=False, note=self.note)

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Judge the noise on one sum, all entities added up."""
        return spec_usefulness(self.spec(public), public)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release one prototype."""
        parts = self.adding(public)
        return parts.draw(parts.part(rows), source(rng))

    def adding(self, public: ReleaseParameters) -> Adding:
        """Sums of parts of the users, and noise on their total."""
        return _adding(_noise(public), _everybody, name=self.name, note=self.note)

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Add the messages up."""
        return added_up(messages, public)


def _adding(noise: CellNoise, cell_of: Callable[[Block], Integers], *, name: str, note: str) -> Adding:
    public, plan = noise.public, noise.plan
    return Adding(
        part=lambda rows: cell_sums(check_rows(rows, public), public, plan, cell_of, cells=noise.cells),
        draw=lambda sums, words: noise.release(total_of(sums), name=name, rng=words, note=note),
    )


def _everybody(block: Block) -> Integers:
    return np.zeros(block.n_users, dtype=np.int64)


def _noise(public: ReleaseParameters) -> CellNoise:
    return CellNoise(public=public, budget=public.budget, cells=1)
