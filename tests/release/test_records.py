"""One user's record is bounded whatever the row holds, and is exactly what that user adds to the sum."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.release.buckets import bucket_of
from twofold.release.contract import ReleaseParameters, check_rows
from twofold.release.records import RecordPlan, Statistic, directions, statistic
from twofold.release.sulq import nearest_cell

ITEMS = 3000
COUNTS = ReleaseParameters(n_items=ITEMS, n_users=100, max_items=20, bound=5, n_prototypes=4)
PUBLICS = [
    COUNTS,
    COUNTS.with_(delta=1e-6),
    COUNTS.with_(l1_cap=7.3, l2_cap=2.1),
    COUNTS.with_(l1_cap=7.3, l2_cap=2.1, delta=1e-6),
    COUNTS.with_(feedback="ratings", lower=0.5, centre=3.1),
    COUNTS.with_(feedback="ratings", lower=0.5, centre=3.1, delta=1e-6),
    COUNTS.with_(lower=-5),
]


def added(rows: sp.csr_array, public: ReleaseParameters, rule: str) -> Statistic:
    plan = RecordPlan.of(public)
    if rule == "buckets":
        lines = directions(count=4, n_items=ITEMS, seed=1)
        return statistic(rows, public, plan, lambda block: bucket_of(block, lines), cells=4)
    points = np.random.default_rng(0).normal(size=(4, ITEMS))
    return statistic(rows, public, plan, lambda block: nearest_cell(block, points, plan), cells=4)


def adversarial() -> dict[str, sp.csr_array]:
    rng = np.random.default_rng(3)
    one = sp.csr_array(([5.0], ([0], [17])), shape=(1, ITEMS))
    some = sp.csr_array((rng.uniform(0, 5, 20), (np.zeros(20, int), rng.choice(ITEMS, 20, replace=False))), (1, ITEMS))
    repeated = sp.csr_array((1, ITEMS))
    repeated = sp.csr_array((np.full(300, 5.0), np.zeros(300, dtype=int), np.array([0, 300])), shape=(1, ITEMS))
    return {
        "empty": sp.csr_array((1, ITEMS)),
        "one item": one,
        "at the bounds": sp.csr_array((np.full(20, 5.0), (np.zeros(20, int), np.arange(20))), shape=(1, ITEMS)),
        "thousands": sp.csr_array(np.full((1, ITEMS), 5.0)),
        "huge": sp.csr_array(np.full((1, ITEMS), 1e300)),
        "huge and negative": sp.csr_array(np.full((1, ITEMS), -1e300)),
        "duplicated": repeated,
        "odd fractions": some,
        "tiny": sp.csr_array(np.full((1, ITEMS), 1e-300)),
    }


@pytest.mark.parametrize("rule", ["buckets", "nearest"])
@pytest.mark.parametrize("public", PUBLICS)
def test_a_user_changes_the_statistic_by_a_bounded_record(public: ReleaseParameters, rule: str) -> None:
    plan = RecordPlan.of(public)
    base = sp.csr_array(np.random.default_rng(1).poisson(0.01, (50, ITEMS)).astype(float))
    without = added(check_rows(base, public), public, rule)
    for name, row in adversarial().items():
        alone = added(check_rows(row, public), public, rule)
        both = added(check_rows(sp.vstack([base[:20], row, base[20:]], format="csr"), public), public, rule)
        for part in ("sums", "counts", "observed"):
            if getattr(both, part) is None:
                continue
            difference = getattr(both, part) - getattr(without, part)
            assert (difference == getattr(alone, part)).all(), name
        record = np.concatenate(
            [part.ravel() for part in (alone.sums, alone.counts, alone.observed) if part is not None]
        )
        norm = int((record**2).sum()) if plan.l2 else int(np.abs(record).sum())
        assert norm <= plan.sensitivity, name


def test_the_sensitivity_is_reached() -> None:
    full = sp.csr_array((np.full(20, 5.0), (np.zeros(20, int), np.arange(20))), shape=(1, ITEMS))
    for public in (COUNTS, COUNTS.with_(feedback="ratings", centre=0.0)):
        plan = RecordPlan.of(public)
        alone = added(full, public, "buckets")
        total = sum(int(np.abs(part).sum()) for part in (alone.sums, alone.counts, alone.observed) if part is not None)
        assert total == plan.sensitivity


@given(st.lists(st.floats(-1e308, 1e308), min_size=1, max_size=12), st.sampled_from(range(len(PUBLICS))))
@settings(max_examples=60, deadline=None)
def test_any_finite_row_is_bounded(values: list[float], which: int) -> None:
    public = PUBLICS[which].with_(n_items=12, max_items=3)
    plan = RecordPlan.of(public)
    rows = check_rows(np.array([values + [0.0] * (12 - len(values))]), public)
    alone = statistic(rows, public, plan, lambda block: np.zeros(block.n_users, dtype=np.int64), cells=1)
    record = np.concatenate([part.ravel() for part in (alone.sums, alone.counts, alone.observed) if part is not None])
    assert (int((record**2).sum()) if plan.l2 else int(np.abs(record).sum())) <= plan.sensitivity


def test_whole_counts_within_the_bounds_are_kept_exactly() -> None:
    rows = sp.csr_array(np.eye(4, ITEMS) * 5)
    alone = added(rows, COUNTS, "buckets")
    assert float(alone.sums.sum() * RecordPlan.of(COUNTS).units.values) == 20.0


def test_blocks_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sp.csr_array(np.random.default_rng(1).poisson(0.02, (50, ITEMS)).astype(np.float32))
    one = added(rows, COUNTS, "nearest")
    monkeypatch.setattr("twofold.release.records._BLOCK_ROWS", 7)
    two = added(rows, COUNTS, "nearest")
    assert (one.sums == two.sums).all()
    assert (one.counts == two.counts).all()
