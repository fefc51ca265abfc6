"""Discrete Laplace noise on integers: pure ε-differential privacy.

Ghosh, Roughgarden and Sundararajan 2009; Canonne, Kamath and Steinke 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from numpy.typing import ArrayLike

from twofold.privacy.budget import Number, PureDP, positive
from twofold.privacy.events import DiscreteLaplaceEvent
from twofold.privacy.grid import Grid, Integers, whole
from twofold.privacy.mechanisms.released import Released
from twofold.privacy.mechanisms.symmetric import SymmetricNoise
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["DiscreteLaplace"]


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """Integer values plus independent noise with P(k) ∝ exp(-|k|·ε/sensitivity).

    Parameters
    ----------
    epsilon : number
        The price of one release, above 0.
    sensitivity : number
        How far one unit can move the values in l1 distance, in grid units (`Grid.sensitivity_l1`). Public.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        What the integers are worth; only recorded and used by the caller to go back.

    Privacy
    -------
    For neighbours with integer values x, x' and any output y, P(y | x)/P(y | x') = exp((|y-x'|₁ - |y-x|₁)/b)
    <= exp(|x-x'|₁/b) = e^ε with b = sensitivity/ε. Everything is an integer and the noise is exact in law, so
    there is no rounding to argue away (Mironov 2012 does not apply).

    Examples
    --------
    >>> laplace = DiscreteLaplace(epsilon=1, sensitivity=60, unit=Unit.person())
    >>> laplace.scale
    Fraction(60, 1)
    >>> laplace.release([10, 20, 30]).value.shape
    (3,)
    >>> DiscreteLaplace(epsilon=0, sensitivity=60, unit=Unit.person())
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: epsilon must be above zero...
    """

    epsilon: Fraction
    sensitivity: Fraction
    unit: Unit
    grid: Grid

    def __init__(self, *, epsilon: Number, sensitivity: Number, unit: Unit, grid: Grid | None = None) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "grid", grid or Grid())
        self._noise()  # a scale no sampler can honour is refused here, before anything is drawn

    @property
    def scale(self) -> Fraction:
        """Scale of the noise in grid units."""
        return self.sensitivity / self.epsilon

    @property
    def guarantee(self) -> PureDP:
        """What one release promises."""
        return PureDP(epsilon=self.epsilon)

    def event(self, coordinates: int, *, seeded: bool = False) -> DiscreteLaplaceEvent:
        """Describe a release of that many values, before it is made."""
        return DiscreteLaplaceEvent(
            unit=self.unit,
            seeded=seeded,
            sensitivity=self.sensitivity,
            scale=self.scale,
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
        return SymmetricNoise(linear=1 / self.scale)
