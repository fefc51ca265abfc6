"""The steps and the progress of a federation, in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from twofold.federation.mailbox import Rejected, StepId

__all__ = ["ARRIVING", "NOT_YET", "PUBLISHED", "SENT", "not_taken"]

#: Exit code when nothing is wrong and the round is not complete.
NOT_YET: Final = 3
#: What an entity sends in each step.
SENT: Final = {
    StepId.AGREE: "the agreement",
    StepId.ROUNDS: "the message",
    StepId.KEYS: "key shares",
    StepId.MASKED: "the masked message",
    StepId.ANSWERS: "the answer",
}
#: What the server publishes in each step.
PUBLISHED: Final = {
    StepId.AGREE: "everybody's agreements",
    StepId.ROUNDS: "the item factors",
    StepId.KEYS: "the list of those who shared keys",
    StepId.MASKED: "the list of messages in the sum",
    StepId.ANSWERS: "the item factors",
}
#: What arrives at the server in each step, when the step closes, and what comes after it.
ARRIVING: Final = {
    StepId.AGREE: ("entities agreed", "all have agreed to the plan", "; messages come then"),
    StepId.ROUNDS: ("entities answered", "all have answered", ""),
    StepId.KEYS: ("key shares arrived", "all have shared keys", "; messages and answers come then"),
    StepId.MASKED: ("messages arrived", "all who shared keys have sent a message", "; answers come then"),
    StepId.ANSWERS: ("answers arrived", "enough have answered to take the masks off", ""),
}


def not_taken(rejected: Iterable[Rejected], most: int = 3) -> str:
    """Name the first few rejected files, and why.

    Examples
    --------
    >>> not_taken([Rejected("x", "a link")])
    'x: a link'
    """
    return "; ".join(f"{one.name}: {one.reason}" for one in list(rejected)[:most])
