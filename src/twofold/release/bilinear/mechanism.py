"""The bilinear mechanism: rows in, one row of noisy whole numbers out, with whole noise or a share of a common one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from twofold.errors import BadParameter, BadPrivacyParameter
from twofold.privacy.accountant import spent
from twofold.privacy.budget import ZCDP, Number, PureDP
from twofold.privacy.events import Event, OperatorSumEvent, Released
from twofold.privacy.mechanisms.gaussian import (
    SLACK,
    DiscreteGaussian,
    DiscreteGaussianShare,
    rho_of_sum,
    slack_of_sum,
)
from twofold.privacy.mechanisms.laplace import DiscreteLaplace, DiscreteLaplaceShare
from twofold.privacy.rng import Source, source
from twofold.release.bilinear.combine import FAR, combine_bilinear
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.bilinear.records import part_sums, placed
from twofold.release.cells import laplace_deviation
from twofold.release.clamp import LARGEST_NUMBER, Sums, held, masked_limit
from twofold.release.content import BilinearSums, Integers, Kind, Moments, Noise, Units
from twofold.release.contract import Adding, ArraySpec, ReleaseParameters, ReleaseSpec, SumSpec, check_rows
from twofold.release.usefulness import Usefulness, statistic_usefulness

__all__ = [
    "Bilinear",
    "BilinearNoise",
    "Gram",
    "ItemFeatures",
    "Sketch",
    "clear_share",
]


@dataclass(frozen=True, kw_only=True)
class Bilinear:
    """Noisy sums of rows and of products of rows with a second vector.

    Parameters
    ----------
    kind : {"gram", "sketch", "features"}
        What the second vector is: the row itself, a public random map of it of length ``n_prototypes``, or its profile
        over public item features.
    base_share
        As for `BilinearLayout.of`; for experiments, a plan has the default.

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
    >>> released.value.numbers.shape, released.event == Bilinear(kind="gram").spec(public).event
    ((10,), True)
    """

    kind: Kind
    base_share: Number | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadParameter("this kind of pairs is unknown.", found=repr(self.kind), expected=", ".join(KINDS))

    @property
    def name(self) -> str:
        """Name in a plan."""
        return self.kind

    def layout(self, public: ReleaseParameters) -> BilinearLayout:
        """Positions, units and bound of a release."""
        return BilinearLayout.of(public, self.kind, base_share=self.base_share)

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """One row of numbers, one event, the whole budget."""
        noise = self._noise(public)
        layout, size = noise.layout, noise.whole_deviation if public.operators else noise.deviation
        units = Units(values=layout.sums_unit, observed=layout.observed_unit or 1.0, counts=layout.count_unit)
        observed = size * units.observed if public.feedback == "ratings" else 0.0
        kind = "noisy numbers" if noise.mechanism is not None else "numbers without noise"
        return ReleaseSpec(
            mechanism=self.name,
            what=f"{layout.length:,} {kind} over {public.n_items:,} items: sums, a number of users, and "
            f"{_PAIRS[self.kind]}",
            private=True,
            arrays=(ArraySpec(name="numbers", shape=(layout.length,)),),
            units=units,
            noise=Noise(law=public.law, values=size * units.values, observed=observed, counts=size * units.counts),
            event=noise.event(),
            stacks=False,
            sum=SumSpec(
                length=layout.length,
                largest=layout.largest,
                limit=noise.limit,
                deviation=noise.deviation,
                farthest_noise=noise.farthest,
                alone_epsilon=noise.alone_epsilon,
                operators=public.operators,
                operator_deviation=noise.whole_deviation if public.operators else 0.0,
                operator_farthest=noise.operator_farthest,
            ),
        )

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Judge the noise in the pairs of all entities, with the limit that "auto" uses."""
        return statistic_usefulness(
            public, share=self.noise_share(public), limit=clear_share(self.kind, public.feedback)
        )

    def noise_share(self, public: ReleaseParameters) -> float:
        """Spectral norm of the noise in the pairs of all entities, as a share of the number of users.

        Examples
        --------
        >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5, delta=1e-6, n_entities=205)
        >>> round(Gram().noise_share(public), 4), round(Gram().noise_share(public.with_(honest=205)), 4)
        (0.0104, 0.0007)
        """
        noise = self._noise(public)
        layout = noise.layout
        # A second vector of l1 norm S has an l2 norm of about S/√k.
        profile = layout.profile_norm / (1 if layout.l2 else math.sqrt(layout.columns))
        largest = layout.norm * (layout.norm if layout.gram else profile)
        one = math.hypot(
            noise.deviation * math.sqrt(public.n_entities), math.sqrt(public.operators) * noise.whole_deviation
        )
        width = math.sqrt(layout.n_items) + math.sqrt(layout.columns)
        return one / largest * width / (public.n_users * public.n_entities)

    def release(
        self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None
    ) -> Released[BilinearSums]:
        """Release the noisy sums of an entity's rows."""
        parts, words = self.adding(public), source(rng)
        return parts.draw(parts.part(rows), words)

    def adding(self, public: ReleaseParameters) -> Adding:
        """Sums of parts of the users, and noise on their total."""
        layout = self._noise(public).layout
        return Adding(
            part=lambda rows: part_sums(check_rows(rows, public), public, layout),
            draw=lambda sums, words: self._drawn(sums, public, words),
        )

    def _drawn(self, sums: Sums, public: ReleaseParameters, words: Source) -> Released[BilinearSums]:
        noise = self._noise(public)
        drawn = noise.release(placed(sums, noise.layout, limit=noise.limit), rng=words)
        numbers = drawn.value if public.summed else held(drawn.value)  # under masks, numbers wrap around instead
        message = BilinearSums(
            mechanism=self.kind,
            numbers=numbers,
            deviation=noise.deviation,
            law=public.law,
            seeded=words.seeded,
        )
        return Released(value=message, event=drawn.event)

    def operator_noise(self, public: ReleaseParameters, *, rng: int | Source | None = None) -> Integers:
        """Draw the whole noise that one operator adds to the sum of its shares; see `BilinearNoise`."""
        noise = self._noise(public)
        nothing = np.zeros(noise.layout.length, dtype=np.int64)
        return noise.whole.release(nothing, rng=source(rng)).value

    def combine(self, messages: Iterable[BilinearSums], public: ReleaseParameters) -> Moments:
        """Add the messages up, weighted by size where every entity has its own noise."""
        return combine_bilinear(messages, public, layout=self.layout(public))

    def _noise(self, public: ReleaseParameters) -> BilinearNoise:
        return _noise_of(self, public)


