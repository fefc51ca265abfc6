"""What the paper prints and its runs did: shown to behave as the audit found, and never called private."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from studies.as_published import _losses, printed_constants, prototypes_as_recorded, sparse_recovery_as_printed
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.privacy.accountant import price
from twofold.privacy.budget import NotPrivate
from twofold.privacy.events import NonPrivateEvent


def visits(n: int = 900, m: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.3, (n, m)).astype(float)


@pytest.mark.parametrize(
    "release",
    [
        lambda: sparse_recovery_as_printed(visits(50), epsilon=0.1, sparsity=5, rng=0),
        lambda: prototypes_as_recorded(visits(50), 3, 0.1, rng=0),
        lambda: prototypes_as_recorded(visits(50), 3, 0.1, recovery="sparse", rng=0),
    ],
)
def test_nothing_here_is_called_private(release: Callable[[], Any]) -> None:
    released = release()
    assert isinstance(released.event, NonPrivateEvent)
    assert isinstance(price(released.event, as_if_private=True), NotPrivate)
    assert released.not_private


def test_constants_are_the_audits() -> None:
    found = printed_constants(900, 10, 0.1)
    assert found.threshold == pytest.approx(2.9e9, rel=0.01)  # users that a cell needs to open
    assert found.really_spent / 0.1 == pytest.approx(4.9, abs=0.05)
    assert found.swaps == pytest.approx(9000)


def test_noise_as_printed_vanishes_where_the_mean_is_zero() -> None:
    """An item that nobody has is never picked, and one user with it is seen: no finite ε."""
    empty = np.zeros((20, 4))
    empty[:, 0] = 1
    one = np.concatenate([empty, [[0.0, 0.0, 0.0, 1.0]]])
    picked = [
        [sparse_recovery_as_printed(rows, epsilon=1, sparsity=2, rng=seed).value[3] != 0 for seed in range(200)]
        for rows in (empty, one)
    ]
    assert sum(picked[0]) == 0
    assert sum(picked[1]) > 20


def test_noise_as_printed_grows_with_epsilon() -> None:
    rows = visits(200, 30)
    mean = rows.mean(axis=0)
    best = set(np.argsort(-mean, kind="stable")[:5].tolist())

    def overlap(epsilon: float) -> float:
        picks = [sparse_recovery_as_printed(rows, epsilon=epsilon, sparsity=5, rng=seed).value for seed in range(40)]
        return float(np.mean([len(best & set(np.flatnonzero(one).tolist())) for one in picks]))

    assert overlap(0.01) > 4.9 > overlap(1000.0)  # a smaller ε should hide more, not less


def test_runs_have_three_candidates_and_mostly_empty_clusters() -> None:
    """As in the logs at ε = 0.1: the three roots, and 7 to 9 of 10 clusters empty."""
    found = [prototypes_as_recorded(visits(), 10, 0.1, rng=seed).value for seed in range(3)]
    assert {one.n_candidates for one in found} == {3}
    assert all(one.n_empty >= 6 for one in found)


def test_trees_open_with_a_large_budget() -> None:
    assert prototypes_as_recorded(visits(300, 10), 3, 1e5, rng=0).value.n_candidates > 20


def test_prototypes_that_are_not_noise_are_copies_of_the_global_mean() -> None:
    rows = np.concatenate([visits(100, 12), visits(100, 12, seed=1) + 8])  # two groups far apart
    found = prototypes_as_recorded(rows, 2, 1e6, rng=0).value
    assert found.n_empty == 0
    assert found.centers == pytest.approx(np.tile(rows.mean(axis=0), (2, 1)), abs=0.01)


@pytest.mark.parametrize(("candidates", "k"), [(6, 3), (3, 20), (1, 4), (2, 1), (1500, 2)])
def test_swap_losses_are_those_of_every_swap(candidates: int, k: int) -> None:
    """Also where most of the chosen are copies of few candidates, and distances tie."""
    rng = np.random.default_rng(0)
    points, spots = rng.integers(4, size=(40, 2)).astype(float), rng.integers(4, size=(candidates, 2)).astype(float)
    distances, chosen = ((points[:, None] - spots) ** 2).sum(axis=2), rng.integers(candidates, size=k)
    table = _losses(points, spots, chosen)
    for out in range(k):
        for into in range(candidates):
            centers = [*np.delete(chosen, out), into]
            assert table[out, into] == pytest.approx(distances[:, centers].min(axis=1).sum())


def test_sparse_input_is_the_same() -> None:
    rows = visits(80)
    dense = prototypes_as_recorded(rows, 3, 1.0, rng=1).value.centers
    assert (prototypes_as_recorded(sp.csr_array(rows), 3, 1.0, rng=1).value.centers == dense).all()


def test_bad_input_is_refused() -> None:
    with pytest.raises(BadShape):
        sparse_recovery_as_printed(np.zeros((0, 3)), epsilon=1, sparsity=1)
    with pytest.raises(BadShape):
        prototypes_as_recorded(np.zeros((1, 3)), 2, 1.0)
    with pytest.raises(BadNumber):
        prototypes_as_recorded([[math.nan, 1.0]] * 3, 2, 1.0)
    with pytest.raises(BadParameter):
        prototypes_as_recorded(visits(9), 2, 1.0, recovery="magic")  # type: ignore[arg-type]
