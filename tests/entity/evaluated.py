"""A small federation of counts, or of ratings, whose models tests evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.entity.model import Model
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.simulation.run import simulate

ITEMS = 40
CATALOG = Catalog([f"item-{number}" for number in range(ITEMS)])


@dataclass(frozen=True, kw_only=True)
class Made:
    """A plan, what everybody has, what the server sent, and the models."""

    plan: Plan
    federation: Federation
    factors: ItemFactors
    models: dict[Any, Model]


def people(number: int, seed: int, *, feedback: str = "counts") -> Ratings:
    """People of three tastes; everyone has at least two entries."""
    rng = np.random.default_rng(seed)
    tastes = np.random.default_rng(99).gamma(0.3, 1.0, (ITEMS, 3))
    drawn = rng.poisson(rng.gamma(0.4, 1.0, (number, 3)) @ tastes.T) + 0.0
    drawn[:, :2] += 1
    values = np.clip(drawn, 0, 5)
    names = Identifiers([f"p{seed}-{at}" for at in range(number)])
    return Ratings(sparse.csr_array(values.astype(np.float32)), names, CATALOG, feedback)  # type: ignore[arg-type]


@cache
def federation(*sizes: int, feedback: str = "counts", mechanism: str = "gram", epsilon: float = 30.0) -> Made:
    """Simulate a federation of entities with so many people."""
    given = Federation({f"e{at}": people(number, at + 1, feedback=feedback) for at, number in enumerate(sizes)})
    plan = Plan(
        catalog=CATALOG,
        feedback=feedback,  # type: ignore[arg-type]
        bound=5,
        max_items=20,
        rank=3,
        mechanism=mechanism,
        epsilon=epsilon,
        n_entities=len(sizes),
        n_users=min(sizes),
        simulation=True,
    )
    done = simulate(given, plan, rng=0)
    return Made(plan=plan, federation=given, factors=done.factors, models=dict(done.models))
