"""MEDS: shards, codes, windows, people; and every kind of damage."""

from __future__ import annotations

import json
import os
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.data.formats.meds import SubjectWarning, batches, meds_catalog, read_meds
from twofold.errors import BadIdentifier, CatalogError, DataError, EmptyTable, MissingColumn, UnreadableSource

LABS = Catalog(["LAB//1", "LAB//2", "LAB//2//mg/dL"])
SECRET = "HIV//positive"
PATIENT = 190419041


def shard(path: Path, rows: list[tuple[int, datetime | None, str]], **changes: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(
        rows, schema={"subject_id": pl.Int64, "time": pl.Datetime("us"), "code": pl.String}, orient="row"
    )
    frame.with_columns(**changes).write_parquet(path)


def named(root: Path, name: str = "St Anna") -> Path:
    (root / "metadata").mkdir(parents=True, exist_ok=True)
    (root / "metadata" / "dataset.json").write_text(json.dumps({"dataset_name": name}))
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two shards; the first person's events are in both, against the standard."""
    day = [datetime(2025, 1, 1), datetime(2025, 6, 1, 23, 59), datetime(2026, 1, 1)]
    shard(
        tmp_path / "data" / "train" / "0.parquet",
        [(7, day[0], "LAB//1//mmol/L"), (7, day[1], "LAB//1"), (7, None, SECRET)],
    )
    shard(
        tmp_path / "data" / "held_out" / "0.parquet",
        [(8, day[1], "LAB//2//mg/dL"), (8, day[2], "LAB//2//g"), (7, day[2], "LAB//1"), (9, day[0], SECRET)],
    )
    return named(tmp_path)


def test_a_person_split_over_shards_is_one_person(root: Path) -> None:
    ratings = read_meds(root, LABS)
    assert list(ratings.user_ids) == [7, 8, 9]
    assert ratings.of(7) == {"LAB//1": 3.0}


def test_an_item_stands_for_the_codes_below_it_that_are_no_items(root: Path) -> None:
    assert read_meds(root, LABS).of(8) == {"LAB//2": 1.0, "LAB//2//mg/dL": 1.0}
    whole = read_meds(root, Catalog(["LAB"]))
    assert (whole.of(7), whole.of(8)) == ({"LAB": 3.0}, {"LAB": 2.0})


def codes_file(root: Path, **columns: list[Any]) -> None:
    pl.DataFrame(columns).write_parquet(root / "metadata" / "codes.parquet")


def test_an_item_stands_for_codes_whose_parents_name_it(root: Path) -> None:
    """Hospitals with codes of their own share a list of a public vocabulary."""
    above = [["LOINC/2524-7", None], ["LOINC/2524-7"], ["LOINC/2951-2", "SNOMED/1"], None]
    codes_file(root, code=["LAB//1", "LAB//1//mmol/L", "LAB//2//g", "LAB//2//mg/dL"], parent_codes=above)
    catalog = Catalog(["LAB//2", "LOINC/2524-7", "SNOMED", "LOINC/2951-2"])
    ratings = read_meds(root, catalog)
    assert ratings.of(7) == {"LOINC/2524-7": 3.0}
    assert ratings.of(8) == {"LAB//2": 2.0}  # the own code comes before those above it
    both = read_meds(root, Catalog(["SNOMED", "LOINC/2951-2"]))
    assert both.of(8) == {"SNOMED": 1.0, "LOINC/2951-2": 1.0}
    assert read_meds(root / "data" / "train", catalog).of(7) == {"LOINC/2524-7": 2.0}


def test_a_list_of_codes_without_parents_changes_nothing(root: Path) -> None:
    before = read_meds(root, LABS).digest()
    codes_file(root, code=["LAB//1"], parent_codes=["LAB//2"])
    assert read_meds(root, LABS).digest() == before
    codes_file(root, code=["LAB//1"])
    assert read_meds(root, LABS).digest() == before


def test_a_damaged_list_of_codes_is_refused(root: Path) -> None:
    (root / "metadata" / "codes.parquet").write_bytes(b"PAR1half")
    with refused(UnreadableSource, "source", "codes.parquet"):
        read_meds(root, LABS)


def test_other_events_are_counted_in_the_notes(root: Path) -> None:
    notes = read_meds(root, LABS).notes
    assert (notes.rows, notes.unknown_items_dropped) == (7, 2)


def test_prefixes_choose_codes_and_people(root: Path) -> None:
    ratings = read_meds(root, LABS, codes=["LAB//1", "LAB//3"])
    assert list(ratings.user_ids) == [7]
    assert ratings.notes.rows == 3


def test_a_window_has_its_first_day_and_not_its_last(root: Path) -> None:
    ratings = read_meds(root, LABS, since="2025-06-01", before="2026-01-01")
    assert (ratings.of(7), ratings.of(8)) == ({"LAB//1": 1.0}, {"LAB//2//mg/dL": 1.0})
    assert ratings.notes.rows == 2  # static events have no time


def test_days_far_outside_are_outside_and_refuse_nothing(tmp_path: Path) -> None:
    shard(named(tmp_path) / "0.parquet", [(7, datetime(9999, 12, 31), "LAB//1"), (7, datetime(1, 1, 1), "LAB//1")])
    assert read_meds(tmp_path, LABS).of(7) == {"LAB//1": 2.0}
    assert read_meds(tmp_path, LABS, since="2025-01-01", before="2026-01-01").n_users == 0


def test_root_data_and_one_split_can_be_named(root: Path) -> None:
    assert read_meds(root / "data", LABS).digest() == read_meds(root, LABS).digest()
    assert list(read_meds(root / "data" / "train", LABS).user_ids) == [7]


def test_the_order_of_rows_and_shards_does_not_matter(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = named(tmp_path_factory.mktemp("other"))
    every = pl.concat([pl.read_parquet(path) for path in sorted(root.rglob("data/*/*.parquet"))])
    every.reverse().write_parquet(other / "z.parquet")
    assert read_meds(other, LABS).digest() == read_meds(root, LABS).digest()


def test_batches_come_shard_by_shard(root: Path) -> None:
    found = list(batches(root, LABS))
    assert [batch.columns for batch in found] == [["person", "item", "events"]] * 2
    assert sum(int(batch["events"].sum()) for batch in found) == 7


def test_codes_kept_as_categories_and_narrow_ids_are_read(tmp_path: Path) -> None:
    shard(
        named(tmp_path) / "0.parquet",
        [(7, None, "LAB//1")],
        code=pl.lit("LAB//1").cast(pl.Categorical),
        subject_id=pl.lit(7, pl.UInt32),
    )
    assert read_meds(tmp_path, LABS, codes=["LAB"]).of(7) == {"LAB//1": 1.0}


@pytest.mark.parametrize("size", [3, 20, 400, -1, -20])
def test_a_shard_that_is_cut_off_is_refused(root: Path, size: int) -> None:
    path = root / "data" / "train" / "0.parquet"
    path.write_bytes(path.read_bytes()[:size])
    with refused(UnreadableSource) as caught:
        read_meds(root, LABS)
    assert "0.parquet" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_shard_with_a_damaged_page_is_refused(root: Path) -> None:
    path = root / "data" / "train" / "0.parquet"
    content = bytearray(path.read_bytes())
    content[4:80] = bytes(76)
    path.write_bytes(bytes(content))
    with refused(UnreadableSource, None, "train/0.parquet"):
        read_meds(root, LABS)


def test_a_shard_without_rows_is_read_and_one_without_bytes_is_not(root: Path) -> None:
    shard(root / "data" / "train" / "1.parquet", [])
    assert list(read_meds(root, LABS).user_ids) == [7, 8, 9]
    (root / "data" / "train" / "2.parquet").write_bytes(b"")
    with refused(EmptyTable):
        read_meds(root, LABS)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("code", pl.lit(4711)),
        ("code", pl.lit([SECRET])),
        ("subject_id", pl.lit(str(PATIENT))),
        ("subject_id", pl.lit(float(PATIENT))),
    ],
)
def test_a_column_of_another_type_is_refused(tmp_path: Path, column: str, change: pl.Expr) -> None:
    shard(named(tmp_path) / "0.parquet", [(PATIENT, None, SECRET)], **{column: change})
    with refused(BadIdentifier, column, "0.parquet") as caught:
        read_meds(tmp_path, LABS)
    assert not [one for one in (SECRET, str(PATIENT)) if one in str(caught.value)]