@dataclass(frozen=True, kw_only=True)
class Gram(Bilinear):
    """`Bilinear` with the row itself: which items users share.

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


#: What `FAR` is for a share of a Laplace, in deviations of the whole noise: the tail of a share is as long as that of
#: all of it (by symmetry P(|share| > t) is at most 2 P(|sum| > t)), however small its own deviation is.
_FAR_LAPLACE: Final = 150
# Shares up to which a statistic was better than none. A gram of counts at small entities, against the entity alone: it
# gained at .07 to .23 on Jester, .16 on Complete Journey, .12 on ASSISTments and .35 on eICU; at .32 ASSISTments had
# nothing of it, at .45 Complete Journey lost, and MovieLens by occupation lost .01 at .10. On MovieLens ratings a gram
# lost from 1/22 on, and features with shrinkage to the public table won up to 2/3. The others of counts were measured
# up to 1/8.
_CLEAR: Final = {
    "gram": {"counts": 1 / 4, "ratings": 1 / 25},
    "sketch": {"counts": 1 / 8, "ratings": 1 / 25},
    "features": {"counts": 1 / 8, "ratings": 1.0},
}
_PAIRS: Final = {
    "gram": "how often items go together",
    "sketch": "how items go with public random groups of items",
    "features": "how items go with public features",
}
Sampler = DiscreteGaussian | DiscreteGaussianShare | DiscreteLaplace | DiscreteLaplaceShare


@dataclass(frozen=True, kw_only=True)
class BilinearNoise:
    """One noise over the whole vector, with one event.

    Parameters
    ----------
    public : ReleaseParameters
        The release; ``honest`` above 0 asks for shares, ``operators`` for whole noises that operators add.
    layout : BilinearLayout
        Length and sensitivity.

    Privacy
    -------
    One unit moves the vector by its record (`records`), whose norm is at most ``layout.sensitivity``. With
    ``honest = 0`` the message itself is within the budget. With ``honest = h`` the *sum* of the messages of at least h
    entities that add their share is, when nothing but the sum is seen; the price of the sum of discrete Gaussians, not
    exactly one itself, is counted (`rho_of_sum`), and the variance is raised until all of it fits the budget.

    With ``operators`` the entity adds nothing, or its share. Its numbers must be split between the operators at once
    (`twofold.secure_sum.operators`) and never leave otherwise; each operator adds `whole` to the sum of its shares.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=4, n_users=9, max_items=4, bound=1, epsilon=1, delta=1e-6, honest=205)
    >>> noise = BilinearNoise(public=public, layout=BilinearLayout.of(public, "gram"))
    >>> noise.event().kind, rho_of_sum(noise.event()) <= public.budget.rho
    ('discrete-gaussian-share/1', True)
    """

    public: ReleaseParameters
    layout: BilinearLayout

    @cached_property
    def whole(self) -> DiscreteGaussian | DiscreteLaplace:
        """A whole noise within the budget: of an entity whose message is seen, or of each operator."""
        budget, unit, bound = self.public.budget, self.public.unit, self.layout.sensitivity
        if isinstance(budget, PureDP):
            return DiscreteLaplace(epsilon=budget.epsilon, sensitivity=bound, unit=unit)
        return DiscreteGaussian(rho=budget.rho, sensitivity_squared=bound, unit=unit)

    @cached_property
    def mechanism(self) -> Sampler | None:
        """The mechanism that draws the entity's own noise; None if operators alone add noise."""
        budget, honest = self.public.budget, self.public.honest
        if not honest:
            return None if self.public.operators else self.whole
        if isinstance(budget, PureDP):
            return DiscreteLaplaceShare(
                epsilon=budget.epsilon, parties=honest, sensitivity=self.layout.sensitivity, unit=self.public.unit
            )
        return self._shares(budget)

    @property
    def deviation(self) -> float:
        """Standard deviation of this entity's noise in one number; that of the continuous law for Gaussians."""
        sampler = self.mechanism
        if sampler is None:
            return 0.0
        if isinstance(sampler, DiscreteGaussian | DiscreteLaplace):
            return self.whole_deviation
        if isinstance(sampler, DiscreteGaussianShare):
            return math.sqrt(sampler.share_variance)
        return laplace_deviation(float(sampler.scale)) / math.sqrt(sampler.parties)

    @property
    def whole_deviation(self) -> float:
        """Standard deviation of a whole noise in one number."""
        sampler = self.whole
        if isinstance(sampler, DiscreteGaussian):
            return math.sqrt(sampler.variance)
        return laplace_deviation(float(sampler.scale))

    @property
    def limit(self) -> int:
        """Size at which a sum is cut before the noise; from public numbers (`twofold.release.clamp`)."""
        if not self.public.summed:
            return LARGEST_NUMBER
        return masked_limit(n_users=self.public.n_users, largest=self.layout.largest)

    @property
    def farthest(self) -> int:
        """A size that the entity's noise never reaches in practice."""
        return self._far(self.deviation * math.sqrt(max(1, self.public.honest)), self.deviation)

    @property
    def operator_farthest(self) -> int:
        """A size that an operator's noise never reaches in practice; 0 if operators add none."""
        return self._far(self.whole_deviation, self.whole_deviation) if self.public.operators else 0

    def _far(self, whole: float, own: float) -> int:
        return math.ceil(_FAR_LAPLACE * whole if self.public.law == "laplace" else FAR * own) + 1

    @property
    def alone_epsilon(self) -> float:
        """ε, at the plan's δ, of one entity's message seen alone, if the secure sum is broken.

        Notes
        -----
        Without secure sum it is the plan's own ε. A Gaussian share alone has ρ about ``honest`` times as large. A
        Laplace share alone has no useful guarantee, so ε is infinite, and so it is where operators alone add noise.

        Examples
        --------
        >>> public = ReleaseParameters(n_items=9, n_users=9, max_items=4, bound=1, delta=1e-6, honest=205)
        >>> round(Gram().spec(public).sum.alone_epsilon, 1), Gram().spec(public.with_(honest=0)).sum.alone_epsilon
        (21.2, 1.0)
        """
        if not self.public.summed:
            return float(self.public.epsilon)
        sampler = self.mechanism
        if not isinstance(sampler, DiscreteGaussianShare):
            return math.inf
        alone = replace(sampler.event(self.layout.length), parties=1)
        return float(spent(alone, delta=self.public.delta).epsilon)

    def event(self, *, seeded: bool = False) -> Event:
        """Describe the release before it is made."""
        own, length = self.mechanism, self.layout.length
        if not self.public.operators:
            assert own is not None  # somebody adds noise
            return own.event(length, seeded=seeded)
        shares = () if own is None else (own.event(length),)
        noise = self.whole.event(length)
        return OperatorSumEvent(
            unit=self.public.unit, seeded=seeded, noise=noise, operators=self.public.operators, shares=shares
        )

    def release(self, numbers: Integers, *, rng: Source) -> Released[Integers]:
        """Add the entity's noise, if it adds any."""
        own = self.mechanism
        value = numbers if own is None else own.release(numbers, rng=rng).value
        return Released(value=value, event=self.event(seeded=rng.seeded))

    def _shares(self, budget: ZCDP) -> DiscreteGaussianShare:
        """Least whole variance of a share whose sum fits the budget.

        τ, the price of not being one discrete Gaussian, falls as the variance grows. So with τ taken at the variance
        Δ²/(2ρ) that would do without it, Δ²/(2(ρ - τd)) is enough. The check repeats if rounding requires it, or if
        τd is above what the budget set aside for it (`rho_within`); then shares are widened.
        """
        parties, bound = self.public.honest, self.layout.sensitivity
        variance = _whole_share(Fraction(bound) / (2 * budget.rho), parties)
        for _ in range(16):
            share = DiscreteGaussianShare(
                variance=variance * parties, parties=parties, sensitivity_squared=bound, unit=self.public.unit
            )
            event = share.event(self.layout.length)
            cost, slack = rho_of_sum(event), slack_of_sum(event)
            if cost <= budget.rho and slack <= SLACK / 2:
                return share
            if slack > SLACK / 2:
                variance += max(1, variance // 2)
                continue
            extra = cost - Fraction(bound) / (2 * variance * parties)
            room = max(budget.rho - extra, budget.rho / 2)
            variance = max(variance + 1, _whole_share(Fraction(bound) / (2 * room), parties))
        raise BadPrivacyParameter("the noise shares are too narrow to be priced.", fix="lower epsilon")


@lru_cache(maxsize=32)
def _noise_of(mechanism: Bilinear, public: ReleaseParameters) -> BilinearNoise:
    """Give the layout and the noise of a release; computed once."""
    return BilinearNoise(public=public, layout=mechanism.layout(public))


def clear_share(kind: Kind, feedback: str) -> float:
    """Largest share of the noise at which a statistic is called clear of it.

    Examples
    --------
    >>> clear_share("gram", "counts"), clear_share("gram", "ratings"), clear_share("features", "ratings")
    (0.25, 0.04, 1.0)
    """
    return _CLEAR[kind][feedback]


def _whole_share(variance: Fraction, parties: int) -> int:
    return max(1, math.ceil(variance / parties))
