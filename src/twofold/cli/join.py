"""`twofold join`: both rounds of a federation at one entity, by folders; whatever is due is done."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli._columns import ItemColumn, Json, Separator, UserColumn, ValueColumn
from twofold.cli._inputs import (
    CatalogOption,
    DataOption,
    Duplicates,
    EntityName,
    PlanOption,
    UnknownItems,
    entity_name,
    open_ledger,
    read_catalog,
    read_table,
    refuse_output,
)
from twofold.cli.collect import NOT_YET
from twofold.entity.agent import Entity
from twofold.entity.taking_part import Standing, take_part
from twofold.protocol.phases import Phase
from twofold.protocol.plan import Plan
from twofold.transport.folder import EntityFolder

__all__ = ["join"]


def join(
    plan: PlanOption,
    data: DataOption,
    ledger: Annotated[Path, typer.Option(help="The ledger of this data set; see `twofold ledger new`.")],
    outbox: Annotated[Path, typer.Option(help="Folder whose files are carried to the server.")],
    inbox: Annotated[Path, typer.Option(help="Folder in which the server's files arrive; may be the outbox.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes, as st-anna.model.")],
    keys: Annotated[Path | None, typer.Option(help="Secret keys, for a plan with a secure sum.")] = None,
    entity: EntityName = None,
    catalog: CatalogOption = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    version: Annotated[str, typer.Option(help="Public name of the state of the data; a new one spends anew.")] = "1",
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Start the ledger, for people who have none.")
    ] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the server; 0 looks once.")] = 0.0,
    poll: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 2.0,
    separator: Separator = ",",
    json: Json = False,
) -> None:
    """Take part: send what is due, take what has come, and write the model when the item factors are here.

    Safe to stop and start again at any time: nothing is drawn or paid for twice. Exit code 3 while the server is still
    waited for.
    """
    refuse_output(output, (plan, data, catalog, keys), ledger=ledger)
    agreed = Plan.read(plan)
    items = read_catalog(agreed, plan, catalog)
    name = entity_name(entity, output)
    columns = {"user": user, "item": item, "value": value, "separator": separator}
    table = read_table(data, agreed, items, duplicates=duplicates, unknown_items=unknown_items, **columns)
    Entity(name, table, agreed)  # refuses what does not fit before a ledger is made
    if agreed.secure is not None:
        from twofold.entity.secure import SecurePart  # loads the library of ciphers, which other plans do without

        SecurePart(name, agreed, keys, version=version)
    book = open_ledger(ledger, agreed, name, new=new_ledger)
    agent = Entity(name, table, agreed, ledger=book, version=version, keys=keys)

    def mailbox(phase: Phase) -> EntityFolder:
        return EntityFolder(outbox, inbox, agreed, phase=phase)

    until = time.monotonic() + wait
    while (standing := take_part(agent, mailbox)).factors is None and time.monotonic() < until:
        time.sleep(poll)
    note = ""
    if standing.factors is not None:
        model = agent.personalize(standing.factors)
        model.save(output)
        note = model.summary()
    _print(standing, output, note, json=json)
    if standing.factors is None:
        raise typer.Exit(NOT_YET)


def _print(standing: Standing, output: Path, note: str, *, json: bool) -> None:
    if json:
        record = {"sent": standing.sent, "waits": standing.waits or None, "dropped": standing.dropped}
        record |= {"not_taken": standing.note or None, "file": output.name if note else None, "note": note}
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    typer.echo(f"sent: {', '.join(standing.sent)}")
    if standing.dropped:
        spent = "its budget is spent" if "the masked message" in standing.sent else "nothing was drawn or spent"
        typer.echo(
            f"note: the sum goes on without this entity's message; {spent}, and it gets the item factors all the same"
        )
    if standing.note:
        typer.echo(f"  not taken: {standing.note}", err=True)
    if standing.waits:
        typer.echo(f"waiting for {standing.waits}; run the same command again later, or --wait SECONDS", err=True)
    else:
        typer.echo(f"{output}: {note}")
