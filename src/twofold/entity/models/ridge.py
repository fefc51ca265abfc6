"""Item-item weights in closed form: every item as a ridge regression on all others, and priors for it.

With P = (ΣΑᵀΑ + Λ)⁻¹ the weights are B = I - P diag(1/P), which has a zero diagonal. Either the items' Gram matrix is
inverted (many users), or, when there are fewer rows than items, a matrix of the size of the rows: with A' = A Λ^(-1/2)
and L Lᵀ = I + A'A'ᵀ the basis W = L⁻¹A' gives P = Λ^(-1/2) (I - WᵀW) Λ^(-1/2), and the items x items matrix is never
made. Both are the same numbers up to rounding.

A prior says how items go together according to others or to public features. It is given as rows of one user, whose
Gram matrix is the known part, and what these leave unexplained of each item's mean square. The whole mean square of an
item is a compromise of the entity's own and the shared one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from twofold.entity.models.blend import Floats, Wide
from twofold.errors import BadNumber
from twofold.federation.factors import ItemFactors

__all__ = [
    "UNEXPLAINED",
    "DenseWeights",
    "LowRankWeights",
    "Weights",
    "feature_prior",
    "pattern_prior",
    "weights_from_gram",
    "weights_from_rows",
]


#: Smallest part of an item's mean square that no other item explains.
UNEXPLAINED: Final = 0.05
#: Columns of an inverse that are mirrored at once.
_BLOCK: Final = 256
_LOWER: Final = np.tri(_BLOCK, dtype=bool)
#: Users that an entity needs before its own mean squares count more than the shared ones.
SQUARE_USERS: Final = 20.0
#: Users of no entries an entity's own means are averaged with where nothing is shared.
MEAN_USERS: Final = 5.0
#: Correlation of two items with the same public features, beyond what their means say.
ALIKE: Final = 0.4


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseWeights:
    """Weights as a whole matrix: entry (j, i) is what a unit of item j adds to item i."""

    matrix: Floats

    def apply(self, rows: sparse.csr_array | Floats) -> Floats:
        """Return rows @ B."""
        product: Floats = np.asarray(rows @ self.matrix)
        return product

    def column(self, item: int) -> Floats:
        """What each item adds to one item."""
        return self.matrix[:, item]

    def row(self, item: int) -> Floats:
        """What one item adds to each item."""
        return np.asarray(self.matrix[item])

    def arrays(self) -> dict[str, Floats]:
        """Everything, by name."""
        return {"weights": self.matrix}


@dataclass(frozen=True, kw_only=True, eq=False)
class LowRankWeights:
    """Weights ``left_j (w_j·w_i) right_i`` off the diagonal, zero on it; w_i is column i of the basis."""

    basis: Floats
    left: Floats
    right: Floats

    @property
    def own(self) -> Floats:
        """What the product would put on the diagonal."""
        return np.asarray(self.left * np.einsum("ki,ki->i", self.basis, self.basis) * self.right)

    def apply(self, rows: sparse.csr_array | Floats) -> Floats:
        """Return rows @ B."""
        scaled = rows * self.left[None, :]
        product = np.asarray((scaled @ self.basis.T) @ self.basis) * self.right
        diagonal = rows * self.own[None, :]
        return np.asarray(product - (diagonal.toarray() if sparse.issparse(diagonal) else diagonal))

    def column(self, item: int) -> Floats:
        """What each item adds to one item."""
        made = self.left * (self.basis[:, item] @ self.basis) * self.right[item]
        made[item] = 0
        return np.asarray(made)

    def row(self, item: int) -> Floats:
        """What one item adds to each item."""
        made = self.left[item] * (self.basis[:, item] @ self.basis) * self.right
        made[item] = 0
        return np.asarray(made)

    def arrays(self) -> dict[str, Floats]:
        """Everything, by name."""
        return {"basis": self.basis, "left": self.left, "right": self.right}


Weights = DenseWeights | LowRankWeights


def weights_from_gram(gram: Floats, ridge: Floats, *, rough: bool = False) -> DenseWeights:
    """Invert the Gram matrix plus the ridge of each item.

    Parameters
    ----------
    gram : array (items, items)
        Symmetric.
    ridge : array (items,)
        Of each item.
    rough : bool
        In single precision if that has an inverse: a third faster, and good enough to compare models.

    Raises
    ------
    BadNumber
        The sum has no inverse in double precision.

    Examples
    --------
    >>> weights_from_gram(np.array([[2.0, 1.0], [1.0, 2.0]]), np.zeros(2)).matrix.round(3).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    lower = _inverse(gram, ridge, "single") if rough else None
    if lower is None:
        lower = _inverse(gram, ridge, "double")
    if lower is None:
        raise _no_inverse()
    scale, result = (-1.0 / np.diag(lower)).astype(np.float32), np.empty(lower.shape, np.float32)
    for start in range(0, len(result), _BLOCK):  # a block and its image stay in the cache
        span = slice(start, start + _BLOCK)
        part = lower[start:, span].astype(np.float32)
        width = part.shape[1]
        part[:width] = np.where(_LOWER[:width, :width], part[:width], part[:width].T)
        result[start:, span] = part * scale[span]
        result[span, start:] = part.T * scale[start:]
    np.fill_diagonal(result, 0.0)
    return DenseWeights(matrix=result)


