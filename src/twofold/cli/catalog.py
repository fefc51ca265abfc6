"""`twofold catalog`: make an item list from a public vocabulary, never from people's data."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from twofold.cli.formats import classes
from twofold.cli.options import ForceOption, Json, refuse_output
from twofold.cli.render import say
from twofold.data.files import write_file
from twofold.errors import DataError

if TYPE_CHECKING:
    from twofold.data.catalog import Catalog
    from twofold.features import Features

__all__ = ["app"]

Output = Annotated[Path, typer.Option("--output", "-o", help="The item list, such as items.csv.")]
Public = Annotated[
    bool, typer.Option("--public", help="You know that this list is public, and not made from your people's data.")
]

app = typer.Typer(no_args_is_help=True, help="Make an item list, with titles, from a public vocabulary.")


@app.command("meds")
def meds(
    source: Annotated[
        Path, typer.Argument(help="A list of codes (Parquet or CSV: code, description), or a MEDS folder.")
    ],
    output: Output,
    codes: Annotated[
        list[str] | None, typer.Option("--codes", help="Only codes that begin so, as LAB//; repeat for more.")
    ] = None,
    public: Public = False,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Make an item list of MEDS codes, with their descriptions as titles.

    The codes.parquet of your own data set lists the codes your people have: it is private. Take a published list.

    Examples
    --------
    twofold catalog meds loinc_codes.csv --codes LOINC/ --public -o items.csv
    twofold catalog meds mimic-iv-demo-meds --codes LAB// --codes PROCEDURE// --public -o items.csv
    """
    from twofold.data.formats.meds import meds_catalog

    _refuse(output, (source,), force=force)
    _write(meds_catalog(source, codes=codes or (), public=public), output, json=json)


@app.command("omop")
def omop(
    source: Annotated[str, typer.Argument(help="An OMOP database: a URL, or a SQLite or DuckDB file.")],
    output: Output,
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="A table, and the class of its items: drug_exposure='ATC 3rd'; repeat. Without one, drug_exposure."
        ),
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Also write a table of what the items are, for `twofold plan new --features`.")
    ] = None,
    classes_: Annotated[
        list[str] | None, typer.Option("--classes", help="Classes for --features, as 'ATC 3rd'; repeat for more.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Schema of the tables.")] = None,
    vocabulary: Annotated[str | None, typer.Option(help="Schema of the vocabulary, if it is another.")] = None,
    public: Public = False,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Make an item list of the concepts of a vocabulary, with their names as titles. Reads no table of people.

    A database may hold only the concepts that its people need: such a list is private. Take a whole vocabulary.

    Examples
    --------
    twofold catalog omop cdm.duckdb --table drug_exposure=Ingredient --public -o items.csv
    twofold catalog omop cdm.duckdb --classes 'ATC 3rd' --features kinds.csv --public -o items.csv
    twofold catalog omop postgresql://me@cdm/omop --schema vocabulary --table drug_exposure --table measurement
      --public -o items.csv
    """
    from twofold.data.formats.omop import omop_catalog, omop_features

    if (features is None) != (not classes_):
        raise typer.BadParameter("--classes and --features go together", param_hint="--features")
    where = {"schema": schema, "vocabulary": vocabulary}
    inputs = (Path(source.rpartition(":///")[2]),)
    _refuse(output, inputs, force=force)
    if features is not None:
        _refuse(features, (*inputs, output), force=force, parameter="features")
    made = omop_catalog(source, tables=classes(table), public=public, **where)
    kinds = None if features is None else omop_features(source, made, classes_ or (), **where)
    if features is not None and kinds is not None:
        write_file(_classes_of(made, kinds), features)
    _write(made, output, json=json, features=features, kinds=kinds)


@app.command("recbole")
def recbole(
    source: Annotated[Path, typer.Argument(help="An .item file of RecBole.")],
    output: Output,
    title: Annotated[str | None, typer.Option(help="Column of the titles, without its type.")] = None,
    public: Public = False,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Make an item list from the .item file of a published data set.

    Example: twofold catalog recbole ml-100k.item --public -o items.csv
    """
    from twofold.data.formats.recbole import recbole_catalog

    _refuse(output, (source,), force=force)
    _write(recbole_catalog(source, title=title, public=public), output, json=json)


def _refuse(output: Path, inputs: tuple[Path, ...], *, force: bool, parameter: str = "output") -> None:
    if output.suffix not in (".csv", ".parquet", ".pq"):
        raise DataError(
            "the ending of the file is unknown.",
            found=output.suffix or "none",
            expected=".csv or .parquet",
            parameter=parameter,
        )
    refuse_output(output, inputs, force=force, parameter=parameter)


def _classes_of(catalog: Catalog, kinds: Features) -> pl.DataFrame:
    """The table of features as people read it: an item and its classes."""
    words = ["|".join(name for name, held in zip(kinds.names, row, strict=True) if held) for row in kinds.matrix]
    return pl.DataFrame({"item": catalog.items.to_polars(), "classes": words})


def _write(
    catalog: Catalog, output: Path, *, json: bool, features: Path | None = None, kinds: Features | None = None
) -> None:
    catalog.write(output)
    record: dict[str, Any] = {"file": output.name, "items": len(catalog), "hash": catalog.hash}
    if features is not None and kinds is not None:
        record |= {"features": features.name, "classes": kinds.n_features, "described": kinds.described}
    if json:
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    say(f"{output}: {len(catalog):,} items, hash {catalog.hash[:12]}")
    if kinds is not None:
        say(f"{features}: {kinds.n_features:,} classes of {kinds.described:,} items")
