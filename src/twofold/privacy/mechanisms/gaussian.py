r"""Discrete Gaussian noise on integers, whole or as one party's share, and how near it is to continuous noise.

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

How near the noise is to a continuous Gaussian
-----------------------------------------------
Let a + b be the variance. Continuous noise of variance a, rounded at random to an integer by a discrete Gaussian of
variance b around it, has every probability within e^±η of the discrete Gaussian of variance a + b; η is below 10⁻³³ at
b = 4. The sum of H shares is within e^±τ of one discrete Gaussian, with the τ above. So up to a slack of d(η + τ) the
noise is a function of continuous noise, and has its exact (ε, δ) curve (`twofold.privacy.gaussian_curve`). Proof:
docs/reference/gaussian.md. `near_gaussians` gives μ² and slack for every b in `WIDTHS`, and `rho_within` the ρ that a
budget allows.

The exactly divisible alternative, Skellam noise (Agarwal, Kairouz and Liu 2021), has a worse constant at
small variance, no pure limit and needs a Poisson sampler for large means; it would bring no advantage here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from numpy.typing import ArrayLike

from twofold import checks
from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import ZCDP, ApproxDP, Number, positive
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteGaussianShareEvent, Released
from twofold.privacy.gaussian_curve import rho_below, rounded
from twofold.privacy.grid import Grid, Integers
from twofold.privacy.mechanisms.lazy import SymmetricNoise, add_noise, exp_minus
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit

__all__ = [
    "SLACK",
    "WIDTHS",
    "DiscreteGaussian",
    "DiscreteGaussianShare",
    "near_gaussians",
    "rho_of_sum",
    "rho_within",
    "slack_of_sum",
]

#: Variances b of the random rounding that are tried. A larger one is nearer to continuous noise and leaves less of it.
WIDTHS: Final = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
#: What a budget sets aside for the slack of all its noise: half for rounding, half for shares.
SLACK: Final = Fraction(1, 10**12)
# At a b of 4, the slack of 2^63 numbers is below SLACK/2; so the number of numbers need not be known.
_WIDEST: Final = WIDTHS[-1]
# Fine enough not to be seen in an ε of fifteen digits, coarse enough for sums over thousands of events.
_STEPS: Final = 1 << 200

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
    case; coordinates are independent and add. Hence ρ-zCDP for integer data of any dimension. The (ε, δ) of a
    release is less than what follows from ρ: it is that of continuous noise up to a slack (module docstring).

    Examples
    --------
    >>> gauss = DiscreteGaussian.within(
    ...     ApproxDP(epsilon=1, delta=1e-6), sensitivity_squared=100, unit=Unit.person()
    ... )
    >>> round(float(gauss.variance) ** 0.5 / 10, 2)
    4.23
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
        """The least noise for one release within an (ε, δ) budget (`rho_within`).

        Examples
        --------
        >>> budget = ApproxDP(epsilon=1, delta=1e-6)
        >>> gauss = DiscreteGaussian.within(budget, sensitivity_squared=1, unit=Unit.person())
        >>> gauss.variance < 21
        True
        """
        rho = rho_within(budget, sensitivity_squared=sensitivity_squared).rho
        return cls(rho=rho, sensitivity_squared=sensitivity_squared, unit=unit, grid=grid)

    @property
    def variance(self) -> Fraction:
        """σ² of the noise in grid units."""
        return self.sensitivity_squared / (2 * self.rho)

    @property
    def guarantee(self) -> ZCDP:
        """The guarantee of one release as ρ; `twofold.privacy.accountant.spent` has its least (ε, δ)."""
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


def rho_within(budget: ApproxDP, *, sensitivity_squared: Number) -> ZCDP:
    """Largest ρ that Gaussian noise may have in all, for an (ε, δ) that it keeps.

    Parameters
    ----------
    budget : ApproxDP
        The (ε, δ) to keep, with a δ above 0.
    sensitivity_squared : number
        The least squared l2 sensitivity, in grid units, of the noises that share the budget.

    Returns
    -------
    ZCDP
        It may be split. Every part is spent on noise of variance Δ²/(2ρ) as usual.

    Privacy
    -------
    The larger of two: what the zCDP conversion allows, and ρ' / (1 + 2bρ'/Δ²) with ρ' from the Gaussian curve. Noises
    of variance V with Δ²/(2V) adding up to the latter have Δ²/(2(V - b)) adding up to at most ρ'. `SLACK` is set aside
    for rounding and shares; shares must be wide enough for their half (`slack_of_sum`).

    Examples
    --------
    >>> budget = ApproxDP(epsilon=1, delta=1e-6)
    >>> [round(float(rho_within(budget, sensitivity_squared=least).rho), 5) for least in (1, 100, 10**6)]
    [0.02436, 0.02795, 0.02801]
    """
    plain = ZCDP.within(budget)
    least = positive(sensitivity_squared, name="sensitivity_squared")
    found = rho_below(budget.epsilon, budget.delta, SLACK)
    if found is None:
        return plain
    return ZCDP(rho=max(plain.rho, rounded(found / (1 + 2 * _WIDEST * found / least), up=False)))


def near_gaussians(
    event: DiscreteGaussianEvent | DiscreteGaussianShareEvent,
) -> tuple[tuple[Fraction, Fraction] | None, ...]:
    """Continuous noise that a release is a function of, up to a slack, for each of `WIDTHS`.

    Returns
    -------
    tuple
        Pairs of μ² = Δ²/(V - b) and slack, both rounded up; None where the variance V is not above b.

    Examples
    --------
    >>> event = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=2, coordinates=9)
    >>> [None if one is None else round(float(one[0]), 3) for one in near_gaussians(event)]
    [0.667, 1.0, None, None]
    """
    variance, beside = event.variance, Fraction(0)
    if isinstance(event, DiscreteGaussianShareEvent):
        variance, beside = variance * event.parties, slack_of_sum(event)
    return tuple(
        (
            _up(event.sensitivity_squared / (variance - width)),
            _up(event.coordinates * _rounding(width) + beside),
        )
        if variance > width
        else None
        for width in WIDTHS
    )


def slack_of_sum(event: DiscreteGaussianShareEvent) -> Fraction:
    """Bound d·τ: how far the law of a sum of shares is from one discrete Gaussian, as a logarithm.

    Examples
    --------
    >>> event = DiscreteGaussianShareEvent(
    ...     unit=Unit.person(), sensitivity_squared=1, variance=4, parties=100, coordinates=9
    ... )
    >>> 0 < slack_of_sum(event) < 1e-15
    True
    """
    return event.coordinates * _distance(event.variance, event.parties)


def _up(number: Fraction) -> Fraction:
    return Fraction(-(-number.numerator * _STEPS // number.denominator), _STEPS)


@lru_cache(maxsize=8)
def _rounding(width: Fraction) -> Fraction:
    """η = log((1+θ)/(1-θ)) from above, with θ = 2 Σ_j q^(j²) <= 2q/(1-q³), q = exp(-2π²b), and η <= 2θ/(1-θ²)."""
    q = Fraction(exp_minus(_TWO_PI_SQUARED * width, _BITS)[1], 1 << _BITS)
    theta = 2 * q / (1 - q**3)
    return 2 * theta / (1 - theta**2)


def _distance(variance: Fraction, parties: int) -> Fraction:
    """τ rounded up; past a hundred terms each is bounded by the hundredth, the largest of the rest."""
    terms = range(1, min(parties, 101))
    bounds = [exp_minus(_TWO_PI_SQUARED * variance * k / (k + 1), _BITS)[1] for k in terms]
    rest = (parties - 1 - len(bounds)) * bounds[-1] if bounds else 0
    return Fraction(10 * (sum(bounds) + rest), 1 << _BITS)
