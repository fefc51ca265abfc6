"""The facts that simulated hospitals are measured by, and the table of them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from studies.data.calibration import (
    NOTED,
    _ndcg,
    as_text,
    average_gap,
    between_hospitals,
    calibration,
    curve,
    gap,
    main,
    measure_demo,
    nmf_factors,
    recorded_errors,
)
from tests.refused import refused
from twofold.data.federation import Federation
from twofold.data.sources import hospitals
from twofold.data.sources.hospitals import Simulation, load, simulate
from twofold.errors import BadParameter, DataError, MissingDataset
from twofold.evaluation.measure import user_ndcg


@pytest.fixture(scope="module")
def small() -> Simulation:
    return simulate(n_patients=4_000, n_hospitals=10, rng=0)


def test_between_hospitals_is_zero_for_a_random_cut(small: Simulation) -> None:
    counts = small.federation["hospital-001"].matrix
    labels = np.random.default_rng(0).integers(5, size=counts.shape[0])
    assert abs(between_hospitals(counts, labels)) < 0.02
    assert math.isnan(between_hospitals(counts, np.zeros(counts.shape[0], dtype=np.int64)))


def test_gap_is_nan_without_entries() -> None:
    assert math.isnan(average_gap(sparse.csr_array((5, 4)), rank=2).model_ndcg)


def test_ndcg_is_the_one_of_evaluate() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((40, 25))
    held = np.array([rng.choice(25, size=5, replace=False) for _ in range(40)])
    test = sparse.csr_array((np.ones(200), (np.repeat(np.arange(40), 5), held.ravel())), shape=(40, 25))
    places = np.take_along_axis(np.argsort(np.argsort(-scores, axis=1), axis=1), held, axis=1)
    assert _ndcg(places) == pytest.approx(user_ndcg(scores, test).mean(), abs=1e-12)


def test_gap_does_not_depend_on_the_order_of_indices() -> None:
    counts = sparse.csr_array(np.random.default_rng(0).integers(3, size=(60, 30)).astype(float))
    order = np.random.default_rng(1).permutation(30)
    shuffled = sparse.csr_array(counts[:, order])
    ready = shuffled.copy()
    ready.sort_indices()
    assert not shuffled.has_sorted_indices
    assert gap(shuffled, rank=3, rng=np.random.default_rng(2)) == gap(ready, rank=3, rng=np.random.default_rng(2))


def test_popularity_curve_falls() -> None:
    shares = curve(sparse.csr_array(np.array([[0, 1, 2], [0, 0, 3]])))
    assert shares.tolist() == [1.0, 0.5, 0.0]


def test_recorded_errors_fall_with_rank_in_train(small: Simulation) -> None:
    counts = small.federation.pooled().matrix
    low, high = recorded_errors(counts, rank=5), recorded_errors(counts, rank=40)
    assert high.train < low.train
    assert high.test > high.train, "held-out entries were zeros to the fit"
    assert 0 < low.mean_rank < 0.2


def test_nmf_errors_are_near_those_of_the_svd(small: Simulation) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn comes with the bench extra")
    counts = small.federation["hospital-001"].matrix
    by_svd, by_nmf = recorded_errors(counts, rank=5), recorded_errors(counts, rank=5, factorize=nmf_factors)
    assert by_nmf.train == pytest.approx(by_svd.train, rel=0.25)


def test_calibration_has_a_row_for_every_fact(small: Simulation) -> None:
    rows = calibration(small.federation)
    table = {row.fact: row for row in rows}
    assert len(table) == len(rows) == 40
    assert table["patients"].simulated == "4,000"
    assert table["rank 10: train RMSE (SVD)"].target == "1.98"
    assert all(row.source for row in rows)
    assert as_text(rows).count("\n") == len(rows) + 1


def test_calibration_is_close_where_it_can_be() -> None:
    """At a tenth of the size, the facts the simulator was tuned to are within the spread between seeds."""
    table = {row.fact: row for row in calibration(load(0.1))}

    def ratio(fact: str) -> float:
        return float(table[fact].simulated) / float(table[fact].target)

    assert 36 < float(table["entries per patient"].simulated) < 67
    for fact in ("lab entries per patient", "drug entries per patient with any", "count, mean"):
        assert 0.75 < ratio(fact) < 1.35, fact
    for rank in (10, 20, 50):
        assert 0.75 < ratio(f"rank {rank}: train RMSE (SVD)") < 1.35, rank


def test_calibration_refuses_other_federations(small: Simulation) -> None:
    ratings = small.federation["hospital-001"]
    bare = hospitals.Ratings(ratings.matrix, ratings.user_ids, type(ratings.catalog)(ratings.catalog.items), "counts")
    with pytest.raises(DataError):
        calibration(Federation({"other": bare}))


def test_command_prints_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOFOLD_DATA", raising=False)
    main(["--scale", "0.02", "--structure", "0.9"])
    printed = capsys.readouterr().out
    assert "noted figures" in printed
    assert "| hospitals that record no drug" in printed


def test_command_refuses_an_unknown_structure() -> None:
    with pytest.raises(BadParameter):
        main(["--structure", "loud"])


def test_noted_figures_are_the_measured_ones(data_folder: Path) -> None:
    measured = dataclasses.asdict(measure_demo(data_folder / "eicu-demo-2.0.1"))
    for name, noted in dataclasses.asdict(NOTED).items():
        assert measured[name] == pytest.approx(noted, abs=6e-5 * max(1, noted)), name


def test_incomplete_demo_is_named(tmp_path: Path) -> None:
    with refused(MissingDataset, None, "physionet.org", expected="patient.csv.gz"):
        measure_demo(tmp_path)
