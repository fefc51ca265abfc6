"""The parts of the factorization of weighted rows, whether or not they fit into memory.

One look at all rows gives the totals (`Survey`) that decide how rows become a plain matrix with one penalty, and the
noise edge that penalty has to clear (`Scaling`). Rows and items are then fitted in turn by small normal equations that
are solved exactly (`Look`), with lengthened steps, since a look at all rows is expensive (`descend`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from twofold.algorithms import fold_in
from twofold.csr import csr_rows
from twofold.federation.plan import Plan
from twofold.progress import tell
from twofold.release.content import Floats, WeightedRows

__all__ = [
    "Blocks",
    "Look",
    "Scaling",
    "Survey",
    "add_item_equations",
    "descend",
    "noise_edge",
    "row_equations",
    "scaling",
    "solve",
    "survey",
]

#: Gives the rows in the same blocks and the same order at each call.
Blocks = Callable[[], Iterable[WeightedRows]]

LONGEST = 0.8  # of the last change, as `masked_nmf` lengthens steps
# Items whose rank x rank matrices are worked on at a time: some ten megabytes.
_CHUNK = 4096


@dataclass(kw_only=True)
class Survey:
    """Totals over all rows; sums run in the order of the blocks, so equal blocks give equal bits.

    Attributes
    ----------
    rows, cells : int
        Rows that carry any weight, and rows in all.
    weight : float
        Sum of the row weights: users, less what the noise takes away.
    item_weight, item_sum : arrays (items,)
        Weight behind each item's mean (users, for ratings observations), and weight times value.
    row_noise : float
        Largest noise energy of a weighted row.
    item_noise : array (items,)
        Noise energy of each weighted column.
    squares : float
        For counts: weighted squares of all values.
    """

    n_items: int
    rows: int = 0
    cells: int = 0
    weight: float = 0.0
    row_noise: float = 0.0
    squares: float = 0.0
    seeded: bool = False
    item_weight: Floats = field(init=False)
    item_sum: Floats = field(init=False)
    item_noise: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.item_weight, self.item_sum, self.item_noise = (np.zeros(self.n_items) for _ in range(3))

    def add(self, block: WeightedRows, plan: Plan) -> None:
        """Count one more block."""
        self.rows += int(np.count_nonzero(block.row_weights))
        self.cells += block.n_rows
        self.weight += float(block.row_weights.sum())
        self.seeded |= block.seeded
        if block.entry_weights is None:
            self._add_counts(block)
        else:
            self._add_ratings(block, plan)

    def _add_counts(self, block: WeightedRows) -> None:
        energy = block.row_weights * block.noise**2
        self.item_weight += block.row_weights.sum()
        self.item_sum += block.row_weights @ block.values
        self.squares += float(block.row_weights @ np.einsum("ij,ij->i", block.values, block.values))
        self.row_noise = max(self.row_noise, self.n_items * float(energy.max(initial=0.0)))
        self.item_noise += energy.sum()

    def _add_ratings(self, block: WeightedRows, plan: Plan) -> None:
        assert block.entry_weights is not None
        weights = used_weights(block)
        energy = entry_noise(block, plan)
        self.item_weight += weights.sum(axis=0)
        self.item_sum += (weights * block.values).sum(axis=0)
        self.row_noise = max(self.row_noise, float(energy.sum(axis=1).max(initial=0.0)))
        self.item_noise += energy.sum(axis=0)


def survey(blocks: Iterable[WeightedRows], plan: Plan) -> Survey:
    """Read every block once.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=2), feedback="counts", bound=1, max_items=1)
    >>> one = np.ones(1)
    >>> rows = WeightedRows(values=np.array([[1.0, 0.5]]), row_weights=4 * one, noise=one, sizes=9 * one, seeded=False)
    >>> found = survey([rows, rows], plan)
    >>> found.rows, found.weight, found.item_sum / found.item_weight, found.row_noise
    (2, 8.0, array([1. , 0.5]), 8.0)
    """
    found = Survey(n_items=plan.n_items)
    for block in blocks:
        found.add(block, plan)
    return found


def used_weights(block: WeightedRows) -> Floats:
    """Entry weights, without those of empty rows."""
    assert block.entry_weights is not None
    return np.where(block.row_weights[:, None] > 0, block.entry_weights, 0.0)


def entry_noise(block: WeightedRows, plan: Plan) -> Floats:
    """Noise variance of each rated entry times its weight.

    Notes
    -----
    `twofold.release.combine` gives an entry of O observations the weight E = O²/(O + q) with q = s²/V, where V is
    the largest variance of a rating and s² the noise of its sum plus the mean's share of that of its count. Backwards,
    O = (E + √(E² + 4Eq))/2. The mean of O has noise s/O, drawn in by O²/(O² + σ²) where few observed.
    """
    weights, public = used_weights(block), plan.parameters
    planned = plan.spec.noise
    of_sum = (block.noise * np.maximum(block.sizes, 1.0))[:, None] ** 2
    of_count = of_sum * (planned.observed / planned.values if planned.values else 0.0) ** 2
    variance = of_sum + of_count * (block.values - public.centre) ** 2
    q = variance / public.value_cap**2
    observed = (weights + np.sqrt(weights**2 + 4 * weights * q)) / 2
    drawn_in = observed**2 / np.maximum(observed**2 + of_count, 1e-300)
    return np.where(weights > 0, drawn_in**2 * variance / np.maximum(observed + q, 1e-300), 0.0)


def noise_edge(seen: Survey) -> float:
    r"""Size that noise alone reaches on average along the best non-negative direction, in weighted rows.

    Notes
    -----
    Let N be the noise of the weighted rows :math:`\sqrt{w_r}\,x_r`, independent, with variance :math:`s_r^2` in row r.
    By Chevet's inequality, for unit vectors u of rows and v of items,

    .. math:: E \max u^T N v \le \max_r s_r \; E|g| + \sqrt{\textstyle\sum_r s_r^2}

    with g a standard normal vector of m items, :math:`E|g| \le \sqrt m`: the σ(√n + √m) of random matrices where all s
    are equal. Our u and v are not negative, so only the positive halves of both vectors count, and both terms shrink
    by √2. Where the variance differs from entry to entry (ratings), largest row and column energies take their place,
    which is the leading term of the bound of Bandeira and van Handel (2016).

    Examples
    --------
    >>> seen = Survey(n_items=4, row_noise=4.0)
    >>> seen.item_noise += 9.0
    >>> round(noise_edge(seen) * 2**0.5, 6)
    5.0
    """
    return (math.sqrt(seen.row_noise) + math.sqrt(float(seen.item_noise.max(initial=0.0)))) / math.sqrt(2)


@dataclass(frozen=True, kw_only=True)
class Scaling:
    r"""How rows become a matrix Y (with weights for ratings) that is factorized under one penalty τ on both sides.

    Notes
    -----
    Counts: Y has rows :math:`\sqrt{w_r/\bar w}\,x_r`, so that a row counts as often as it can be trusted. For any
    factors, :math:`\tau(|U|^2 + |V|^2) \ge 2\tau\,|UV^T|_*`, equal at the best split: the penalty takes τ off every
    singular value of Y. With τ at least the noise edge, directions of noise alone stay below it on average, and of
    those that do not only the excess is left.

    Ratings: with E the weight of an entry, R and C its sums over rows and columns, a row of the sum form
    :math:`\sum E (x - uv)^2 + \lambda(\sum R|u|^2 + \sum C|v|^2)` is divided by R and C, which leaves the same
    penalty for all.

    Attributes
    ----------
    base, edge : float
        The plan's part of τ, and what the noise adds.
    unit : float
        What weights are divided by: their mean.
    items : array (items,) or None
        For ratings: root of the relative weight of each item.
    """

    base: float
    edge: float
    unit: float
    items: Floats | None

    @property
    def ridge(self) -> float:
        """Penalty of both sides."""
        return self.base + self.edge

    def rows(self, block: WeightedRows) -> tuple[Floats, Floats | None, Floats]:
        """Y, its weights (None: all 1), and what user factors are to be divided by."""
        if self.items is None:
            own = np.sqrt(block.row_weights / self.unit)
            return block.values * own[:, None], None, own
        weights = used_weights(block) / self.unit
        own = np.sqrt(weights.mean(axis=1))
        both = own[:, None] * self.items
        relative = np.divide(weights, both**2, out=np.zeros_like(weights), where=both > 0)
        return block.values * both, relative, own

    def item_factors(self, scaled: Floats) -> Floats:
        """V from the factors of Y."""
        if self.items is None:
            return scaled
        shares = np.where(self.items > 0, self.items, 1.0)
        return np.where(self.items[:, None] > 0, scaled / shares[:, None], 0.0)


def scaling(seen: Survey, plan: Plan) -> Scaling:
    """Decide units and penalty from the totals.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=4), feedback="counts", bound=1, max_items=1)
    >>> found = scaling(Survey(n_items=4, rows=2, weight=8.0), plan)
    >>> found.unit, found.ridge == plan.regularization
    (4.0, True)
    """
    if plan.feedback == "counts":
        unit = seen.weight / seen.rows if seen.rows else 1.0
        return Scaling(base=plan.regularization, edge=noise_edge(seen) / math.sqrt(unit), unit=unit, items=None)
    size = max(seen.rows, 1) * seen.n_items
    unit = float(seen.item_weight.sum()) / size or 1.0
    shares = np.sqrt(seen.item_weight / (unit * max(seen.rows, 1)))
    base = plan.regularization * math.sqrt(size)
    return Scaling(base=base, edge=noise_edge(seen) / math.sqrt(unit), unit=unit, items=shares)


def row_equations(
    Y: Floats, weights: Floats | None, V: Floats, square: Floats | None = None
) -> tuple[Floats, Floats, float]:
    """Gram matrices and right-hand sides of the rows of Y given V, and the weighted squares of Y.

    Parameters
    ----------
    Y, weights : arrays (rows, items)
        Values, and their weights unless all are 1.
    V : array (items, rank)
        Item factors.
    square : array (rank, rank), optional
        VᵀV, if it is known already.

    Returns
    -------
    gram : array (rank, rank) without weights, else (rows, rank, rank)
    given : array (rows, rank)
    squares : float

    Examples
    --------
    >>> gram, given, squares = row_equations(np.array([[3.0, 4.0]]), None, np.eye(2))
    >>> given, squares
    (array([[3., 4.]]), 25.0)
    """
    if weights is None:
        return V.T @ V if square is None else square, Y @ V, float(np.vdot(Y, Y))
    weighted, rank = weights * Y, V.shape[1]
    gram = np.zeros((len(Y), rank**2))
    for part in _chunks(len(V)):
        gram += weights[:, part] @ _outer(V[part])
    return gram.reshape(-1, rank, rank), weighted @ V, float(np.vdot(weighted, Y))


def add_item_equations(Y: Floats, weights: Floats | None, U: Floats, gram: Floats, given: Floats) -> None:
    """Add the contribution of some rows to `gram` and `given`, in place.

    Examples
    --------
    >>> gram, given = np.zeros((1, 1)), np.zeros((2, 1))
    >>> add_item_equations(np.array([[3.0, 4.0]]), None, np.array([[2.0]]), gram, given)
    >>> gram, given
    (array([[4.]]), array([[6.],
           [8.]]))
    """
    given += (Y if weights is None else weights * Y).T @ U
    if weights is None:
        gram += U.T @ U
        return
    pairs, rank = _outer(U), U.shape[1]
    for part in _chunks(len(given)):
        gram[part] += (weights[:, part].T @ pairs).reshape(-1, rank, rank)


def solve(gram: Floats, given: Floats, ridge: float, *, threads: int | None = None) -> Floats:
    """Minimise ``v.(gram + ridge) v - 2 given.v`` over v >= 0, for every row of `given`.

    Parameters
    ----------
    gram : array (rank, rank) or (rows, rank, rank)
        One for all rows, or one for each.
    given : array (rows, rank)
        In the range of `gram`.
    ridge : float
        Penalty.
    threads : int, optional
        All processors by default; the result does not depend on it.

    Notes
    -----
    With gram = RᵀR this is a least squares problem with items R and values R⁻ᵀ given: what `fold_in` solves exactly.

    Examples
    --------
    >>> solve(np.eye(2), np.array([[2.0, -1.0]]), 1.0)
    array([[1., 0.]])
    """
    if gram.ndim == 2:
        root, targets = _root(gram, given)
        return _fold(targets, root, ridge, threads)
    found = np.zeros_like(given)
    for part in _chunks(len(given)):
        root, targets = _root(gram[part], given[part])
        found[part] = _fold(_side_by_side(targets), root.reshape(-1, given.shape[1]), ridge, threads)
    return found


def _root(gram: Floats, given: Floats) -> tuple[Floats, Floats]:
    """R with RᵀR = gram, and R⁻ᵀ given; directions that `gram` does not have are left out."""
    values, vectors = np.linalg.eigh(gram)
    alive = values > 1e-14 * values.max(axis=-1, keepdims=True, initial=0.0)
    sizes = np.sqrt(np.where(alive, values, 0.0))
    along = given @ vectors if gram.ndim == 2 else np.matmul(given[:, None, :], vectors)[:, 0]
    targets = np.where(alive, along / np.where(alive, sizes, 1.0), 0.0)
    return sizes[..., :, None] * np.swapaxes(vectors, -1, -2), targets


def _fold(targets: Any, root: Floats, ridge: float, threads: int | None) -> Floats:
    found = fold_in(targets, root, regularization=ridge, count_scaling=0.0, dtype=np.float64, threads=threads)
    return np.asarray(found, dtype=np.float64)


def _side_by_side(targets: Floats) -> sp.csr_array:
    """Put the targets of row i into its own columns."""
    rows, rank = targets.shape
    return csr_rows(targets.ravel(), np.arange(rows * rank), np.arange(rows + 1) * rank, (rows, rows * rank))


def _outer(factors: Floats) -> Floats:
    return np.asarray((factors[:, :, None] * factors[:, None, :]).reshape(len(factors), -1))


def _chunks(length: int) -> Iterator[slice]:
    return (slice(first, first + _CHUNK) for first in range(0, length, _CHUNK))


@dataclass(kw_only=True)
class Look:
    """Result of one pass over all rows: the objective at V, and the normal equations of the next V.

    Parameters
    ----------
    V : array (items, rank)
        Item factors the rows are fitted to.
    ridge : float
        Penalty of both sides.
    per_item : bool
        Whether entries have weights, so that every item has a Gram matrix of its own.
    threads : int or None
        As everywhere.

    Examples
    --------
    >>> look = Look(V=np.ones((2, 1)), ridge=0.0, per_item=False, threads=1)
    >>> look.add(np.array([[1.0, 3.0]]), None)
    >>> round(look.objective, 9), look.next_items().ravel().round(3)
    (2.0, array([0.562, 1.687]))
    """

    V: Floats
    ridge: float
    per_item: bool
    threads: int | None
    objective: float = field(init=False)
    gram: Floats = field(init=False)
    given: Floats = field(init=False)
    energy: Floats = field(init=False)
    square: Floats | None = field(init=False)

    def __post_init__(self) -> None:
        items, rank = self.V.shape
        self.gram = np.zeros((items, rank, rank) if self.per_item else (rank, rank))
        self.given = np.zeros((items, rank))
        self.energy = np.zeros(rank)
        self.objective = self.ridge * float(np.vdot(self.V, self.V))
        self.square = None if self.per_item else self.V.T @ self.V

    def add(self, Y: Floats, weights: Floats | None) -> None:
        """Fit the rows of one block to V exactly, and add their contribution."""
        gram, given, squares = row_equations(Y, weights, self.V, self.square)
        U = self.fit(gram, given, squares)
        add_item_equations(Y, weights, U, self.gram, self.given)

    def fit(self, gram: Floats, given: Floats, squares: float) -> Floats:
        """Fit rows from their normal equations, and add up their residuals."""
        U = solve(gram, given, self.ridge, threads=self.threads)
        self.objective += squares - float(np.vdot(U, given))  # at the minimum the penalty is in it
        self.energy += np.einsum("ij,ij->j", U, U)
        return U

    def next_items(self) -> Floats:
        """Best non-negative V for these users, each factor scaled so that users and items share its size equally.

        The scaling leaves the products as they are and makes the penalty smaller. Solves in turn come to it, too, but
        only by about the penalty over the size of a pattern in each: without noise, in thousands of looks.
        """
        V = solve(self.gram, self.given, self.ridge, threads=self.threads)
        own = np.einsum("ij,ij->j", V, V)
        alive = (own > 0) & (self.energy > 0)
        V *= np.where(alive, self.energy / np.where(alive, own, 1.0), 1.0) ** 0.25
        return V


def descend(look: Callable[[Floats], Look], V: Floats, *, most: int, tolerance: float) -> tuple[Look, bool]:
    """Alternate until a pass changes the objective only slightly.

    Parameters
    ----------
    look : callable
        Fits all rows to given factors.
    V : array (items, rank)
        Where to begin.
    most : int
        Most steps; a step that was lengthened too far costs two looks.
    tolerance : float
        Relative change of the objective that ends it.

    Returns
    -------
    Look, bool
        The best look, and whether the objective settled before the steps were used up.

    Examples
    --------
    >>> def look(V):
    ...     found = Look(V=V, ridge=0.0, per_item=False, threads=1)
    ...     found.add(np.array([[1.0, 3.0]]), None)
    ...     return found
    >>> found, settled = descend(look, np.ones((2, 1)), most=5, tolerance=1e-9)
    >>> (found.V[1] / found.V[0]).round(6), settled
    (array([3.]), True)
    """
    best, before = look(V), None
    for number in range(1, most):
        tell("factorization", number - 1, most)
        plain = best.next_items()
        found = None
        if before is not None:
            momentum = min(LONGEST, (number - 1) / (number + 2))
            found = look(np.maximum(plain + momentum * (plain - before), 0.0))
        if found is None or found.objective >= best.objective:
            found = look(plain)
        before, gain = plain, best.objective - found.objective
        if gain > 0:
            best = found
        if gain <= tolerance * abs(best.objective):
            return best, True
    return best, False
