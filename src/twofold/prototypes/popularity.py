"""Popularity: one prototype of everybody, the floor every federation gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.privacy.events import Event
from twofold.privacy.mechanisms.released import Released
from twofold.privacy.rng import Source, source
from twofold.prototypes.base import Public
from twofold.prototypes.cells import CellNoise
from twofold.prototypes.combine import added_up
from twofold.prototypes.message import Prototypes, WeightedRows
from twofold.prototypes.records import check_rows, statistic

__all__ = ["Popularity"]


@dataclass(frozen=True, kw_only=True)
class Popularity:
    """Noisy item sums and a noisy number of users; the whole budget, nothing spent on clusters.

    Parameters
    ----------
    name : str
        How the message names its maker; others fall back to this one and keep their own name.
    note : str
        Put into the message.

    Privacy
    -------
    One `CellNoise` of one cell.

    Examples
    --------
    >>> public = Public(n_items=3, n_users=100, max_items=2, bound=1, epsilon=10**6)
    >>> Popularity().release(np.array([[1, 0, 1], [0, 0, 1]]), public).value.value_sums().round(2)
    array([[1., 0., 2.]])
    """

    name: str = "popularity"
    note: str = ""

    @property
    def private(self) -> bool:
        """Yes."""
        return True

    def size(self, public: Public) -> int | None:  # noqa: ARG002
        """One."""
        return 1

    def price(self, public: Public, *, seeded: bool = False) -> Event:
        """One event, the whole budget."""
        return _noise(public).event(seeded=seeded)

    def release(self, rows: Any, public: Public, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release one prototype."""
        matrix, noise = check_rows(rows, public), _noise(public)
        everybody = statistic(
            matrix, public, noise.plan, lambda block: np.zeros(block.n_users, dtype=np.int64), cells=1
        )
        return noise.release(everybody, name=self.name, rng=source(rng), note=self.note)

    def combine(self, messages: Iterable[Prototypes], public: Public) -> WeightedRows:
        """Add the messages up."""
        return added_up(messages, public)


def _noise(public: Public) -> CellNoise:
    return CellNoise(public=public, budget=public.budget, cells=1)