def test_times_that_are_text_are_refused_only_where_they_are_needed(tmp_path: Path) -> None:
    shard(named(tmp_path) / "0.parquet", [(7, None, "LAB//1")], time=pl.lit("2025-01-01"))
    assert read_meds(tmp_path, LABS).n_users == 1
    with refused(BadIdentifier, "time"):
        read_meds(tmp_path, LABS, since="2025-01-01")


def test_a_shard_without_its_columns_is_refused_without_naming_others(tmp_path: Path) -> None:
    pl.DataFrame({SECRET: [1], "code": ["a"]}).write_parquet(named(tmp_path) / "0.parquet")
    with refused(MissingColumn, "subject_id") as caught:
        read_meds(tmp_path, LABS)
    assert SECRET not in str(caught.value)


def test_a_person_without_an_id_is_refused(tmp_path: Path) -> None:
    shard(named(tmp_path) / "0.parquet", [(7, None, "LAB//1")], subject_id=pl.lit(None, pl.Int64))
    with refused(BadIdentifier, "person"):
        read_meds(tmp_path, LABS)


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    (named(tmp_path) / "data").mkdir()
    pl.DataFrame({"code": ["a"]}).write_parquet(tmp_path / "metadata" / "codes.parquet")
    for folder in (tmp_path, tmp_path / "data", tmp_path / "nowhere", tmp_path / "metadata" / "dataset.json"):
        with refused(UnreadableSource, "folder"):
            read_meds(folder, LABS)


