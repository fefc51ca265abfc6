"""The eICU panels on the credentialed tables: whether the paper's order is found."""

from __future__ import annotations

from typing import Final

from twofold.experiments.reproduce.eicu import order_of_three
from twofold.experiments.reproduce.judge import Judge

__all__ = ["JUDGES"]

JUDGES: Final[dict[str, Judge]] = {"full-same-order": order_of_three}
