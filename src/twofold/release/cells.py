r"""Noise on the sums of records, cell by cell, with its event: the only place in this package where data leave.

Centres come from noisy sums and counts, knowing the noise. This is post-processing: it may use anything already
released. Three steps, each needed by a noisy k-means, none with a cost:

1. *mean*: S/n where the noisy count stands out from its noise; cells that do not are left out;
2. *shrink*: towards the mean of all, and that one towards its own average over the items, by the positive-part rule of
   James and Stein: of a distance d² of which the noise alone explains v, the part 1 - v/d² is kept. If all cells
   together are no farther than noise takes them by chance, nothing is kept, since of many cells some are always farther
   than v. Where noise explains everything, one common mean is left, or one number for all items;
3. *merge*: more cells than centres are put together by a weighted k-means with a public seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from twofold.algorithms.kmeans import kmeans
from twofold.privacy.budget import ZCDP, PureDP
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, Event, Released
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import Source
from twofold.release.clamp import held
from twofold.release.content import Floats, Noise, Prototypes, Units
from twofold.release.contract import ArraySpec, ReleaseParameters, ReleaseSpec
from twofold.release.records import RecordPlan, Statistic, public_points
from twofold.release.usefulness import Usefulness, prototype_usefulness

__all__ = [
    "CellNoise",
    "cells_usefulness",
    "centres",
    "laplace_deviation",
    "padded",
    "prototype_spec",
    "shrunk_means",
    "spec_usefulness",
]


@dataclass(frozen=True, kw_only=True)
class CellNoise:
    """Noise for a number of cells; every user is in exactly one.

    Parameters
    ----------
    public : ReleaseParameters
        The release.
    budget : PureDP or ZCDP
        Budget of this noise: that of the whole release, or a part of it.
    cells : int
        Number of cells.
    observed : bool, optional
        Whether observation counts are released; by default for ratings.

    Privacy
    -------
    A user's record is in one cell, chosen by that user's own row and by public or released numbers. The
    whole table of cells is one vector, and adding or removing a user moves it by that record: l1 norm (squared l2
    norm) at most `RecordPlan.sensitivity`. So one event with that sensitivity covers all cells.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=9, n_users=9, max_items=4, bound=1, epsilon=1)
    >>> noise = CellNoise(public=public, budget=public.budget, cells=2)
    >>> noise.event().coordinates
    20
    """

    public: ReleaseParameters
    budget: PureDP | ZCDP
    cells: int
    observed: bool | None = None

    @property
    def plan(self) -> RecordPlan:
        """The form of the records."""
        return RecordPlan.of(self.public, observed=self.observed)

    @property
    def mechanism(self) -> DiscreteLaplace | DiscreteGaussian:
        """The mechanism that draws the noise."""
        plan = self.plan
        if isinstance(self.budget, PureDP):
            return DiscreteLaplace(
                epsilon=self.budget.epsilon, sensitivity=plan.sensitivity, unit=self.public.unit, grid=plan.grid
            )
        return DiscreteGaussian(
            rho=self.budget.rho, sensitivity_squared=plan.sensitivity, unit=self.public.unit, grid=plan.grid
        )

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in grid units; that of the continuous law, an upper bound for Gaussians."""
        mechanism = self.mechanism
        if isinstance(mechanism, DiscreteGaussian):
            return math.sqrt(mechanism.variance)
        return laplace_deviation(float(mechanism.scale))

    @property
    def noise(self) -> Noise:
        """Noise of each part in its own unit."""
        units, deviation = self.plan.units, self.deviation
        return Noise(
            law=self.public.law,
            values=deviation * units.values,
            observed=deviation * units.observed if self.plan.observed_weight else 0.0,
            counts=deviation * units.counts,
        )

    def spec(self, *, mechanism: str, stacks: bool, event: Event | None = None, note: str = "") -> ReleaseSpec:
        """State a release that ends with this noise; with several steps, give the events of all."""
        public, units = self.public, self.plan.units
        return prototype_spec(
            public,
            mechanism=mechanism,
            rows=self.cells,
            units=units,
            noise=self.noise,
            event=self.event() if event is None else event,
            stacks=stacks,
            note=note,
        )

    def event(self, *, seeded: bool = False) -> DiscreteLaplaceEvent | DiscreteGaussianEvent:
        """Describe the release before it is made; marked if its noise comes from a seed."""
        tables = 2 if self.plan.observed_weight else 1
        return self.mechanism.event(self.cells * (tables * self.public.n_items + 1), seeded=seeded)

    def release(self, exact: Statistic, *, name: str, rng: Source, note: str = "") -> Released[Prototypes]:
        """Add noise to exact sums and counts, which are held to `LARGEST_NUMBER` before and after."""
        parts = [exact.sums, exact.counts] + ([] if exact.observed is None else [exact.observed])
        drawn = self.mechanism.release(held(np.concatenate([part.ravel() for part in parts])), rng=rng)
        edges = np.cumsum([part.size for part in parts])[:-1]
        noisy = [one.reshape(part.shape) for one, part in zip(np.split(held(drawn.value), edges), parts, strict=True)]
        message = Prototypes(
            mechanism=name,
            sums=noisy[0],
            counts=noisy[1],
            observed=noisy[2] if len(noisy) > 2 else None,
            units=self.plan.units,
            noise=self.noise,
            seeded=rng.seeded,
            note=note,
        )
        return Released(value=message, event=drawn.event)


