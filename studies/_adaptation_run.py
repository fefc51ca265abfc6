"""Every way to serve an entity's users, fitted and measured on one split of one federation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy import sparse

from studies._adaptation_data import Case, shared_factors
from studies._adaptation_metrics import Measured, measure, merged
from twofold.algorithms._jit import one_blas_thread
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.models.blend import rating_means
from twofold.federation.factors import ItemFactors

__all__ = ["WAYS", "Outcome", "run_case"]

WAYS: Final = ("popularity", "alone", "shared only", "adapted", "pooled")
#: Users of an entity who are measured at most, the first ones; all are fitted.
MOST_MEASURED = 1_000


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Figures of every way on one split, for all users and for those of the smallest entities, and what was chosen."""

    overall: dict[str, dict[str, float]]
    smallest: dict[str, dict[str, float]]
    chosen: Counter[str] = field(default_factory=Counter)


def run_case(case: Case, *, workers: int = 2, tick: Callable[[], object] = lambda: None) -> Outcome:
    """Fit and measure; entities in parallel, with a result that does not depend on how many at once.

    Parameters
    ----------
    case : Case
        A federation that was split.
    workers : int
        Entities at once.
    tick : function
        Called after each entity.
    """
    shared = shared_factors(case)
    pooled = _fit(sparse.csr_array(sparse.vstack(list(case.train.values()), format="csr")), None, case)

    def one(entity: str) -> tuple[dict[str, Measured], Adapted]:
        made = _entity(case, entity, shared, pooled)
        tick()
        return made

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        found = dict(zip(case.train, pool.map(one, case.train), strict=True))
    return Outcome(
        overall=_figures(found[entity][0] for entity in found),
        smallest=_figures(found[entity][0] for entity in case.smallest),
        chosen=Counter(f"{made.kind} {made.strength:g}" for _, made in found.values()),
    )


def _fit(rows: sparse.csr_array, shared: ItemFactors | None, case: Case, strength: str = "auto") -> Adapted:
    setting = case.setting
    return adapt(
        rows,
        shared,
        feedback=setting.feedback,
        lower=setting.lower,
        bound=setting.bound,
        rank=setting.rank,
        seed=case.seed,
        threads=1,
        local="factors" if strength == "shared" else "auto",
        strength="shared" if strength == "shared" else "auto",
    )


def _entity(case: Case, entity: str, shared: ItemFactors, pooled: Adapted) -> tuple[dict[str, Measured], Adapted]:
    rows = case.train[entity]
    made = {
        "alone": _fit(rows, None, case),
        "shared only": _fit(rows, shared, case, "shared"),
        "adapted": _fit(rows, shared, case),
        "pooled": pooled,
    }
    some = slice(0, MOST_MEASURED)
    train, test, setting = rows[some], case.test[entity][some], case.setting
    figures = {
        way: measure(one.scorer.scores, train, test, lower=setting.lower, bound=setting.bound)
        for way, one in made.items()
    }
    counts, means = _popular(rows, setting.feedback)
    figures["popularity"] = measure(
        _constant(counts), train, test, lower=setting.lower, bound=setting.bound, predict=_constant(means)
    )
    return figures, made["adapted"]


def _popular(rows: sparse.csr_array, feedback: str) -> tuple[np.ndarray, np.ndarray]:
    """How much each item is used at an entity, and what it is rated on average."""
    items = rows.shape[1]
    if feedback == "counts":
        sums = np.bincount(rows.indices, rows.data, items)
        return sums, sums / max(rows.shape[0], 1)
    return np.bincount(rows.indices, minlength=items).astype(np.float64), rating_means(rows, None, 0.0)


def _constant(line: np.ndarray) -> Callable[[sparse.csr_array], np.ndarray]:
    return lambda rows: np.tile(line, (rows.shape[0], 1))


def _figures(entities: Iterable[dict[str, Measured]]) -> dict[str, dict[str, float]]:
    kept = list(entities)
    return {way: merged([one[way] for one in kept]).figures for way in WAYS}
