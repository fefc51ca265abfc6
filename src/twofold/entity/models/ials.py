"""A local model of signed factors for counts and 0/1 data: implicit ALS, a history folded in exactly.

The loss is that of `implicit_als`: observed values, a small weight on everything absent, and a penalty that grows with
the entries. Folding in minimises the same loss given the items, so a person who was not there when the model was made
gets what they would have got. Counts are damped (power 1/2); zeros and ones stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms import _checks
from twofold.algorithms.fold_in import FoldIn
from twofold.algorithms.implicit_als import EPOCHS, implicit_als
from twofold.entity.models.blend import Columns, Floats, Wide
from twofold.entity.models.factors import POWER, FactorScorer, damped_rows, solved
from twofold.errors import BadModel

__all__ = ["IalsFit", "IalsScorer"]

SETTINGS = ("unobserved", "penalty", "power")
#: Set by hand on MovieLens 1M by ZIP digit (50, 306 and 1,468 people) and Complete Journey products (60 and 400 homes);
#: half or twice of each costs less than a tenth of the gain over popularity.
RANK = 64
UNOBSERVED = 0.5
PENALTY = 0.5
#: Epochs after which a fit may be stopped.
LOOKS = (2, 4, 8)


class IalsScorer(FactorScorer):
    """Scores ``u·v`` of either sign, with u folded in from the history each time.

    Parameters
    ----------
    factors : array (items, rank)
        Item factors.
    unobserved : float
        Weight of an absent entry beside an observed one's 1.
    penalty : float
        λ of ``λ (n + unobserved items) |u|²``.
    power : float
        Values are raised to it before anything else, keeping their sign; 0.5 damps counts.
    cold_start : array (items,), optional
        Scores of a history without entries; zeros by default.
    threads : int, optional
        Threads for many users; all processors by default. Results do not depend on it.

    Examples
    --------
    >>> scorer = IalsScorer(np.array([[1.0, 1.0], [1.0, -1.0], [2.0, 2.0]]), unobserved=0.0, penalty=0.0)
    >>> scorer.one(np.array([0, 1]), np.array([1.0, 1.0])).round(4).tolist()
    [1.0, 1.0, 2.0]
    >>> scorer.reasons(np.array([0, 1]), np.array([1.0, 1.0]), 2).round(4).tolist()
    [2.0, 0.0]
    """

    def __init__(
        self,
        factors: Floats,
        *,
        unobserved: float,
        penalty: float,
        power: float = 1.0,
        cold_start: Floats | None = None,
        threads: int | None = None,
    ) -> None:
        self.unobserved = _checks.non_negative_number("unobserved", unobserved)
        self.penalty = _checks.non_negative_number("penalty", penalty)
        # (x - s)² + α s² is (1 + α)(x / (1 + α) - s)² and a constant: a fold-in whose observed entries weigh 1.
        self._shrink = 1.0 / (1.0 + self.unobserved)
        super().__init__(
            factors,
            feedback="counts",
            zero_weight=self.unobserved * self._shrink,
            regularization=self.penalty,
            power=power,
            cold_start=cold_start,
            threads=threads,
        )

    @property
    def kind(self) -> str:
        """Name in an artefact."""
        return "ials"

    @cached_property
    def ready(self) -> FoldIn:
        """Item factors prepared for folding in, made when first needed."""
        return FoldIn(self.factors, nonnegative=False, **self._settings)

    def user_factors(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Fit every history: (users, rank); zeros for one without entries."""
        return np.asarray(super().user_factors(rows) * np.float32(self._shrink))

    def _scored(self, folded: NDArray[Any]) -> NDArray[np.float32]:
        return super()._scored(folded) * np.float32(self._shrink)

    def _reasons(self, columns: Columns, given: Wide, item: int, folded: NDArray[Any]) -> Wide:  # noqa: ARG002
        own = self.factors[columns].astype(np.float64)
        ridge = self.penalty * (len(columns) + self.unobserved * self.n_items)
        matrix = own.T @ own + self.unobserved * self._products + ridge * np.eye(self.rank)
        return np.asarray((own @ solved(matrix, self.factors[item], ridge)) * given)

    def settings(self) -> dict[str, Any]:
        """How histories are folded in."""
        return {"unobserved": self.unobserved, "penalty": self.penalty, "power": self.power}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> IalsScorer:
        """Rebuild it from `arrays` and `settings`."""
        if set(arrays) != {"factors", "usual"} or set(settings) != set(SETTINGS):
            raise BadModel("the parts of an implicit ALS model are incomplete.", expected="factors, usual and settings")
        return cls(arrays["factors"], cold_start=arrays["usual"], **settings)


