"""Numbers of the privacy layer: exact fractions, read from what people type.

A float is taken by its shortest decimal text, so that ``0.1`` means exactly 1/10.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from twofold.errors import BadPrivacyParameter

__all__ = ["Number", "exact", "positive", "read_delta"]

Number = Fraction | int | float | str | Decimal
_DIGITS = 5000


def exact(number: Number, *, name: str = "number") -> Fraction:
    """Read a number as an exact fraction, a float by its shortest decimal text.

    Examples
    --------
    >>> exact(0.1), exact("1/3"), exact("1e-6")
    (Fraction(1, 10), Fraction(1, 3), Fraction(1, 1000000))
    """
    try:
        return _read(number)
    except (ValueError, TypeError, ArithmeticError):
        raise BadPrivacyParameter(
            f"{name} is not a finite number.",
            found=f"{type(number).__name__}: {number!s:.40}",
            expected="a finite number, or text such as '0.1', '1/10' or '1e-6'",
        ) from None


def positive(number: Number, *, name: str) -> Fraction:
    """Read a number that must be above zero.

    Examples
    --------
    >>> positive("1/2", name="epsilon")
    Fraction(1, 2)
    """
    value = exact(number, name=name)
    if value <= 0:
        raise BadPrivacyParameter(f"{name} must be above zero.", found=str(value), expected=f"{name} > 0")
    return value


def read_delta(number: Number) -> Fraction:
    """Read a δ, which must lie in [0, 1).

    Examples
    --------
    >>> read_delta(1e-6)
    Fraction(1, 1000000)
    """
    value = exact(number, name="delta")
    if not 0 <= value < 1:
        raise BadPrivacyParameter("delta is a probability.", found=str(value), expected="0 <= delta < 1")
    return value


def _read(number: Number) -> Fraction:
    if isinstance(number, bool):
        raise ValueError
    if isinstance(number, float):  # numpy.float64 included; its own repr would name its type
        return Fraction(float.__repr__(number))
    if isinstance(number, str) and "/" not in number:
        number = Decimal(number.strip())
    if isinstance(number, Decimal) and abs(number.adjusted()) > _DIGITS:
        raise ValueError  # "1e999999999" would be written out in full
    if isinstance(number, Rational):  # numpy.int64 is one, and would wrap around inside a fraction
        return Fraction(int(number.numerator), int(number.denominator))
    return Fraction(number)
