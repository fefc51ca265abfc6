"""Checks of single values: exact numbers, whole numbers, names, hashes.

A float is taken by its shortest decimal text, so that ``0.1`` means exactly 1/10. Every refusal names the parameter.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational

from twofold.errors import BadPlan, BadPrivacyParameter, TwofoldError

__all__ = ["Number", "check_entity_name", "exact", "is_hash", "number", "positive", "read_delta", "shown", "whole"]

Number = Fraction | int | float | str | Decimal
#: Of a number as text, and of its digits: more than any fraction of ours, and read at once.
_LONGEST = 2_000
#: Powers of ten of a number as text; a finite float has no more.
_POWERS = 330
#: Also a file name, and safe to print.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
#: Names of devices on Windows, also with an ending: con.keys opens the console.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin|conout|clock|(?:com|lpt)[0-9])(?:\..*)?", re.IGNORECASE)
_HASH = re.compile("[0-9a-f]{64}")
#: Size of any other number: its square is still a finite one.
LARGEST = 1e100


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
            "{parameter} is not a finite number.",
            found=f"{type(number).__name__}: {shown(number)}",
            expected="a finite number, or text such as '0.1', '1/10' or '1e-6'",
            parameter=name,
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
        raise BadPrivacyParameter("{parameter} must be above zero.", found=str(value), expected="> 0", parameter=name)
    return value


def read_delta(number: Number) -> Fraction:
    """Read a δ from 0 to below 1.

    Examples
    --------
    >>> read_delta(1e-6)
    Fraction(1, 1000000)
    """
    value = exact(number, name="delta")
    if not 0 <= value < 1:
        raise BadPrivacyParameter(
            "{parameter} must be a probability.", found=str(value), expected="from 0 to below 1", parameter="delta"
        )
    return value


def _read(number: Number) -> Fraction:
    """Read a number; its length and its powers of ten are checked before anything is computed from it."""
    if isinstance(number, bool):
        raise ValueError
    if isinstance(number, float):  # numpy.float64 included; its own repr would name its type
        return Fraction(float.__repr__(number))
    if isinstance(number, str) and len(number) > _LONGEST:
        raise ValueError
    if isinstance(number, str) and "/" not in number:
        number = Decimal(number.strip())
    if isinstance(number, Decimal) and (abs(number.adjusted()) > _POWERS or len(number.as_tuple().digits) > _LONGEST):
        raise ValueError  # "1e999999999" would be written out in full
    if isinstance(number, Rational):  # numpy.int64 is one, and would wrap around inside a fraction
        value = Fraction(int(number.numerator), int(number.denominator))
        if isinstance(number, Fraction):  # computed here, or bounded by those who read it
            return value
    else:
        value = Fraction(number)
    if value and not float(value):  # one that is too large raises OverflowError
        raise ValueError
    return value


def shown(value: object, most: int = 40) -> str:
    """Show a foreign value in an error: the beginning of its repr, or its type where it has none.

    Examples
    --------
    >>> shown("abc"), shown(10**5000)
    ("'abc'", 'int')
    """
    try:
        return f"{value!r:.{most}}"
    except (ValueError, RecursionError):  # a whole number of more digits than Python prints, a table without an end
        return type(value).__name__


def check_entity_name(name: object, *, error: type[TwofoldError] = BadPlan) -> str:
    """Refuse a name that is not a plain file name on every system, since names appear in headers and paths.

    Examples
    --------
    >>> check_entity_name("st-anna")
    'st-anna'
    >>> check_entity_name("../st-anna")
    Traceback (most recent call last):
    twofold.errors.BadPlan: an entity's name is not valid...
    """
    # Windows leaves a dot at the end out of file names: a. and a would be one file.
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.endswith("."):
        raise error(
            "an entity's name is not valid.",
            expected="1 to 64 letters, digits, '-', '_' or '.', the first a letter or digit, the last not a '.'",
            parameter="entity",
        )
    if _DEVICE.fullmatch(name):
        raise error(
            "an entity's name is the name of a device on Windows.",
            found=name,
            expected="a name that every system takes as a file name",
            fix=f"another name, as {name.partition('.')[0]}-clinic",
            parameter="entity",
        )
    return name


def whole(
    name: str,
    value: object,
    *,
    least: int | None = 1,
    most: int | None = None,
    kind: type[Integral] | type[int] = int,
    error: type[TwofoldError] = BadPlan,
) -> int:
    """Refuse a value that is not a whole number in its range; a bool is refused.

    Parameters
    ----------
    name : str
        The parameter that holds the value.
    value : object
        What was given.
    least, most : int, optional
        The range, ends included.
    kind : type
        ``numbers.Integral`` takes numpy's whole numbers, too.
    error : type
        What to raise.

    Examples
    --------
    >>> whole("rank", 20)
    20
    >>> whole("rank", True)
    Traceback (most recent call last):
    twofold.errors.BadPlan: rank is out of range...
    """
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if fits and (least is None or value >= least) and (most is None or value <= most):  # type: ignore[operator]
        return int(value)  # type: ignore[call-overload,no-any-return]
    limits = "a whole number" + (f" from {least}" if least is not None else "") + (f" to {most:,}" if most else "")
    raise error("{parameter} is out of range.", found=shown(value), expected=limits, parameter=name)


def number(name: str, value: object) -> float:
    """Refuse a value that is not a finite number."""
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not abs(value) <= LARGEST:  # type: ignore[arg-type]  # NaN and infinity included
        raise BadPlan("{parameter} is not a number.", found=shown(value), expected="a finite number", parameter=name)
    return float(value) + 0.0  # type: ignore[arg-type]  # -0.0 becomes 0.0: equal plans have equal hashes


def is_hash(text: object) -> bool:
    """Say whether something is a SHA-256 in hexadecimal.

    Examples
    --------
    >>> is_hash("0" * 64), is_hash("0")
    (True, False)
    """
    return isinstance(text, str) and _HASH.fullmatch(text) is not None
