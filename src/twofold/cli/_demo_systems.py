"""The systems that the demo compares: how each scores, and one measurement for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.split import Split
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.model import Model
from twofold.evaluate.measure import measure
from twofold.protocol.plan import Plan
from twofold.report.federation import System
from twofold.simulate.pool import Crew, run_each

__all__ = ["Compared", "alone", "common_everywhere", "common_here", "local_models", "measured", "pooled"]

Scores = Callable[[sparse.csr_array], NDArray[Any]]

#: Key to name, what it is, and what leaves a hospital for it.
WORDS = {
    "popularity": (
        "Popularity here",
        "The same list for all patients of a hospital: what is common there.",
        "nothing",
    ),
    "shared_popularity": (
        "Popularity everywhere",
        "The same list for all: what is common over all hospitals, from noisy sums at the same price as below.",
        "one private message",
    ),
    "alone": ("Alone", "A model of the hospital's own patients, tuned by its own validation.", "nothing"),
    "private": (
        "Private federation",
        "The hospital's own model drawn towards the shared factors as far as its own validation says.",
        "one private message under masks",
    ),
    "non_private": (
        "Federation, not private",
        "The same with next to no noise.",
        "exact sums, which is not allowed",
    ),
    "pooled": (
        "Pooled raw data",
        "One model of everybody's records, the same for all hospitals.",
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
    """What the private sums of all hospitals together call popular."""
    return Compared(key="shared_popularity", scores=dict.fromkeys(federation, same_for_all(means)))


def alone(federation: Federation, plan: Plan, done: Callable[[int], object]) -> Compared:
    """Each hospital's own model, chosen and tuned as the federated ones are, without the shared factors."""
    with Crew.of(None, None, len(federation)) as crew:
        jobs = {name: (federation[name], plan, crew.inner) for name in _largest_first(federation)}
        models = run_each(own_model, jobs, executor=crew.executor, done=done)
    return Compared(key="alone", scores={name: models[name].scorer.scores for name in federation})


def local_models(key: str, models: Mapping[Any, Model]) -> Compared:
    """What a federation gave each hospital."""
    return Compared(key=key, scores={name: model.scorer.scores for name, model in models.items()})


def pooled(federation: Federation, plan: Plan) -> Compared:
    """One model of all records together."""
    return Compared(key="pooled", scores=dict.fromkeys(federation, own_model(federation.pooled(), plan).scorer.scores))


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
    """So that nobody waits for a late giant."""
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
    """The same scores whoever asks."""
    return lambda rows: np.tile(np.asarray(scores, dtype=np.float64), (rows.shape[0], 1))


def _sums(ratings: Ratings) -> NDArray[Any]:
    return np.asarray(ratings.matrix.sum(axis=0))