def test_metadata_is_no_shard(root: Path) -> None:
    flat = root / "data"
    named(flat)
    pl.DataFrame({"code": ["a"]}).write_parquet(flat / "metadata" / "codes.parquet")
    (flat / ".0.parquet.part").write_bytes(b"half")
    (flat / ".1.parquet").write_bytes(b"half")
    assert read_meds(flat, LABS).n_users == 3


def test_links_in_a_circle_and_two_links_to_a_folder_count_once(root: Path) -> None:
    (root / "data" / "train" / "up").symlink_to(root / "data")
    (root / "data" / "again").symlink_to(root / "data" / "held_out")
    assert read_meds(root, LABS).notes.rows == 7


def test_a_split_one_may_not_list_is_refused_and_not_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("held_out"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with refused(UnreadableSource, "folder", found="Permission denied"):
        read_meds(root, LABS)


def test_one_prefix_may_be_a_text(root: Path) -> None:
    assert list(read_meds(root, LABS, codes="LAB//2").user_ids) == [8]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_shard_one_may_not_read_is_refused(root: Path) -> None:
    (root / "data" / "train" / "0.parquet").chmod(0)
    with refused(UnreadableSource):
        read_meds(root, LABS)


@pytest.mark.parametrize("name", ["eICU", "eicu-crd-demo", ""])
def test_a_data_set_whose_subjects_may_be_admissions_warns(root: Path, name: str) -> None:
    named(root, name)
    with pytest.warns(SubjectWarning, match="person"):
        read_meds(root, LABS)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"dataset_name": 3}', None])
