"""Train and test: entries held out from users, never a user's last one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from twofold.checks import whole
from twofold.csr import keep_entries
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.errors import DataError

__all__ = ["Split", "holdout", "leave_n_out", "recorded_holdout"]

Mask = npt.NDArray[np.bool_]
Seed = int | np.random.Generator | np.random.SeedSequence | None
Data = TypeVar("Data", Ratings, Federation)


@dataclass(frozen=True, kw_only=True)
class Split(Generic[Data]):
    """Two tables over the same users and items that share no entry."""

    train: Data
    test: Data


def holdout(data: Data, *, users: float = 0.2, entries: int = 5, rng: Seed = None) -> Split[Data]:
    """Hold out some entries of some users.

    Paper
    -----
    Section 5.4: 20% of the users, five entries of each.

    Deviations
    ----------
    A user with five entries or fewer keeps one, so that everyone can still be fitted.

    Parameters
    ----------
    data : Ratings or Federation
        A federation is split entity by entity; each draw depends on the seed and the entity's name only.
    users : float, default 0.2
        Share of the users to take entries from.
    entries : int, default 5
        Entries to take from each.
    rng : int, Generator, SeedSequence or None
        Seed (SPEC 7); None draws a fresh one.

    Examples
    --------
    >>> from twofold.data.catalog import Catalog
    >>> from twofold.data.catalog import Identifiers
    >>> from scipy import sparse
    >>> matrix = sparse.csr_array(np.ones((10, 8)))
    >>> ratings = Ratings(matrix, Identifiers(range(10)), Catalog(range(8)), "ratings")
    >>> split = holdout(ratings, rng=0)
    >>> split.train.n_entries, split.test.n_entries
    (70, 10)
    """
    _check_share("users", users)
    _check_count("entries", entries)

    def choose(lengths: npt.NDArray[np.int64], rng: np.random.Generator) -> Mask:
        return _some_of_each(_quota(lengths, _some_users(lengths, users, rng), entries), lengths, rng)

    return _split(data, choose, rng)


def recorded_holdout(data: Data, *, users: float = 0.1, probability: float = 0.2, rng: Seed = None) -> Split[Data]:
    """Hold out the way the paper's recorded experiments did.

    Paper
    -----
    Not in the text: the recorded MovieLens runs took 10% of the users and each of their ratings with probability 0.2.

    Deviations
    ----------
    A user all of whose entries were drawn keeps one of them.

    Parameters
    ----------
    data : Ratings or Federation
        A federation is split entity by entity.
    users : float, default 0.1
        Share of the users to take entries from.
    probability : float, default 0.2
        Chance of each of their entries to be taken.
    rng : int, Generator, SeedSequence or None
        Seed (SPEC 7).

    Examples
    --------
    >>> from twofold.data.catalog import Catalog
    >>> from twofold.data.catalog import Identifiers
    >>> from scipy import sparse
    >>> matrix = sparse.csr_array(np.ones((10, 8)))
    >>> ratings = Ratings(matrix, Identifiers(range(10)), Catalog(range(8)), "ratings")
    >>> split = recorded_holdout(ratings, users=1.0, probability=1.0, rng=0)
    >>> split.train.entries_per_user.tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    _check_share("users", users)
    _check_share("probability", probability)

    def choose(lengths: npt.NDArray[np.int64], rng: np.random.Generator) -> Mask:
        chosen = _some_users(lengths, users, rng)
        drawn = np.where(chosen, rng.binomial(lengths, probability), 0)
        # Given how many are taken, which ones is uniform: the same law as one coin per entry.
        return _some_of_each(np.minimum(drawn, np.maximum(lengths - 1, 0)), lengths, rng)

    return _split(data, choose, rng)


def leave_n_out(data: Data, *, n: int = 1, rng: Seed = None) -> Split[Data]:
    """Hold out `n` entries of every user, fewer where a user would be left with none.

    Parameters
    ----------
    data : Ratings or Federation
        A federation is split entity by entity.
    n : int, default 1
        Entries to take from each user.
    rng : int, Generator, SeedSequence or None
        Seed (SPEC 7).

    Examples
    --------
    >>> from twofold.data.catalog import Catalog
    >>> from twofold.data.catalog import Identifiers
    >>> from scipy import sparse
    >>> matrix = sparse.csr_array(np.tri(3))
    >>> ratings = Ratings(matrix, Identifiers("abc"), Catalog(list("xyz")), "ratings")
    >>> leave_n_out(ratings, n=2, rng=0).test.entries_per_user.tolist()
    [0, 1, 2]
    """
    _check_count("n", n)

    def choose(lengths: npt.NDArray[np.int64], rng: np.random.Generator) -> Mask:
        everyone = np.ones(lengths.size, dtype=np.bool_)
        return _some_of_each(_quota(lengths, everyone, n), lengths, rng)

    return _split(data, choose, rng)


def _split(data: Data, choose: Callable[[npt.NDArray[np.int64], np.random.Generator], Mask], seed: Seed) -> Split[Data]:
    if not isinstance(data, (Ratings, Federation)):
        raise DataError(
            "only Ratings or a Federation can be split.", found=f"a {type(data).__name__}", parameter="data"
        )
    rng = np.random.default_rng(seed)
    if isinstance(data, Ratings):
        return _cut(data, choose(data.entries_per_user, rng))
    base = int(rng.integers(2**63))
    parts = {name: _cut(one, choose(one.entries_per_user, _named(base, name))) for name, one in data.items()}
    train = Federation({name: part.train for name, part in parts.items()})
    test = Federation({name: part.test for name, part in parts.items()})
    return Split(train=train, test=test)


def _named(base: int, name: object) -> np.random.Generator:
    """One generator per entity, so that adding or removing an entity does not change the others' draws."""
    digest = hashlib.blake2b(str(name).encode(), digest_size=8).digest()
    return np.random.default_rng([base, int.from_bytes(digest, "big")])


def _cut(ratings: Ratings, held: Mask) -> Split[Ratings]:
    train, test = (keep_entries(ratings.matrix, chosen) for chosen in (~held, held))
    return Split(train=ratings.replace(train), test=ratings.replace(test))


def _some_users(lengths: npt.NDArray[np.int64], share: float, rng: np.random.Generator) -> Mask:
    chosen = np.zeros(lengths.size, dtype=np.bool_)
    chosen[rng.permutation(lengths.size)[: round(share * lengths.size)]] = True
    return chosen


def _quota(lengths: npt.NDArray[np.int64], users: Mask, entries: int) -> npt.NDArray[np.int64]:
    """How many entries each user gives: at most all but one."""
    return np.where(users, np.minimum(entries, np.maximum(lengths - 1, 0)), 0)


def _some_of_each(quota: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], rng: np.random.Generator) -> Mask:
    """Choose `quota` entries of each row uniformly: shuffle every row, take the first ones."""
    owners = np.repeat(np.arange(lengths.size), lengths)
    order = np.lexsort((rng.random(owners.size), owners))
    ranks = np.arange(owners.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    held = np.zeros(owners.size, dtype=np.bool_)
    held[order] = ranks < np.repeat(quota, lengths)
    return held


def _check_share(name: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise DataError(
            "{parameter} is not a share.", found=f"{share}", expected="a number from 0 to 1", parameter=name
        )


def _check_count(name: str, count: Any) -> None:
    whole(name, count, kind=Integral, error=DataError)
