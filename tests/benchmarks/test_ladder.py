"""The benchmark of the ladder in its small form, and the data and measures it judges by."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from benchmarks import ladder


def test_a_long_catalog_has_a_long_tail_and_tastes() -> None:
    rows = ladder.long_catalog(users=2_000, items=4_000, entries=20_000, clusters=20)
    assert rows.shape == (2_000, 4_000)
    assert abs(rows.nnz - 20_000) < 3_000
    assert set(np.unique(rows.data)) == {1.0}
    counts = np.sort(np.bincount(rows.indices, minlength=4_000))
    assert counts[-40:].mean() > 20 * counts[:2_000].mean()


def test_a_fifth_of_each_user_is_hidden_and_nothing_is_lost() -> None:
    rows = ladder.long_catalog(users=300, items=500, entries=4_000, clusters=5)
    train, test = ladder.held_out(rows)
    assert (train + test != rows).nnz == 0
    assert train.nnz + test.nnz == rows.nnz
    several = np.diff(rows.indptr) > 1
    assert (np.diff(test.indptr)[several] >= 1).all()
    assert (np.diff(train.indptr) >= 1).all()


def test_measures_of_lists_by_hand() -> None:
    test = sparse.csr_array(np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]))
    ndcg, recall = ladder._measures(np.array([[1, 0], [0, 1], [2, 0]]), test)
    second = 1 / np.log2(3)
    assert recall == pytest.approx((0.5 + 1.0) / 2)
    assert ndcg == pytest.approx((1 / (1 + second) + second) / 2)


@pytest.mark.parametrize("peer", [True, False])
def test_the_small_form_gives_three_tables(peer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not peer:
        monkeypatch.setattr(ladder, "installed", lambda _: False)
    tables = list(ladder.run(quick=True))
    assert [len(table.columns) for table in tables] == [3, 4, 6]
    for table in tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert table.markdown()
    if not peer:
        assert ladder.MISSING in tables[1].markdown()
        assert ladder.MISSING in tables[2].markdown()
    recall = {row[0]: row[4] for row in tables[2].rows}
    assert recall["sparse item-item"] > recall["popularity"]
