"""The loop of `masked_nmf`: both sides of the problem solved exactly in turn, with lengthened steps.

Going on in the direction of the last change saves about a third of the iterations [1]_. A lengthened step is
kept only if the objective falls; otherwise the plain one is taken, which cannot raise it.

Values and weights are scaled by powers of two, which changes no digit and keeps squares of very large or very small
input inside the range of float32.

.. [1] A. M. S. Ang and N. Gillis, Accelerating nonnegative matrix factorization algorithms using extrapolation,
   Neural Computation 31(2), 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.algorithms import _checks
from twofold.algorithms._jit import Workers
from twofold.algorithms._nmf_sides import DenseSide, Entries, Settings, SparseSide, observed, padded, solve
from twofold.csr import csr_rows
from twofold.errors import BadNumber, Set
from twofold.progress import tell

__all__ = ["Problem", "Stop", "alternate", "in_range", "near_one", "read_problem", "unscaled"]

Array = NDArray[Any]
LONGEST = 0.8  # of the last change; beyond it steps were refused more often than they helped on MovieLens


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When to end: see `masked_nmf`."""

    max_iterations: int
    tolerance: float
    callback: Callable[[int, float], bool | None] | None


@dataclass(kw_only=True)
class _State:
    """Both sides, the current pair of padded factors and its objective."""

    problem: Problem
    rank: int
    workers: Workers
    U: Array
    V: Array
    objective: float = np.inf
    rows: Any = field(init=False)
    columns: Any = field(init=False)
    ridges: tuple[Array, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.ridges = self.problem.ridges(self.problem.value_scale * self.problem.weight_scale)
        self.rows = self.problem.row_side(self.ridges[0])
        self.columns = self.problem.column_side(self.ridges[1])

    def try_items(self, V: Array) -> tuple[Array, float]:
        """Return the users that fit items `V` best, and the objective of the pair."""
        U = self.U.copy()
        warm = np.isfinite(self.objective)
        energy = solve(self.rows, V, U, rank=self.rank, warm=bool(warm), workers=self.workers)
        return U, float(energy.sum() + _penalty(self.ridges[1], V))

    def best_items(self) -> Array:
        """Return the items that fit the current users best."""
        V = self.V.copy()
        warm = np.isfinite(self.objective)
        solve(self.columns, self.U, V, rank=self.rank, warm=bool(warm), workers=self.workers)
        return V


def alternate(
    problem: Problem,
    rank: int,
    start: tuple[Array | None, Array | None],
    stop: Stop,
    rng: np.random.Generator,
    workers: Workers,
) -> tuple[Array, Array, list[float], bool]:
    """Iterate until a stopping rule holds; return U, V, the objectives and whether the tolerance was reached."""
    state = _begin(problem, rank, start, rng, workers)
    unit = problem.weight_scale * problem.value_scale**2
    trace, previous, converged = [state.objective * unit], None, False
    ended = _wants_end(stop, 0, trace[-1])
    iteration = 0
    while not ended and iteration < stop.max_iterations:
        iteration += 1
        before = state.objective
        previous = _improve(state, previous, min(LONGEST, (iteration - 1) / (iteration + 2)))
        trace.append(state.objective * unit)
        tell("factorization", iteration, stop.max_iterations)
        converged = before - state.objective <= stop.tolerance * before
        ended = converged or _wants_end(stop, iteration, trace[-1])
    scale = float(np.sqrt(problem.value_scale))
    U, V = (unscaled(factors[:, :rank], scale) for factors in (state.U, state.V))
    return U, V, trace, converged


def _begin(
    problem: Problem,
    rank: int,
    start: tuple[Array | None, Array | None],
    rng: np.random.Generator,
    workers: Workers,
) -> _State:
    U, V = start
    kind = problem.dtype
    blank = np.zeros((problem.shape[0], rank)) if U is None else U
    items = _random_items(problem, rank, rng) if V is None else V
    state = _State(problem=problem, rank=rank, workers=workers, U=padded(blank, kind), V=padded(items, kind))
    if U is not None and V is None:
        state.V = state.best_items()
    state.U, state.objective = state.try_items(state.V)
    return state


def _random_items(problem: Problem, rank: int, rng: np.random.Generator) -> Array:
    """Draw factors whose products are about as large as the data: uniform, mean sqrt(mean |x| / rank)."""
    values: Any = problem.cells if problem.entries is None else problem.entries.values
    values = values.data if _checks.is_sparse(values) else values
    size = float(np.abs(values).mean(dtype=np.float64)) if values.size else 0.0
    return np.asarray(2 * np.sqrt(size / rank) * rng.random((problem.shape[1], rank)))


def _improve(state: _State, previous: Array | None, momentum: float) -> Array:
    """One iteration: items, lengthened if possible, then users. Returns the items before lengthening."""
    V = state.best_items()
    if previous is not None and momentum > 0:
        longer = V - previous
        longer *= momentum
        longer += V
        np.maximum(longer, 0, out=longer)
        U, objective = state.try_items(longer)
        if objective < state.objective:
            state.U, state.V, state.objective = U, longer, objective
            return V
    U, objective = state.try_items(V)
    if objective < state.objective:  # fails only by rounding, at the very end
        state.U, state.V, state.objective = U, V, objective
    return V


def _penalty(ridge: Array, factors: Array) -> float:
    squares = np.einsum("ij,ij->i", factors, factors, dtype=np.float64)
    return float(ridge @ squares)


def _wants_end(stop: Stop, iteration: int, objective: float) -> bool:
    return stop.callback is not None and stop.callback(iteration, objective) is True


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Scaled input.

    Attributes
    ----------
    entries, cells : Entries and matrix, one of them None
        What is observed: some cells, or all of them.
    row_weights, absent : array and float
        Weight of each row, and of an absent entry in a row of weight 1, scaled.
    value_scale, weight_scale : float
        What values and weights were divided by.
    """

    settings: Settings
    entries: Entries | None
    cells: Any
    row_weights: Array
    absent: float
    shape: tuple[int, int]
    value_scale: float
    weight_scale: float
    dtype: np.dtype[Any]

    def ridges(self, scale: float) -> tuple[Array, Array]:
        """Penalties of rows and columns, divided by `scale`, in float64."""
        if self.entries is not None:
            rows, columns = self.entries.counts(), np.bincount(self.entries.columns, minlength=self.shape[1])
        else:
            rows, columns = np.full(self.shape[0], self.shape[1]), np.full(self.shape[1], self.shape[0])
        return (
            in_range(self.settings.ridge(rows, self.shape[1]), scale, self.dtype),
            in_range(self.settings.ridge(columns, self.shape[0]), scale, self.dtype),
        )

    def row_side(self, ridge: Array) -> SparseSide | DenseSide:
        """Rows given the factors of columns."""
        ones = np.ones(self.shape[1], self.dtype)
        return self._side(self.entries, self.cells, ridge, self.row_weights.astype(self.dtype), ones)

    def column_side(self, ridge: Array) -> SparseSide | DenseSide:
        """Columns given the factors of rows."""
        entries = None if self.entries is None else self.entries.transposed()
        cells = None if self.cells is None else self.cells.T
        if cells is not None:
            cells = cells.tocsr() if _checks.is_sparse(cells) else np.ascontiguousarray(cells, self.dtype)
        ones = np.ones(self.shape[1], self.dtype)
        return self._side(entries, cells, ridge, ones, self.row_weights.astype(self.dtype))

    def _side(
        self, entries: Entries | None, cells: Any, ridge: Array, here: Array, there: Array
    ) -> SparseSide | DenseSide:
        ridge = ridge.astype(self.dtype)
        if entries is None:
            return DenseSide(matrix=cells, ridge=ridge, row_weights=here, column_weights=there)
        if self.absent == 0:
            here = there = np.empty(0, self.dtype)
        return SparseSide(
            entries=entries, ridge=ridge, absent_row=here * self.dtype.type(self.absent), absent_column=there
        )


def near_one(values: Any) -> float:
    """Return the power of two that brings the largest number near 1; 1 if it is already in a safe range."""
    return power_near(float(max(values.max(initial=0), -values.min(initial=0))) if values.size else 0.0)


def power_near(largest: float) -> float:
    """Return the power of two near a number; 1 for 0 and in a safe range."""
    if largest == 0 or 2.0**-10 <= largest <= 2.0**10:
        return 1.0
    return float(2.0 ** np.clip(np.round(np.log2(largest)), -1000, 1000))


def in_range(ridge: Array, scale: float, dtype: np.dtype[Any]) -> Array:
    """Divide penalties by `scale`, limited so that their squares stay finite; beyond that a factor is zero anyway."""
    return np.asarray(np.minimum(ridge / scale, np.sqrt(np.finfo(dtype).max) / 16))


def unscaled(factors: Array, scale: float) -> Array:
    """Multiply back; refuse what the type of the factors cannot hold."""
    if scale == 1.0:
        return np.ascontiguousarray(factors)
    true = factors.astype(np.float64) * scale
    if np.abs(true).max(initial=0.0) > np.finfo(factors.dtype).max:
        raise BadNumber(
            f"{{parameter}} is too large for factors of type {factors.dtype}.",
            fix=Set("dtype", "float64"),
            parameter="X",
        )
    return true.astype(factors.dtype)


def read_problem(
    X: Any,
    settings: Settings,
    *,
    weights: Any,
    row_weights: ArrayLike | None,
    dtype: DTypeLike | None,
) -> Problem:
    """Check, convert and scale the input."""
    entries, cells = observed(X, weights, settings.feedback)
    source: Any = cells if entries is None else entries.values
    shape = source.shape if entries is None else entries.shape
    kind = _checks.floating_type(dtype, source.dtype)
    own = np.ones(shape[0]) if row_weights is None else _checks.vector("row_weights", row_weights, shape[0])
    row_scale, value_scale, entry_scale = near_one(own), near_one(source), 1.0
    own = own / row_scale
    if entries is not None and settings.absent == 1 and entries.weights.size == 0:
        # Zeros weigh as much as the rest: one Gram matrix for all.
        cells, entries = csr_rows(entries.values, entries.columns, entries.starts, entries.shape), None
    if entries is not None:
        entry_scale = near_one(entries.weights)
        values = _divided(entries.values, value_scale).astype(kind, copy=False)
        entries = replace(
            entries, values=values, weights=_weights(entries, own, row_weights is None, entry_scale, kind)
        )
    return Problem(
        settings=settings,
        entries=entries,
        cells=None if cells is None else _divided(cells, value_scale),
        row_weights=own,
        absent=settings.absent / entry_scale,
        shape=(int(shape[0]), int(shape[1])),
        value_scale=value_scale,
        weight_scale=row_scale * entry_scale,
        dtype=kind,
    )


def _weights(entries: Entries, rows: Array, plain: bool, scale: float, kind: np.dtype[Any]) -> Array:
    """Scaled weights of entries, times the weights of their rows unless these are all 1."""
    weights = entries.weights / scale
    if not plain:
        per_entry = np.repeat(rows, entries.counts())
        weights = weights * per_entry if weights.size else per_entry
    return weights.astype(kind, copy=False)


def _divided(values: Any, scale: float) -> Any:
    return values if scale == 1.0 else values.astype(np.float64) / scale
