"""eICU: people by labs and drugs, counted, cut into hospitals or regions.

Reads the tables patient, hospital, lab and medication of the credentialed release 2.0 and of the open demo.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import polars as pl
from scipy import sparse

from twofold.data.catalog import Catalog
from twofold.data.federation import Federation
from twofold.data.identifiers import Identifiers
from twofold.data.ratings import Notes, Ratings
from twofold.data.sources._eicu_catalog import check_catalog, demo_catalog, drug_items, lab_items
from twofold.data.sources._eicu_tables import (
    LabTable,
    choose_labs,
    read_drugs,
    read_labs,
    read_regions,
    read_stays,
)
from twofold.data.sources._published import EICU, find_folder, find_table
from twofold.errors import DataError, UnreadableSource

__all__ = ["Entity", "Facts", "LabTable", "Row", "StandInWarning", "demo_catalog", "facts", "load"]

Row = Literal["person", "stay"]
Entity = Literal["hospital", "region"]
ROWS: Final = ("person", "stay")
ENTITIES: Final = ("hospital", "region")
RAW_LABS: Final[tuple[LabTable, ...]] = ("lab", "lab_100_patients")


class StandInWarning(UserWarning):
    """The lab table was not there and the hourly stand-in was read instead; its counts are about half as large."""


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
    >>> from twofold.data.sources._eicu_example import write_example
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = write_example(Path(name))
    ...     federation = load(folder, catalog=demo_catalog(folder))
    >>> federation
    Federation(2 entities of 1 to 2 users, 3 users, 4 of 4 items rated, 5 entries, counts)
    >>> federation[59].of("002-1")
    {'lab:creatinine': 2.0, 'drug:acetaminophen': 2.0}
    """
    if row not in ROWS or entity not in ENTITIES:
        raise DataError("unknown row or entity.", expected="row='person' or 'stay', entity='hospital' or 'region'")
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
        """One line per fact."""
        values = self.__dict__.items()
        return "\n".join(f"{name.replace('_', ' '):<28}{value:>8}" for name, value in values)


def facts(folder: str | Path | None = None, *, labs: LabTable | None = None) -> Facts:
    """Count what an eICU folder holds, to compare with what its publisher says.

    Parameters
    ----------
    folder : str or Path, optional
        Folder of the tables, by default the open demo.
    labs : {"lab", "lab_hourly", "lab_100_patients"}, optional
        Table of labs, chosen as in `load`; `Facts.lab_table` records which it was.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.data.sources._eicu_example import write_example
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
        raise UnreadableSource("the patient table has no stays.", expected="at least one")
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
    """How many rows each entity had in the tables, and how many of them no item took."""
    unknown = pl.col("n").filter(pl.col("item").is_null()).sum().alias("unknown")
    found = rows.group_by("entity").agg(pl.col("n").sum().alias("rows"), unknown)
    return {name: Notes(rows=n, unknown_items_dropped=dropped) for name, n, dropped in found.iter_rows()}
