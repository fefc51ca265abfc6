"""A private coreset: a tree of locality-sensitive cells, then noisy sums and counts of its leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from twofold.privacy.budget import ZCDP, PureDP, Split
from twofold.privacy.events import Released, SequentialEvent
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import Source, source
from twofold.release.buckets import Popularity
from twofold.release.cells import CellNoise, laplace_deviation, shrunk_means, spec_usefulness
from twofold.release.combine import stacked
from twofold.release.content import Prototypes, WeightedRows
from twofold.release.contract import ReleaseParameters, ReleaseSpec, check_rows, check_whole
from twofold.release.records import Block, blocks, directions, statistic
from twofold.release.usefulness import Usefulness, fallback_note, noise_ratio

__all__ = ["Coreset", "Tree", "grow"]

Integers = NDArray[np.int64]
Counting = DiscreteLaplace | DiscreteGaussian
#: Shares of the budget: the middle that rows are hashed around, the counts of all levels, the leaves.
_SHARES: Final = {"middle": 1, "tree": 2, "leaves": 7}
#: A cell is not parted further if its noisy count is below this many deviations of its noise.
_STANDS_OUT: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class Coreset:
    """Weighted points that stand for all users: noisy means of the leaves of a tree of sign hashes.

    Parameters
    ----------
    leaves_per_prototype : int
        Most leaves for each prototype the plan asks for; `twofold.release.cells.centres` merges them. At least 2, since
        the first cell is always parted.

    Paper
    -----
    Named in section 2.3.1: "Private coresets" (Feldman, Xiang, Zhu and Rus 2017). Built as Chang and Kamath 2021,
    "Practical Differentially Private Clustering": hash by signs of random projections, part a cell while its noisy
    count says that it is worth it, release noisy means of the leaves, cluster those.

    Privacy
    -------
    ε, or (ε, δ), for one person added or removed. Three parts, split exactly:

    * one noisy mean of everybody, around which rows are hashed: one `CellNoise` of one cell;
    * counts of the children of all open cells, level by level. A user's bits follow from the user's own row, public
      directions and the released mean, so the user is in at most one child per level: sensitivity 1 in l1 and l2. Which
      cells open is computed from noisy counts;
    * sums and counts of the leaves: one `CellNoise` over the largest number of leaves, unused ones included.

    Sizes are public: a level's counts are released at their largest possible number.

    Deviations
    ----------
    Chang and Kamath spend the counts again for the means and prove a bound; here leaves get their own counts, as all
    mechanisms of this repository do. One bit per level, depth by the number of leaves.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=3, n_users=10**6, max_items=2, bound=1, n_prototypes=2, epsilon=10)
    >>> released = Coreset().release(np.array([[1, 0, 1], [0, 1, 0]]), public)
    >>> released.value.sums.shape, released.event == Coreset().spec(public).event
    ((24, 3), True)
    """

    leaves_per_prototype: int = 12

    def __post_init__(self) -> None:
        check_whole("leaves_per_prototype", self.leaves_per_prototype, least=2)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "coreset"

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """One event for the middle, one per level, one for the leaves; or that of the fallback."""
        if (fallback := self._fallback(public)) is not None:
            return fallback.spec(public)
        middle, counting, leaves = self._parts(public)
        tree = [counting.event(width) for width in self._widths(public)]
        event = SequentialEvent.of(middle.event(), *tree, leaves.event())
        return leaves.spec(mechanism=self.name, stacks=True, event=event)

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Judge the noise on one sum of a leaf."""
        return spec_usefulness(self.spec(public), public)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release the leaves; the middle and the tree only steer it."""
        if (fallback := self._fallback(public)) is not None:
            return fallback.release(rows, public, rng=rng)
        matrix, words = check_rows(rows, public), source(rng)
        middle, counting, leaves = self._parts(public)
        everybody = statistic(
            matrix, public, middle.plan, lambda block: np.zeros(block.n_users, dtype=np.int64), cells=1
        )
        around = middle.release(everybody, name=self.name, rng=words)
        bits = self._bits(matrix, around.value, middle, public)
        tree = grow(
            bits,
            counting,
            widths=self._widths(public),
            threshold=self._threshold(public, counting),
            weight=_weight(public),
            most=leaves.cells,
            rng=words,
        )
        exact = statistic(matrix, public, leaves.plan, _in_turn(tree.leaf_of), cells=leaves.cells)
        last = leaves.release(exact, name=self.name, rng=words)
        return Released(value=last.value, event=SequentialEvent.of(around.event, *tree.events, last.event))

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Stack the rows: every entity has its own tree."""
        fallback = self._fallback(public)
        return stacked(messages, public) if fallback is None else fallback.combine(messages, public)

    def _parts(self, public: ReleaseParameters) -> tuple[CellNoise, Counting, CellNoise]:
        budget = public.budget
        split: Split[Any] = budget.split(**_SHARES)
        level = split["tree"].split(**{f"level{number}": 1 for number in range(len(self._widths(public)))})["level0"]
        return (
            CellNoise(public=public, budget=split["middle"], cells=1, observed=False),
            _counting(level, public),
            CellNoise(public=public, budget=split["leaves"], cells=self._most(public)),
        )

    def _most(self, public: ReleaseParameters) -> int:
        return public.n_prototypes * self.leaves_per_prototype

    def _widths(self, public: ReleaseParameters) -> tuple[int, ...]:
        """Largest number of children of each level; public."""
        most = self._most(public)
        return tuple(min(2 ** (level + 1), 2 * most) for level in range(max(1, math.ceil(math.log2(most)))))

    def _threshold(self, public: ReleaseParameters, counting: Counting) -> int:
        """People a cell must seem to have to be parted: an even share of the leaves, and clear of the noise."""
        if isinstance(counting, DiscreteGaussian):
            deviation = math.sqrt(counting.variance)
        else:
            deviation = laplace_deviation(float(counting.scale))
        return math.ceil(max(_STANDS_OUT * deviation / _weight(public), public.n_users / self._most(public)))

    def _bits(
        self, rows: sp.csr_array, around: Prototypes, noise: CellNoise, public: ReleaseParameters
    ) -> NDArray[np.bool_]:
        """Side of the released middle on which each user lies, along one public direction per level."""
        depth = len(self._widths(public))
        lines = directions(count=depth, n_items=public.n_items, seed=public.seed)
        middle = noise.plan.grid.put(shrunk_means(around, public)[0][0])
        edges = lines @ middle
        found = [block.products(lines) > edges for block in blocks(rows, public, noise.plan)]
        return np.concatenate(found) if found else np.zeros((0, depth), dtype=np.bool_)

    def _fallback(self, public: ReleaseParameters) -> Popularity | None:
        noise = self._parts(public)[2].noise.values
        ratio = noise_ratio(public, noise=noise, cells=public.n_prototypes)
        if ratio <= 1 or public.n_prototypes == 1:
            return None
        return Popularity(name=self.name, note=fallback_note(ratio, public))


