"""Noisy one-way and two-way marginals of presence, and the tree of pairs that a synthesizer is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.errors import BadPrivacyParameter, Set
from twofold.privacy.events import DiscreteGaussianEvent, Released
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.privacy.rng import Source
from twofold.release.contract import ReleaseParameters

__all__ = [
    "MOST_NEIGHBOURS",
    "Marginals",
    "noisy_marginals",
    "presence",
    "sensitivity_squared",
    "tree_of",
    "tree_tables",
]

Floats = NDArray[np.float64]
#: Pairs of the tree that one item may be part of. The library compiles messages between all pairs that share an item:
#: with one hub, 100 items take 95 seconds; without one, 457 items take 50.
MOST_NEIGHBOURS: Final = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginals:
    """Noisy number of people, of people with each item, and with each pair (upper triangle), with their deviation."""

    people: float
    items: Floats
    pairs: Floats
    deviation: float


def sensitivity_squared(max_items: int) -> int:
    """Squared l2 distance by which one person moves people, items and pairs: 1 + s + s(s - 1)/2.

    Examples
    --------
    >>> sensitivity_squared(66)
    2212
    """
    return 1 + max_items + max_items * (max_items - 1) // 2


def presence(rows: sparse.csr_array, public: ReleaseParameters) -> sparse.csr_array:
    """Ones where a person has an item; of more than `max_items`, those the public seed orders first.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=4, n_users=9, max_items=2, bound=1)
    >>> presence(sparse.csr_array(np.array([[5.0, 1.0, 2.0, 0.0]])), public).sum()
    np.int64(2)
    """
    order = np.random.default_rng(public.seed).permutation(public.n_items)
    table = sparse.csr_array(rows, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    kept, starts = [], [0]
    for row in range(table.shape[0]):
        mine = table.indices[table.indptr[row] : table.indptr[row + 1]]
        if len(mine) > public.row_items:
            mine = mine[np.argsort(order[mine], kind="stable")[: public.row_items]]
        kept.append(np.sort(mine))
        starts.append(starts[-1] + len(mine))
    columns = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
    return sparse.csr_array(
        (np.ones(len(columns), dtype=np.int64), columns, np.array(starts)), shape=(table.shape[0], public.n_items)
    )


def noise_of(public: ReleaseParameters) -> tuple[DiscreteGaussian, int]:
    """The noise of all marginals together, and what one person weighs in its units."""
    if not public.delta:
        raise BadPrivacyParameter(
            "marginals with Gaussian noise have no pure promise.",
            found="delta=0",
            expected="a delta above 0",
            fix=Set("delta", "1e-6"),
            parameter="delta",
        )
    alone = sensitivity_squared(public.row_items)
    weight = math.isqrt(public.least_sensitivity // alone) + 1
    budget: Any = public.budget
    return DiscreteGaussian(rho=budget.rho, sensitivity_squared=weight**2 * alone, unit=public.unit), weight


def planned_event(public: ReleaseParameters, *, seeded: bool = False) -> DiscreteGaussianEvent:
    """Describe the release before anything is drawn."""
    numbers = 1 + public.n_items + public.n_items * (public.n_items - 1) // 2
    return noise_of(public)[0].event(numbers, seeded=seeded)


def noisy_marginals(
    rows: sparse.csr_array, public: ReleaseParameters, *, rng: int | Source | None = None
) -> Released[Marginals]:
    """Release people, items and pairs in one vector.

    Privacy
    -------
    (ε, δ) for one person added or removed: a person of at most s items moves the count by 1, s item counts by 1 and
    s(s - 1)/2 pair counts by 1. One discrete Gaussian event covers the vector.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=3, n_users=9, max_items=2, bound=1, epsilon=10**6, delta=1e-6)
    >>> found = noisy_marginals(sparse.csr_array(np.eye(3)), public, rng=0).value
    >>> round(found.people), found.items.round().tolist()
    (3, [1.0, 1.0, 1.0])
    """
    noise, weight = noise_of(public)
    table = presence(rows, public)
    together = np.asarray((table.T @ table).toarray())
    upper = np.triu_indices(public.n_items, 1)
    exact = np.concatenate([[table.shape[0]], np.diag(together), together[upper]]).astype(np.int64)
    drawn = noise.release(weight * exact, rng=rng)
    values = drawn.value / weight
    pairs = np.zeros_like(together, dtype=np.float64)
    pairs[upper] = values[1 + public.n_items :]
    found = Marginals(
        people=float(values[0]),
        items=values[1 : 1 + public.n_items],
        pairs=pairs,
        deviation=math.sqrt(noise.variance) / weight,
    )
    return Released(value=found, event=drawn.event)


def tree_tables(found: Marginals, one: NDArray[np.int64], other: NDArray[np.int64]) -> Floats:
    """Noisy 2 x 2 tables of pairs: neither, only the second, only the first, both."""
    both = found.pairs[np.minimum(one, other), np.maximum(one, other)]
    first, second = found.items[one], found.items[other]
    cells = np.stack([found.people - first - second + both, second - both, first - both, both], axis=1)
    return cells.reshape(-1, 2, 2)


def tree_of(found: Marginals) -> NDArray[np.int64]:
    """Pairs of a tree with much mutual information (Chow and Liu 1968), by the noisy numbers: post-processing.

    No item has more than `MOST_NEIGHBOURS`, so the tree is found greedily and may be a little below the best.

    Examples
    --------
    >>> pairs = np.zeros((3, 3))
    >>> pairs[0, 1], pairs[0, 2], pairs[1, 2] = 50, 25, 25
    >>> tree = tree_of(Marginals(people=100.0, items=np.array([50.0, 50.0, 50.0]), pairs=pairs, deviation=1.0))
    >>> [0, 1] in tree.tolist(), len(tree)
    (True, 2)
    """
    number = len(found.items)
    one, other = np.triu_indices(number, 1)
    cells = np.maximum(tree_tables(found, one, other), 0.5)
    share = cells / cells.sum(axis=(1, 2), keepdims=True)
    alone = share.sum(axis=2, keepdims=True) * share.sum(axis=1, keepdims=True)
    gain = (share * np.log(share / alone)).sum(axis=(1, 2))
    part, neighbours, edges = np.arange(number), np.zeros(number, np.int64), []
    for pair in np.argsort(-gain, kind="stable"):
        a, b = int(one[pair]), int(other[pair])
        if part[a] != part[b] and max(neighbours[a], neighbours[b]) < MOST_NEIGHBOURS:
            part[part == part[b]] = part[a]
            neighbours[[a, b]] += 1
            edges.append((a, b))
    return np.array(edges, dtype=np.int64).reshape(-1, 2)
