r"""Exact draws from irrational probabilities: few random bits as a rule, more when they do not decide.

A uniform number u in [0, 1) is an endless string of random bits. Its first w bits, read as an integer U, say
that u lies in [U, U+1)/2^w. A probability p held between integers lo <= 2^w p <= hi is then compared without
error:

* U + 1 <= lo proves u < p (whatever bits follow),
* U >= hi proves u >= p,
* otherwise more bits are drawn and p is bounded anew with as many; this ends with probability one.

So the outcome has *exactly* the stated law: no table is cut off, no tail is lost, nothing has to be added to
δ. The common case is one comparison of machine words; the other has probability around 2^-40 per draw.

Floating point enters only as a filter (`exp_filter`), made of IEEE additions and multiplications, which the
standard rounds correctly on every machine: its distance from the true exponential is below 2^-38 by the
bound in its docstring, and a comparison closer than that goes to the integers. No library exponential is
trusted.

Exponentials and logarithms are bounded in integer arithmetic only (`exp_minus`, `minus_log`, `product`). A value v
is held between two integers at a stated number of bits: ``lo <= 2^bits * v <= hi``. Every operation rounds `lo` down
and `hi` up, so the bounds hold whatever the precision; more bits only bring them closer.

Symmetric integer noise
-----------------------
`SymmetricNoise` has P(y) ∝ exp(-g(\|y\|)) with g(m) = linear·m + quadratic·m². Discrete Laplace noise of scale b is
linear = 1/b; discrete Gaussian noise of variance σ² is quadratic = 1/(2σ²). Let L be a power of two so that the noise
has a scale of 64 to 128 in units of L (L = 1 for small noise). Then

1. H is drawn with P(H = h) ∝ exp(-g(Lh)) from a `LazyTable` of some thousand entries;
2. R is uniform on 0 .. L-1: plain bits;
3. M = LH + R is kept with probability exp(-(g(M) - g(LH))), an exact coin; else everything is drawn anew;
4. a sign bit is drawn; "minus zero" is drawn anew.

A pair (h, r) survives step 3 with probability proportional to exp(-g(Lh))·exp(-(g(Lh+r) - g(Lh))) =
exp(-g(Lh+r)), so M has P(m) ∝ exp(-g(m)) on 0, 1, 2, ...; step 4 makes it two-sided with zero counted once.
Each choice is exact in law, so the noise is. g is increasing, so
step 3 is a probability, and since g changes little over L, about 99 of 100 proposals survive.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.errors import BadPrivacyParameter
from twofold.privacy.events import Event, Released
from twofold.privacy.grid import Integers, whole
from twofold.privacy.rng import Source, Words, source
from twofold.progress import tell

__all__ = [
    "BAND",
    "LARGEST_SCALE",
    "RELATIVE",
    "Bounds",
    "Cumulative",
    "LazyTable",
    "SymmetricNoise",
    "add_noise",
    "bernoulli",
    "decide",
    "exp_filter",
    "exp_minus",
    "exp_minus_between",
    "minus_log",
    "product",
    "resolve",
]

Floats = NDArray[np.float64]
Bounds = tuple[int, int]
Cumulative = Callable[[int], tuple[Sequence[int], Sequence[int]]]

BAND = 2.0**-38
RELATIVE = 2.0**-41
WORD = 63
_MORE = 64


@dataclass(frozen=True)
class LazyTable:
    """Inverse-cdf sampling on 0, 1, 2, ... that is exact in law, tails included.

    Parameters
    ----------
    cumulative : callable
        Given a number of bits, returns two lists: lower and upper integer bounds of 2^bits · P(X <= k), for
        k = 0, 1, ... until what is left is about 2^-bits. Any bounds that hold are sound.
    word : int
        How many bits the fast path compares, up to 63. Tests make it small to walk the slow path.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> coin = LazyTable(lambda bits: ([1 << (bits - 1), 1 << bits], [1 << (bits - 1), 1 << bits]))
    >>> coin.draw(np.array([0, 2**63 - 1], dtype=np.uint64), source())
    array([0, 1])
    """

    cumulative: Cumulative
    word: int = WORD
    _low: Words = field(init=False, repr=False, compare=False)
    _high: Words = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        low, high = self.cumulative(self.word)
        object.__setattr__(self, "_low", np.array(low, dtype=np.uint64))
        object.__setattr__(self, "_high", np.maximum.accumulate(np.array(high, dtype=np.uint64)))

    def draw(self, words: Words, source: Source) -> Integers:
        """Turn uniform words of `word` bits into draws, asking the source for more bits where needed."""
        drawn = np.searchsorted(self._high, words, side="right")
        inside = drawn < self._low.size
        sure = inside & (words < self._low[np.where(inside, drawn, 0)])
        for index in np.flatnonzero(~sure):
            drawn[index] = self._resolve(int(words[index]), source)
        return drawn.astype(np.int64, copy=False)

    def _resolve(self, prefix: int, source: Source) -> int:
        return resolve(self.cumulative, prefix << _MORE | source.bits(_MORE), self.word + _MORE, source)


def resolve(cumulative: Cumulative, prefix: int, bits: int, source: Source) -> int:
    """Index that the u beginning with `prefix` (of `bits` bits) falls on, asking for more bits until it is
    sure.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> halves = lambda bits: ([1 << (bits - 1), 1 << bits], [1 << (bits - 1), 1 << bits])
    >>> resolve(halves, 9, 4, source())  # 9/16 is in the second half
    1
    """
    while True:
        low, high = cumulative(bits)
        index = bisect_right(high, prefix)
        if index < len(low) and prefix < low[index]:
            return index
        prefix = prefix << _MORE | source.bits(_MORE)
        bits += _MORE


def decide(bounds: Callable[[int], Bounds], prefix: int, bits: int, source: Source) -> bool:
    """Whether u < p, for the u that begins with `prefix` (of `bits` bits) and the p that `bounds` bounds.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> decide(lambda bits: (1 << (bits - 1), 1 << (bits - 1)), 5, 4, source())  # 5/16 < 1/2
    True
    """
    while True:
        low, high = bounds(bits)
        if prefix < low:
            return True
        if prefix >= high:
            return False
        prefix = prefix << _MORE | source.bits(_MORE)
        bits += _MORE


def bernoulli(
    probability: Floats, words: Words, bits: int, exact: Callable[[int, int], Bounds], source: Source
) -> NDArray[np.bool_]:
    """Independent exact coins: True at i with the probability that ``exact(i, bits)`` bounds.

    Parameters
    ----------
    probability : array
        The same probabilities in floating point, each within `BAND` of the truth.
    words : array of uint64
        One uniform word of `bits` bits each.
    exact : callable
        Bounds of 2^bits · p_i, used only where the floats do not decide.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> half = lambda index, bits: (1 << (bits - 1), 1 << (bits - 1))
    >>> bernoulli(np.array([0.5, 0.5]), np.array([1, 2**40 - 1], dtype=np.uint64), 40, half, source())
    array([ True, False])
    """
    surplus = max(0, bits - 52)  # what a float cannot hold exactly
    uniform = np.ldexp((words >> np.uint64(surplus)).astype(np.float64), surplus - bits)
    margin = BAND + 2.0 ** (surplus - bits)
    taken = uniform < probability - margin
    unsure = ~taken & (uniform < probability + margin)
    for index in np.flatnonzero(unsure):
        taken[index] = decide(partial(exact, int(index)), int(words[index]), bits, source)
    return taken


def exp_filter(exponent: Floats) -> Floats:
    """Approximate exp(-x) for x from 0 within `BAND` and, to 64, within a part `RELATIVE`, by IEEE additions
    and multiplications alone.

    Notes
    -----
    x <= 64 is divided by 2^8 (exactly) to at most 1/4, where thirteen terms of the series leave out at most
    (1/4)^13/13! < 2^-58. In Horner's form an error e becomes at most (e + 3·2^-53)/4 + 2^-53, so the
    roundings add less than 2^-51. Each of 8 squarings doubles the relative error and adds 2^-53: below 2^-42
    in the end. The caller's rounding of x, relative 2^-50, moves the result by at most max(x·e^-x)·2^-50 <
    2^-51. For x > 64 the value returned is 0 and the truth is below 2^-92.

    Examples
    --------
    >>> float(abs(exp_filter(np.array([1.0])) - np.exp(-1.0))[0]) < BAND
    True
    """
    largest = float(exponent.max(initial=0.0))
    halvings = 0 if largest <= 0.25 else 8
    small = np.ldexp(np.minimum(exponent, 64.0), -halvings)
    result = np.ones_like(small)
    for order in range(12, 0, -1):
        result *= small
        result *= -1.0 / order  # the rounded 1/order is one of the counted roundings
        result += 1.0
    for _ in range(halvings):
        result *= result
    return np.where(exponent > 64.0, 0.0, result) if largest > 64.0 else result


def exp_minus(exponent: Fraction, bits: int) -> Bounds:
    """Bound 2^bits · exp(-exponent) for a rational exponent from 0, within about one unit.

    Examples
    --------
    >>> exp_minus(Fraction(1), 32)
    (1580030168, 1580030169)
    >>> exp_minus(Fraction(0), 8)
    (256, 256)
    """
    if exponent == 0:
        return 1 << bits, 1 << bits
    if exponent >= bits:  # e^-x < 2^-x, so the value is below one unit
        return 0, 1
    halvings = max(0, (exponent.numerator // exponent.denominator).bit_length() + 1)
    # each squaring at most doubles the relative error; the series adds one unit per term
    extra = halvings + 16
    lo, hi = _exp_series(exponent / (1 << halvings), bits + extra)
    for _ in range(halvings):
        lo, hi = product((lo, hi), (lo, hi), bits + extra)
    return lo >> extra, -((-hi) >> extra)


def exp_minus_between(exponent: Bounds, bits: int) -> Bounds:
    """Bound 2^bits · exp(-x) for an x held between bounds at the same number of bits.

    Examples
    --------
    >>> exp_minus_between((1 << 32, 1 << 32), 32) == exp_minus(Fraction(1), 32)
    True
    """
    low, high = (Fraction(end, 1 << bits) for end in exponent)
    return exp_minus(high, bits)[0], exp_minus(low, bits)[1]


def product(one: Bounds, two: Bounds, bits: int) -> Bounds:
    """Multiply two values from 0, each held between bounds.

    Examples
    --------
    >>> product((128, 129), (128, 129), 8)
    (64, 66)
    """
    return (one[0] * two[0]) >> bits, -((-one[1] * two[1]) >> bits)


def minus_log(value: Bounds, bits: int) -> Bounds:
    """Bound 2^bits · (-ln v) for a v in (0, 1] held between bounds at the same number of bits.

    Examples
    --------
    >>> minus_log((1 << 31, 1 << 31), 32)  # ln 2 = 0.693147...
    (2977044471, 2977044472)
    """
    extra = 16
    low = _minus_log_point(min(value[1], 1 << bits), bits, bits + extra)[0]
    high = _minus_log_point(value[0], bits, bits + extra)[1]
    return max(0, low >> extra), -((-high) >> extra)


def _exp_series(small: Fraction, bits: int) -> Bounds:
    """Alternating series of exp(-small) for 0 < small <= 1/2; what is left out is below the last term."""
    low = (small.numerator << bits) // small.denominator
    x = (low, low + 1)
    term: Bounds = (1 << bits, 1 << bits)
    lo = hi = 1 << bits
    order = 0
    while term[1] > 1:
        order += 1
        lo_next, hi_next = product(term, x, bits)
        term = lo_next // order, -(-hi_next // order)
        if order % 2:
            lo, hi = lo - term[1], hi - term[0]
        else:
            lo, hi = lo + term[0], hi + term[1]
    return max(0, lo - term[1]), hi + term[1]


def _minus_log_point(value: int, bits: int, precision: int) -> Bounds:
    """-ln(value / 2^bits) = halvings · ln 2 - ln(mantissa), with the mantissa in [1, 2)."""
    halvings = bits - (value.bit_length() - 1)
    mantissa = Fraction(value, 1 << (value.bit_length() - 1))
    two = _log_series(Fraction(1, 3), precision)
    rest = _log_series((mantissa - 1) / (mantissa + 1), precision)
    return halvings * two[0] - rest[1], halvings * two[1] - rest[0]


def _log_series(ratio: Fraction, bits: int) -> Bounds:
    """2·artanh(ratio) = 2·Σ ratio^(2n+1)/(2n+1) for 0 <= ratio <= 1/3; the rest is below the last term."""
    low = (ratio.numerator << bits) // ratio.denominator
    power: Bounds = (low, low if ratio == 0 else low + 1)
    square = product(power, power, bits)
    lo = hi = 0
    order = 1
    while True:
        lo, hi = lo + power[0] // order, hi - (-power[1] // order)
        if power[1] <= 1:
            return 2 * lo, 2 * (hi + power[1])
        power = product(power, square, bits)
        order += 2


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
            if count > _CHUNK:
                tell("noise", filled, count)
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


def add_noise(
    values: ArrayLike,
    rng: int | Source | None,
    *,
    event: Callable[..., Event],
    draw: Callable[[int, Source], Integers],
) -> Released[Integers]:
    """Add noise to integers; with a seed the release is marked not private.

    Parameters
    ----------
    values : array of whole numbers
        What is protected.
    rng : int, Source or None
        The operating system by default.
    event : callable
        Describes a release of that many values, before anything is drawn.
    draw : callable
        Draws that many independent numbers.

    Examples
    --------
    >>> from twofold.privacy.mechanisms.laplace import DiscreteLaplace
    >>> from twofold.privacy.unit import Unit
    >>> noise = DiscreteLaplace(epsilon=10**6, sensitivity=1, unit=Unit.person())
    >>> add_noise([3, 4], None, event=noise.event, draw=lambda count, _: np.zeros(count, dtype=np.int64)).value
    array([3, 4])
    """
    integers, noise = whole(values), source(rng)
    described = event(integers.size, seeded=noise.seeded)
    return Released(value=integers + draw(integers.size, noise).reshape(integers.shape), event=described)
