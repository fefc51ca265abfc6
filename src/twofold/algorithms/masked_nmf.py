"""Non-negative factors of a partly observed matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.algorithms import _checks
from twofold.algorithms._jit import Workers
from twofold.algorithms._nmf_alternate import Problem, Stop, alternate, read_problem
from twofold.algorithms._nmf_sides import COUNT_SCALING, REGULARIZATION, ZERO_WEIGHT, Feedback, Settings

__all__ = ["MaskedNMFResult", "masked_nmf"]

Array = NDArray[Any]
Callback = Callable[[int, float], bool | None]
Start = tuple[ArrayLike | None, ArrayLike | None]


@dataclass(frozen=True, kw_only=True)
class MaskedNMFResult:
    """Factors, with the course of the fit.

    Attributes
    ----------
    user_factors, item_factors : arrays (users, rank) and (items, rank)
        U and V; ``U @ V.T`` approximates X.
    objective : tuple of float
        Value after the start and after each iteration; never rises.
    converged : bool
        Whether the relative change fell below the tolerance.
    """

    user_factors: Array = field(repr=False)
    item_factors: Array = field(repr=False)
    objective: tuple[float, ...] = field(repr=False)
    converged: bool

    @property
    def iterations(self) -> int:
        """Number of iterations."""
        return len(self.objective) - 1


@overload
def masked_nmf(
    X: Any,
    rank: int,
    *,
    feedback: Feedback = ...,
    weights: Any = ...,
    row_weights: ArrayLike | None = ...,
    zero_weight: float = ...,
    regularization: float = ...,
    count_scaling: float = ...,
    start: Start | None = ...,
    max_iterations: int = ...,
    tolerance: float = ...,
    callback: Callback | None = ...,
    dtype: DTypeLike | None = ...,
    threads: int | None = ...,
    rng: np.random.Generator | int | None = ...,
    return_info: Literal[False] = ...,
) -> tuple[Array, Array]: ...


@overload
def masked_nmf(
    X: Any,
    rank: int,
    *,
    feedback: Feedback = ...,
    weights: Any = ...,
    row_weights: ArrayLike | None = ...,
    zero_weight: float = ...,
    regularization: float = ...,
    count_scaling: float = ...,
    start: Start | None = ...,
    max_iterations: int = ...,
    tolerance: float = ...,
    callback: Callback | None = ...,
    dtype: DTypeLike | None = ...,
    threads: int | None = ...,
    rng: np.random.Generator | int | None = ...,
    return_info: Literal[True],
) -> MaskedNMFResult: ...


def masked_nmf(
    X: Any,
    rank: int,
    *,
    feedback: Feedback = "ratings",
    weights: Any = None,
    row_weights: ArrayLike | None = None,
    zero_weight: float = ZERO_WEIGHT,
    regularization: float = REGULARIZATION,
    count_scaling: float = COUNT_SCALING,
    start: Start | None = None,
    max_iterations: int = 50,
    tolerance: float = 1e-5,
    callback: Callback | None = None,
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    rng: np.random.Generator | int | None = 0,
    return_info: bool = False,
) -> tuple[Array, Array] | MaskedNMFResult:
    """Factor a partly observed matrix into non-negative U and V.

    Minimises ``Σ w (x - u·v)² + λ (Σ n_u^a |u|² + Σ n_i^a |v|²)`` over U ≥ 0, V ≥ 0. The sum runs over observed
    entries; with ``feedback="counts"`` absent entries join it as zeros of weight `zero_weight`, without the full
    matrix ever being formed. Each half of an iteration is an exact solve of one side (see `fold_in`), so the
    objective never rises; steps on the item side are lengthened while that helps.

    Parameters
    ----------
    X : SciPy sparse matrix or array (users, items)
        Any real numbers, negative ones too. Sparse: stored entries are observed, stored zeros too. Dense: NaN is
        not observed; for ``"counts"`` zeros are absent.
    rank : int
        Number of factors.
    feedback : {"ratings", "counts"}
        Absent entries are unknown, or zeros of weight `zero_weight`.
    weights : array or SciPy sparse matrix, optional
        One weight per stored entry (in the order of ``X.data``), or a matrix that stores the same cells.
    row_weights : array (users,), optional
        One weight per row, multiplied in: for rows with noise of known variance, one over that variance.
    zero_weight : float
        Weight of an absent entry under ``"counts"``; 1 makes it plain NMF of the whole matrix.
    regularization, count_scaling : float
        λ and the exponent a; n counts a row's or column's entries (absent ones by their weight). ``a = 0`` is the
        sum form of the paper's experiments, ``a = 1`` shrinks everyone alike.
    start : pair of arrays, optional
        U and V of an earlier fit to continue from; either may be None. V decides if both are given. Negative
        numbers are read as 0.
    max_iterations : int
        Most iterations; 0 only fits U to the start.
    tolerance : float
        Stop when an iteration improves the objective by less than this share.
    callback : function, optional
        Called with the iteration and the objective; returning True stops.
    dtype : float32 or float64, optional
        Precision; float64 for float64 data, float32 otherwise.
    threads : int, optional
        All processors by default. The result does not depend on it.
    rng : numpy.random.Generator, int or None
        Source of the random start; a fixed seed by default.
    return_info : bool
        Return a `MaskedNMFResult` instead of the pair.

    Returns
    -------
    U, V : arrays (users, rank) and (items, rank)

    Paper
    -----
    Eq. 2, solved at the server on prototypes and at an entity on ratings.

    Deviations
    ----------
    Eq. 2 divides the loss by the number of entries and leaves the penalty whole, which drives both factors to
    zero on large data. Here neither is divided, and by default the penalty grows with the entries.

    Examples
    --------
    >>> X = np.array([[2.0, 1.0, np.nan, 0.0], [4.0, np.nan, 0.0, 0.0], [0.0, 0.0, 3.0, np.nan]])
    >>> U, V = masked_nmf(X, rank=2, regularization=0.0)
    >>> (U @ V.T).round(2) + 0.0
    array([[2., 1., 0., 0.],
           [4., 2., 0., 0.],
           [0., 0., 3., 0.]])
    """
    rank = _checks.whole_number("rank", rank)
    stop = Stop(
        max_iterations=_checks.whole_number("max_iterations", max_iterations, least=0),
        tolerance=_checks.non_negative_number("tolerance", tolerance),
        callback=callback,
    )
    settings = Settings(
        feedback=feedback,
        zero_weight=zero_weight,
        regularization=regularization,
        count_scaling=count_scaling,
    )
    problem = read_problem(X, settings, weights=weights, row_weights=row_weights, dtype=dtype)
    given = _read_start(start, problem, rank)
    with Workers(threads) as workers:
        U, V, trace, converged = alternate(problem, rank, given, stop, np.random.default_rng(rng), workers)
    if not return_info:
        return U, V
    return MaskedNMFResult(user_factors=U, item_factors=V, objective=tuple(trace), converged=converged)


def _read_start(start: Start | None, problem: Problem, rank: int) -> tuple[Array | None, Array | None]:
    """Check a pair of factors and bring it to the scale of the problem."""
    if start is None:
        return None, None
    unit = np.sqrt(problem.value_scale)
    pair: list[Array | None] = []
    for name, values, length in zip(("start U", "start V"), start, problem.shape, strict=True):
        if values is None:
            pair.append(None)
            continue
        array = _checks.factors(name, values, length, rank)
        pair.append(np.maximum(array, 0) / unit)
    return pair[0], pair[1]
