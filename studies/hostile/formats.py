"""Parsers of other people's formats: MEDS, OMOP in SQLite, RecBole."""

from __future__ import annotations

import io
import sqlite3
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Final

import polars as pl

from studies.hostile.registry import Parser, register
from twofold.data.catalog import Catalog
from twofold.data.formats.meds import meds_catalog, read_meds
from twofold.data.formats.omop import omop_catalog, read_omop
from twofold.data.formats.recbole import read_recbole, recbole_catalog

__all__: list[str] = []

_CODES: Final = Catalog([f"LAB//{at}" for at in range(9)])
_CONCEPTS: Final = Catalog(range(1, 10))
_INTER: Final = b"user_id:token\titem_id:token\trating:float\n" + b"".join(
    f"patient-{at % 7}\t{1 + at % 9}\t{at % 5}\n".encode() for at in range(60)
)
_ITEMS: Final = b"item_id:token\ttitle:token_seq\n" + b"".join(f"{at}\tfilm {at}\n".encode() for at in range(1, 30))


def _shards() -> list[bytes]:
    found = []
    times = [datetime(2025, 1, 1 + at % 28) if at % 9 else None for at in range(90)]
    for codec in ("zstd", "uncompressed"):
        buffer = io.BytesIO()
        codes = [f"LAB//{at % 11}//patient-{at % 3}" for at in range(90)]
        frame = pl.DataFrame({"subject_id": [at // 9 for at in range(90)], "time": times, "code": codes})
        frame.write_parquet(buffer, compression=codec)
        found.append(buffer.getvalue())
    return found


def _code_lists() -> list[bytes]:
    buffer = io.BytesIO()
    codes = pl.DataFrame({"code": list(_CODES.items), "description": ["x"] * 9, "parent_codes": [["LOINC/1"]] * 9})
    codes.write_parquet(buffer)
    return [buffer.getvalue(), b"code,description\nLAB//1,Lactate\nLAB//2,\n"]


def _databases() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cdm.sqlite")
        made = sqlite3.connect(path)
        made.execute("CREATE TABLE drug_exposure (person_id, drug_concept_id, drug_exposure_start_date, note)")
        rows = [(at % 7, 10 + at % 9, "2025-01-01" if at % 2 else 1.7e9, "patient-") for at in range(60)]
        made.executemany("INSERT INTO drug_exposure VALUES (?, ?, ?, ?)", rows)
        made.execute(
            "CREATE TABLE concept (concept_id, concept_name, domain_id, vocabulary_id, concept_class_id, "
            "standard_concept, concept_code, invalid_reason)"
        )
        concepts = [
            (at, f"drug {at}", "Drug", "RxNorm", "Ingredient" if at < 10 else "Clinical Drug", "S", str(at), None)
            for at in range(1, 20)
        ]
        made.executemany("INSERT INTO concept VALUES (?, ?, ?, ?, ?, ?, ?, ?)", concepts)
        made.execute("CREATE TABLE concept_ancestor (ancestor_concept_id, descendant_concept_id)")
        made.executemany("INSERT INTO concept_ancestor VALUES (?, ?)", [(at, at + 9) for at in range(1, 10)])
        made.commit()
        made.close()
        return [path.read_bytes()]


def _read_database(path: Path) -> object:
    found = read_omop(path, _CONCEPTS, since="2020-01-01", before="2030-01-01").digest()
    return found, omop_catalog(path, public=True).hash


register(
    Parser(
        name="MEDS shard",
        form="bytes",
        samples=_shards,
        parse=lambda path: read_meds(path.parent, _CODES, codes=["LAB"], since="2020-01-01").digest(),
        file="0.parquet",
    )
)
register(
    Parser(
        name="MEDS codes", form="bytes", samples=_code_lists, parse=lambda path: meds_catalog(path, public=True).hash
    )
)
register(Parser(name="OMOP in SQLite", form="bytes", samples=_databases, parse=_read_database))
register(
    Parser(
        name="RecBole .inter",
        form="table",
        samples=lambda: [_INTER],
        parse=lambda path: read_recbole(path, _CONCEPTS, feedback="counts", unknown_items="drop").digest(),
    )
)
register(
    Parser(
        name="RecBole .item",
        form="table",
        samples=lambda: [_ITEMS],
        parse=lambda path: recbole_catalog(path, public=True).hash,
    )
)
