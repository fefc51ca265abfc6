"""Small models of every kind for the tests of an entity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.model import Model
from twofold.entity.models.blend import Scorer
from twofold.entity.models.confidence import confident_factors
from twofold.entity.models.factors import FactorScorer
from twofold.entity.models.ials import IalsFit
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.ridge import weights_from_gram, weights_from_rows
from twofold.entity.models.sparse_items import SparseItemFit
from twofold.entity.models.stack import StackScorer
from twofold.federation.plan import Plan

N_USERS, N_ITEMS, RANK = 40, 30, 4
KINDS = (
    "factors",
    "item-item",
    "item-item of few rows",
    "ials",
    "confidence",
    "sparse-item-item",
    "stack",
    "popularity",
)
MakeModel = Callable[..., Model]


def _counts() -> sparse.csr_array:
    rng = np.random.default_rng(5)
    counts = rng.poisson(rng.gamma(0.5, 0.8, (1, N_ITEMS)), (N_USERS, N_ITEMS)).astype(np.float32)
    counts[7] = 0  # somebody without an entry
    counts[8] = 1  # somebody who has had everything
    counts[9, 0] = 40  # far above the bound
    return sparse.csr_array(counts)


def _scorer(kind: str, rows: np.ndarray, feedback: str) -> Scorer:
    if kind == "factors":
        factors = np.random.default_rng(6).gamma(1.0, 1.0, (N_ITEMS, RANK))
        return FactorScorer(factors, feedback=feedback, cold_start=rows.mean(axis=0))
    if kind == "ials":
        return IalsFit(sparse.csr_array(rows), threads=1).scorer(rank=RANK)
    if kind == "confidence":
        return confident_factors(sparse.csr_array(rows), rank=RANK, threads=1)
    if kind == "sparse-item-item":
        return SparseItemFit(sparse.csr_array(rows), threads=1).scorer(ridge=1.0, neighbours=8)
    if kind in ("stack", "popularity"):
        inner = _scorer("item-item", rows, feedback) if kind == "stack" else None
        return StackScorer(np.log(rows.mean(axis=0) + 0.01), inner=inner, weights=(0.5, 1.0))
    ridge = np.full(N_ITEMS, 2.0)
    made = weights_from_gram(rows.T @ rows, ridge) if kind == "item-item" else weights_from_rows(rows[:12], ridge)
    return ItemItemScorer(made, means=rows.mean(axis=0), feedback=feedback, shrinkage=1.0)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind of local model, in turn."""
    return str(request.param)


@pytest.fixture
def make_model() -> MakeModel:
    """A function that makes a model of 40 users and 30 items."""

    def make(kind: str = "factors", *, feedback: str = "counts", users: Any = None, **changes: Any) -> Model:
        catalog = changes.pop("catalog", None) or Catalog([f"item-{at}" for at in range(N_ITEMS)])
        matrix = changes.pop("matrix", None)
        matrix = _counts() if matrix is None else matrix
        names = users if users is not None else [f"user-{at}" for at in range(matrix.shape[0])]
        bounded = np.clip(_counts().toarray(), 0, 5)
        parts: dict[str, Any] = {
            "entity": "st-anna",
            "catalog": catalog,
            "history": Ratings(matrix, Identifiers(names), catalog, feedback),  # type: ignore[arg-type]
            "scorer": _scorer(kind, bounded, feedback),
            "plan": Plan(catalog=catalog, feedback=feedback, bound=5, max_items=20, rank=RANK),  # type: ignore[arg-type]
            "factors_hash": "ab" * 32,
            "private": True,
            "strength": 0.25,
            "note": "item-item was 3% better",
            "validation": ({"kind": kind, "gain": 0.03},),
        }
        return Model(**{**parts, **changes})

    return make
