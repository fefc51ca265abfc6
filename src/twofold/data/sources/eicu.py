"""eICU: people by labs and drugs, counted, cut into hospitals or regions.

Reads the tables patient, hospital, lab and medication of the credentialed release 2.0 and of the open demo. The item
list is made from the public demo and applied to any table: an item is "lab:<name>" or "drug:<name>", and three feature
columns say how rows find it: kind, aliases (plain names, separated by "|") and codes (the publisher's drughiclseqno,
separated by "|").
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import polars as pl
from scipy import sparse

from twofold.checks import whole
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Notes, Ratings
from twofold.data.sources.eicu_tables import LabTable, choose_labs, read_drugs, read_labs, read_regions, read_stays
from twofold.data.sources.published import EICU, find_folder, find_table
from twofold.errors import CatalogError, DataError, UnreadableSource

__all__ = [
    "Entity",
    "Facts",
    "LabTable",
    "Row",
    "StandInWarning",
    "check_catalog",
    "demo_catalog",
    "drug_items",
    "facts",
    "lab_items",
    "load",
]

Row = Literal["person", "stay"]
Entity = Literal["hospital", "region"]
ROWS: Final = ("person", "stay")
ENTITIES: Final = ("hospital", "region")
DEMO_STAYS: Final = 2_520
RAW_LABS: Final[tuple[LabTable, ...]] = ("lab", "lab_100_patients")


class StandInWarning(UserWarning):
    """The lab table is missing, so the hourly table was read instead; its counts are about half as large."""


def load(
    folder: str | Path | None = None,
    *,
    catalog: Catalog | None = None,
    row: Row = "person",
    entity: Entity = "hospital",
    labs: LabTable | None = None,
) -> Federation:
    """Read eICU as the paper's table: how often each lab was taken and each drug ordered.

    Paper
    -----
    Section 5.2: rows are patients, columns labs and medicines, entries counts, entities hospitals. "We count each
    patient visit as a separate observation": that is ``row="stay"``.

    Privacy
    -------
    The default row is a person, because a person is what the promise hides; with ``row="stay"`` someone with three
    stays is three rows. Someone seen in two hospitals is a row in each, and each hospital's promise covers its own row.
    The columns come from `catalog`, never from the tables read here; rows of other items are left out, and
    ``ratings.notes`` of each entity has their number.

    Deviations
    ----------
    The paper's 457 columns are not published. Ours are the demo's items under the rules of docs/decisions/0004: plain
    names, cancelled orders left out, one count per order (not per dose given).

    Parameters
    ----------
    folder : str or Path, optional
        Folder with patient, medication, lab (and hospital for regions) as .csv or .csv.gz. By default the open demo,
        ``$TWOFOLD_DATA/eicu-demo-2.0.1``.
    catalog : Catalog, optional
        The public item list. By default that of the demo below TWOFOLD_DATA, whatever `folder` is.
    row : {"person", "stay"}
        Whose counts a row holds: a person's (uniquepid) or a unit stay's (patientunitstayid).
    entity : {"hospital", "region"}
        Hospital id, or the region of the hospital ("unknown" where none is given).
    labs : {"lab", "lab_hourly", "lab_100_patients"}, optional
        Table of labs. By default "lab"; where it is missing, "lab_hourly" with a StandInWarning. Naming the table
        keeps the warning away.

    Returns
    -------
    Federation
        Everyone in the patient table, those without an entry included.

    Examples
    --------
    >>> import tempfile
    >>> from tests.data.sources.eicu_example import write_example
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = write_example(Path(name))
    ...     federation = load(folder, catalog=demo_catalog(folder))
    >>> federation
    Federation(2 entities of 1 to 2 users, 3 users, 4 of 4 items rated, 5 entries, counts)
    >>> federation[59].of("002-1")
    {'lab:creatinine': 2.0, 'drug:acetaminophen': 2.0}
    """
    if row not in ROWS or entity not in ENTITIES:
        raise DataError(
            "unknown row or entity.", expected="row='person' or 'stay', entity='hospital' or 'region'", parameter="row"
        )
    path = find_folder(EICU, folder)
    table = _lab_table(path, labs)
    catalog = _default_catalog(table) if catalog is None else catalog
    check_catalog(catalog)
    visits = _visits(path, row, entity)
    lab_rows, drug_rows = read_labs(path, table), read_drugs(path)
    rows = pl.concat(
        [
            lab_rows.select("stay", "n", item=lab_items(lab_rows, catalog)),
            drug_rows.select("stay", "n", item=drug_items(drug_rows, catalog)),
        ]
    )
    return _federate(rows.join(visits, on="stay"), visits, catalog)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Sizes of an eICU folder. Public for the demo; private for anything else."""

    stays: int
    people: int
    people_in_several_hospitals: int
    hospitals: int
    fewest_stays: int
    most_stays: int
    lab_table: LabTable
    labs: int
    stays_with_labs: int
    hospitals_with_labs: int
    drug_orders: int
    stays_with_drugs: int

    def __str__(self) -> str:
        """Give one line per fact."""
        values = self.__dict__.items()
        return "\n".join(f"{name.replace('_', ' '):<28}{value:>8}" for name, value in values)


