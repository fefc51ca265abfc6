r"""One exact engine for symmetric integer noise, P(y) ∝ exp(-g(\|y\|)) with g(m) = linear·m + quadratic·m².

Discrete Laplace noise of scale b is linear = 1/b; discrete Gaussian noise of variance σ² is quadratic =
1/(2σ²).

How a draw is made, and why it is exact
---------------------------------------
Let L be a power of two so that the noise has a scale of 64 to 128 in units of L (L = 1 for small noise). Then

1. H is drawn with P(H = h) ∝ exp(-g(Lh)) from a `LazyTable` of some thousand entries;
2. R is uniform on 0 .. L-1: plain bits;
3. M = LH + R is kept with probability exp(-(g(M) - g(LH))), an exact coin; else everything is drawn anew;
4. a sign bit is drawn; "minus zero" is drawn anew.

A pair (h, r) survives step 3 with probability proportional to exp(-g(Lh))·exp(-(g(Lh+r) - g(Lh))) =
exp(-g(Lh+r)), so M has P(m) ∝ exp(-g(m)) on 0, 1, 2, ...; step 4 makes it two-sided with zero counted once.
Each choice is exact in law (see `twofold.privacy.mechanisms.lazy`), so the noise is. g is increasing, so
step 3 is a probability, and since g changes little over L, about 99 of 100 proposals survive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadPrivacyParameter
from twofold.privacy.grid import Integers
from twofold.privacy.mechanisms.lazy import WORD, LazyTable, bernoulli, exp_filter, exp_minus, product
from twofold.privacy.rng import Source, Words

__all__ = ["LARGEST_SCALE", "SymmetricNoise"]

# Noise beyond 2^61 would not fit; at this scale its probability is below exp(-2^13).
LARGEST_SCALE = 2**48
_RESOLUTION = 128
_CHUNK = 1 << 17
_SHARED_BITS = 24


@dataclass(frozen=True, kw_only=True)
class SymmetricNoise:
    """Independent integers with P(y) ∝ exp(-(linear·|y| + quadratic·y²)), exact in law.

    Parameters
    ----------
    linear, quadratic : Fraction
        From 0, one of them above 0.
    word : int
        Bits of the fast path; only tests change it.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> noise = SymmetricNoise(linear=Fraction(1, 10))
    >>> noise.draw(5, source(1)).shape
    (5,)
    """

    linear: Fraction = Fraction(0)
    quadratic: Fraction = Fraction(0)
    word: int = WORD

    def __post_init__(self) -> None:
        if min(self.linear, self.quadratic) < 0 or self.linear + self.quadratic == 0:
            raise BadPrivacyParameter("noise needs a scale above zero.")
        if self.linear < Fraction(1, LARGEST_SCALE) and self.quadratic < Fraction(1, 2 * LARGEST_SCALE**2):
            raise BadPrivacyParameter(
                "the noise is too wide for its grid.",
                expected=f"a scale below {LARGEST_SCALE} grid units",
                fix="use a coarser grid or a larger epsilon",
            )

    def draw(self, count: int, source: Source) -> Integers:
        """Draw `count` independent integers."""
        drawn = np.empty(count, dtype=np.int64)
        filled = 0
        while filled < count:
            missing = count - filled
            kept = self._attempt(min(missing + missing // 32 + 8, _CHUNK), source)[:missing]
            drawn[filled : filled + kept.size] = kept
            filled += kept.size
        return drawn

    def exponent(self, magnitude: int) -> Fraction:
        """Exact g of a magnitude."""
        return self.linear * magnitude + self.quadratic * magnitude**2

    @cached_property
    def _low_bits(self) -> int:
        """log2 of L."""
        rates = [self.linear, Fraction(math.isqrt(int(self.quadratic * 2**1001)) + 1, 2**500)]
        scale = 1 / max(rates)  # of the narrower of the two factors, roughly: it only steers speed
        return max(0, (int(scale) // _RESOLUTION).bit_length())

    def _attempt(self, count: int, source: Source) -> Integers:
        words = source.words(count)
        table = _table(self.linear, self.quadratic, self._low_bits, self.word)
        high = table.draw(words >> np.uint64(64 - self.word), source)
        negative = (words & np.uint64(1)).astype(bool)
        if self._low_bits:
            magnitude, kept = self._fill(high, source)
        else:
            magnitude, kept = high, np.ones(count, dtype=bool)
        kept &= ~(negative & (magnitude == 0))
        return np.where(negative, -magnitude, magnitude)[kept]

    def _fill(self, high: Integers, source: Source) -> tuple[Integers, NDArray[np.bool_]]:
        """Add uniform low bits and toss the coin of step 3."""
        shift = self._low_bits
        words = source.words(high.size)
        low = (words & np.uint64((1 << shift) - 1)).astype(np.int64)
        coins, bits = self._coins(words, source)
        base = high << shift
        probability = exp_filter(self._rise(base.astype(np.float64), low.astype(np.float64)))

        def exact(index: int, more: int) -> tuple[int, int]:
            start, top = int(base[index]), int(base[index]) + int(low[index])
            return exp_minus(self.exponent(top) - self.exponent(start), more)

        return base + low, bernoulli(probability, coins, bits, exact, source)

    def _coins(self, words: Words, source: Source) -> tuple[Words, int]:
        if self._low_bits <= _SHARED_BITS:  # the bits that `low` did not use are still uniform
            return words >> np.uint64(self._low_bits), 64 - self._low_bits
        return source.words(words.size), 64

    def _rise(self, base: NDArray[np.float64], low: NDArray[np.float64]) -> NDArray[np.float64]:
        """g(base + low) - g(base) in floating point: a sum of products, none of which cancels."""
        return float(self.linear) * low + float(self.quadratic) * (2.0 * base + low) * low


@lru_cache(maxsize=64)
def _table(linear: Fraction, quadratic: Fraction, shift: int, word: int) -> LazyTable:
    """Table of H: P(H = h) ∝ exp(-(a·h + b·h²)) with a = linear·L and b = quadratic·L²."""
    slope, bend = linear * (1 << shift), quadratic * (1 << 2 * shift)
    return LazyTable(lru_cache(maxsize=4)(partial(_cumulative, slope, bend)), word)


def _cumulative(slope: Fraction, bend: Fraction, bits: int) -> tuple[list[int], list[int]]:
    """Bounds of 2^bits · P(H <= h), from w(h+1) = w(h)·a(h) and a(h+1) = a(h)·exp(-2·bend)."""
    precision = bits + 80
    weight = (1 << precision, 1 << precision)
    ratio = exp_minus(slope + bend, precision)
    step = exp_minus(2 * bend, precision)
    lows, highs = [weight[0]], [weight[1]]
    order = 0
    while weight[1] >= 1 << 72:  # what is below 2^-(bits + 8) is left to more bits
        weight = product(weight, ratio, precision)
        ratio = product(ratio, step, precision)
        order += 1
        lows.append(lows[-1] + weight[0])
        highs.append(highs[-1] + weight[1])
    # the rest: a geometric series of first ratio e^-d, and 1/(1 - e^-d) <= 1 + 1/d
    decay = slope + bend * (2 * order + 1)
    rest = math.ceil(weight[1] * (1 + 1 / decay))
    total_low, total_high = lows[-1], highs[-1] + rest
    cumulative_low = [(low << bits) // total_high for low in lows]
    # P(H <= h) = 1 - P(H > h), so it is also at most one
    cumulative_high = [min(1 << bits, -((-high << bits) // total_low)) for high in highs]
    return cumulative_low, cumulative_high
