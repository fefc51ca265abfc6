"""The numbers of every experiment, one TOML file each, read and checked."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Final

from twofold.errors import BadParameter

__all__ = ["FAMILIES", "SIZES", "Size", "read_settings"]

Size = str
SIZES: Final = ("quick", "paper")
#: One file and one TOML per experiment; an experiment may have several figures, which share its runs.
FAMILIES: Final = (
    "fig1",
    "eicu",
    "eicu_demo",
    "eicu_full",
    "movielens",
    "exp1",
    "entities",
    "supplement",
    "masked_truth",
    "cost",
    "noise_control",
    "comparison",
    "systems",
)
#: What a file takes over from the one it says it is like.
_SHARED: Final = ("feedback", "objective", "line")
_PACKAGE: Final = "studies.reproduce"


@cache
def read_settings(family: str) -> dict[str, Any]:
    """Read the TOML file of an experiment.

    Examples
    --------
    >>> sorted(read_settings("movielens")["size"])
    ['paper', 'quick']
    >>> read_settings("magic")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this experiment is not known...
    """
    if family not in FAMILIES:
        raise BadParameter("this experiment is not known.", found=f"{family!r:.60}", expected=", ".join(FAMILIES))
    own = tomllib.loads(_text(family))
    like = read_settings(own["like"]) if "like" in own else {}
    return {**{name: like[name] for name in _SHARED if name in like}, **own}


def _text(family: str) -> str:
    return files(_PACKAGE).joinpath(f"{family}.toml").read_text(encoding="utf-8")
