"""Fit users to item factors that are already known: exact least squares, user by user."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.algorithms import _checks
from twofold.algorithms._jit import Workers
from twofold.algorithms._nmf_alternate import in_range, near_one, power_near, read_problem, unscaled
from twofold.algorithms._nmf_sides import (
    COUNT_SCALING,
    REGULARIZATION,
    ZERO_WEIGHT,
    Feedback,
    Settings,
    padded,
    solve,
    solve_block,
)
from twofold.errors import BadShape

__all__ = ["FoldIn", "fold_in"]

Array = NDArray[Any]


def fold_in(
    X: Any,
    V: ArrayLike,
    *,
    feedback: Feedback = "ratings",
    weights: Any = None,
    row_weights: ArrayLike | None = None,
    zero_weight: float = ZERO_WEIGHT,
    regularization: float = REGULARIZATION,
    count_scaling: float = COUNT_SCALING,
    nonnegative: bool = True,
    dtype: DTypeLike | None = None,
    threads: int | None = None,
) -> Array:
    """Find each user's factors given the item factors.

    Row u of the result minimises ``Σ w (x - u·v)² + λ n^a |u|²`` over the observed entries of row u of X, over
    u ≥ 0 unless ``nonnegative=False``. The minimum is exact up to rounding, not the end of an iteration.

    Parameters
    ----------
    X : SciPy sparse matrix or array (users, items)
        Sparse: stored entries are observed, stored zeros too. Dense: NaN is not observed; for ``"counts"``
        zeros are absent.
    V : array (items, rank)
        Item factors.
    feedback : {"ratings", "counts"}
        Absent entries are unknown, or zeros of weight `zero_weight`.
    weights : array or SciPy sparse matrix, optional
        One weight per stored entry (in the order of ``X.data``), or a matrix that stores the same cells.
    row_weights : array (users,), optional
        One weight per user, multiplied in.
    zero_weight : float
        Weight of an absent entry under ``"counts"``.
    regularization, count_scaling : float
        λ and the exponent a; n is the number of the user's entries. ``count_scaling=0`` gives everyone the same λ.
    nonnegative : bool
        Whether factors may not be negative.
    dtype : float32 or float64, optional
        Precision; float64 for float64 data, float32 otherwise.
    threads : int, optional
        All processors by default. The result does not depend on it.

    Returns
    -------
    array (users, rank)
        A user without entries gets zeros.

    See Also
    --------
    FoldIn : the same, prepared once for many calls.

    Paper
    -----
    Eq. 2 with V fixed: the second round at an entity.

    Deviations
    ----------
    Eq. 2 divides the loss by the number of entries and leaves the penalty whole; here neither is divided, and
    the penalty grows with the user's entries.

    Examples
    --------
    >>> V = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> fold_in(np.array([[3.0, np.nan, 4.0]]), V, regularization=0.0).round(6)
    array([[3., 1.]])
    """
    prepared = FoldIn(
        V,
        feedback=feedback,
        zero_weight=zero_weight,
        regularization=regularization,
        count_scaling=count_scaling,
        nonnegative=nonnegative,
        dtype=dtype,
    )
    return prepared.rows(X, weights=weights, row_weights=row_weights, threads=threads)


class FoldIn:
    """Item factors prepared for folding in users, many at once or one in microseconds.

    Parameters
    ----------
    V, feedback, zero_weight, regularization, count_scaling, nonnegative, dtype
        As for `fold_in`; `dtype` follows V by default.

    Examples
    --------
    >>> ready = FoldIn(np.eye(2), regularization=0.0)
    >>> ready.one([0], [4.0])
    array([4., 0.])
    """

    def __init__(
        self,
        V: ArrayLike,
        *,
        feedback: Feedback = "ratings",
        zero_weight: float = ZERO_WEIGHT,
        regularization: float = REGULARIZATION,
        count_scaling: float = COUNT_SCALING,
        nonnegative: bool = True,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.settings = Settings(
            feedback=feedback,
            zero_weight=zero_weight,
            regularization=regularization,
            count_scaling=count_scaling,
        )
        self.nonnegative = nonnegative
        factors = _checks.factors("V", V, None, None)
        self._asked = dtype
        self._dtype = _checks.floating_type(dtype, factors.dtype)
        self._scale = near_one(factors)
        self._shape = factors.shape
        self._factors = padded(factors / self._scale, self._dtype)
        self._prepare_one()

    def rows(
        self,
        X: Any,
        *,
        weights: Any = None,
        row_weights: ArrayLike | None = None,
        threads: int | None = None,
    ) -> Array:
        """Fit every row of X; see `fold_in`."""
        problem = read_problem(
            X, self.settings, weights=weights, row_weights=row_weights, dtype=self._asked or self._dtype
        )
        if problem.shape[1] != self._shape[0]:
            raise BadShape(
                "X and V do not have the same items.",
                found=f"X with {problem.shape[1]} columns, V with {self._shape[0]} rows",
                parameter="X",
            )
        ridge, _ = problem.ridges(problem.weight_scale * self._scale**2)
        out = np.zeros((problem.shape[0], self._factors.shape[1]), self._dtype)
        with Workers(threads) as workers:
            self._solve(problem.row_side(ridge), out, workers)
        return self._finish(out, problem.value_scale)

    def one(self, columns: ArrayLike, values: ArrayLike) -> Array:
        """Fit one user from item positions and values; fast, for single requests.

        Parameters
        ----------
        columns, values : arrays (entries,)
            Positions of items in V, each at most once, and what was observed.

        Returns
        -------
        array (rank,)
        """
        own = np.asarray(columns)
        if own.dtype.kind not in "iu" and own.size:
            raise BadShape("{parameter} must be whole numbers.", found=f"type {own.dtype}", parameter="columns")
        observed = np.asarray(values, dtype=np.float64)
        if own.ndim != 1 or own.shape != observed.shape:
            raise BadShape("columns and values must be vectors of one length.", parameter="values")
        if own.size and own.astype(np.uint64).max() >= self._shape[0]:  # below 0 becomes very large
            raise BadShape("{parameter} point outside V.", expected=f"0 to {self._shape[0] - 1}", parameter="columns")
        largest = float(np.abs(observed).max(initial=0.0))
        if not math.isfinite(largest):
            _checks.finite("values", observed)
        scale = power_near(largest)
        own = own.astype(np.int32, copy=False)
        ridge = min(float(self.settings.ridge(np.float64(own.size), self._shape[0])) / self._scale**2, self._strongest)
        kind, rank, width = self._dtype, self._shape[1], self._factors.shape[1]
        none = self._none
        near = (observed if scale == 1 else observed / scale).astype(kind)
        head = (np.array([0, own.size]), own, near, none, self._flat, rank, width)
        tail = (self._base, self._absent, self._everywhere, none, np.array([ridge], kind))
        out = np.zeros((1, width), kind)
        solve_block(0, 1, head, tail, not self.nonnegative, False, out, np.zeros(1), np.zeros(1, np.bool_))
        factors: Array = self._finish(out, scale)[0]
        return factors

    def _prepare_one(self) -> None:
        """Keep what every single user needs."""
        kind, absent = self._dtype, self.settings.absent
        self._flat, self._none = self._factors.reshape(-1), np.empty(0, kind)
        self._strongest = float(in_range(np.array([np.inf]), 1.0, kind)[0])
        self._base = self._absent = self._everywhere = self._none
        if absent:
            self._base = (self._factors.T @ self._factors).reshape(-1)
            self._absent, self._everywhere = np.full(1, absent, kind), np.ones(self._shape[0], kind)

    def _solve(self, side: Any, out: Array, workers: Workers) -> None:
        solve(side, self._factors, out, rank=self._shape[1], signed=not self.nonnegative, workers=workers)

    def _finish(self, out: Array, value_scale: float) -> Array:
        return unscaled(out[:, : self._shape[1]], value_scale / self._scale)
