"""Claims: statements of the paper, and controls of ours, that results can answer; claims.toml has them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal

__all__ = ["CLAIMS", "Claim", "claims_of"]


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


def claims_of(figure: str) -> tuple[Claim, ...]:
    """Claims that a figure answers.

    Examples
    --------
    >>> [claim.key for claim in claims_of("noise-control")]
    ['noise-is-chance']
    """
    return tuple(claim for claim in CLAIMS if claim.figure == figure)


def _read() -> tuple[Claim, ...]:
    text = files("studies.paper").joinpath("claims.toml").read_text(encoding="utf-8")
    return tuple(Claim(**table) for table in tomllib.loads(text)["claim"])


#: In the order of the paper, then our controls.
CLAIMS: Final = _read()
