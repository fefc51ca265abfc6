"""Many small least-squares problems at once: every row of a sparse table against regressors that are uncertain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Posterior", "Table", "packed_squares", "posterior", "unpacked"]

Floats = NDArray[np.float64]

#: Rows solved at once.
BLOCK = 4_096


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
        """Make one of values; an observed 0 is kept."""
        parts: Any = (np.ones(values.nnz), values.indices, values.indptr)
        return cls(values=values.astype(np.float64), marks=sparse.csr_array(parts, shape=values.shape))

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
    """Give symmetric matrices of their upper triangles.

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
