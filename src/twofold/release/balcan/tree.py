"""Algorithms 4 and 5: a private tree of cells, and candidate centers from shifted trees.

Points are whole numbers in the ball of `RADIUS` grid units (see `projection`), cubes have sides that are powers of
two, and a point's cell at a level is read off the leading bits of its coordinates. So every level partitions the
users exactly: each is in one cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms._checks import whole_number
from twofold.errors import BadPrivacyParameter, BadShape
from twofold.privacy.budget import Number, positive
from twofold.privacy.events import SequentialEvent
from twofold.privacy.grid import Integers, whole
from twofold.privacy.mechanisms import PrivateThreshold, Released, least_threshold
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit
from twofold.release.balcan.projection import RADIUS, clip_to_ball

__all__ = ["Candidates", "candidate", "candidate_event", "cell_codes", "partition_event", "private_partition"]

# The root cube has side 4·RADIUS, so that it contains the ball wherever it is shifted by up to RADIUS.
SIDE_BITS = (4 * RADIUS).bit_length() - 1
DEEPEST = SIDE_BITS - 1
# `PrivateThreshold` refuses to open more than 4,096 empty cells on average; with λ <= 1 that many parents never ask.
MOST_CELLS = 4096


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Points that may become centers, distinct, in grid units.

    Attributes
    ----------
    points : int array of shape (candidates, dimension)
        Inside the ball.
    weights : int array of shape (candidates,)
        How many open cells without open children have this center: each held about the threshold's number of
        users, so this is a rough map of where people are. Zero for inner cells and public points.
    """

    points: Integers
    weights: Integers


def private_partition(
    points: ArrayLike,
    *,
    epsilon: Number,
    depth: int,
    threshold: int,
    unit: Unit,
    shift: ArrayLike | None = None,
    most_cells: int = 1024,
    rng: int | Source | None = None,
) -> Released[Candidates]:
    """Open cells that hold many people, level by level, and give their centers.

    Parameters
    ----------
    points : int array of shape (users, dimension)
        In the ball of `RADIUS`.
    epsilon : number
        Price of the tree; each level costs epsilon/depth.
    depth : int
        Number of levels D. Public.
    threshold : int
        The γ of the opening rule. Public; at least sub-critical, see Privacy.
    shift : int array of shape (dimension,), optional
        Shift of the root cube, at most RADIUS per axis. Public.
    most_cells : int
        A level that would make more open cells than this in all is left out, and the tree ends there. The open cells
        are released, so this is a function of the release.
    unit, rng
        Whose presence is hidden, and the source of the noise.

    Returns
    -------
    Released
        Centers of all open cells, the root's included, clipped to the ball.

    Paper
    -----
    Algorithm 4. ε' is epsilon/depth (add or remove one); f(m) is the chance that m plus Laplace noise of scale 1/ε'
    exceeds γ.

    Privacy
    -------
    Given the cells opened before, a user is in at most one child cell of one open cell, so one count of a level
    changes by one: ε' per level, adaptive composition over levels. *Every* child is decided, occupied or not. With p
    dimensions a cell has 2^p children, most of them empty; they open by an exact binomial draw and distinct uniform
    codes (`PrivateThreshold`). They do not breed if 2^p·q < 1 with q = P(noise > γ); the audit's condition is γ >=
    ((p-1)·ln 2 + ln(1/λ))/ε' with λ = 1/10. A threshold with λ > 1 is refused.

    Deviations
    ----------
    The paper's ``while a <= n`` (a slip for log n) and its ε' and γ depend on the private n; here all are public.
    Noise is discrete Laplace.

    Examples
    --------
    >>> crowd = np.full((500, 2), 1000)
    >>> found = private_partition(crowd, epsilon=10, depth=3, threshold=20, unit=Unit.person())
    >>> found.value.points.tolist()
    [[0, 0], [1024, 1024], [2048, 2048], [2896, 2896]]
    """
    where = _inside(points)
    dimension = where.shape[1]
    _check_most(most_cells)
    rule = _rule(epsilon, depth, threshold, dimension, unit)
    noise = source(rng)
    corner = _corner(shift, dimension)
    offsets = np.minimum(where - corner, 4 * RADIUS - 1)
    node = np.zeros(len(where), dtype=np.int64)
    cells = np.zeros((1, dimension), dtype=np.int64)
    centers, leaves = [_centers(cells, 0, corner)], [np.ones(1, dtype=np.int64)]
    total = 1
    for level in range(1, depth + 1):
        node, cells, parents = _open_level(offsets, node, cells, level, rule, noise)
        total += len(cells)
        if len(cells) == 0 or total > most_cells:
            break
        leaves[-1][parents] = 0
        centers.append(_centers(cells, level, corner))
        leaves.append(np.ones(len(cells), dtype=np.int64))
    found = _distinct(np.concatenate(centers), np.concatenate(leaves))
    return Released(value=found, event=partition_event(rule, depth, seeded=noise.seeded))


