"""A local model of item factors: a history is folded in, and an item's score is a product of factors.

An entity's item factors are pulled towards the shared ones. The prior of item i is a set of pseudo-users whose
factors are held fixed: as many as there are factors, with the shared second moments, who gave the item what the shared
factors say. They count as much as `strength` users, so an item with few entries keeps its shared factors and one with
many gets its own. Both halves of a step are exact non-negative solves (`fold_in`). Alone, an entity's items are pulled
weakly to its own average item instead, so that an unrated item gets what its users give on average.

Scale. Factors of prototypes are in counts, and are brought to damped counts by how much damping shrinks each item.
Factors of second moments (the server sent patterns as well) are in damped rows of norm 1 already, and ``moments`` is
the mean of u uᵀ of such rows. A row x is |x| times such a row, and so is its u; hence pseudo-users who are to weigh as
own people do get the moments times the own mean of |x|² (`row_size`). Histories are damped before they are folded in;
a fold-in is proportional to the row, so they need no norm. Ratings are neither damped nor brought to a norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms.fold_in import FoldIn, fold_in
from twofold.algorithms.masked_nmf import masked_nmf
from twofold.csr import with_data
from twofold.entity.models.blend import Columns, Floats, Wide, rating_means
from twofold.errors import BadModel, BadShape
from twofold.federation.factors import ItemFactors

__all__ = ["POWER", "FactorFit", "FactorScorer", "damped", "damped_rows", "damping_of_items", "drawn_factors", "solved"]

Factors = NDArray[np.float32]
Feedback = Literal["counts", "ratings"]

SETTINGS = ("feedback", "zero_weight", "regularization", "count_scaling", "power")
#: Values are raised to it: five orders of a drug say more than one, but not five times as much.
POWER = {"counts": 0.5, "ratings": 1.0}
#: Absent counts are zeros of full weight here: with less, ranking was worse on simulated hospitals.
ZERO_WEIGHT = 1.0
#: Penalty of users' factors: of the entity's own model, and given shared factors.
PENALTY = {"counts": {"own": 0.02, "shared": 0.02}, "ratings": {"own": 0.1, "shared": 0.06}}
#: Entries of the average item that pull every item of an entity alone.
AVERAGE_ENTRIES = {"counts": 0.0, "ratings": 5.0}
#: Users that an entity alone needs for each factor beyond the third.
USERS_PER_FACTOR = {"counts": 1, "ratings": 50}
OWN_ITERATIONS = 10
DRAWN_ITERATIONS = 3
#: Keeps a solve definite where nothing else does.
TINY = 1e-4
#: A ridge of at least this part of the trace bounds the condition, so that a plain solve is as good as least squares.
_SOUND = 1e-9
#: Entries that an item needs before its own damping counts more than that of all items together.
DAMPING_ENTRIES = 20.0
#: Observations an item's shared factors need before they count more than those of the usual item. Fewer give slightly
#: smaller errors, and lists headed by items that one or two people liked.
FACTOR_RATINGS = 50.0


#: Items brought to double precision at once.
_BLOCK = 8_192


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
    cold_start : array (items,), optional
        Scores of a history without entries, where nothing can be folded in; zeros by default.
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
        cold_start: Floats | None = None,
        threads: int | None = None,
    ) -> None:
        self.factors = np.array(factors, dtype=np.float32, order="C", ndmin=2)
        self.cold_start = (
            np.zeros(len(self.factors), np.float32) if cold_start is None else np.array(cold_start, dtype=np.float32)
        )
        if self.cold_start.shape != self.factors.shape[:1]:
            raise BadShape(
                "the cold-start scores do not match the item factors.",
                expected="one number per item",
                parameter="cold_start",
            )
        self._settings: dict[str, Any] = {
            "feedback": feedback,
            "zero_weight": float(zero_weight),
            "regularization": float(regularization),
            "count_scaling": float(count_scaling),
        }
        self.power = float(power)
        self.threads = threads
        for part in (self.factors, self.cold_start):
            part.flags.writeable = False

    @property
    def kind(self) -> str:
        """Name in an artefact."""
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
        result[np.diff(rows.indptr) == 0] = self.cold_start
        return result

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        if len(columns) == 0:
            return self.cold_start.copy()
        return self._scored(self._folded(columns, damped(values, self.power)))

    def explained(self, columns: Columns, values: Floats, item: int) -> tuple[NDArray[np.float32], Wide]:
        """Scores of all items and reasons of one, as `one` and `reasons` give them, with the history folded in once."""
        if len(columns) == 0:
            return self.cold_start.copy(), np.zeros(0)
        given = damped(values, self.power)
        folded = self._folded(columns, given)
        return self._scored(folded), self._reasons(columns, given, item, folded)

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry added to the score of one item; nothing is left over.

        Folding in is a least-squares fit: on the factors that are not zero the solution is linear in the values, so
        the score is a sum with one term per entry.
        """
        if len(columns) == 0:
            return np.zeros(0)
        given = damped(values, self.power)
        return self._reasons(columns, given, item, self._folded(columns, given))

    def _folded(self, columns: Columns, given: Wide) -> NDArray[Any]:
        """The person's factors."""
        return self.ready.one(columns, given)

    def _scored(self, folded: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(self.factors @ folded, dtype=np.float32)

    def _reasons(self, columns: Columns, given: Wide, item: int, folded: NDArray[Any]) -> Wide:
        active, settings = np.flatnonzero(folded > 0), self.ready.settings
        own = self.factors.take(columns, 0).take(active, 1).astype(np.float64)
        matrix = settings.absent * self._products.take(active, 0).take(active, 1)
        if settings.absent != 1:  # otherwise an entry weighs as much as an absent one: one matrix for all
            matrix += (1 - settings.absent) * (own.T @ own)
        ridge = float(settings.ridge(np.float64(len(columns)), self.n_items))
        matrix.flat[:: active.size + 1] += ridge
        return np.asarray((own @ solved(matrix, self.factors[item, active], ridge)) * given)

    def similar(self, item: int) -> NDArray[np.float64]:
        """Cosine of the item factors; 0 for an item without any."""
        one = self.factors[item].astype(np.float64)
        likeness = np.concatenate([part @ one for part in self._wide()] or [np.zeros(0)])
        likeness /= self._lengths * self._lengths[item]
        np.minimum(likeness, 1.0, out=likeness)
        likeness[item] = -np.inf
        return np.asarray(likeness)

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        """Norm of every item; above 0, so that one may divide by it."""
        lengths = np.concatenate([np.linalg.norm(part, axis=1) for part in self._wide()] or [np.zeros(0)])
        return np.asarray(np.maximum(lengths, np.finfo(np.float32).tiny))

    @cached_property
    def _products(self) -> NDArray[np.float64]:
        """Products of all factors over the items."""
        return np.asarray(sum((part.T @ part for part in self._wide()), np.zeros((self.rank, self.rank))))

    def _wide(self) -> Iterator[NDArray[np.float64]]:
        """Factors in double precision, some items at a time: a copy of all would be large."""
        for start in range(0, self.n_items, _BLOCK):
            yield self.factors[start : start + _BLOCK].astype(np.float64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Item factors and cold-start scores; files have always called these ``usual``."""
        return {"factors": self.factors, "usual": self.cold_start}

    def settings(self) -> dict[str, Any]:
        """How histories are folded in."""
        return {**self._settings, "power": self.power}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> FactorScorer:
        """Rebuild it from `arrays` and `settings`."""
        if set(arrays) != {"factors", "usual"} or set(settings) != set(SETTINGS):
            raise BadModel("the parts of a factor model are incomplete.", expected="factors, usual and settings")
        return cls(arrays["factors"], cold_start=arrays["usual"], **settings)


class FactorFit:
    """One entity's rows, prepared for item factors of any strength.

    Parameters
    ----------
    rows : csr array (users, items)
        Private.
    shared : ItemFactors or None
        Factors from the server; never changed.
    feedback : {"counts", "ratings"}
        Absent entries are zeros, or unknown.
    rank : int
        Most factors of an entity alone.
    threads : int, optional
        All processors by default. Results do not depend on it.
    seed : int
        Start of the entity's own factors.
    """

    def __init__(
        self,
        rows: sparse.csr_array,
        shared: ItemFactors | None,
        *,
        feedback: str,
        rank: int,
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        self.rows, self.shared, self.feedback = rows, shared, cast(Feedback, feedback)
        self.rank, self.threads, self.seed = rank, threads, seed

    def scorer(self, strength: float) -> FactorScorer:
        """Item factors of one strength, with the way users are folded in."""
        power = POWER[self.feedback]
        if self.shared is None or strength == 0:
            return self._made(self._own(damped_rows(self.rows, power)), "own", power, self._cold_start(None))
        cold_start = self._cold_start(self.shared)
        if math.isinf(strength):
            return self._made(self._as_sent(), "shared", power if self._of_unit_rows else 1.0, cold_start)
        return self._made(self._drawn(damped_rows(self.rows, power), strength), "shared", power, cold_start)

    def _made(self, factors: Factors, stage: str, power: float, cold_start: NDArray[np.float64]) -> FactorScorer:
        return FactorScorer(
            factors,
            feedback=self.feedback,
            zero_weight=ZERO_WEIGHT,
            regularization=PENALTY[self.feedback][stage],
            power=power,
            cold_start=cold_start,
            threads=self.threads,
        )

    def _cold_start(self, shared: ItemFactors | None) -> NDArray[np.float64]:
        """Score of an item for a person without a history: for counts the mean, for ratings the mean rating.

        Alone, nothing shared may steer it: `shared` is None then.
        """
        if self.feedback == "ratings":
            return rating_means(self.rows, shared, 1.0)
        users, items = self.rows.shape
        return np.asarray(np.bincount(self.rows.indices, self.rows.data, items) / max(users, 1))

    def _as_sent(self) -> Factors:
        """A copy of the shared factors; for ratings, rarely rated items are pulled towards the average item."""
        assert self.shared is not None
        return filled_factors(self.shared) if self.feedback == "ratings" else np.array(self.shared.factors)

    @property
    def _of_unit_rows(self) -> bool:
        """Whether the shared factors are in damped rows of norm 1."""
        return self.feedback == "counts" and self.shared is not None and self.shared.patterns is not None

    def _drawn(self, values: sparse.csr_array, strength: float) -> Factors:
        assert self.shared is not None
        if self._of_unit_rows:
            towards, moments = self._as_sent(), self.shared.moments * row_size(self.rows, POWER[self.feedback])
            return self._draw(values, towards, moments, strength, towards, "shared")
        towards = self._as_sent() * damping_of_items(self.rows, POWER[self.feedback]).astype(np.float32)[:, None]
        return self._draw(values, towards, self.shared.moments, strength, towards, "shared")

    def _counts(self) -> NDArray[np.float64]:
        return np.bincount(self.rows.indices, minlength=self.rows.shape[1]).astype(np.float64)

    def _own(self, values: sparse.csr_array) -> Factors:
        users, items = values.shape
        enough = max(3, users // USERS_PER_FACTOR[self.feedback])
        rank = max(1, min(self.rank, enough, users, items))
        if not values.nnz:
            return np.zeros((items, rank), np.float32)
        U, V = masked_nmf(
            values,
            rank,
            feedback=self.feedback,
            zero_weight=ZERO_WEIGHT,
            regularization=PENALTY[self.feedback]["own"],
            max_iterations=OWN_ITERATIONS,
            threads=self.threads,
            rng=self.seed,
        )
        entries = AVERAGE_ENTRIES[self.feedback]
        if not entries:
            return np.asarray(V, np.float32)
        counts = self._counts()
        towards = np.tile((counts @ V / counts.sum()).astype(np.float32), (items, 1))
        start = np.where(counts[:, None] > 0, V, towards).astype(np.float32)
        return self._draw(values, towards, (U.T @ U / users).astype(np.float64), entries, start, "own")

    def _draw(
        self,
        values: sparse.csr_array,
        towards: Factors,
        moments: NDArray[np.float64],
        strength: float,
        start: Factors,
        stage: str,
    ) -> Factors:
        penalty = PENALTY[self.feedback][stage]
        return drawn_factors(
            values,
            towards,
            moments,
            strength,
            start=start,
            feedback=self.feedback,
            penalty=penalty,
            item_penalty=penalty * self._counts() if stage == "own" else None,
            threads=self.threads,
        )


def drawn_factors(
    rows: sparse.csr_array,
    towards: Factors,
    moments: NDArray[np.float64],
    strength: float,
    *,
    start: Factors,
    feedback: Feedback,
    penalty: float,
    item_penalty: NDArray[np.float64] | None = None,
    iterations: int = DRAWN_ITERATIONS,
    threads: int | None = None,
) -> Factors:
    """Item factors of some rows, pulled towards given ones by pseudo-users of fixed factors; see the module.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> towards = np.array([[1.0], [1.0]], np.float32)
    >>> made = [drawn_factors(rows, towards, np.eye(1), s, start=towards, feedback="ratings", penalty=0.0)
    ...         for s in (1e-6, 1e9)]
    >>> [(one[0] / one[1]).round(2).tolist() for one in made]
    [[2.0], [1.0]]
    """
    rank, small = towards.shape[1], np.full(rows.shape[1], TINY) if item_penalty is None else item_penalty + TINY
    items = np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1])) if feedback == "ratings" else slice(None)
    root = _root(moments)
    stacked, weights = _with_pseudo_users(
        sparse.csr_array(rows.T)[items], towards[items] @ root, strength, small[items]
    )
    factors, fixed = np.array(start, np.float32), np.vstack([root, np.eye(rank)]).astype(np.float32)
    for _ in range(iterations):
        users = fold_in(
            rows, factors, feedback=feedback, zero_weight=ZERO_WEIGHT, regularization=penalty, threads=threads
        )
        factors[items] = fold_in(
            stacked,
            np.vstack([users, fixed]),
            feedback=feedback,
            zero_weight=ZERO_WEIGHT,
            weights=weights,
            regularization=0.0,
            threads=threads,
        )
    return factors


def _with_pseudo_users(
    items: sparse.csr_array, said: NDArray[Any], strength: float, penalty: NDArray[np.float64]
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Add to each item the pseudo-users' values, and zeros as its penalty; weights in the order of the entries."""
    number, rank = said.shape
    block: Any = sparse.csr_array(np.ones((number, 2 * rank), np.float32))
    stacked = sparse.csr_array(sparse.hstack([items, block], format="csr"))
    at = stacked.indptr[1:, None] - 2 * rank + np.arange(2 * rank)
    weights = np.ones(stacked.nnz, np.float32)
    stacked.data[at] = np.hstack([said, np.zeros_like(said)])
    weights[at[:, :rank]], weights[at[:, rank:]] = strength, penalty[:, None]
    return stacked, weights


def _root(moments: NDArray[np.float64]) -> Factors:
    values, vectors = np.linalg.eigh((moments + moments.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, dtype=np.float32)


def solved(matrix: Wide, right: Floats, ridge: float) -> Wide:
    """Solve with a matrix of sums of squares that a ridge was added to; by least squares if the ridge is too small.

    Examples
    --------
    >>> solved(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 1.0]), 1.0).tolist()
    [0.5, 0.25]
    >>> solved(np.ones((2, 2)), np.ones(2), 0.0).round(6).tolist()
    [0.5, 0.5]
    """
    wide = np.asarray(right, np.float64)
    if ridge > _SOUND * matrix.trace():
        return np.asarray(np.linalg.solve(matrix, wide))
    return np.asarray(np.linalg.lstsq(matrix, wide, rcond=None)[0])


def damped(values: Floats, power: float) -> NDArray[np.float64]:
    """Raise values to a power, keeping their sign: five orders of a drug say more than one, but not five times as much.

    Examples
    --------
    >>> damped(np.array([4.0, -9.0]), 0.5).tolist()
    [2.0, -3.0]
    """
    given = np.asarray(values, dtype=np.float64)
    return given if power == 1 else np.asarray(np.sign(given) * np.abs(given) ** power)


def damped_rows(rows: sparse.csr_array, power: float) -> sparse.csr_array:
    """Damp the entries of sparse rows, in single precision; the given rows stay unchanged.

    Examples
    --------
    >>> damped_rows(sparse.csr_array(np.array([[4.0, 0.0]])), 0.5).toarray().tolist()
    [[2.0, 0.0]]
    """
    return with_data(rows, damped(rows.data, power).astype(np.float32))


def row_size(rows: sparse.csr_array, power: float) -> float:
    """Mean square of the norm of a damped row, over rows that are not empty; 1 where there are none.

    Examples
    --------
    >>> row_size(sparse.csr_array(np.array([[4.0, 1.0], [0.0, 3.0], [0.0, 0.0]])), 0.5)
    4.0
    """
    people = int(np.count_nonzero(np.diff(rows.indptr)))
    return float((damped(rows.data, power) ** 2).sum()) / people if people else 1.0


def damping_of_items(rows: sparse.csr_array, power: float) -> NDArray[np.float64]:
    """Factor by which damping shrinks each item's sum, 1 for a power of 1: scales shared factors to damped values.

    Examples
    --------
    >>> damping_of_items(sparse.csr_array(np.array([[4.0], [4.0]])), 0.5).tolist()
    [0.5]
    """
    items = rows.shape[1]
    if power == 1 or not rows.nnz:
        return np.ones(items)
    small = np.bincount(rows.indices, np.abs(damped(rows.data, power)), items)
    whole = np.bincount(rows.indices, np.abs(rows.data), items)
    overall = small.sum() / whole.sum() if whole.sum() else 1.0
    return np.asarray((small + DAMPING_ENTRIES * overall) / (whole + DAMPING_ENTRIES))


def filled_factors(shared: ItemFactors, least: float = FACTOR_RATINGS) -> NDArray[np.float32]:
    """A copy of the shared factors; rarely seen items are pulled towards the average item.

    The average is over items, not over ratings: rarely seen items are on the whole liked less than those that
    everyone saw.
    """
    support = np.maximum(shared.support, 0.0)[:, None]
    if not support.sum():
        return np.array(shared.factors)
    heard = np.minimum(support, least)
    average = (heard * shared.factors).sum(axis=0) / heard.sum()
    drawn = (support * shared.factors + least * average) / (support + least)
    return np.asarray(drawn, dtype=np.float32)
