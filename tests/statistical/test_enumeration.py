"""Enumeration tables: the loss claimed is an upper bound and attained within one percent."""

from __future__ import annotations

import math

import pytest

from twofold.privacy.audit.exact_checks import (
    discrete_laplace_law,
    hockey_stick,
    loss_table,
    privacy_loss,
    selection_law,
)
from twofold.privacy.budget import ZCDP


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_selection_threshold_and_swap_attain_their_epsilon(epsilon):
    table = loss_table(epsilon)
    kinds = {(line.mechanism.split(",")[0], line.adjacency) for line in table}
    assert kinds == {
        (mechanism, adjacency)
        for mechanism in ("selection", "threshold", "swap", "discrete Laplace")
        for adjacency in ("add or remove", "replace")
    }
    for line in table:
        assert 0.99 * line.claimed <= line.found <= line.claimed * (1 + 1e-9), line


def test_selection_loss_over_all_monotone_neighbours():
    """Every 0/1 unit over 4 items, on several score vectors: the loss of 2 picks never exceeds ε = 1."""
    scale = 2.0
    for scores in ([0, 0, 0, 0], [5, 1, 0, 0], [20, 20, 0, 0], [3, 2, 1, 0]):
        base = selection_law(scores, scale, 2)
        for unit in range(16):
            added = [score + (unit >> item & 1) for item, score in enumerate(scores)]
            assert privacy_loss(base, selection_law(added, scale, 2)) <= 1 + 1e-12


def test_a_wrong_price_would_show():
    """With the scale of one pick, three picks lose three times the claimed ε."""
    far = 40.0
    base, added = [far] * 3 + [0.0] * 3, [far + 1] * 3 + [0.0] * 3
    loss = privacy_loss(selection_law(base, 1.0, 3), selection_law(added, 1.0, 3))
    assert loss == pytest.approx(3, rel=0.01)


def test_non_monotone_scores_cost_twice():
    """Scores that move in opposite ways attain 2Δ/scale, so the non-monotone form is needed."""
    base, moved = [0.0, 40.0], [1.0, 39.0]
    assert privacy_loss(selection_law(base, 1.0, 1), selection_law(moved, 1.0, 1)) == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("sigma", [1.0, 3.0, 8.0])
def test_discrete_gaussian_stays_below_its_claimed_curve(sigma):
    """Exact δ(ε) of the discrete Gaussian on integers one apart, against the converted zCDP claim."""
    reach = int(14 * sigma) + 20
    weights = {k: math.exp(-(k**2) / (2 * sigma**2)) for k in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    one = {k: w / total for k, w in weights.items()}
    two = {k + 1: p for k, p in one.items()}
    for delta in (1e-3, 1e-6):
        epsilon = float(ZCDP(rho=1 / (2 * sigma**2)).to_approx(delta).epsilon)
        assert hockey_stick(one, two, epsilon) <= delta


def test_discrete_laplace_in_two_dimensions_pays_l1():
    """Two coordinates moved by one each cost 2/scale: l1, not l2."""
    base, moved = discrete_laplace_law(0, 4.0, 40), discrete_laplace_law(1, 4.0, 40)
    joint = {(a, b): p * q for a, p in base.items() for b, q in base.items()}
    other = {(a, b): p * q for a, p in moved.items() for b, q in moved.items()}
    assert privacy_loss(joint, other) == pytest.approx(2 / 4.0)
