"""eICU: the demo's facts, the full release's layout, people who move, and damaged tables."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.data.sources.eicu_example import write_example
from tests.refused import refused
from twofold import Catalog, Federation, TwofoldError
from twofold.data.sources import eicu
from twofold.errors import CatalogError, DataError, MissingColumn, MissingDataset, UnreadableSource


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four made-up stays in the layout of the full release."""
    return write_example(tmp_path)


@pytest.fixture(scope="module")
def demo(data_folder: Path) -> Path:
    """The open demo."""
    return data_folder / "eicu-demo-2.0.1"


def _contents(federation: Federation) -> dict[object, dict[object, dict[str, float]]]:
    return {name: {user: part.of(user) for user in part.user_ids} for name, part in federation.items()}


def test_the_published_facts(demo: Path) -> None:
    found = eicu.facts(demo, labs="lab_hourly")
    print(found)
    assert (found.stays, found.people, found.hospitals) == (2_520, 1_841, 186)
    assert (found.fewest_stays, found.most_stays) == (10, 40)
    assert (found.labs, found.stays_with_labs, found.hospitals_with_labs) == (39, 2_161, 185)
    assert found.drug_orders == 72_968  # 75,604 orders, 2,636 of them cancelled
    assert found.people_in_several_hospitals == 19


def test_facts_print_one_line_each(demo: Path) -> None:
    lines = str(eicu.facts(demo, labs="lab_hourly")).splitlines()
    assert lines[0].split() == ["stays", "2520"]
    assert len(lines) == 12


def test_rows_are_people_or_stays(demo: Path) -> None:
    catalog = eicu.demo_catalog(demo)
    people, stays = (eicu.load(demo, catalog=catalog, row=row, labs="lab_hourly") for row in ("person", "stay"))
    assert len(people) == len(stays) == 186
    assert people.n_users == 1_841 + 19  # 19 people are a row in each of two hospitals
    assert stays.n_users == 2_520
    assert (stays.sizes.min(), stays.sizes.max()) == (10, 40)
    for hospital, part in people.items():
        assert part.matrix.sum() == stays[hospital].matrix.sum()
        np.testing.assert_array_equal(part.matrix.sum(axis=0), stays[hospital].matrix.sum(axis=0))


def test_every_row_is_counted_or_noted(demo: Path) -> None:
    federation = eicu.load(demo, catalog=eicu.demo_catalog(demo, min_people=10), labs="lab_hourly")
    notes = [part.notes for part in federation.values()]
    assert sum(note.rows for note in notes) == 134_504 + 72_968
    counted = sum(float(part.matrix.sum()) for part in federation.values())
    assert counted + sum(note.unknown_items_dropped for note in notes) == 134_504 + 72_968


def test_lab_counts_are_the_rows_of_the_table(demo: Path) -> None:
    federation = eicu.load(demo, catalog=Catalog(["lab:lactate", "lab:potassium"]), row="stay", labs="lab_hourly")
    table = pl.read_csv(demo / "lab_hourly.csv.gz").filter(pl.col("lab") == "lact")
    expected = dict(table.group_by("patientunitstayid").len().iter_rows())
    found = {user: part.of(user).get("lab:lactate") for part in federation.values() for user in part.user_ids}
    assert {user: count for user, count in found.items() if count} == expected


def test_regions(demo: Path) -> None:
    federation = eicu.load(demo, catalog=eicu.demo_catalog(demo), entity="region", labs="lab_hourly")
    assert list(federation) == ["Midwest", "Northeast", "South", "West", "unknown"]
    hospitals = eicu.load(demo, catalog=eicu.demo_catalog(demo), labs="lab_hourly")
    assert sum(float(part.matrix.sum()) for part in federation.values()) == sum(
        float(part.matrix.sum()) for part in hospitals.values()
    )
    assert federation.n_users <= hospitals.n_users


def test_the_stand_in_is_announced_unless_named(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(demo.parent))
    with pytest.warns(eicu.StandInWarning, match="lab_hourly"):
        federation = eicu.load()
    with pytest.warns(eicu.StandInWarning):
        assert eicu.facts().lab_table == "lab_hourly"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = eicu.load(labs="lab_hourly")
    assert [part.digest() for part in quiet.values()] == [part.digest() for part in federation.values()]


def test_the_raw_labs_of_a_hundred_patients(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(demo.parent))
    federation = eicu.load(labs="lab_100_patients")
    labs = [item for item in federation.catalog.items if item.startswith("lab:")]
    assert len(labs) == 123
    columns = [federation.catalog.column(item) for item in labs]
    assert sum(float(part.matrix[:, columns].sum()) for part in federation.values()) == 29_961


@pytest.mark.parametrize("gzipped", [False, True])
def test_the_layout_of_the_full_release(folder: Path, gzipped: bool) -> None:
    if gzipped:
        for path in list(folder.glob("*.csv")):
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            path.unlink()
    federation = eicu.load(folder, catalog=eicu.demo_catalog(folder))
    assert _contents(federation) == {
        59: {"002-1": {"lab:creatinine": 2.0, "drug:acetaminophen": 2.0}},
        60: {"002-2": {"lab:lactate": 1.0, "drug:acetaminophen": 2.0, "drug:hicl 182": 1.0}, "002-3": {}},
    }
    assert federation.feedback == "counts"


