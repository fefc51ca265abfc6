"""Top items: exact, in a fixed order, and never an item that was seen or filtered out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.refused import refused
from twofold.algorithms._jit import without_numba
from twofold.algorithms.top_items import FEW, TopItems, top_items
from twofold.errors import BadNumber, BadParameter, BadShape, TwofoldError

BOTH_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
FEW_AND_MANY = pytest.mark.parametrize("n", [1, 10, FEW, FEW + 1, 150])


def factors(n_users: int, n_items: int, rank: int, *, seed: int = 0, dtype: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(size, rank)).astype(dtype) for size in (n_users, n_items)]


def seen_items(n_users: int, n_items: int, *, share: float = 0.3, seed: int = 1) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random((n_users, n_items)) < share).astype(np.float32))


def by_sorting(scores: np.ndarray, n: int) -> TopItems:
    """Sort everything; minus infinity is no candidate."""
    order = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores), axis=1)[:, :n]
    best = np.take_along_axis(scores, order, axis=1)
    missing = max(0, n - scores.shape[1])
    items = np.pad(np.where(best > -np.inf, order, -1), ((0, 0), (0, missing)), constant_values=-1)
    return TopItems(items, np.pad(best, ((0, 0), (0, missing)), constant_values=-np.inf))


@st.composite
def integer_cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, np.ndarray, np.ndarray]:
    """Small whole factors: exact scores with many ties, some items seen, some not allowed."""
    n_users, n_items, rank = draw(st.integers(0, 6)), draw(st.integers(0, 70)), draw(st.integers(0, 3))
    values = st.integers(-2, 2)
    U = draw(hnp.arrays(np.float64, (n_users, rank), elements=values))
    V = draw(hnp.arrays(np.float64, (n_items, rank), elements=values))
    seen = draw(hnp.arrays(np.bool_, (n_users, n_items)))
    allowed = draw(hnp.arrays(np.bool_, n_items, elements=st.booleans()))
    return U, V, draw(st.integers(1, 80)), seen, allowed


class TestExact:
    """The result is what sorting all scores gives."""

    @given(integer_cases())
    def test_ties_seen_items_and_filters(
        self, case: tuple[np.ndarray, np.ndarray, int, np.ndarray, np.ndarray]
    ) -> None:
        U, V, n, seen, allowed = case
        scores = np.where(seen | ~allowed, -np.inf, U @ V.T)
        expected = by_sorting(scores, n)
        for dtype in (np.float32, np.float64):
            found = top_items(
                U.astype(dtype), V.astype(dtype), n, exclude=sp.csr_array(seen), allowed=allowed, threads=1
            )
            np.testing.assert_array_equal(found.items, expected.items)
            np.testing.assert_array_equal(found.scores, expected.scores)
            assert found.scores.dtype == dtype

    @given(integer_cases())
    def test_compiled_equals_reference(self, case: tuple[np.ndarray, np.ndarray, int, np.ndarray, np.ndarray]) -> None:
        U, V, n, seen, allowed = case
        fast = top_items(U, V, n, exclude=sp.csr_array(seen), allowed=allowed)
        with without_numba():
            slow = top_items(U, V, n, exclude=sp.csr_array(seen), allowed=allowed)
        np.testing.assert_array_equal(fast.items, slow.items)
        np.testing.assert_array_equal(fast.scores, slow.scores)

    @BOTH_TYPES
    @FEW_AND_MANY
    def test_real_numbers(self, dtype: type, n: int) -> None:
        U, V = factors(60, 333, 12, dtype=dtype)
        seen = seen_items(60, 333)
        found = top_items(U, V, n, exclude=seen)
        exact = U.astype(np.float64) @ V.T.astype(np.float64)
        expected = by_sorting(np.where(seen.toarray() > 0, -np.inf, exact), n)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-5 if dtype is np.float32 else 1e-12)
        if dtype is np.float64:
            np.testing.assert_array_equal(found.items, expected.items)
        assert (np.diff(found.scores, axis=1) <= 0).all()

    @FEW_AND_MANY
    def test_every_score_equal(self, n: int) -> None:
        found = top_items(np.ones((3, 2)), np.ones((400, 2)), n)
        np.testing.assert_array_equal(found.items, np.tile(np.arange(n), (3, 1)))
        assert (found.scores == 2).all()

    @FEW_AND_MANY
    def test_best_items_at_the_end_or_the_start(self, n: int) -> None:
        V = np.arange(401.0)[:, None]
        rising, falling = top_items([[1.0], [-1.0]], V, n).items
        np.testing.assert_array_equal(rising, np.arange(400, 400 - n, -1))
        np.testing.assert_array_equal(falling, np.arange(n))

    @FEW_AND_MANY
    def test_blocks_and_threads_change_nothing(self, n: int) -> None:
        U, V = (np.round(3 * f) for f in factors(203, 240, 5))
        seen = seen_items(203, 240)
        whole = top_items(U, V, n, exclude=seen, threads=1)
        for block_size, threads in ((1, 1), (7, 2), (64, 3), (1000, 2)):
            other = top_items(U, V, n, exclude=seen, block_size=block_size, threads=threads)
            np.testing.assert_array_equal(whole.items, other.items)
            np.testing.assert_array_equal(whole.scores, other.scores)

    @BOTH_TYPES
    def test_threads_change_no_bit_of_real_scores(self, dtype: type) -> None:
        U, V = factors(900, 500, 17, dtype=dtype)
        one, three = (top_items(U, V, 20, threads=threads) for threads in (1, 3))
        np.testing.assert_array_equal(one.items, three.items)
        np.testing.assert_array_equal(one.scores, three.scores)


class TestEdges:
    """Few users, few items, extreme numbers."""

    @pytest.mark.parametrize("n", [4, FEW + 20])
    def test_too_few_items_are_filled_up(self, n: int) -> None:
        items, scores = top_items([[1.0]], [[2.0], [5.0], [3.0]], n, exclude=sp.csr_array([[0, 1, 0]]))
        assert items.tolist() == [[2, 0] + [-1] * (n - 2)]
        assert scores.tolist() == [[3.0, 2.0] + [-np.inf] * (n - 2)]

    @pytest.mark.parametrize("n", [3, FEW + 3])
    def test_everything_seen_or_nothing_allowed(self, n: int) -> None:
        U, V = factors(2, 90, 3)
        for found in (top_items(U, V, n, exclude=sp.csr_array(np.ones((2, 90)))), top_items(U, V, n, allowed=[])):
            assert (found.items == -1).all()
            assert np.isneginf(found.scores).all()
            assert found.items.shape == (2, n)

    def test_one_user_equals_the_batch(self) -> None:
        U, V = (np.round(4 * f) for f in factors(30, 120, 6))
        batch = top_items(U, V, 10)
        for user in range(30):
            alone = top_items(U[[user]], V, 10)
            np.testing.assert_array_equal(alone.items[0], batch.items[user])

    def test_nobody_and_nothing(self) -> None:
        assert top_items(np.zeros((0, 4)), np.ones((5, 4)), 3).items.shape == (0, 3)
        assert top_items(np.ones((2, 4)), np.zeros((0, 4)), 3).items.tolist() == [[-1] * 3] * 2

    def test_stored_zeros_and_repeated_entries_are_seen(self) -> None:
        stored = sp.csr_array((np.array([0.0, 0.0, 1.0]), np.array([2, 2, 0]), np.array([0, 3])), shape=(1, 4))
        assert top_items([[1.0]], [[1.0], [2.0], [3.0], [0.0]], 2, exclude=stored).items.tolist() == [[1, 3]]

    def test_item_numbers_and_mask_are_the_same_filter(self) -> None:
        U, V = factors(8, 50, 4)
        mask = np.arange(50) % 3 == 1
        numbers = np.flatnonzero(mask)[::-1]
        a = top_items(U, V, 6, allowed=mask, exclude=seen_items(8, 50))
        b = top_items(U, V, 6, allowed=[*numbers, *numbers[:3]], exclude=seen_items(8, 50))
        np.testing.assert_array_equal(a.items, b.items)
        assert mask[a.items[a.items >= 0]].all()

    @pytest.mark.parametrize(
        ("dtype", "power"), [(np.float32, 110), (np.float32, -110), (np.float64, 900), (np.float64, -900)]
    )
    def test_huge_and_tiny_factors_are_ordered_like_others(self, dtype: type, power: int) -> None:
        U, V = factors(20, 80, 5, dtype=dtype)
        plain, moved = top_items(U, V, 12), top_items(np.ldexp(U, power), np.ldexp(V, power), 12)
        np.testing.assert_array_equal(plain.items, moved.items)
        assert np.isfinite(moved.scores).all()
        only_users = top_items(np.ldexp(U, power), V, 12)
        np.testing.assert_array_equal(only_users.scores, np.ldexp(plain.scores, power))

    def test_single_is_near_double(self) -> None:
        U, V = factors(50, 200, 20)
        double, single = top_items(U, V, 10), top_items(U.astype(np.float32), V.astype(np.float32), 10)
        np.testing.assert_allclose(single.scores, double.scores, rtol=1e-4)
        assert top_items(U.astype(np.float32), V, 10).scores.dtype == np.float64

    def test_forms_of_the_same_arguments_agree(self) -> None:
        U, V = (np.round(3 * f) for f in factors(12, 60, 4))
        seen = seen_items(12, 60)
        expected = top_items(U, V, 5, exclude=seen).items
        wide = seen.copy()
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        for same in (sp.csc_array(seen), sp.csr_matrix(seen), sp.coo_array(seen), wide):
            np.testing.assert_array_equal(top_items(U, V, 5, exclude=same).items, expected)
        whole = top_items(U.astype(np.int64), np.asfortranarray(V), 5, exclude=seen)
        np.testing.assert_array_equal(whole.items, expected)

    def test_memory_is_that_of_blocks(self) -> None:
        U, V = factors(4000, 3000, 4, dtype=np.float32)
        top_items(U[:9], V, 10, threads=1)
        tracemalloc.start()
        top_items(U, V, 10, threads=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # All scores would be 48 MB; the result is 0.5 MB and a block 1 MB.
        assert peak < 4e6


class TestBadInput:
    """Errors that say what to do, and no number of users."""

    @pytest.mark.parametrize(
        ("arguments", "error", "parameter", "fact"),
        [
            ({"n": 0}, BadParameter, "n", "0"),
            ({"n": 1.5}, BadParameter, "n", "1.5"),
            ({"block_size": 0}, BadParameter, "block_size", "0"),
            ({"threads": 0}, BadParameter, "threads", "0"),
            ({"user_factors": np.ones(2)}, BadShape, "factors", "user_factors[None, :]"),
            ({"user_factors": np.ones((7, 3))}, BadShape, "rank", "rank 3 and rank 2"),
            ({"user_factors": np.full((7, 2), np.nan)}, BadNumber, "factors", "finite"),
            ({"item_factors": np.full((5, 2), np.inf)}, BadNumber, "factors", "finite"),
            ({"item_factors": np.ones((5, 2), complex)}, BadParameter, "factors", "complex128"),
            ({"exclude": np.zeros((7, 5))}, BadParameter, "exclude", "csr_array"),
            ({"exclude": sp.csr_array((6, 5))}, BadShape, "exclude", "5 columns"),
            ({"exclude": sp.csr_array((7, 4))}, BadShape, "exclude", "5 columns"),
            ({"allowed": [True, False]}, BadShape, "allowed", "(5,)"),
            ({"allowed": [0, 5]}, BadParameter, "allowed", "from 0 to 4"),
            ({"allowed": [-1]}, BadParameter, "allowed", "from 0 to 4"),
            ({"allowed": [0.5]}, BadParameter, "allowed", "a bool per item"),
            ({"allowed": [[0]]}, BadParameter, "allowed", "a bool per item"),
        ],
    )
    def test_says_what_is_wrong(
        self, arguments: dict[str, object], error: type[TwofoldError], parameter: str, fact: str
    ) -> None:
        call: dict[str, object] = {"user_factors": np.ones((7, 2)), "item_factors": np.ones((5, 2)), **arguments}
        with refused(error, parameter, fact) as caught:
            top_items(**call)
        assert "7" not in str(caught.value)
