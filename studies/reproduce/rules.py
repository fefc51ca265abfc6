"""Rules of verdicts: a few limits, the same for every claim, and how a limit that is a choice is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from studies.reproduce.results import Results

__all__ = ["COMPARABLE", "LOWER", "SAME", "gaps", "limit", "near"]

#: "The same", "equally well", "approaches", "converge", "a minimal drop", "no significant effect".
SAME: Final = 0.02
#: "Comparable", "little difference", "fairly small", "competitive", "performs well".
COMPARABLE: Final = 0.1
#: How orders are asked; what counts as lower is said once, above the table.
LOWER: Final = "lower at every point"


def gaps(results: Results, one: str, other: str, metric: str, *, at: Sequence[float] = ()) -> list[float]:
    """How far a line lies above another, as shares of the other, at every x or at some.

    Parameters
    ----------
    results : Results
        Of a figure.
    one, other : str
        Names of lines.
    metric : str
        Which number.
    at : sequence of float, optional
        Where; everywhere by default.
    """
    pairs = [(results.at(one, x, metric).mean, results.at(other, x, metric).mean) for x in at or results.x]
    return [first / second - 1 if second else math.nan for first, second in pairs]


def near(shares: Sequence[float], most: float, *, below: bool = False) -> bool | None:
    """Whether every gap is at most so large; None where one is not known.

    Parameters
    ----------
    shares : sequence of float
        Gaps as shares.
    most : float
        The limit.
    below : bool
        Whether any gap below counts as near: for "no worse than".

    Examples
    --------
    >>> near([0.01, -0.05], 0.02), near([0.01, -0.05], 0.02, below=True), near([float("nan")], 0.02)
    (False, True, None)
    """
    if not shares or not all(math.isfinite(share) for share in shares):
        return None
    return _largest(shares, below=below) <= most


def limit(shares: Sequence[float], most: float, *, below: bool = False) -> str:
    """The limit in words, that it is a choice, and where another choice would turn the verdict.

    Examples
    --------
    >>> limit([0.041, -0.01], 0.1)
    'a limit of 10% is our choice, the verdict turns at 4.1%'
    >>> limit([-0.2], 0.1, below=True)
    'a limit of 10% is our choice, no limit would turn the verdict'
    """
    words = f"a limit of {100 * most:.0f}% is our choice"
    known = [share for share in shares if math.isfinite(share)]
    if not known:
        return words
    largest = _largest(known, below=below)
    return f"{words}, " + (
        f"the verdict turns at {100 * largest:.1f}%" if largest > 0 else "no limit would turn the verdict"
    )


def _largest(shares: Sequence[float], *, below: bool) -> float:
    return max(shares) if below else max(abs(share) for share in shares)
