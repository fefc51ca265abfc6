"""Why an item was recommended: which of the person's own items pushed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.data.identifiers import Identifiers
from twofold.entity.recommend import History

__all__ = ["Explanation", "Reason", "make_explanation"]


class Reason(NamedTuple):
    """One item of the person: its id, its value, and how much of the score it accounts for."""

    item: Any
    value: float
    contribution: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The score of an item, taken apart.

    Parameters
    ----------
    item : id
        What was asked about.
    score : float
        Its score.
    reasons : list of Reason
        The person's items that moved the score most, the largest first; below 0 for one that spoke against it.
    rest : float
        What is left: the person's other items, and what the item would get without any. Contributions and rest add
        up to the score.

    Privacy
    -------
    Names items of one person. Show it only where the data is.

    Examples
    --------
    >>> print(Explanation(item="lactate", score=1.5, reasons=[Reason("heparin", 3.0, 1.25)], rest=0.25))
    lactate scores 1.500:
      +1.250  because of heparin (3)
      +0.250  everything else
    """

    item: Any
    score: float
    reasons: list[Reason]
    rest: float

    def __str__(self) -> str:
        lines = [f"{self.item} scores {self.score:.3f}:"]
        for one in self.reasons:
            word = "because of" if one.contribution >= 0 else "in spite of"
            lines.append(f"  {one.contribution:+.3f}  {word} {one.item} ({one.value:g})")
        nothing = "nothing is known of this person, so it is what everyone gets"
        lines.append(f"  {self.rest:+.3f}  {'everything else' if self.reasons else nothing}")
        return "\n".join(lines)


def make_explanation(
    item: int, score: float, history: History, contributions: NDArray[np.float64], ids: Identifiers, n: int
) -> Explanation:
    """Name the `n` entries that moved a score most, in either direction.

    Parameters
    ----------
    item : int
        Column of the item in question.
    score : float
        Its score.
    history : History
        Columns and values of the person.
    contributions : array
        One per entry of the history.
    ids : Identifiers
        Item ids.
    n : int
        How many to name.

    Examples
    --------
    >>> history = History(np.array([0, 2]), np.array([1.0, 2.0], np.float32))
    >>> make_explanation(1, 3.0, history, np.array([0.5, -2.0]), Identifiers(["x", "y", "z"]), 1)
    Explanation(item='y', score=3.0, reasons=[Reason(item='z', value=2.0, contribution=-2.0)], rest=5.0)
    """
    order = np.argsort(-np.abs(contributions), kind="stable")[:n]
    reasons = [
        Reason(ids[int(history.columns[at])], float(history.values[at]), float(contributions[at])) for at in order
    ]
    rest = score - sum(reason.contribution for reason in reasons)
    return Explanation(item=ids[item], score=score, reasons=reasons, rest=rest)