def test_someone_in_two_hospitals_is_a_row_in_each(folder: Path) -> None:
    patient = folder / "patient.csv"
    patient.write_text(patient.read_text().replace("12,1,Female,59", "12,1,Female,60"))
    catalog = eicu.demo_catalog(folder)
    apart = eicu.load(folder, catalog=catalog)
    assert apart[59].of("002-1") == apart[60].of("002-1") == {"lab:creatinine": 1.0, "drug:acetaminophen": 1.0}
    hospital = folder / "hospital.csv"
    hospital.write_text(hospital.read_text().replace("60,,t,", "60,,t,Midwest"))
    together = eicu.load(folder, catalog=catalog, entity="region")
    assert together["Midwest"].of("002-1") == {"lab:creatinine": 2.0, "drug:acetaminophen": 2.0}


def test_columns_come_from_the_catalog_alone(folder: Path) -> None:
    catalog = Catalog(["drug:acetaminophen", "lab:sodium"])
    federation = eicu.load(folder, catalog=catalog)
    assert federation.catalog is catalog
    assert federation[60].of("002-2") == {"drug:acetaminophen": 1.0}  # a bare list knows no brands and no codes
    assert federation[60].notes.unknown_items_dropped == 3


def test_without_a_catalog_the_public_demo_is_asked_not_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.delenv("TWOFOLD_DATA", raising=False)
    with pytest.raises(MissingDataset):
        eicu.load(folder)
    public = tmp_path_factory.mktemp("public")
    (public / "eicu-demo-2.0.1").mkdir()
    write_example(public / "eicu-demo-2.0.1")
    monkeypatch.setenv("TWOFOLD_DATA", str(public))
    lab = folder / "lab.csv"
    lab.write_text(lab.read_text() + "4,14,5,1,rare test,1.0\n")
    federation = eicu.load(folder)
    assert "lab:rare test" not in federation.catalog.items
    assert federation[60].notes.unknown_items_dropped == 1


def test_rows_of_stays_nobody_has_are_left_out(folder: Path) -> None:
    before = _contents(eicu.load(folder, catalog=eicu.demo_catalog(folder)))
    lab = folder / "lab.csv"
    lab.write_text(lab.read_text() + "4,99,5,1,creatinine,1.0\n")
    assert _contents(eicu.load(folder, catalog=eicu.demo_catalog(folder))) == before


@pytest.mark.parametrize("table", ["lab", "medication"])
def test_a_table_without_rows(folder: Path, table: str) -> None:
    catalog = eicu.demo_catalog(folder)
    path = folder / f"{table}.csv"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    federation = eicu.load(folder, catalog=catalog)
    assert federation.n_users == 3
    assert federation.n_rated_items == 2


@pytest.mark.parametrize("catalog", [Catalog([1, 2]), Catalog(["creatinine", "heparin"])])
def test_a_catalog_of_something_else(folder: Path, catalog: Catalog) -> None:
    with refused(CatalogError, "catalog"):
        eicu.load(folder, catalog=catalog)


@pytest.mark.parametrize("wrong", [{"row": "visit"}, {"entity": "ward"}, {"labs": "labs"}])
def test_unknown_words(folder: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(DataError):
        eicu.load(folder, catalog=Catalog(["lab:x"]), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "old", "new", "kind"),
    [
        ("patient", "uniquepid", "pid", MissingColumn),
        ("patient", "12,1", "11,1", UnreadableSource),
        ("patient", "002-2", "", UnreadableSource),
        ("patient", "14,3", "x,3", UnreadableSource),
        ("lab", "labname", "test", MissingColumn),
        ("lab", "1,11,5", "1,eleven,5", UnreadableSource),
        ("medication", "drughiclseqno", "code", MissingColumn),
        ("medication", "1866", "many", UnreadableSource),
    ],
)
def test_damaged_tables(folder: Path, table: str, old: str, new: str, kind: type[TwofoldError]) -> None:
    path = folder / f"{table}.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(kind) as caught:
        eicu.load(folder, catalog=Catalog(["lab:creatinine"]))
    assert "002-" not in str(caught.value)


def test_a_patient_table_without_rows(folder: Path) -> None:
    path = folder / "patient.csv"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with refused(UnreadableSource, "patient"):
        eicu.load(folder, catalog=Catalog(["lab:creatinine"]))


@pytest.mark.parametrize("table", ["patient", "lab", "medication"])
def test_flipped_bytes_give_data_or_our_error(folder: Path, table: str) -> None:
    catalog, path = eicu.demo_catalog(folder), folder / f"{table}.csv"
    healthy, rng, refused = path.read_bytes(), np.random.default_rng(5), 0
    for _ in range(150):
        data = bytearray(healthy)
        for _ in range(4):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        path.write_bytes(data[: int(rng.integers(1, len(data) + 1))] if rng.random() < 0.3 else data)
        try:
            assert isinstance(eicu.load(folder, catalog=catalog), Federation)
        except TwofoldError:
            refused += 1
    assert refused > 20
