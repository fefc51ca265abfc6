"""NOT PRIVATE: release mechanisms that send every row, k-means of the rows, or a few rows. For comparison only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from twofold.algorithms.kmeans import kmeans
from twofold.privacy.events import NonPrivateEvent, Released
from twofold.privacy.rng import Source, source
from twofold.release.cells import prototype_spec, spec_usefulness
from twofold.release.combine import stacked
from twofold.release.content import Integers, Noise, Prototypes, WeightedRows
from twofold.release.contract import ReleaseParameters, ReleaseSpec, check_rows
from twofold.release.records import Block, RecordPlan, Statistic, centred_rows, statistic
from twofold.release.usefulness import Usefulness

__all__ = ["Exact", "KMeans", "RandomUsers"]

_NONE = Noise(law="none", values=0.0, observed=0.0, counts=0.0)


@dataclass(frozen=True, kw_only=True)
class _WithoutNoise:
    """The common part of the three: an event that costs infinity, and messages that say so."""

    name: ClassVar[str]

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """Infinite price."""
        return prototype_spec(
            public,
            mechanism=self.name,
            rows=self._rows(public),
            units=RecordPlan.of(public).units,
            noise=_NONE,
            event=NonPrivateEvent(
                unit=public.unit, reason=f"mechanism {self.name!r} adds no noise; for comparison only"
            ),
            stacks=True,
        )

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Nothing is hidden."""
        return spec_usefulness(self.spec(public), public)

    def _rows(self, public: ReleaseParameters) -> int | None:  # noqa: ARG002
        """Not public: it depends on the number of users."""
        return None

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Stack the rows."""
        return stacked(messages, public)

    def _released(
        self, exact: Statistic, public: ReleaseParameters, plan: RecordPlan, *, seeded: bool
    ) -> Released[Prototypes]:
        message = Prototypes(
            mechanism=self.name,
            sums=exact.sums,
            counts=exact.counts,
            observed=exact.observed,
            units=plan.units,
            noise=_NONE,
            seeded=seeded,
            note="not private: no noise was added",
        )
        return Released(value=message, event=self.spec(public).event_for(seeded=seeded))


@dataclass(frozen=True, kw_only=True)
class Exact(_WithoutNoise):
    """One prototype per user: pooling, dressed as a message.

    Privacy
    -------
    None. Even the number of rows is private and leaves.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=4, max_items=2, bound=9)
    >>> Exact().release(np.array([[1, 0], [1, 2]]), public).value.value_sums()
    array([[1., 0.],
           [1., 2.]])
    >>> Exact().spec(public).event.kind
    'non-private/1'
    """

    name: ClassVar[str] = "exact"

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release the rows; the source of noise is only checked."""
        seeded = source(rng).seeded
        matrix, plan = check_rows(rows, public), RecordPlan.of(public)
        return self._released(_one_each(matrix, public, plan), public, plan, seeded=seeded)


@dataclass(frozen=True, kw_only=True)
class KMeans(_WithoutNoise):
    """Exact sums and counts of k-means clusters: what the paper's prototypes would be without noise.

    Privacy
    -------
    None. The event says so and costs infinity.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=4, max_items=2, bound=9, n_prototypes=2)
    >>> message = KMeans().release(np.array([[1, 0], [1, 2], [9, 0], [9, 2]]), public).value
    >>> sorted(message.value_sums()[:, 0].tolist())
    [2.0, 18.0]
    """

    name: ClassVar[str] = "kmeans"

    def _rows(self, public: ReleaseParameters) -> int | None:
        """The plan's number of prototypes."""
        return public.n_prototypes

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release exact sums and counts; fewer users than prototypes leave some empty."""
        matrix, plan, words = check_rows(rows, public), RecordPlan.of(public), source(rng)
        labels = np.zeros(0, dtype=np.int64)
        if matrix.shape[0]:
            values = centred_rows(matrix, public)
            labels = kmeans(values, public.n_prototypes, rng=words.bits(32), threads=1).labels.astype(np.int64)
        exact = statistic(matrix, public, plan, _given(labels), cells=public.n_prototypes)
        return self._released(exact, public, plan, seeded=words.seeded)


@dataclass(frozen=True, kw_only=True)
class RandomUsers(_WithoutNoise):
    """One random user per requested prototype; all users if there are fewer.

    Privacy
    -------
    None. These are people's own rows.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=4, max_items=2, bound=9, n_prototypes=1)
    >>> RandomUsers().release(np.array([[1, 2], [1, 2]]), public, rng=0).value.value_sums()
    array([[1., 2.]])
    """

    name: ClassVar[str] = "random"

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release some users' rows."""
        matrix, plan, words = check_rows(rows, public), RecordPlan.of(public), source(rng)
        generator = np.random.default_rng(words.bits(64))
        number = min(public.n_prototypes, matrix.shape[0])
        chosen = np.sort(generator.permutation(matrix.shape[0])[:number])
        return self._released(_one_each(matrix[chosen], public, plan), public, plan, seeded=words.seeded)


def _one_each(rows: sp.csr_array, public: ReleaseParameters, plan: RecordPlan) -> Statistic:
    """One cell per user; at least one cell, which may be empty."""
    number = rows.shape[0]
    return statistic(rows, public, plan, _given(np.arange(number, dtype=np.int64)), cells=max(1, number))


def _given(labels: Integers) -> Callable[[Block], Integers]:
    """Hand out known labels block by block.

    Examples
    --------
    >>> empty = np.zeros(0, dtype=np.int64)
    >>> two = Block(values=empty, observed=None, columns=empty, starts=np.zeros(3, dtype=np.int64), n_items=1)
    >>> cell_of = _given(np.array([7, 8, 9, 6]))
    >>> cell_of(two), cell_of(two)
    (array([7, 8]), array([9, 6]))
    """
    seen = 0

    def cell_of(block: Block) -> Integers:
        nonlocal seen
        seen += block.n_users
        return labels[seen - block.n_users : seen]

    return cell_of
