"""The paper's chain, sound: `twofold.release.balcan.chain` as a release mechanism. Pure ε."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import scipy.sparse as sp

from twofold.privacy.events import Released, SequentialEvent
from twofold.privacy.rng import Source, source
from twofold.release.balcan.chain import (
    PrivateKMeansConfig,
    PrivateKMeansResult,
    choose_mode,
    parts_of,
    planned_event,
    private_kmeans,
)
from twofold.release.buckets import Buckets
from twofold.release.cells import CellNoise, laplace_deviation, prototype_spec, spec_usefulness
from twofold.release.clamp import held
from twofold.release.combine import stacked
from twofold.release.content import Noise, Prototypes, Units, WeightedRows
from twofold.release.contract import Adding, ReleaseParameters, ReleaseSpec, check_rows
from twofold.release.records import centred_rows
from twofold.release.sulq import noisy_step
from twofold.release.usefulness import Usefulness

__all__ = ["Balcan"]


@dataclass(frozen=True, kw_only=True)
class Balcan:
    """Projection, private tree, private swaps, noisy sums and counts (Balcan et al. 2017, as the paper uses it).

    Paper
    -----
    Algorithms 1 and 3 to 6, with the constants of the audit's section 3.

    Privacy
    -------
    For counts the proof is that of `private_kmeans`. For ratings half of the budget finds the centres, which are then
    released, and one `CellNoise` at the other half gives the sums, observation counts and counts of the users nearest
    to each. Always pure ε: a δ in the plan is not used. When public numbers say that the tree cannot open or that noise
    would hide the centres, it falls back to `Buckets`, and the message says so.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=3, n_users=9000, max_items=1, bound=1, n_prototypes=3, epsilon=20)
    >>> Balcan().spec(public).rows, Balcan().spec(public).event.kind
    (3, 'sequential/1')
    """

    @property
    def name(self) -> str:
        """Name in a plan."""
        return "balcan"

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """The events of the chain, with one more for ratings; after a fallback, those of the fallback."""
        fallback = self._fallback(public)
        if fallback is not None:
            return fallback.spec(_pure(public))
        config = _config(public)
        chain = planned_event(config, public.n_items)
        if public.feedback == "ratings":
            last = _last(public)
            return last.spec(mechanism=self.name, stacks=True, event=SequentialEvent.of(chain, last.event()))
        parts = parts_of(config, public.n_items)
        units, noise = _units_and_noise(config, parts.sums_scale(config), parts.counts_scale)
        return prototype_spec(
            public, mechanism=self.name, rows=public.n_prototypes, units=units, noise=noise, event=chain, stacks=True
        )

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Judge the noise of the sums that leave."""
        return spec_usefulness(self.spec(public), _pure(public))

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release sums and counts of the clusters the chain finds."""
        fallback = self._fallback(public)
        if fallback is not None:
            return fallback.release(rows, _pure(public), rng=rng)
        matrix, words, config = check_rows(rows, public), source(rng), _config(public)
        found = private_kmeans(centred_rows(matrix, _pure(public)), config, rng=words)
        if public.feedback == "counts":
            return Released(value=_message(found.value, config), event=found.event)
        return _rated(matrix, found, public, words)

    def adding(self, public: ReleaseParameters) -> Adding | None:
        """Only after a fallback: the tree looks at all rows at once."""
        fallback = self._fallback(public)
        return None if fallback is None else fallback.adding(_pure(public))

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Stack the rows: every entity has its own clusters. After a fallback, combine as the fallback does."""
        fallback = self._fallback(public)
        return stacked(messages, public) if fallback is None else fallback.combine(messages, public)

    def _fallback(self, public: ReleaseParameters) -> Buckets | None:
        mode, reason = choose_mode(_config(public), public.n_items)
        if mode == "chain" or public.n_prototypes == 1:
            return None if mode == "chain" else Buckets(name=self.name, cells_per_prototype=1)
        return Buckets(name=self.name, note=f"no tree and no swaps: {reason}")


def _pure(public: ReleaseParameters) -> ReleaseParameters:
    return public.with_(delta=0)


def _config(public: ReleaseParameters) -> PrivateKMeansConfig:
    budget = Fraction(public.epsilon)
    return PrivateKMeansConfig(
        n_clusters=public.n_prototypes,
        epsilon=budget if public.feedback == "counts" else budget / 2,
        promised_users=public.n_users,
        bound=public.value_cap,
        max_items=public.row_items,
        l1_bound=public.row_l1,
        l2_bound=public.row_l2,
        signed=public.lower < public.centre,
        seed=public.seed,
        most_candidates=max(1024, public.n_prototypes),
        unit=public.unit,
    )


def _last(public: ReleaseParameters) -> CellNoise:
    pure = _pure(public)
    return CellNoise(
        public=pure, budget=pure.with_(epsilon=Fraction(public.epsilon) / 2).budget, cells=public.n_prototypes
    )


def _rated(
    rows: sp.csr_array, found: Released[PrivateKMeansResult], public: ReleaseParameters, words: Source
) -> Released[Prototypes]:
    last = noisy_step(rows, found.value.centers, _last(public), words, name="balcan")
    return Released(value=last.value, event=SequentialEvent.of(found.event, last.event))


def _message(found: PrivateKMeansResult, config: PrivateKMeansConfig) -> Prototypes:
    units, noise = _units_and_noise(config, found.sums_scale, found.counts_scale)
    return Prototypes(
        mechanism="balcan",
        sums=held(config.grid.put(found.sums)),
        counts=held(found.counts.astype("int64")),
        units=units,
        noise=noise,
        seeded=found.seeded,
    )


def _units_and_noise(config: PrivateKMeansConfig, sums_scale: float, counts_scale: float) -> tuple[Units, Noise]:
    step = float(config.grid.step)
    values = laplace_deviation(sums_scale / step) * step
    noise = Noise(law="laplace", values=values, observed=0.0, counts=laplace_deviation(counts_scale))
    return Units(values=step, observed=1.0, counts=1.0), noise
