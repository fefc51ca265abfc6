"""The solver behind patterns: many small least-squares problems at once, and the start values of items.

Every row of a sparse table is solved against regressors that are uncertain. Items start from nothing, from public
features, or from what the federation sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import with_data
from twofold.features import Features
from twofold.federation.factors import ItemFactors

__all__ = [
    "ItemPrior",
    "Posterior",
    "Table",
    "feature_prior",
    "own_prior",
    "packed_squares",
    "posterior",
    "shared_prior",
    "unpacked",
]

Floats = NDArray[np.float64]

#: Rows solved at once.
BLOCK = 4_096
#: Patterns of the entity, alone or with a pull; patterns of the shared model unchanged.
MOST_OWN, MOST_SHARED = 16, 32
#: Users that an entity needs for each pattern.
USERS_PER_PATTERN = 4
#: Size of a loading where patterns start, in standard deviations of a rating.
START = 0.1
#: Ratings at their mean that a user's and an item's offset are averaged with before anything is fitted.
USER_RATINGS, ITEM_RATINGS = 5.0, 5.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """Normal beliefs about rows.

    Attributes
    ----------
    means : array (rows, width)
        Posterior means.
    spreads : array (rows, width (width + 1) / 2)
        Upper triangles of the posterior covariances.
    explained : float
        By how much the expected sum of squares is smaller than with rows of zeros.
    """

    means: Floats = field(repr=False)
    spreads: Floats = field(repr=False)
    explained: float = 0.0

    @property
    def squares(self) -> Floats:
        """Packed second moments: means times means plus covariances."""
        return packed_squares(self.means) + self.spreads


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Values of a sparse table, and ones where it has any."""

    values: sparse.csr_array
    marks: sparse.csr_array

    @classmethod
    def of(cls, values: sparse.csr_array) -> Table:
        """Build from values; an observed 0 is kept."""
        return cls(values=values.astype(np.float64), marks=with_data(values, np.ones(values.nnz)))

    @property
    def turned(self) -> Table:
        """Rows as columns."""
        values, marks = sparse.csr_array(self.values.T), sparse.csr_array(self.marks.T)
        return Table(values=values, marks=marks)

    @property
    def lengths(self) -> NDArray[np.intp]:
        """Entries of every row."""
        return np.diff(self.marks.indptr).astype(np.intp)


def packed_squares(rows: Floats) -> Floats:
    """Upper triangles of the products of every row with itself.

    Examples
    --------
    >>> packed_squares(np.array([[2.0, 3.0]])).tolist()
    [[4.0, 6.0, 9.0]]
    """
    one, other = np.triu_indices(rows.shape[1])
    return np.asarray(rows[:, one] * rows[:, other])


def unpacked(triangles: Floats, width: int) -> Floats:
    """Give symmetric matrices from their upper triangles.

    Examples
    --------
    >>> unpacked(np.array([[4.0, 6.0, 9.0]]), 2).tolist()
    [[[4.0, 6.0], [6.0, 9.0]]]
    """
    place = np.empty((width, width), np.intp)
    one, other = np.triu_indices(width)
    place[one, other] = place[other, one] = np.arange(one.size)
    return np.asarray(triangles[:, place])


def posterior(
    table: Table,
    regressors: Floats,
    squares: Floats,
    shifted: Floats,
    precision: Floats,
    pull: Floats,
    *,
    noise: float,
) -> Posterior:
    """Solve ``values ≈ regressors · row + shift`` for every row of a table.

    Parameters
    ----------
    table : Table (rows, columns)
        What is observed.
    regressors : array (columns, width)
        Expected regressors.
    squares : array (columns, width (width + 1) / 2)
        Their packed second moments, uncertainty included.
    shifted : array (columns, width)
        Expectation of shift times regressors.
    precision : array (width, width)
        Of the normal prior of a row.
    pull : array (rows, width) or (width,)
        Prior precision times prior mean.
    noise : float
        Variance of one value.

    Examples
    --------
    >>> table = Table.of(sparse.csr_array(np.array([[2.0, 4.0]])))
    >>> ones = np.ones((2, 1))
    >>> posterior(table, ones, ones, 0 * ones, np.zeros((1, 1)), np.zeros(1), noise=1.0).means
    array([[3.]])
    """
    rows, width = table.marks.shape[0], regressors.shape[1]
    means, spreads = np.empty((rows, width)), np.empty((rows, squares.shape[1]))
    one, other = np.triu_indices(width)
    toward, explained, seen = np.broadcast_to(pull, (rows, width)), 0.0, table.lengths > 0
    if not seen.all():  # nothing observed: the prior, one for all; a small entity knows few of its items
        bare = np.linalg.inv(precision)
        means[~seen], spreads[~seen] = toward[~seen] @ bare.T, bare[one, other]
    there = np.flatnonzero(seen)
    for start in range(0, there.size, BLOCK):
        span = there[start : start + BLOCK]
        marks = table.marks[span]
        right, known = table.values[span] @ regressors - marks @ shifted, marks @ squares
        covariance = np.linalg.inv(unpacked(known / noise, width) + precision)
        found = np.einsum("nij,nj->ni", covariance, right / noise + toward[span])
        means[span], spreads[span] = found, covariance[:, one, other]
        second = (packed_squares(found) + spreads[span]) * np.where(one == other, 1.0, 2.0)
        explained += 2 * float((right * found).sum()) - float((known * second).sum())
    return Posterior(means=means, spreads=spreads, explained=explained)


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemPrior:
    """Prior of the items, before the entity's own ratings.

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
    """Prior from the entity's own data only: loadings near 0, offsets by how often an item was rated."""
    users, items = rows.shape
    width = max(1, min(rank, MOST_OWN, users // USERS_PER_PATTERN, items))
    start = START * np.random.default_rng([seed, 8]).normal(size=(items, width))
    return ItemPrior(loadings=np.zeros((items, width)), offsets=average_offsets(rows, None), start=start)


def feature_prior(rows: sparse.csr_array, features: Features, *, rank: int) -> ItemPrior:
    """Prior from public features: patterns and offsets are mixtures of them."""
    table = features.matrix.astype(np.float64)
    axes, lengths, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    kept = np.flatnonzero(lengths > 1e-9 * max(float(lengths.max(initial=0.0)), 1.0))
    axes = axes[:, kept] * np.sqrt(len(table))
    loadings = START * axes[:, : max(1, min(rank, MOST_OWN))]
    if not loadings.size:
        loadings = np.zeros((len(table), 1))
    return ItemPrior(loadings=loadings, offsets=average_offsets(rows, axes), start=loadings)


def shared_prior(shared: ItemFactors, *, rank: int | None) -> ItemPrior:
    """Prior from the server: at most `rank` patterns, or as many as are worth their time."""
    assert shared.patterns is not None
    assert shared.strengths is not None
    most = MOST_SHARED if rank is None else min(rank, MOST_OWN)
    sizes = np.sqrt(np.maximum(shared.strengths[:most], 0.0))
    loadings = shared.patterns[:, :most].astype(np.float64) * sizes
    return ItemPrior(loadings=loadings, offsets=np.array(shared.means, np.float64), start=loadings, rated=True)


def average_offsets(rows: sparse.csr_array, facts: Floats | None) -> Floats:
    """Predict items' offsets from how often they were rated, and from public facts, by ridge regression.

    Items that many rate are on the whole liked better, which says something of those that few rated.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[5.0, 5.0, 1.0], [5.0, 5.0, 0.0], [4.0, 4.0, 0.0]]))
    >>> offsets = average_offsets(rows, None)
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
