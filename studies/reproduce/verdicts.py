"""Verdicts: what a claim says, what was recorded, what we find, whether it holds, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from studies.reproduce.claim import Claim

__all__ = ["Holds", "Judgement", "Verdict", "all_of", "said"]

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


def said(told: bool | None) -> Holds:
    """Put an answer in words; None is "cannot be told".

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
