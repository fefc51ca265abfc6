"""The eICU tables we use, with our column names: stays, lab results, drug orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import polars as pl

from twofold.data._files import read_file
from twofold.data.sources._eicu_names import CONCEPTS, drug_name, lab_name
from twofold.data.sources._published import EICU, find_table, need_table
from twofold.errors import DataError, UnreadableSource

__all__ = ["LabTable", "choose_labs", "read_drugs", "read_labs", "read_regions", "read_stays"]

LabTable = Literal["lab", "lab_hourly", "lab_100_patients"]
LAB_TABLES: Final = ("lab", "lab_hourly", "lab_100_patients")
STAY: Final = "patientunitstayid"
# One code of the public demo under which unrelated drugs are filed (insulin, lorazepam, famotidine, amiodarone, ...).
CATCH_ALL: Final = 18084


def choose_labs(folder: Path, labs: LabTable | None) -> tuple[LabTable, bool]:
    """Which table of labs to read, and whether it is a stand-in that nobody asked for."""
    if labs is not None:
        if labs not in LAB_TABLES:
            raise DataError("unknown table of labs.", expected="labs=" + " or ".join(map(repr, LAB_TABLES)))
        need_table(EICU, folder, labs)
        return labs, False
    if find_table(folder, "lab") is None and find_table(folder, "lab_hourly") is not None:
        return "lab_hourly", True
    need_table(EICU, folder, "lab")
    return "lab", False


def read_stays(folder: Path) -> pl.DataFrame:
    """One row per unit stay: stay, person, hospital."""
    frame = _read(folder, "patient", [STAY, "uniquepid", "hospitalid"], text=["uniquepid"])
    stays = frame.select(stay=STAY, person=pl.col("uniquepid").cast(pl.String), hospital="hospitalid")
    if any(stays.null_count().row(0)) or stays["stay"].is_duplicated().any():
        raise UnreadableSource(
            "the patient table is not whole.",
            found="stays that repeat, or have no person or hospital",
            expected="one line per unit stay, as published",
            fix="fetch or export the table again",
        )
    return stays


def read_regions(folder: Path, like: pl.Series) -> pl.DataFrame:
    """Hospital, of the type of the hospitals in `like`, and region; "unknown" where the publisher gives none."""
    frame = _read(folder, "hospital", ["hospitalid", "region"], text=["region"])
    region = pl.col("region").cast(pl.String).str.strip_chars().replace("", None).fill_null("unknown")
    hospital = pl.col("hospitalid").cast(like.dtype, strict=False)
    return frame.select(hospital=hospital, region=region).unique("hospital", maintain_order=True)


def read_labs(folder: Path, table: LabTable) -> pl.DataFrame:
    """Results by stay and lab: stay, name, n (how many)."""
    column = "lab" if table == "lab_hourly" else "labname"
    # Counted before anything else: the full release has 39 million results.
    counts = _read(folder, table, [STAY, column]).group_by(STAY, column).len("n")
    names = _each(counts[column], _concept if table == "lab_hourly" else lab_name)
    return counts.select(stay=STAY, name=names, n="n").filter(pl.col("name") != "")


def read_drugs(folder: Path) -> pl.DataFrame:
    """Orders that were not cancelled: stay, name ("" where there is none), code (null where none), n (how many)."""
    columns = [STAY, "drugordercancelled", "drugname", "drughiclseqno"]
    frame = _read(folder, "medication", columns, text=["drugname", "drugordercancelled"], numbers=["drughiclseqno"])
    kept = frame.filter(pl.col("drugordercancelled").cast(pl.String).str.to_lowercase().ne_missing("yes"))
    counts = kept.group_by(STAY, "drugname", "drughiclseqno").len("n")
    if frame.height and frame["drughiclseqno"].dtype == pl.String and frame["drughiclseqno"].count():
        raise UnreadableSource("the medication table is not the published one.", found="text in drughiclseqno")
    code = pl.col("drughiclseqno").cast(pl.Int64, strict=False)
    usable = (code > 0) & (code != CATCH_ALL)
    return counts.select(stay=STAY, name=_each(counts["drugname"], drug_name), code=pl.when(usable).then(code), n="n")


def _read(
    folder: Path, table: str, columns: list[str], *, text: Sequence[str] = (), numbers: Sequence[str] = ()
) -> pl.DataFrame:
    path = need_table(EICU, folder, table)
    frame = read_file(path, columns, text=text, numbers=numbers)
    if STAY not in columns:
        return frame
    if frame.height and not frame[STAY].dtype.is_integer():
        raise UnreadableSource(
            f"{path.name} is not the published table.", found="ids that are not whole numbers", expected=f"{STAY}"
        )
    return frame.with_columns(pl.col(STAY).cast(pl.Int64))


def _concept(text: str) -> str:
    return lab_name(CONCEPTS.get(text) or text)


def _each(column: pl.Series, plain: Callable[[str], str]) -> pl.Series:
    """Normalise every different text once."""
    texts = column.cast(pl.String).fill_null("")
    different = texts.unique()
    plains = pl.Series([plain(text) for text in different.to_list()], dtype=pl.String)
    return texts.replace_strict(different, plains, return_dtype=pl.String)
