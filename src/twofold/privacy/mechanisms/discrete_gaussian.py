"""Discrete Gaussian noise on integers: zero-concentrated differential privacy (Canonne, Kamath, Steinke
2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from numpy.typing import ArrayLike

from twofold.privacy.budget import ZCDP, ApproxDP, Number, positive
from twofold.privacy.events import DiscreteGaussianEvent
from twofold.privacy.grid import Grid, Integers, whole
from twofold.privacy.mechanisms.released import Released
from twofold.privacy.mechanisms.symmetric import SymmetricNoise
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["DiscreteGaussian"]


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """Integer values plus independent noise with P(k) ∝ exp(-k²/(2σ²)), σ² = sensitivity_squared/(2ρ).

    Parameters
    ----------
    rho : number
        The price of one release in zCDP, above 0. `within` finds it from (ε, δ).
    sensitivity_squared : number
        How far one unit can move the values in squared l2 distance, in grid units
        (`Grid.sensitivity_l2_squared`). Public.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        What the integers are worth.

    Privacy
    -------
    Canonne, Kamath and Steinke 2020, theorem 4 with proposition 5: the Rényi divergence of order α between
    discrete Gaussians centred on integers at squared distance Δ² is at most α·Δ²/(2σ²), as in the continuous
    case; coordinates are independent and add. Hence ρ-zCDP for integer data of any dimension. The tighter
    (ε, δ) curve of the continuous Gaussian is *not* claimed: it is not proven for the discrete one.

    Examples
    --------
    >>> gauss = DiscreteGaussian.within(
    ...     ApproxDP(epsilon=1, delta=1e-6), sensitivity_squared=100, unit=Unit.person()
    ... )
    >>> round(float(gauss.variance) ** 0.5 / 10, 2)
    4.53
    """

    rho: Fraction
    sensitivity_squared: Fraction
    unit: Unit
    grid: Grid

    def __init__(self, *, rho: Number, sensitivity_squared: Number, unit: Unit, grid: Grid | None = None) -> None:
        object.__setattr__(self, "rho", positive(rho, name="rho"))
        object.__setattr__(self, "sensitivity_squared", positive(sensitivity_squared, name="sensitivity_squared"))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "grid", grid or Grid())
        self._noise()  # a scale no sampler can honour is refused here, before anything is drawn

    @classmethod
    def within(
        cls, budget: ApproxDP, *, sensitivity_squared: Number, unit: Unit, grid: Grid | None = None
    ) -> DiscreteGaussian:
        """Least noise whose one release stays within an (ε, δ) budget.

        Examples
        --------
        >>> budget = ApproxDP(epsilon=1, delta=1e-6)
        >>> gauss = DiscreteGaussian.within(budget, sensitivity_squared=1, unit=Unit.person())
        >>> gauss.guarantee.to_approx(1e-6).epsilon <= 1
        True
        """
        rho = ZCDP.within(budget).rho
        return cls(rho=rho, sensitivity_squared=sensitivity_squared, unit=unit, grid=grid)

    @property
    def variance(self) -> Fraction:
        """σ² of the noise in grid units."""
        return self.sensitivity_squared / (2 * self.rho)

    @property
    def guarantee(self) -> ZCDP:
        """What one release promises."""
        return ZCDP(rho=self.rho)

    def event(self, coordinates: int, *, seeded: bool = False) -> DiscreteGaussianEvent:
        """Describe a release of that many values, before it is made."""
        return DiscreteGaussianEvent(
            unit=self.unit,
            seeded=seeded,
            sensitivity_squared=self.sensitivity_squared,
            variance=self.variance,
            coordinates=coordinates,
            grid=self.grid.step,
        )

    def release(self, values: ArrayLike, *, rng: int | Source | None = None) -> Released[Integers]:
        """Add noise to integers; with a seed the release is marked not private."""
        integers, noise = whole(values), source(rng)
        event = self.event(integers.size, seeded=noise.seeded)
        drawn = self._noise().draw(integers.size, noise).reshape(integers.shape)
        return Released(value=integers + drawn, event=event)

    def _noise(self) -> SymmetricNoise:
        return SymmetricNoise(quadratic=1 / (2 * self.variance))
