"""What a local model is fitted to out of core: sums over all people, and the rows of some.

The use of every item and the products of items are added up over *all* people; the rows of `SAMPLE` people are held,
and by their hidden entries the model is chosen and weighed. Who these are is decided by a hash of their ids and the
plan's public seed, so neither the order of the rows nor their cut into batches matters. For the same reason sums are of
whole numbers: rows are rounded to 2^-16, far finer than what so many people can tell. Round 2 is local, so the choice
of a sample costs no privacy. An entity of no more than `SAMPLE` people is in the sample as a whole, and gets the very
model that it gets in memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import row_range, with_data
from twofold.data.bounds import Bounds, mixed
from twofold.data.catalog import Identifiers
from twofold.data.ratings import Ratings
from twofold.data.scan import Scan
from twofold.entity.models.factors import POWER, damped_rows
from twofold.entity.models.item_item import MAX_ITEMS
from twofold.entity.models.side import Rest, gram_of, unit_rows
from twofold.federation.plan import Plan
from twofold.release.clamp import ExactSum, Sums, joined

__all__ = ["SAMPLE", "OwnPeople", "own_part", "own_people"]

#: People whose rows are held in memory in round 2.
SAMPLE: Final = 20_000
#: Of a row of norm 1, and of a damped entry of the largest size.
_BITS: Final = 16
#: People whose products are added up in doubles, which are exact below 2^53.
_AT_ONCE: Final = 1 << 20
#: Beyond any sum of this many people.
_LIMIT: Final = 2**61


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnPeople:
    """What a local model is fitted to out of core. Private.

    Attributes
    ----------
    sample : Ratings
        Rows of some people, cut to the plan's values, in the order of their ids.
    rest : Rest or None
        Sums over everybody else; None if there is nobody else, or if a model of ratings is fitted, which needs rows.
    words : str
        What of this a model's note says.
    """

    sample: Ratings = field(repr=False)
    rest: Rest | None = field(repr=False)
    words: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnPart:
    """The same of one part of the users: exact sums, and those of them with the smallest hashes."""

    users: int
    sums: Sums
    keys: NDArray[np.uint64]
    people: Ratings


def own_people(ratings: Scan, plan: Plan, *, sample: int = SAMPLE) -> OwnPeople:
    """Gather what a local model is fitted to, in one pass.

    Parameters
    ----------
    ratings : Scan
        Private.
    plan : Plan
        Bounds, seed and kind of feedback.
    sample : int
        People whose rows are held.
    """
    parts = list(ratings.parts(partial(own_part, plan, sample)))
    total = joined(part.sums for part in parts)
    users = sum(part.users for part in parts)
    kept = _fewest([(part.keys, part.people) for part in parts], sample)[1] if users else ratings.nobody()
    if users <= kept.n_users:
        return OwnPeople(sample=kept, rest=None)
    if plan.feedback == "ratings":
        words = f"; fitted to {kept.n_users:,} of {users:,} people, chosen by a hash of their ids"
        return OwnPeople(sample=kept, rest=None, words=words)
    words = f"; sums over {users:,} people, chosen and weighed by {kept.n_users:,} of them"
    return OwnPeople(sample=kept, rest=_rest(total, _sums([kept], plan), users - kept.n_users, plan), words=words)


def own_part(plan: Plan, sample: int, batches: Iterable[Ratings]) -> OwnPart:
    """Sums over one part of the users, and those of them who may be in the sample. Pure.

    Examples
    --------
    >>> rows = Ratings.from_matrix(sparse.csr_array([[9.0, 1.0, 0.0], [0.0, 2.0, 2.0]]))
    >>> plan = Plan(catalog=rows.catalog, feedback="counts", bound=5, max_items=2, mechanism="popularity")
    >>> part = own_part(plan, 1, [rows])
    >>> part.users, part.people.n_users
    (2, 1)
    """
    values = Bounds(bound=plan.bound, lower=plan.lower)
    held: list[tuple[NDArray[np.uint64], Ratings]] = []
    sums, users, room, limit = _sums([], plan), 0, 0, None
    for batch in batches:
        cut = values.apply(batch)[0]
        users += cut.n_users
        sums = joined([sums, _sums([cut], plan)])
        keys = _keys(cut.user_ids, plan.seed)
        if limit is not None:  # nobody above the largest key of a full sample gets in
            low = np.flatnonzero(keys < limit)
            keys, cut = keys[low], cut.take(low)
        held.append((keys, cut))
        room += cut.n_users
        if room > 2 * sample:
            held = [_fewest(held, sample)]
            room, limit = sample, held[0][0].max()
    empty = Ratings.from_matrix(sparse.csr_array((0, plan.n_items), dtype=np.float32))
    keys, people = _fewest(held, sample) if held else (np.zeros(0, np.uint64), empty)
    return OwnPart(users=users, sums=sums, keys=keys, people=people)


def _fewest(held: list[tuple[NDArray[np.uint64], Ratings]], most: int) -> tuple[NDArray[np.uint64], Ratings]:
    """The people with the smallest keys, in the order of their ids."""
    filled = [one for one in held if one[1].n_users] or held[:1]
    keys = np.concatenate([one for one, _ in filled])
    first = filled[0][1]
    ids = pl.concat([people.user_ids.to_polars() for _, people in filled])
    matrix: Any = sparse.vstack([people.matrix for _, people in filled], format="csr")
    chosen = np.argsort(keys, kind="stable")[:most]
    chosen = chosen[ids[chosen].arg_sort().to_numpy()]
    rows = sparse.csr_array(matrix)[chosen]
    rows.has_canonical_format = True
    return keys[chosen], Ratings(rows, Identifiers(ids[chosen]), first.catalog, first.feedback)


def _keys(ids: Identifiers, seed: int) -> NDArray[np.uint64]:
    """A number for every person, from the public seed and their id alone."""
    prefix = f"twofold sample {seed} ".encode()
    series = ids.to_polars()
    if series.dtype.is_integer():
        salt = np.frombuffer(hashlib.blake2b(prefix, digest_size=8).digest(), "<u8")
        return mixed(series.cast(pl.Int64).to_numpy().view(np.uint64) ^ salt)
    keys = (hashlib.blake2b(prefix + text.encode(), digest_size=8).digest() for text in ids.texts())
    return np.frombuffer(b"".join(keys), "<u8")


def _sums(batches: list[Ratings], plan: Plan) -> Sums:
    """Entries, use, squares, and products of unit and damped rows, in whole numbers."""
    items = plan.n_items
    square = (items, items) if plan.feedback == "counts" and items <= MAX_ITEMS else (0, 0)
    entries, use, squares = ExactSum(1), ExactSum(items), ExactSum(1)
    unit, damped = ExactSum(square), ExactSum(square)
    cut = ((batch.matrix, at) for batch in batches for at in range(0, batch.n_users, _AT_ONCE))
    for matrix, at in cut:
        rows = row_range(matrix, at, min(at + _AT_ONCE, matrix.shape[0]))
        most = rows.shape[0] << 2 * _BITS
        entries.add(np.array([rows.nnz]), most=rows.nnz + 1)
        fine = _whole(unit_rows(rows), float(1 << _BITS))
        coarse = _whole(damped_rows(rows, POWER["counts"]), _scale(plan))
        use.add(np.bincount(fine.indices, fine.data, items).astype(np.int64), most=most)
        squares.add(np.array([int((coarse.data.astype(np.int64) ** 2).sum())]), most=(rows.nnz + 1) << 2 * _BITS)
        if square[0]:
            unit.add(gram_of(fine).astype(np.int64), most=most)
            damped.add(gram_of(coarse).astype(np.int64), most=most)
    return entries, use, squares, unit, damped


def _whole(rows: sparse.csr_array, scale: float) -> sparse.csr_array:
    return with_data(rows, np.rint(rows.data.astype(np.float64) * scale))


def _scale(plan: Plan) -> float:
    """Steps in a damped entry of size 1, a power of two: the largest entry has at most `_BITS` bits."""
    largest = max(abs(plan.bound), abs(plan.lower)) ** POWER["counts"]
    return math.ldexp(1.0, _BITS - math.frexp(largest)[1])


def _rest(total: Sums, sample: Sums, users: int, plan: Plan) -> Rest:
    entries, use, squares, unit, damped = (
        (one.held(_LIMIT) - other.held(_LIMIT)).astype(np.float64) for one, other in zip(total, sample, strict=True)
    )
    scale, one = _scale(plan), float(1 << _BITS)
    known = unit.size > 0
    return Rest(
        users=users,
        entries=int(entries[0]),
        use=use / one,
        unit_gram=unit / one**2 if known else None,
        damped_gram=damped / scale**2 if known else None,
        squares=float(squares[0]) / scale**2,
    )
