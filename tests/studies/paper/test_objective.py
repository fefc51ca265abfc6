"""Experiment 1: the objective by hand, and who can be judged."""

from __future__ import annotations

import numpy as np
import pytest

from studies.case import load_case
from studies.paper.measuring import SYSTEMS, objective_rows
from studies.store import Cell

DATA = {"source": "synthetic", "n_users": 200, "n_items": 10, "rank": 3, "n_entities": 1}


def found(system: str, **options: object) -> dict[str, float]:
    cell = Cell(data=DATA, system=system, options=options, seed=0, task="objective")
    return {row[0]: row[2] for row in objective_rows(cell, load_case(DATA, 0))}


def test_one_mean_has_the_variance_for_its_objective() -> None:
    table = load_case(DATA, 0).train.pooled().matrix.toarray().astype(float)
    assert found("one-mean")["objective"] == pytest.approx(((table - table.mean(axis=0)) ** 2).sum(), rel=1e-6)


def test_clusters_beat_one_mean_and_noise_does_not() -> None:
    assert found("kmeans", n_prototypes=10)["objective_ratio"] < 0.9
    assert found("as-published", n_prototypes=10, epsilon=0.01)["objective_ratio"] > 1


def test_centres_are_counted() -> None:
    few = found("as-published", n_prototypes=20, epsilon=0.01)
    assert few["centres_used"] <= few["centres"] <= 20
    assert found("kmeans", n_prototypes=5)["centres_used"] == 5


@pytest.mark.parametrize("system", SYSTEMS)
def test_everyone_can_be_judged(system: str) -> None:
    more = {"delta": 1e-6} if system == "sample-aggregate" else {}
    assert np.isfinite(list(found(system, n_prototypes=3, epsilon=1, **more).values())).all()
