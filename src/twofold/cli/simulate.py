"""`twofold simulate`: run both rounds for every entity of one table, in this process."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from twofold.cli.options import (
    CatalogOption,
    Decimal,
    Duplicates,
    Encoding,
    ForceOption,
    ItemColumn,
    Json,
    Local,
    Missing,
    PlanOption,
    Separator,
    Strength,
    TableOption,
    UnknownItems,
    UserColumn,
    ValueColumn,
    read_agreed,
    read_catalog,
    refuse_output,
    strength_of,
)
from twofold.cli.progress import bars
from twofold.data.read import DuplicateRule, MissingRule, UnknownRule
from twofold.federation.plan import Plan
from twofold.federation.plan_file import catalog_path, write_plan
from twofold.federation.tables import save_features
from twofold.simulation import Simulated, read_federation
from twofold.simulation import simulate as run_simulation
from twofold.storage.files import write_whole

__all__ = ["simulate"]


def simulate(
    plan: PlanOption,
    data: TableOption,
    entity: Annotated[str, typer.Option(help="Column that says which entity a row belongs to.")] = "entity",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the item factors and every entity's model.")
    ] = None,
    ledgers: Annotated[
        Path | None, typer.Option(help="Folder with a ledger per entity; needed unless the plan is a simulation.")
    ] = None,
    new_ledgers: Annotated[
        bool, typer.Option("--new-ledgers", help="Create missing ledgers, for people who have none.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeatable noise, for a plan that is a simulation; not private.")
    ] = None,
    catalog: CatalogOption = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    missing: Missing = "error",
    local: Local = "auto",
    strength: Strength = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; all processors by default.")] = None,
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Run a whole federation on one table: both rounds at every entity, and the server between them.

    Example: twofold simulate --plan plan.toml --data all.csv --entity hospital -o models
    """
    agreed = read_agreed(plan)
    if output is not None:
        _check_output(output, force=force)
    federation = read_federation(
        data,
        read_catalog(agreed, plan, catalog, encoding=encoding),
        entity=entity,
        user=user,
        item=item,
        value=None if value == "none" else value,
        feedback=agreed.feedback,
        duplicates=cast(DuplicateRule, duplicates),
        unknown_items=cast(UnknownRule, unknown_items),
        missing=cast(MissingRule, missing),
        separator=separator,
        encoding=encoding,
        decimal=decimal,
    )
    with bars():
        done = run_simulation(
            federation,
            agreed,
            ledgers=ledgers,
            new_ledgers=new_ledgers,
            rng=seed,
            local=cast(Literal["auto", "factors", "item-item", "patterns", "features"], local),
            strength=strength_of(strength),
            threads=threads,
        )
    if output is not None:
        _save(done, output)
        if done.plan.hash != agreed.hash:  # everybody's keys were made here, and the factors belong to them
            _save_plan(done.plan, output, catalog or catalog_path(plan))
    if json:
        typer.echo(jsonlib.dumps(_record(done), indent=2, default=str))
    else:
        _show(done, output)


def _check_output(folder: Path, *, force: bool) -> None:
    """Refuse, before anything runs, a folder that cannot be made or that holds results already."""
    if folder.is_dir():
        for name in ("items.round2", "plan.toml"):
            refuse_output(folder / name, force=force)
    else:
        refuse_output(folder)


def _save(done: Simulated, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    write_whole(folder / "items.round2", done.published)
    for label, model in done.models.items():
        model.save(folder / f"{done.names[label]}.model")


def _save_plan(plan: Plan, folder: Path, catalog: Path | None) -> None:
    """Write the plan with its roster; the factors belong to it."""
    assert plan.members is not None
    plan.members.write(folder / "plan.roster")
    table = plan.features_table
    if table is not None:
        save_features(table, folder / "plan.features")
    features = None if table is None else folder / "plan.features"
    write_plan(
        plan, folder / "plan.toml", catalog_file=catalog, features_file=features, roster_file=folder / "plan.roster"
    )


def _record(done: Simulated) -> dict[str, Any]:
    return {
        "messages_protected": done.private,
        "keep_here": "numbers of users are exact, and model files hold histories; only the messages were protected",
        "plan": done.plan.hash,
        "note": done.factors.note,
        "rank": done.factors.rank,
        "bytes_back": done.received,
        "seconds": dict(done.seconds),
        "entities": [
            {
                "entity": str(label),
                "users": model.history.n_users,
                "bytes": done.sent[label],
                "kind": model.scorer.kind,
                "strength": str(model.strength),
            }
            for label, model in done.models.items()
        ],
    }


def _show(done: Simulated, output: Path | None) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("entity", "users", "bytes sent", "local model", "strength"):
        table.add_column(name, justify="left" if name in ("entity", "local model") else "right")
    for one in _record(done)["entities"][:40]:
        sizes = (f"{one['users']:,}", f"{one['bytes']:,}")
        table.add_row(Text(one["entity"]), *sizes, one["kind"], _strength(one["strength"]))
    console = Console()
    console.print(table)
    if len(done.models) > 40:
        console.print(f"and {len(done.models) - 40:,} more entities (--json has them all)")
    for phase, seconds in done.seconds.items():
        console.print(f"{phase}: {seconds:.1f} s", highlight=False)
    if done.factors.note:
        console.print(Text(done.factors.note))
    if not done.private:
        console.print("NOT PRIVATE: a simulation; do not publish any of it as private", highlight=False)
    else:
        console.print("Only the messages were protected; numbers of users are exact: keep them here", highlight=False)
    if output is not None:
        console.print(f"written to {output}: items.round2 and a model per entity", highlight=False)
        console.print("A model holds its users' histories: keep it where the data are", highlight=False)


def _strength(text: str) -> str:
    words = {"0.0": "own only", "inf": "shared only"}
    return words.get(text, f"{float(text):g}")
