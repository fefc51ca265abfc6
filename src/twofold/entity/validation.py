"""Local validation: part of every user's entries is held out, and candidates are compared user by user.

Nothing leaves the entity, so looking at its own data as often as it likes costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["PARTS", "Fold", "Losses", "folds", "paired", "rounds_for"]

#: Into how many parts a user's entries are cut; one part is held out at a time. Few of them would favour the shared
#: model: its maker saw all entries, while the entity's own candidates are fitted without the held-out ones.
PARTS = 10
#: How many parts are held out in turn below so many users. A list of ten says less of a user than the errors of all
#: held-out ratings, so counts need more of them.
ROUNDS: dict[str, tuple[tuple[float, int], ...]] = {
    "counts": ((200, 10), (1_000, 5), (math.inf, 2)),
    "ratings": ((200, 5), (1_000, 2), (math.inf, 1)),
}
#: Most users who are judged in one round; all of them are fitted.
MOST_JUDGED = 1_000
#: Below this many users, entries are taken as independent of one another: so few users have no spread to speak of.
FEW_USERS = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """Rows without the held-out entries, and the held-out entries of the users to be judged.

    Attributes
    ----------
    train : csr array (users, items)
        What models are fitted to.
    users : array (judged,)
        Rows that are judged.
    history, held : csr arrays (judged, items)
        Their training entries and their held-out ones.
    """

    train: sparse.csr_array
    users: NDArray[np.intp]
    history: sparse.csr_array
    held: sparse.csr_array


@dataclass(frozen=True, kw_only=True, eq=False)
class Losses:
    """Losses of one candidate, one per judged entry or user, and whose they are."""

    values: Floats
    owners: NDArray[np.intp]

    @property
    def mean(self) -> float:
        """Average loss; infinite when nothing could be judged."""
        return float(self.values.mean()) if self.values.size else math.inf

    @property
    def error(self) -> float:
        """Standard error of the average, users being independent of one another."""
        return _clustered_error(self.values, self.owners)


def rounds_for(n_users: int, feedback: str) -> int:
    """How many parts are held out in turn: the fewer users, the more; of their number alone.

    Examples
    --------
    >>> [rounds_for(number, "counts") for number in (10, 700, 5_000)]
    [10, 5, 2]
    """
    return next(rounds for most, rounds in ROUNDS[feedback] if n_users < most)


def folds(rows: sparse.csr_array, *, rounds: int, rng: np.random.Generator) -> list[Fold]:
    """Cut every user's entries into `PARTS` parts and hold out some of the parts, one at a time.

    A user with a single entry keeps it; nobody is left without a history.

    Examples
    --------
    >>> rows = sparse.csr_array(np.ones((3, 10)))
    >>> [fold.held.nnz for fold in folds(rows, rounds=2, rng=np.random.default_rng(0))]
    [3, 3]
    """
    lengths = np.diff(rows.indptr)
    owners = np.repeat(np.arange(rows.shape[0]), lengths)
    part = _parts(lengths, owners, rng)
    made = []
    for number in range(rounds):
        held = (part == number) & (np.repeat(lengths, lengths) > 1)
        users = np.flatnonzero(np.bincount(owners[held], minlength=rows.shape[0]))
        if users.size > MOST_JUDGED:
            users = np.sort(rng.choice(users, MOST_JUDGED, replace=False))
        train = _kept(rows, ~held)
        made.append(Fold(train=train, users=users, history=train[users], held=_kept(rows, held)[users]))
    return made


def paired(one: Losses, other: Losses) -> tuple[float, float]:
    """By how much `other` is better than `one`, and the standard error of that, user by user.

    Examples
    --------
    >>> owners = np.arange(4)
    >>> one = Losses(values=np.array([1.0, 2.0, 3.0, 4.0]), owners=owners)
    >>> paired(one, Losses(values=one.values - 0.5, owners=owners))
    (0.5, 0.0)
    """
    gaps = one.values - other.values
    return (float(gaps.mean()), _clustered_error(gaps, one.owners)) if gaps.size else (0.0, 0.0)


def _parts(lengths: NDArray[Any], owners: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Part of each entry: a user's entries in random order are dealt out, from a random part on."""
    order = np.lexsort((rng.random(owners.size), owners))
    places = np.arange(owners.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    part = np.empty(owners.size, np.intp)
    part[order] = (places + np.repeat(rng.integers(PARTS, size=lengths.size), lengths)) % PARTS
    return part


def _kept(rows: sparse.csr_array, mask: NDArray[np.bool_]) -> sparse.csr_array:
    pointers = np.concatenate([[0], np.cumsum(mask)])[rows.indptr].astype(rows.indptr.dtype)
    parts: Any = (rows.data[mask], rows.indices[mask], pointers)
    return sparse.csr_array(parts, shape=rows.shape)


def _clustered_error(values: Floats, owners: NDArray[np.intp]) -> float:
    if values.size < 2:
        return 0.0
    apart = values - values.mean()
    _, groups = np.unique(owners, return_inverse=True)
    number = int(groups.max()) + 1
    sums = np.bincount(groups, apart) if number >= FEW_USERS else apart
    scale = sums.size / max(sums.size - 1, 1)
    return float(np.sqrt(scale * np.sum(sums**2)) / values.size)
