"""JSON from strangers: one reading only, small numbers, little nesting; and the one way we write it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from twofold.errors import BadMessage

__all__ = ["canonical_json", "parse_json", "printable"]

_DEPTH = 8
_DIGITS = 20


def canonical_json(record: object) -> str:
    r"""Write a record in the only form we write: sorted keys, no spaces, ASCII, no NaN.

    Examples
    --------
    >>> canonical_json({"b": 1.5, "a": "ε"})
    '{"a":"\\u03b5","b":1.5}'
    """
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def parse_json(text: str) -> dict[str, Any]:
    """Read an object; what two readers could understand differently, or what is made to be costly, is refused.

    Examples
    --------
    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    twofold.errors.BadMessage: the header is not sound JSON...
    """
    try:
        found = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
        )
    except (ValueError, RecursionError):
        raise _unsound("a text that is not JSON, repeats a key, or holds a number out of range") from None
    if not isinstance(found, dict):
        raise _unsound("no object")
    if _depth(found) > _DEPTH:
        raise _unsound("nested too deeply")
    return found


def printable(value: object, most: int = 80) -> str:
    r"""Give a foreign text that is safe to show: one line of ASCII, and not long.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a?[2Jb'
    """
    return re.sub(r"[^ -~]", "?", str(value)[: most + 1])[:most]


def _depth(found: object) -> int:
    """Levels of objects and lists, counted without recursion: level by level."""
    level, depth = [found], 0
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("too many digits")
    return int(text)


def _number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError("not finite")
    return found


def _constant(text: str) -> float:
    raise ValueError(text)


def _unsound(found: str) -> BadMessage:
    return BadMessage("the header is not sound JSON.", found=found, expected="one object, as twofold writes it")
