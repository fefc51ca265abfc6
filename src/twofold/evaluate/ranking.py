r"""Metrics of top-n lists, one number per user, defined as LensKit 2025 defines them.

All take `Matches` and return NaN where a metric says nothing about a user: without held-out items (precision alone is
0 then), and for precision and average precision also where the list is empty. Means over users are the business of
`measure`. Formulas and edge cases: docs/reference/metrics.md.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from twofold.errors import BadParameter
from twofold.evaluate.matches import Matches

__all__ = ["average_precision", "hit", "ndcg", "precision", "recall", "reciprocal_rank"]

Floats = npt.NDArray[np.float64]


def precision(matches: Matches) -> Floats:
    """Share of the list that was held out; a list shorter than n is divided by its own length.

    Examples
    --------
    >>> from scipy import sparse
    >>> from twofold.evaluate.matches import match
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> precision(match([[0, 3, 2, 1]], test))
    array([0.5])
    """
    return _ratio(matches.found, matches.lengths)


def recall(matches: Matches) -> Floats:
    """Share of the held-out items that are in the list; of more than n of them, n are enough.

    Examples
    --------
    >>> from scipy import sparse
    >>> from twofold.evaluate.matches import match
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> recall(match([[0, 3, 2, 1]], test)).round(3)
    array([0.667])
    """
    return _ratio(matches.found, matches.reachable)


def hit(matches: Matches) -> Floats:
    """1 if any held-out item is in the list, else 0; the mean over users is the hit rate.

    Examples
    --------
    >>> from scipy import sparse
    >>> from twofold.evaluate.matches import match
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> hit(match([[0, 3, 2, 1]], test))
    array([1.])
    """
    return np.where(matches.relevant > 0, matches.hits.any(axis=1).astype(np.float64), np.nan)


def reciprocal_rank(matches: Matches) -> Floats:
    """1 over the place of the first held-out item, 0 if there is none; the mean over users is MRR.

    Examples
    --------
    >>> from scipy import sparse
    >>> from twofold.evaluate.matches import match
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> reciprocal_rank(match([[0, 3, 2, 1]], test))
    array([0.5])
    """
    places = np.arange(1, matches.hits.shape[1] + 1)
    first = (matches.hits / places).max(axis=1, initial=0.0)
    return np.where(matches.relevant > 0, first, np.nan)


def average_precision(matches: Matches) -> Floats:
    """Precision at the place of each found item, summed; the mean over users is MAP.

    The sum is divided by the number of held-out items or by the length of the list, whichever is smaller.

    Examples
    --------
    >>> from scipy import sparse
    >>> from twofold.evaluate.matches import match
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> average_precision(match([[0, 3, 2, 1]], test)).round(3)  # (1/2 + 2/4) / 3
    array([0.333])
    """
    places = np.arange(1, matches.hits.shape[1] + 1)
    at_each = np.cumsum(matches.hits, axis=1) / places
    return _ratio((at_each * matches.hits).sum(axis=1), np.minimum(matches.relevant, matches.lengths))


def ndcg(matches: Matches, *, gain: Literal["binary", "value"] = "binary") -> Floats:
    """Discounted gain of the list over that of the best possible list.

    The discount is log2 of the place, and 1 at the first two places, as in Järvelin and Kekäläinen 2002.

    Parameters
    ----------
    matches : Matches
        Lists and held-out items.
    gain : {"binary", "value"}
        Whether every held-out item gains 1, or its held-out value.

    Examples
    --------
    >>> from scipy import sparse
    >>> from twofold.evaluate.matches import match
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> ndcg(match([[0, 3, 2, 1]], test)).round(4)  # (1 + 1/2) / (1 + 1 + 1/log2(3))
    array([0.5701])
    >>> ndcg(match([[0, 3, 2, 1]], test), gain="value").round(4)  # (3 + 5/2) / (5 + 4 + 3/log2(3))
    array([0.5049])
    """
    if gain not in ("binary", "value"):
        raise BadParameter("unknown kind of gain.", found=repr(gain), expected="gain='binary' or gain='value'")
    graded = gain == "value"
    realized = (matches.gains if graded else matches.hits) @ _discounts(matches.hits.shape[1])
    return _ratio(realized, _graded_ideal(matches) if graded else _binary_ideal(matches))


def _binary_ideal(matches: Matches) -> Floats:
    """Discounted gain of a list that holds nothing but held-out items."""
    reachable = matches.reachable
    sums = np.concatenate([[0.0], np.cumsum(_discounts(int(reachable.max(initial=0))))])
    return np.asarray(sums[reachable])


def _graded_ideal(matches: Matches) -> Floats:
    """Discounted gain of the largest held-out values in falling order."""
    relevant, values = matches.relevant, matches.test.data.astype(np.float64)
    users = np.repeat(np.arange(relevant.size), relevant)
    values = values[np.lexsort((-values, users))]
    places = np.arange(values.size) - np.repeat(np.cumsum(relevant) - relevant, relevant)
    kept = places < matches.reachable[users]
    weights = _discounts(int(relevant.max(initial=0)))[places[kept]]
    ideal = np.bincount(users[kept], weights=values[kept] * weights, minlength=relevant.size)
    return np.asarray(ideal, dtype=np.float64)


def _discounts(n: int) -> Floats:
    return 1 / np.log2(np.maximum(np.arange(1, n + 1), 2))


def _ratio(above: npt.NDArray[np.generic], below: npt.NDArray[np.generic]) -> Floats:
    """Divide; NaN where there is nothing to divide by."""
    result = np.full(above.shape, np.nan)
    np.divide(above, below, out=result, where=below != 0)
    return result
