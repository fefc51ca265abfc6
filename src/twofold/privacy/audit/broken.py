"""BROKEN ON PURPOSE: six mechanisms that claim an ε they do not have, for the audit to catch.

Nothing here is private and nothing outside the audit may import it. Each is a mistake that was really made,
in the paper, in published code or in libraries; each says so in its docstring.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from twofold.privacy.audit.lower_bound import repeat
from twofold.privacy.audit.subjects import Subject
from twofold.privacy.budget import ApproxDP
from twofold.privacy.events import Released
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit

__all__ = ["broken_mechanisms"]

Floats = NDArray[np.float64]


def broken_mechanisms() -> list[Subject]:
    """All six, each claiming ε = 1.

    Examples
    --------
    >>> [one.name for one in broken_mechanisms()]
    ['noise 10% too small', 'data-dependent size', 'Algorithm 1 as typed', 'empty cells skipped',
     'tree with local indices', 'budget used twice']
    """
    cells = np.array([0.99] + [0.05, 0.30, 0.55, 0.80] * 10)
    empty = np.zeros((20, 4))
    subject = partial(Subject, claimed=ApproxDP(epsilon=1), runs=4_000, broken=True)
    return [
        subject(name="noise 10% too small", batch=thin_noise, data=0, neighbour=1, runs=100_000),
        subject(
            name="data-dependent size",
            batch=repeat(lambda data, noise: seen_items_only(data, noise).value.size),
            data=np.array([5, 3, 0]),
            neighbour=np.array([5, 3, 1]),
            released=seen_items_only,
        ),
        subject(
            name="Algorithm 1 as typed",
            batch=repeat(algorithm_1_as_typed),
            data=empty,
            neighbour=np.vstack([empty, [0.0, 0.0, 0.0, 1.0]]),
            statistic=lambda outcomes: outcomes[:, 3] != 0,
        ),
        subject(name="empty cells skipped", batch=empty_cells_skipped, data=0, neighbour=1),
        subject(
            name="tree with local indices",
            batch=repeat(tree_with_local_indices),
            data=cells,
            neighbour=cells[1:],
            statistic=lambda outcomes: outcomes @ np.tile([-1, 1], 4),
        ),
        subject(
            name="budget used twice",
            batch=budget_used_twice,
            data=0,
            neighbour=1,
            runs=20_000,
            statistic=lambda outcomes: outcomes.sum(axis=1),
        ),
    ]


def thin_noise(value: int, runs: int, noise: Source) -> NDArray[np.int64]:
    """BROKEN: claims ε = 1 and adds noise of 0.9 times the scale that would give it (ε is 1.11).

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> thin_noise(0, 3, source(0)).shape
    (3,)
    """
    return _laplace("10/9").release(np.full(runs, value), rng=noise).value


def seen_items_only(counts: NDArray[np.int64], noise: Source) -> Released[NDArray[np.int64]]:
    """BROKEN: noisy counts of the items that occur in the data, so the size says which do.

    The authors' code takes its item list from the private data (``data.name.unique()``).

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> seen_items_only(np.array([5, 0]), source(0)).value.size
    1
    """
    return _laplace(1).release(counts[counts > 0], rng=noise)


def algorithm_1_as_typed(rows: Floats, noise: Source) -> Floats:
    """BROKEN: the paper's Algorithm 1 with the scales as printed, s = 1, Λ = 1, ε = 1.

    The Gumbel scale ε|μ|/(2sΛ) is zero where the mean is zero, and the Laplace scale 2Λs/(εn) holds the
    private cluster size.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> algorithm_1_as_typed(np.eye(3), source(0)).shape
    (3,)
    """
    size, items = rows.shape
    mean = rows.mean(axis=0)
    uniform = _uniform(items + 1, noise)
    picked = int(np.argmax(mean + 0.5 * np.abs(mean) * -np.log(-np.log(uniform[:items]))))
    sign = 1.0 if uniform[items] < 0.5 else -1.0
    value = mean[picked] - sign * 2.0 / size * np.log(_uniform(1, noise)[0])
    return np.where(np.arange(items) == picked, value, 0.0)


def empty_cells_skipped(count: int, runs: int, noise: Source) -> NDArray[np.bool_]:
    """BROKEN: decides whether a cell opens only if somebody is in it (threshold 2, ε = 1).

    The published partition code looks at occupied sign patterns only; diffprivlib's KMeans skips empty
    clusters.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> bool(empty_cells_skipped(0, 100, source(0)).any())
    False
    """
    if count == 0:
        return np.zeros(runs, dtype=bool)
    opened: NDArray[np.bool_] = _laplace(1).release(np.full(runs, count), rng=noise).value > 2
    return opened


def tree_with_local_indices(points: Floats, noise: Source) -> NDArray[np.int64]:
    """BROKEN: noisy counts of eight cells of [0, 1), whose third level looks up the wrong people.

    The published partition stores positions within the parent's list and uses them as positions in the whole
    data from the third level on. One person is then counted in many cells, and removing one renumbers the
    rest.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> tree_with_local_indices(np.array([0.1, 0.9]), source(0)).shape
    (8,)
    """
    counts = []
    for half in (0, 1):
        parent = np.flatnonzero((points >= 0.5) == bool(half))
        for quarter in (0, 1):
            inside = (points[parent] >= 0.5 * half + 0.25) == bool(quarter)
            local = np.flatnonzero(inside)  # positions in `parent`; the mistake is to use them in `points`
            middle = 0.5 * half + 0.25 * quarter + 0.125
            upper = int((points[local] >= middle).sum())
            counts += [local.size - upper, upper]
    return _laplace(1).release(np.array(counts), rng=noise).value


def budget_used_twice(value: int, runs: int, noise: Source) -> NDArray[np.int64]:
    """BROKEN: two answers, each at the whole ε (the paper's T trials, each given all of ε).

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> budget_used_twice(0, 3, source(0)).shape
    (3, 2)
    """
    return _laplace(1).release(np.full((runs, 2), value), rng=noise).value


def _laplace(epsilon: Fraction | int | str) -> DiscreteLaplace:
    return DiscreteLaplace(epsilon=epsilon, sensitivity=1, unit=Unit.person())


def _uniform(count: int, noise: Source) -> Floats:
    """Uniform numbers strictly between 0 and 1, in floating point: good enough for broken mechanisms."""
    return ((noise.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