def _counting(budget: PureDP | ZCDP, public: ReleaseParameters) -> Counting:
    if isinstance(budget, PureDP):
        return DiscreteLaplace(epsilon=budget.epsilon, sensitivity=1, unit=public.unit)
    return DiscreteGaussian(rho=budget.rho, sensitivity_squared=_weight(public) ** 2, unit=public.unit)


def _weight(public: ReleaseParameters) -> int:
    """How much a person counts: 1, or so much that Gaussian noise is as fine as the budget takes it to be."""
    return 1 if public.law == "laplace" else math.isqrt(public.least_sensitivity) + 1


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Leaf of every user (private), number of leaves (released) and the events of all levels."""

    leaf_of: Integers
    n_leaves: int
    events: tuple[Any, ...]


def grow(
    bits: NDArray[np.bool_],
    counting: Counting,
    *,
    widths: Iterable[int],
    threshold: int,
    most: int,
    weight: int = 1,
    rng: int | Source | None = None,
) -> Tree:
    """Part cells by one bit per level while their noisy counts exceed the threshold and leaves are left.

    Parameters
    ----------
    bits : array of shape (users, levels)
        Each user's own.
    counting : DiscreteLaplace or DiscreteGaussian
        Noise of the counts of one level.
    widths : iterable of int
        How many counts a level releases; unused ones are zeros.
    threshold, most : int
        Least noisy count of a cell to be parted, and most leaves. Public.
    weight : int
        What one person adds to a count, in the units of the noise.

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> exact = DiscreteLaplace(epsilon=10**6, sensitivity=1, unit=Unit.person())
    >>> bits = np.array([[0, 0], [0, 1], [1, 0], [1, 0]], dtype=bool)
    >>> grow(bits, exact, widths=(2, 4), threshold=1, most=4, rng=0).leaf_of.tolist()
    [0, 1, 2, 2]
    """
    words, events = source(rng), []
    cell = np.zeros(len(bits), dtype=np.int64)  # cell of every user; -1 once in a leaf
    leaf = np.zeros(len(bits), dtype=np.int64)
    n_open, n_leaves, widths = 1, 0, tuple(widths)
    for level, width in enumerate(widths):
        inside = np.flatnonzero(cell >= 0)
        child = 2 * cell[inside] + bits[inside, level]
        counts = weight * np.bincount(child, minlength=width).astype(np.int64)
        drawn = counting.release(counts, rng=words)
        events.append(drawn.event)
        noisy = drawn.value[: 2 * n_open]
        room = most - n_leaves - 2 * n_open  # each cell that is parted adds a leaf
        order = np.argsort(-noisy, kind="stable")
        last = level == len(widths) - 1
        parted = np.zeros(2 * n_open, dtype=np.bool_)
        parted[order[: max(0, room)]] = True
        parted &= (noisy > threshold * weight) & (not last)
        place = np.where(parted, np.cumsum(parted) - 1, -1)
        number = n_leaves + np.cumsum(~parted) - 1
        leaf[inside] = number[child]
        cell[inside] = place[child]
        n_open, n_leaves = int(parted.sum()), n_leaves + int((~parted).sum())
    return Tree(leaf_of=leaf, n_leaves=n_leaves, events=tuple(events))


def _in_turn(labels: Integers) -> Any:
    """Hand labels out block by block, in the order of the rows."""
    seen = 0

    def cell_of(block: Block) -> Integers:
        nonlocal seen
        seen += block.n_users
        return labels[seen - block.n_users : seen]

    return cell_of
