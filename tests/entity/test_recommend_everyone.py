"""Lists for everyone: the same as one by one, in blocks, into a frame or one whole Parquet file."""

from __future__ import annotations

import datetime
import resource
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.entity.export import row_block, write_parquet
from twofold.entity.model import Model
from twofold.entity.models.factors import FactorScorer
from twofold.errors import BadParameter, TransportError, UnknownUser
from twofold.progress import heard

MakeModel = Callable[..., Model]


def one_by_one(model: Model, n: int, **options: object) -> dict:
    return {user: model.recommend(user, n, **options) for user in model.history.user_ids}  # type: ignore[arg-type]


def check(frame: pl.DataFrame, expected: dict) -> None:
    """Compare with the lists of `recommend`, up to rounding: items whose scores are equal but for it may swap places.

    One row and many are multiplied by different routines of a BLAS, which need not round alike on every processor.
    """
    assert frame.columns == ["user", "rank", "item", "score"]
    places = [(user, rank) for user, found in expected.items() for rank in range(1, len(found) + 1)]
    assert frame.select("user", "rank").rows() == places
    scores = [one.score for found in expected.values() for one in found]
    assert frame["score"].to_list() == pytest.approx(scores, rel=1e-4, abs=1e-5)
    assert not frame.select("user", "item").is_duplicated().any()
    own = {(user, one.item): one.score for user, found in expected.items() for one in found}
    for user, item, score in frame.select("user", "item", "score").rows():
        # One that is missing there has the score of the last place, or it would not have passed above.
        last = expected[user][-1].score
        assert score == pytest.approx(own.get((user, item), last), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("n", [3, 60])
def test_everyone_gets_the_lists_of_one_by_one(kind: str, feedback: str, n: int, make_model: MakeModel) -> None:
    model = make_model(kind, feedback=feedback)
    check(model.recommend_all(n=n), one_by_one(model, n))


def test_filters_and_seen_items_work_as_for_one(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    allowed = [f"item-{at}" for at in range(0, 30, 3)]
    check(model.recommend_all(n=4, items=allowed), one_by_one(model, 4, items=allowed))
    check(model.recommend_all(n=4, exclude_seen=False), one_by_one(model, 4, exclude_seen=False))
    assert model.recommend_all(items=[]).height == 0


def test_people_without_history_get_popular_items_in_a_block_too(make_model: MakeModel) -> None:
    model = make_model(scorer=FactorScorer(np.random.default_rng(0).random((30, 4)), feedback="counts"))
    check(model.recommend_all(n=5), one_by_one(model, 5))


def test_threads_change_nothing(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    assert model.recommend_all(n=3, threads=2).equals(model.recommend_all(n=3, threads=1))


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_change_nothing_but_rounding(kind: str, block: int, make_model: MakeModel) -> None:
    model = make_model(kind)
    check(model.recommend_all(n=3, block=block), one_by_one(model, 3))


def test_some_users_in_their_order_need_no_fit_of_all(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    chosen = ["user-30", "user-2", "user-7"]
    check(model.recommend_all(users=chosen, n=4), {user: model.recommend(user, 4) for user in chosen})
    assert "user_factors" not in model.__dict__
    assert model.recommend_all(users=[]).height == 0


def test_a_file_holds_the_same_as_the_frame_and_is_the_owners(kind: str, make_model: MakeModel, tmp_path: Path) -> None:
    model, path = make_model(kind), tmp_path / "lists.parquet"
    path.write_text("an older file")
    assert model.recommend_all(path, 4, block=6) is None
    assert pl.read_parquet(path).equals(model.recommend_all(n=4, block=6))
    assert path.stat().st_mode & 0o077 == 0
    assert [one.name for one in tmp_path.iterdir()] == ["lists.parquet"]


def test_progress_is_told(make_model: MakeModel) -> None:
    told: list[tuple[int, int]] = []
    with heard(lambda _, done, total: told.append((done, total))):
        make_model().recommend_all(block=15)
    assert told == [(15, 40), (30, 40), (40, 40)]


def test_a_failure_on_the_way_leaves_the_old_file(make_model: MakeModel, tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    path.write_text("an older file")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    model = make_model()
    for _ in range(20):  # threads that still write when the failure arrives are not there every time
        with pytest.raises(KeyboardInterrupt), heard(stop):
            model.recommend_all(path, block=10)
    assert path.read_text() == "an older file"
    assert [one.name for one in tmp_path.iterdir()] == ["lists.parquet"]


def test_a_full_disk_is_our_error_and_leaves_nothing(tmp_path: Path) -> None:
    frames = (pl.DataFrame({"a": np.random.default_rng(at).random(50_000)}) for at in range(4))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # the system refuses to let any file grow further
    try:
        with pytest.raises(TransportError):
            write_parquet(frames, {"a": pl.Float64}, tmp_path / "lists.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_bad_targets_and_users_are_refused(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    with refused(BadParameter, "path"):
        model.recommend_all(tmp_path / "lists.csv")
    with pytest.raises(TransportError):
        model.recommend_all(tmp_path / "no-folder" / "lists.parquet")
    with pytest.raises(UnknownUser) as caught:
        model.recommend_all(users=["user-1", "mr-secret"])
    assert "secret" not in str(caught.value)
    with pytest.raises(BadParameter):
        model.recommend_all(users="user-1")
    with pytest.raises(BadParameter):
        model.recommend_all(block=0)


@pytest.mark.parametrize(
    ("users", "dtype"),
    [
        (pl.Series(range(40), dtype=pl.UInt16), pl.UInt16),
        (pl.Series([datetime.date(2020, 1, 1) + datetime.timedelta(at) for at in range(40)]), pl.Date),
        (pl.Series([f"u{at}" for at in range(40)], dtype=pl.Categorical), pl.Categorical),
        ([uuid.UUID(int=at) for at in range(40)], pl.String),
    ],
)
def test_ids_keep_their_type_in_the_table(users: object, dtype: object, make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model(users=users, catalog=Catalog(range(100, 130)))
    frame = model.recommend_all(n=2)
    assert frame["user"].dtype == dtype
    assert frame["item"].dtype == pl.Int64
    assert frame["user"][0] == (users[0] if isinstance(users, pl.Series) else str(users[0]))  # type: ignore[index]
    model.recommend_all(tmp_path / "lists.parquet", 2)
    back = pl.read_parquet(tmp_path / "lists.parquet")
    assert back["user"].cast(pl.String).to_list() == frame["user"].cast(pl.String).to_list()


@given(st.lists(st.integers(0, 5), max_size=8))
def test_a_block_of_rows_is_those_rows(users: list[int]) -> None:
    rows = sparse.csr_array(np.arange(12.0).reshape(6, 2))
    found = row_block(rows, np.array(users, dtype=np.int64))
    assert found.shape == (len(users), 2)
    assert found.toarray().tolist() == rows.toarray()[users].tolist()


def test_the_fallback_hides_seen_items_of_silent_users() -> None:
    from twofold.entity.export import Everyone

    rows = sparse.csr_array(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    everyone = Everyone(
        scorer=FactorScorer(np.array([[1.0], [0.0], [1.0]]), feedback="ratings"),
        rows=rows,
        cold_start=np.array([0.1, 0.9, 0.5], np.float32),
        user_ids=Identifiers(["a", "b"]),
        item_ids=Identifiers(["x", "y", "z"]),
    )
    found = everyone.top(3, np.arange(2), exclude_seen=True, allowed=None)
    assert found.items.tolist() == [[2, 0, -1], [1, 2, 0]]
