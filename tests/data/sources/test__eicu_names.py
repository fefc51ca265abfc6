"""Plain names of drugs and labs: examples of every rule, and what holds for any text."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.data.sources.eicu_tables import CONCEPTS, drug_name, lab_name

EXAMPLES = {
    "container before": {"2 ML VIAL : ONDANSETRON HCL 4 MG/2ML IJ SOLN", "2 ML  -  Ondansetron HCl 4 MG/2ML IJ SOLN"},
    "strength and form": {"ONDANSETRON 4 MG PO TAB-DISPERSE", "ondansetron (ZOFRAN) inj 4 mg", "ONDANSETRON INJ"},
    "route and remark": {"Ondansetron 2mg/ml  SSO", "ONDANSETRON (PF)", "ondansetron 8 mg in NS 50 mL IVPB"},
}


@pytest.mark.parametrize("rule", EXAMPLES)
def test_ways_to_write_one_drug(rule: str) -> None:
    assert {drug_name(text) for text in EXAMPLES[rule]} == {"ondansetron"}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1000 ML FLEX CONT : SODIUM CHLORIDE 0.9 % IV SOLN", "sodium chloride"),
        ("0.9%NaCl 1,000 mL", "sodium chloride"),
        ("NSS 0.9% 500 mL bolus infusion", "sodium chloride"),
        ("SODIUM BICARBONATE 8.4% 50 ML INJ", "sodium bicarbonate"),
        ("POTASSIUM CHLORIDE CRYS ER 20 MEQ PO TBCR", "potassium chloride"),
        ("CALCIUM GLUCONATE 1 GRAM/D5W 50ML", "calcium gluconate"),
        ("ATORVASTATIN CALCIUM 40 MG PO TABS", "atorvastatin"),
        ("PANTOPRAZOLE SODIUM 40 MG PO TBEC", "pantoprazole"),
        ("DEXT 5%-NACL 0.45% 1000 ML LVP", "dextrose-nacl"),
        ("1000 ML  -  DEXTROSE-NACL 5-0.45 % IV SOLN", "dextrose-nacl"),
        ("HYDROCODONE 5 MG-ACETAMINOPHEN 325 MG TABLET", "hydrocodone-acetaminophen"),
        ("WARFARIN - PHYSICIAN MONITORED", "warfarin"),
        ("D50", "dextrose"),
        ("<<norepinephrine 4 mg/4 mL Inj", "norepinephrine"),
        (".5 ML VIAL : PNEUMOCOCCAL VAC POLYVALENT 25 MCG/0.5ML IJ INJ", "pneumococcal vac polyvalent"),
        ("K-Dur 20", "k-dur"),
        ("", ""),
        ("25 MG", ""),
        ("(see note)", ""),
    ],
)
def test_drug_names(text: str, plain: str) -> None:
    assert drug_name(text) == plain


def test_different_salts_of_minerals_stay_different() -> None:
    names = ["sodium chloride", "sodium phosphate", "magnesium sulfate", "magnesium oxide", "calcium chloride"]
    assert [drug_name(name.upper()) for name in names] == names


@given(st.text(max_size=60))
def test_any_text_gives_a_plain_name(text: str) -> None:
    for plain in (drug_name(text), lab_name(text)):
        assert "|" not in plain, "the catalog separates aliases by this mark"
        assert plain == plain.strip()
        assert plain == plain.lower()
    assert drug_name(text) == drug_name(text.lower())


def test_a_plain_name_stays_as_it_is(data_folder: Path) -> None:
    table = pl.read_csv(data_folder / "eicu-demo-2.0.1" / "medication.csv.gz", columns=["drugname"])
    plains = {drug_name(text) for text in table["drugname"].drop_nulls().unique()} - {""}
    assert len(plains) < 400, "1,401 ways to write a drug are far fewer drugs"
    changed = {plain for plain in plains if drug_name(plain) != plain}
    assert not changed


def test_every_concept_is_a_lab_of_the_raw_table(data_folder: Path) -> None:
    folder = data_folder / "eicu-demo-2.0.1"
    names = set(pl.read_csv(folder / "lab_100_patients.csv.gz", columns=["labname"])["labname"])
    concepts = set(pl.read_csv(folder / "lab_hourly.csv.gz", columns=["lab"])["lab"])
    assert set(CONCEPTS) == concepts
    assert set(CONCEPTS.values()) <= names
    assert len(set(CONCEPTS.values())) == 39


def _share_alike(pairs: pl.DataFrame, scales: tuple[int, ...]) -> float:
    """Share of the stand-in's rows that are the median of the raw results of their hour, up to 1% and a unit."""
    hours = pairs.group_by("at").agg(pl.col("value").first(), pl.col("raw").median())
    off = [(hours["value"] / scale - hours["raw"]).abs() <= 0.01 * hours["raw"].abs() for scale in scales]
    return float(pl.DataFrame({str(at): column for at, column in enumerate(off)}).max_horizontal().mean())  # type: ignore[arg-type]


@pytest.mark.parametrize("concept", sorted(CONCEPTS))
def test_a_concept_has_the_values_of_its_raw_lab(concept: str, pairs: pl.DataFrame) -> None:
    mine = pairs.filter(pl.col("concept") == concept)
    named = pl.col("name").is_in([CONCEPTS[concept], *(["bedside glucose"] if concept == "glu" else [])])
    # The stand-in gives CRP in mg/L where most hospitals wrote mg/dL.
    scales = (1, 10) if concept == "crp" else (1,)
    assert _share_alike(mine.filter(named), scales) > 0.95
    for (name,), other in mine.filter(~named).group_by("name"):
        if other.height >= 10:
            assert _share_alike(other, scales) < 0.5, f"{name}, of the same blood draw, would fit as well"


@pytest.fixture(scope="module")
def pairs(data_folder: Path) -> pl.DataFrame:
    """Every stand-in row beside every raw result of the same stay and hour, for the stays that both tables have."""
    folder = data_folder / "eicu-demo-2.0.1"
    columns = ["patientunitstayid", "labresultoffset", "labname", "labresult"]
    raw = pl.read_csv(folder / "lab_100_patients.csv.gz", columns=columns, infer_schema=False).select(
        stay=pl.col("patientunitstayid").cast(pl.Int64),
        hour=pl.col("labresultoffset").cast(pl.Int64) // 60,
        name="labname",
        raw=pl.col("labresult").cast(pl.Float64),
    )
    stand_in = pl.read_csv(folder / "lab_hourly.csv.gz", infer_schema_length=None).with_row_index("at")
    return stand_in.select("at", "hour", "value", stay="patientunitstayid", concept="lab").join(
        raw, on=["stay", "hour"]
    )
