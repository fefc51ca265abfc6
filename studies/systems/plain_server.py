"""The server of the recorded runs: a plain factorization of whatever rows come in, clipped at zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.systems.base import Traffic
from studies.systems.factorization import Factorization, factor_bytes

__all__ = ["plain_item_factors", "plain_traffic"]

Floats = NDArray[Any]


def plain_item_factors(prototypes: Mapping[Any, Floats], factorization: Factorization, *, seed: int) -> Floats:
    """V of all prototypes under one another, all weighing the same, negative numbers read as zero.

    Paper
    -----
    Algorithm 2, line 4, as the recorded runs did it.

    Deviations
    ----------
    None that is known; the clipping is theirs and adds a constant to noisy rows, which is why our server does not clip.

    Examples
    --------
    >>> rows = {"north": np.array([[1.0, 2.0], [2.0, 4.0]])}
    >>> V = plain_item_factors(rows, Factorization(rank=1, regularization=0.0), seed=0)
    >>> round(float(V[1, 0] / V[0, 0]), 3)
    2.0
    """
    rows = np.maximum(np.concatenate(list(prototypes.values())), 0.0)
    return factorization.item_factors(rows, feedback="ratings", seed=seed)  # a dense array: every entry is observed


def plain_traffic(prototypes: Mapping[Any, Floats], rank: int) -> Traffic:
    """Prototypes up and item factors down, all as float32.

    Examples
    --------
    >>> plain_traffic({"north": np.zeros((3, 5)), "south": np.zeros((3, 5))}, 2)
    Traffic(rounds=2, bytes_up=120, bytes_down=80)
    """
    n_items = next(iter(prototypes.values())).shape[1]
    return Traffic(
        rounds=2,
        bytes_up=sum(4 * rows.size for rows in prototypes.values()),
        bytes_down=len(prototypes) * factor_bytes(n_items, rank),
    )
