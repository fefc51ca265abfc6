"""Round 2 at an entity: users given frozen item factors, and the local model drawn towards them. Nothing leaves."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms._nmf_entries import COUNT_SCALING, REGULARIZATION, ZERO_WEIGHT
from twofold.algorithms.fold_in import FoldIn
from twofold.csr import row_range
from twofold.data.bounds import Bounds
from twofold.data.ratings import Ratings
from twofold.entity.adapt import Local, adapt
from twofold.entity.model import Model
from twofold.errors import BadParameter, BadShape, NotForRealUse, PlanMismatch, ProtocolError
from twofold.federation.factors import ItemFactors
from twofold.federation.messages import decode_factors, load_factors
from twofold.federation.plan import Plan

__all__ = ["fitted_model", "read_factors", "user_factors"]

#: Users fitted at once: enough to keep every processor busy, few enough to stay far below the ratings in memory.
BLOCK = 65_536


def user_factors(
    rows: sparse.csr_array,
    factors: ItemFactors,
    *,
    feedback: Literal["counts", "ratings"],
    zero_weight: float = ZERO_WEIGHT,
    regularization: float = REGULARIZATION,
    count_scaling: float = COUNT_SCALING,
    block: int = BLOCK,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Fit every user to the shared item factors, which stay as they came.

    Parameters
    ----------
    rows : csr array (users, items)
        Private: what each user gave.
    factors : ItemFactors
        What the server published.
    feedback, zero_weight, regularization, count_scaling
        As for `fold_in`.
    block : int
        Users fitted at once. The result does not depend on it.
    threads : int, optional
        All processors by default. The result does not depend on it.

    Returns
    -------
    float32 array (users, rank)
        Zeros for a user without entries.

    Raises
    ------
    FactorsChanged
        The item factors are not the same afterwards.

    Paper
    -----
    Algorithm 2, line 6: Û_h given V̂.

    Privacy
    -------
    Reads what was released and what the entity holds; sends nothing, so costs nothing, as often as it is done.

    Examples
    --------
    >>> shared = ItemFactors(
    ...     plan="0" * 64, catalog="0" * 64, factors=np.eye(2, dtype=np.float32), moments=np.eye(2),
    ...     means=np.zeros(2), support=np.ones(2), users=2.0, entities=1, private=True,
    ... )
    >>> rows = sparse.csr_array(np.array([[4.0, 0.0], [0.0, 3.0]]))
    >>> user_factors(rows, shared, feedback="ratings", regularization=0.0).tolist()
    [[4.0, 0.0], [0.0, 3.0]]
    """
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise BadParameter("block is out of range.", found=f"{block!r:.40}", expected="a whole number from 1")
    if rows.shape[1] != factors.n_items:
        raise BadShape(
            "ratings and item factors do not have the same items.",
            found=f"{rows.shape[1]:,} and {factors.n_items:,} items",
        )
    before = factors.hash
    ready = FoldIn(
        factors.factors,
        feedback=feedback,
        zero_weight=zero_weight,
        regularization=regularization,
        count_scaling=count_scaling,
    )
    result = np.empty((rows.shape[0], factors.rank), np.float32)
    for start in range(0, rows.shape[0], block):
        result[start : start + block] = ready.rows(row_range(rows, start, start + block), threads=threads)
    factors.check_unchanged(before)
    return result


def read_factors(factors: ItemFactors | bytes | str | PathLike[str], plan: Plan) -> ItemFactors:
    """Take item factors as they come and check that they belong to the plan.

    Parameters
    ----------
    factors : ItemFactors, bytes or path
        What the server published.
    plan : Plan
        What was agreed.
    """
    found = _decoded(factors, plan)
    if (found.plan, found.catalog) != (plan.hash, plan.catalog.hash):
        other = "plan" if found.catalog == plan.catalog.hash else "catalog"
        raise PlanMismatch(
            f"these item factors belong to another {other}.",
            found=f"plan {found.plan[:12]}, catalog {found.catalog[:12]}",
            expected=f"plan {plan.hash[:12]}, catalog {plan.catalog.hash[:12]}",
            fix="ask the server for the factors of this plan, or use the plan they were made with",
        )
    if found.n_items != plan.n_items or found.rank > plan.rank:  # a lower rank: too few prototypes came in for more
        raise PlanMismatch(
            "these item factors do not have the plan's size.",
            found=f"{found.n_items:,} items, rank {found.rank}",
            expected=f"{plan.n_items:,} items, rank at most {plan.rank}",
        )
    if not found.private and not plan.simulation:
        raise NotForRealUse(
            "these item factors were made with something that is not private.",
            expected="factors made of messages with a proof, as the plan says",
            fix="ask the server how they were made; Plan(..., simulation=True) is for simulations",
        )
    return found


def _decoded(factors: ItemFactors | bytes | str | PathLike[str], plan: Plan) -> ItemFactors:
    if isinstance(factors, ItemFactors):
        return factors
    if isinstance(factors, bytes | bytearray | memoryview):
        return decode_factors(bytes(factors), plan)
    if isinstance(factors, str | PathLike):
        return load_factors(Path(factors), plan)
    raise ProtocolError(
        "not item factors.", found=f"a {type(factors).__name__}", expected="ItemFactors, their bytes, or a path"
    )


def fitted_model(
    name: str,
    ratings: Ratings,
    plan: Plan,
    factors: ItemFactors | bytes | str | PathLike[str],
    *,
    local: Local = "auto",
    strength: float | Literal["auto", "own", "shared"] = "auto",
    threads: int | None = None,
) -> Model:
    """Draw a local model towards the shared factors; see `Entity.personalize`.

    Privacy
    -------
    Values are cut to the plan's bounds, so that the local model and the shared factors speak of the same numbers. The
    number of items is not cut: nothing leaves.
    """
    shared = read_factors(factors, plan)
    before = shared.hash
    history = Bounds(bound=plan.bound, lower=plan.lower).apply(ratings)[0]
    adapted = adapt(
        history.matrix,
        shared,
        feedback=plan.feedback,
        lower=plan.lower,
        bound=plan.bound,
        local=local,
        strength=strength,
        rank=plan.rank,
        seed=plan.seed,
        threads=threads,
        features=plan.features_table,
    )
    shared.check_unchanged(before)
    return Model(
        entity=name,
        catalog=ratings.catalog,
        history=history,
        scorer=adapted.scorer,
        plan=plan,
        factors_hash=before,
        private=shared.private,
        strength=adapted.strength,
        note=adapted.note,
        validation=tuple(adapted.table),
    )
