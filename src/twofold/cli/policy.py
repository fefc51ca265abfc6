"""`twofold policy`: write and read the policy of a site."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.approve import public_of
from twofold.cli.options import Json
from twofold.cli.render import all_verbs, say
from twofold.errors import DataError
from twofold.storage.files import put_once

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="What may leave this site at all; no plan overrides it.")


@app.command("new")
def new(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, such as policy.toml.")],
    approver: Annotated[
        list[Path] | None,
        typer.Option(help="Public keys of an approver, such as officer.pub; again for each."),
    ] = None,
    approvals: Annotated[
        int | None,
        typer.Option(help="How many must approve each release: 0, 1 or 2; by default 1 if any."),
    ] = None,
    writer: Annotated[
        list[Path] | None, typer.Option(help="Public keys of somebody who may write plans; again for each.")
    ] = None,
    operator: Annotated[
        list[Path] | None, typer.Option(help="Public keys of somebody who may run a server; again for each.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a policy with a comment at every field, to be edited. An existing file is never changed.

    Example: twofold policy new -o policy.toml --approver officer.pub --writer trial-office.pub
    """
    from twofold.identity.policy import Policy

    people = tuple(public_of(one) for one in approver or ())
    made = Policy(
        approvals=min(1, len(people)) if approvals is None else approvals,
        approvers=people,
        writers=tuple(public_of(one) for one in writer or ()),
        operators=tuple(public_of(one) for one in operator or ()),
    )
    if not put_once(output, made.text.encode(), mode=0o644):
        raise DataError(
            "{parameter} names a file that already exists.",
            found=output.name,
            fix="choose another name, or edit that file",
            parameter="output",
        )
    if json:
        typer.echo(jsonlib.dumps({"file": output.name, "hash": made.hash, **made.record}, indent=2))
        return
    say(f"{output}: a policy to be edited, hash {made.hash[:16]}")
    for name, listed in (("writers", made.writers), ("operators", made.operators)):
        if not listed:
            say(f'  {name}: nobody yet, so every plan is refused; add keys, or write {name} = "any"')


@app.command("show")
def show(path: Annotated[Path, typer.Argument(help="The policy (TOML).")], json: Json = False) -> None:
    """Check a policy and print its hash and every field.

    Example: twofold policy show policy.toml
    """
    from twofold.identity.policy import Policy

    found = Policy.read(path)
    record = found.record
    if json:
        typer.echo(jsonlib.dumps({"hash": found.hash, **record}, indent=2))
        return
    say(f"{path}: hash {found.hash}")
    for name, value in record.items():
        if isinstance(value, dict):
            say(f"  {name}: {'' if value else 'nobody'}".rstrip())
            for one, key in value.items():
                say(f"    {one}: {key}")
        else:
            typer.echo(f"  {name}: {', '.join(value) if isinstance(value, list) else jsonlib.dumps(value)}")


all_verbs(app)
