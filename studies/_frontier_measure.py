"""How good scores are, user by user, so that two ways can be compared on the same users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.entity.candidates import Losses, paired
from twofold.evaluate.ndcg import user_ndcg
from twofold.evaluate.rmse import squared_errors

__all__ = ["PerUser", "gain", "measure", "places"]

Floats = NDArray[np.floating[Any]]
Score = Callable[[sparse.csr_array], Floats]
BLOCK = 256
TOP = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class PerUser:
    """One number per user with held-out entries.

    Attributes
    ----------
    users : array
        Which users.
    ndcg, rank : arrays
        nDCG@10, and the mean place of the held-out items among those without an entry (0 first, 1 last).
    squares, entries : arrays
        Sum of squared errors, and of how many entries.
    """

    users: NDArray[np.intp]
    ndcg: NDArray[np.float64]
    rank: NDArray[np.float64]
    squares: NDArray[np.float64]
    entries: NDArray[np.float64]

    @property
    def figures(self) -> dict[str, float]:
        """Means over users, and the mean squared error over entries.

        An entity without held-out entries has none.
        """
        if not self.users.size:
            return {"ndcg": np.nan, "mean_rank": np.nan, "mse": np.nan}
        return {
            "ndcg": float(self.ndcg.mean()),
            "mean_rank": float(self.rank.mean()),
            "mse": float(self.squares.sum() / self.entries.sum()),
        }


def measure(
    score: Score,
    train: sparse.csr_array,
    test: sparse.csr_array,
    *,
    lower: float,
    bound: float,
    predict: Score | None = None,
) -> PerUser:
    """Judge the scores of users who have something held out; `predict` where ratings are predicted by other numbers.

    Examples
    --------
    >>> none, held = sparse.csr_array((1, 3)), sparse.csr_array(np.array([[0.0, 2.0, 0.0]]))
    >>> made = measure(lambda rows: np.array([[3.0, 2.0, 1.0]]), none, held, lower=0, bound=5)
    >>> made.rank, made.squares
    (array([0.5]), array([0.]))
    """
    users = np.flatnonzero(np.diff(test.indptr))
    parts = []
    for start in range(0, users.size, BLOCK):
        here = users[start : start + BLOCK]
        history, held = train[here], test[here]
        scores = score(history)
        said = scores if predict is None else predict(history)
        errors = squared_errors(said, held, lower=lower, bound=bound)
        owners = np.repeat(np.arange(here.size), np.diff(held.indptr))
        parts.append(
            (
                user_ndcg(scores, held, seen=history, n=TOP),
                places(scores, history, held),
                np.bincount(owners, errors, here.size),
                np.diff(held.indptr).astype(np.float64),
            )
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or [np.zeros(0)] * 4
    return PerUser(users=users, ndcg=columns[0], rank=columns[1], squares=columns[2], entries=columns[3])


def places(scores: Floats, history: sparse.csr_array, held: sparse.csr_array) -> NDArray[np.float64]:
    """Mean place of each user's held-out items among the items without an entry; ties count half.

    Examples
    --------
    >>> none, held = sparse.csr_array((1, 3)), sparse.csr_array(np.array([[1.0, 0.0, 0.0]]))
    >>> places(np.array([[1.0, 2.0, 3.0]]), none, held)
    array([1.])
    """
    found = np.full(held.shape[0], np.nan)
    for user in np.flatnonzero(np.diff(held.indptr)):
        wanted = held.indices[held.indptr[user] : held.indptr[user + 1]]
        open_items = np.ones(scores.shape[1], np.bool_)
        open_items[history.indices[history.indptr[user] : history.indptr[user + 1]]] = False
        open_items[wanted] = True
        order = np.sort(scores[user][open_items])
        own = scores[user][wanted]
        above = order.size - np.searchsorted(order, own, side="right")
        ties = order.size - np.searchsorted(order, own, side="left") - above - 1
        found[user] = np.mean((above + ties / 2) / max(order.size - 1, 1))
    return found


def gain(alone: PerUser, other: PerUser, feedback: str) -> tuple[float, float]:
    """By how much `other` is better than `alone` on the same users, and the standard error of that.

    nDCG for counts, mean squared error for ratings; users are independent of one another.

    Examples
    --------
    >>> users = np.arange(6)
    >>> one = PerUser(users=users, ndcg=np.zeros(6), rank=np.zeros(6), squares=np.ones(6), entries=np.ones(6))
    >>> two = PerUser(users=users, ndcg=np.ones(6), rank=np.zeros(6), squares=np.ones(6), entries=np.ones(6))
    >>> gain(one, two, "counts"), gain(one, two, "ratings")
    ((1.0, 0.0), (0.0, 0.0))
    """
    if feedback == "counts":
        return paired(Losses(values=-alone.ndcg, owners=alone.users), Losses(values=-other.ndcg, owners=other.users))
    if not alone.users.size:
        return 0.0, 0.0
    better = alone.squares - other.squares
    mean = float(better.sum() / alone.entries.sum())
    apart = better - mean * alone.entries
    number = better.size
    error = float(np.sqrt(number / max(number - 1, 1) * np.sum(apart**2)) / alone.entries.sum())
    return mean, error
