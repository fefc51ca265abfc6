"""The best items of every user, exactly: from factors in blocks of bounded memory, or from scores."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms import _reference, _top_items_kernels
from twofold.algorithms._checks import finite, whole_number
from twofold.algorithms._jit import Workers, numba_enabled, one_blas_thread
from twofold.errors import BadParameter, BadShape

__all__ = ["TopItems", "best_of_block", "kernels", "top_items", "top_scores"]

SCORE_BYTES = 1 << 20  # scores of one block; more leave the second-level cache before they are read
FEW = 48  # up to here a sorted list of the best so far beats a partition of all scores
PARTS = 16  # blocks are shared out in this many parts, whatever the number of threads


class TopItems(NamedTuple):
    """`items` and `scores`, both users x n, best first."""

    items: NDArray[np.intp]
    scores: NDArray[Any]


def top_items(
    user_factors: ArrayLike,
    item_factors: ArrayLike,
    n: int = 10,
    *,
    exclude: Any = None,
    allowed: ArrayLike | None = None,
    block_size: int | None = None,
    threads: int | None = None,
) -> TopItems:
    """Return for each user the `n` items with the largest product of factors.

    Parameters
    ----------
    user_factors : array of shape (n_users, rank)
        One line per user; ``U[[7]]`` for one user.
    item_factors : array of shape (n_items, rank)
        One line per item. float32 if both factors are, else float64.
    n : int
        Items per user.
    exclude : sparse matrix of shape (n_users, n_items), optional
        Items a user has seen: every stored entry is left out, whatever its value.
    allowed : bool array of shape (n_items,) or array of item numbers, optional
        The only items to choose from, for all users.
    block_size : int, optional
        Users scored at once. Beside the result, memory for `block_size` x items scores per thread is needed (twice
        that for n above 48); by default about 1 MB.
    threads : int, optional
        Threads to use, all processors when not given. The result does not depend on it.

    Returns
    -------
    TopItems
        Named tuple of `items` and `scores`, shape (n_users, n), best first; equal scores are ordered by item
        number. Where fewer than `n` items remain, item -1 with score minus infinity fills the line.

    Notes
    -----
    Scores come from one matrix product per block; seen items are set to minus infinity in it. For small `n` the
    largest score of every 16 neighbours is found first, the n-th largest of those is a floor, and only groups
    that reach the floor are looked into; for large `n` a partition finds the n-th score of each user.
    Scores are the floating-point products of the factors; scores beyond the type's range are its largest number.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> U, V = [[1.0, 0.0], [1.0, 1.0]], [[3.0, 0.0], [1.0, 4.0], [3.0, 9.0]]
    >>> top_items(U, V, n=2).items.tolist()
    [[0, 2], [2, 1]]
    >>> seen = sp.csr_array([[1, 0, 0], [0, 1, 1]])
    >>> items, scores = top_items(U, V, n=2, exclude=seen)
    >>> items.tolist(), scores.tolist()
    ([[2, 1], [0, -1]], [[3.0, 1.0], [3.0, -inf]])
    """
    n = whole_number("n", n)
    U, V, exponent = as_factors(user_factors, item_factors)
    chosen, positions = allowed_items(allowed, len(V))
    columns = np.ascontiguousarray((V if chosen is None else V[chosen]).T)
    selection = _Selection(U, columns, as_seen(exclude, (len(U), len(V)), positions), n, kernels())
    items = np.full((len(U), n), -1, np.intp)
    scores = np.full((len(U), n), -np.inf, U.dtype)
    if columns.shape[1]:
        selection.fill(items, scores, _block(block_size, columns), threads)
    if chosen is not None and chosen.size:
        items = np.where(items >= 0, chosen[items], -1)
    return TopItems(items, scores_in_range(scores, exponent))


@dataclass(frozen=True)
class _Selection:
    """Everything one block of users needs."""

    users: NDArray[Any]
    columns: NDArray[Any]  # item factors, one item per column
    seen: Seen | None
    n: int
    kernels: ModuleType

    def fill(self, items: NDArray[np.intp], scores: NDArray[Any], block: int, threads: int | None) -> None:
        n_users = len(self.users)
        part = max(block, -(-n_users // (PARTS * block)) * block)

        def fill_part(number: int) -> None:
            first, last = number * part, min(n_users, (number + 1) * part)
            scratch = np.empty((min(block, last - first), self.columns.shape[1]), self.users.dtype)
            for start in range(first, last, block):
                span = slice(start, min(last, start + block))
                self._fill_block(span, scratch[: span.stop - start], items[span], scores[span])

        with Workers(threads) as workers, one_blas_thread():
            workers.run(fill_part, -(-n_users // part))

    def _fill_block(self, span: slice, block: NDArray[Any], items: NDArray[np.intp], scores: NDArray[Any]) -> None:
        np.matmul(self.users[span], self.columns, out=block)
        if self.seen is not None:
            indptr = self.seen.indptr[span.start : span.stop + 1]
            self.kernels.hide(block, indptr, self.seen.indices, self.seen.positions)
        if self.n <= FEW:
            self.kernels.select_few(block, items, scores)
        else:
            self._fill_many(block, items, scores)

    def _fill_many(self, block: NDArray[Any], items: NDArray[np.intp], scores: NDArray[Any]) -> None:
        nth = block.shape[1] - self.n
        floors = np.partition(block, nth, axis=1)[:, nth] if nth > 0 else np.full(len(block), -np.inf, block.dtype)
        self.kernels.collect(block, np.ascontiguousarray(floors), items, scores)
        (_sort_packed if scores.dtype == np.float32 else _sort_stable)(items, scores)


def _sort_stable(items: NDArray[np.intp], scores: NDArray[Any]) -> None:
    """Order lines of ascending items by falling score; equal scores keep their order."""
    order = np.argsort(-scores, axis=1, kind="stable")
    items[:] = np.take_along_axis(items, order, axis=1)
    scores[:] = np.take_along_axis(scores, order, axis=1)


def _sort_packed(items: NDArray[np.intp], scores: NDArray[Any]) -> None:
    """Do the same for float32 by sorting integers, score above and item below, which is several times faster."""
    bits = (0 - scores).view(np.int32)  # a positive float32 orders like its bits; of a negative one they are turned
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) << 32 | (items & 0xFFFFFFFF)
    keys.sort(axis=1)
    high = (keys >> 32).astype(np.int32)
    items[:] = keys.astype(np.int32)
    scores[:] = 0 - (high ^ ((high >> 31) & 0x7FFFFFFF)).view(np.float32)


def kernels() -> ModuleType:
    """Return the kernels, or their references where numba is switched off."""
    return _top_items_kernels if numba_enabled() else _reference


def _block(asked: int | None, columns: NDArray[Any]) -> int:
    """Users per block, from public sizes only."""
    if asked is None:
        return int(max(8, min(1024, SCORE_BYTES // (columns.shape[1] * columns.itemsize))))
    return whole_number("block_size", asked)


def top_scores(scores: ArrayLike, n: int = 10, *, exclude: Any = None, allowed: ArrayLike | None = None) -> TopItems:
    """Return for each line of scores its `n` best items; as `top_items` does for products of factors.

    Parameters
    ----------
    scores : array of shape (n_users, n_items)
        Finite; the caller gives blocks of users that fit in memory. Not changed.
    n, exclude, allowed
        As for `top_items`.

    Returns
    -------
    TopItems
        As `top_items` does: best first, equal scores by item number, item -1 where fewer than `n` remain.

    Examples
    --------
    >>> top_scores(np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]), 2).items.tolist()
    [[1, 2], [0, 2]]
    """
    n = whole_number("n", n)
    given = np.asarray(scores)
    if given.ndim != 2 or given.dtype.kind != "f":
        raise BadShape(
            "{parameter} is not a matrix of real numbers.",
            expected="one line per user, one column per item",
            parameter="scores",
        )
    finite("scores", given)
    chosen, positions = allowed_items(allowed, given.shape[1])
    block = np.array(given if chosen is None else given[:, chosen], order="C")
    seen = as_seen(exclude, (given.shape[0], given.shape[1]), positions)
    if seen is not None and block.size:
        kernels().hide(block, seen.indptr, seen.indices, seen.positions)
    found = best_of_block(block, n)
    if chosen is not None and chosen.size:
        return TopItems(np.where(found.items >= 0, chosen[found.items], -1), found.scores)
    return found


def best_of_block(block: NDArray[Any], n: int) -> TopItems:
    """Return the `n` best of each line; a score of minus infinity is never listed."""
    items = np.full((len(block), n), -1, np.intp)
    values = np.full((len(block), n), -np.inf, block.dtype)
    if block.size:  # the compiled insertion is made for short lists
        (kernels() if n <= FEW else _reference).select_few(block, items, values)
    return TopItems(items, values)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Stored entries of a CSR matrix, and the position of each item among the allowed ones (-1: not allowed)."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    positions: NDArray[np.intp]


def as_factors(users: ArrayLike, items: ArrayLike) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Check both factors and bring them to one type; products are later scaled back by ``2**exponent``."""
    U, V = np.asarray(users), np.asarray(items)
    _require_same_rank(U, V)
    if U.dtype.kind not in "biuf" or V.dtype.kind not in "biuf":
        raise BadParameter(
            "the factors are not real numbers.", found=f"dtypes {U.dtype} and {V.dtype}", parameter="factors"
        )
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
            raise BadShape(
                "{parameter} has the wrong length.",
                found=f"shape {given.shape}",
                expected=f"({n_items},)",
                parameter="allowed",
            )
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
            "{parameter} is not a sparse matrix.",
            found=type(exclude).__name__,
            fix="scipy.sparse.csr_array(exclude)",
            parameter="exclude",
        )
    csr = exclude.tocsr()
    if csr.shape != shape:
        # The number of users is theirs to keep, so it is not repeated here.
        raise BadShape(
            "{parameter} does not match the factors.",
            expected=f"one row per user and {shape[1]} columns",
            parameter="exclude",
        )
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
            parameter="factors",
        )
    if U.shape[1] != V.shape[1]:
        ranks = f"rank {U.shape[1]} and rank {V.shape[1]}"
        raise BadShape("user and item factors do not match.", found=ranks, expected="equal ranks", parameter="rank")


def _item_numbers(given: NDArray[Any], n_items: int) -> NDArray[np.intp]:
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise BadParameter(
            "{parameter} is not a filter.", expected="a bool per item, or a list of item numbers", parameter="allowed"
        )
    if given.size and not (given.min() >= 0 and given.max() < n_items):
        raise BadParameter(
            "{parameter} names an item that does not exist.",
            expected=f"numbers from 0 to {n_items - 1}",
            parameter="allowed",
        )
    return np.unique(given).astype(np.intp)


def _near_one(factors: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Divide factors so huge or tiny that products might leave the type by a power of two, which is exact."""
    finite("factors", factors)
    exponent = int(np.frexp(np.abs(factors).max(initial=0))[1])
    if abs(exponent) <= np.finfo(factors.dtype).maxexp // 4:
        return factors, 0
    return np.ldexp(factors, -exponent), exponent
