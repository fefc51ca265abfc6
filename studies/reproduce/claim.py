"""A claim: one statement of the paper, or a control of ours, that results can answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Claim"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement that can be true or false.

    Parameters
    ----------
    key : str
        Short name.
    place : str
        Where the paper says it; for a control of ours, that it is one.
    words : str
        What is said, in our words.
    figure : str
        The figure whose results answer it.
    recorded : str
        The authors' recorded values about it, if any.
    kind : {"paper", "control"}
        A control is ours: it shows that we measure what they measured, or what noise alone gives.
    """

    key: str
    place: str
    words: str
    figure: str
    recorded: str = "none recorded"
    kind: Literal["paper", "control"] = "paper"
