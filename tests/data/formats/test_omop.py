"""OMOP: counts, roll-ups, entities, vocabularies, and databases that lack something."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy

from tests.data.formats import cdm
from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.data.formats.omop import batches, omop_catalog, omop_features, omop_sql, read_omop
from twofold.errors import BadIdentifier, CatalogError, DataError, UnreadableSource

EVERY = ["drug_exposure", "measurement", "procedure_occurrence", "condition_occurrence"]
DRUGS = Catalog([cdm.ASPIRIN, cdm.METFORMIN])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return cdm.sqlite_file(tmp_path / "cdm.sqlite")


@pytest.fixture(params=["file", "url", "sqlite3", "engine", "connection", "duckdb", "duckdb url", "duckdb connection"])
def source(request: pytest.FixtureRequest, path: Path) -> Iterator[Any]:
    """The same people in every kind of database and behind every kind of connection."""
    kind = request.param
    if kind.startswith("duckdb"):
        file = path.with_name("cdm.duckdb")
        made = duckdb.connect(str(file))
        cdm.fill(made)
        if kind == "duckdb connection":
            yield made
        made.close()
        if kind != "duckdb connection":
            yield str(file) if kind == "duckdb" else f"duckdb:///{file}"
        return
    url = f"sqlite:///{path}"
    if kind in ("file", "url"):
        yield path if kind == "file" else url
        return
    if kind == "sqlite3":
        own = sqlite3.connect(path)
        yield own
        own.close()
        return
    engine = sqlalchemy.create_engine(url)
    if kind == "engine":
        yield engine
    else:
        with engine.connect() as connection:
            yield connection
    engine.dispose()


def test_every_connection_gives_the_same_counts(source: Any) -> None:
    ratings = read_omop(source, DRUGS, since="2025-01-01", before="2026-01-01")
    assert ratings.of(1) == {cdm.ASPIRIN: 2.0, cdm.METFORMIN: 1.0}
    assert (ratings.of(2), ratings.of(3)) == ({cdm.METFORMIN: 1.0}, {})
    assert list(ratings.user_ids) == [1, 2, 3]
    catalog = omop_catalog(source, tables=EVERY, public=True)
    assert omop_features(source, catalog, ["ATC 2nd"]).described == 2
    again = read_omop(source, DRUGS, since="2025-01-01", before="2026-01-01")
    assert again.digest() == ratings.digest()  # what the caller opened is still open


def test_a_drug_with_two_ingredients_counts_for_both(path: Path) -> None:
    assert read_omop(path, DRUGS).of(1) == {cdm.ASPIRIN: 3.0, cdm.METFORMIN: 1.0}


def test_drugs_are_rolled_up_to_a_class_of_atc(path: Path) -> None:
    ratings = read_omop(path, Catalog([cdm.ANALGESICS, cdm.DIABETES]), tables={"drug_exposure": "ATC 2nd"})
    assert (ratings.of(1), ratings.of(2)) == ({cdm.ANALGESICS: 2.0}, {cdm.DIABETES: 1.0})


def test_two_classes_and_concepts_without_an_ancestor(path: Path) -> None:
    catalog = Catalog([cdm.ASPIRIN, cdm.VACCINE])
    assert read_omop(path, catalog).of(3) == {cdm.VACCINE: 1.0}  # no ancestor: as recorded
    assert read_omop(path, catalog, tables={"drug_exposure": "Ingredient|CVX"}).of(3) == {cdm.VACCINE: 1.0}


def test_concepts_as_they_are_recorded(path: Path) -> None:
    ratings = read_omop(path, Catalog([cdm.TABLET, cdm.ASPIRIN]), tables={"drug_exposure": None})
    assert ratings.of(1) == {cdm.TABLET: 1.0, cdm.ASPIRIN: 1.0}


def test_tables_are_counted_together(path: Path) -> None:
    catalog = omop_catalog(path, tables=EVERY, public=True)
    ratings = read_omop(path, catalog, tables=EVERY)
    assert ratings.of(1) == {cdm.ASPIRIN: 3.0, cdm.METFORMIN: 1.0, cdm.CREATININE: 2.0}
    assert ratings.of(2) == {cdm.METFORMIN: 1.0, cdm.GLUCOSE: 1.0, cdm.BIOPSY: 1.0}
    assert ratings.of(3) == {cdm.FRACTURE: 1.0}
    assert (ratings.notes.rows, ratings.notes.unknown_items_dropped) == (12, 2)


def test_somebody_without_a_visit_counts_and_somebody_without_a_row_does_not(path: Path) -> None:
    ratings = read_omop(path, DRUGS)
    assert ratings.of(2) == {cdm.METFORMIN: 1.0}
    assert 4 not in ratings.user_ids  # in person and visit_occurrence, without a drug


def test_a_care_site_is_an_entity(path: Path) -> None:
    five, six = (read_omop(path, DRUGS, care_site=site) for site in (5, 6))
    assert (list(five.user_ids), list(six.user_ids)) == ([1, 3], [1])
    assert (five.of(1), six.of(1)) == ({cdm.ASPIRIN: 2.0, cdm.METFORMIN: 1.0}, {cdm.ASPIRIN: 1.0})
    assert read_omop(path, DRUGS, care_site=7).n_users == 0


def test_a_query_for_people_is_an_entity(path: Path) -> None:
    asked = "SELECT person_id FROM visit_occurrence WHERE care_site_id = 6"
    assert list(read_omop(path, DRUGS, people=asked).user_ids) == [1]


@pytest.mark.parametrize("seconds", [True, False])
def test_days_of_sqlite_may_be_text_or_seconds(path: Path, seconds: bool) -> None:
    if seconds:
        with sqlite3.connect(path) as made:
            day = "drug_exposure_start_date"
            made.execute(f"UPDATE drug_exposure SET {day} = CAST(strftime('%s', {day}) AS REAL)")
        made.close()
    assert read_omop(path, DRUGS, since="2025-06-01", before="2026-01-01").notes.rows == 5
    assert read_omop(path, DRUGS, since="2026-01-01").of(1) == {cdm.ASPIRIN: 1.0}


def test_days_far_outside_or_missing_are_outside_and_refuse_nothing(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("UPDATE drug_exposure SET drug_exposure_start_date = '9999-12-31' WHERE person_id = 1")
        made.execute("UPDATE drug_exposure SET drug_exposure_start_date = NULL WHERE person_id = 2")
        made.execute("UPDATE drug_exposure SET drug_exposure_start_date = 'Jane Doe' WHERE person_id = 3")
    made.close()
    assert read_omop(path, DRUGS).n_users == 3
    assert read_omop(path, DRUGS, since="2025-01-01", before="2026-01-01").n_users == 0


def test_ids_that_sqlite_keeps_as_floating_point_are_whole(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute(
            "CREATE TABLE floats AS SELECT CAST(person_id AS REAL) AS person_id, drug_concept_id, "
            "drug_exposure_start_date, visit_occurrence_id FROM drug_exposure"
        )
        made.execute("DROP TABLE drug_exposure")
        made.execute("ALTER TABLE floats RENAME TO drug_exposure")
    made.close()
    assert list(read_omop(path, DRUGS).user_ids) == [1, 2, 3]


@pytest.mark.parametrize("value", ["1.5", "'Jane Doe'", "1e300", "NULL"])
def test_people_whose_ids_are_not_whole_numbers_are_refused(path: Path, value: str) -> None:
    with sqlite3.connect(path) as made:
        made.execute(
            "CREATE TABLE other AS SELECT person_id + 0.0 AS person_id, drug_concept_id, "
            "drug_exposure_start_date, visit_occurrence_id FROM drug_exposure"
        )
        made.execute(f"INSERT INTO other VALUES ({value}, 1, '2025-01-01', 1)")
        made.execute("DROP TABLE drug_exposure")
        made.execute("ALTER TABLE other RENAME TO drug_exposure")
    made.close()
    with refused(BadIdentifier, "person") as caught:
        read_omop(path, DRUGS)
    assert not [one for one in (*cdm.SECRET, "1.5", "1e+300") if one in str(caught.value)]


def test_nothing_is_written(path: Path) -> None:
    before = path.read_bytes()
    path.chmod(0o444)
    read_omop(path, DRUGS)
    assert path.read_bytes() == before
    assert sorted(one.name for one in path.parent.iterdir()) == ["cdm.sqlite"]


def test_batches_are_frames_of_counts(path: Path) -> None:
    found = list(batches(path, tables=EVERY))
    assert [batch.columns for batch in found] == [["person", "item", "events"]] * 4


def test_the_sql_is_shown_without_a_connection() -> None:
    url = "postgresql://me:Jane@nowhere/omop"
    text = "\n".join(
        omop_sql(url, care_site=5, since="2025-01-01", schema="cdm", vocabulary="v", people="SELECT 1 AS p")
    )
    for part in (
        "cdm.drug_exposure",
        "v.concept_ancestor",
        "cdm.visit_occurrence",
        "CAST('2025-01-01' AS DATE)",
        "care_site_id = 5",
    ):
        assert part in text
    assert "Jane" not in text
    assert all(line.split()[0] == "SELECT" for line in omop_sql(url, tables=EVERY))


def test_a_schema_is_used(tmp_path: Path) -> None:
    made = duckdb.connect(str(tmp_path / "x.duckdb"))
    made.execute("CREATE SCHEMA cdm; USE cdm")
    cdm.fill(made)
    made.close()
    assert read_omop(tmp_path / "x.duckdb", DRUGS, schema="cdm").n_users == 3
    with refused(UnreadableSource, "source", "drug_exposure"):
        read_omop(tmp_path / "x.duckdb", DRUGS)


@pytest.mark.parametrize(
    ("setting", "parameter"),
    [
        ({"schema": "cdm; DROP TABLE person"}, "schema"),
        ({"vocabulary": "v'"}, "vocabulary"),
        ({"people": "SELECT 1; DELETE FROM person"}, "people"),
        ({"people": "DELETE FROM person"}, "people"),
        ({"care_site": "5 OR 1 = 1"}, "care_site"),
        ({"tables": {"drug_exposure": "x' OR '1' = '1"}}, "tables"),
        ({"tables": ["person"]}, "tables"),
        ({"tables": []}, "tables"),
        ({"since": "1 January"}, "since"),
        ({"since": "2025-01-01", "before": "2025-01-01"}, "before"),
    ],
)
def test_a_setting_that_could_be_sql_or_nonsense_is_refused(
    path: Path, setting: dict[str, Any], parameter: str
) -> None:
    with refused(DataError, parameter):
        read_omop(path, DRUGS, **setting)


def test_a_database_without_a_vocabulary_counts_only_as_recorded(tmp_path: Path) -> None:
    path = cdm.sqlite_file(tmp_path / "bare.sqlite", vocabulary=False)
    assert read_omop(path, DRUGS, tables={"drug_exposure": None}).of(2) == {cdm.METFORMIN: 1.0}
    for ask in (lambda: read_omop(path, DRUGS), lambda: omop_catalog(path, public=True)):
        with refused(UnreadableSource, "source", "table concept"):
            ask()
    with refused(UnreadableSource, "source", "table concept"):
        omop_features(path, DRUGS, ["ATC 2nd"])


def test_an_empty_vocabulary_is_refused_and_not_an_empty_hospital(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("DELETE FROM concept")
    made.close()
    with refused(CatalogError, "tables", "Ingredient"):
        read_omop(path, DRUGS)
    with refused(CatalogError, "tables"):
        omop_catalog(path, public=True)


@pytest.mark.parametrize("denied", ["drug_exposure", "concept", "concept_ancestor", "visit_occurrence"])
def test_a_view_one_may_not_read_is_named_and_nothing_else(path: Path, denied: str) -> None:
    own = sqlite3.connect(path)
    own.execute("SELECT 1")
    own.set_authorizer(lambda _, table, *__: sqlite3.SQLITE_DENY if table == denied else sqlite3.SQLITE_OK)
    with refused(UnreadableSource, "source", denied, found="DatabaseError"):
        read_omop(own, DRUGS, care_site=5)
    own.close()


def test_a_catalog_of_other_ids_is_refused(path: Path) -> None:
    with refused(CatalogError, "catalog"):
        read_omop(path, Catalog(["N02"]))


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///nowhere.sqlite",
        "sqlite://",
        "duckdb:///nowhere.duckdb",
        "nowhere.sqlite",
        "nonsense://Jane:Doe@x",
        "postgresql://Jane:Doe@127.0.0.1:1/x",
        "sqlite:////etc/hostname",
        "",
        "/",
    ],
)
def test_a_wrong_address_is_refused_without_showing_it(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(UnreadableSource, "source") as caught:
        read_omop(address, DRUGS)
    assert not [word for word in ("Jane", "Doe", "hostname") if word in str(caught.value)]
    assert not list(tmp_path.iterdir())  # SQLite makes new files readily


def test_a_source_of_an_unknown_kind_is_refused() -> None:
    with refused(UnreadableSource, "source", found="int"):
        read_omop(5, DRUGS)


def test_a_file_that_is_cut_off_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])
    with refused(UnreadableSource, "source") as caught:
        read_omop(path, DRUGS)
    assert not [one for one in cdm.SECRET if one in str(caught.value)]


def test_a_catalog_comes_from_the_vocabulary_with_titles(path: Path) -> None:
    catalog = omop_catalog(path, tables=EVERY, public=True)
    assert catalog.features is not None
    titles = dict(zip(catalog.items, catalog.features["title"], strict=True))
    assert titles[cdm.ASPIRIN] == "aspirin"
    expected = {cdm.ASPIRIN, cdm.METFORMIN, cdm.CREATININE, cdm.GLUCOSE, cdm.FRACTURE, cdm.INJURY, cdm.BIOPSY}
    assert set(titles) == expected  # no concept that is not standard, and none of class LOINC Class
    assert list(catalog.items) == sorted(expected)
    atc = omop_catalog(path, tables={"drug_exposure": "ATC 2nd"}, public=True)
    assert set(atc.items) == {cdm.ANALGESICS, cdm.DIABETES}


def test_a_catalog_does_not_depend_on_people(path: Path) -> None:
    before = omop_catalog(path, tables=EVERY, public=True).hash
    with sqlite3.connect(path) as made:
        for table in cdm.COLUMNS:
            made.execute(f"DROP TABLE {table}")
        made.execute("DROP TABLE person")
    made.close()
    assert omop_catalog(path, tables=EVERY, public=True).hash == before


def test_a_catalog_needs_a_public_vocabulary(path: Path) -> None:
    with refused(CatalogError, "public"):
        omop_catalog(path)


def test_features_are_classes_above_the_items(path: Path) -> None:
    catalog = omop_catalog(path, tables=EVERY, public=True)
    found = omop_features(path, catalog, ["ATC 2nd", "ATC 4th", "LOINC Class"])
    assert found.names == (
        "A10 DRUGS USED IN DIABETES",
        "CHEM Chemistry",
        "N02 ANALGESICS",
        "N02BA Salicylic acid / derivatives",
    )
    row = found.matrix[catalog.column(cdm.ASPIRIN)].tolist()
    assert row == [0, 0, 1, 1]
    assert found.described == 4
    assert omop_features(path, catalog, "Disorder").names == ("417163006 Traumatic injury",)  # not the item itself


def test_classes_that_the_vocabulary_lacks_are_refused(path: Path) -> None:
    catalog = omop_catalog(path, tables=EVERY, public=True)
    with refused(CatalogError, "tables", "ATC 1st"):
        omop_features(path, catalog, ["ATC 2nd", "ATC 1st"])
    with refused(CatalogError, "tables"):
        omop_features(path, Catalog([cdm.BIOPSY]), ["ATC 2nd"])
    for classes, items in (([], catalog), (["ATC 2nd"], Catalog(["a"]))):
        with refused(DataError, "classes"):
            omop_features(path, items, classes)


@pytest.fixture(scope="module")
def gibleed(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    packed = data_folder / "omop-gibleed" / "cdm.sqlite.gz"
    if not packed.exists():
        pytest.skip("omop-gibleed is not in TWOFOLD_DATA")
    path = tmp_path_factory.mktemp("omop") / "cdm.sqlite"
    with gzip.open(packed) as file, path.open("wb") as out:
        shutil.copyfileobj(file, out)
    return path


def test_gibleed_is_counted_whole(gibleed: Path) -> None:
    catalog = omop_catalog(gibleed, tables=EVERY, public=True)
    ratings = read_omop(gibleed, catalog, tables=EVERY)
    assert (ratings.n_users, len(catalog)) == (2694, 288)
    recorded = read_omop(gibleed, catalog, tables=dict.fromkeys(EVERY))
    assert recorded.notes.rows == 67_707 + 44_053 + 37_409 + 65_332
    with sqlite3.connect(gibleed) as made:
        whole = made.execute("SELECT COUNT(*) FROM measurement WHERE person_id = 573").fetchone()[0]
    made.close()
    assert sum(read_omop(gibleed, catalog, tables=["measurement"]).of(573).values()) == whole


def test_gibleed_has_no_atc_and_says_so(gibleed: Path) -> None:
    catalog = omop_catalog(gibleed, tables=EVERY, public=True)
    for level in ("ATC 1st", "ATC 3rd", "LOINC Class", "LOINC Hierarchy"):
        with refused(CatalogError, "tables", level):
            omop_features(gibleed, catalog, [level])
    found = omop_features(gibleed, catalog, ["Clinical Finding"])
    assert (found.n_features, found.described) == (8, 11)