def _inverse(gram: Floats, ridge: Floats, kind: Literal["single", "double"]) -> Floats | None:
    """Lower half of the inverse; None if there is none in this precision."""
    # A symmetric matrix is its own transpose, which is in LAPACK's order: no copy beside this one is made.
    matrix = np.array(gram, dtype=kind, order="C")
    matrix.ravel()[:: len(matrix) + 1] += ridge.astype(kind)
    lapack = linalg.lapack
    factored, inverted = (lapack.spotrf, lapack.spotri) if kind == "single" else (lapack.dpotrf, lapack.dpotri)
    factor, failed = factored(matrix.T, lower=1, overwrite_a=1)
    if failed or not (np.diag(factor) > 0).all():  # LAPACK overlooks NaN
        return None
    lower, failed = inverted(factor, lower=1, overwrite_c=1)
    return None if failed or not (np.diag(lower) > 0).all() else np.asarray(lower)


def weights_from_rows(rows: Floats, ridge: Floats) -> LowRankWeights:
    """Do the same from fewer rows than items; the ridge must be above 0.

    Raises
    ------
    BadNumber
        There is no solution in double precision.

    Examples
    --------
    >>> rows, ridge = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]), np.ones(3)
    >>> made, same = weights_from_rows(rows, ridge), weights_from_gram(rows.T @ rows, ridge)
    >>> bool(np.allclose(made.apply(np.eye(3)), same.matrix, atol=1e-6))
    True
    """
    left = 1.0 / np.sqrt(ridge)
    scaled = np.asarray(rows * left, dtype=np.float64)
    kernel = scaled @ scaled.T
    kernel[np.diag_indices_from(kernel)] += 1.0
    factor = _cholesky(kernel)
    basis = linalg.solve_triangular(factor, scaled, lower=True, check_finite=False)
    rest = np.maximum(1.0 - np.einsum("ki,ki->i", basis, basis), 1e-9)
    return LowRankWeights(
        basis=basis.astype(np.float32), left=left.astype(np.float32), right=(1.0 / (left * rest)).astype(np.float32)
    )


