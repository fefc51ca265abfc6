"""Noisy marginals: what one person can move, what it costs, the limit, and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from studies.related import marginals
from studies.related.marginals import (
    MOST_NEIGHBOURS,
    Marginals,
    noise_of,
    noisy_marginals,
    planned_event,
    sensitivity_squared,
    tree_of,
    tree_tables,
)
from studies.systems import synthetic_rows
from studies.systems.synthetic_rows import SyntheticRows, draw_rows, synthesizer_installed
from twofold.data.sources import hospitals
from twofold.errors import BadPrivacyParameter, MissingExtra
from twofold.privacy.accountant import fits
from twofold.privacy.audit.exact_checks import differing_parameters
from twofold.privacy.budget import ApproxDP
from twofold.privacy.events import Released
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.release.contract import ReleaseParameters

PUBLIC = ReleaseParameters(n_items=12, n_users=100, max_items=4, bound=1, epsilon=1, delta="1e-6")


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[np.ndarray, DiscreteGaussian]]:
    """Give what a release hands to its noise, with that noise."""
    seen: list[tuple[np.ndarray, DiscreteGaussian]] = []

    class Watched(DiscreteGaussian):
        def release(self, values: np.ndarray, *, rng: object = None) -> Released:
            seen.append((values.copy(), self))
            return super().release(values, rng=rng)

    def found(rows: np.ndarray, public: ReleaseParameters) -> tuple[np.ndarray, DiscreteGaussian]:
        noisy_marginals(sparse.csr_array(rows), public, rng=0)
        return seen.pop()

    monkeypatch.setattr(marginals, "DiscreteGaussian", Watched)
    return found


@pytest.mark.parametrize("most", [1, 3, 5])
@pytest.mark.parametrize("people", [0, 6])
def test_every_person_moves_the_marginals_by_exactly_the_stated_norm(handed_over, most: int, people: int) -> None:
    """All 32 sets of five items, with small and with absurd values, added to nobody and to six people."""
    public = PUBLIC.with_(n_items=5, max_items=most)
    rows = (np.random.default_rng(0).random((people, 5)) < 0.5).astype(float)
    before, noise = handed_over(rows, public)
    weight = noise_of(public)[1]
    norms = []
    for items in product((0.0, 1.0), repeat=5):
        for size in (1.0, -2.0, 1e9):
            moved = handed_over(np.vstack([rows, size * np.array(items)]), public)[0] - before
            kept = min(most, int(sum(items)))
            assert sorted(set(moved.tolist()) - {0}) == [weight]
            assert (moved != 0).sum() == 1 + kept + math.comb(kept, 2)
            norms.append(int((moved**2).sum()))
    assert max(norms) == noise.sensitivity_squared == weight**2 * sensitivity_squared(most)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_it_costs_its_promise_and_not_a_tenth_less(epsilon: str) -> None:
    event = planned_event(PUBLIC.with_(epsilon=epsilon))
    promise = ApproxDP(epsilon=epsilon, delta="1e-6")
    assert fits(event, promise)
    assert not fits(event, ApproxDP(epsilon=0.9 * float(epsilon), delta="1e-6"))
    noise, weight = noise_of(PUBLIC.with_(epsilon=epsilon))
    assert noise.sensitivity_squared == weight**2 * sensitivity_squared(4)


def test_the_noise_is_drawn_at_its_stated_deviation() -> None:
    """All 79 numbers of 60 releases about nobody; a tenth away is rejected."""
    from scipy.stats import chi2

    nobody = sparse.csr_array((0, 12))
    found = [noisy_marginals(nobody, PUBLIC, rng=seed).value for seed in range(60)]
    z = np.concatenate([[one.people, *one.items, *one.pairs[np.triu_indices(12, 1)]] for one in found])
    energy = (z**2).sum() / found[0].deviation ** 2

    def p_value(factor: float) -> float:
        below = chi2.cdf(energy / factor**2, len(z))
        return 2 * min(below, 1 - below)

    assert p_value(1.0) > 1e-3
    assert max(p_value(factor) for factor in (0.9, 1.1)) < 1e-6


def test_neighbours_share_every_parameter() -> None:
    rows = (np.random.default_rng(0).random((30, 12)) < 0.3).astype(float)
    one, two = sparse.csr_array(rows), sparse.csr_array(rows[:-1])
    assert differing_parameters(lambda data, rng: noisy_marginals(data, PUBLIC, rng=rng), one, two) == ()


def test_without_noise_the_tables_are_exact_and_the_tree_is_the_planted_one() -> None:
    rng = np.random.default_rng(1)
    chain = np.zeros((4000, 12))
    chain[:, 0] = rng.random(4000) < 0.3
    for item in range(1, 12):
        chain[:, item] = np.where(rng.random(4000) < 0.9, chain[:, item - 1], rng.random(4000) < 0.3)
    public = PUBLIC.with_(max_items=12, epsilon=10**6)
    found = noisy_marginals(sparse.csr_array(chain), public, rng=0).value
    tree = {tuple(sorted(edge)) for edge in tree_of(found).tolist()}
    assert tree == {(item, item + 1) for item in range(11)}
    table = tree_tables(found, np.array([0]), np.array([1]))[0]
    both = (chain[:, 0] * chain[:, 1]).sum()
    assert table[1, 1] == pytest.approx(both, abs=0.5)
    assert table.sum() == pytest.approx(4000, abs=1)


def test_the_tree_reaches_every_item_and_no_item_is_a_hub() -> None:
    """One item that tells of all others would be in every pair of the best tree."""
    rng = np.random.default_rng(3)
    star = np.zeros((3000, 40))
    star[:, 0] = rng.random(3000) < 0.4
    star[:, 1:] = np.where(rng.random((3000, 39)) < 0.9, star[:, :1], rng.random((3000, 39)) < 0.2)
    public = PUBLIC.with_(n_items=40, max_items=40, epsilon=10**6)
    edges = tree_of(noisy_marginals(sparse.csr_array(star), public, rng=0).value)
    assert np.bincount(edges.ravel(), minlength=40).max() == MOST_NEIGHBOURS
    ones = np.ones(len(edges))
    assert connected_components(sparse.coo_array((ones, tuple(edges.T)), shape=(40, 40)))[0] == 1
    assert len(edges) == 39


def test_a_pure_promise_and_a_missing_library_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    with pytest.raises(BadPrivacyParameter):
        planned_event(PUBLIC.with_(delta=0))
    monkeypatch.setattr(synthetic_rows, "PYTHON", tmp_path / "none")
    with pytest.raises(MissingExtra):
        draw_rows(np.zeros((0, 2)), np.zeros((0, 2, 2)), 1.0, rows=1, items=2, seed=0)


@pytest.mark.slow
@pytest.mark.skipif(not synthesizer_installed(), reason="the synthesizer is not installed: make synth")
def test_drawn_rows_have_the_marginals_they_were_drawn_from() -> None:
    rng = np.random.default_rng(2)
    rows = np.zeros((2000, 4))
    rows[:, 0] = rng.random(2000) < 0.4
    rows[:, 1] = rows[:, 0]
    rows[:, 2:] = rng.random((2000, 2)) < 0.2
    public = ReleaseParameters(n_items=4, n_users=2000, max_items=4, bound=1, epsilon=10**4, delta="1e-6")
    found: Marginals = noisy_marginals(sparse.csr_array(rows), public, rng=0).value
    edges = tree_of(found)
    drawn = draw_rows(
        edges, tree_tables(found, edges[:, 0], edges[:, 1]), found.deviation, rows=2000, items=4, seed=0
    ).toarray()
    assert np.abs(drawn.mean(axis=0) - rows.mean(axis=0)).max() < 0.05
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.95


@pytest.mark.slow
@pytest.mark.skipif(not synthesizer_installed(), reason="the synthesizer is not installed: make synth")
def test_the_system_promises_what_it_pays() -> None:
    from studies.systems.exchange import Release

    federation = hospitals.load(0.001)
    fitted = SyntheticRows(release=Release(epsilon=5, n_users=1000)).fit(federation, feedback="counts", seed=0)
    assert (fitted.epsilon, fitted.rounds) == (5.0, 2)
