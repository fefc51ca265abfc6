"""The noise control, and the procedure that does not notice it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from studies.systems import system
from twofold.data.federation import Federation
from twofold.data.sources import hospitals
from twofold.data.split import Split, holdout
from twofold.evaluation.measure import Measured, measure


@pytest.fixture(scope="module")
def split() -> Split[Federation]:
    """Two simulated hospitals."""
    return holdout(hospitals.load(0.003, n_hospitals=2), users=1.0, entries=3, rng=0)


def mean_rank(name: str, split: Split[Federation], seed: int = 0, **options: Any) -> float:
    fitted = system(name, **options).fit(split.train, feedback="counts", seed=seed)
    parts = [
        measure(
            lambda rows, label=label: fitted.scores(label, rows),
            split.train[label].matrix,
            split.test[label].matrix,
            feedback="counts",
            metrics=("mean_rank_unseen",),
        )
        for label in split.train
    ]
    return Measured.pool(parts).overall("mean_rank_unseen")


def test_noise_with_frozen_factors_is_chance(split: Split[Federation]) -> None:
    """Over thirty draws: held-out values lie on few common items, so that a single draw is lucky or not by 0.04.

    Columns of noise can be exchanged, so an unseen item's place is uniform and the expectation is one half exactly.
    """
    ranks = np.array([mean_rank("pure-noise", split, seed, rank=5) for seed in range(30)])
    error = ranks.std(ddof=1) / np.sqrt(ranks.size)
    assert error < 0.01
    assert abs(ranks.mean() - 0.5) < 4 * error
    assert mean_rank("popularity-pooled", split) < 0.25


def test_the_recorded_procedure_cannot_tell_noise_from_prototypes(split: Split[Federation]) -> None:
    """Audit 5.3: refitted to raw rows, any start gives the figures of local models."""
    local = mean_rank("individual", split, rank=5)
    for name in ("notebook", "notebook-noise"):
        assert abs(mean_rank(name, split, rank=5) - local) < 0.03
    assert local < 0.25
