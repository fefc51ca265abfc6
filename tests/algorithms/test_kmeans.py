"""k-means: the fast step against slow ones, awkward data, and promises of the docstrings."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.refused import refused
from twofold.algorithms._jit import without_numba
from twofold.algorithms._kmeans_step import Bounds
from twofold.algorithms.kmeans import assign, kmeans, lloyd_step
from twofold.errors import BadNumber

BOTH_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
BOTH_FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array])


def counts_like(n_rows: int, n_columns: int, *, seed: int = 0, density: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 6, (n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < density)


def distances(X: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """All squared distances, by subtraction, in float64."""
    return ((X[:, None, :].astype(np.float64) - centers[None].astype(np.float64)) ** 2).sum(axis=2)


@st.composite
def small_integers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, centers and weights of small integers: products are exact, so every road must give the same bits."""
    n, d, k = draw(st.integers(0, 12)), draw(st.integers(1, 9)), draw(st.integers(1, 20))
    values = st.integers(-5, 5)
    X = draw(hnp.arrays(np.float64, (n, d), elements=values))
    centers = draw(hnp.arrays(np.float64, (k, d), elements=values))
    weights = draw(hnp.arrays(np.float64, n, elements=st.integers(0, 3)))
    return X, centers, weights


class TestLloydStep:
    """Labels, sums, counts and inertia of one pass."""

    @given(small_integers())
    def test_equals_brute_force_exactly_on_integers(self, case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        X, centers, weights = case
        all_distances = distances(X, centers)
        expected = all_distances.argmin(axis=1)
        for form in (np.asarray, sp.csr_array):
            for dtype in (np.float32, np.float64):
                found = lloyd_step(form(X.astype(dtype)), centers, weights=weights, threads=1)
                np.testing.assert_array_equal(found.labels, expected)
                np.testing.assert_array_equal(found.counts, np.bincount(expected, weights, len(centers)))
                onehot = np.eye(len(centers))[expected] * weights[:, None]
                np.testing.assert_array_equal(found.sums, onehot.T @ X)
                assert found.inertia == weights @ all_distances.min(axis=1)

    @given(small_integers())
    def test_compiled_equals_reference(self, case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        X, centers, weights = case
        for form in (np.asarray, sp.csr_array):
            fast = lloyd_step(form(X), centers, weights=weights)
            with without_numba():
                slow = lloyd_step(form(X), centers, weights=weights)
            for a, b in zip(fast, slow, strict=True):
                np.testing.assert_array_equal(a, b)

    @BOTH_FORMS
    @BOTH_TYPES
    def test_real_numbers_find_a_nearest_center(self, form: type, dtype: type) -> None:
        rng = np.random.default_rng(1)
        X = rng.normal(size=(700, 33)) * (rng.random((700, 33)) < 0.5)
        centers = rng.normal(size=(21, 33))
        found = lloyd_step(form(X.astype(dtype)), centers)
        all_distances = distances(X, centers)
        own = all_distances[np.arange(700), found.labels]
        tolerance = 1e-4 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(own, all_distances.min(axis=1), rtol=tolerance)
        np.testing.assert_allclose(found.inertia, all_distances.min(axis=1).sum(), rtol=tolerance)
        onehot = np.eye(21)[found.labels]
        np.testing.assert_allclose(found.sums, onehot.T @ X, rtol=0, atol=tolerance * 100)

    @BOTH_FORMS
    def test_does_not_depend_on_threads(self, form: type) -> None:
        X = form(counts_like(3000, 150).astype(np.float32) * np.float32(0.1))
        centers = np.random.default_rng(2).random((9, 150))
        one = lloyd_step(X, centers, threads=1)
        for threads in (2, 3):
            for a, b in zip(one, lloyd_step(X, centers, threads=threads), strict=True):
                np.testing.assert_array_equal(a, b)

    @BOTH_FORMS
    def test_no_rows_give_zeros(self, form: type) -> None:
        labels, sums, counts, inertia = lloyd_step(form(np.zeros((0, 4))), np.ones((3, 4)))
        assert labels.shape == (0,)
        assert not sums.any()
        assert not counts.any()
        assert (sums.shape, counts.shape, inertia) == ((3, 4), (3,), 0.0)

    @BOTH_FORMS
    def test_one_row_more_changes_one_line(self, form: type) -> None:
        X = counts_like(50, 12)
        centers = np.random.default_rng(3).random((5, 12)) * 3
        whole, without = lloyd_step(form(X), centers), lloyd_step(form(X[1:]), centers)
        changed = np.zeros((5, 12))
        changed[whole.labels[0]] = X[0]
        np.testing.assert_array_equal(whole.sums - without.sums, changed)
        assert np.abs(whole.counts - without.counts).sum() == 1

    @BOTH_FORMS
    def test_data_far_from_zero_keeps_its_digits(self, form: type) -> None:
        rng = np.random.default_rng(4)
        around = rng.normal(size=(300, 20))
        X = (around + 10_000.0).astype(np.float32)
        centers = (rng.normal(size=(6, 20)) + 10_000.0).astype(np.float32)
        all_distances = distances(X, centers)
        own = all_distances[np.arange(300), lloyd_step(form(X), centers).labels]
        # Taken literally, |c|² - 2 x·c has an error near 100 here; distances are near 40.
        assert (own - all_distances.min(axis=1)).max() < 0.2

    @pytest.mark.parametrize(("dtype", "power"), [(np.float32, 90), (np.float32, -90), (np.float64, 480)])
    @BOTH_FORMS
    def test_huge_and_tiny_numbers_are_labelled_like_others(self, form: type, dtype: type, power: int) -> None:
        X, centers = counts_like(60, 10).astype(dtype), counts_like(7, 10, seed=5).astype(dtype)
        plain = lloyd_step(form(X), centers)
        moved = lloyd_step(form(np.ldexp(X, power)), np.ldexp(centers, power))
        np.testing.assert_array_equal(plain.labels, moved.labels)
        np.testing.assert_array_equal(np.ldexp(plain.sums, power), moved.sums)
        np.testing.assert_allclose(moved.inertia, np.ldexp(plain.inertia, 2 * power), rtol=1e-12)

    def test_forms_of_the_same_matrix_agree(self) -> None:
        X = counts_like(80, 15).astype(np.float32)
        centers = counts_like(6, 15, seed=6)
        expected = lloyd_step(X, centers)
        doubled = sp.coo_array(
            (np.concatenate([X[X > 0] - 1, np.ones((X > 0).sum())]), tuple(np.tile(np.nonzero(X), 2)))
        ).tocsr()
        wide = sp.csr_array(X)
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        frozen = X.copy()
        frozen.flags.writeable = False
        for same in (np.asfortranarray(X), frozen, X[::1, :], X.astype(np.int64), X.tolist(), wide):
            for a, b in zip(expected, lloyd_step(same, centers), strict=True):
                np.testing.assert_array_equal(a, b)
        for same in (sp.csc_array(X), sp.csr_matrix(X), sp.coo_array(X), doubled):
            for a, b in zip(expected, lloyd_step(same, centers), strict=True):
                np.testing.assert_array_equal(a, b)

    def test_input_is_left_alone(self) -> None:
        X, centers = sp.csr_array(counts_like(20, 5).astype(np.float64)), np.ones((2, 5))
        before = X.copy(), centers.copy()
        lloyd_step(X, centers)
        kmeans(X, 3, rng=0)
        np.testing.assert_array_equal(X.toarray(), before[0].toarray())
        np.testing.assert_array_equal(centers, before[1])


class TestAssign:
    """Labels alone."""

    @BOTH_FORMS
    @BOTH_TYPES
    def test_gives_the_labels_of_the_step(self, form: type, dtype: type) -> None:
        X = form(counts_like(500, 40).astype(dtype))
        centers = np.random.default_rng(7).random((18, 40))
        np.testing.assert_array_equal(assign(X, centers, threads=2), lloyd_step(X, centers).labels)

    def test_ties_go_to_the_lower_number(self) -> None:
        assert assign([[0.0]], [[1.0], [-1.0], [1.0]]).tolist() == [0]

    @BOTH_FORMS
    def test_refuses_what_it_cannot_order(self, form: type) -> None:
        with refused(BadNumber, "rows", expected="finite numbers"):
            assign(form(np.array([[1.0, np.nan]])), np.eye(2))
        with refused(BadNumber, "rows", found="float32"):
            assign(form(np.full((2, 2), 3e38, np.float32)), np.array([[3e38, 3e38], [1.0, 0.0]]))


class TestKMeans:
    """Whole runs on friendly rows."""

    @BOTH_FORMS
    @BOTH_TYPES
    def test_finds_separated_groups(self, form: type, dtype: type) -> None:
        rng = np.random.default_rng(8)
        truth = rng.integers(5, size=400)
        X = (20.0 * np.eye(5, 12)[truth] + rng.random((400, 12))).astype(dtype)
        found = kmeans(form(X), 5, rng=9)
        assert len({(a, b) for a, b in zip(truth, found.labels, strict=True)}) == 5
        for cluster in range(5):
            mean = X[found.labels == cluster].mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(found.centers[cluster], mean, rtol=1e-5)
        assert found.centers.dtype == dtype

    @BOTH_FORMS
    def test_inertia_falls_at_each_step_and_is_that_of_the_centers(self, form: type) -> None:
        X = counts_like(300, 30)
        start = counts_like(12, 30, seed=10)
        runs = [kmeans(form(X), 12, init=start, max_iter=n, tol=0, dtype=np.float64) for n in range(1, 9)]
        inertias = [lloyd_step(X, start).inertia, *(run.inertia for run in runs)]
        assert all(b <= a for a, b in itertools.pairwise(inertias))
        assert inertias[-1] < inertias[0]
        np.testing.assert_allclose(runs[-1].inertia, distances(X, runs[-1].centers).min(axis=1).sum())

    def test_dense_equals_sparse_and_single_is_near_double(self) -> None:
        X = counts_like(400, 25)
        start = counts_like(8, 25, seed=11)
        dense = kmeans(X, 8, init=start, dtype=np.float64)
        sparse = kmeans(sp.csr_array(X), 8, init=start, dtype=np.float64)
        single = kmeans(X, 8, init=start, dtype=np.float32)
        np.testing.assert_allclose(dense.centers, sparse.centers, atol=1e-12)
        np.testing.assert_array_equal(dense.labels, sparse.labels)
        np.testing.assert_allclose(single.inertia, dense.inertia, rtol=1e-3)

    def test_stops_at_a_fixed_point(self) -> None:
        X = counts_like(200, 10)
        found = kmeans(X, 4, rng=12, max_iter=500, tol=0, dtype=np.float64)
        assert found.n_iter < 500
        means = [X[found.labels == c].mean(axis=0) for c in range(4)]
        np.testing.assert_allclose(found.centers, means, atol=1e-12)

    @BOTH_FORMS
    def test_a_seed_repeats_whatever_the_threads(self, form: type) -> None:
        X = form(counts_like(2000, 100).astype(np.float32) * np.float32(0.3))
        runs = [kmeans(X, 7, rng=13, threads=threads, max_iter=5) for threads in (1, 2, 3)]
        for run in runs[1:]:
            np.testing.assert_array_equal(run.centers, runs[0].centers)
            np.testing.assert_array_equal(run.labels, runs[0].labels)
            assert (run.inertia, run.n_iter) == (runs[0].inertia, runs[0].n_iter)
        other = kmeans(X, 7, rng=14, max_iter=5)
        assert (other.centers != runs[0].centers).any()

    def test_compiled_equals_reference(self) -> None:
        X = sp.csr_array(counts_like(150, 20).astype(np.float64))
        fast = kmeans(X, 6, rng=15)
        with without_numba():
            slow = kmeans(X, 6, rng=15)
        np.testing.assert_array_equal(fast.labels, slow.labels)
        np.testing.assert_allclose(fast.centers, slow.centers, rtol=1e-12, atol=1e-12)

    @BOTH_TYPES
    @pytest.mark.parametrize("n_clusters", [2, 9, 40])
    def test_bounds_spare_work_and_change_nothing(
        self, dtype: type, n_clusters: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rng = np.random.default_rng(19)
        groups = rng.random((6, 60))[rng.integers(6, size=1500)]
        X = sp.csr_array((groups * rng.random((1500, 60)) * (rng.random((1500, 60)) < 0.4)).astype(dtype))
        start = X[rng.choice(1500, n_clusters, replace=False)].toarray()
        used = []
        bounded = Bounds._label_bounded
        monkeypatch.setattr(Bounds, "_label_bounded", lambda *a: used.append(1) or bounded(*a))
        quick = kmeans(X, n_clusters, init=start, tol=0, max_iter=40)
        assert len(used) > 3
        monkeypatch.setattr(Bounds, "pay_off", lambda *_: False)
        plain = kmeans(X, n_clusters, init=start, tol=0, max_iter=40)
        np.testing.assert_array_equal(quick.labels, plain.labels)
        np.testing.assert_array_equal(quick.centers, plain.centers)
        assert (quick.inertia, quick.n_iter) == (plain.inertia, plain.n_iter)

    def test_more_starts_never_hurt(self) -> None:
        X = counts_like(150, 8)
        alone = [kmeans(X, 10, rng=np.random.default_rng(16)).inertia]
        assert kmeans(X, 10, n_init=8, rng=np.random.default_rng(16)).inertia <= alone[0]

    @BOTH_FORMS
    def test_weights_are_repetitions(self, form: type) -> None:
        X = counts_like(60, 9)
        weights = np.random.default_rng(17).integers(0, 4, 60)
        start = counts_like(5, 9, seed=18)
        weighted = kmeans(form(X), 5, init=start, weights=weights, dtype=np.float64, tol=0)
        repeated = kmeans(form(np.repeat(X, weights, axis=0)), 5, init=start, dtype=np.float64, tol=0)
        np.testing.assert_allclose(weighted.centers, repeated.centers, atol=1e-12)
        np.testing.assert_allclose(weighted.inertia, repeated.inertia)


class TestAwkwardRows:
    """Whole runs on rows that break careless code."""

    @BOTH_FORMS
    def test_equal_rows(self, form: type) -> None:
        found = kmeans(form(np.tile([3.0, 0.0, 2.0], (10, 1))), 4, rng=0)
        assert found.inertia == 0
        assert (found.labels == found.labels[0]).all()
        np.testing.assert_array_equal(found.centers, np.tile([3.0, 0.0, 2.0], (4, 1)))

    @BOTH_FORMS
    @pytest.mark.parametrize("n_clusters", [3, 5, 40])
    def test_clusters_as_many_as_distinct_rows_or_more(self, form: type, n_clusters: int) -> None:
        distinct = np.array([[1.0, 0.0], [0.0, 5.0], [0.0, 0.0]])
        found = kmeans(form(np.repeat(distinct, 4, axis=0)), n_clusters, rng=1)
        assert found.inertia == 0
        assert np.isfinite(found.centers).all()
        np.testing.assert_array_equal(found.centers[found.labels], np.repeat(distinct, 4, axis=0))

    @BOTH_FORMS
    def test_empty_rows_and_columns(self, form: type) -> None:
        X = counts_like(40, 10).astype(np.float64)
        X[::3] = 0
        X[:, 4] = 0
        found = kmeans(form(X), 3, rng=2)
        assert not found.centers[:, 4].any()
        assert np.isfinite(found.centers).all()
        all_zero = kmeans(form(np.zeros((5, 3))), 2, rng=3)
        assert all_zero.inertia == 0
        assert not all_zero.centers.any()

    def test_one_row_and_no_row(self) -> None:
        assert kmeans([[1.0, 2.0]], 3, rng=4).centers.tolist() == [[1.0, 2.0]] * 3
        nobody = kmeans(np.zeros((0, 2)), 2, init=np.eye(2))
        assert nobody.centers.tolist() == np.eye(2).tolist()
        assert (nobody.inertia, nobody.n_iter, nobody.labels.size) == (0.0, 0, 0)

    @BOTH_FORMS
    def test_empty_clusters_take_the_farthest_rows_in_order(self, form: type) -> None:
        X = form(np.array([[0.0], [1.0], [-7.0], [9.0]]))
        # Everything is nearest to 0; clusters 1 and 2 take rows 3 and 2, while 0 moves to the mean 0.75.
        found = kmeans(X, 3, init=[[0.0], [100.0], [-100.0]], max_iter=1)
        assert found.centers.ravel().tolist() == [0.75, 9.0, -7.0]

    def test_rows_of_no_weight_attract_nothing(self) -> None:
        found = kmeans([[0.0], [0.5], [1000.0]], 2, weights=[1, 1, 0], rng=5, tol=0)
        assert sorted(found.centers.ravel().tolist()) == [0.0, 0.5]
        nothing = kmeans([[0.0], [4.0]], 2, weights=[0, 0], rng=6)
        assert np.isfinite(nothing.centers).all()
        assert nothing.inertia == 0

    @BOTH_FORMS
    @pytest.mark.parametrize(
        ("dtype", "power"), [(np.float32, 120), (np.float32, -120), (np.float64, 1000), (np.float64, -1000)]
    )
    def test_huge_and_tiny_numbers_cluster_like_others(self, form: type, dtype: type, power: int) -> None:
        X = counts_like(90, 7).astype(dtype)
        plain, moved = kmeans(form(X), 5, rng=7), kmeans(form(np.ldexp(X, power)), 5, rng=7)
        np.testing.assert_array_equal(plain.labels, moved.labels)
        np.testing.assert_allclose(np.ldexp(moved.centers, -power), plain.centers, rtol=1e-6)
        assert not np.isnan(moved.inertia)

    @given(
        hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.floats(width=32)),
        st.integers(1, 9),
    )
    def test_finite_out_or_an_error(self, X: np.ndarray, n_clusters: int) -> None:
        for form in (np.asarray, sp.csr_array):
            if np.isfinite(X).all():
                found = kmeans(form(X), n_clusters, rng=0)
                assert np.isfinite(found.centers).all()
                assert not np.isnan(found.inertia)
                assert found.inertia >= 0
            else:
                with pytest.raises(BadNumber):
                    kmeans(form(X), n_clusters, rng=0)


class TestStarts:
    """k-means++."""

    @BOTH_FORMS
    def test_every_far_group_gets_a_start(self, form: type) -> None:
        truth = np.arange(60) % 6
        X = 1000.0 * np.eye(6)[truth] + np.random.default_rng(0).random((60, 6))
        for seed in range(10):
            found = kmeans(form(X), 6, rng=seed, max_iter=1)
            assert len(set(zip(truth.tolist(), found.labels.tolist(), strict=True))) == 6

    def test_starts_are_rows_drawn_by_squared_distance(self) -> None:
        from twofold.algorithms.kmeans import _draw

        mass = np.array([0.0, 1.0, 3.0, 0.0])
        drawn = _draw(mass, 40_000, np.random.default_rng(1))
        share = np.bincount(drawn, minlength=4) / 40_000
        np.testing.assert_allclose(share, mass / 4, atol=0.01)
        assert set(_draw(np.zeros(3), 200, np.random.default_rng(2)).tolist()) == {0, 1, 2}

    @pytest.mark.parametrize("density", [0.1, 0.6])
    def test_a_dense_copy_of_sparse_rows_changes_no_start(
        self, density: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = importlib.import_module("twofold.algorithms.kmeans")
        rows = sp.csr_array(counts_like(80, 30, seed=3, density=density))
        found = {}
        for filled in (0.0, 2.0):  # always and never
            monkeypatch.setattr(module, "_FILLED", filled)
            assert module._well_filled(module.as_rows(rows)) is (filled == 0)
            found[filled] = kmeans(rows, 7, rng=1)
        np.testing.assert_array_equal(found[0.0].centers, found[2.0].centers)
        assert found[0.0].inertia == found[2.0].inertia


@pytest.mark.slow
def test_movielens_rows_cluster_in_bounds(data_folder: Path) -> None:
    """Real rows: fifty clusters explain part of the ratings, and more starts than one agree to a percent."""
    import polars as pl

    ratings = pl.read_csv(data_folder / "movielens-1m" / "ratings.csv.gz")
    users, items = ratings["user"].to_numpy(), ratings["item"].to_numpy()
    values = ratings["rating"].cast(pl.Float32).to_numpy()
    X = sp.csr_array((values, (users, items)))
    total = float((X.data.astype(np.float64) ** 2).sum())
    runs = [kmeans(X, 50, rng=seed, max_iter=30).inertia for seed in range(3)]
    assert max(runs) < 0.9 * total
    assert max(runs) < 1.01 * min(runs)
