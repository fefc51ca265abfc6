"""One form for factors that are the same up to scale and order, so that equal input gives equal bytes."""

from __future__ import annotations

import numpy as np

from twofold.prototypes.message import Floats

__all__ = ["canonical"]


def canonical(V: Floats, moments: Floats) -> tuple[Floats, Floats]:
    """Balance every factor between items and users, leave dead ones out, and put the strongest first.

    Parameters
    ----------
    V : array (items, rank)
        Item factors, at least 0.
    moments : array (rank, rank)
        Mean of u uᵀ.

    Returns
    -------
    V, moments : arrays
        ``V @ moments @ V.T`` is as before. The mean square of a factor over items is that over users, which is where
        a penalty of the same strength on both sides puts it. At least one column, of zeros when nothing is alive.

    Examples
    --------
    >>> V, moments = canonical(np.array([[0.0, 8.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> V.ravel(), moments
    (array([4., 0.]), array([[8.]]))
    """
    of_items, of_users = (V**2).mean(axis=0), np.diag(moments)
    strength = of_items * of_users
    alive = np.flatnonzero(strength > 1e-24 * strength.max(initial=0.0))
    if not alive.size:
        return np.zeros((len(V), 1)), np.zeros((1, 1))
    # Ties in strength go to the factor whose largest item comes first.
    order = alive[np.lexsort((V[:, alive].argmax(axis=0), -strength[alive]))]
    factor = (of_users[order] / of_items[order]) ** 0.25
    return V[:, order] * factor, moments[np.ix_(order, order)] / np.outer(factor, factor)
