"""`twofold factorize`: the server's one step, from everyone's messages to the shared item factors."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.options import Json, PlanOption, read_agreed, refuse_output
from twofold.federation.factors import ItemFactors
from twofold.federation.messages import save_factors
from twofold.server.factorize import Server

__all__ = ["factorize"]


def factorize(
    messages: Annotated[list[Path], typer.Argument(help="The entities' messages, as *.round1, in any order.")],
    plan: PlanOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the item factors go, as items.round2.")],
    json: Json = False,
) -> None:
    """Combine the messages that arrived into shared item factors. Sees no data; the order does not matter."""
    refuse_output(output, (*messages, plan))
    agreed = read_agreed(plan)
    factors = Server(agreed).factorize(messages)
    save_factors(factors, output, agreed)
    _print(factors, output, json=json)


def _print(factors: ItemFactors, output: Path, *, json: bool) -> None:
    record = {
        "file": output.name,
        "bytes": output.stat().st_size,
        "entities": factors.entities,
        "items": factors.n_items,
        "rank": factors.rank,
        "private": factors.private,
        "hash": factors.hash,
        "note": factors.note,
    }
    if json:
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    typer.echo(f"{output}: {factors.rank} factors of {factors.n_items:,} items from {factors.entities} entities")
    if factors.note:
        typer.echo(f"  {factors.note}")
    if not factors.private:
        typer.echo("  NOT PRIVATE: made in a simulation, or without a proof")
