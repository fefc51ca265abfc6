"""Sensitivity, shown and not argued: a user moves the sums by exactly the user's record, whose norm is in bounds."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.features import Features
from twofold.release import ReleaseParameters
from twofold.release.bilinear import records
from twofold.release.bilinear import records as rows
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.bilinear.records import exact_sums, public_map
from twofold.release.contract import check_rows

ITEMS = 60
TABLE = Features(matrix=np.random.default_rng(5).integers(-3, 4, (ITEMS, 5)), names=tuple("abcde"))
COUNTS = ReleaseParameters(n_items=ITEMS, n_users=99, max_items=16, bound=9, n_prototypes=7, delta=1e-6, features=TABLE)
RATINGS = COUNTS.with_(feedback="ratings", lower=1, bound=5, centre=3.5)
SIGNED = COUNTS.with_(lower=-9)
PUBLICS = {
    f"{name} {law}": public.with_(delta=delta)
    for name, public in {"counts": COUNTS, "ratings": RATINGS, "signed": SIGNED}.items()
    for law, delta in (("gaussian", 1e-6), ("laplace", 0))
}
each = pytest.mark.parametrize("public", PUBLICS.values(), ids=PUBLICS.keys())
each_kind = pytest.mark.parametrize("kind", KINDS)

_RNG = np.random.default_rng(11)
ADVERSARIAL: dict[str, np.ndarray] = {
    "empty": np.zeros(ITEMS),
    "one item": np.eye(1, ITEMS)[0],
    "one item, huge": np.eye(1, ITEMS)[0] * 1e300,
    "every item": np.full(ITEMS, 5.0),
    "every item, huge": np.full(ITEMS, 1e300),
    "alternating bounds": np.tile([5.0, 1.0], ITEMS // 2),
    "tiny": np.full(ITEMS, 1e-300),
    "below the lower bound": np.full(ITEMS, -1e9),
    "not numbers": np.tile([np.nan, np.inf, -np.inf, 5.0], ITEMS // 4),
    "random": _RNG.integers(0, 6, ITEMS).astype(float),
    "one huge among many": np.concatenate([[1e12], np.ones(ITEMS - 1)]),
}


def norm(record: Any, *, l2: bool) -> int:
    return sum(int(one) ** 2 if l2 else abs(int(one)) for one in record)


def sums(entries: Any, public: ReleaseParameters, kind: Any) -> Any:
    return exact_sums(check_rows(entries, public), public, BilinearLayout.of(public, kind))


def people(number: int, public: ReleaseParameters, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 6, (number, public.n_items)).astype(float)
    return np.where(rng.random(table.shape) < 0.3, table, 0)


@each
@each_kind
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_a_user_moves_the_sums_by_a_record_within_the_bound(public: ReleaseParameters, kind: Any, name: str) -> None:
    user, others = ADVERSARIAL[name][None], people(30, public)
    layout = BilinearLayout.of(public, kind)
    record = sums(user, public, kind)
    np.testing.assert_array_equal(
        sums(np.concatenate([others[:11], user, others[11:]]), public, kind) - sums(others, public, kind), record
    )
    assert norm(record, l2=layout.l2) <= layout.sensitivity


@each
@each_kind
def test_a_duplicated_user_counts_twice_and_no_more(public: ReleaseParameters, kind: Any) -> None:
    user, others = people(1, public, 3), people(5, public)
    both = sums(np.concatenate([user, others, user]), public, kind)
    np.testing.assert_array_equal(both - sums(others, public, kind), 2 * sums(user, public, kind))


@each_kind
def test_duplicated_entries_are_one_entry_each(kind: Any) -> None:
    """Two stored entries of one user and item are added before anything else, so they count as one."""
    parts: Any = (np.array([2.0, 2.0, 3.0]), np.array([4, 4, 9]), np.array([0, 3]))
    once: Any = (np.array([4.0, 3.0]), np.array([4, 9]), np.array([0, 2]))
    twice = sums(sp.csr_array(parts, shape=(1, ITEMS)), COUNTS, kind)
    np.testing.assert_array_equal(twice, sums(sp.csr_array(once, shape=(1, ITEMS)), COUNTS, kind))


@settings(max_examples=80, deadline=None)
@given(
    entries=st.lists(
        st.one_of(st.just(0.0), st.floats(allow_nan=True, allow_infinity=True), st.integers(0, 9).map(float)),
        min_size=ITEMS,
        max_size=ITEMS,
    ),
    name=st.sampled_from(sorted(PUBLICS)),
    kind=st.sampled_from(KINDS),
)
def test_no_row_whatever_exceeds_the_bound(entries: list[float], name: str, kind: Any) -> None:
    public = PUBLICS[name]
    layout = BilinearLayout.of(public, kind)
    record = sums(np.array([entries]), public, kind)
    assert norm(record, l2=layout.l2) <= layout.sensitivity
    assert norm(record[layout.pairs], l2=layout.l2) <= layout.pair_limit
    base = np.concatenate([record[layout.sums], record[layout.observed]])
    assert norm(base, l2=layout.l2) <= layout.base_weight ** (2 if layout.l2 else 1) * layout.base_limit


@each
@each_kind
def test_the_bound_is_not_slack(public: ReleaseParameters, kind: Any) -> None:
    """A bound twice too large would be safe and wasteful: some row comes near it."""
    layout = BilinearLayout.of(public, kind)
    wide = np.tile([5.0, 1.0], ITEMS // 2)[None] if public.feedback == "ratings" else np.full((1, ITEMS), 9.0)
    narrow = wide * (np.arange(ITEMS) < 16)
    lone = np.eye(1, ITEMS) * 9
    mixed = lone + (np.arange(ITEMS) < 8) * (np.arange(ITEMS) > 0)
    largest = max(norm(sums(row, public, kind), l2=layout.l2) for row in (wide, narrow, lone, mixed))
    assert largest >= (0.7 if layout.l2 else 0.45) * layout.sensitivity


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("items", [1, 2, 7, 30])
def test_the_bound_of_counts_is_attained_by_rows_of_any_length(kind: Any, items: int) -> None:
    """All unit rows weigh the same, those of one item as those of many: within two hundredths of the bound."""
    layout = BilinearLayout.of(COUNTS, kind)
    row = np.zeros((1, ITEMS))
    row[0, :items] = np.arange(1, items + 1)
    record = sums(row, COUNTS, kind)
    assert 0.98 * layout.sensitivity <= norm(record, l2=True) <= layout.sensitivity
    assert 0.98 * layout.pair_limit <= norm(record[layout.pairs], l2=True) <= layout.pair_limit


def test_every_small_row_of_counts_is_within_the_bound() -> None:
    """All rows of three items with values from 0 to 6, signed: none left out."""
    public = COUNTS.with_(n_items=3, max_items=3, lower=-6, bound=6, features=None)
    for delta in (0, 1e-6):
        given = public.with_(delta=delta)
        layout = BilinearLayout.of(given, "gram")
        for row in product((-6.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 6.0), repeat=3):
            record = sums(np.array([row]), given, "gram")
            assert norm(record, l2=layout.l2) <= layout.sensitivity
            assert norm(record[layout.pairs], l2=layout.l2) <= layout.pair_limit


def test_without_the_smaller_diagonal_the_bound_would_be_broken() -> None:
    """So that the tests above can fail: a row of one item would move its own square by the root of two too much."""
    layout = BilinearLayout.of(COUNTS, "gram")
    [block] = rows.row_blocks(check_rows(np.eye(1, ITEMS), COUNTS), COUNTS, layout)
    assert int(block.values[0]) ** 4 > layout.pair_limit
    assert (70 * int(block.values[0]) ** 2 // 99) ** 2 <= layout.pair_limit


@each
@each_kind
def test_the_order_of_users_and_the_cut_into_blocks_change_nothing(
    public: ReleaseParameters, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people(40, public)
    at_once = sums(table, public, kind)
    np.testing.assert_array_equal(sums(table[::-1], public, kind), at_once)
    monkeypatch.setattr(rows, "_BLOCK_ENTRIES", 3 * ITEMS)
    np.testing.assert_array_equal(sums(table, public, kind), at_once)


@each
def test_dense_and_sparse_products_agree_to_the_last_unit(
    public: ReleaseParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, found = people(200, public), []
    for threshold in (0.0, 2.0):
        monkeypatch.setattr(records, "_DENSE", threshold)
        found.append(sums(table, public, "gram"))
    np.testing.assert_array_equal(found[0], found[1])


@each
def test_the_gram_is_that_of_the_whole_rows(public: ReleaseParameters) -> None:
    layout, table = BilinearLayout.of(public, "gram"), people(25, public)
    [block] = rows.row_blocks(check_rows(table, public), public, layout)
    dense = block.matrix.toarray().astype(object)  # Python's whole numbers: nothing can be lost
    wanted = dense.T @ dense
    if public.feedback == "counts":
        np.fill_diagonal(wanted, (70 * dense**2 // 99).sum(axis=0))
    np.testing.assert_array_equal(sums(table, public, "gram")[layout.pairs], wanted[np.triu_indices(ITEMS)])


@each
@pytest.mark.parametrize("kind", ["sketch", "features"])
def test_pairs_are_products_of_row_and_profile(public: ReleaseParameters, kind: Any) -> None:
    layout, table = BilinearLayout.of(public, kind), people(1, public)
    [block] = rows.row_blocks(check_rows(table, public), public, layout)
    pairs = sums(table, public, kind)[layout.pairs].reshape(ITEMS, layout.columns)
    mapped = block.matrix.toarray()[0] @ public_map(public, layout)
    length = np.abs(mapped).sum() if not layout.l2 else np.linalg.norm(mapped)
    wanted = np.outer(block.matrix.toarray()[0], mapped / length * layout.profile_norm)
    np.testing.assert_allclose(pairs, wanted, atol=1.01 * np.abs(block.values).max())


def test_totals_are_those_of_unit_rows() -> None:
    layout, table = BilinearLayout.of(COUNTS, "gram"), people(50, COUNTS)
    found = sums(table, COUNTS, "gram")
    step = 1 / layout.norm
    unit = np.sqrt(table) / np.sqrt(table.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found[layout.sums] * layout.sums_unit, unit.sum(axis=0), atol=50 * step)
    wanted = unit.T @ unit
    wanted[np.diag_indices(ITEMS)] *= 70 / 99
    np.testing.assert_allclose(found[layout.pairs] * layout.pairs_unit, wanted[np.triu_indices(ITEMS)], atol=100 * step)
    assert found[layout.count] * layout.count_unit == pytest.approx(50)
