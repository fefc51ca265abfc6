"""Matrix factorization as all systems here use it: one objective, item factors out, histories folded in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems.base import Feedback, Score
from twofold.algorithms._nmf_sides import COUNT_SCALING, REGULARIZATION, ZERO_WEIGHT
from twofold.algorithms.masked_nmf import masked_nmf
from twofold.entity.models.factors import FactorScorer

__all__ = ["Factorization", "factor_bytes", "item_means", "rows_bytes"]

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Factorization:
    """Rank and objective of a factorization; see `masked_nmf` for the meaning of each number.

    Paper
    -----
    Eq. 2, for V at the server and for U at an entity.

    Examples
    --------
    >>> how = Factorization(rank=2, regularization=0.0)
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((3, 2))))
    >>> V = how.item_factors(rows, feedback="counts", seed=0)
    >>> bool(np.allclose(how.score(V, feedback="counts")(rows), rows.toarray(), atol=1e-3))
    True
    """

    rank: int = 20
    regularization: float = REGULARIZATION
    count_scaling: float = COUNT_SCALING
    zero_weight: float = ZERO_WEIGHT
    max_iterations: int = 50
    tolerance: float = 1e-5

    @classmethod
    def as_recorded(cls, rank: int) -> Factorization:
        """Give the objective of the recorded runs: absent entries are zeros of full weight, λ = 0.1 on whole norms.

        Paper
        -----
        Not Eq. 2 as printed: scikit-learn 0.21's ``NMF(alpha=0.1, l1_ratio=0)``, whose objective is half of
        ``|X - UVᵀ|² + 0.1 (|U|² + |V|²)``, over the whole matrix.

        Deviations
        ----------
        A random start where the runs used nndsvd; exact alternating solves where they used coordinate descent. Both
        stop at a minimum of the same objective.
        """
        return cls(rank=rank, regularization=0.1, count_scaling=0.0, zero_weight=1.0, max_iterations=200)

    def item_factors(self, rows: Any, *, feedback: Feedback, seed: int, start: Floats | None = None) -> Floats:
        """V of rows (users x items); zeros if there is nothing to learn from.

        Parameters
        ----------
        rows : csr array or array
            A dense array is wholly observed when read as ratings.
        feedback, seed
            As for every fit.
        start : array (items, rank), optional
            V to go on from.
        """
        if not min(rows.shape) or not _filled(rows):
            return np.zeros((rows.shape[1], self.rank), np.float32)
        found = masked_nmf(
            rows,
            self.rank,
            feedback=feedback,
            start=None if start is None else (None, start),
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            rng=seed,
            **self._objective(),
        )
        return np.asarray(found[1])

    def score(self, V: Floats, *, feedback: Feedback, means: Floats | None = None) -> Score:
        """Fold histories in and predict ``u·v``.

        Parameters
        ----------
        V : array (items, rank)
            Item factors; copied, so that they stay as they are.
        feedback : {"counts", "ratings"}
            What absent entries mean.
        means : array (items,), optional
            Predicted for a history without entries and, for ratings, for an item without factors, of which nobody
            that the factors come from said anything. Zeros when not given.
        """
        scorer = FactorScorer(V, feedback=feedback, cold_start=means, **self._objective())
        blank = np.flatnonzero(~scorer.factors.any(axis=1))
        if feedback == "counts" or means is None or not blank.size:
            return scorer.scores

        def filled(rows: sparse.csr_array) -> NDArray[np.float32]:
            found = scorer.scores(rows)
            found[:, blank] = scorer.cold_start[blank]
            return found

        return filled

    def _objective(self) -> dict[str, Any]:
        return {
            "zero_weight": self.zero_weight,
            "regularization": self.regularization,
            "count_scaling": self.count_scaling,
        }


def item_means(rows: sparse.csr_array, feedback: Feedback, *, damping: float = 5.0) -> NDArray[np.float64]:
    """Mean of every item: per user for counts, per rating for ratings, there drawn towards the mean of all ratings.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[4.0, 0.0], [2.0, 0.0]]))
    >>> item_means(rows, "counts").tolist(), item_means(rows, "ratings").tolist()
    ([3.0, 0.0], [3.0, 3.0])
    """
    sums = np.bincount(rows.indices, weights=rows.data.astype(np.float64), minlength=rows.shape[1])
    if feedback == "counts":
        return np.asarray(sums / max(rows.shape[0], 1))
    seen = np.bincount(rows.indices, minlength=rows.shape[1])
    overall = sums.sum() / max(rows.nnz, 1)
    return np.asarray((sums + damping * overall) / (seen + damping))


def factor_bytes(n_items: int, rank: int) -> int:
    """Bytes of a matrix of item factors sent as float32.

    Examples
    --------
    >>> factor_bytes(457, 20)
    36560
    """
    return 4 * n_items * rank


def rows_bytes(rows: sparse.csr_array) -> int:
    """Bytes of raw rows sent as they are kept: values (float32), columns (int32) and row starts (int64).

    Examples
    --------
    >>> rows_bytes(sparse.csr_array(np.eye(3)))
    56
    """
    return 8 * int(rows.nnz) + 8 * (rows.shape[0] + 1)


def _filled(rows: Any) -> bool:
    return bool(rows.nnz if isinstance(rows, sparse.csr_array) else np.asarray(rows).any())
