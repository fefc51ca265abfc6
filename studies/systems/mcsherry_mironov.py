"""Private item means and covariance, and predictions from them: McSherry and Mironov 2009."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.exchange import Release, entity_seed
from studies.systems.factorization import rows_bytes
from twofold.algorithms.fold_in import FoldIn
from twofold.csr import with_data
from twofold.data.federation import Federation
from twofold.entity.agent import bounded
from twofold.federation.plan import Plan
from twofold.privacy.budget import ZCDP, PureDP, exact
from twofold.privacy.events import Event, Released, SequentialEvent
from twofold.privacy.grid import Grid, Integers, cap_l1, cap_l2
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import Seeded, Source
from twofold.privacy.unit import Unit
from twofold.release.cells import CellNoise, laplace_deviation
from twofold.release.combine import added_up
from twofold.release.content import WeightedRows
from twofold.release.contract import check_rows
from twofold.release.records import statistic

__all__ = ["Covariance", "Directions", "McSherryMironov", "PairSums", "covariance_score", "leading"]

Floats = NDArray[Any]
_BITS = 10  # a whole vector's norm is about 2^10 steps, so that products of a billion people stay below 2^61


@dataclass(frozen=True, kw_only=True)
class PairSums:
    r"""One release of the upper triangle of Σ y yᵀ: sums of products of items over people, with exact noise.

    Privacy
    -------
    A person's vector y is put on a grid and capped in whole numbers: \|y\|_1 ≤ A and \|y\|_2² ≤ B. Adding or removing
    the person moves the upper triangle of Σ y yᵀ by exactly the products y_i y_j, i ≤ j, in integers. Their l1 norm is
    (\|y\|_1² + \|y\|_2²)/2 ≤ (A² + B)/2, and their squared l2 norm Σ_{i≤j} y_i² y_j² ≤ (Σ y_i²)² ≤ B². A vector is
    made of the person's own row and of numbers that are public or were released before.

    Parameters
    ----------
    l1, l2 : float
        Public caps on the norms of a person's vector.
    budget : PureDP or ZCDP
        What it may spend: Laplace or Gaussian noise.
    unit : Unit
        Whose presence is hidden.

    Examples
    --------
    >>> sums = PairSums(l1=2.0, l2=1.0, budget=PureDP(epsilon=1), unit=Unit.person())
    >>> sums.mechanism.sensitivity, sums.grid.step
    (Fraction(655360, 1), Fraction(1, 512))
    """

    l1: float
    l2: float
    budget: PureDP | ZCDP
    unit: Unit

    @property
    def grid(self) -> Grid:
        """Grid of the vectors; products are on its square."""
        return Grid(exponent=math.frexp(self.l2)[1] - _BITS)

    @property
    def _limits(self) -> tuple[int, int]:
        """A and B of the class docstring, in grid units."""
        step = self.grid.step
        return max(1, math.floor(exact(self.l1) / step)), max(1, math.floor((exact(self.l2) / step) ** 2))

    @property
    def mechanism(self) -> DiscreteLaplace | DiscreteGaussian:
        """The mechanism that draws the noise."""
        most, square = self._limits
        grid = Grid(exponent=2 * self.grid.exponent)
        if isinstance(self.budget, PureDP):
            return DiscreteLaplace(
                epsilon=self.budget.epsilon, sensitivity=(most**2 + square) // 2, unit=self.unit, grid=grid
            )
        return DiscreteGaussian(rho=self.budget.rho, sensitivity_squared=square**2, unit=self.unit, grid=grid)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of one product, in the units of the products."""
        mechanism = self.mechanism
        if isinstance(mechanism, DiscreteGaussian):
            return math.sqrt(mechanism.variance) * float(mechanism.grid.step)
        return laplace_deviation(float(mechanism.scale)) * float(mechanism.grid.step)

    def exact(self, vectors: sparse.csr_array) -> Integers:
        """Upper triangle of the sums of products, in whole numbers. Private until noise is added."""
        most, square = self._limits
        starts = vectors.indptr.astype(np.int64)
        capped = cap_l1(self.grid.put(vectors.data), starts, limit=most)
        capped = cap_l2(capped, starts, limit_squared=square)
        whole = sparse.csr_array((capped, vectors.indices, vectors.indptr), shape=vectors.shape)
        products = (whole.T @ whole).toarray()
        return np.asarray(products[np.triu_indices(vectors.shape[1])], dtype=np.int64)

    def release(self, vectors: sparse.csr_array, *, rng: Source) -> Released[Integers]:
        """Add noise to the sums of the people in `vectors` (people, items)."""
        return self.mechanism.release(self.exact(vectors), rng=rng)

    def matrix(self, triangle: Integers, n_items: int) -> NDArray[np.float64]:
        """Whole symmetric matrix in the units of the products.

        Examples
        --------
        >>> sums = PairSums(l1=2.0, l2=1.0, budget=PureDP(epsilon=1), unit=Unit.person())
        >>> sums.matrix(np.array([1, 2, 3]) << 18, 2).tolist()
        [[1.0, 2.0], [2.0, 3.0]]
        """
        full = np.zeros((n_items, n_items))
        full[np.triu_indices(n_items)] = triangle * float(self.mechanism.grid.step)
        return np.asarray(full + np.triu(full, 1).T)


