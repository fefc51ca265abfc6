"""`twofold personalize`: round 2 at an entity, the local model. Nothing leaves."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from twofold.cli.options import (
    CatalogOption,
    DataOption,
    Duplicates,
    EntityName,
    ItemColumn,
    Json,
    Local,
    PlanOption,
    Separator,
    Strength,
    UnknownItems,
    UserColumn,
    ValueColumn,
    agreed_name,
    read_agreed,
    read_catalog,
    read_table,
    refuse_output,
    strength_of,
)
from twofold.cli.steps import not_taken
from twofold.entity.agent import Entity
from twofold.errors import NotReady
from twofold.federation.folder import EntityFolder
from twofold.federation.mailbox import NothingYet
from twofold.federation.steps import ROUNDS

__all__ = ["personalize"]


def personalize(
    factors: Annotated[
        Path, typer.Argument(help="The shared item factors, as items.round2, or the folder in which they arrive.")
    ],
    plan: PlanOption,
    data: DataOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes, as st-anna.model.")],
    entity: EntityName = None,
    catalog: CatalogOption = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    local: Local = "auto",
    strength: Strength = "auto",
    separator: Separator = ",",
    json: Json = False,
) -> None:
    """Fit this entity's own model, drawn to the shared factors as far as its own validation says. Costs nothing."""
    refuse_output(output, (factors, plan, data, catalog))
    agreed = read_agreed(plan)
    name = agreed_name(entity, output, agreed)
    items = read_catalog(agreed, plan, catalog)
    columns = {"user": user, "item": item, "value": value, "separator": separator}
    table = read_table(data, agreed, items, duplicates=duplicates, unknown_items=unknown_items, **columns)
    chosen = cast(Literal["auto", "factors", "item-item", "patterns", "features"], local)
    agent = Entity(name, table, agreed)
    shared = EntityFolder(factors, factors, agreed).fetch(ROUNDS) if factors.is_dir() else factors
    if isinstance(shared, NothingYet):
        found = not_taken(shared.rejected) or None
        raise NotReady("the item factors have not arrived yet.", found=found, fix="run the same again later")
    model = agent.personalize(shared, local=chosen, strength=strength_of(strength))
    model.save(output)
    if json:
        record = {"file": output.name, "kind": model.scorer.kind, "strength": str(model.strength), "note": model.note}
        typer.echo(jsonlib.dumps(record, indent=2))
    else:
        typer.echo(f"{output}: {model.summary()}")
