"""Sums of a group of users and of its bootstrap replicates; groups of entities are sums of entities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twofold.evaluate._bootstrap import resampled_sums
from twofold.evaluate.coverage import covered_items
from twofold.evaluate.measured import COVERAGE, Measured, finish

__all__ = ["Scope"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Everything a row of the summary needs; the first line of each array is the truth, the others are replicates.

    Attributes
    ----------
    names : tuple of str
        Metrics that have totals and weights.
    totals, weights : array of shape (1 + resamples, n_metrics)
        Sums over users.
    rooted : array of shape (1 + resamples,)
        Over entities, the sum of test entries times RMSE; for the mean over entities.
    covered : bool array of shape (n_items,)
        Items in any list.
    users, entities : int
        Users with something held out, and entities with such users.
    """

    names: tuple[str, ...]
    totals: Floats
    weights: Floats
    rooted: Floats
    covered: npt.NDArray[np.bool_]
    users: int
    entities: int

    @classmethod
    def of_entity(cls, measured: Measured, resamples: int, rng: np.random.Generator) -> Scope:
        """One entity, its users drawn again `resamples` times."""
        names = tuple(measured.totals)
        totals, weights = _table(measured.totals, measured), _table(measured.weights, measured)
        counted = (weights > 0).any(axis=1) | (measured.lists >= 0).any(axis=1)
        columns = np.hstack([totals[counted], weights[counted]])
        sums = np.vstack([columns.sum(axis=0), resampled_sums(columns, resamples, rng)])
        totals, weights = sums[:, : len(names)], sums[:, len(names) :]
        return cls(
            names=names,
            totals=totals,
            weights=weights,
            rooted=_entries_times_rmse(names, totals, weights),
            covered=covered_items(measured.lists, measured.n_items),
            users=int(counted.sum()),
            entities=int(counted.any()),
        )

    def __add__(self, other: Scope) -> Scope:
        """Both groups together; users are drawn within their entities, so replicates add up too."""
        return Scope(
            names=self.names,
            totals=self.totals + other.totals,
            weights=self.weights + other.weights,
            rooted=self.rooted + other.rooted,
            covered=self.covered | other.covered,
            users=self.users + other.users,
            entities=self.entities + other.entities,
        )

    def values(self, metrics: tuple[str, ...], *, several: bool) -> dict[str, Floats]:
        """Of each metric the truth and then its replicates; RMSE by its two names if there may be several entities."""
        found = {"rmse_pooled" if name == "rmse" else name: self._values(name) for name in metrics}
        if several and "rmse" in self.names:
            weights = self.weights[:, self.names.index("rmse")]
            found["rmse_per_entity_mean"] = finish("mean", self.rooted, weights)
        return found

    def _values(self, name: str) -> Floats:
        if name == COVERAGE:  # a resample repeats users, so its coverage is always too small: no replicates
            return np.array([self.covered.mean()])
        column = self.names.index(name)
        return finish(name, self.totals[:, column], self.weights[:, column])


def _table(columns: Mapping[str, Floats], measured: Measured) -> Floats:
    """One line per user, one column per metric; no column if coverage alone was measured."""
    return np.column_stack(list(columns.values())) if columns else np.empty((measured.n_users, 0))


def _entries_times_rmse(names: tuple[str, ...], totals: Floats, weights: Floats) -> Floats:
    if "rmse" not in names:
        return np.zeros(len(totals))
    column = names.index("rmse")
    return np.sqrt(totals[:, column] * weights[:, column])  # N sqrt(S / N), without a division by zero
