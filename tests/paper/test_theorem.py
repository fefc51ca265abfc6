"""Theorem 1: what is printed breaks by exactly what the page says, and the corrected chain keeps its promise."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from studies.as_published import sparse_recovery_as_printed
from studies.theorem import (
    chain_loss,
    corrected_chain,
    main,
    printed_chain,
    proof_step_loss,
    size_loss,
    tables,
    typed_loss,
)
from twofold.privacy.accountant import price
from twofold.privacy.budget import PureDP
from twofold.release.balcan.chain import planned_event
from twofold.release.balcan.config import PrivateKMeansConfig

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "theorem.md"


def test_the_typed_algorithm_keeps_items_at_the_stated_rates():
    """The closed form against Algorithm 1 itself, where the rate is large enough to be seen."""
    runs, epsilon = 4000, 2.0
    rng = np.random.default_rng(0)

    def kept(rows: np.ndarray) -> float:
        found = [sparse_recovery_as_printed(rows, epsilon=epsilon, sparsity=1, rng=rng).value for _ in range(runs)]
        return float(np.mean([one[1] != 0 for one in found]))

    one, two = kept(np.array([[1.0, 0.0]])), kept(np.eye(2))
    expected = math.exp(-math.exp(2 / epsilon))
    assert abs(one - expected) < 5 * math.sqrt(expected / runs)
    assert abs(two - 0.5) < 5 * 0.5 / math.sqrt(runs)
    assert typed_loss(epsilon) == pytest.approx(math.log(0.5 / expected))


def test_less_epsilon_makes_the_typed_algorithm_less_private():
    losses = [typed_loss(epsilon) for epsilon in (0.1, 0.5, 1, 2)]
    assert losses == sorted(losses, reverse=True)
    assert all(loss > epsilon for loss, epsilon in zip(losses, (0.1, 0.5, 1, 2), strict=True))


@pytest.mark.parametrize("picks", [1, 2, 3, 4])
def test_the_step_of_the_proof_costs_every_pick(picks):
    assert proof_step_loss(picks, replace=True) == pytest.approx(picks, rel=1e-6)
    assert proof_step_loss(picks, replace=False) == pytest.approx(picks / 2, rel=1e-6)


def test_a_size_in_the_scale_has_no_finite_loss():
    assert size_loss(4000) > size_loss(400) > size_loss(40) > 10


@pytest.mark.parametrize("trials", [1, 5])
def test_the_printed_chain_spends_more_and_the_corrected_one_does_not(trials):
    """Kindest reading: (T + 1/3)ε bounds what is found (without the choice: T + 1/6); the corrected one stays in ε."""
    printed = chain_loss(printed_chain(trials), replace=False)
    assert trials < printed <= trials + 1 / 6
    assert 0.8 < chain_loss(corrected_chain(trials), replace=False) <= 1
    assert 1.5 < chain_loss(corrected_chain(trials), replace=True) <= 2


def test_a_corrected_chain_with_one_constant_too_large_would_show():
    """Every step must count: the printed scale of the values in the corrected chain breaks the promise."""
    from dataclasses import replace

    good = corrected_chain()
    assert chain_loss(replace(good, values=good.values / 1.3), replace=False) > 1
    assert chain_loss(replace(good, level=2 * good.level), replace=False) > 1


def test_the_event_of_the_corrected_chain_costs_epsilon():
    for epsilon in ("1/10", 1, 7):
        config = PrivateKMeansConfig(
            n_clusters=3, epsilon=epsilon, promised_users=10**6, bound=1, max_items=8, fallback=False
        )
        assert price(planned_event(config, 40)) == PureDP(epsilon=epsilon)


def test_the_page_has_the_tables_that_the_command_prints(capsys):
    main([])
    printed, page = capsys.readouterr().out, PAGE.read_text(encoding="utf-8")
    for table in tables():
        assert table.markdown() in printed
        assert table.markdown() in page, table.title
