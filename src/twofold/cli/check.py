"""`twofold check`: look at one entity's table before anything is spent."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from typing import Annotated, Literal, cast

import typer
from rich.console import Console
from rich.table import Table

from twofold.cli.options import CatalogFile, DataFile, ItemColumn, Json, Separator, UserColumn, ValueColumn
from twofold.data.bounds import Bounds, BoundsReport
from twofold.data.catalog import Catalog
from twofold.data.ratings import Feedback, Ratings
from twofold.data.read import DuplicateRule, UnknownRule, read_ratings
from twofold.errors import BadBound

__all__ = ["check"]

WARNING = (
    "These figures come from private data: keep them here. Agree on bounds from public knowledge; "
    "a bound chosen by looking at this table would itself reveal something about the people in it."
)


def check(
    data: DataFile,
    catalog: CatalogFile,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    feedback: Annotated[str, typer.Option(help="ratings or counts.")] = "counts",
    duplicates: Annotated[str, typer.Option(help="error, sum, mean or last.")] = "error",
    unknown_items: Annotated[str, typer.Option(help="error or drop.")] = "error",
    bound: Annotated[float | None, typer.Option(help="Largest value a user may contribute to an item.")] = None,
    max_items: Annotated[int | None, typer.Option(help="Most items a user may contribute.")] = None,
    l1: Annotated[float | None, typer.Option(help="Cap on the sum of a user's values.")] = None,
    l2: Annotated[float | None, typer.Option(help="Cap on the Euclidean norm of a user's values.")] = None,
    separator: Separator = ",",
    json: Json = False,
) -> None:
    """Read a table as the federation would and show what public bounds would cut. Spends nothing."""
    ratings = read_ratings(
        data,
        Catalog.read(catalog),
        user=user,
        item=item,
        value=None if value == "none" else value,
        feedback=cast(Feedback, feedback),
        duplicates=cast(DuplicateRule, duplicates),
        unknown_items=cast(UnknownRule, unknown_items),
        separator=separator,
    )
    cuts = [(bounds, bounds.apply(ratings)[1]) for bounds in _candidates(bound, max_items, l1, l2)]
    if json:
        typer.echo(jsonlib.dumps(_as_json(ratings, cuts), indent=2))
    else:
        _print(ratings, cuts)


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
    console.print(f"{ratings!r}: {ratings.n_entries:,} entries from {notes.rows:,} rows", highlight=False)
    merged, dropped = notes.duplicates_merged, notes.unknown_items_dropped
    console.print(f"{merged:,} duplicate rows merged, {dropped:,} rows of unknown items dropped", highlight=False)
    table = Table(title="What public bounds would cut (shown only here)")
    for name in ("bound", "max items", "norm cap", "entries clipped", "entries dropped", "users scaled", "mass kept"):
        table.add_column(name, justify="right")
    for bounds, report in cuts:
        table.add_row(*_row(bounds, report))
    console.print(table)
    console.print(WARNING, highlight=False)


def _row(bounds: Bounds, report: BoundsReport) -> list[str]:
    cap = "-" if bounds.norm_cap is None else f"{bounds.norm} {bounds.norm_cap:g}"
    most = "-" if bounds.max_items is None else str(bounds.max_items)
    shares = (report.entries_clipped, report.entries_dropped, report.users_scaled, report.mass_kept)
    return [f"{bounds.bound:g}", most, cap, *(f"{share:.1%}" for share in shares)]
