"""Factors, filters and seen items as the selection of top items wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = ["Seen", "allowed_items", "as_factors", "as_seen", "scores_in_range"]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Stored entries of a CSR matrix, and where each item stands among the allowed ones (-1: nowhere)."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    positions: NDArray[np.intp]


def as_factors(users: ArrayLike, items: ArrayLike) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Check both factors and bring them to one type; products are later scaled back by ``2**exponent``."""
    U, V = np.asarray(users), np.asarray(items)
    _require_same_rank(U, V)
    if U.dtype.kind not in "biuf" or V.dtype.kind not in "biuf":
        raise BadParameter("the factors are not real numbers.", found=f"dtypes {U.dtype} and {V.dtype}")
    single = U.dtype == V.dtype == np.float32
    U, user_exponent = _near_one(np.ascontiguousarray(U, dtype=np.float32 if single else np.float64))
    V, item_exponent = _near_one(np.ascontiguousarray(V, dtype=U.dtype))
    return U, V, user_exponent + item_exponent


def allowed_items(allowed: ArrayLike | None, n_items: int) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
    """Return the allowed items in order (None for all), and each item's position among them (-1: not allowed)."""
    if allowed is None:
        return None, np.arange(n_items)
    given = np.asarray(allowed)
    if given.dtype == np.bool_:
        if given.shape != (n_items,):
            raise BadShape("allowed has another length.", found=f"shape {given.shape}", expected=f"({n_items},)")
        chosen = np.flatnonzero(given)
    else:
        chosen = _item_numbers(given, n_items)
    positions = np.full(n_items, -1, np.intp)
    positions[chosen] = np.arange(chosen.size)
    return chosen, positions


def as_seen(exclude: Any, shape: tuple[int, int], positions: NDArray[np.intp]) -> Seen | None:
    """Check the matrix of seen items."""
    if exclude is None:
        return None
    if not hasattr(exclude, "tocsr"):
        raise BadParameter(
            "exclude is not a sparse matrix.", found=type(exclude).__name__, fix="scipy.sparse.csr_array(exclude)"
        )
    csr = exclude.tocsr()
    if csr.shape != shape:
        # The number of users is theirs to keep, so it is not repeated here.
        raise BadShape("exclude does not fit the factors.", expected=f"one row per user and {shape[1]} columns")
    indptr = np.ascontiguousarray(csr.indptr, dtype=np.int64)
    return Seen(indptr=indptr, indices=np.ascontiguousarray(csr.indices), positions=positions)


def scores_in_range(scores: NDArray[Any], exponent: int) -> NDArray[Any]:
    """Undo the scaling of the factors; minus infinity stays reserved for "no item"."""
    if exponent == 0:
        return scores
    largest = np.finfo(scores.dtype).max
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.clip(np.ldexp(scores, exponent), -largest, largest)
    return np.where(np.isneginf(scores), scores, scaled)


def _require_same_rank(U: NDArray[Any], V: NDArray[Any]) -> None:
    if U.ndim != 2 or V.ndim != 2:
        raise BadShape(
            "the factors are not matrices.",
            found=f"{U.ndim} and {V.ndim} dimensions",
            expected="(users, rank) and (items, rank)",
            fix="user_factors[None, :] for a single user",
        )
    if U.shape[1] != V.shape[1]:
        ranks = f"rank {U.shape[1]} and rank {V.shape[1]}"
        raise BadShape("user and item factors do not fit together.", found=ranks, expected="equal ranks")


def _item_numbers(given: NDArray[Any], n_items: int) -> NDArray[np.intp]:
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise BadParameter("allowed is not a filter.", expected="a bool per item, or a list of item numbers")
    if given.size and not (given.min() >= 0 and given.max() < n_items):
        raise BadParameter("allowed names an item that does not exist.", expected=f"numbers from 0 to {n_items - 1}")
    return np.unique(given).astype(np.intp)


def _near_one(factors: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Divide factors so huge or tiny that products might leave the type by a power of two, which is exact."""
    if not np.isfinite(factors).all():
        raise BadNumber("the factors hold NaN or infinity.", expected="finite numbers")
    exponent = int(np.frexp(np.abs(factors).max(initial=0))[1])
    if abs(exponent) <= np.finfo(factors.dtype).maxexp // 4:
        return factors, 0
    return np.ldexp(factors, -exponent), exponent
