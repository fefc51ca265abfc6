"""How well a way of scoring does on the held-out entries of one entity, user by user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.evaluate.ndcg import user_ndcg
from twofold.evaluate.rmse import squared_errors

__all__ = ["Measured", "measure", "merged", "place_sums"]

Floats = NDArray[np.floating[Any]]
Score = Callable[[sparse.csr_array], Floats]
BLOCK = 256


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Sums that add up over users and entities: places, their weights, nDCG, users, squared errors, entries."""

    places: float = 0.0
    weight: float = 0.0
    ndcg: float = 0.0
    users: float = 0.0
    squares: float = 0.0
    entries: float = 0.0

    @property
    def figures(self) -> dict[str, float]:
        """Mean rank, nDCG@10 and RMSE."""
        return {
            "mean rank": self.places / self.weight if self.weight else float("nan"),
            "nDCG@10": self.ndcg / self.users if self.users else float("nan"),
            "RMSE": float(np.sqrt(self.squares / self.entries)) if self.entries else float("nan"),
        }


def merged(parts: list[Measured]) -> Measured:
    """Add up.

    Examples
    --------
    >>> merged([Measured(ndcg=1.0, users=2.0), Measured(ndcg=2.0, users=2.0)]).figures["nDCG@10"]
    0.75
    """
    names = Measured.__dataclass_fields__
    return Measured(**{name: sum(getattr(part, name) for part in parts) for name in names})


def measure(
    score: Score,
    train: sparse.csr_array,
    test: sparse.csr_array,
    *,
    lower: float,
    bound: float,
    predict: Score | None = None,
) -> Measured:
    """Judge scores of users given their training entries; `predict` where ratings are predicted by other numbers."""
    parts = []
    for start in range(0, train.shape[0], BLOCK):
        history, held = train[start : start + BLOCK], test[start : start + BLOCK]
        scores = score(history)
        said = scores if predict is None else predict(history)
        parts.append(_block(scores, said, history, held, lower, bound))
    return merged(parts)


def place_sums(scores: Floats, history: sparse.csr_array, held: sparse.csr_array) -> tuple[float, float]:
    """Sum of the held-out items' places (0 the top, 1 the bottom of what was not seen) times value, and of the values.

    Examples
    --------
    >>> none, held = sparse.csr_array((1, 3)), sparse.csr_array(np.array([[0.0, 2.0, 0.0]]))
    >>> place_sums(np.array([[3.0, 2.0, 1.0]]), none, held)
    (1.0, 2.0)
    """
    open_items = np.ones(scores.shape, np.bool_)
    lines = np.repeat(np.arange(history.shape[0]), np.diff(history.indptr))
    open_items[lines, history.indices] = False
    owners = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
    open_items[owners, held.indices] = True
    total = 0.0
    for start in range(0, owners.size, 1_024):
        span = slice(start, start + 1_024)
        user, item = owners[span], held.indices[span]
        own, others, free = scores[user, item][:, None], scores[user], open_items[user]
        above = ((others > own) & free).sum(axis=1) + (((others == own) & free).sum(axis=1) - 1) / 2
        total += float((above / np.maximum(free.sum(axis=1) - 1, 1)) @ held.data[span])
    return total, float(held.data.sum())


def _block(
    scores: Floats, said: Floats, history: sparse.csr_array, held: sparse.csr_array, lower: float, bound: float
) -> Measured:
    places, weight = place_sums(scores, history, held)
    gained = user_ndcg(scores, held, seen=history, n=10)
    errors = squared_errors(said, held, lower=lower, bound=bound)
    return Measured(
        places=places,
        weight=weight,
        ndcg=float(np.nansum(gained)),
        users=float(np.sum(~np.isnan(gained))),
        squares=float(errors.sum()),
        entries=float(errors.size),
    )
