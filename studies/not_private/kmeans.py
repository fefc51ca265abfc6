"""k-means of each entity's own rows, exact. NOT private: for comparison only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.not_private.exact import given_cells, not_private_spec, quiet_message
from twofold.algorithms.kmeans import kmeans
from twofold.privacy.events import Released
from twofold.privacy.rng import Source, source
from twofold.release.cells import spec_usefulness
from twofold.release.combine import stacked
from twofold.release.content import Prototypes, WeightedRows
from twofold.release.contract import ReleaseParameters, ReleaseSpec
from twofold.release.records import RecordPlan, centred_rows, check_rows, statistic
from twofold.release.usefulness import Usefulness

__all__ = ["KMeans"]


@dataclass(frozen=True, kw_only=True)
class KMeans:
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

    @property
    def name(self) -> str:
        """How a plan names it."""
        return "kmeans"

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """Infinite price."""
        return not_private_spec(public, self.name, rows=public.n_prototypes)

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Nothing is hidden."""
        return spec_usefulness(self.spec(public), public)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release exact sums and counts; fewer users than prototypes leave some empty."""
        matrix, plan, words = check_rows(rows, public), RecordPlan.of(public), source(rng)
        labels = np.zeros(0, dtype=np.int64)
        if matrix.shape[0]:
            values = centred_rows(matrix, public)
            labels = kmeans(values, public.n_prototypes, rng=words.bits(32), threads=1).labels.astype(np.int64)
        exact = statistic(matrix, public, plan, given_cells(labels), cells=public.n_prototypes)
        message = quiet_message(self.name, exact, plan, seeded=words.seeded)
        return Released(value=message, event=self.spec(public).event_for(seeded=words.seeded))

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Put the rows under one another."""
        return stacked(messages, public)
