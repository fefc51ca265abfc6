"""The eICU item list: made from the public demo, applied to any table.

An item is "lab:<name>" or "drug:<name>". Three feature columns say how rows find it: kind, aliases (plain names,
separated by "|") and codes (the publisher's drughiclseqno, separated by "|").
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from twofold.data.catalog import Catalog
from twofold.data.sources._eicu_tables import LabTable, choose_labs, read_drugs, read_labs, read_stays
from twofold.data.sources._published import EICU, find_folder
from twofold.errors import CatalogError, DataError

__all__ = ["check_catalog", "demo_catalog", "drug_items", "lab_items"]

DEMO_STAYS: Final = 2_520


def demo_catalog(folder: str | Path | None = None, *, min_people: int = 1, labs: LabTable | None = None) -> Catalog:
    """Make the item list of an eICU federation from the open demo.

    Privacy
    -------
    An item list read off private tables tells who was there: a drug given to one patient becomes a column. The demo is
    published under an open licence, so its items are public. Anything larger than the demo is refused.

    Parameters
    ----------
    folder : str or Path, optional
        Folder of the demo, by default ``$TWOFOLD_DATA/eicu-demo-2.0.1``.
    min_people : int, default 1
        Keep items that at least so many people of the demo have.
    labs : {"lab", "lab_hourly", "lab_100_patients"}, optional
        Which table names the labs; by default "lab" where it is, else "lab_hourly" (39 labs). "lab_100_patients" has
        123 names as in the full release.

    Returns
    -------
    Catalog
        Labs, then drugs, each in alphabetical order.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.data.sources._eicu_example import write_example
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = write_example(Path(name))
    ...     list(demo_catalog(folder).items)
    ['lab:creatinine', 'lab:lactate', 'drug:acetaminophen', 'drug:hicl 182']
    """
    path = find_folder(EICU, folder)
    if min_people < 1:
        raise DataError("min_people is not usable.", found=f"min_people={min_people}", expected="min_people >= 1")
    stays = read_stays(path)
    if stays.height > DEMO_STAYS:
        raise CatalogError(
            "a catalog can only be made from the open demo.",
            found="a patient table with more stays than the demo has",
            expected=f"at most {DEMO_STAYS:,} stays",
            fix="make the catalog from the demo: eicu.demo_catalog(folder of the demo)",
        )
    table, _ = choose_labs(path, labs)
    lab_rows = read_labs(path, table).with_columns(item=pl.lit("lab:") + pl.col("name"), code=pl.lit(None, pl.Int64))
    drug_rows = _label_drugs(read_drugs(path))
    kinds = [_items(rows, stays, min_people, kind) for rows, kind in ((lab_rows, "lab"), (drug_rows, "drug"))]
    items = pl.concat(kinds)
    return Catalog(items["item"], items.select("kind", "aliases", "codes"))


def check_catalog(catalog: Catalog) -> None:
    """Refuse a list that no row of eICU could match."""
    ids = catalog.items.to_polars()
    if ids.dtype != pl.String or not ids.str.contains("^(lab|drug):.").any():
        raise CatalogError(
            "this is not a list of labs and drugs.",
            expected="ids such as 'lab:creatinine' and 'drug:heparin'",
            fix="catalog=eicu.demo_catalog(folder of the demo), or a list of such ids",
        )


def lab_items(labs: pl.DataFrame, catalog: Catalog) -> pl.Series:
    """The item of every lab row, null where the catalog has none."""
    return _find(labs["name"], _keys(catalog, "lab", "aliases"))


def drug_items(drugs: pl.DataFrame, catalog: Catalog) -> pl.Series:
    """The item of every drug row: by its name if the catalog knows it, else by its code, else null."""
    by_name = _find(drugs["name"], _keys(catalog, "drug", "aliases"))
    by_code = _find(drugs["code"].cast(pl.String), _keys(catalog, "drug", "codes"))
    return by_name.zip_with(by_name.is_not_null(), by_code)


def _label_drugs(drugs: pl.DataFrame) -> pl.DataFrame:
    """Decide the item of every drug row of the public table.

    A code is called by the name most often written with it; a name that is not itself such a label (a brand, a
    variant) goes to the label it is most often written with; a code that never has a name is called by its number.
    """
    named = drugs.filter((pl.col("name") != "") & pl.col("code").is_not_null())
    labels = _most_common(named, "code", "name").rename({"name": "label"})
    brands = _most_common(named.join(labels, on="code"), "name", "label").rename({"label": "home"})
    brands = brands.filter(~pl.col("name").is_in(labels["label"].implode()))
    rows = drugs.join(labels, on="code", how="left").join(brands, on="name", how="left")
    by_name = pl.coalesce("home", pl.col("name").replace("", None))
    by_code = pl.coalesce("label", pl.lit("hicl ") + pl.col("code").cast(pl.String))
    return rows.with_columns(item=pl.lit("drug:") + pl.coalesce(by_name, by_code)).drop("label", "home")


def _most_common(rows: pl.DataFrame, key: str, value: str) -> pl.DataFrame:
    """The most frequent value of every key; the first in the alphabet among equals."""
    counts = rows.group_by(key, value).agg(pl.col("n").sum()).sort([key, "n", value], descending=[False, True, False])
    return counts.unique(key, keep="first", maintain_order=True).select(key, value)


def _items(rows: pl.DataFrame, stays: pl.DataFrame, min_people: int, kind: str) -> pl.DataFrame:
    """Item, kind, aliases and codes of the items that enough people have."""
    aliases = pl.col("name").replace("", None).drop_nulls().unique().sort().str.join("|")
    seen = rows.drop_nulls("item").join(stays, on="stay").group_by("item")
    found = seen.agg(pl.col("person").n_unique().alias("people"), aliases.alias("aliases"))
    # Every code belongs to one item: the one its rows most often are.
    homes = _most_common(rows.drop_nulls(["code", "item"]), "code", "item").group_by("item")
    codes = homes.agg(pl.col("code").sort().cast(pl.String).str.join("|").alias("codes"))
    kept = found.filter(pl.col("people") >= min_people).join(codes, on="item", how="left").sort("item")
    return kept.select("item", pl.lit(kind).alias("kind"), "aliases", pl.col("codes").fill_null(""))


def _keys(catalog: Catalog, kind: str, column: str) -> pl.DataFrame:
    """Key and item, one row per key; a catalog without features is matched by the names in its ids."""
    items = catalog.items.to_polars().cast(pl.String).alias("item").to_frame()
    prefix = f"{kind}:"
    if catalog.features is None or column not in catalog.features.columns:
        keys = pl.col("item").str.strip_prefix(prefix) if column == "aliases" else pl.lit(None, pl.String)
        table = items.with_columns(key=keys)
    else:
        table = items.with_columns(key=catalog.features[column].cast(pl.String).str.split("|")).explode("key")
    mine = table.filter(pl.col("item").str.starts_with(prefix) & (pl.col("key").fill_null("") != ""))
    return mine.unique("key", keep="first", maintain_order=True)


def _find(column: pl.Series, keys: pl.DataFrame) -> pl.Series:
    if keys.height == 0:
        return pl.Series([None] * len(column), dtype=pl.String)
    return column.replace_strict(keys["key"], keys["item"], default=None, return_dtype=pl.String)
