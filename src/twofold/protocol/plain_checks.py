"""Checks that need nothing but the value: names, whole numbers, hashes."""

from __future__ import annotations

import math
import re

from twofold.errors import BadPlan

__all__ = ["check_entity_name", "is_hash", "number", "whole"]

#: Also a file name on every system, and safe to print.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HASH = re.compile("[0-9a-f]{64}")
#: Size of any other number: its square is still a finite one.
LARGEST = 1e100


def check_entity_name(name: object) -> str:
    """Refuse a name that is no plain file name; it stands in headers and paths.

    Examples
    --------
    >>> check_entity_name("st-anna")
    'st-anna'
    >>> check_entity_name("../st-anna")
    Traceback (most recent call last):
    twofold.errors.BadPlan: an entity's name is not usable...
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadPlan(
            "an entity's name is not usable.",
            expected="1 to 64 letters, digits, '-', '_' or '.', the first a letter or digit",
        )
    return name


def whole(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse what is not a whole number in its range."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):  # type: ignore[operator]
        limits = f"a whole number from {least}" + (f" to {most:,}" if most else "")
        raise BadPlan(f"{name} is out of range.", found=f"{value!r:.40}", expected=limits)


def number(name: str, value: object) -> float:
    """Refuse what is not a finite number."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or abs(value) > LARGEST:  # type: ignore[arg-type]
        raise BadPlan(f"{name} is not a number.", found=f"{value!r:.40}", expected="a finite number")
    return float(value) + 0.0  # type: ignore[arg-type]  # -0.0 becomes 0.0: equal plans have equal hashes


def is_hash(text: object) -> bool:
    """Say whether something is a SHA-256 in hexadecimal.

    Examples
    --------
    >>> is_hash("0" * 64), is_hash("0")
    (True, False)
    """
    return isinstance(text, str) and _HASH.fullmatch(text) is not None
