"""What `twofold demo` runs: simulated hospitals, both rounds with real noise, and one test for every system."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.cli.demo import HELD_OUT_WORDS, NOUNS, REMARKS, added_up, entity_lines, example
from twofold.data.bounds import Bounds
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.sources import hospitals
from twofold.data.split import Split, holdout
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.model import Model
from twofold.evaluation.measure import measure
from twofold.federation.plan import Plan
from twofold.federation.secure import OperatorSum, usual_floor
from twofold.progress import Listener, heard
from twofold.report.federation import FederationRun, System, mean_and_spread
from twofold.simulation import simulate
from twofold.simulation.workers import WorkerPool, run_each

__all__ = ["Demo", "run_demo"]

SHARE: Final = 0.5  # of the patients have entries held out: at the smallest hospitals that is still twenty
HELD_OUT: Final = 5
OPEN: Final = 10**9  # the price at which noise is next to nothing


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The options of the demo. The seed is for simulation, split and plan, never for the noise."""

    patients: int
    n_hospitals: int
    seed: int
    epsilon: float
    ledgers: Path

    def data(self) -> Split[Federation]:
        """Simulated hospitals with some entries held out, values cut as the plan says."""
        made = hospitals.simulate(n_patients=self.patients, n_hospitals=self.n_hospitals, rng=self.seed).federation
        cut = Bounds(bound=5)
        whole = Federation({name: cut.apply(ratings)[0] for name, ratings in made.items()})
        return holdout(whole, users=SHARE, entries=HELD_OUT, rng=self.seed)

    def plan(self, federation: Federation) -> Plan:
        """The plan, made from the settings of the simulation; nothing is counted in its data."""
        return Plan(
            catalog=federation.catalog,
            feedback="counts",
            bound=5,
            max_items=60,
            n_prototypes=10,
            rank=20,
            mechanism="gram",
            secure=OperatorSum(floor=usual_floor(self.n_hospitals)),
            epsilon=Fraction(str(self.epsilon)),
            n_users=self.patients // self.n_hospitals,
            n_entities=self.n_hospitals,
            name="demo",
            seed=self.seed,
        )


@dataclass
class Clock:
    """Seconds of each step, shown by a progress bar."""

    tell: Listener
    seconds: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, *, bar: bool = True) -> Iterator[None]:
        """Time one step; without a bar if its phases have their own."""
        if bar:
            self.tell(name, 0, 1)
        start = time.perf_counter()
        yield
        self.seconds.append((name, time.perf_counter() - start))
        if bar:
            self.tell(name, 1, 1)

    @contextmanager
    def within(self, name: str, short: str) -> Iterator[None]:
        """Time one step whose phases have bars of their own, with a short name of the step before them."""
        with heard(lambda phase, done, total: self.tell(f"{short}: {phase}", done, total)), self.step(name, bar=False):
            yield


def run_demo(demo: Demo, tell: Listener) -> FederationRun:
    """Run everything and gather what the report needs.

    Privacy
    -------
    The private federation runs exactly as a real one: two operators with keys and noise of their own, a ledger per
    hospital, a plan that is no simulation. One process holds both operators' keys here, which only a simulation may.
    The noise comes from the operating system, so its numbers differ a little from run to run; everything else repeats
    with the seed.
    """
    clock = Clock(tell)
    with clock.step("simulated hospitals"):
        split = demo.data()
        plan = demo.plan(split.train)
    with clock.within("private federation", "private"):
        private = simulate(split.train, plan, ledgers=demo.ledgers / "private", new_ledgers=True)
    with clock.step("popularity, shared privately"):
        popular = simulate(
            split.train,
            plan_of_popularity(plan),
            ledgers=demo.ledgers / "popularity",
            new_ledgers=True,
            local="factors",
            strength="shared",
        )
    with clock.within("federation without privacy", "not private"):
        open_plan = plan.with_(epsilon=OPEN, secure=None, simulation=True)
        without = simulate(split.train, open_plan, rng=demo.seed)
    compared: list[Compared] = [common_here(split.train), common_everywhere(split.train, popular.factors.means)]
    with clock.step("alone", bar=False):
        compared.append(alone(split.train, plan, lambda done: tell("alone", done, len(split.train))))
    compared += [local_models("private", private.models), local_models("non_private", without.models)]
    with clock.step("pooled raw data"):
        together = pooled(split.train, plan, without.models)
    with clock.step("measured"):
        systems: tuple[System, ...] = (
            *(measured(one, split) for one in compared),
            best([measured(one, split) for one in together]),
        )
    return FederationRun(
        plan=private.plan,
        private=private.private,
        entities=entity_lines(split.train, private, demo.ledgers / "private"),
        systems=systems,
        received=private.received,
        together=added_up(private),
        choice="how often two items go together, summed in shares by two operators",
        timings=tuple(clock.seconds),
        example=example(private, split),
        held_out=HELD_OUT_WORDS,
        remarks=REMARKS,
        nouns=NOUNS,
    )


def plan_of_popularity(plan: Plan) -> Plan:
    """The same price spent on one prototype of everybody: which items are common."""
    return plan.with_(mechanism="popularity", secure=None, name="demo-popularity")


Scores = Callable[[sparse.csr_array], NDArray[Any]]

