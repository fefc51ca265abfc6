"""Pivoting on eight systems: columns outside are left out of the factor without a trace."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.algorithms import _nmf_pivot
from twofold.algorithms._lanes import LANES


def systems(rank, rng, dtype):
    """Eight positive definite systems, lower triangles and right-hand sides, one per lane."""
    found = np.zeros((rank + 4, rank, LANES), dtype)
    for lane in range(LANES):
        table = rng.random((2 * rank, rank))
        found[:rank, :, lane] = np.tril(table.T @ table + 0.1 * np.eye(rank))
        found[rank, :, lane] = table.T @ rng.random(2 * rank)
    return found.ravel()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rank", "share"), [(1, 0.0), (7, 0.5), (16, 0.0), (40, 0.3), (61, 0.6), (40, 1.0)])
def test_factoring_the_columns_inside_alone_changes_no_digit(rank, share, dtype):
    rng = np.random.default_rng(rank)
    system, tiny = systems(rank, rng, dtype), dtype(1e-6)
    passive = (rng.random((rank, LANES)) < share).astype(dtype).ravel()
    alone, together = (np.zeros((10, (rank + 1) * LANES), dtype) for _ in range(2))
    for vectors in (alone, together):
        vectors[0, : passive.size] = passive
    scratch = [np.zeros_like(system) for _ in range(2)]
    places = np.zeros(rank * LANES, np.int64)
    _nmf_pivot._factor(system, together[0], scratch[0], together[5], rank, tiny)
    _nmf_pivot._substitute(scratch[0], together[5], together[3], rank)
    _nmf_pivot._solve_inside(system, scratch[0], scratch[1], places, alone, rank, tiny)
    np.testing.assert_array_equal(alone[3, : passive.size], together[3, : passive.size])
    assert (alone[3, : passive.size][passive == 0] == 0).all()


def test_few_columns_inside_are_packed():
    rank, passive = 40, np.zeros((40, LANES))
    passive[::4] = 1
    inside, places = np.zeros(rank * LANES), np.zeros(rank * LANES, np.int64)
    assert _nmf_pivot._find_places(passive.ravel(), rank, places, inside) == 10
    assert places.reshape(rank, LANES)[:10, 3].tolist() == list(range(0, 40, 4))
    assert inside.sum() == 10 * LANES
