"""Groups by size, means and spreads, and differences with their errors."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from twofold.report.federation import Difference, difference, mean_and_spread, size_groups


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 24])
def test_groups_hold_everybody_once_from_small_to_large(n: int) -> None:
    sizes = np.random.default_rng(0).integers(1, 1000, n).tolist()
    groups = size_groups(sizes)
    assert len(groups) == min(n, 4)
    assert sorted(k for group in groups for k in group.members) == list(range(n))
    for small, large in pairwise(groups):
        assert max(sizes[k] for k in small.members) <= min(sizes[k] for k in large.members)


def test_means_and_spreads_are_those_of_numpy() -> None:
    values = np.random.default_rng(1).normal(size=9)
    mean, spread = mean_and_spread(values.tolist(), [1, 4, 8])
    assert mean == pytest.approx(values[[1, 4, 8]].mean())
    assert spread == pytest.approx(values[[1, 4, 8]].std(ddof=1))
    assert mean_and_spread([1.0, math.nan], [0, 1])[0] == 1.0
    assert all(math.isnan(value) for value in mean_and_spread([math.nan], [0]))
    assert math.isnan(mean_and_spread([1.0], [0])[1])


def test_a_difference_is_taken_entity_by_entity() -> None:
    rng = np.random.default_rng(2)
    levels = rng.normal(0, 10, 30)  # entities differ far more than systems
    other = levels + rng.normal(0, 0.1, 30)
    found = difference((other + 0.2).tolist(), other.tolist(), range(30))
    assert found.mean == pytest.approx(0.2)
    assert (found.verdict, found.better, found.worse, found.entities) == ("better", 30, 0, 30)
    assert difference(other.tolist(), (other + 0.2).tolist(), range(30)).verdict == "worse"


def test_the_verdict_needs_two_standard_errors() -> None:
    def gap(mean: float, error: float) -> Difference:
        return Difference(mean=mean, error=error, better=1, worse=1, entities=2)

    assert [gap(mean, 1.0).verdict for mean in (2.1, 1.9, -1.9, -2.1)] == [
        "better",
        "no different",
        "no different",
        "worse",
    ]
    assert gap(1.0, math.nan).verdict == "unknown"
    assert gap(0.0, 0.0).verdict == "no different"


def test_lower_can_be_better() -> None:
    found = difference([0.1, 0.2, 0.1], [0.3, 0.3, 0.4], [0, 1, 2], higher_is_better=False)
    assert (found.verdict, found.better) == ("better", 3)


def test_entities_without_a_number_do_not_count() -> None:
    found = difference([0.5, math.nan, 0.6], [0.4, 0.2, 0.4], [0, 1, 2])
    assert (found.entities, found.better) == (2, 2)
    assert difference([math.nan], [1.0], [0]).verdict == "unknown"