def facts(folder: str | Path | None = None, *, labs: LabTable | None = None) -> Facts:
    """Count the contents of an eICU folder, to compare with the publisher's figures.

    Parameters
    ----------
    folder : str or Path, optional
        Folder of the tables, by default the open demo.
    labs : {"lab", "lab_hourly", "lab_100_patients"}, optional
        Table of labs, chosen as in `load`; `Facts.lab_table` records which it was.

    Examples
    --------
    >>> import tempfile
    >>> from tests.data.sources.eicu_example import write_example
    >>> with tempfile.TemporaryDirectory() as name:
    ...     found = facts(write_example(Path(name)))
    >>> found.stays, found.people, found.hospitals, found.lab_table
    (4, 3, 2, 'lab')
    """
    path = find_folder(EICU, folder)
    table = _lab_table(path, labs)
    stays, lab_rows, drug_rows = read_stays(path), read_labs(path, table), read_drugs(path)
    sizes = stays.group_by("hospital").len()["len"].to_numpy()
    seen = stays.join(lab_rows, on="stay", how="semi")
    spread = stays.group_by("person").agg(pl.col("hospital").n_unique())["hospital"]
    return Facts(
        stays=stays.height,
        people=stays["person"].n_unique(),
        people_in_several_hospitals=int((spread > 1).sum()),
        hospitals=len(sizes),
        fewest_stays=int(sizes.min(initial=stays.height)),
        most_stays=int(sizes.max(initial=0)),
        lab_table=table,
        labs=lab_rows["name"].n_unique(),
        stays_with_labs=seen.height,
        hospitals_with_labs=seen["hospital"].n_unique(),
        drug_orders=int(drug_rows["n"].sum()),
        stays_with_drugs=stays.join(drug_rows, on="stay", how="semi").height,
    )


def _lab_table(folder: Path, labs: LabTable | None) -> LabTable:
    table, unasked = choose_labs(folder, labs)
    if unasked:
        warnings.warn(
            "no lab table in the folder: read lab_hourly instead (one row per stay, hour and lab, 39 labs, about half "
            "the raw counts); pass labs='lab_hourly' to say that this is meant",
            StandInWarning,
            stacklevel=3,
        )
    return table


def _default_catalog(table: LabTable) -> Catalog:
    """From the demo below TWOFOLD_DATA; for raw lab names, from the widest list of them the demo folder has."""
    demo = find_folder(EICU)
    raw = next((name for name in RAW_LABS if find_table(demo, name) is not None), None)
    return demo_catalog(demo, labs="lab_hourly" if table == "lab_hourly" else raw)


