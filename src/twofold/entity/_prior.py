"""What others know of how items go together, brought to an entity's own use of them.

A prior is given as rows of one user, whose Gram matrix is the known part, and what these leave unexplained of each
item's mean square. The whole mean square of an item is a compromise of the entity's own and the shared one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.protocol.factors import ItemFactors

__all__ = ["UNEXPLAINED", "feature_prior", "pattern_prior"]

Floats = NDArray[np.float64]

#: Smallest part of an item's mean square that no other item explains.
UNEXPLAINED: Final = 0.05
#: Users of its own an entity needs before its own mean squares count more than the shared ones.
SQUARE_USERS: Final = 20.0
#: Users of no entries an entity's own means are averaged with where nothing is shared.
MEAN_USERS: Final = 5.0
#: Correlation of two items with the same public features, beyond what their means say.
ALIKE: Final = 0.4


def pattern_prior(shared: ItemFactors, own: Floats | None, users: int) -> tuple[Floats, Floats]:
    """Rows and remainders of one user from shared second moments.

    Parameters
    ----------
    shared : ItemFactors
        With patterns.
    own : array (items,) or None
        Sums of the entity's own squares; None takes the shared ones as they came.
    users : int
        How many users those are sums of.

    Returns
    -------
    rows, rest : arrays (patterns, items) and (items,)
        ``rows.T @ rows + diag(rest)`` has the mean squares of the compromise as its diagonal, and the correlations of
        the shared second moments.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> axis = np.array([[0.6], [0.8]])
    >>> shared = SimpleNamespace(patterns=axis, strengths=np.array([1.0]), squares=np.array([1.0, 1.0]))
    >>> rows, rest = pattern_prior(shared, None, 0)
    >>> (rows**2).sum(axis=0).round(2).tolist(), rest.round(2).tolist()
    ([0.36, 0.64], [0.64, 0.36])
    >>> rows, rest = pattern_prior(shared, np.array([80.0, 0.0]), 20)
    >>> ((rows**2).sum(axis=0) + rest).round(2).tolist()
    [3.0, 1.0]
    """
    assert shared.patterns is not None
    assert shared.strengths is not None
    assert shared.squares is not None
    rows = np.sqrt(np.maximum(shared.strengths, 0.0))[:, None] * shared.patterns.T.astype(np.float64)
    explained, squares = (rows**2).sum(axis=0), np.maximum(shared.squares, 0.0)
    rest = np.maximum(squares - explained, UNEXPLAINED * np.maximum(squares, explained))
    if own is None or not own.sum():
        return rows, rest
    whole = explained + rest
    scale = np.sqrt(_compromise(whole, own, users) / np.maximum(whole, 1e-300))
    return rows * scale, rest * scale**2


def _compromise(whole: Floats, own: Floats, users: int) -> Floats:
    """Own mean squares drawn to the shared ones, those brought to the entity's own total: rows may be shortened."""
    theirs = whole * (own.sum() / max(users, 1)) / max(float(whole.sum()), 1e-300)
    return np.asarray((own + SQUARE_USERS * theirs) / (users + SQUARE_USERS))


def feature_prior(values: sparse.csr_array, features: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Rows and remainders of one user from public features and the entity's own means alone.

    Parameters
    ----------
    values : csr array (users, items)
        Private: damped counts.
    features : array (items, features)
        Public.

    Returns
    -------
    rows, rest : arrays (1 + features, items) and (items,)
        Means as the entity has them; around these, items go together as far as their features do (`ALIKE` times their
        cosine).

    Examples
    --------
    >>> rows, rest = feature_prior(sparse.csr_array(np.array([[2.0, 0.0], [0.0, 2.0]])), np.ones((2, 1), np.int64))
    >>> together = rows.T @ rows + np.diag(rest)
    >>> means = rows[0]
    >>> spread = together - np.outer(means, means)
    >>> round(float(spread[0, 1] / spread[0, 0]), 3)
    0.4
    """
    users, items = values.shape
    means = np.bincount(values.indices, values.data, items) / (users + MEAN_USERS)
    squares = np.bincount(values.indices, values.data.astype(np.float64) ** 2, items)
    squares = (squares + MEAN_USERS * squares.sum() / max(users * items, 1)) / (users + MEAN_USERS)
    spread = np.maximum(squares - means**2, UNEXPLAINED * squares)
    lengths = np.sqrt((features.astype(np.float64) ** 2).sum(axis=1))
    turned = features / np.where(lengths > 0, lengths, 1.0)[:, None]
    rows = np.vstack([means, turned.T * np.sqrt(ALIKE * spread)])
    return rows, np.where(lengths > 0, 1.0 - ALIKE, 1.0) * spread
