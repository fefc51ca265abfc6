"""Figures of users: against the functions that average over all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from studies.adaptation import measure as summed
from studies.frontier.fit import PerUser, gain, measure, places


def drawn(seed: int) -> tuple[np.ndarray, sparse.csr_array, sparse.csr_array]:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (300, 20)).astype(float)
    held = (rng.random((300, 20)) < 0.15) * rng.integers(1, 6, (300, 20)).astype(float)
    seen = (rng.random((300, 20)) < 0.3) & (held == 0)
    return scores, sparse.csr_array(seen.astype(float)), sparse.csr_array(held)


def test_means_are_those_of_all_users_together():
    scores, seen, held = drawn(0)
    line = scores[0]

    def score(rows: sparse.csr_array) -> np.ndarray:
        return np.tile(line, (rows.shape[0], 1))

    found = measure(score, seen, held, lower=0, bound=5).figures
    wanted = summed(score, seen, held, lower=0, bound=5).figures
    assert found["ndcg"] == pytest.approx(wanted["nDCG@10"])
    assert np.sqrt(found["mse"]) == pytest.approx(wanted["RMSE"])


def test_places_by_counting():
    scores, seen, held = drawn(1)
    found = places(scores, seen, held)
    for user in (0, 7, 299):
        free = [item for item in range(20) if not seen[user, item]]
        wanted = [
            (sum(scores[user, one] > scores[user, item] for one in free)
             + (sum(scores[user, one] == scores[user, item] for one in free) - 1) / 2) / (len(free) - 1)
            for item in np.flatnonzero(held[[user]].toarray()[0])
        ]  # fmt: skip
        if wanted:
            assert found[user] == pytest.approx(np.mean(wanted))


def test_users_without_held_out_entries_are_left_out():
    none = sparse.csr_array((3, 4))
    found = measure(lambda rows: np.zeros(rows.shape), none, none, lower=0, bound=1)
    assert found.users.size == 0
    assert np.isnan(found.figures["ndcg"])
    assert gain(found, found, "ratings") == (0.0, 0.0)


def of(squares: np.ndarray, entries: np.ndarray) -> PerUser:
    users = np.arange(squares.size)
    return PerUser(users=users, ndcg=-squares, rank=squares, squares=squares, entries=entries)


def test_the_error_of_a_gain_covers_the_truth_as_often_as_it_should():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(400):
        entries = rng.integers(1, 9, 200).astype(float)
        truth = 0.05
        better = rng.normal(truth, 1.0, 200) * entries
        mean, error = gain(of(better, entries), of(np.zeros(200), entries), "ratings")
        inside += abs(mean - truth) < error
    assert 0.60 < inside / 400 < 0.76  # 0.683 ± 3.3 standard errors of 0.023


def test_more_is_better_for_counts():
    one, two = of(np.array([1.0, 1.0]), np.ones(2)), of(np.array([0.5, 0.25]), np.ones(2))
    assert gain(one, two, "counts")[0] == pytest.approx(0.625)
    assert gain(two, one, "counts")[0] == pytest.approx(-0.625)
