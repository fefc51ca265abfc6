"""`twofold keys new`: an entity's keys for a secure sum."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.options import Json, refuse_output
from twofold.errors import DataError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="An entity's keys for a secure sum.")


@app.command("new")
def new(
    entity: Annotated[str, typer.Option(help="This entity's public name, as st-anna.")],
    keys: Annotated[Path, typer.Option(help="File for the secret keys, as st-anna.keys. Never leaves.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the public keys, as st-anna.pub.")],
    json: Json = False,
) -> None:
    """Make the keys of an entity for one plan with a secure sum; the public ones go to whoever writes the plan.

    Asked again, the same public keys are written. Every plan needs keys of its own.
    """
    from twofold.identity.keystore import KeyStore, new_keys

    refuse_output(output, (keys,))
    _check_place("output", "-o", output, entity)  # before keys are made
    _check_place("keys", "--keys", keys, entity)
    made = new_keys(keys, entity)
    if output.exists() and output.read_bytes() != made.text.encode():
        raise DataError(
            "there is another file already.",
            found=f"-o {output.name}",
            fix="another name, or remove that file",
            parameter="output",
        )
    made.write(output)
    serves = KeyStore(keys).plan_hash
    if json:
        record = {"entity": entity, "keys": keys.name, "public": output.name, "hash": made.hash, "plan": serves}
        typer.echo(jsonlib.dumps(record))
        return
    typer.echo(f"{output}: public keys of {entity}, fingerprint {made.hash[:16]}")
    typer.echo(f"  secret keys in {keys.name}: only for you and for one plan; never put an old copy back")
    typer.echo("  send the public file to whoever writes the plan, and read the fingerprint to them over the phone")
    if serves is not None:
        typer.echo(f"note: these keys serve plan {serves[:12]}; another plan needs another file for --keys", err=True)


def _check_place(parameter: str, option: str, path: Path, entity: str) -> None:
    """Refuse a folder where a file is to be, and a file in a folder that is not there."""
    example = f"{option} {path / entity}.{'pub' if option == '-o' else 'keys'}"
    if path.is_dir():
        raise DataError(
            "a folder has the name of the file to be written; no keys were made.",
            found=f"{option} {path.name}",
            expected="the name of a file",
            fix=example,
            parameter=parameter,
        )
    if not path.parent.is_dir():
        raise DataError(
            "the file would be in a folder that is not there; no keys were made.",
            found=f"{option} {path}",
            expected="a file in a folder that is there",
            fix=f"mkdir -p {path.parent}, or correct the name",
            parameter=parameter,
        )
