"""Sparse rows made from parts of others say the same as dense ones, and never change what they were made from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from twofold.csr import csr_rows, keep_entries, row_range, summed, with_data

DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 4.0]])


def repeated() -> sparse.csr_array:
    return csr_rows(np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3]), (1, 2))


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (1, 2), (1, 3), (2, 9)])
def test_neighbouring_rows_are_a_view_of_the_slice(start, stop):
    rows = sparse.csr_array(DENSE)
    found = row_range(rows, start, stop)
    np.testing.assert_array_equal(found.toarray(), DENSE[start:stop])
    assert found.nnz == 0 or np.shares_memory(found.data, rows.data)


@pytest.mark.parametrize("data", [None, np.array([5.0, 6.0, 7.0, 8.0])])
def test_kept_entries_are_those_of_the_mask(data):
    rows, chosen = sparse.csr_array(DENSE), np.array([False, True, True, False])
    values = rows.data if data is None else data
    expected = with_data(rows, np.where(chosen, values, 0.0)).toarray()
    found = keep_entries(rows, chosen, data)
    np.testing.assert_array_equal(found.toarray(), expected)
    assert (found.nnz, found.has_canonical_format) == (2, True)
    np.testing.assert_array_equal(keep_entries(rows, np.ones(4, bool), data).data, values)


def test_other_values_do_not_make_repeated_cells_canonical():
    assert not with_data(repeated(), np.ones(3)).has_canonical_format
    assert with_data(sparse.csr_array(DENSE), np.ones(4)).has_canonical_format


def test_repeated_cells_are_summed_in_a_copy():
    given = repeated()
    np.testing.assert_array_equal(summed(given).toarray(), [[2.0, 5.0]])
    assert given.nnz == 3
    sound = sparse.csr_array(DENSE)
    assert summed(sound) is sound
