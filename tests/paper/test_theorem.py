"""Theorem 1: what is printed breaks by exactly what the page says, and the corrected chain keeps its promise."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from studies.as_published import sparse_recovery_as_printed
from studies.theorem import (
    _better_chance,
    _leaving_chance,
    chain_limit,
    chain_loss,
    choice_loss,
    corrected_chain,
    main,
    phrases,
    printed_chain,
    proof_step_loss,
    size_loss,
    swaps_loss,
    tables,
    threshold_loss,
    tree_loss,
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
    assert typed_loss(2.1) < 2.1  # from here on it takes another counterexample


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


@pytest.mark.parametrize("make", [printed_chain, corrected_chain])
@pytest.mark.parametrize("trials", [1, 5])
@pytest.mark.parametrize("moved", [False, True])
def test_no_larger_crowd_loses_more_than_the_page_says(make, trials, moved):
    """The closed form bounds the enumeration, and crowds come so close that the printed digits are the limit's."""
    limit = math.fsum(chain_limit(make(trials), replace=moved))
    found = chain_loss(make(trials), replace=moved)
    assert found <= limit + 1e-9
    assert found == pytest.approx(limit, abs=5e-4)


def test_a_corrected_chain_with_one_constant_too_large_would_show():
    """Every step must count: the printed scale of the values in the corrected chain breaks the promise."""
    good = corrected_chain()
    assert chain_loss(replace(good, values=good.values / 1.3), replace=False) > 1
    assert chain_loss(replace(good, level=2 * good.level), replace=False) > 1


def two_candidates(people: list[float], center: float, swaps: int, exponent: float, sign: int) -> dict[tuple, float]:
    """Law of all swaps between -center and +center and of the pick, from the definition."""
    loss = {z: sum((x - z) ** 2 for x in people) for z in (-center, center)}
    total = sum(math.exp(-exponent * one) for one in loss.values())
    law = {}
    for drawn in product(loss, repeat=swaps):
        weights = [math.exp(sign * exponent * loss[z]) for z in drawn]
        for last, weight in enumerate(weights):
            swapped = math.prod(math.exp(-exponent * loss[z]) / total for z in drawn)
            law[drawn, last] = swapped * weight / sum(weights)
    return law


@pytest.mark.parametrize("row", [1.0, 2.5])
@pytest.mark.parametrize("worst_last", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_the_loss_of_swaps_is_that_of_all_sequences(row, worst_last, moved):
    """900 people in one place are one person with 900 times the weight, so few swaps can be written down."""
    exponent, center, sign = 0.0005, 1.5, 1 if worst_last else -1
    base = [1.0] * 900
    one = two_candidates([*base, row] if moved else base, center, 3, exponent, sign)
    two = two_candidates([*base, -row], center, 3, exponent, sign)
    expected = max(abs(math.log(one[outcome] / two[outcome])) for outcome in one)
    found = swaps_loss(row, center=center, swaps=3, exponent=exponent, replace=moved, worst_last=worst_last)
    assert found == pytest.approx(expected)
    better = sum(p for (drawn, last), p in two_candidates(base, 1.0, 3, exponent, sign).items() if drawn[last] > 0)
    assert _better_chance(900, 3, exponent, worst_last) == pytest.approx(better)


def test_swaps_keep_their_price_in_the_ball_and_not_outside():
    for swaps in (1, 30, 9000):
        exponent = 1 / (8 * (swaps + 1))
        assert swaps_loss(1, swaps=swaps, exponent=exponent, replace=True) <= 1
        assert swaps_loss(1, swaps=swaps, exponent=exponent, replace=False) <= 1 / 2
        assert swaps_loss(1, swaps=swaps, exponent=2 * exponent, replace=False, worst_last=False) <= 1
        assert swaps_loss(3.9, swaps=swaps, exponent=exponent, replace=True) > 1
        assert swaps_loss(1, center=4.9, swaps=swaps, exponent=exponent, replace=True) > 1


def test_the_choice_keeps_its_price_in_the_ball_and_not_outside():
    assert choice_loss(1, replace=False) == pytest.approx(1 / 6)
    assert choice_loss(1, replace=True) == pytest.approx(1 / 3)
    assert choice_loss(2, replace=False) > 1 / 6
    assert choice_loss(2, replace=True) > 1 / 3


def test_a_row_leaves_the_ball_as_often_as_chi_squared_says():
    for dimension in (2, 6, 54):
        assert _leaving_chance(dimension) == pytest.approx(chi2.sf(dimension, dimension))


@pytest.mark.parametrize("people", [20, 900])
def test_levels_of_a_tree_add_up(people):
    """Log n of them cost half of ε; n of them more than all of it."""
    level = 1 / (2 * math.log(people))
    assert tree_loss(people, math.floor(math.log(people))) <= 1 / 2
    assert tree_loss(people, people) == pytest.approx(people * level)
    assert tree_loss(people, people) > 1


def test_every_empty_cell_tells_of_a_private_size():
    empty = 20 * math.log(900 / 899)
    assert threshold_loss(900, 6) - threshold_loss(900, 5) == pytest.approx(32 * empty)


def test_the_event_of_the_corrected_chain_costs_epsilon():
    for epsilon in ("1/10", 1, 7):
        config = PrivateKMeansConfig(
            n_clusters=3, epsilon=epsilon, promised_users=10**6, bound=1, max_items=8, fallback=False
        )
        assert price(planned_event(config, 40)) == PureDP(epsilon=epsilon)


def test_the_page_has_what_the_command_prints(capsys):
    main([])
    printed, page = capsys.readouterr().out, PAGE.read_text(encoding="utf-8")
    for table in tables():
        assert table.markdown() in printed
        assert table.markdown() in page, table.title
    words = " ".join(page.split())
    for phrase in phrases():
        assert f"- {phrase}\n" in printed
        assert phrase in words, phrase


def test_the_page_has_every_section_it_points_to():
    page = PAGE.read_text(encoding="utf-8")
    titles = [line.lstrip("# ") for line in page.splitlines() if line.startswith("#")]
    anchors = {re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\(#([^)]+)\)", page)) <= anchors
