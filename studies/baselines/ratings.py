"""Predicting ratings: offsets of items and users, own and pooled."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.baselines.base import Baseline, Options, Score, Setting, Site

__all__ = ["OFFSETS", "offsets"]

Wide = NDArray[np.float64]


def offsets(rows: sparse.csr_array, *, items: float, users: float) -> Score:
    """Predict the mean plus what the item and the user differ from it, each drawn to zero.

    Parameters
    ----------
    rows : csr array (users, items)
        Ratings.
    items, users : float
        Ratings an item or a user needs before the own offset counts more than none.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[5.0, 3.0], [5.0, 3.0]]))
    >>> offsets(rows, items=0.0, users=1.0)(rows).tolist()
    [[5.0, 3.0], [5.0, 3.0]]
    """
    values = rows.data.astype(np.float64)
    mean = float(values.mean()) if values.size else 0.0
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    of_items = np.bincount(rows.indices, values - mean, rows.shape[1]) / np.maximum(counts + items, 1e-9)

    def predict(block: sparse.csr_array) -> Wide:
        lengths = np.diff(block.indptr)
        owners = np.repeat(np.arange(block.shape[0]), lengths)
        left = np.bincount(owners, block.data - mean - of_items[block.indices], block.shape[0])
        return np.asarray(mean + of_items + (left / np.maximum(lengths + users, 1e-9))[:, None])

    return predict


def _trials(setting: Setting) -> list[Options]:  # noqa: ARG001
    return [{"items": items, "users": users} for items, users in product((1.0, 3.0, 10.0, 25.0), (1.0, 5.0, 15.0))]


def _alone(site: Site, options: Options) -> Score:
    return offsets(site.rows, **options)


def _pooled(site: Site, options: Options) -> Score:
    everyone = site.everyone
    return everyone.once(tuple(options.values()), lambda: offsets(everyone.pooled, **options))


#: Offsets, alone and pooled.
OFFSETS: Final = (
    Baseline(name="item and user offsets, own", scope="alone", fit=_alone, trials=_trials),
    Baseline(name="item and user offsets, pooled", scope="pooled", fit=_pooled, trials=_trials),
)
