"""Options and inputs that the verbs of the two rounds share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from twofold.cli._shell_words import shell_words
from twofold.data.catalog import Catalog
from twofold.data.ratings import Ratings
from twofold.data.read import DuplicateRule, UnknownRule, read_ratings
from twofold.errors import CatalogError, DataError, LedgerBroken, PlanMismatch
from twofold.privacy.budget import NotPrivate
from twofold.privacy.ledger import Ledger
from twofold.protocol.plan import Plan
from twofold.protocol.plan_file import catalog_path

__all__ = [
    "CatalogOption",
    "DataOption",
    "Duplicates",
    "EntityName",
    "Local",
    "PlanOption",
    "Strength",
    "UnknownItems",
    "open_ledger",
    "read_catalog",
    "read_table",
    "refuse_output",
    "strength_of",
]

PlanOption = Annotated[Path, typer.Option("--plan", help="The plan all sides agreed on (TOML).")]
DataOption = Annotated[Path, typer.Option("--data", help="CSV, CSV.gz or Parquet, one row per user and item.")]
CatalogOption = Annotated[
    Path | None, typer.Option("--catalog", help="The agreed item list; by default the file the plan names.")
]
EntityName = Annotated[
    str | None, typer.Option("--entity", help="This entity's public name; by default the name of the output file.")
]
Duplicates = Annotated[str, typer.Option(help="Several rows for one user and item: error, sum, mean or last.")]
UnknownItems = Annotated[str, typer.Option(help="Rows whose item is not in the catalog: error or drop.")]
Local = Annotated[str, typer.Option(help="Local model: auto, factors, item-item, patterns or features.")]
Strength = Annotated[
    str, typer.Option(help="How far it is drawn to the shared factors: auto, own, shared or a number.")
]


def read_catalog(plan: Plan, plan_file: Path, catalog: Path | None) -> Catalog:
    """Read the item list and check that it is the plan's."""
    path = catalog or catalog_path(plan_file)
    if path is None:
        raise CatalogError("the plan names no catalog file.", fix="--catalog items.csv")
    found = Catalog.read(path)
    if found.hash != plan.catalog.hash:
        raise PlanMismatch(
            "this is another item list than the plan's.",
            found=f"{len(found):,} items, hash {found.hash[:12]}",
            expected=f"{plan.n_items:,} items, hash {plan.catalog.hash[:12]}",
            fix="--catalog FILE with the agreed list, in the agreed order",
        )
    return found


def read_table(
    data: Path,
    plan: Plan,
    catalog: Catalog,
    *,
    user: str,
    item: str,
    value: str,
    duplicates: str,
    unknown_items: str,
    separator: str,
) -> Ratings:
    """Read an entity's table the way the plan says."""
    with shell_words():
        return read_ratings(
            data,
            catalog,
            user=user,
            item=item,
            value=None if value == "none" else value,
            feedback=plan.feedback,
            duplicates=cast(DuplicateRule, duplicates),
            unknown_items=cast(UnknownRule, unknown_items),
            separator=separator,
        )


def refuse_output(output: Path, inputs: Iterable[Path | None], *, ledger: Path | None = None) -> None:
    """Refuse an output that would write over something that was read, or over the ledger or a file of it."""
    own = ledger is not None and output.name.startswith(ledger.name) and _same(output.parent, ledger.parent)
    if own or any(_same(output, one) for one in (*inputs, ledger) if one is not None):
        raise DataError(
            "the output would write over a file that is needed.", found=f"-o {output.name}", fix="choose another name"
        )


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def strength_of(text: str) -> float | Literal["auto", "own", "shared"]:
    """Read a strength: a word, or a number from 0."""
    if text in ("auto", "own", "shared"):
        return cast(Literal["auto", "own", "shared"], text)
    try:
        strength = float(text)
    except ValueError:
        strength = -1.0
    if not strength >= 0:  # NaN too
        raise typer.BadParameter("a number from 0, or auto, own, shared", param_hint="--strength")
    return strength


def open_ledger(path: Path, plan: Plan, name: str, *, new: bool) -> Ledger:
    """Open the ledger; a new one only when asked for, since a second ledger would double a budget."""
    if new and not path.exists():
        ceiling = plan.budget if plan.release_mechanism.private else NotPrivate(reason="a simulation")
        return Ledger.create(path, dataset=name, ceiling=ceiling, unit=plan.unit)
    try:
        return Ledger(path)
    except LedgerBroken as error:
        if path.exists():
            raise
        raise LedgerBroken(
            error.summary,
            found=error.found,
            fix="check the name first: a second ledger for the same people would double their budget. For people who "
            "have none, add --new-ledger",
        ) from None
