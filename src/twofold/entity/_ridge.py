"""Item-item weights in closed form: every item as a ridge regression on all others, all at once.

With P = (ΣΑᵀΑ + Λ)⁻¹ the weights are B = I - P diag(1/P), which has a zero diagonal. Either the items' Gram matrix is
inverted (many users), or, when there are fewer rows than items, a matrix of the size of the rows: with A' = A Λ^(-1/2)
and L Lᵀ = I + A'A'ᵀ the basis W = L⁻¹A' gives P = Λ^(-1/2) (I - WᵀW) Λ^(-1/2), and the items x items matrix is never
made. Both are the same numbers up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from twofold.errors import BadNumber

__all__ = ["DenseWeights", "LowRankWeights", "Weights", "weights_from_gram", "weights_from_rows"]

Floats = NDArray[np.floating[Any]]


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


def weights_from_gram(gram: Floats, ridge: Floats) -> DenseWeights:
    """Invert the Gram matrix plus the ridge of each item.

    Raises
    ------
    BadNumber
        The sum has no inverse in double precision.

    Examples
    --------
    >>> weights_from_gram(np.array([[2.0, 1.0], [1.0, 2.0]]), np.zeros(2)).matrix.round(3).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    matrix = np.array(gram, dtype=np.float64)
    matrix[np.diag_indices_from(matrix)] += ridge
    inverse = _inverse(matrix)
    result = inverse / -np.diag(inverse)
    np.fill_diagonal(result, 0.0)
    return DenseWeights(matrix=result.astype(np.float32))


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
    """Factor a positive definite matrix; LAPACK says in its last answer whether it was one, but overlooks NaN."""
    factor, failed = linalg.lapack.dpotrf(matrix, lower=1)
    if failed or not (np.diag(factor) > 0).all():
        raise _no_inverse()
    return np.asarray(factor)


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    lower, failed = linalg.lapack.dpotri(_cholesky(matrix), lower=1)
    if failed or not (np.diag(lower) > 0).all():
        raise _no_inverse()
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def _no_inverse() -> BadNumber:
    return BadNumber(
        "item-item weights cannot be solved for: a matrix is not positive definite.",
        expected="numbers that are finite and not too far apart in size",
    )
