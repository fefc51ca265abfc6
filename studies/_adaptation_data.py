"""The federations that adaptation is measured on, their public numbers, and what a server makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy import sparse

from twofold.data.bounds import Bounds
from twofold.data.federation import Federation
from twofold.data.sources import hospitals, movielens
from twofold.data.split import leave_n_out
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.release.choose import mechanism
from twofold.server.rows import factorize_rows

__all__ = ["SETTINGS", "Case", "Setting", "load_case", "shared_factors"]

Matrices = Mapping[str, sparse.csr_array]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Public numbers of a data set, chosen beforehand; none of them was tuned on what is reported."""

    feedback: Literal["counts", "ratings"]
    lower: float
    bound: float
    max_items: int
    n_prototypes: int
    rank: int = 20
    held_out: int = 5


SETTINGS: Final[dict[str, Setting]] = {
    "movielens-zip1": Setting(feedback="ratings", lower=1, bound=5, max_items=4_000, n_prototypes=50),
    "movielens-zip3": Setting(feedback="ratings", lower=1, bound=5, max_items=4_000, n_prototypes=3),
    "hospitals": Setting(feedback="counts", lower=0, bound=5, max_items=457, n_prototypes=10),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One federation, split: training and test entries of every entity."""

    name: str
    setting: Setting
    train: Matrices
    test: Matrices
    plan: Plan
    seed: int

    @property
    def smallest(self) -> list[str]:
        """The quarter of the entities with the fewest users; equal sizes in the order of their names."""
        order = sorted(self.train, key=lambda entity: (self.train[entity].shape[0], entity))
        return order[: max(1, len(order) // 4)]


def load_case(name: str, *, seed: int, scale: float = 0.05) -> Case:
    """Read or simulate a federation, cut its values to the bounds and hold out entries of every user.

    Examples
    --------
    >>> case = load_case("hospitals", seed=0, scale=0.01)
    >>> sorted(case.train) == sorted(case.test), len(case.smallest)
    (True, 1)
    """
    setting = SETTINGS[name]
    federation = _federation(name, seed, scale)
    bounds = Bounds(bound=setting.bound, lower=setting.lower)
    federation = Federation({entity: bounds.apply(ratings)[0] for entity, ratings in federation.items()})
    split = leave_n_out(federation, n=setting.held_out, rng=seed)
    return Case(
        name=name,
        setting=setting,
        train={entity: _rows(ratings.matrix) for entity, ratings in split.train.items()},
        test={entity: _rows(ratings.matrix) for entity, ratings in split.test.items()},
        plan=_plan(federation, setting),
        seed=seed,
    )


def shared_factors(case: Case) -> ItemFactors:
    """What a server sends back when every entity's message holds its exact k-means prototypes: not private."""
    made, public = mechanism("kmeans"), case.plan.parameters
    messages = (made.release(rows, public, rng=number).value for number, rows in enumerate(case.train.values()))
    found = factorize_rows(made.combine(messages, public), case.plan)
    return ItemFactors(
        plan=case.plan.hash,
        catalog=case.plan.catalog.hash,
        factors=found.factors.astype(np.float32),
        moments=found.moments,
        means=found.means,
        support=found.support,
        users=found.users,
        entities=len(case.train),
        private=False,
        note=found.note,
    )


def _federation(name: str, seed: int, scale: float) -> Federation:
    if name == "hospitals":
        return hospitals.load(scale, rng=seed)
    return movielens.load(entity="zip1" if name.endswith("zip1") else "zip3")


def _rows(matrix: sparse.csr_array) -> sparse.csr_array:
    single: sparse.csr_array = matrix.astype(np.float32)
    return single


def _plan(federation: Federation, setting: Setting) -> Plan:
    return Plan(
        catalog=federation.catalog,
        feedback=setting.feedback,
        lower=setting.lower,
        bound=setting.bound,
        max_items=min(setting.max_items, len(federation.catalog)),
        n_prototypes=setting.n_prototypes,
        rank=setting.rank,
        mechanism="kmeans",
        n_entities=len(federation),
        simulation=True,
    )
