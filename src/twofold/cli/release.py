"""`twofold release`: an entity's one release, round 1."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from twofold.cli.options import (
    CatalogOption,
    DataOption,
    Duplicates,
    EntityName,
    ItemColumn,
    Json,
    PlanOption,
    Separator,
    UnknownItems,
    UserColumn,
    ValueColumn,
    agreed_name,
    open_ledger,
    read_agreed,
    read_catalog,
    read_table,
    refuse_output,
)
from twofold.cli.render import shell_words
from twofold.entity.agent import Entity
from twofold.errors import PlanMismatch
from twofold.federation.folder import EntityFolder
from twofold.federation.messages import Content, ReleaseMessage
from twofold.federation.plan import Plan
from twofold.federation.steps import ROUNDS
from twofold.privacy.ledger import Ledger, words
from twofold.privacy.ledger.state import cost_of
from twofold.release.content import BilinearSums, Prototypes

__all__ = ["release"]


def release(
    plan: PlanOption,
    data: DataOption,
    ledger: Annotated[Path, typer.Option(help="The ledger of this data set; see `twofold ledger new`.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The message, as st-anna.round1, or an outbox folder (with --entity)."),
    ],
    entity: EntityName = None,
    catalog: CatalogOption = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    version: Annotated[
        str, typer.Option(help="Public name of the state of the data, as 2026; a new one spends anew.")
    ] = "1",
    new_ledger: Annotated[
        bool,
        typer.Option("--new-ledger", help="Start the ledger, for people who have none; its ceiling is this plan's."),
    ] = False,
    separator: Separator = ",",
    json: Json = False,
) -> None:
    """Make the one message that leaves: reserve the budget, draw the noise, store, write.

    Asked again, the same bytes are written and nothing is spent.
    """
    refuse_output(output, (plan, data, catalog), ledger=ledger)
    agreed = read_agreed(plan)
    if agreed.secure is not None:
        raise PlanMismatch(
            "this plan has a secure sum, which takes more steps than one message; nothing was drawn.",
            fix="twofold join --keys ... --outbox ... --inbox ..., or Entity.share, release(participants) and answer",
        )
    items = read_catalog(agreed, plan, catalog)
    if entity is None and output.is_dir():
        raise typer.BadParameter("an outbox folder needs the entity's name", param_hint="--entity")
    name = agreed_name(entity, output, agreed)
    columns = {"user": user, "item": item, "value": value, "separator": separator}
    table = read_table(data, agreed, items, duplicates=duplicates, unknown_items=unknown_items, **columns)
    Entity(name, table, agreed)  # refuses what does not fit before a ledger is made
    book = open_ledger(ledger, agreed, name, new=new_ledger)
    with shell_words():
        message = Entity(name, table, agreed, ledger=book, version=version).release()
    if output.is_dir():
        EntityFolder(output, output, agreed).submit(ROUNDS, message.data, entity=name)
    else:
        message.save(output)
    _print(message, agreed, book, output, json=json)


def _print(message: ReleaseMessage, plan: Plan, book: Ledger, output: Path, *, json: bool) -> None:
    record: dict[str, Any] = {
        "file": output.name,
        "entity": message.entity,
        "bytes": len(message.data),
        "receipt": message.receipt,
        "plan": plan.hash,
        "mechanism": message.content.mechanism,
        "prototypes": getattr(message.content, "n_prototypes", None),
        "cost": words(cost_of(plan.budget)) if not plan.simulation else None,
        "private": not message.content.seeded and not plan.simulation,
    }
    if json:
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    made = message.content
    what = f"{len(message.data):,} bytes, {_content(made)} by {made.mechanism}"
    typer.echo(f"{output}: the message of {message.entity}, {what}")
    if made.note:
        typer.echo(f"  {made.note}")
    price = f"costs {record['cost']} per {plan.unit.holder}, written to {book.path.name}; asking again costs nothing"
    typer.echo(f"  {price if record['private'] else 'NOT PRIVATE: the plan is a simulation'}")
    typer.echo(f"  receipt {message.receipt}")


def _content(made: Content) -> str:
    if isinstance(made, Prototypes):
        return f"{made.n_prototypes} prototypes"
    return f"{made.numbers.size:,} numbers" if isinstance(made, BilinearSums) else "masked numbers"
