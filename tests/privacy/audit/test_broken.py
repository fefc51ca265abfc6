"""What is broken on purpose is broken in the way it says."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import twofold.privacy
from twofold.privacy.audit.broken import (
    algorithm_1_as_typed,
    broken_mechanisms,
    empty_cells_skipped,
    thin_noise,
    tree_with_local_indices,
)
from twofold.privacy.rng import source


def test_there_are_six():
    assert len(broken_mechanisms()) == 6


def test_the_typed_algorithm_adds_no_noise_to_zeros():
    zeros = np.zeros((20, 4))
    supports = {int(np.flatnonzero(algorithm_1_as_typed(zeros, source(seed)))[0]) for seed in range(50)}
    assert supports == {0}  # a tie without noise: always the first


def test_the_tree_counts_one_person_in_several_cells():
    """Removing one person renumbers the others: counts move by eleven in l1 distance, where one is claimed."""

    class Silent:
        seeded = True

        def words(self, count):
            # sign bit zero and the smallest magnitude: no noise at all
            return np.zeros(count, dtype=np.uint64)

        def bits(self, count):
            return count - count

    points = np.array([0.99] + [0.05, 0.30, 0.55, 0.80] * 10)
    change = tree_with_local_indices(points, Silent()) - tree_with_local_indices(points[1:], Silent())
    assert np.abs(change).sum() == 11


def test_an_empty_cell_never_opens():
    assert not empty_cells_skipped(0, 10_000, source(0)).any()
    assert empty_cells_skipped(1, 10_000, source(0)).any()


def test_thin_noise_is_thin():
    from twofold.privacy.mechanisms import DiscreteLaplace
    from twofold.privacy.unit import Unit

    honest = DiscreteLaplace(epsilon=1, sensitivity=1, unit=Unit.person())
    zeros = np.zeros(200_000, dtype=np.int64)
    spread = [
        np.abs(drawn).mean() for drawn in (thin_noise(0, zeros.size, source(1)), honest.release(zeros, rng=2).value)
    ]
    assert 0.85 < spread[0] / spread[1] < 0.91


@pytest.mark.parametrize("allowed", [{"suite.py"}])
def test_nothing_but_the_audit_imports_them(allowed):
    package = Path(twofold.privacy.__file__).parent.parent
    importers = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and module.endswith("audit.broken"):
                importers.add(path.name)
    assert importers == allowed
