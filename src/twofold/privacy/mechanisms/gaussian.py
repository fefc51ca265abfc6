r"""Discrete Gaussian noise on integers, whole or as one party's share: zero-concentrated differential privacy.

The noise: Canonne, Kamath and Steinke 2020. Shares are for sums seen only through secure aggregation.

Why shares are discrete Gaussians, too
--------------------------------------
Each of H honest parties adds a discrete Gaussian of variance σ²/H. A sum of discrete Gaussians is not
exactly a discrete Gaussian, so the law of the sum is not exactly "one party's"; but it is so close that
the difference is priced. Kairouz, Liu and Steinke 2021 ("The distributed
discrete Gaussian mechanism for federated learning with secure aggregation", theorem 1): for shares of
standard deviation s >= 1/2 in d coordinates, with integer data of squared l2 sensitivity Δ², the sum
satisfies ε²/2-zCDP with

.. math:: \varepsilon^2 \le \frac{\Delta^2}{H s^2} + 2 \tau d, \qquad
          \tau = 10 \sum_{k=1}^{H-1} \exp\left(-2 \pi^2 s^2 \frac{k}{k+1}\right)

Printed versions of the theorem differ in the factor of τd (1/2 or 2); the larger one is used. With s = 2 and
H = 1000, τ is below 1e-13, so the choice costs nothing. `rho_of_sum` rounds every part up.

The exactly divisible alternative, Skellam noise (Agarwal, Kairouz and Liu 2021), has a worse constant at
small variance, no pure limit and needs a Poisson sampler for large means; it would bring no advantage here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from numpy.typing import ArrayLike

from twofold import checks
from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import ZCDP, ApproxDP, Number, positive
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteGaussianShareEvent, Released
from twofold.privacy.grid import Grid, Integers
from twofold.privacy.mechanisms.lazy import SymmetricNoise, add_noise, exp_minus
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit

__all__ = ["DiscreteGaussian", "DiscreteGaussianShare", "rho_of_sum"]

_TWO_PI_SQUARED = Fraction("19.7392")  # below 2π² = 19.73920880..., so that τ is rounded up
_BITS = 256


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """Integer values plus independent noise with P(k) ∝ exp(-k²/(2σ²)), σ² = sensitivity_squared/(2ρ).

    Parameters
    ----------
    rho : number
        The price of one release in zCDP, above 0. `within` finds it from (ε, δ).
    sensitivity_squared : number
        How far one unit can move the values in squared l2 distance, in grid units (`cap_l2`). Public.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        Unit of the integers.

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
        """The least noise for one release within an (ε, δ) budget.

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
        """The guarantee of one release."""
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
        return add_noise(values, rng, event=self.event, draw=self._noise().draw)

    def _noise(self) -> SymmetricNoise:
        return SymmetricNoise(quadratic=1 / (2 * self.variance))


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussianShare:
    """Integer values of one party plus its share of the noise.

    Parameters
    ----------
    variance : number
        σ² of the *sum* over `parties` honest parties, in grid units.
    parties : int
        Number of honest parties that add a share; fewer give a weaker guarantee, more a stronger one.
    sensitivity_squared : number
        How far one unit can move one party's values in squared l2 distance, in grid units. Public.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        Unit of the integers; the same for all parties.

    Privacy
    -------
    Holds for the sum only, when nothing else is seen (module docstring). One share seen alone is a discrete
    Gaussian release of variance σ²/H, whose ρ is H times as large.

    Examples
    --------
    >>> share = DiscreteGaussianShare(variance=1000, parties=10, sensitivity_squared=100, unit=Unit.person())
    >>> share.share_variance, round(float(rho_of_sum(share.event(5))), 6)
    (Fraction(100, 1), 0.05)
    """

    variance: Fraction
    parties: int
    sensitivity_squared: Fraction
    unit: Unit
    grid: Grid

    def __init__(
        self,
        *,
        variance: Number,
        parties: int,
        sensitivity_squared: Number,
        unit: Unit,
        grid: Grid | None = None,
    ) -> None:
        object.__setattr__(self, "variance", positive(variance, name="variance"))
        object.__setattr__(self, "parties", parties)
        object.__setattr__(self, "sensitivity_squared", positive(sensitivity_squared, name="sensitivity_squared"))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "grid", grid or Grid())
        rho_of_sum(self.event(1))  # refuses bad parties and shares that are too narrow
        self._noise()

    @property
    def share_variance(self) -> Fraction:
        """σ² of this party's own noise."""
        return self.variance / self.parties

    def event(self, coordinates: int, *, seeded: bool = False) -> DiscreteGaussianShareEvent:
        """Describe a share of that many values, before it is made."""
        checks.whole("parties", self.parties, error=BadPrivacyParameter)
        return DiscreteGaussianShareEvent(
            unit=self.unit,
            seeded=seeded,
            sensitivity_squared=self.sensitivity_squared,
            variance=self.share_variance,
            parties=self.parties,
            coordinates=coordinates,
            grid=self.grid.step,
        )

    def release(self, values: ArrayLike, *, rng: int | Source | None = None) -> Released[Integers]:
        """Add this party's share of the noise; to be sent into secure aggregation only."""
        return add_noise(values, rng, event=self.event, draw=self._noise().draw)

    def _noise(self) -> SymmetricNoise:
        return SymmetricNoise(quadratic=1 / (2 * self.share_variance))


def rho_of_sum(event: DiscreteGaussianShareEvent) -> Fraction:
    """Price in zCDP of the sum over `parties` shares, never below the theorem's.

    Examples
    --------
    >>> event = DiscreteGaussianShareEvent(
    ...     unit=Unit.person(), sensitivity_squared=1, variance=4, parties=1, coordinates=9
    ... )
    >>> rho_of_sum(event)
    Fraction(1, 8)
    """
    if event.variance < Fraction(1, 4):
        raise BadPrivacyParameter(
            "a share of Gaussian noise is too narrow for its proof.",
            found=f"variance {event.variance} grid units",
            expected="at least 1/4 per party",
            fix="use a finer grid",
            parameter="variance",
        )
    base = event.sensitivity_squared / (event.variance * event.parties)
    return (base + 2 * event.coordinates * _distance(event.variance, event.parties)) / 2


def _distance(variance: Fraction, parties: int) -> Fraction:
    """τ rounded up; past a hundred terms each is bounded by the hundredth, the largest of the rest."""
    terms = range(1, min(parties, 101))
    bounds = [exp_minus(_TWO_PI_SQUARED * variance * k / (k + 1), _BITS)[1] for k in terms]
    rest = (parties - 1 - len(bounds)) * bounds[-1] if bounds else 0
    return Fraction(10 * (sum(bounds) + rest), 1 << _BITS)