def _cholesky(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factor a positive definite matrix in place; LAPACK reports whether it was one, but overlooks NaN."""
    factor, failed = linalg.lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    if failed or not (np.diag(factor) > 0).all():
        raise _no_inverse()
    return np.asarray(factor)


def _no_inverse() -> BadNumber:
    return BadNumber(
        "cannot solve for the item-item weights: a matrix is not positive definite.",
        expected="finite numbers of similar size",
        parameter="gram",
    )


def pattern_prior(shared: ItemFactors, own: Wide | None, users: int) -> tuple[Wide, Wide]:
    """Rows and remainders of one user from shared second moments.

    Parameters
    ----------
    shared : ItemFactors
        With patterns.
    own : array (items,) or None
        Sums of the entity's own squares; None takes the shared ones as they came.
    users : int
        How many users those are sums of.

    Returns
    -------
    rows, rest : arrays (patterns, items) and (items,)
        ``rows.T @ rows + diag(rest)`` has the mean squares of the compromise as its diagonal, and the correlations of
        the shared second moments.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> axis = np.array([[0.6], [0.8]])
    >>> shared = SimpleNamespace(patterns=axis, strengths=np.array([1.0]), squares=np.array([1.0, 1.0]))
    >>> rows, rest = pattern_prior(shared, None, 0)
    >>> (rows**2).sum(axis=0).round(2).tolist(), rest.round(2).tolist()
    ([0.36, 0.64], [0.64, 0.36])
    >>> rows, rest = pattern_prior(shared, np.array([80.0, 0.0]), 20)
    >>> ((rows**2).sum(axis=0) + rest).round(2).tolist()
    [3.0, 1.0]
    """
    assert shared.patterns is not None
    assert shared.strengths is not None
    assert shared.squares is not None
    rows = np.sqrt(np.maximum(shared.strengths, 0.0))[:, None] * shared.patterns.T.astype(np.float64)
    explained, squares = (rows**2).sum(axis=0), np.maximum(shared.squares, 0.0)
    rest = np.maximum(squares - explained, UNEXPLAINED * np.maximum(squares, explained))
    if own is None or not own.sum():
        return rows, rest
    whole = explained + rest
    scale = np.sqrt(_compromise(whole, own, users) / np.maximum(whole, 1e-300))
    return rows * scale, rest * scale**2


def _compromise(whole: Wide, own: Wide, users: int) -> Wide:
    """Own mean squares pulled towards the shared ones, which are scaled to the entity's own total."""
    theirs = whole * (own.sum() / max(users, 1)) / max(float(whole.sum()), 1e-300)
    return np.asarray((own + SQUARE_USERS * theirs) / (users + SQUARE_USERS))


def feature_prior(values: sparse.csr_array, features: NDArray[np.int64]) -> tuple[Wide, Wide]:
    """Rows and remainders of one user from public features and the entity's own means alone.

    Parameters
    ----------
    values : csr array (users, items)
        Private: damped counts.
    features : array (items, features)
        Public.

    Returns
    -------
    rows, rest : arrays (1 + features, items) and (items,)
        Means as the entity has them; around these, items go together as far as their features do (`ALIKE` times their
        cosine).

    Examples
    --------
    >>> rows, rest = feature_prior(sparse.csr_array(np.array([[2.0, 0.0], [0.0, 2.0]])), np.ones((2, 1), np.int64))
    >>> together = rows.T @ rows + np.diag(rest)
    >>> means = rows[0]
    >>> spread = together - np.outer(means, means)
    >>> round(float(spread[0, 1] / spread[0, 0]), 3)
    0.4
    """
    users, items = values.shape
    means = np.bincount(values.indices, values.data, items) / (users + MEAN_USERS)
    squares = np.bincount(values.indices, values.data.astype(np.float64) ** 2, items)
    squares = (squares + MEAN_USERS * squares.sum() / max(users * items, 1)) / (users + MEAN_USERS)
    spread = np.maximum(squares - means**2, UNEXPLAINED * squares)
    lengths = np.sqrt((features.astype(np.float64) ** 2).sum(axis=1))
    turned = features / np.where(lengths > 0, lengths, 1.0)[:, None]
    rows = np.vstack([means, turned.T * np.sqrt(ALIKE * spread)])
    return rows, np.where(lengths > 0, 1.0 - ALIKE, 1.0) * spread
