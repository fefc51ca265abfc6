"""MovieLens 1M: the published facts, and every layout of a small made-up copy."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.refused import refused
from twofold import Federation, TwofoldError
from twofold.data.catalog import Catalog
from twofold.data.sources import movielens
from twofold.errors import CatalogError, DataError, UnknownItems, UnreadableSource

RATINGS = ["1::10::5::978300760", "1::30::3::978300761", "4::20::1::978300762", "9::10::4::978300763"]
USERS = ["1::F::1::10::48067", "4::M::25::3::02139-1955", "9::M::35::1::48103"]
MOVIES = ["10::Toy Story (1995)::Animation|Comedy", "20::Misérables, Les (1995)::Drama", "30::Face/Off::Action"]
DAT = {"ratings": RATINGS, "users": USERS, "movies": MOVIES}
HEADERS = {
    "ratings": "user,item,rating,timestamp",
    "users": "user,gender,age,occupation,zip",
    "movies": "item,title,genres",
}


def _write_dat(folder: Path, **changed: list[str]) -> Path:
    for name, lines in (DAT | changed).items():
        (folder / f"{name}.dat").write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    return folder


def _write_csv(folder: Path, **changed: list[str]) -> Path:
    for name, lines in (DAT | changed).items():
        rows = [",".join(f'"{field}"' for field in line.split("::")) for line in lines]
        text = "\n".join([HEADERS[name], *rows]) + "\n"
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


def _write_zip(folder: Path) -> Path:
    inside = folder / "inside"
    inside.mkdir()
    _write_dat(inside)
    with zipfile.ZipFile(folder / "ml-1m.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in DAT:
            archive.write(inside / f"{name}.dat", f"ml-1m/{name}.dat")
    return folder


def _contents(federation: Federation) -> dict[str, dict[int, dict[int, float]]]:
    return {name: {user: part.of(user) for user in part.user_ids} for name, part in federation.items()}


EXPECTED = {"0": {4: {20: 1.0}}, "4": {1: {10: 5.0, 30: 3.0}, 9: {10: 4.0}}}


def test_the_published_facts(data_folder: Path) -> None:
    federation = movielens.load(data_folder / "movielens-1m")
    assert repr(federation) == (
        "Federation(10 entities of 306 to 1,468 users, 6,040 users, 3,706 of 3,883 items rated, "
        "1,000,209 entries, ratings)"
    )
    assert list(federation) == list("0123456789")
    values = np.concatenate([part.matrix.data for part in federation.values()])
    assert np.bincount(values.astype(int)).tolist() == [0, 56_174, 107_557, 261_197, 348_971, 226_310]


def test_three_digits_refine_one(data_folder: Path) -> None:
    coarse, fine = (movielens.load(data_folder / "movielens-1m", entity=kind) for kind in ("zip1", "zip3"))
    assert fine.n_entries == coarse.n_entries
    for digit, part in coarse.items():
        inside = [one for name, one in fine.items() if name.startswith(digit)]
        assert sum(one.n_users for one in inside) == part.n_users
    assert {len(name) for name in fine} == {3}


def test_the_variable_leads_to_the_folder(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(data_folder))
    assert movielens.load().n_users == 6_040


@pytest.mark.parametrize("write", [_write_dat, _write_csv, _write_zip])
def test_every_layout_reads_the_same(write: Callable[..., Path], tmp_path: Path) -> None:
    federation = movielens.load(write(tmp_path))
    assert _contents(federation) == EXPECTED
    assert federation.feedback == "ratings"
    assert list(federation.catalog.items) == [10, 20, 30]
    assert federation.catalog.features is not None
    assert federation.catalog.features.rows()[1] == ("Misérables, Les (1995)", "Drama")


def test_the_zip_file_itself_will_do(tmp_path: Path) -> None:
    assert _contents(movielens.load(_write_zip(tmp_path) / "ml-1m.zip")) == EXPECTED


def test_windows_line_ends_and_a_title_with_the_separator(tmp_path: Path) -> None:
    _write_dat(tmp_path)
    (tmp_path / "users.dat").write_bytes("\r\n".join(USERS).encode())
    (tmp_path / "movies.dat").write_bytes("\r\n".join([*MOVIES, "40::A::B (1990)::Drama"]).encode("latin-1"))
    features = movielens.load(tmp_path).catalog.features
    assert features is not None
    assert features.rows()[3] == ("A::B (1990)", "Drama")


def test_all_zip_codes_without_a_leading_zero_stay_text(tmp_path: Path) -> None:
    users = [line.replace("02139-1955", "12139") for line in USERS]
    assert list(movielens.load(_write_csv(tmp_path, users=users), entity="zip3")) == ["121", "480", "481"]


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"users": USERS[:2]}, UnreadableSource),
        ({"users": [*USERS, USERS[0]]}, UnreadableSource),
        ({"users": [*USERS[:2], "9::M::35::1::X8103"]}, UnreadableSource),
        ({"users": [*USERS[:2], "9::M::35::1::"]}, UnreadableSource),
        ({"movies": MOVIES[:2]}, UnknownItems),
        ({"ratings": [*RATINGS, "9::20::6::978300763"]}, DataError),
        ({"ratings": [*RATINGS, RATINGS[0]]}, DataError),
    ],
    ids=["user missing", "user twice", "letter in ZIP", "no ZIP", "movie missing", "six stars", "rated twice"],
)
@pytest.mark.parametrize("write", [_write_dat, _write_csv])
def test_tables_that_contradict_each_other(
    write: Callable[..., Path], changed: dict[str, list[str]], kind: type[TwofoldError], tmp_path: Path
) -> None:
    with pytest.raises(kind):
        movielens.load(write(tmp_path, **changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"ratings": [*RATINGS, "9::20"]},
        {"ratings": [*RATINGS, "9::20::3"]},
        {"ratings": [*RATINGS, "nine::20::3::978300763"]},
        {"ratings": []},
        {"users": ["1::F::1"]},
        {"movies": ["ten::Toy Story::Comedy"]},
        {"movies": []},
    ],
    ids=["cut rating", "cut time", "text id", "no ratings", "cut user", "text movie", "no movies"],
)
def test_damaged_dat_files(changed: dict[str, list[str]], tmp_path: Path) -> None:
    with refused(UnreadableSource, f"{next(iter(changed))}.dat") as caught:
        movielens.load(_write_dat(tmp_path, **changed))
    assert "978300763" not in str(caught.value)


def test_a_member_that_is_not_there(tmp_path: Path) -> None:
    _write_dat(tmp_path)
    (tmp_path / "users.dat").unlink()
    with refused(UnreadableSource, "users.dat", found="no such member"):
        movielens.load(tmp_path)


def test_a_zip_without_the_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    with refused(UnreadableSource, "users.dat", found="no such member"):
        movielens.load(tmp_path)


def test_unknown_entity(tmp_path: Path) -> None:
    with refused(DataError, "entity", expected="zip1"):
        movielens.load(_write_dat(tmp_path), entity="state")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ml-1m.zip", "ratings.dat", "users.dat", "movies.dat"])
def test_flipped_bytes_give_data_or_our_error(name: str, tmp_path: Path) -> None:
    folder = _write_zip(tmp_path) if name.endswith("zip") else _write_dat(tmp_path)
    healthy, rng, refused = (folder / name).read_bytes(), np.random.default_rng(5), 0
    for _ in range(150):
        data = bytearray(healthy)
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
        (folder / name).write_bytes(data[: int(rng.integers(1, len(data) + 1))] if rng.random() < 0.3 else data)
        try:
            assert isinstance(movielens.load(folder), Federation)
        except TwofoldError:
            refused += 1
    assert refused > 20


def test_genres_and_decades_are_public_features(tmp_path: Path) -> None:
    catalog = next(iter(movielens.load(_write_dat(tmp_path)).values())).catalog
    genres = movielens.features(catalog, decades=False)
    assert genres.names == ("Action", "Animation", "Comedy", "Drama")
    assert genres.matrix.tolist() == [[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    both = movielens.features(catalog)
    assert both.names == (*genres.names, "from 1990")
    assert both.matrix[:, 4].tolist() == [1, 1, 0]  # the third title has no year


def test_a_catalog_without_genres_has_no_features() -> None:
    with refused(CatalogError, "catalog"):
        movielens.features(Catalog([1, 2]))


def test_the_published_movies_are_all_described(data_folder: Path) -> None:
    catalog = next(iter(movielens.load(data_folder / "movielens-1m").values())).catalog
    found = movielens.features(catalog)
    assert found.described == found.n_items == 3_883
    assert movielens.features(catalog, decades=False).n_features == 18
