"""What every local model can do: score items for histories, and say why."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Scorer"]

Floats = NDArray[np.floating[Any]]
Columns = NDArray[np.integer[Any]]


@runtime_checkable
class Scorer(Protocol):
    """A fitted local model. It holds item-side arrays only; histories are always given.

    Attributes
    ----------
    kind : str
        How an artefact names it: ``"factors"``, ``"item-item"``, ``"patterns"`` or ``"features"``.
    """

    @property
    def kind(self) -> str:
        """How an artefact names it."""
        ...

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        ...

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history, (users, items); the caller gives blocks of users that fit in memory."""
        ...

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history, (items,); equals the same row of `scores`."""
        ...

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry of a history added to the score of one item, in the order of `columns`.

        Together with a constant that no entry explains (an item's own mean) they add up to the score.
        """
        ...

    def similar(self, item: int) -> NDArray[np.float64]:
        """Likeness of every item to one item, at most 1, symmetric; -inf for the item itself."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything needed to rebuild it, by name."""
        ...

    def settings(self) -> dict[str, Any]:
        """Plain JSON that goes with the arrays."""
        ...

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> Scorer:
        """Make it again from `arrays` and `settings`."""
        ...
