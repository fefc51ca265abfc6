"""A local model of signed factors for few people: implicit ALS in which a count says how sure an entry is.

The loss is that of Hu, Koren and Volinsky (2008): an entry is a 1 that weighs `CONFIDENCE` times its count, everything
absent is a 0 that weighs 1, and factors have one penalty. Where `ials` takes a count as what is to be told, here it
says how much telling it matters. Both halves of an epoch are exact (`fold_in`), so a history is folded in by the loss
that the items were fitted with.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms import _checks
from twofold.algorithms.fold_in import FoldIn, fold_in
from twofold.csr import csr_rows, with_data
from twofold.entity.models.blend import Columns, Floats, Wide
from twofold.entity.models.factors import FactorScorer, solved
from twofold.errors import BadModel

__all__ = ["ConfidenceScorer", "confident_factors"]

SETTINGS: Final = ("confidence", "penalty")
#: Set on development splits of ASSISTments, where half or twice the penalty costs .002 to .005 of nDCG@10.
RANK: Final = 48
CONFIDENCE: Final = 10.0
PENALTY: Final = 10.0
EPOCHS: Final = 11
#: Size of a factor at the start, as in implicit; a start of 0.1 with 8 epochs gave worse lists (0017).
START: Final = 0.01


class ConfidenceScorer(FactorScorer):
    """Scores ``u·v`` of either sign, with u folded in from the history each time, an entry weighing as its count says.

    Parameters
    ----------
    factors : array (items, rank)
        Item factors.
    confidence : float
        Weight of an entry of count 1 beside an absent one's 1.
    penalty : float
        λ of ``λ|u|²``.
    cold_start : array (items,), optional
        Scores of a history without entries; zeros by default.
    threads : int, optional
        Threads for many users; all processors by default. Results do not depend on it.

    Examples
    --------
    >>> scorer = ConfidenceScorer(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), confidence=2.0, penalty=0.0)
    >>> [round(float(one), 3) for one in scorer.one(np.array([0]), np.array([3.0]))]
    [0.923, -0.462, 0.462]
    >>> scorer.reasons(np.array([0]), np.array([3.0]), 2).round(3).tolist()
    [0.462]
    """

    def __init__(
        self,
        factors: Floats,
        *,
        confidence: float,
        penalty: float,
        cold_start: Floats | None = None,
        threads: int | None = None,
    ) -> None:
        self.confidence = _checks.non_negative_number("confidence", confidence)
        self.penalty = _checks.non_negative_number("penalty", penalty)
        how: dict[str, Any] = {"zero_weight": 1.0, "regularization": self.penalty, "count_scaling": 0.0}
        super().__init__(factors, feedback="counts", cold_start=cold_start, threads=threads, **how)

    @property
    def kind(self) -> str:
        """Name in an artefact."""
        return "confidence"

    @cached_property
    def ready(self) -> FoldIn:
        """Item factors prepared for folding in, made when first needed."""
        return FoldIn(self.factors, nonnegative=False, **self._settings)

    def user_factors(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Fit every history: (users, rank); zeros for one without entries."""
        if not rows.nnz:
            return np.zeros((rows.shape[0], self.rank), np.float32)
        made = self.ready.rows(_ones(rows), weights=self.confidence * rows.data, threads=self.threads)
        return np.asarray(made, dtype=np.float32)

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        starts = np.array([0, len(columns)])
        row = csr_rows(np.asarray(values, np.float32), np.asarray(columns), starts, (1, self.n_items))
        return np.asarray(self.scores(row)[0])

    def explained(self, columns: Columns, values: Floats, item: int) -> tuple[NDArray[np.float32], Wide]:
        """Scores of all items and reasons of one; an entry's weight differs, so the two share nothing."""
        return self.one(columns, values), self.reasons(columns, values, item)

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry added to the score of one item; nothing is left over."""
        if len(columns) == 0:
            return np.zeros(0)
        own, weight = self.factors[columns].astype(np.float64), self.confidence * np.asarray(values, np.float64)
        matrix = self._products + (own.T * (weight - 1.0)) @ own + self.penalty * np.eye(self.rank)
        return np.asarray((own @ solved(matrix, self.factors[item], self.penalty)) * weight)

    def settings(self) -> dict[str, Any]:
        """How histories are folded in."""
        return {"confidence": self.confidence, "penalty": self.penalty}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> ConfidenceScorer:
        """Rebuild it from `arrays` and `settings`."""
        if set(arrays) != {"factors", "usual"} or set(settings) != set(SETTINGS):
            raise BadModel("the parts of an implicit ALS model are incomplete.", expected="factors, usual and settings")
        return cls(arrays["factors"], cold_start=arrays["usual"], **settings)


def confident_factors(
    rows: sparse.csr_array,
    *,
    rank: int = RANK,
    confidence: float = CONFIDENCE,
    penalty: float = PENALTY,
    epochs: int = EPOCHS,
    seed: int = 0,
    threads: int | None = None,
) -> ConfidenceScorer:
    """Fit item factors to one entity's rows.

    Parameters
    ----------
    rows : csr array (users, items)
        Counts, or zeros and ones. Private.
    rank : int
        Most factors; never more than users or items.
    confidence, penalty : float
        As for `ConfidenceScorer`.
    epochs : int
        Visits of both sides.
    seed : int
        Start of the factors.
    threads : int, optional
        All processors by default. Results do not depend on it.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1, 1, 0, 0], [2, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 3]], np.float32))
    >>> scores = confident_factors(rows, rank=2, penalty=0.1).one(np.array([3]), np.array([1.0]))
    >>> int(np.argmax(np.delete(scores, 3)))
    2
    """
    users, items = rows.shape
    rank = max(1, min(rank, users, items))
    V = np.random.default_rng(seed).normal(0.0, START, (items, rank)).astype(np.float32)
    ones, weights = _ones(rows), with_data(rows, confidence * rows.data)
    turned = sparse.csr_array(ones.T)
    turned_weights = sparse.csr_array(weights.T).data
    how: dict[str, Any] = {
        "feedback": "counts",
        "zero_weight": 1.0,
        "regularization": penalty,
        "count_scaling": 0.0,
        "nonnegative": False,
        "threads": threads,
    }
    for _ in range(epochs if rows.nnz else 0):
        U = fold_in(ones, V, weights=weights.data, **how)
        V = fold_in(turned, U, weights=turned_weights, **how)
    use = np.bincount(rows.indices, rows.data, items) / max(users, 1)
    return ConfidenceScorer(V, confidence=confidence, penalty=penalty, cold_start=use, threads=threads)


def _ones(rows: sparse.csr_array) -> sparse.csr_array:
    return with_data(rows, np.ones(rows.nnz, np.float32))