def candidate(
    points: ArrayLike,
    *,
    epsilon: Number,
    depth: int,
    threshold: int,
    unit: Unit,
    least: int,
    trees: int = 1,
    most: int = 1024,
    seed: int = 0,
    rng: int | Source | None = None,
) -> Released[Candidates]:
    """Gather candidate centers from shifted trees, at least `least` and at most `most` of them.

    Parameters
    ----------
    points, depth, threshold, unit, rng
        As for `private_partition`.
    epsilon : number
        Price of all trees together.
    least, most : int
        Public limits on the number of candidates.
    trees : int
        Number of shifted trees. Public.
    seed : int
        Seed of the public coins: shifts and padding.

    Paper
    -----
    Algorithm 5.

    Privacy
    -------
    Trees at epsilon/trees each add up to epsilon. Shifts are public coins. Joining, dropping repeats and padding
    see released cells only.

    Deviations
    ----------
    The root cube has side 4R and contains the ball wherever it is shifted; the paper's, of side 2Λ, does not. Centers
    are clipped to the ball, without which the next step's sensitivity is wrong. The number of trees is public, not 25
    k log(n/δ). Repeats (the same center from two cells, which clipping makes possible) are joined into one; when fewer
    than `least` are left, public uniform points of the ball are added.

    Examples
    --------
    >>> crowd = np.full((500, 2), 1000)
    >>> found = candidate(crowd, epsilon=10, depth=3, threshold=20, unit=Unit.person(), least=9, trees=2)
    >>> len(found.value.points) >= 9
    True
    """
    whole_number("trees", trees)
    whole_number("most", most, least=least)
    where, noise = _inside(points), source(rng)
    coins = np.random.Generator(np.random.PCG64([seed, 1]))
    share, room = positive(epsilon, name="epsilon") / trees, max(1, most // trees)
    grown = [
        private_partition(
            where,
            epsilon=share,
            depth=depth,
            threshold=threshold,
            unit=unit,
            shift=coins.integers(-RADIUS, RADIUS + 1, where.shape[1]),
            most_cells=room,
            rng=noise,
        )
        for _ in range(trees)
    ]
    joined = _distinct(*(np.concatenate([getattr(one.value, name) for one in grown]) for name in ("points", "weights")))
    event = SequentialEvent.of(*(one.event for one in grown))
    return Released(value=_padded(joined, least, coins), event=event)


def partition_event(rule: PrivateThreshold, depth: int, *, seeded: bool = False) -> SequentialEvent:
    """Describe a tree before it is grown: one threshold decision per level, reached or not.

    Examples
    --------
    >>> len(partition_event(PrivateThreshold(epsilon=1, threshold=9, unit=Unit.person()), 3).events)
    3
    """
    return SequentialEvent.of(*[rule.event(seeded=seeded)] * depth)


def candidate_event(
    *, epsilon: Number, depth: int, threshold: int, trees: int, dimension: int, unit: Unit, seeded: bool = False
) -> SequentialEvent:
    """Describe a call of `candidate` before it is made.

    Examples
    --------
    >>> event = candidate_event(epsilon=1, depth=5, threshold=99, trees=1, dimension=4, unit=Unit.person())
    >>> event.events[0].events[0].scale
    Fraction(5, 1)
    """
    rule = _rule(positive(epsilon, name="epsilon") / trees, depth, threshold, dimension, unit)
    return SequentialEvent.of(*[partition_event(rule, depth, seeded=seeded)] * trees)


def cell_codes(offsets: Integers, level: int) -> Integers:
    """Which of the 2^p children of its cell a point is in: one bit per axis.

    Parameters
    ----------
    offsets : int array of shape (users, dimension)
        Coordinates from the corner of the root cube.
    level : int
        From 1.

    Examples
    --------
    >>> cell_codes(np.array([[0, 0], [4 * RADIUS - 1, 0]]), 1)
    array([0, 1])
    """
    code = np.zeros(len(offsets), dtype=np.int64)
    for axis in range(offsets.shape[1]):
        code |= ((offsets[:, axis] >> (SIDE_BITS - level)) & 1) << axis
    return code


def _open_level(
    offsets: Integers, node: Integers, cells: Integers, level: int, rule: PrivateThreshold, noise: Source
) -> tuple[Integers, Integers, Integers]:
    """One level: where users are now (-1: in no open cell), the open cells, and the parents of those."""
    dimension = cells.shape[1]
    inside = np.flatnonzero(node >= 0)
    codes = (node[inside] << dimension) | cell_codes(offsets[inside], level)
    partition = len(cells) << dimension
    occupied, counts = _tally(codes, partition)
    opened = rule.release(codes=occupied, counts=counts, cells=partition, rng=noise).value
    parents = opened >> dimension
    bits = (opened[:, None] >> np.arange(dimension)) & 1
    after = np.full(len(node), -1, dtype=np.int64)
    if len(opened):
        place = np.minimum(np.searchsorted(opened, codes), len(opened) - 1)
        after[inside] = np.where(opened[place] == codes, place, -1)
    return after, 2 * cells[parents] + bits, parents


def _tally(codes: Integers, partition: int) -> tuple[Integers, Integers]:
    """Occupied codes and how many users have each; a table where it is no larger than the data, else by sorting."""
    if partition <= 4 * codes.size + 1024:
        counts = np.bincount(codes, minlength=partition)
        occupied = np.flatnonzero(counts)
        return occupied, counts[occupied]
    occupied, counts = np.unique(codes, return_counts=True)
    return occupied, counts


def _rule(epsilon: Number, depth: int, threshold: int, dimension: int, unit: Unit) -> PrivateThreshold:
    whole_number("depth", depth)
    if depth > DEEPEST:
        raise BadPrivacyParameter("the tree is too deep for its grid.", expected=f"depth up to {DEEPEST}")
    share = positive(epsilon, name="epsilon") / depth
    rule = PrivateThreshold(epsilon=share, threshold=threshold, unit=unit)
    if threshold < least_threshold(cells=2**dimension, epsilon=share, expected=1):
        raise BadPrivacyParameter(
            "the threshold is so low that empty cells would multiply from level to level.",
            found=f"threshold {threshold}",
            fix=f"threshold={least_threshold(cells=2**dimension, epsilon=share)}",
            parameter="threshold",
        )
    return rule


def _check_most(most_cells: int) -> None:
    if whole_number("most_cells", most_cells) > MOST_CELLS:
        raise BadPrivacyParameter("too many open cells.", expected=f"at most {MOST_CELLS}")


def _inside(points: ArrayLike) -> Integers:
    where = whole(points)
    if where.ndim != 2 or not 1 <= where.shape[1] <= 40:
        raise BadShape("points need one row per user, with 1 to 40 coordinates.", found=f"{where.ndim} dimensions")
    if ((where**2).sum(axis=1) > RADIUS**2).any():
        raise BadPrivacyParameter("a point is outside the ball.", fix="clip_to_ball(points)")
    return where


def _corner(shift: ArrayLike | None, dimension: int) -> Integers:
    moved = np.zeros(dimension, dtype=np.int64) if shift is None else whole(shift)
    if moved.shape != (dimension,) or (np.abs(moved) > RADIUS).any():
        raise BadPrivacyParameter(
            "a shift needs one coordinate per dimension, each within the radius.", parameter="shift"
        )
    return moved - 2 * RADIUS


def _centers(cells: Integers, level: int, corner: Integers) -> Integers:
    return clip_to_ball(corner + ((2 * cells + 1) << (SIDE_BITS - level - 1)))


def _distinct(points: Integers, weights: Integers) -> Candidates:
    """Join repeated points, adding their weights; the order is that of the coordinates."""
    unique, place = np.unique(points, axis=0, return_inverse=True)
    added = np.bincount(place.ravel(), weights=weights, minlength=len(unique)).astype(np.int64)
    return Candidates(points=unique, weights=added)


def _padded(found: Candidates, least: int, coins: np.random.Generator) -> Candidates:
    points, weights = found.points, found.weights
    while len(points) < least:
        extra = _uniform(least - len(points), points.shape[1], coins)
        joined = _distinct(np.concatenate([points, extra]), np.concatenate([weights, np.zeros(len(extra), np.int64)]))
        points, weights = joined.points, joined.weights
    return Candidates(points=points, weights=weights)


def _uniform(count: int, dimension: int, coins: np.random.Generator) -> NDArray[np.int64]:
    """Public points, uniform in the ball."""
    direction = coins.standard_normal((count, dimension))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    length = RADIUS * coins.random((count, 1)) ** (1 / dimension)
    return clip_to_ball(np.rint(direction * length).astype(np.int64))