class IalsFit:
    """One entity's rows, prepared for implicit ALS of any settings.

    Parameters
    ----------
    rows : csr array (users, items)
        Counts, zeros and ones, or any values of which more is better. Private.
    seed : int
        Start of the factors.
    threads : int, optional
        All processors by default. Results do not depend on it.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]))
    >>> scores = IalsFit(rows).scorer(rank=2).one(np.array([3]), np.array([1.0]))
    >>> int(np.argmax(np.delete(scores, 3)))
    2
    """

    def __init__(self, rows: sparse.csr_array, *, seed: int = 0, threads: int | None = None) -> None:
        self.rows, self.seed, self.threads = rows, seed, threads
        self._values = damped_rows(rows, POWER["counts"])

    def scorer(
        self,
        *,
        rank: int = RANK,
        unobserved: float = UNOBSERVED,
        penalty: float = PENALTY,
        epochs: int = EPOCHS,
        stop: Callable[[int, IalsScorer], bool] | None = None,
    ) -> IalsScorer:
        """Item factors of some settings.

        Parameters
        ----------
        rank : int
            Most factors; never more than users or items.
        unobserved : float
            Weight of an absent entry beside an observed one's 1.
        penalty : float
            In units of chance: 1 is the λ that leaves nothing of a matrix whose entries are where they are by chance,
            given the sizes of the data. The same number then suits 50 people and 5,000; a bare λ does not.
        epochs : int
            Visits of both sides.
        stop : function, optional
            Asked after some epochs (`LOOKS`) with their number and the model so far; true ends the fit there.
        """
        users, items = self.rows.shape
        strength = _checks.non_negative_number("penalty", penalty) * self.chance(unobserved)
        popularity = np.bincount(self._values.indices, self._values.data, items) / max(users, 1)

        def made(factors: Floats) -> IalsScorer:
            how: dict[str, Any] = {"unobserved": unobserved, "penalty": strength, "power": POWER["counts"]}
            return IalsScorer(factors, cold_start=popularity, threads=self.threads, **how)

        def ended(epoch: int, factors: Floats) -> bool:
            return stop is not None and epoch in LOOKS and stop(epoch, made(factors))

        _, factors = implicit_als(
            self._values,
            max(1, min(rank, users, items)),
            unobserved=unobserved,
            regularization=strength,
            epochs=epochs,
            stop=ended,
            threads=self.threads,
            rng=self.seed,
        )
        return made(factors)

    def chance(self, unobserved: float) -> float:
        """The λ at which a matrix of chance vanishes, for rows and columns of average size.

        A penalty of λa|u|² and λb|v|² lowers singular values by λ√(ab); entries by chance, one of variance s² in each
        of n places of a row and k of a column, have singular values up to about s(√n + √k).
        """
        users, items = (max(size, 1) for size in self.rows.shape)
        entries = self._values.data.astype(np.float64)
        root_square = float(np.sqrt(np.mean(entries**2))) if entries.size else 0.0
        row, column = entries.size / users, entries.size / items
        both = (row + unobserved * items) * (column + unobserved * users)
        return float(root_square * (np.sqrt(row) + np.sqrt(column)) / np.sqrt(both)) if both > 0 else 0.0
