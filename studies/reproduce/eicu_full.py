"""The eICU panels on the credentialed tables: whether the paper's order is found."""

from __future__ import annotations

from typing import Final

from studies.reproduce.eicu import order_of_three
from studies.reproduce.judge import Judge

__all__ = ["JUDGES"]

JUDGES: Final[dict[str, Judge]] = {"full-same-order": order_of_three}
