"""The server's result for one release: exact sums once, noise for every ε, item factors.

The noise is drawn as the mechanism draws it where every entity has its own. Under a secure sum only the total is ever
seen, so one discrete Gaussian with the total variance is drawn instead of one share per entity: the two laws differ by
less than what the accounting of the shares already pays for (`twofold.privacy.mechanisms.gaussian`).

All noise here is seeded, so nothing of it is private; it is measured, not sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from studies.case import Case
from studies.data import complete_journey
from studies.frontier.settings import DataSetting, Release
from twofold.data.catalog import Catalog
from twofold.features import Features
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.release.bilinear.combine import combine_bilinear
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.release.bilinear.records import exact_sums
from twofold.release.content import BilinearSums, Integers, Kind, Moments
from twofold.release.contract import ReleaseParameters, check_rows
from twofold.server.factorize import factorize_moments, signed
from twofold.server.rows import factorize_rows

__all__ = ["NOISES", "Sums", "item_features", "plan_of", "prototype_factors", "statistic_factors"]

#: Noise of every entity; of the sum; next to none (not private); of the sum with nothing under it.
NOISES: Final = ("own", "secure", "none", "noise only")
#: What "none" stands for: the same pipeline, which divides by the size of its noise, with noise that changes nothing.
NEXT_TO_NONE: Final = 100_000.0


def plan_of(case: Case, setting: DataSetting) -> Plan:
    """The plan of a split's federation, without a mechanism."""
    catalog = case.train.catalog
    has = setting.features and catalog.features is not None
    return Plan(
        catalog=catalog,
        feedback=setting.feedback,
        lower=setting.lower,
        bound=setting.bound,
        max_items=min(setting.max_items, len(catalog)),
        n_users=setting.n_users,
        n_entities=len(case.train),
        rank=setting.rank,
        delta=setting.delta,
        features=_features(catalog, setting) if has else None,
        simulation=True,
    )


def _features(catalog: Catalog, setting: DataSetting) -> Features:
    if setting.source == "complete-journey":
        return complete_journey.features(catalog)
    assert catalog.features is not None, "asked for where there are some"
    return item_features(catalog.features)


def item_features(table: pl.DataFrame) -> Features:
    """Public features of a catalog's table: one column per genre, or per kind and class.

    Examples
    --------
    >>> item_features(pl.DataFrame({"title": ["x", "y"], "genres": ["Drama|War", "War"]})).names
    ('Drama', 'War')
    """
    if "genres" in table.columns:
        words = [set(text.split("|")) for text in table["genres"].to_list()]
    else:
        words = [{f"{column}: {text}" for column, text in row.items()} for row in table.iter_rows(named=True)]
    names = tuple(sorted(set().union(*words)))
    matrix = np.array([[name in own for name in names] for own in words], dtype=np.int64)
    return Features(matrix=matrix, names=names)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums:
    """Exact sums of every entity: they depend on the split and the mechanism, not on ε.

    Parameters
    ----------
    case : Case
        The split.
    base : Plan
        The federation's plan, without a mechanism.
    release : Release
        The mechanism, a bilinear one.
    honest_share : float
        Share of the entities that a secure sum counts on.
    """

    case: Case
    base: Plan
    release: Release
    honest_share: float
    plan: Plan = field(init=False)
    layout: BilinearLayout = field(init=False)
    exact: list[Integers] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        plan = _with(self.base, self.release)
        public = plan.parameters
        layout = BilinearLayout.of(public, _kind(self.release))
        exact = [exact_sums(check_rows(rows, public), public, layout) for rows in self.case.rows.values()]
        for name, value in (("plan", plan), ("layout", layout), ("exact", exact)):
            object.__setattr__(self, name, value)

    def moments(self, noise: str, epsilon: float, *, seed: int) -> Moments:
        """Moments under one noise, in the server's units."""
        public = self._public(noise, epsilon)
        if noise == "own":
            return combine_bilinear(self._own(public, seed), public, layout=self.layout)
        total = np.zeros_like(self.exact[0]) if noise == "noise only" else self._total()
        return combine_bilinear([self._summed(total, public, seed)], public, layout=self.layout)

    def _public(self, noise: str, epsilon: float) -> ReleaseParameters:
        honest = max(1, math.floor(self.honest_share * len(self.exact))) if noise != "own" else 0
        return self.plan.parameters.with_(epsilon=epsilon, honest=honest)

    def _own(self, public: ReleaseParameters, seed: int) -> Iterator[BilinearSums]:
        noise = BilinearNoise(public=public, layout=self.layout)
        sampler, deviation = noise.whole, noise.deviation
        for number, sums in enumerate(self.exact):
            yield self._message(sampler.release(sums, rng=_noise_seed(seed, number)).value, deviation=deviation)

    def _summed(self, total: Integers, public: ReleaseParameters, seed: int) -> BilinearSums:
        """One draw with the variance of all entities' shares; 2ρ = 1 gives exactly that variance."""
        share = BilinearNoise(public=public, layout=self.layout).deviation
        variance = round(share**2 * len(self.exact))
        sampler = DiscreteGaussian(rho=0.5, sensitivity_squared=variance, unit=public.unit)
        drawn = sampler.release(total, rng=_noise_seed(seed, len(self.exact))).value
        return self._message(drawn, deviation=math.sqrt(variance))

    def _total(self) -> Integers:
        total: Integers = np.sum(self.exact, axis=0)
        return total

    def _message(self, numbers: Integers, *, deviation: float) -> BilinearSums:
        return BilinearSums(
            mechanism=self.release.mechanism,
            numbers=numbers,
            deviation=deviation,
            law="gaussian",
            seeded=True,
        )


def statistic_factors(sums: Sums, noise: str, epsilon: float, *, seed: int) -> ItemFactors:
    """Item factors of a bilinear mechanism under one noise.

    Parameters
    ----------
    sums : Sums
        Exact sums of all entities.
    noise : {"own", "secure", "none", "noise only"}
        As in `NOISES`.
    epsilon : float
        Of the release; infinity for "none".
    seed : int
        Of the noise.
    """
    finite = epsilon if math.isfinite(epsilon) else NEXT_TO_NONE
    plan = sums.plan.with_(epsilon=finite)
    shared = factorize_moments(sums.moments(noise, finite, seed=seed), plan)
    return signed(shared, plan, entities=len(sums.exact), sound=False)


def prototype_factors(case: Case, base: Plan, release: Release, epsilon: float, *, seed: int) -> ItemFactors:
    """Item factors of a mechanism that releases prototypes; every entity adds its own noise."""
    plan = _with(base, release).with_(epsilon=epsilon)
    made, public = plan.release_mechanism, plan.parameters
    messages = (
        made.release(rows, public, rng=_noise_seed(seed, number)).value
        for number, rows in enumerate(case.rows.values())
    )
    shared = factorize_rows(made.combine(messages, public), plan, threads=1)
    return signed(shared, plan, entities=len(case.train), sound=False)


def _with(base: Plan, release: Release) -> Plan:
    plan = base.with_(mechanism=release.mechanism, n_prototypes=release.n_prototypes)
    return plan if release.features else plan.with_(features=None)


def _kind(release: Release) -> Kind:
    return next(kind for kind in KINDS if kind == release.mechanism)


def _noise_seed(seed: int, number: int) -> int:
    """A separate seed for every draw."""
    return seed * 1_000_003 + number