def test_unknown_metadata_warns_and_refuses_nothing(root: Path, content: str | None) -> None:
    path = root / "metadata" / "dataset.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.warns(SubjectWarning):
        assert read_meds(root, LABS).n_users == 3


def test_a_split_finds_the_name_above_it(root: Path) -> None:
    named(root, "eICU")
    with pytest.warns(SubjectWarning, match="name"):
        read_meds(root / "data" / "train", LABS)


def test_bad_days_and_prefixes_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with refused(DataError, "since"):
        read_meds(tmp_path, LABS, since="soon")


def test_a_catalog_has_titles_and_every_code_once_in_order(tmp_path: Path) -> None:
    codes = {"code": ["LAB//2", "LAB//1", "LAB//2", "GENDER//F"], "description": [None, "Lactate", "Sodium", "Woman"]}
    pl.DataFrame(codes).write_parquet(tmp_path / "codes.parquet")
    catalog = meds_catalog(tmp_path / "codes.parquet", codes=["LAB//"], public=True)
    assert catalog.features is not None
    assert dict(zip(catalog.items, catalog.features["title"], strict=True)) == {"LAB//1": "Lactate", "LAB//2": "Sodium"}
    assert list(catalog.items) == ["LAB//1", "LAB//2"]


def test_a_code_without_a_description_is_its_own_title(tmp_path: Path) -> None:
    pl.DataFrame({"code": ["LAB//1"]}).write_csv(tmp_path / "codes.csv")
    catalog = meds_catalog(tmp_path / "codes.csv", public=True)
    assert catalog.features is not None
    assert catalog.features["title"].to_list() == ["LAB//1"]


def test_a_catalog_needs_a_public_list(root: Path) -> None:
    with refused(CatalogError, "public"):
        meds_catalog(root)


def test_a_list_of_codes_that_is_none_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"code": [1]}).write_parquet(tmp_path / "numbers.parquet")
    with refused(BadIdentifier, "code"):
        meds_catalog(tmp_path / "numbers.parquet", public=True)
    pl.DataFrame({"kode": ["a"]}).write_csv(tmp_path / "other.csv")
    with refused(MissingColumn, "code"):
        meds_catalog(tmp_path / "other.csv", public=True)
    pl.DataFrame({"code": ["a"]}).write_csv(tmp_path / "codes.csv")
    with refused(CatalogError, "codes"):
        meds_catalog(tmp_path / "codes.csv", codes=["LAB//"], public=True)
    with refused(UnreadableSource):
        meds_catalog(tmp_path, public=True)


def test_the_mimic_demo_is_read_whole(data_folder: Path) -> None:
    root = data_folder / "mimic-iv-demo-meds"
    if not root.is_dir():
        pytest.skip("mimic-iv-demo-meds is not in TWOFOLD_DATA")
    catalog = meds_catalog(root, codes=["LAB//"], public=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # its subjects are patients
        ratings = read_meds(root, catalog)
    assert (ratings.n_users, ratings.notes.rows, len(catalog)) == (100, 916_166, 470)
    every = pl.concat(
        [pl.read_parquet(path, columns=["subject_id", "code"]) for path in root.rglob("data/*/*.parquet")]
    )
    known = every.filter(pl.col("code").is_in(list(catalog.items)))
    assert ratings.matrix.sum() == known.height == 916_166 - ratings.notes.unknown_items_dropped
    loinc = read_meds(root, Catalog(["LOINC/2160-0"]))  # creatinine, by the codes above MIMIC's own
    creatinine = every.filter(pl.col("code").is_in(["LAB//50912//mg/dL", "LAB//51081//mg/dL"]))
    assert loinc.matrix.sum() == creatinine.height == 3_000
    person = int(known["subject_id"][0])
    counted = known.filter(pl.col("subject_id") == person).group_by("code").len()
    assert ratings.of(person) == dict(zip(counted["code"], counted["len"].cast(pl.Float64), strict=True))
