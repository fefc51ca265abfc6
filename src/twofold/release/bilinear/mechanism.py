r"""The bilinear mechanism: rows in, one vector of noisy whole numbers out.

Noise of a bilinear release: whole for every entity, or a share of one common noise under a secure sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from twofold.errors import BadParameter, BadPrivacyParameter
from twofold.privacy.budget import ZCDP, Number, PureDP
from twofold.privacy.events import Event, Released
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian, DiscreteGaussianShare, rho_of_sum
from twofold.privacy.mechanisms.laplace import DiscreteLaplace, DiscreteLaplaceShare
from twofold.privacy.rng import Source, source
from twofold.release.bilinear.combine import combine_bilinear
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.bilinear.records import exact_sums
from twofold.release.cells import laplace_deviation
from twofold.release.content import BilinearSums, Integers, Kind, Moments
from twofold.release.contract import ReleaseParameters
from twofold.release.records import check_rows

__all__ = ["Bilinear", "BilinearNoise", "Gram", "ItemFeatures", "Sketch", "alone_epsilon", "noise_deviation"]


@dataclass(frozen=True, kw_only=True)
class Bilinear:
    """Noisy sums of rows and of products of rows with a second vector.

    Parameters
    ----------
    kind : {"gram", "sketch", "features"}
        What the second vector is: the row itself, a public random map of it of length ``n_prototypes``, or its profile
        over public item features.
    base_share, cap
        As for `BilinearLayout.of`; for experiments, a plan has the defaults.

    Paper
    -----
    Not in it. With one-hot public cells as second vector it would be the paper's prototypes without private clusters
    (`twofold.release.buckets`); the Gram matrix is that of Dwork, Talwar, Thakurta and Zhang 2014 ("Analyze
    Gauss"), on integers.

    Privacy
    -------
    One event. A user's record has a norm of at most `BilinearLayout.sensitivity`, exactly; see there and in
    docs/reference/bilinear.md for the proof.

    Examples
    --------
    >>> import numpy as np
    >>> public = ReleaseParameters(n_items=3, n_users=100, max_items=3, bound=1, epsilon=1, delta=1e-6)
    >>> released = Bilinear(kind="gram").release(np.eye(3), public)
    >>> released.value.numbers.shape, released.event == Bilinear(kind="gram").price(public)
    ((10,), True)
    """

    kind: Kind
    base_share: Number | None = None
    cap: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadParameter("this kind of pairs is not known.", found=repr(self.kind), expected=", ".join(KINDS))

    @property
    def name(self) -> str:
        """How a plan names it."""
        return self.kind

    @property
    def private(self) -> bool:
        """Yes."""
        return True

    def size(self, public: ReleaseParameters) -> int | None:  # noqa: ARG002
        """One vector."""
        return 1

    def layout(self, public: ReleaseParameters) -> BilinearLayout:
        """Places, units and bound of a release."""
        return BilinearLayout.of(public, self.kind, base_share=self.base_share, cap=self.cap)

    def price(self, public: ReleaseParameters, *, seeded: bool = False) -> Event:
        """One event, the whole budget."""
        return self._noise(public).event(seeded=seeded)

    def release(
        self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None
    ) -> Released[BilinearSums]:
        """Release the noisy sums of an entity's rows."""
        matrix, noise, words = check_rows(rows, public), self._noise(public), source(rng)
        drawn = noise.release(exact_sums(matrix, public, noise.layout), rng=words)
        message = BilinearSums(
            mechanism=self.kind,
            numbers=drawn.value,
            deviation=noise.deviation,
            law=public.law,
            seeded=words.seeded,
        )
        return Released(value=message, event=drawn.event)

    def combine(self, messages: Iterable[BilinearSums], public: ReleaseParameters) -> Moments:
        """Add the messages up, weighted by size where every entity has its own noise."""
        return combine_bilinear(messages, public, layout=self.layout(public))

    def _noise(self, public: ReleaseParameters) -> BilinearNoise:
        return BilinearNoise(public=public, layout=self.layout(public))


@dataclass(frozen=True, kw_only=True)
class Gram(Bilinear):
    """`Bilinear` with the row itself: what users have together.

    Examples
    --------
    >>> Gram().name
    'gram'
    """

    kind: Kind = "gram"


@dataclass(frozen=True, kw_only=True)
class Sketch(Bilinear):
    """`Bilinear` with a public random map of the row: fewer numbers than a Gram matrix.

    Examples
    --------
    >>> Sketch().name
    'sketch'
    """

    kind: Kind = "sketch"


@dataclass(frozen=True, kw_only=True)
class ItemFeatures(Bilinear):
    """`Bilinear` with the row's profile over public item features: half a step of alternating least squares.

    Examples
    --------
    >>> ItemFeatures().name
    'features'
    """

    kind: Kind = "features"


Sampler = DiscreteGaussian | DiscreteGaussianShare | DiscreteLaplace | DiscreteLaplaceShare


@dataclass(frozen=True, kw_only=True)
class BilinearNoise:
    """One noise over the whole vector, with one event.

    Parameters
    ----------
    public : ReleaseParameters
        The release; ``honest`` above 0 asks for shares.
    layout : BilinearLayout
        Length and sensitivity.

    Privacy
    -------
    One unit moves the vector by its record (`records`), whose norm is at most ``layout.sensitivity``. With
    ``honest = 0`` the message itself is within the budget. With ``honest = h`` the *sum* of the messages of at least h
    entities that add their share is, when nothing but the sum is seen; the price of the sum of discrete Gaussians, not
    exactly one itself, is counted (`rho_of_sum`), and the variance is raised until all of it fits the budget.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=4, n_users=9, max_items=4, bound=1, epsilon=1, delta=1e-6, honest=205)
    >>> noise = BilinearNoise(public=public, layout=BilinearLayout.of(public, "gram"))
    >>> noise.event().kind, rho_of_sum(noise.event()) <= public.budget.rho
    ('discrete-gaussian-share/1', True)
    """

    public: ReleaseParameters
    layout: BilinearLayout

    @property
    def mechanism(self) -> Sampler:
        """What draws the noise."""
        budget, unit, bound = self.public.budget, self.public.unit, self.layout.sensitivity
        honest = self.public.honest
        if isinstance(budget, PureDP):
            if not honest:
                return DiscreteLaplace(epsilon=budget.epsilon, sensitivity=bound, unit=unit)
            return DiscreteLaplaceShare(epsilon=budget.epsilon, parties=honest, sensitivity=bound, unit=unit)
        if not honest:
            return DiscreteGaussian(rho=budget.rho, sensitivity_squared=bound, unit=unit)
        return self._shares(budget)

    @property
    def deviation(self) -> float:
        """Standard deviation of this entity's noise in one number; that of the continuous law for Gaussians."""
        sampler = self.mechanism
        if isinstance(sampler, DiscreteGaussian):
            return math.sqrt(sampler.variance)
        if isinstance(sampler, DiscreteGaussianShare):
            return math.sqrt(sampler.share_variance)
        whole = laplace_deviation(float(sampler.scale))
        return whole / math.sqrt(sampler.parties) if isinstance(sampler, DiscreteLaplaceShare) else whole

    def event(self, *, seeded: bool = False) -> Event:
        """Describe the release before it is made."""
        return self.mechanism.event(self.layout.length, seeded=seeded)

    def release(self, numbers: Integers, *, rng: Source) -> Released[Integers]:
        """Add the noise."""
        return self.mechanism.release(numbers, rng=rng)

    def _shares(self, budget: ZCDP) -> DiscreteGaussianShare:
        """Least whole variance of a share whose sum fits the budget.

        τ, the price of not being one discrete Gaussian, falls as the variance grows. So with τ taken at the variance
        Δ²/(2ρ) that would do without it, Δ²/(2(ρ - τd)) is enough. The check repeats, should rounding ask for it.
        """
        parties, bound = self.public.honest, self.layout.sensitivity
        variance = _whole_share(Fraction(bound) / (2 * budget.rho), parties)
        for _ in range(8):
            share = DiscreteGaussianShare(
                variance=variance * parties, parties=parties, sensitivity_squared=bound, unit=self.public.unit
            )
            cost = rho_of_sum(share.event(self.layout.length))
            if cost <= budget.rho:
                return share
            extra = cost - Fraction(bound) / (2 * variance * parties)
            room = max(budget.rho - extra, budget.rho / 2)
            variance = max(variance + 1, _whole_share(Fraction(bound) / (2 * room), parties))
        raise BadPrivacyParameter("the noise shares are too narrow to be priced.", fix="lower epsilon")


def noise_deviation(public: ReleaseParameters, kind: Kind) -> float:
    """Standard deviation of one entity's noise in each whole number.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=4, n_users=9, max_items=4, bound=1, epsilon=1, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "gram")
    >>> round(noise_deviation(public, "gram") / layout.sensitivity**0.5, 2)
    4.53
    """
    return BilinearNoise(public=public, layout=BilinearLayout.of(public, kind)).deviation


def alone_epsilon(public: ReleaseParameters, kind: Kind) -> float:
    """ε, at the plan's δ, of one entity's message seen alone, should the secure sum be broken.

    Notes
    -----
    Without secure sum it is the plan's own ε. A Gaussian share alone has ρ about ``honest`` times as large. A Laplace
    share alone promises nothing of use, so ε is infinite.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=9, n_users=9, max_items=4, bound=1, epsilon=1, delta=1e-6, honest=205)
    >>> round(alone_epsilon(public, "gram"), 1), alone_epsilon(public.with_(honest=0), "gram")
    (20.5, 1.0)
    """
    if not public.honest:
        return float(public.epsilon)
    sampler = BilinearNoise(public=public, layout=BilinearLayout.of(public, kind)).mechanism
    if not isinstance(sampler, DiscreteGaussianShare):
        return math.inf
    rho = sampler.sensitivity_squared / (2 * sampler.share_variance)
    return float(ZCDP(rho=rho).to_approx(public.delta).epsilon)


def _whole_share(variance: Fraction, parties: int) -> int:
    return max(1, math.ceil(variance / parties))
