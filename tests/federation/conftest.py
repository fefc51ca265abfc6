"""A small plan, messages of it, and item factors: enough to carry."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from twofold.federation.factors import ItemFactors, encode_factors
from twofold.federation.messages import encode_release
from twofold.federation.plan import CatalogKey, Plan


@pytest.fixture(scope="session")
def plan() -> Plan:
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=3),
        feedback="counts",
        bound=5,
        max_items=2,
        rank=2,
        mechanism="popularity",
    )


@pytest.fixture(scope="session")
def message(plan: Plan) -> Callable[..., bytes]:
    """Make a message of an entity; drawn anew at each call, so two calls give two different messages."""

    def make(entity: str = "st-anna", of: Plan = plan) -> bytes:
        drawn = of.release_mechanism.release(np.ones((4, of.n_items)), of.parameters)
        return encode_release(drawn.value, entity=entity, plan=of)

    return make


@pytest.fixture(scope="session")
def factors(plan: Plan) -> Callable[..., bytes]:
    def make(value: float = 1.0, of: Plan = plan) -> bytes:
        made = ItemFactors(
            plan=of.hash,
            catalog=of.catalog.hash,
            factors=np.full((of.n_items, 2), value, dtype=np.float32),
            moments=np.eye(2),
            means=np.ones(of.n_items),
            support=np.ones(of.n_items),
            users=9.0,
            entities=1,
            private=True,
        )
        return encode_factors(made, of)

    return make
