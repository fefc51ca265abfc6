"""Round 2 out of core: the model of memory for few people, sums over all for many, lists block by block."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twofold as tw
from twofold.entity.own import own_people
from twofold.entity.personalize import fitted_model
from twofold.errors import BadParameter, PlanMismatch

pytest.importorskip("duckdb", reason="a scan needs DuckDB: pip install 'twofold[duckdb]'")

CATALOG = tw.Catalog(list(range(40)))


def table(users: int = 200, seed: int = 0, *, text: bool = False) -> pl.DataFrame:
    """Two kinds of people, each with a half of the catalog and some of the other."""
    rng = np.random.default_rng(seed)
    likes = np.where(np.arange(40) < 20, 3.0, 0.4)
    rows = []
    for user in range(users):
        weight = likes if user % 2 else likes[::-1]
        for item in rng.choice(40, 8, replace=False, p=weight / weight.sum()):
            rows.append((f"p{user}" if text else user, int(item), int(rng.integers(1, 9))))
    return pl.DataFrame(rows, schema=["user", "item", "value"], orient="row")


def stored(folder: Path, frame: pl.DataFrame) -> Path:
    folder.mkdir()
    for at in range(3):
        frame.gather_every(3, at).write_parquet(folder / f"{at}.parquet")
    return folder


def plan(**more: Any) -> tw.Plan:
    numbers: dict[str, Any] = {"bound": 5, "max_items": 10, "n_users": 400, "epsilon": 8, "delta": 1e-6}
    return tw.Plan(catalog=CATALOG, feedback="counts", mechanism="gram", simulation=True, rank=5, **{**numbers, **more})


def arrays(model: tw.Model) -> dict[str, bytes]:
    return {name: np.asarray(part).tobytes() for name, part in model.scorer.arrays().items()}


@pytest.mark.parametrize("text", [False, True])
def test_few_people_get_the_model_of_memory(tmp_path: Path, text: bool) -> None:
    frame, agreed = table(text=text), plan()
    held = tw.Entity("x", tw.read_ratings(frame, CATALOG), agreed, rng=1)
    found = tw.Entity("x", tw.scan(stored(tmp_path / "a", frame), CATALOG, batch_rows=100), agreed, rng=1)
    factors = tw.Server(agreed).factorize([held.release()])
    one, other = held.personalize(factors), found.personalize(factors)
    assert arrays(one) == arrays(other)
    assert (one.note, one.strength) == (other.note, other.strength)
    assert other.history.n_users == 0
    other.save(tmp_path / "x.model")
    assert arrays(tw.Model.load(tmp_path / "x.model")) == arrays(one)


@pytest.mark.parametrize("shared", [False, True])
def test_sums_over_all_do_not_depend_on_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """With a small sample, the model is the same for any batches, and near that of memory."""
    frame, agreed = table(), plan()
    held = tw.Entity("x", tw.read_ratings(frame, CATALOG), agreed, rng=1)
    factors = tw.Server(agreed).factorize([held.release()]) if shared else None
    monkeypatch.setattr("twofold.entity.personalize.own_people", lambda one, two: own_people(one, two, sample=120))
    folder = stored(tmp_path / "a", frame)
    made = [fitted_model("x", tw.scan(folder, CATALOG, batch_rows=size), agreed, factors) for size in (97, 1 << 20)]
    assert len({str(arrays(model)) for model in made}) == 1
    assert "200 people" in made[0].note
    whole = held.personalize(factors)
    person = {3: 2, 5: 1}
    ours, theirs = ({one.item for one in model.recommend(person)} for model in (made[0], whole))
    assert len(ours & theirs) >= 7


def test_the_sample_is_chosen_by_ids_alone(tmp_path: Path) -> None:
    frame, agreed = table(text=True), plan()
    one = own_people(tw.scan(stored(tmp_path / "a", frame), CATALOG, batch_rows=50), agreed, sample=60)
    other = own_people(tw.scan(stored(tmp_path / "b", frame.reverse()), CATALOG), agreed, sample=60)
    assert one.sample.digest() == other.sample.digest()
    assert one.sample.n_users == 60
    assert one.rest is not None
    assert one.rest.users == 140
    again = own_people(tw.scan(tmp_path / "a", CATALOG), plan(seed=5), sample=60)
    assert again.sample.digest() != one.sample.digest()


def test_the_rest_is_everybody_but_the_sample(tmp_path: Path) -> None:
    from twofold.entity.models.side import Side

    frame, agreed = table(), plan()
    held = tw.Bounds(bound=5).apply(tw.read_ratings(frame, CATALOG))[0]
    own = own_people(tw.scan(stored(tmp_path / "a", frame), CATALOG), agreed, sample=60)
    assert own.rest is not None
    side, whole = Side(own.sample.matrix, own.rest), Side(held.matrix)
    assert side.users == whole.users
    assert np.abs(side.use - whole.use).max() < 1e-3
    assert np.abs(side.unit_gram - whole.unit_gram).max() < 1e-3
    assert np.abs(side.damped_gram - whole.damped_gram).max() < 1e-2
    assert abs(side.mean_square - whole.mean_square) < 1e-4


def test_ratings_are_fitted_to_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table(120).with_columns(value=pl.col("value").clip(1, 5))
    agreed = tw.Plan(
        catalog=CATALOG, feedback="ratings", lower=1, bound=5, centre=3, max_items=10, n_users=120, delta=1e-6,
        mechanism="gram", simulation=True, rank=3,
    )  # fmt: skip
    monkeypatch.setattr("twofold.entity.personalize.own_people", lambda one, two: own_people(one, two, sample=80))
    found = tw.scan(stored(tmp_path / "a", frame), CATALOG, feedback="ratings")
    made = fitted_model("x", found, agreed, None)
    assert "80 of 120 people" in made.note


def test_lists_of_a_scan_are_those_of_memory(tmp_path: Path) -> None:
    frame, agreed = table(), plan()
    held = tw.read_ratings(frame, CATALOG)
    model = tw.Entity("x", held, agreed, rng=1).personalize(None)
    found = tw.scan(stored(tmp_path / "a", frame), CATALOG, batch_rows=70)
    due = model.recommend_all(block=64)
    assert model.recommend_all(histories=found, block=64).equals(due)
    assert model.recommend_all(histories=held, block=64).equals(due)
    model.recommend_all(tmp_path / "lists.parquet", histories=found, block=64)
    assert pl.read_parquet(tmp_path / "lists.parquet").equals(due)
    known = found.of(7)
    assert [one.item for one in model.recommend(known)] == [one.item for one in model.recommend(7)]


def test_lists_of_nobody(tmp_path: Path) -> None:
    model = tw.Entity("x", tw.read_ratings(table(), CATALOG), plan(), rng=1).personalize(None)
    nobody = tw.scan(stored(tmp_path / "a", table().clear()), CATALOG)
    assert model.recommend_all(histories=nobody).is_empty()


def test_histories_that_do_not_fit(tmp_path: Path) -> None:
    model = tw.Entity("x", tw.read_ratings(table(), CATALOG), plan(), rng=1).personalize(None)
    found = tw.scan(stored(tmp_path / "a", table()), CATALOG)
    with pytest.raises(BadParameter):
        model.recommend_all(histories=found, users=[1])
    with pytest.raises(BadParameter):
        model.recommend_all(histories="visits.parquet")  # type: ignore[call-overload]
    other = tw.scan(tmp_path / "a", tw.Catalog(list(range(41))))
    with pytest.raises(PlanMismatch):
        model.recommend_all(histories=other)


def test_a_pass_that_fails_leaves_no_half_written_lists(tmp_path: Path) -> None:
    model = tw.Entity("x", tw.read_ratings(table(), CATALOG), plan(), rng=1).personalize(None)
    folder = stored(tmp_path / "a", table())
    found = tw.scan(folder, CATALOG, batch_rows=50)
    damaged = (folder / "1.parquet").read_bytes()
    (folder / "1.parquet").write_bytes(damaged[: len(damaged) // 2])
    with pytest.raises(tw.TwofoldError):
        model.recommend_all(tmp_path / "lists.parquet", histories=found)
    assert not list(tmp_path.glob("*lists*"))
    assert not list(tmp_path.glob(".*lists*"))
