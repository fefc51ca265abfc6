"""Noise on the sums of records, cell by cell, with its event: the one place of this package where anything leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from twofold.privacy.budget import ZCDP, PureDP
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteLaplaceEvent
from twofold.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from twofold.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from twofold.privacy.mechanisms.released import Released
from twofold.privacy.rng import Source
from twofold.prototypes.base import Public
from twofold.prototypes.message import Noise, Prototypes
from twofold.prototypes.records import RecordPlan, Statistic

__all__ = ["CellNoise", "laplace_deviation"]


@dataclass(frozen=True, kw_only=True)
class CellNoise:
    """Noise for a number of cells that every user is in exactly one of.

    Parameters
    ----------
    public : Public
        The release.
    budget : PureDP or ZCDP
        What this noise may spend: all of the release, or a part of it.
    cells : int
        How many cells.
    observed : bool, optional
        Whether observation counts are released; by default for ratings.

    Privacy
    -------
    A user's record is in one cell, chosen by that user's own row and by what is public or was released before. The
    whole table of cells is one vector, and adding or removing a user moves it by that record: l1 norm (squared l2
    norm) at most `RecordPlan.sensitivity`. So one event with that sensitivity covers all cells.

    Examples
    --------
    >>> public = Public(n_items=9, n_users=9, max_items=4, bound=1, epsilon=1)
    >>> noise = CellNoise(public=public, budget=public.budget, cells=2)
    >>> noise.event().coordinates
    20
    """

    public: Public
    budget: PureDP | ZCDP
    cells: int
    observed: bool | None = None

    @property
    def plan(self) -> RecordPlan:
        """How records are made."""
        return RecordPlan.of(self.public, observed=self.observed)

    @property
    def mechanism(self) -> DiscreteLaplace | DiscreteGaussian:
        """What draws the noise."""
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

    def event(self, *, seeded: bool = False) -> DiscreteLaplaceEvent | DiscreteGaussianEvent:
        """Describe the release before it is made; marked when its noise will come from a seed."""
        tables = 2 if self.plan.observed_weight else 1
        return self.mechanism.event(self.cells * (tables * self.public.n_items + 1), seeded=seeded)

    def release(self, exact: Statistic, *, name: str, rng: Source, note: str = "") -> Released[Prototypes]:
        """Add noise to exact sums and counts."""
        parts = [exact.sums, exact.counts] + ([] if exact.observed is None else [exact.observed])
        drawn = self.mechanism.release(np.concatenate([part.ravel() for part in parts]), rng=rng)
        edges = np.cumsum([part.size for part in parts])[:-1]
        noisy = [one.reshape(part.shape) for one, part in zip(np.split(drawn.value, edges), parts, strict=True)]
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


def laplace_deviation(scale: float) -> float:
    """Standard deviation of discrete Laplace noise of a scale, in grid units.

    Examples
    --------
    >>> round(laplace_deviation(100.0), 1), laplace_deviation(0.001) < 1e-200
    (141.4, True)
    """
    inverse = min(1 / scale, 1400.0)
    return math.sqrt(2) * math.exp(-inverse / 2) / -math.expm1(-inverse)