def prototype_spec(
    public: ReleaseParameters,
    *,
    mechanism: str,
    rows: int | None,
    units: Units,
    noise: Noise,
    event: Event,
    stacks: bool,
    note: str = "",
) -> ReleaseSpec:
    """State a release of prototypes: sums, counts and, for ratings, observation counts.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=9, n_users=9, max_items=4, bound=1, epsilon=1)
    >>> spec = CellNoise(public=public, budget=public.budget, cells=2).spec(mechanism="buckets", stacks=False)
    >>> [(one.name, one.shape) for one in spec.arrays], spec.numbers
    ([('sums', (2, 9)), ('counts', (2,))], 20)
    """
    rated, items = public.feedback == "ratings", public.n_items
    arrays = [ArraySpec(name="sums", shape=(rows, items)), ArraySpec(name="counts", shape=(rows,))]
    size = rows or public.n_prototypes
    sums = "noisy sums of centred ratings, noisy numbers of ratings" if rated else "noisy sums of counts"
    return ReleaseSpec(
        mechanism=mechanism,
        what=f"{size} prototype{'s' * (size != 1)} over {items:,} items: {sums} and a noisy number of users each",
        private=noise.law != "none",
        arrays=(*arrays, ArraySpec(name="observed", shape=(rows, items))) if rated else tuple(arrays),
        most_rows=rows or max(1, min(_MOST_ROWS, _MOST_BYTES // (8 * (2 * items + 1)))),
        units=units,
        noise=noise,
        event=event,
        stacks=stacks,
        note=note,
    )


def spec_usefulness(spec: ReleaseSpec, public: ReleaseParameters) -> Usefulness:
    """Judge a release of prototypes by what its spec states."""
    rows = spec.rows or public.n_prototypes
    return prototype_usefulness(public, noise=spec.noise.values, rows=rows, stacks=spec.stacks)


def cells_usefulness(public: ReleaseParameters) -> Usefulness:
    """Judge the plan's number of prototypes, with the whole budget on their sums and counts."""
    noise = CellNoise(public=public, budget=public.budget, cells=public.n_prototypes)
    return prototype_usefulness(public, noise=noise.noise.values, rows=public.n_prototypes, stacks=True)


def laplace_deviation(scale: float) -> float:
    """Standard deviation of discrete Laplace noise of a scale, in grid units.

    Examples
    --------
    >>> round(laplace_deviation(100.0), 1), laplace_deviation(0.001) < 1e-200
    (141.4, True)
    """
    inverse = min(1 / scale, 1400.0)
    return math.sqrt(2) * math.exp(-inverse / 2) / -math.expm1(-inverse)


#: Prototypes of a message whose number private data decide ("exact": one per user), and its bytes; simulations only.
_MOST_ROWS: Final = 1_000_000
_MOST_BYTES: Final = 4 * 2**30
# A cell counts as occupied when its noisy count exceeds this many standard deviations of the count's noise.
_STANDS_OUT = 3.0
_STARTS = 10
#: How far the squared lengths of noise may lie above their mean by chance, in deviations: the square of a Laplace
#: variable of variance 1 has a variance of 5, of a Gaussian one 2.
_LUCK: Final = 3.0
_KURTOSIS: Final = 5.0


def shrunk_means(message: Prototypes, public: ReleaseParameters) -> tuple[Floats, Floats]:
    """Shrunk mean and size of every cell that stands out; at least one, the mean of all.

    Returns
    -------
    means : array of shape (cells kept, items)
        Within the l2 ball of the bounded rows.
    sizes : array of shape (cells kept,)
        Noisy numbers of users.

    Examples
    --------
    >>> from twofold.release.buckets import Popularity
    >>> public = ReleaseParameters(n_items=2, n_users=2, max_items=2, bound=1, epsilon=10**6)
    >>> shrunk_means(Popularity().release(np.array([[1, 0], [1, 1]]), public).value, public)[0].round(2)
    array([[1. , 0.5]])
    """
    sums, sizes, noise = message.value_sums(), message.user_counts(), message.noise
    kept = sizes > max(0.5, _STANDS_OUT * noise.counts)
    total = max(float(sizes[kept].sum() if kept.any() else sizes.sum()), 1.0, noise.counts)
    common = (sums[kept] if kept.any() else sums).sum(axis=0) / total
    level = common.mean()
    energy = public.n_items * noise.values**2
    among = int(kept.sum()) if kept.any() else len(sizes)
    middle = level + _shrunk(common[None] - level, np.array([among * energy / total**2]))
    if not kept.any():
        return _in_ball(middle, public), np.array([total])
    away = sums[kept] / sizes[kept][:, None] - common
    return _in_ball(middle + _shrunk(away, energy / sizes[kept] ** 2), public), sizes[kept]


def _shrunk(away: Floats, explained: Floats) -> Floats:
    """Shorten rows by the rule of James and Stein; to nothing where noise explains them, together and one by one."""
    cells, items = away.shape
    distances = (away**2).sum(axis=1)
    beyond = np.full(cells, np.inf)  # without noise, nothing is explained
    np.divide(distances, explained, out=beyond, where=explained > 1e-300 * np.maximum(distances, 1.0))
    together = beyond.mean() > 1 + _LUCK * math.sqrt(_KURTOSIS / away.size)
    # one of many has as many chances to be far away
    far = beyond > 1 + (_LUCK + math.sqrt(2 * math.log(cells))) * math.sqrt(_KURTOSIS / items)
    kept = np.maximum(0.0, 1.0 - 1.0 / np.maximum(beyond, 1e-300)) * (far | together)
    return np.asarray(away * kept[:, None])


def centres(message: Prototypes, public: ReleaseParameters, *, count: int | None = None) -> Floats:
    """At most `count` centres (by default the plan's number of prototypes) for the users of one message.

    Examples
    --------
    >>> from twofold.release.buckets import Popularity
    >>> public = ReleaseParameters(n_items=2, n_users=4, max_items=2, bound=9, epsilon=10**6)
    >>> message = Popularity().release(np.array([[1, 0], [1, 2], [9, 0], [9, 2]]), public, rng=0).value
    >>> centres(message, public, count=1).round(2)
    array([[5., 1.]])
    """
    most = public.n_prototypes if count is None else count
    means, sizes = shrunk_means(message, public)
    if len(means) <= most:
        return means
    merged = kmeans(means, most, weights=sizes, n_init=_STARTS, dtype=np.float64, threads=1, rng=public.seed)
    return np.asarray(merged.centers, dtype=np.float64)


def padded(points: Floats, public: ReleaseParameters, *, count: int) -> Floats:
    """Fill up to `count` centres with public points around the mean of those there are.

    Examples
    --------
    >>> padded(np.zeros((1, 3)), ReleaseParameters(n_items=3, n_users=9, max_items=3, bound=1), count=4).shape
    (4, 3)
    """
    missing = count - len(points)
    if missing <= 0:
        return points
    extra = public_points(count=missing, n_items=public.n_items, seed=public.seed, radius=public.row_l2 / 2)
    return np.concatenate([points, points.mean(axis=0) + extra])


def _in_ball(points: Floats, public: ReleaseParameters) -> Floats:
    norms = np.sqrt((points**2).sum(axis=1, keepdims=True))
    return np.asarray(points * np.minimum(1.0, public.row_l2 / np.maximum(norms, 1e-300)))
