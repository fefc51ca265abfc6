"""The eICU item list: made from the public demo only, and found again by name or code."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.data.sources.eicu_example import write_example
from tests.refused import refused
from twofold import Catalog
from twofold.data.sources.eicu import demo_catalog, drug_items, lab_items
from twofold.errors import CatalogError, DataError


def _medication(folder: Path, rows: list[tuple[int, str, object]]) -> Path:
    header = "patientunitstayid,drugordercancelled,drugname,drughiclseqno"
    lines = [f"{stay},No,{name},{code}" for stay, name, code in rows]
    (folder / "medication.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def _drugs(*rows: tuple[str, int | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"name": pl.String, "code": pl.Int64}, orient="row")


def test_brands_codes_and_spellings_meet(tmp_path: Path) -> None:
    rows = [
        (11, "ONDANSETRON 4 MG PO TBDP", 6055),
        (11, "ondansetron", 33598),  # another code, the same plain name: one item
        (12, "ONDANSETRON INJ", 6055),
        (12, "ZOFRAN", 6055),  # a brand goes where it is written most often
        (13, "ZOFRAN", 33598),
        (13, "ONDANSETRON", 33598),
        (13, "Mystery", ""),  # a name without a code
        (14, "", 77),  # a code without a name
    ]
    catalog = demo_catalog(_medication(write_example(tmp_path), rows))
    assert [item for item in catalog.items if item.startswith("drug:")] == [
        "drug:hicl 77",
        "drug:mystery",
        "drug:ondansetron",
    ]
    assert catalog.features is not None
    assert catalog.features.rows()[-1] == ("drug", "ondansetron|zofran", "6055|33598")
    found = drug_items(
        _drugs(("zofran", None), ("", 33598), ("unheard of", 77), ("mystery", 6055), ("unheard of", 1), ("", None)),
        catalog,
    )
    assert found.to_list() == [
        "drug:ondansetron",
        "drug:ondansetron",
        "drug:hicl 77",
        "drug:mystery",  # a known name counts more than the code beside it
        None,
        None,
    ]


def test_the_catch_all_code_is_no_code(tmp_path: Path) -> None:
    rows = [(11, "HumaLOG", 18084), (12, "LORazepam", 18084), (13, "", 18084), (14, "", 0)]
    catalog = demo_catalog(_medication(write_example(tmp_path), rows))
    assert [item for item in catalog.items if item.startswith("drug:")] == ["drug:humalog", "drug:lorazepam"]


def test_cancelled_orders_name_nothing(tmp_path: Path) -> None:
    assert "drug:heparin" not in demo_catalog(write_example(tmp_path)).items


def test_enough_people(tmp_path: Path) -> None:
    folder = write_example(tmp_path)
    assert list(demo_catalog(folder, min_people=2).items) == ["drug:acetaminophen"]
    with refused(DataError, "min_people"):
        demo_catalog(folder, min_people=0)


def test_only_the_demo_makes_a_catalog(tmp_path: Path) -> None:
    folder = write_example(tmp_path)
    lines = [f"{stay},59,p{stay}" for stay in range(2_521)]
    (folder / "patient.csv").write_text("\n".join(["patientunitstayid,hospitalid,uniquepid", *lines]) + "\n")
    with refused(CatalogError, "patient"):
        demo_catalog(folder)


def test_a_catalog_survives_the_disk(tmp_path: Path) -> None:
    catalog = demo_catalog(write_example(tmp_path))
    drugs = _drugs(("tylenol", None), ("", 182), ("", 1866), ("nothing", None))
    labs = pl.DataFrame({"name": ["lactate", "unheard of"]})
    for ending in ("csv", "parquet"):
        catalog.write(tmp_path / f"items.{ending}")
        again = Catalog.read(tmp_path / f"items.{ending}")
        assert again == catalog
        assert drug_items(drugs, again).to_list() == drug_items(drugs, catalog).to_list()
        assert lab_items(labs, again).to_list() == ["lab:lactate", None]


def test_a_bare_list_is_matched_by_its_names() -> None:
    catalog = Catalog(["lab:lactate", "drug:heparin"])
    assert drug_items(_drugs(("heparin", None), ("lactate", None), ("", 2810)), catalog).to_list() == [
        "drug:heparin",
        None,
        None,
    ]


def test_the_order_of_the_rows_does_not_matter(data_folder: Path, tmp_path: Path) -> None:
    folder = data_folder / "eicu-demo-2.0.1"
    for name in ("patient", "medication", "lab_hourly"):
        table = pl.read_csv(folder / f"{name}.csv.gz", infer_schema=False)
        table.sample(fraction=1, shuffle=True, seed=1).write_csv(tmp_path / f"{name}.csv")
    one, other = demo_catalog(folder), demo_catalog(tmp_path)
    assert one == other
    assert one.features is not None
    assert other.features is not None
    assert one.features.equals(other.features)


def test_the_demo(data_folder: Path) -> None:
    folder = data_folder / "eicu-demo-2.0.1"
    catalog = demo_catalog(folder)
    assert catalog.features is not None
    assert catalog.features["kind"].value_counts().sort("kind").rows() == [("drug", 940), ("lab", 39)]
    raw = demo_catalog(folder, labs="lab_100_patients")
    assert raw.features is not None
    assert (raw.features["kind"] == "lab").sum() == 123
    assert len(demo_catalog(folder, min_people=10)) < len(demo_catalog(folder, min_people=5)) < len(catalog)


def test_no_alias_and_no_code_leads_to_two_items(data_folder: Path) -> None:
    features = demo_catalog(data_folder / "eicu-demo-2.0.1").features
    assert features is not None
    for column in ("aliases", "codes"):
        keys = features.filter(pl.col("kind") == "drug")[column].str.split("|").explode()
        assert not keys.filter(keys != "").is_duplicated().any()
