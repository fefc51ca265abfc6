"""Jester: the published facts, the cut into entities, and damaged tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.data import jester
from tests.refused import refused
from twofold.errors import BadValue, DataError, EmptyTable, MissingColumn, TwofoldError, UnreadableSource

HEADER = ",".join(["n_ratings", *jester.JOKES])


def _line(values: dict[int, float | str], stated: int | None = None) -> str:
    cells = [str(values.get(number, 99)) for number in range(1, 101)]
    return ",".join([str(len(values) if stated is None else stated), *cells])


def _write(folder: Path, *lines: str, header: str = HEADER) -> Path:
    (folder / "ratings_wide.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def test_the_published_facts(data_folder: Path) -> None:
    federation = jester.load(data_folder / "jester-1", rng=0)
    assert repr(federation) == (
        "Federation(50 entities of 499 to 500 users, 24,983 users, 100 of 100 items rated, 1,810,455 entries, ratings)"
    )
    values = np.concatenate([part.matrix.data for part in federation.values()])
    assert -10 <= values.min() < -9.9
    assert 9 < values.max() <= 10
    assert (values == 0).any(), "ratings of zero are ratings"


def test_the_cut_is_a_seeded_partition(data_folder: Path) -> None:
    folder = data_folder / "jester-1"
    one, same, other = (jester.load(folder, n_entities=7, rng=seed) for seed in (1, 1, 2))
    assert [part.digest() for part in one.values()] == [part.digest() for part in same.values()]
    assert [part.digest() for part in one.values()] != [part.digest() for part in other.values()]
    users = sorted(user for part in one.values() for user in part.user_ids)
    assert users == list(range(1, 24_984))
    assert one.sizes.max() - one.sizes.min() <= 1


def test_a_zero_is_kept_and_99_is_absent(tmp_path: Path) -> None:
    federation = jester.load(_write(tmp_path, _line({1: 0, 3: -9.5})), n_entities=1, rng=0)
    assert federation[0].of(1) == {"joke1": 0.0, "joke3": -9.5}


@given(
    st.lists(
        st.dictionaries(st.integers(1, 100), st.integers(-40, 40).map(lambda quarter: quarter / 4), max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, users: list[dict[int, float]]) -> None:
    folder = _write(tmp_path_factory.mktemp("jester"), *map(_line, users))
    pooled = jester.load(folder, n_entities=len(users), rng=0).pooled()
    for number, rated in enumerate(users, start=1):
        assert pooled.of(number) == {f"joke{joke}": value for joke, value in rated.items()}


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([_line({1: 10.5})], BadValue),
        ([_line({1: "good"})], BadValue),
        ([_line({1: "nan"})], BadValue),
        ([_line({1: "inf"})], BadValue),
        ([_line({1: ""})], BadValue),
        ([_line({1: 5.0}, stated=2)], UnreadableSource),
        ([], EmptyTable),
    ],
    ids=["too funny", "text", "NaN", "infinity", "empty cell", "wrong number of ratings", "no rows"],
)
def test_damaged_tables(lines: list[str], kind: type[TwofoldError], tmp_path: Path) -> None:
    with pytest.raises(kind):
        jester.load(_write(tmp_path, *lines), n_entities=1, rng=0)


def test_a_column_missing(tmp_path: Path) -> None:
    with refused(MissingColumn, "joke100"):
        jester.load(_write(tmp_path, "0" + ",99" * 99, header=HEADER.removesuffix(",joke100")), n_entities=1)


@pytest.mark.parametrize("n_entities", [0, -1, 3, 1.5])
def test_impossible_numbers_of_entities(n_entities: float, tmp_path: Path) -> None:
    with refused(DataError, None, found=f"n_entities={n_entities}"):
        jester.load(_write(tmp_path, _line({1: 1}), _line({2: 2})), n_entities=n_entities)  # type: ignore[arg-type]
