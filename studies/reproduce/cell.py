"""A cell: one system on one data set with one seed, the smallest piece of work that is kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Cell", "Row"]

Task = Literal["fit", "objective"]
#: Metric, group of entities ("all", "quarter 1", "entity 5"), value, and an interval over users where there is one.
Row = tuple[str, str, float, float | None, float | None]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What to run. Two figures that need the same cell share it.

    Parameters
    ----------
    data : mapping
        Name of the source under "source", and its options.
    system : str
        A name of the registry of systems; for the task "objective", of the registry of mechanisms.
    options : mapping
        Public options of the system.
    seed : int
        Of everything that is drawn.
    feedback : {"counts", "ratings"}
        What absent entries mean.
    task : {"fit", "objective"}
        Fit and measure a recommender, or judge prototypes by their k-means objective.

    Examples
    --------
    >>> one = Cell(data={"source": "hospitals"}, system="pooled", options={"rank": 2}, seed=0)
    >>> one.key == Cell(data={"source": "hospitals"}, system="pooled", options={"rank": 2}, seed=0).key
    True
    """

    data: Mapping[str, Any] = field(hash=False)
    system: str
    options: Mapping[str, Any] = field(hash=False)
    seed: int
    feedback: Literal["counts", "ratings"] = "counts"
    task: Task = "fit"

    def record(self) -> dict[str, Any]:
        """Everything, as plain JSON."""
        return {
            "data": dict(self.data),
            "system": self.system,
            "options": dict(self.options),
            "seed": self.seed,
            "feedback": self.feedback,
            "task": self.task,
        }

    @property
    def key(self) -> str:
        """Name of its file: equal work has an equal key."""
        text = json.dumps(self.record(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:24]
