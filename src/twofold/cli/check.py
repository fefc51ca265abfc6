"""`twofold check`: look at one entity's table before anything is spent."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.table import Table

from twofold.cli.formats import Events, Rows, with_formats
from twofold.cli.options import (
    DataFile,
    Decimal,
    Encoding,
    ItemColumn,
    Json,
    Missing,
    Separator,
    UserColumn,
    ValueColumn,
    note_few,
    read_agreed,
    read_catalog,
    read_items,
    read_table,
)
from twofold.data.bounds import Bounds, BoundsReport
from twofold.data.catalog import Catalog
from twofold.data.ratings import Feedback, Ratings
from twofold.data.read import read_ratings
from twofold.errors import BadBound
from twofold.federation.plan import Plan

__all__ = ["check"]

WARNING = (
    "These figures come from private data: keep them here. Agree on bounds from public knowledge; "
    "a bound chosen by looking at this table would itself reveal something about the people in it."
)


@with_formats
def check(
    data: DataFile,
    catalog: Annotated[
        Path | None, typer.Option("--catalog", help="The agreed item list; by default the file the plan names.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="The plan: its item list, kind of values and bounds.")
    ] = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    feedback: Annotated[str, typer.Option(help="counts or ratings; a plan says which.")] = "counts",
    duplicates: Annotated[str, typer.Option(help="error, sum, mean or last.")] = "error",
    unknown_items: Annotated[str, typer.Option(help="error or drop.")] = "error",
    missing: Missing = "error",
    bound: Annotated[float | None, typer.Option(help="Largest value a user may contribute to an item.")] = None,
    max_items: Annotated[int | None, typer.Option(help="Most items a user may contribute.")] = None,
    l1: Annotated[float | None, typer.Option(help="Cap on the sum of a user's values.")] = None,
    l2: Annotated[float | None, typer.Option(help="Cap on the Euclidean norm of a user's values.")] = None,
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    json: Json = False,
) -> None:
    """Read a table as the federation would and show what public bounds would cut. Spends nothing.

    With --plan: exactly as release and join would read and cut it.

    Examples
    --------
    twofold check visits.csv --plan plan.toml
    twofold check visits.parquet --catalog items.csv --user patient --item code --value none --duplicates sum
    zcat visits.csv.gz | twofold check - --plan plan.toml
    twofold check --meds meds --codes LAB// --plan plan.toml
    twofold check --omop cdm.duckdb --table drug_exposure='ATC 3rd' --plan plan.toml --show-sql
    """
    rules = {"user": user, "item": item, "duplicates": duplicates, "unknown_items": unknown_items}
    rules |= {"separator": separator, "encoding": encoding, "decimal": decimal, "missing": missing}
    asked = _candidates(bound, max_items, l1, l2)
    if plan is not None:
        agreed = read_agreed(plan)
        ratings = read_table(data, agreed, read_catalog(agreed, plan, catalog, encoding=encoding), value=value, **rules)
        if not json:
            note_few(agreed, ratings)
        if (bound, max_items, l1, l2) == (None, None, None, None):
            asked = [_bounds_of(agreed)]
    elif catalog is None:
        raise typer.BadParameter("one of them says which items there are", param_hint="--plan or --catalog")
    else:
        items = read_items(catalog, encoding=encoding)
        ratings = _read(data, items, feedback, {**rules, "value": None if value == "none" else value})
    cuts = [(bounds, bounds.apply(ratings)[1]) for bounds in asked]
    if json:
        typer.echo(jsonlib.dumps(_as_json(ratings, cuts), indent=2))
    else:
        _print(ratings, cuts)


def _read(data: Rows, items: Catalog, feedback: str, rules: dict[str, Any]) -> Ratings:
    kind = cast(Feedback, feedback)
    return data.read(items, kind) if isinstance(data, Events) else read_ratings(data, items, feedback=kind, **rules)


def _bounds_of(plan: Plan) -> Bounds:
    """The plan's own bounds; with both caps on norms, that of the sum."""
    norm: Literal["l1", "l2"] | None = "l1" if plan.l1_cap is not None else "l2" if plan.l2_cap is not None else None
    return Bounds(
        bound=plan.bound,
        lower=plan.lower,
        max_items=plan.max_items,
        seed=plan.seed,
        norm=norm,
        norm_cap=plan.l1_cap if plan.l1_cap is not None else plan.l2_cap,
    )


def _candidates(bound: float | None, max_items: int | None, l1: float | None, l2: float | None) -> list[Bounds]:
    """Give the requested bounds; without any, a public ladder that shows the scale of the data."""
    if l1 is not None and l2 is not None:
        raise BadBound("two norms were given.", expected="either --l1 or --l2", parameter="l2")
    norm: Literal["l1", "l2"] | None = "l1" if l1 is not None else "l2" if l2 is not None else None
    cap = l1 if l1 is not None else l2
    if (bound, max_items, norm) != (None, None, None):
        return [Bounds(bound=bound if bound is not None else 1e7, max_items=max_items, norm=norm, norm_cap=cap)]
    return [Bounds(bound=b, max_items=m) for b in (1, 5, 20) for m in (20, 60, 200)]


def _as_json(ratings: Ratings, cuts: list[tuple[Bounds, BoundsReport]]) -> dict[str, object]:
    return {
        "warning": WARNING,
        "users": ratings.n_users,
        "items": ratings.n_items,
        "entries": ratings.n_entries,
        "notes": asdict(ratings.notes),
        "bounds": [{**asdict(bounds), **asdict(report), "mass_kept": report.mass_kept} for bounds, report in cuts],
    }


def _print(ratings: Ratings, cuts: list[tuple[Bounds, BoundsReport]]) -> None:
    console = Console()
    notes = ratings.notes
    entries, rows = _counted(ratings.n_entries, "entry", "entries"), _counted(notes.rows, "row", "rows")
    console.print(f"{ratings!r}: {entries} from {rows}", highlight=False)
    merged, dropped = notes.duplicates_merged, notes.unknown_items_dropped
    console.print(f"{merged:,} duplicate rows merged, {dropped:,} rows of unknown items dropped", highlight=False)
    if notes.missing_dropped:
        console.print(f"{notes.missing_dropped:,} rows without a user, an item or a value dropped", highlight=False)
    table = Table(title="What public bounds would cut (shown only here)")
    for name in ("bound", "max items", "norm cap", "entries clipped", "entries dropped", "users scaled", "mass kept"):
        table.add_column(name, justify="right")
    for bounds, report in cuts:
        table.add_row(*_row(bounds, report))
    console.print(table)
    console.print(WARNING, highlight=False)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _row(bounds: Bounds, report: BoundsReport) -> list[str]:
    cap = "-" if bounds.norm_cap is None else f"{bounds.norm} {bounds.norm_cap:g}"
    most = "-" if bounds.max_items is None else str(bounds.max_items)
    shares = (report.entries_clipped, report.entries_dropped, report.users_scaled, report.mass_kept)
    return [f"{bounds.bound:g}", most, cap, *(f"{share:.1%}" for share in shares)]