def _visits(folder: Path, row: Row, entity: Entity) -> pl.DataFrame:
    """Stay, user, entity and the number of the (entity, user) pair, in order."""
    stays = read_stays(folder)
    if entity == "region":
        stays = stays.join(read_regions(folder, stays["hospital"]), on="hospital", how="left")
        stays = stays.with_columns(pl.col("region").fill_null("unknown"))
    if stays.height == 0:
        raise UnreadableSource("the patient table has no stays.", expected="at least one", parameter="patient")
    visits = stays.select("stay", user=row, entity=entity)
    pairs = visits.select("entity", "user").unique().sort("entity", "user").with_row_index("row")
    return visits.join(pairs, on=["entity", "user"])


def _federate(rows: pl.DataFrame, visits: pl.DataFrame, catalog: Catalog) -> Federation:
    """One matrix over all (entity, user) pairs, which are in order of entities, then cut."""
    pairs = visits.select("row", "entity", "user").unique().sort("row")
    matrix = _matrix(rows.drop_nulls("item"), (pairs.height, len(catalog)), catalog)
    notes = _notes(rows)
    entities = {}
    for (name,), part in pairs.group_by("entity", maintain_order=True):
        mine = matrix[part["row"][0] : part["row"][-1] + 1]
        entities[name] = Ratings(mine, Identifiers(part["user"]), catalog, "counts", notes.get(name, Notes()))
    return Federation(entities)


def _matrix(rows: pl.DataFrame, shape: tuple[int, int], catalog: Catalog) -> sparse.csr_array:
    counts, columns = rows["n"].cast(pl.Float32).to_numpy(), catalog.items.encode(rows["item"])
    matrix = sparse.coo_array((counts, (rows["row"].to_numpy(), columns)), shape=shape).tocsr()
    matrix.sum_duplicates()
    return matrix


def _notes(rows: pl.DataFrame) -> dict[object, Notes]:
    """Number of rows of each entity in the tables, and of those without an item."""
    unknown = pl.col("n").filter(pl.col("item").is_null()).sum().alias("unknown")
    found = rows.group_by("entity").agg(pl.col("n").sum().alias("rows"), unknown)
    return {name: Notes(rows=n, unknown_items_dropped=dropped) for name, n, dropped in found.iter_rows()}


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
        Keep items that at least this many people of the demo have.
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
    >>> from tests.data.sources.eicu_example import write_example
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = write_example(Path(name))
    ...     list(demo_catalog(folder).items)
    ['lab:creatinine', 'lab:lactate', 'drug:acetaminophen', 'drug:hicl 182']
    """
    path = find_folder(EICU, folder)
    whole("min_people", min_people, error=DataError)
    stays = read_stays(path)
    if stays.height > DEMO_STAYS:
        raise CatalogError(
            "a catalog can only be made from the open demo.",
            found="a patient table with more stays than the demo has",
            expected=f"at most {DEMO_STAYS:,} stays",
            fix="make the catalog from the demo: eicu.demo_catalog(folder of the demo)",
            parameter="patient",
        )
    table, _ = choose_labs(path, labs)
    lab_rows = read_labs(path, table).with_columns(item=pl.lit("lab:") + pl.col("name"), code=pl.lit(None, pl.Int64))
    drug_rows = _label_drugs(read_drugs(path))
    kinds = [_items(rows, stays, min_people, kind) for rows, kind in ((lab_rows, "lab"), (drug_rows, "drug"))]
    items = pl.concat(kinds)
    return Catalog(items["item"], items.select("kind", "aliases", "codes"))


def check_catalog(catalog: Catalog) -> None:
    """Refuse a list that no eICU row could match."""
    ids = catalog.items.to_polars()
    if ids.dtype != pl.String or not ids.str.contains("^(lab|drug):.").any():
        raise CatalogError(
            "this is not a list of labs and drugs.",
            expected="ids such as 'lab:creatinine' and 'drug:heparin'",
            fix="catalog=eicu.demo_catalog(folder of the demo), or a list of such ids",
            parameter="catalog",
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
