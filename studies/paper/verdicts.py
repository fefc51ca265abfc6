"""Verdicts: what results say about a claim, by which rule and within which limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from studies.paper.claims import Claim
from studies.paper.results import Order, Results

__all__ = [
    "COMPARABLE",
    "LOWER",
    "PLACES",
    "SAME",
    "SYMBOLS",
    "Holds",
    "Judge",
    "Judgement",
    "Verdict",
    "all_of",
    "gaps",
    "limit",
    "line",
    "near",
    "said",
]

Holds = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What results say about a claim.

    Parameters
    ----------
    holds : {"holds", "does not hold", "cannot be told"}
        The verdict.
    ours : str
        Our numbers, with their spread.
    rule : str
        How the claim was turned into a question that numbers answer, with its limit, and whether that is a choice.
    why : str
        The reason in a sentence or two.
    """

    holds: Holds
    ours: str
    rule: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim and what we find about it."""

    claim: Claim
    judgement: Judgement

    @property
    def holds(self) -> Holds:
        """The verdict."""
        return self.judgement.holds

    def record(self) -> dict[str, str]:
        """Everything, as plain JSON."""
        return {
            "claim": self.claim.key,
            "kind": self.claim.kind,
            "place": self.claim.place,
            "words": self.claim.words,
            "recorded": self.claim.recorded,
            "ours": self.judgement.ours,
            "asked": self.judgement.rule,
            "verdict": self.holds,
            "why": self.judgement.why,
        }


#: Answers one claim from the results of its figure.
Judge = Callable[[Results], Judgement]


def said(told: bool | None) -> Holds:
    """Put an answer into words; None is "cannot be told".

    Examples
    --------
    >>> said(True), said(False), said(None)
    ('holds', 'does not hold', 'cannot be told')
    """
    if told is None:
        return "cannot be told"
    return "holds" if told else "does not hold"


def all_of(orders: list[str], wanted: tuple[str, ...]) -> bool | None:
    """Whether every comparison came out as claimed; None if one could not be made, or is too close where it matters.

    Parameters
    ----------
    orders : list of str
        "lower", "alike", "higher" or "unknown".
    wanted : tuple of str
        Which of these the claim allows. Something alike that is not allowed is too close to call, unless another
        comparison contradicts the claim.

    Examples
    --------
    >>> all_of(["lower", "lower"], ("lower",)), all_of(["lower", "alike"], ("lower",))
    (True, None)
    >>> all_of(["alike", "higher"], ("lower",))
    False
    """
    if not orders or "unknown" in orders:
        return None
    others = [order for order in orders if order not in wanted]
    if not others:
        return True
    return None if set(others) == {"alike"} else False


#: "The same", "equally well", "approaches", "converge", "a minimal drop", "no significant effect".
SAME: Final = 0.02
#: "Comparable", "little difference", "fairly small", "competitive", "performs well".
COMPARABLE: Final = 0.1
#: How orders are asked; what counts as lower is said once, above the table.
LOWER: Final = "lower at every point"


def gaps(results: Results, one: str, other: str, metric: str, *, at: Sequence[float] = ()) -> list[float]:
    """How far a line is above another, as shares of the other, at every x or at some."""
    pairs = [(results.at(one, x, metric).mean, results.at(other, x, metric).mean) for x in at or results.x]
    return [first / second - 1 if second else math.nan for first, second in pairs]


def near(shares: Sequence[float], most: float, *, below: bool = False) -> bool | None:
    """Whether every gap is within the limit; None if one is unknown.

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


#: What is varied, as short as the paper writes it.
SYMBOLS: Final = {
    "rank": "ℓ =",
    "n_prototypes": "k =",
    "epsilon": "ε =",
    "n_entities": "entities:",
    "iterations": "iterations:",
    "regularization": "λ =",
}

#: How an order reads between two names.
PLACES: Final[dict[Order, str]] = {"lower": "below", "alike": "like", "higher": "above", "unknown": "not known beside"}


def line(results: Results, names: tuple[str, ...], metric: str) -> str:
    """Numbers of some lines at the first and the last x."""
    first, last = results.x[0], results.x[-1]
    head = f"{SYMBOLS[results.figure.across]} {first:g}"
    if first == last:
        return f"{head}. " + "; ".join(f"{name}: {results.at(name, first, metric)}" for name in names)
    parts = [f"{name}: {results.at(name, first, metric)} to {results.at(name, last, metric)}" for name in names]
    return f"{head} to {last:g}. " + "; ".join(parts)
