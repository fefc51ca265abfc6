"""Exponentials and logarithms with proven bounds, in integer arithmetic only.

A value v is held between two integers at a stated number of bits: ``lo <= 2^bits * v <= hi``. Every operation
rounds `lo` down and `hi` up, so the bounds hold whatever the precision; more bits only bring them closer.
This is what makes the samplers exact: they compare random bits with such bounds and ask for more bits when
the bounds do not decide (`twofold.privacy.mechanisms.lazy`).
"""

from __future__ import annotations

from fractions import Fraction

__all__ = ["Bounds", "exp_minus", "exp_minus_between", "minus_log", "product"]

Bounds = tuple[int, int]


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
