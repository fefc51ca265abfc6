"""OMOP in a real PostgreSQL, started for this test on a socket of its own; skipped where there is none."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from tests.data.formats import cdm
from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.data.formats.omop import omop_catalog, omop_features, read_omop
from twofold.errors import UnreadableSource

pytestmark = pytest.mark.slow
DRUGS = Catalog([cdm.ASPIRIN, cdm.METFORMIN])


def _as_user(words: Sequence[str]) -> list[str]:
    """PostgreSQL does not run as root."""
    return ["runuser", "-u", "postgres", "--", *words] if os.geteuid() == 0 else list(words)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an empty server."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    if not (shutil.which("initdb") and shutil.which("postgres")):
        pytest.skip("PostgreSQL is not installed")
    if os.geteuid() == 0 and "postgres" not in {one.pw_name for one in pwd.getpwall()}:
        pytest.skip("there is no user for PostgreSQL, which does not run as root")
    folder = tempfile.mkdtemp(prefix="cdm")
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    try:
        words = ["initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "owner", "--no-sync"]
        subprocess.run(_as_user(words), check=True, capture_output=True, cwd=folder)
        words = ["postgres", "-D", f"{folder}/data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        running = subprocess.Popen(
            _as_user(words), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            until = time.monotonic() + 60
            while not Path(folder, ".s.PGSQL.5432").exists() and time.monotonic() < until:
                time.sleep(0.1)
            yield f"postgresql+psycopg://owner@/postgres?host={folder}"
        finally:
            subprocess.run(
                _as_user(["kill", "-INT", Path(folder, "data/postmaster.pid").read_text().split()[0]]), check=True
            )
            running.wait(timeout=60)
    finally:
        shutil.rmtree(folder)


class _Filled:
    """What `cdm.fill` needs of a connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, sql: str) -> None:
        self.connection.exec_driver_sql(sql)

    def executemany(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.connection.exec_driver_sql(sql.replace("?", "%s"), [tuple(row) for row in rows])


@pytest.fixture(scope="module")
def url(server: str) -> str:
    engine = sqlalchemy.create_engine(server)
    with engine.begin() as connection:
        for sql in ("CREATE SCHEMA cdm", "SET search_path TO cdm"):
            connection.exec_driver_sql(sql)
        cdm.fill(_Filled(connection))
        for sql in (
            "CREATE ROLE reader LOGIN",
            "GRANT USAGE ON SCHEMA cdm TO reader",
            "GRANT SELECT ON cdm.drug_exposure, cdm.concept, cdm.concept_ancestor TO reader",
        ):
            connection.exec_driver_sql(sql)
    engine.dispose()
    return server


def test_the_same_counts_as_from_a_file(url: str, tmp_path: Path) -> None:
    path = cdm.sqlite_file(tmp_path / "cdm.sqlite")
    every = ["drug_exposure", "measurement", "procedure_occurrence", "condition_occurrence"]
    catalog = omop_catalog(url, tables=every, schema="cdm", public=True)
    assert catalog == omop_catalog(path, tables=every, public=True)
    classes = ["ATC 2nd", "LOINC Class"]
    assert omop_features(url, catalog, classes, schema="cdm") == omop_features(path, catalog, classes)
    settings: list[dict[str, Any]] = [{}, {"since": "2025-01-02", "before": "2026-01-01"}, {"care_site": 5}]
    for given in settings:
        ours = read_omop(url, catalog, tables=every, schema="cdm", **given)
        assert ours.digest() == read_omop(path, catalog, tables=every, **given).digest()


def test_a_query_for_people_may_hold_colons_and_percent_signs(url: str) -> None:
    asked = "SELECT person_id::bigint FROM cdm.visit_occurrence WHERE care_site_id % 2 = 0 AND '12:00' LIKE '%:%'"
    assert list(read_omop(url, DRUGS, schema="cdm", people=asked).user_ids) == [1]


def test_an_account_that_may_not_read_a_table_is_told_which(url: str) -> None:
    reader = url.replace("owner@", "reader@")
    assert read_omop(reader, DRUGS, schema="cdm").n_users == 3
    with refused(UnreadableSource, "source", "cdm.visit_occurrence"):
        read_omop(reader, DRUGS, schema="cdm", care_site=5)
    with refused(UnreadableSource, "source", "cdm.measurement"):
        read_omop(reader, DRUGS, schema="cdm", tables=["measurement"])


def test_a_statement_that_writes_is_refused_by_the_database(url: str) -> None:
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION cdm.emptied() RETURNS bigint LANGUAGE sql AS 'DELETE FROM cdm.person RETURNING person_id'"
        )
    for source in (url, engine):
        with refused(UnreadableSource, "source"):
            read_omop(source, DRUGS, schema="cdm", people="SELECT cdm.emptied()")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM cdm.person").scalar() == 4
    engine.dispose()


def test_a_wrong_account_or_host_is_refused_without_the_url(url: str) -> None:
    for wrong in (url.replace("owner@", "Jane:Doe@"), url.replace("/postgres?", "/nowhere?"), f"{url}/nowhere"):
        with refused(UnreadableSource, "source") as caught:
            read_omop(wrong, DRUGS, schema="cdm")
        assert not [word for word in ("Jane", "Doe", "nowhere") if word in str(caught.value)]
