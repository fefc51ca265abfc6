"""`twofold keys new`: an entity's keys for a secure sum."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.options import Json, refuse_output
from twofold.errors import DataError, Set

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Keys of an entity for a secure sum.")


@app.command("new")
def new(
    entity: Annotated[str, typer.Option(help="This entity's public name, such as st-anna.")],
    keys: Annotated[Path, typer.Option(help="File for the secret keys, such as st-anna.keys. Never leaves.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the public keys, such as st-anna.pub.")],
    json: Json = False,
) -> None:
    """Make an entity's keys for one plan with a secure sum; send the public ones to the author of the plan.

    Running it again writes the same public keys. Every plan needs its own keys.
    """
    from twofold.identity.keystore import KeyStore, new_keys

    refuse_output(output, (keys,))
    _check_place("output", output, f"{entity}.pub")
    _check_place("keys", keys, f"{entity}.keys")
    made = new_keys(keys, entity)
    if output.exists() and output.read_bytes() != made.text.encode():
        raise DataError(
            "{parameter} names a file that already exists.",
            found=output.name,
            fix="choose another name, or remove that file",
            parameter="output",
        )
    made.write(output)
    serves = KeyStore(keys).plan_hash
    if json:
        record = {"entity": entity, "keys": keys.name, "public": output.name, "hash": made.hash, "plan": serves}
        typer.echo(jsonlib.dumps(record))
        return
    typer.echo(f"{output}: public keys of {entity}, fingerprint {made.hash[:16]}")
    typer.echo(f"  secret keys in {keys.name}: for you and for one plan only; never restore an old copy")
    typer.echo("  send the public file to the author of the plan, and read them the fingerprint over the phone")
    if serves is not None:
        typer.echo(f"note: these keys serve plan {serves[:12]}; another plan needs another file for --keys", err=True)


def _check_place(parameter: str, path: Path, name: str) -> None:
    """Refuse a folder in place of a file, and a file in a folder that does not exist, before keys are made."""
    if path.is_dir():
        fix = Set(parameter, path / name)
        raise DataError("{parameter} is a folder; no keys were made.", found=f"{path}", fix=fix, parameter=parameter)
    if not path.parent.is_dir():
        raise DataError(
            "{parameter} is in a folder that does not exist; no keys were made.",
            found=f"{path}",
            fix=f"mkdir -p {path.parent}, or correct the name",
            parameter=parameter,
        )
