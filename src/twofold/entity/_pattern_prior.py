"""Where the items of a model of patterns start from: nothing, public features, or what the federation sent."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.features import Features
from twofold.protocol.factors import ItemFactors

__all__ = ["ItemPrior", "feature_prior", "own_prior", "shared_prior"]

Floats = NDArray[np.float64]

#: Patterns of an entity's own or drawn to shared ones; of shared ones as they came.
MOST_OWN, MOST_SHARED = 16, 32
#: Users of its own an entity needs for each pattern.
USERS_PER_PATTERN = 4
#: Size of a loading where patterns start, in standard deviations of a rating.
START = 0.1
#: Ratings at their mean that a user's and an item's offset are averaged with before anything is fitted.
USER_RATINGS, ITEM_RATINGS = 5.0, 5.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemPrior:
    """What is believed of items before the entity's own ratings speak.

    Attributes
    ----------
    loadings : array (items, patterns)
        Prior means of loadings; zeros for an entity alone.
    offsets : array (items,)
        Prior means of item offsets; only their differences count.
    start : array (items, patterns)
        Where a fit begins.
    rated : bool
        Whether loadings are in the unit of ratings; else in standard deviations of a rating.
    """

    loadings: Floats = field(repr=False)
    offsets: Floats = field(repr=False)
    start: Floats = field(repr=False)
    rated: bool = False

    @property
    def free(self) -> bool:
        """Whether nothing is known of the patterns."""
        return not self.loadings.any()


def own_prior(rows: sparse.csr_array, *, rank: int, seed: int) -> ItemPrior:
    """Nothing but the entity's own: loadings near 0, offsets by how often an item was rated."""
    users, items = rows.shape
    width = max(1, min(rank, MOST_OWN, users // USERS_PER_PATTERN, items))
    start = START * np.random.default_rng([seed, 8]).normal(size=(items, width))
    return ItemPrior(loadings=np.zeros((items, width)), offsets=usual_offsets(rows, None), start=start)


def feature_prior(rows: sparse.csr_array, features: Features, *, rank: int) -> ItemPrior:
    """Patterns are mixtures of public features; offsets too."""
    table = features.matrix.astype(np.float64)
    axes, lengths, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    kept = np.flatnonzero(lengths > 1e-9 * max(float(lengths.max(initial=0.0)), 1.0))
    axes = axes[:, kept] * np.sqrt(len(table))
    loadings = START * axes[:, : max(1, min(rank, MOST_OWN))]
    if not loadings.size:
        loadings = np.zeros((len(table), 1))
    return ItemPrior(loadings=loadings, offsets=usual_offsets(rows, axes), start=loadings)


def shared_prior(shared: ItemFactors, *, rank: int | None) -> ItemPrior:
    """What the server sent; at most `rank` patterns, or as many as are worth their time."""
    assert shared.patterns is not None
    assert shared.strengths is not None
    most = MOST_SHARED if rank is None else min(rank, MOST_OWN)
    sizes = np.sqrt(np.maximum(shared.strengths[:most], 0.0))
    loadings = shared.patterns[:, :most].astype(np.float64) * sizes
    return ItemPrior(loadings=loadings, offsets=np.array(shared.means, np.float64), start=loadings, rated=True)


def usual_offsets(rows: sparse.csr_array, facts: Floats | None) -> Floats:
    """Predict items' offsets from how often they were rated, and from public facts, by ridge regression.

    Items that many rate are on the whole liked better, which says something of those that few rated.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[5.0, 5.0, 1.0], [5.0, 5.0, 0.0], [4.0, 4.0, 0.0]]))
    >>> offsets = usual_offsets(rows, None)
    >>> bool(offsets[0] > offsets[2])
    True
    """
    items, lengths = rows.shape[1], np.diff(rows.indptr)
    counts = np.bincount(rows.indices, minlength=items).astype(np.float64)
    logs = np.log1p(counts)
    design = np.column_stack([np.ones(items), logs, logs**2, *([] if facts is None else facts.T)])
    if not rows.nnz:
        return np.zeros(items)
    above = rows.data - rows.data.mean(dtype=np.float64)
    owners = np.repeat(np.arange(rows.shape[0]), lengths)
    offsets = np.bincount(owners, above, rows.shape[0]) / (lengths + USER_RATINGS)
    sums = np.bincount(rows.indices, above - offsets[owners], items)
    weight = 1.0 / (counts + ITEM_RATINGS)
    matrix = (design * (counts * weight)[:, None]).T @ design + 2.0 * np.eye(design.shape[1]) / ITEM_RATINGS
    return np.asarray(design @ np.linalg.solve(matrix, design.T @ (sums * weight)))