#: Key to name, what it is, and what leaves a hospital for it.
WORDS = {
    "popularity": ("Popularity here", "One list for all patients of a hospital: its most common items.", "nothing"),
    "shared_popularity": (
        "Popularity everywhere",
        "The same list for all: the most common items everywhere, from noisy sums at the same price as below.",
        "one private message",
    ),
    "alone": (
        "Alone",
        "The hospital's own popularity and its own item-item weights or factors, combined by its own validation.",
        "nothing",
    ),
    "private": (
        "Private federation",
        "The same, with as much of the others' popularity and item-item weights as its own validation supports.",
        "one message in two sealed shares",
    ),
    "non_private": ("Federation, not private", "The same with almost no noise.", "exact sums, which is not allowed"),
    "pooled_popularity": (
        "popularity",
        "The most common items over everybody's records, the same list for all.",
        "every record, which is not allowed",
    ),
    "pooled_model": (
        "one model",
        "One tuned model of everybody's records, the same for all hospitals.",
        "every record, which is not allowed",
    ),
    "pooled_adapted": (
        "adapted",
        "Item-item weights of everybody's records, adapted to each hospital. They need only exact sums, so the "
        "federation without noise gives the same.",
        "every record, which is not allowed",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A system before it is measured: a way to score the patients of each hospital."""

    key: str
    scores: Mapping[Any, Scores]


def common_here(federation: Federation) -> Compared:
    """Each hospital's own popular items."""
    return Compared(key="popularity", scores={name: same_for_all(_sums(one)) for name, one in federation.items()})


def common_everywhere(federation: Federation, means: NDArray[np.float64]) -> Compared:
    """Popular items by the private sums of all hospitals together."""
    return Compared(key="shared_popularity", scores=dict.fromkeys(federation, same_for_all(means)))


def alone(federation: Federation, plan: Plan, done: Callable[[int], object]) -> Compared:
    """Each hospital's own model, chosen and tuned as the federated ones are, without the shared factors."""
    with WorkerPool.of(None, None, len(federation)) as crew:
        jobs = {name: (federation[name], plan, crew.inner) for name in _largest_first(federation)}
        models = run_each(own_model, jobs, executor=crew.executor, done=done)
    return Compared(key="alone", scores={name: models[name].scorer.scores for name in federation})


def local_models(key: str, models: Mapping[Any, Model]) -> Compared:
    """Each hospital's model from a federation."""
    return Compared(key=key, scores={name: model.scorer.scores for name, model in models.items()})


def pooled(federation: Federation, plan: Plan, adapted: Mapping[Any, Model]) -> tuple[Compared, ...]:
    """What can be made of all records together: one list, one model, or one model adapted to each hospital."""
    everybody = federation.pooled()
    one_model = own_model(everybody, plan).scorer.scores
    return (
        Compared(key="pooled_popularity", scores=dict.fromkeys(federation, same_for_all(_sums(everybody)))),
        Compared(key="pooled_model", scores=dict.fromkeys(federation, one_model)),
        local_models("pooled_adapted", adapted),
    )


def best(systems: Sequence[System]) -> System:
    """The pooled system with the highest nDCG over hospitals, under the name of its kind; the others are told."""
    found = [(mean_and_spread(one.ndcg, range(len(one.ndcg)))[0], one) for one in systems]
    mean, taken = max(found, key=lambda pair: pair[0] if math.isfinite(pair[0]) else -math.inf)
    others = " and ".join(f"{one.name} {value:.3f}" for value, one in found if one is not taken)
    return replace(
        taken,
        key="pooled",
        name=f"Pooled, {taken.name}",
        about=f"{taken.about} The best of three by this very test ({mean:.3f}; {others}), which favours pooling.",
    )


def own_model(ratings: Ratings, plan: Plan, threads: int | None = None) -> Adapted:
    """Fit a model to one table and nothing else."""
    return adapt(
        ratings.matrix,
        None,
        feedback=plan.feedback,
        lower=plan.lower,
        bound=plan.bound,
        strength="own",
        rank=plan.rank,
        seed=plan.seed,
        threads=threads,
    )


def _largest_first(federation: Federation) -> list[str]:
    """Order the work so that no large hospital starts last."""
    return sorted(federation, key=lambda name: -federation[name].n_entries)


def measured(one: Compared, split: Split[Federation]) -> System:
    """Measure a system at every hospital, on the entries that were held out for all systems alike."""
    found = [
        measure(
            one.scores[name],
            split.train[name].matrix,
            split.test[name].matrix,
            feedback="counts",
            metrics=("ndcg", "mean_rank_unseen"),
        )
        for name in split.train
    ]
    title, about, leaves = WORDS[one.key]
    return System(
        key=one.key,
        name=title,
        about=about,
        leaves=leaves,
        ndcg=tuple(each.overall("ndcg") for each in found),
        mean_rank=tuple(each.overall("mean_rank_unseen") for each in found),
    )


def same_for_all(scores: NDArray[Any]) -> Scores:
    """Give everyone the same scores."""
    return lambda rows: np.tile(np.asarray(scores, dtype=np.float64), (rows.shape[0], 1))


def _sums(ratings: Ratings) -> NDArray[Any]:
    return np.asarray(ratings.matrix.sum(axis=0))