_PAIR_DAMPING = 0.5  # weight of pairs with no surprise; a pair rated by one person of 100 ratings weighs 1/100
_LEAST = 1e-3  # residual variance never below this share of the mean variance


@dataclass(frozen=True, kw_only=True, eq=False)
class Covariance:
    """A noisy symmetric matrix and the largest eigenvalue that its noise alone could have."""

    matrix: Floats
    edge: float

    @classmethod
    def of_counts(cls, products: Floats, deviation: float, means: Floats, users: float) -> Covariance:
        """Σ x xᵀ/n less the product of the means.

        Examples
        --------
        >>> rows = np.array([[2.0, 0.0], [0.0, 2.0]])
        >>> Covariance.of_counts(rows.T @ rows, 0.0, rows.mean(axis=0), 2.0).matrix.tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        edge = 2 * deviation / users * np.sqrt(len(products))  # norm of a symmetric matrix of independent noise
        return cls(matrix=products / users - np.outer(means, means), edge=float(edge))

    @classmethod
    def of_ratings(cls, products: Floats, pairs: Floats, deviations: tuple[float, float]) -> Covariance:
        """Sum of products over weight of pairs, pulled to zero where data are few or only noise."""
        weight = np.maximum(pairs, 0.0)
        share = weight / np.maximum(weight**2 + deviations[1] ** 2 + _PAIR_DAMPING * weight, 1e-300)
        spread = np.sqrt(((deviations[0] * share) ** 2).sum(axis=1).max(initial=0.0))
        return cls(matrix=products * share, edge=float(2 * spread))


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """Leading eigenvectors, each times the root of its variance, and the variance that is left per item."""

    vectors: Floats
    rest: float


def leading(covariance: Covariance, rank: int) -> Directions:
    """Keep at most `rank` eigenvalues above the noise edge, and take off them what the noise has added.

    Examples
    --------
    >>> found = leading(Covariance(matrix=np.diag([9.0, 1.0, 0.5]), edge=2.0), 2)
    >>> np.abs(found.vectors).round(3).ravel()
    array([2.962, 0.   , 0.   ], dtype=float32)
    """
    size = len(covariance.matrix)
    span = (max(0, size - rank), size - 1)
    values, vectors = linalg.eigh(covariance.matrix, subset_by_index=span)
    above = values > max(covariance.edge, 0.0)
    clean = np.sqrt(values[above] ** 2 - covariance.edge**2)
    total = max(float(np.trace(covariance.matrix)), 0.0)
    rest = max((total - clean.sum()) / size, _LEAST * max(total, 1e-12) / size)
    return Directions(vectors=(vectors[:, above] * np.sqrt(clean)).astype(np.float32), rest=float(rest))


def covariance_score(
    means: Floats, kept: NDArray[np.intp], found: Directions, *, feedback: Feedback, damping: float
) -> Score:
    """Predict means plus what a person's own residuals say, by ridge regression on the directions.

    Parameters
    ----------
    means : array (items,)
        Of all items.
    kept : int array
        Columns that the directions are about.
    found : Directions
        What was learned.
    feedback, damping
        For ratings only observed items speak, and a person has a damped offset.

    Examples
    --------
    >>> found = Directions(vectors=np.ones((2, 1), np.float32), rest=1e-9)
    >>> score = covariance_score(np.zeros(3), np.array([0, 2]), found, feedback="ratings", damping=1e9)
    >>> score(sparse.csr_array(np.array([[4.0, 0.0, 0.0]]))).round(3).tolist()
    [[4.0, 0.0, 4.0]]
    """
    base = np.asarray(means, dtype=np.float64)
    if feedback == "counts":
        return lambda rows: _of_counts(rows, base, kept, found)
    ready = None
    if found.vectors.shape[1]:
        ready = FoldIn(
            found.vectors, feedback="ratings", regularization=found.rest, count_scaling=0.0, nonnegative=False
        )
    return lambda rows: _of_ratings(rows, base, kept, found, ready, damping)


def _of_counts(rows: sparse.csr_array, means: Floats, kept: NDArray[np.intp], found: Directions) -> Floats:
    """Means plus E d/(d + rest) Eᵀ of the centred row, written with factors F = E√d."""
    scores = np.tile(means, (rows.shape[0], 1))
    F = found.vectors.astype(np.float64)
    centred = np.asarray(rows[:, kept] @ F) - means[kept] @ F
    scores[:, kept] += centred @ np.diag(1 / ((F**2).sum(axis=0) + found.rest)) @ F.T
    return scores


def _of_ratings(
    rows: sparse.csr_array,
    means: Floats,
    kept: NDArray[np.intp],
    found: Directions,
    ready: FoldIn | None,
    damping: float,
) -> Floats:
    lengths = np.diff(rows.indptr)
    owners = np.repeat(np.arange(lengths.size), lengths)
    above = rows.data.astype(np.float64) - means[rows.indices]
    offsets = np.bincount(owners, weights=above, minlength=lengths.size) / (lengths + damping)
    scores = means + offsets[:, None]
    if ready is None or not rows.shape[0]:
        return np.asarray(scores)
    parts: Any = ((above - offsets[owners]).astype(np.float32), rows.indices, rows.indptr)
    own = sparse.csr_array(sparse.csr_array(parts, shape=rows.shape)[:, kept])
    scores[:, kept] += ready.rows(own) @ found.vectors.T
    return np.asarray(scores)


_SHARES = {"counts": {"means": 1, "products": 3}, "ratings": {"means": 1, "products": 2, "pairs": 1}}


@dataclass(frozen=True, kw_only=True)
class McSherryMironov:
    """Noisy item means, then noisy covariance of the most common items; users are predicted by ridge regression.

    Parameters
    ----------
    release : Release
        ε, δ and bounds; its mechanism is not used.
    rank : int
        Most directions of the covariance that are kept; fewer if noise hides them.
    items : int
        How many items have a covariance, chosen by the released means; the others are predicted at their means.
    clamp : float
        For ratings: largest residual of a rating.
    damping : float
        For ratings: with how many ratings of no surprise a user's own mean is averaged.
    curator : bool
        True sends raw rows to a curator who adds the noise once, as in the original. That curator must be trusted, so
        it is not called private here.

    Paper
    -----
    McSherry and Mironov 2009, "Differentially Private Recommender Systems", named in section 3 as needing the raw data
    in one place.

    Privacy
    -------
    Two or three releases per entity in sequence (`SequentialEvent`), whose prices add up to the budget exactly: item
    sums and counts (`CellNoise`), then for the chosen items products of residuals and, for ratings, of observations
    (`PairSums`). Unit: a person with their whole row. Chosen items, residuals and offsets come from the person's own
    row and from what was released before.

    Deviations
    ----------
    The unit is a person, not one rating. Noise is added at every entity. Noise is discrete and exact. The original's
    nearest neighbours and SVD of the cleaned covariance are here the leading eigenvectors above the noise edge, with
    users fitted by ridge regression. Counts, which the original does not treat, have the covariance of whole rows.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> system = McSherryMironov(release=Release(epsilon=2, max_items=20), items=10, rank=2)
    >>> fitted = system.fit(hospitals.load(0.001), feedback="counts", seed=0)
    >>> fitted.rounds, fitted.epsilon, fitted.bytes_up == 8 * (457 + 1 + 55)
    (4, 2.0, True)
    """

    release: Release = field(default_factory=lambda: Release(mechanism="popularity"))
    rank: int = 20
    items: int = 500
    clamp: float = 2.0
    damping: float = 5.0
    curator: bool = False

    @property
    def name(self) -> str:
        """Name in tables."""
        return "McSherry-Mironov" + (", trusted curator" if self.curator else "")

    @property
    def private(self) -> bool:
        """Yes, unless raw rows go to a curator."""
        return not self.curator

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Release means, choose items, release products, predict."""
        entities = read_as(train, feedback, seed)
        plan = Release(**{**vars(self.release), "mechanism": "popularity"}).plan(entities, feedback=feedback, rank=1)
        holders = {"everybody": entities.pooled()} if self.curator else dict(entities)
        rows = {label: bounded(one, plan).matrix for label, one in holders.items()}
        noise = {label: Seeded(entity_seed(seed, label)) for label in rows}
        means, first = self._means(rows, plan, noise)
        kept = _common(means, min(self.items, plan.n_items))
        found, later = self._covariance(rows, plan, noise, means, kept)
        factors = leading(found, self.rank)
        score = covariance_score(means.values[0], kept, factors, feedback=feedback, damping=self.damping)
        event = SequentialEvent.of(first, *later)
        return Fitted(
            scorers=dict.fromkeys(entities, score),
            traffic=self._traffic(entities, first, later, kept.size, factors.vectors.size),
            promise=None if self.curator else plan.budget,
            event=event,
            note=f"{factors.vectors.shape[1]} directions above the noise, {kept.size} items"
            + ("; a curator sees raw rows" if self.curator else ""),
        )

    def _means(
        self, rows: dict[Any, sparse.csr_array], plan: Plan, noise: dict[Any, Seeded]
    ) -> tuple[WeightedRows, Event]:
        public = plan.parameters
        cells = CellNoise(public=public, budget=self._part(plan, "means"), cells=1)
        released = []
        for label, matrix in rows.items():
            everybody = statistic(
                check_rows(matrix, public), public, cells.plan, lambda block: np.zeros(block.n_users, np.int64), cells=1
            )
            released.append(cells.release(everybody, name="means", rng=noise[label]))
        return added_up([one.value for one in released], public), released[0].event

    def _covariance(
        self, rows: dict[Any, sparse.csr_array], plan: Plan, noise: dict[Any, Seeded], means: WeightedRows, kept: Floats
    ) -> tuple[Covariance, list[Event]]:
        ratings = plan.feedback == "ratings"
        size = min(plan.max_items, kept.size)
        # a person's vector is divided by the root of its length for ratings, so that its square norm is a mean square
        top = self.clamp if ratings else plan.parameters.row_l2
        wide = self.clamp * size**0.5 if ratings else min(plan.parameters.row_l1, plan.bound * size)
        products = PairSums(l1=wide, l2=top, budget=self._part(plan, "products"), unit=plan.unit)
        vectors = {label: self._residuals(one, means.values[0], kept, ratings) for label, one in rows.items()}
        sums, events = _total(products, vectors, noise)
        if not ratings:
            users = max(float(means.sizes[0]), 1.0)
            return Covariance.of_counts(
                sums, products.deviation * len(rows) ** 0.5, means.values[0][kept], users
            ), events
        pairs = PairSums(l1=size**0.5, l2=1.0, budget=self._part(plan, "pairs"), unit=plan.unit)
        counted, more = _total(pairs, {label: _evened(one) for label, one in vectors.items()}, noise)
        errors = products.deviation * len(rows) ** 0.5, pairs.deviation * len(rows) ** 0.5
        return Covariance.of_ratings(sums, counted, errors), events + more

    def _residuals(self, rows: sparse.csr_array, means: Floats, kept: Floats, ratings: bool) -> sparse.csr_array:
        """A person's values less the released means and their own damped mean, clamped; counts unchanged."""
        own = sparse.csr_array(rows[:, kept])
        own.sort_indices()
        if not ratings:
            return own.astype(np.float64)
        lengths = np.diff(own.indptr)
        above = own.data.astype(np.float64) - means[kept][own.indices]
        owners = np.repeat(np.arange(lengths.size), lengths)
        offsets = np.bincount(owners, weights=above, minlength=lengths.size) / (lengths + self.damping)
        values = np.clip(above - offsets[owners], -self.clamp, self.clamp) / np.sqrt(lengths[owners])
        return with_data(own, values)

    def _part(self, plan: Plan, name: str) -> Any:
        return plan.parameters.budget.split(**_SHARES[plan.feedback])[name]

    def _traffic(self, entities: Federation, first: Event, later: list[Event], kept: int, numbers: int) -> Traffic:
        """Whole numbers as int64 up; means, chosen columns, factors and one variance down as 4 bytes each."""
        down = 4 * (len(entities.catalog) + kept + numbers + 1)
        if self.curator:
            up = sum(rows_bytes(one.matrix) for one in entities.values())
            return Traffic(rounds=2, bytes_up=up, bytes_down=len(entities) * down)
        sent = 8 * sum(one.coordinates for one in (first, *later))  # type: ignore[attr-defined]
        return Traffic(rounds=4, bytes_up=len(entities) * sent, bytes_down=len(entities) * down)


def _common(means: WeightedRows, count: int) -> NDArray[np.intp]:
    """Columns of the best-known items, from released numbers: most ratings, or largest mean count."""
    known = means.values[0] if means.entry_weights is None else means.entry_weights[0]
    return np.sort(np.argsort(-known, kind="stable")[:count])


def _evened(vectors: sparse.csr_array) -> sparse.csr_array:
    """One over the root of the length at every entry of a person."""
    lengths = np.diff(vectors.indptr)
    return with_data(vectors, 1 / np.sqrt(np.repeat(lengths, lengths)))


def _total(
    sums: PairSums, vectors: dict[Any, sparse.csr_array], noise: dict[Any, Seeded]
) -> tuple[NDArray[np.float64], list[Event]]:
    """Add the entities' releases up; one event, the same at every entity."""
    released = [sums.release(one, rng=noise[label]) for label, one in vectors.items()]
    n_items = next(iter(vectors.values())).shape[1]
    return sums.matrix(np.sum([one.value for one in released], axis=0), n_items), [released[0].event]
