"""Top-n lists from a block of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.algorithms import _top_items_kernels, _top_items_reference
from twofold.algorithms._jit import numba_enabled
from twofold.algorithms.top_items import FEW

__all__ = ["best_of_scores"]


def best_of_scores(scores: npt.NDArray[Any], seen: sparse.csr_array, n: int) -> npt.NDArray[np.intp]:
    """Return the `n` best unseen items of every line, lower column first among equals, -1 where none is left.

    Overwrites the scores of seen items. A score of minus infinity is never listed.

    Examples
    --------
    >>> seen = sparse.csr_array(np.array([[1, 0, 0, 0]]))
    >>> best_of_scores(np.array([[9.0, 1.0, 5.0, 5.0]]), seen, 2)
    array([[2, 3]])
    """
    kernels = _top_items_kernels if numba_enabled() else _top_items_reference
    columns = np.arange(scores.shape[1])
    kernels.hide(scores, seen.indptr.astype(np.int64), np.ascontiguousarray(seen.indices), columns)
    items = np.empty((len(scores), n), np.intp)
    best = np.empty((len(scores), n), scores.dtype)
    if n > FEW:  # the compiled insertion is made for short lists
        kernels = _top_items_reference
    kernels.select_few(scores, items, best)
    return items
