"""Every user's bounded row as it is. NOT private: the pooled upper end of every comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from twofold.privacy.events import NonPrivateEvent, Released
from twofold.privacy.rng import Source, source
from twofold.release.cells import prototype_spec, spec_usefulness
from twofold.release.combine import stacked
from twofold.release.content import Integers, Noise, Prototypes, WeightedRows
from twofold.release.contract import ReleaseParameters, ReleaseSpec
from twofold.release.records import Block, RecordPlan, Statistic, check_rows, statistic
from twofold.release.usefulness import Usefulness

__all__ = ["Exact", "given_cells", "not_private_spec", "one_each", "quiet_message"]


@dataclass(frozen=True, kw_only=True)
class Exact:
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
    """

    @property
    def name(self) -> str:
        """How a plan names it."""
        return "exact"

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """Infinite price; the number of rows depends on the number of users."""
        return not_private_spec(public, self.name, rows=None)

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Nothing is hidden."""
        return spec_usefulness(self.spec(public), public)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release the rows; the source of noise is only checked."""
        seeded = source(rng).seeded
        matrix, plan = check_rows(rows, public), RecordPlan.of(public)
        message = quiet_message(self.name, one_each(matrix, public, plan), plan, seeded=seeded)
        return Released(value=message, event=self.spec(public).event_for(seeded=seeded))

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Put the rows under one another."""
        return stacked(messages, public)


def not_private_spec(public: ReleaseParameters, name: str, *, rows: int | None) -> ReleaseSpec:
    """State a release without a proof.

    Examples
    --------
    >>> not_private_spec(ReleaseParameters(n_items=2, n_users=4, max_items=2, bound=9), "exact", rows=None).event.kind
    'non-private/1'
    """
    reason = f"mechanism {name!r} adds no noise; for comparison only"
    return prototype_spec(
        public,
        mechanism=name,
        rows=rows,
        units=RecordPlan.of(public).units,
        noise=Noise(law="none", values=0.0, observed=0.0, counts=0.0),
        event=NonPrivateEvent(unit=public.unit, reason=reason),
        stacks=True,
    )


def quiet_message(name: str, exact: Statistic, plan: RecordPlan, *, seeded: bool) -> Prototypes:
    """Message without noise."""
    return Prototypes(
        mechanism=name,
        sums=exact.sums,
        counts=exact.counts,
        observed=exact.observed,
        units=plan.units,
        noise=Noise(law="none", values=0.0, observed=0.0, counts=0.0),
        seeded=seeded,
        note="not private: no noise was added",
    )


def one_each(rows: sp.csr_array, public: ReleaseParameters, plan: RecordPlan) -> Statistic:
    """Every user in a cell of their own; at least one cell, which is then empty."""
    number = rows.shape[0]
    return statistic(rows, public, plan, given_cells(np.arange(number, dtype=np.int64)), cells=max(1, number))


def given_cells(labels: Integers) -> Callable[[Block], Integers]:
    """Hand out known labels block by block.

    Examples
    --------
    >>> empty = np.zeros(0, dtype=np.int64)
    >>> two = Block(values=empty, observed=None, columns=empty, starts=np.zeros(3, dtype=np.int64), n_items=1)
    >>> cell_of = given_cells(np.array([7, 8, 9, 6]))
    >>> cell_of(two), cell_of(two)
    (array([7, 8]), array([9, 6]))
    """
    seen = 0

    def cell_of(block: Block) -> Integers:
        nonlocal seen
        seen += block.n_users
        return labels[seen - block.n_users : seen]

    return cell_of
