"""Use: how many people's worth of the others' use is added to an entity's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from twofold.entity.models.blend import Wide
from twofold.entity.models.others import Others

__all__ = ["NOBODY", "Amount", "amount_of_use"]

#: People's worth of the others' use that is tried; of those that tell own people about as well, within so many nats,
#: the most is taken. One or two people cannot tell amounts apart, and then many strangers know more than they do.
AMOUNTS: Final = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0)
ALIKE: Final = 1.0
#: Use of an item that nobody had, in people.
NOBODY: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How many people's worth is added to own use, and whether it is the others' use or a little of everything."""

    people: float
    shared: bool


def amount_of_use(unit: sparse.csr_array, others: Others | None, *, caution: float) -> Amount:
    """Choose it by how well the people without each one tell that one's items.

    Parameters
    ----------
    unit : csr array (users, items)
        Private: own rows of norm 1.
    others : Others or None
        What the federation knows without this entity.
    caution : float
        Nats by which the others' use has to tell own people better than a little of everything.

    Examples
    --------
    >>> amount_of_use(sparse.csr_array(np.eye(3)), None, caution=2.0)
    Amount(people=3000.0, shared=False)
    """
    items = unit.shape[1]
    flat = _best_amount(unit, np.full(items, 1.0 / max(items, 1)))
    if others is None:
        return Amount(people=flat[1], shared=False)
    theirs = _best_amount(unit, others.shares, most=others.users)
    if unit.nnz and theirs[0] <= flat[0] + caution:
        return Amount(people=flat[1], shared=False)
    return Amount(people=theirs[1] if unit.nnz else others.users, shared=True)


def _best_amount(unit: sparse.csr_array, shares: Wide, *, most: float = math.inf) -> tuple[float, float]:
    """Nats by which people are told, and the most people's worth that tells them `ALIKE`."""
    total = np.asarray(unit.sum(axis=0)).ravel()
    lengths = np.asarray(unit.sum(axis=1)).ravel()
    # Rows of norm 1 count for as many entries as they have.
    entries = np.diff(unit.indptr)
    weight = unit.data * np.repeat(entries / np.maximum(lengths, 1e-300), entries)
    own, theirs = total[unit.indices] - unit.data, shares[unit.indices]
    told_by: dict[float, float] = {}
    for people in [one for one in AMOUNTS if one <= most] or [most]:
        told = np.log(np.maximum(own + people * theirs, NOBODY))
        rest = np.log(np.maximum(total.sum() - lengths + people * shares.sum(), NOBODY))
        told_by[people] = float(weight @ told - entries @ rest)
    best = max(told_by.values())
    return best, max(people for people, nats in told_by.items() if nats >= best - ALIKE)
