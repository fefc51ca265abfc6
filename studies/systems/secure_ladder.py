"""The best private model there is here: a Gram matrix under a secure sum, and at every entity the ladder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.exchange import Release, entity_seed
from twofold.data.bounds import Bounds
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.entity.adapt import adapt
from twofold.federation.factors import ItemFactors, encode_factors
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.release.bilinear.combine import combine_bilinear
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.records import exact_sums
from twofold.release.content import BilinearSums
from twofold.release.contract import check_rows
from twofold.server.factorize import factorize_moments, signed

__all__ = ["SecureLadder"]

#: Entities of ten that a secure sum counts on.
_SURVIVORS: Final = 9
_DELTA: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class SecureLadder:
    """Second moments of everybody in one noisy sum, then a local model at every entity: the ladder for counts.

    Parameters
    ----------
    release : Release
        Its ε, δ (1e-6 unless given) and public numbers; the mechanism is always "gram".

    Paper
    -----
    Not in it: what the same ε buys today, beside the paper's prototypes.

    Privacy
    -------
    One release per entity under a secure sum: (ε, δ) for every person towards the server, as long as a tenth of the
    entities at most drops out and none works with it. The noise of the sum is drawn once, with the variance of all
    shares.

    Deviations
    ----------
    A score is a logarithm, not a count: it ranks, and errors in counts are not its measure.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001, n_hospitals=2)
    >>> fitted = SecureLadder(release=Release(epsilon=3)).fit(federation, feedback="counts", seed=0)
    >>> fitted.epsilon, fitted.delta, fitted.rounds
    (3.0, 1e-06, 2)
    """

    release: Release = field(default_factory=Release)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "secure sum and ladder"

    @property
    def private(self) -> bool:
        """Always."""
        return True

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Sum once; every entity climbs."""
        entities = read_as(train, feedback, seed)
        plan = self._plan(entities, feedback)
        cut = Bounds(bound=plan.bound, lower=plan.lower)
        bounded = {label: cut.apply(one)[0] for label, one in entities.items()}
        shared = _summed(bounded, plan, seed)
        numbers = plan.spec.numbers or 0
        return Fitted(
            scorers={label: _adapted(one, shared, plan, seed) for label, one in bounded.items()},
            traffic=Traffic(
                rounds=2,
                bytes_up=8 * numbers * len(entities),
                bytes_down=len(entities) * len(encode_factors(shared, plan)),
            ),
            promise=plan.budget,
            event=plan.spec.event_for(seeded=True),
            note=f"{shared.note}; key messages of the secure sum are not counted",
        )

    def _plan(self, entities: Federation, feedback: Feedback) -> Plan:
        survivors = max(2, math.ceil(_SURVIVORS * len(entities) / 10))
        given = {**vars(self.release), "mechanism": "gram", "delta": self.release.delta or _DELTA}
        given["options"] = {**self.release.options, "secure": SecureSum(survivors=survivors, colluders=0)}
        return Release(**given).plan(entities, feedback=feedback, rank=20)


def _summed(entities: Mapping[object, Ratings], plan: Plan, seed: int) -> ItemFactors:
    public, stated = plan.parameters, plan.spec.sum
    assert stated is not None
    layout = BilinearLayout.of(public, "gram")
    total = sum(exact_sums(check_rows(one.matrix, public), public, layout) for one in entities.values())
    deviation = stated.total_deviation(len(entities))
    # 2ρ = 1 gives exactly this variance.
    sampler = DiscreteGaussian(rho=0.5, sensitivity_squared=round(deviation**2), unit=public.unit)
    drawn = sampler.release(np.asarray(total), rng=entity_seed(seed, "sum")).value
    message = BilinearSums(mechanism="gram", numbers=drawn, deviation=deviation, law="gaussian", seeded=True)
    shared = factorize_moments(combine_bilinear([message], public, layout=layout), plan)
    return signed(shared, plan, entities=len(entities), sound=False)


def _adapted(ratings: Ratings, shared: ItemFactors, plan: Plan, seed: int) -> Score:
    found = adapt(
        ratings.matrix,
        shared,
        feedback=plan.feedback,
        lower=plan.lower,
        bound=plan.bound,
        rank=plan.rank,
        seed=seed,
        threads=1,
    )
    return found.scorer.scores
