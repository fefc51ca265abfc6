"""A local model of item factors: a history is folded in, and an item's score is a product of factors."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms.fold_in import FoldIn
from twofold.entity._damping import damped, damped_rows
from twofold.errors import BadModel, BadShape

__all__ = ["FactorScorer"]

Floats = NDArray[np.floating[Any]]
Columns = NDArray[np.integer[Any]]
SETTINGS = ("feedback", "zero_weight", "regularization", "count_scaling", "power")


class FactorScorer:
    """Scores ``u·v``, with u folded in from the history each time.

    Parameters
    ----------
    factors : array (items, rank)
        Item factors, at least 0.
    feedback, zero_weight, regularization, count_scaling
        As for `fold_in`.
    power : float
        Values are raised to it before anything else, keeping their sign; 0.5 damps counts.
    usual : array (items,), optional
        Scores of a history without entries, for whom nothing can be folded in; zeros when not given.
    threads : int, optional
        Threads for many users; all processors by default. Results do not depend on it.

    Paper
    -----
    Û_h V̂ᵀ of Algorithm 2.

    Examples
    --------
    >>> scorer = FactorScorer(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), feedback="ratings", regularization=0.0)
    >>> scorer.one(np.array([0, 1]), np.array([3.0, 1.0])).round(4).tolist()
    [3.0, 1.0, 4.0]
    >>> scorer.reasons(np.array([0, 1]), np.array([3.0, 1.0]), 2).round(4).tolist()
    [3.0, 1.0]
    """

    def __init__(
        self,
        factors: Floats,
        *,
        feedback: str,
        zero_weight: float = 0.1,
        regularization: float = 0.08,
        count_scaling: float = 1.0,
        power: float = 1.0,
        usual: Floats | None = None,
        threads: int | None = None,
    ) -> None:
        self.factors = np.array(factors, dtype=np.float32, order="C", ndmin=2)
        self.usual = np.zeros(len(self.factors), np.float32) if usual is None else np.array(usual, dtype=np.float32)
        if self.usual.shape != self.factors.shape[:1]:
            raise BadShape("the usual scores do not fit the item factors.", expected="one number per item")
        self._settings: dict[str, Any] = {
            "feedback": feedback,
            "zero_weight": float(zero_weight),
            "regularization": float(regularization),
            "count_scaling": float(count_scaling),
        }
        self.power = float(power)
        self.threads = threads
        for part in (self.factors, self.usual):
            part.flags.writeable = False

    @property
    def kind(self) -> str:
        """How an artefact names it."""
        return "factors"

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return len(self.factors)

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.factors.shape[1])

    @cached_property
    def ready(self) -> FoldIn:
        """Item factors prepared for folding in, made when first needed."""
        return FoldIn(self.factors, **self._settings)

    def user_factors(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Fit every history: (users, rank); zeros for one without entries."""
        if rows.shape[0] == 0:
            return np.zeros((0, self.rank), np.float32)
        values = damped_rows(rows, self.power)
        return np.asarray(self.ready.rows(values, threads=self.threads), dtype=np.float32)

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history; see `Scorer`."""
        result: NDArray[np.float32] = self.user_factors(rows) @ self.factors.T
        result[np.diff(rows.indptr) == 0] = self.usual
        return result

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        if len(columns) == 0:
            return self.usual.copy()
        return np.asarray(self.factors @ self.ready.one(columns, damped(values, self.power)), dtype=np.float32)

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry added to the score of one item; nothing is left over.

        Folding in is a least-squares fit: on the factors that are not zero the solution is linear in the values, so
        the score is a sum with one term per entry.
        """
        if len(columns) == 0:
            return np.zeros(0)
        given = damped(values, self.power)
        active = np.flatnonzero(self.ready.one(columns, given) > 0)
        wide = self.factors[:, active].astype(np.float64)
        own, absent = wide[columns], self.ready.settings.absent
        ridge = self.ready.settings.ridge(np.array([len(columns)]), self.n_items)[0]
        matrix = (1 - absent) * own.T @ own + absent * wide.T @ wide + ridge * np.eye(active.size)
        pull = np.linalg.lstsq(matrix, wide[item], rcond=None)[0]
        return np.asarray(own @ pull * given)

    def similar(self, item: int) -> NDArray[np.float64]:
        """Cosine of the item factors; 0 for an item without any."""
        wide = self.factors.astype(np.float64)
        lengths = np.linalg.norm(wide, axis=1)
        scale = np.maximum(lengths, np.finfo(np.float32).tiny)
        likeness = np.minimum(wide @ wide[item] / (scale * scale[item]), 1.0)
        likeness[item] = -np.inf
        return np.asarray(likeness)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Item factors and usual scores."""
        return {"factors": self.factors, "usual": self.usual}

    def settings(self) -> dict[str, Any]:
        """How histories are folded in."""
        return {**self._settings, "power": self.power}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> FactorScorer:
        """Make it again from `arrays` and `settings`."""
        if set(arrays) != {"factors", "usual"} or set(settings) != set(SETTINGS):
            raise BadModel("the parts of a model of factors are not complete.", expected="factors, usual and settings")
        return cls(arrays["factors"], usual=arrays["usual"], **settings)
