"""Systems side by side over entities: groups by size, mean and spread, and differences entity by entity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["Difference", "Group", "Verdict", "difference", "mean_and_spread", "size_groups"]

Floats = npt.NDArray[np.float64]
Verdict = Literal["better", "no different", "worse", "unknown"]

_NAMES: Final = {
    1: ("all",),
    2: ("smaller half", "larger half"),
    3: ("smallest third", "middle third", "largest third"),
    4: ("smallest quarter", "second quarter", "third quarter", "largest quarter"),
}


@dataclass(frozen=True, kw_only=True)
class Group:
    """Entities of about one size: a name, a shorter one for a column, and their places."""

    name: str
    short: str
    members: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One system less another, entity by entity; a positive mean is good.

    Attributes
    ----------
    mean, error : float
        Mean over entities and its standard error; NaN when too few can be compared.
    better, worse, entities : int
        At how many entities it is better, worse, and how many were compared.
    """

    mean: float
    error: float
    better: int
    worse: int
    entities: int

    @property
    def verdict(self) -> Verdict:
        """Better or worse only when the mean is more than two standard errors from zero."""
        if not (math.isfinite(self.mean) and math.isfinite(self.error)):
            return "unknown"
        if abs(self.mean) <= 2 * self.error:
            return "no different"
        return "better" if self.mean > 0 else "worse"


def size_groups(users: Sequence[int], *, most: int = 4) -> tuple[Group, ...]:
    """Cut entities into groups by size, quarters when there are at least four; equal sizes keep their order.

    Examples
    --------
    >>> [group.members for group in size_groups([30, 10, 20, 40, 50])]
    [(1, 2), (0,), (3,), (4,)]
    """
    order = np.argsort(np.asarray(users), kind="stable")
    count = max(1, min(most, len(order), len(_NAMES)))
    parts = np.array_split(order, count)
    return tuple(
        Group(name=name, short=name.split(" ")[0], members=tuple(int(place) for place in part))
        for name, part in zip(_NAMES[count], parts, strict=True)
    )


def mean_and_spread(values: Sequence[float], members: Sequence[int]) -> tuple[float, float]:
    """Mean and standard deviation over entities; entities without a number do not count.

    Examples
    --------
    >>> mean_and_spread([1.0, 2.0, 3.0, float("nan")], [0, 2, 3])
    (2.0, 1.4142135623730951)
    """
    chosen = _known(np.asarray(values, dtype=np.float64)[list(members)])
    mean = float(chosen.mean()) if chosen.size else math.nan
    return mean, float(chosen.std(ddof=1)) if chosen.size > 1 else math.nan


def difference(
    one: Sequence[float], other: Sequence[float], members: Sequence[int], *, higher_is_better: bool = True
) -> Difference:
    """Compare two systems at the same entities, each entity with itself.

    Examples
    --------
    >>> found = difference([0.5, 0.6, 0.7], [0.4, 0.5, 0.5], [0, 1, 2])
    >>> found.verdict, found.better, round(found.mean, 3)
    ('better', 3, 0.133)
    >>> difference([0.5, 0.6], [0.4, 0.8], [0, 1]).verdict
    'no different'
    """
    sign = 1.0 if higher_is_better else -1.0
    gaps = _known(sign * (np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64))[list(members)])
    return Difference(
        mean=float(gaps.mean()) if gaps.size else math.nan,
        error=float(gaps.std(ddof=1) / math.sqrt(gaps.size)) if gaps.size > 1 else math.nan,
        better=int((gaps > 0).sum()),
        worse=int((gaps < 0).sum()),
        entities=int(gaps.size),
    )


def _known(values: Floats) -> Floats:
    return values[np.isfinite(values)]
