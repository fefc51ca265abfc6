r"""Which cells of a public partition hold many people: a noisy count against a public threshold.

Every cell of the partition, occupied or not, opens when its count plus discrete Laplace noise exceeds the
threshold. There may be 2^54 cells, so empty ones are not visited one by one. They open independently with
the same probability q = P(noise > threshold) = a^(t+1)/(1+a), a = e^(-1/scale), hence

* how many of them open is Binomial(number of empty cells, q), drawn from a `LazyTable` with certified bounds;
* which ones is a uniform set of that size: plain bits with rejection.

The result has exactly the law of deciding every cell, and skipping empty cells (which would make "open"
impossible at count 0 and possible at count 1, an infinite ratio) never happens. Opened cells are returned in
the order of their codes, so nothing distinguishes an empty one from an occupied one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from twofold import checks
from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import Number, PureDP, positive
from twofold.privacy.events import Released, ThresholdEvent
from twofold.privacy.grid import Integers, whole
from twofold.privacy.mechanisms.lazy import Bounds, LazyTable, SymmetricNoise, exp_minus, exp_minus_between, minus_log
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["PrivateThreshold", "least_threshold"]

LARGEST_PARTITION = 2**61
MOST_EXPECTED = 4096


@dataclass(frozen=True, kw_only=True)
class PrivateThreshold:
    """Open the cells whose noisy count exceeds a public threshold.

    Parameters
    ----------
    epsilon : number
        The price of one call, above 0.
    threshold : int
        Public, at least 0; `least_threshold` finds one at which few empty cells open.
    unit : Unit
        Whose presence is hidden.
    cells_per_unit : int
        Number of cells of the partition in which one unit is counted (1 for a partition of people).

    Paper
    -----
    The opening rule of Algorithm 4; the scale is 1/ε' per level.

    Privacy
    -------
    Noisy counts are a discrete Laplace release: one unit moves `cells_per_unit` counts by one, so the noise
    of scale cells_per_unit/ε makes the vector of all noisy counts ε-differentially private; comparing them
    with a public number is post-processing. The partition may depend on earlier releases, never on the data
    itself.

    Examples
    --------
    >>> rule = PrivateThreshold(epsilon=1, threshold=20, unit=Unit.person())
    >>> rule.release(codes=[3, 9], counts=[500, 400], cells=16).value
    array([3, 9])
    """

    epsilon: Fraction
    threshold: int
    unit: Unit
    cells_per_unit: int

    def __init__(self, *, epsilon: Number, threshold: int, unit: Unit, cells_per_unit: int = 1) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "cells_per_unit", cells_per_unit)
        checks.whole("cells_per_unit", cells_per_unit, error=BadPrivacyParameter)
        checks.whole("threshold", threshold, least=0, error=BadPrivacyParameter)
        self._noise()

    @property
    def scale(self) -> Fraction:
        """Scale of the noise on a count."""
        return self.cells_per_unit / self.epsilon

    @property
    def guarantee(self) -> PureDP:
        """The guarantee of one call."""
        return PureDP(epsilon=self.epsilon)

    def event(self, *, seeded: bool = False) -> ThresholdEvent:
        """Describe a call, before it is made."""
        return ThresholdEvent(
            unit=self.unit,
            seeded=seeded,
            scale=self.scale,
            threshold=self.threshold,
            cells_per_unit=self.cells_per_unit,
        )

    def release(
        self, *, codes: ArrayLike, counts: ArrayLike, cells: int, rng: int | Source | None = None
    ) -> Released[Integers]:
        """Decide every cell of a partition of `cells` cells, numbered from 0.

        Parameters
        ----------
        codes, counts : arrays of int
            The occupied cells, each once, and the number of people in each.
        cells : int
            Size of the partition. Public.

        Returns
        -------
        Released
            Codes of the open cells in increasing order.
        """
        occupied, held = _occupied(codes, counts, cells)
        self._check_expected(cells)
        noise = source(rng)
        event = self.event(seeded=noise.seeded)
        noisy = held + self._noise().draw(held.size, noise)
        empty = _open_empty(occupied, cells, self.scale, self.threshold, noise)
        opened = np.concatenate([occupied[noisy > self.threshold], empty])
        return Released(value=np.sort(opened), event=event)

    def _check_expected(self, cells: int) -> None:
        likely = Fraction(_opening(self.scale, self.threshold, 128)[1], 1 << 128)
        if cells * likely > MOST_EXPECTED:
            raise BadPrivacyParameter(
                "the threshold is so low that many empty cells would open.",
                found=f"threshold {self.threshold} for {cells} cells",
                fix=f"raise it to at least {least_threshold(cells=cells, epsilon=1 / self.scale)}",
                parameter="threshold",
            )

    def _noise(self) -> SymmetricNoise:
        return SymmetricNoise(linear=1 / self.scale)


def least_threshold(*, cells: int, epsilon: Number, expected: Number = "1/10") -> int:
    """Smallest threshold at which at most `expected` of `cells` empty cells open on average.

    For the children of one cell, `expected` below one keeps empty cells from multiplying from level to level.

    Examples
    --------
    >>> least_threshold(cells=16, epsilon=1)
    4
    """
    share = positive(expected, name="expected") / cells
    scale = 1 / positive(epsilon, name="epsilon")
    low, high = -1, 1

    def enough(threshold: int) -> bool:
        bits = 128 + cells.bit_length()
        return Fraction(_opening(scale, threshold, bits)[1], 1 << bits) <= share

    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _occupied(codes: ArrayLike, counts: ArrayLike, cells: int) -> tuple[Integers, Integers]:
    checks.whole("cells", cells, most=LARGEST_PARTITION, error=BadPrivacyParameter)
    where, held = whole(codes).ravel(), whole(counts).ravel()
    order = np.argsort(where)
    where, held = where[order], held[order] if held.size == where.size else held
    if held.size != where.size or (np.diff(where) <= 0).any() or (where < 0).any() or (where >= cells).any():
        raise BadPrivacyParameter(
            "each occupied cell must be listed once, with one count, inside the partition.",
            expected="codes from 0 to cells - 1 without repeats",
        )
    return where, held


@lru_cache(maxsize=64)
def _opening(scale: Fraction, threshold: int, bits: int) -> Bounds:
    """Bounds of 2^bits · P(noise > threshold) = a^(t+1)/(1 + a)."""
    one = 1 << bits
    top, step = exp_minus((threshold + 1) / scale, bits), exp_minus(1 / scale, bits)
    return (top[0] << bits) // (one + step[1]), -((-top[1] << bits) // (one + step[0]))


def _open_empty(occupied: Integers, cells: int, scale: Fraction, threshold: int, noise: Source) -> Integers:
    empty = cells - occupied.size
    if empty == 0:
        return np.empty(0, dtype=np.int64)
    count = int(_how_many(empty, scale, threshold).draw(noise.words(1) >> np.uint64(1), noise)[0])
    ranks: set[int] = set()
    while len(ranks) < count:
        ranks.add(_below(empty, noise))
    chosen = np.array(sorted(ranks), dtype=np.int64)
    # before the i-th occupied cell there are occupied[i] - i empty ones: from rank among the empty to code
    return chosen + np.searchsorted(occupied - np.arange(occupied.size), chosen, side="right")


@lru_cache(maxsize=16)
def _how_many(empty: int, scale: Fraction, threshold: int) -> LazyTable:
    return LazyTable(lambda bits: _binomial(empty, scale, threshold, bits))


def _below(limit: int, noise: Source) -> int:
    """Uniform integer below a limit, by rejection."""
    bits = max(1, (limit - 1).bit_length())
    while (drawn := noise.bits(bits)) >= limit:
        pass
    return drawn


def _binomial(trials: int, scale: Fraction, threshold: int, bits: int) -> tuple[list[int], list[int]]:
    """Bounds of the cdf of Binomial(trials, q), from P(0) = (1-q)^trials and the ratio of its neighbours."""
    rough = _opening(scale, threshold, 128)
    mean = -(-trials * rough[1] >> 128)
    # room for errors multiplied by `trials`, and for P(0) = e^-mean to keep its leading bits
    precision = bits + 64 + 2 * trials.bit_length() + 4 * mean
    one = 1 << precision
    q = _opening(scale, threshold, precision)
    rest = (one - q[1], one - q[0])
    log = minus_log(rest, precision)
    weight = exp_minus_between((trials * log[0], trials * log[1]), precision)
    odds = (q[0] << precision) // rest[1], -((-q[1] << precision) // rest[0])
    lows, highs, order = [weight[0]], [weight[1]], 0
    while order < trials and (weight[1] >> (precision - bits - 8) or order <= 2 * mean):
        factor, order = trials - order, order + 1
        weight = (
            (weight[0] * odds[0] * factor >> precision) // order,
            -((-weight[1] * odds[1] * factor >> precision) // order),
        )
        lows.append(lows[-1] + weight[0])
        highs.append(highs[-1] + weight[1])
    if order == trials:
        lows[-1] = one
    shift, full = precision - bits, 1 << bits
    return [min(full, low >> shift) for low in lows], [min(full, -(-high >> shift)) for high in highs]
