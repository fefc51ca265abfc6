"""`twofold forward`: upload messages that others made and handed over as files, and bring back what was published."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.network import (
    CaOption,
    ClientCertificate,
    ClientKey,
    PinOption,
    ProxyOption,
    mailbox_of,
)
from twofold.cli.options import Json, PlanOption, open_keys, read_agreed
from twofold.cli.render import say
from twofold.cli.steps import NOT_YET, PUBLISHED, SENT
from twofold.errors import BadMessage, ProtocolError, RoundClosed
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import EntityMailbox, NothingYet, Step, steps_of
from twofold.federation.messages import read_header
from twofold.federation.plan import Plan
from twofold.storage.files import read_limited

__all__ = ["forward"]


def forward(
    files: Annotated[list[Path], typer.Argument(help="Messages, or folders of them such as an outbox.")],
    plan: PlanOption,
    server: Annotated[str, typer.Option("--server", help="Address of the coordinator.")],
    keys: Annotated[Path, typer.Option("--keys", help="Your own secret keys: they sign the requests.")],
    back: Annotated[
        Path | None, typer.Option("--back", help="Folder for what the server published, for the site without a line.")
    ] = None,
    ca: CaOption = None,
    pin: PinOption = None,
    proxy: ProxyOption = None,
    client_certificate: ClientCertificate = None,
    client_key: ClientKey = None,
    json: Json = False,
) -> None:
    """Carry files to a server for a site that has no line to it. The messages' own signatures say who made them.

    Exit code 3 if the last step is not published yet and --back asks for it.

    Examples
    --------
    twofold forward outbox --plan plan.toml --server https://federation.example.org:8443 --keys st-benno.keys
      --back inbox
    """
    agreed = read_agreed(plan)
    reach = {"ca": ca, "pin": pin, "proxy": proxy, "certificate": client_certificate, "key": client_key}
    with mailbox_of(agreed, open_keys(agreed, keys), server, reach) as mailbox:
        tried = [_tried(file, agreed, mailbox, alone=files == [file], json=json) for file in _files(files)]
        sent = [one for one in tried if one is not None]
        if not sent and back is None:
            raise BadMessage("there was no message of this plan.", found=f"{len(files)} paths", parameter="files")
        brought = [] if back is None else _bring(agreed, mailbox, back, json=json)
    due = 0 if back is None else len(steps_of(agreed))
    if json:
        typer.echo(jsonlib.dumps({"sent": sent, "brought": brought, "published": len(brought) >= due}, indent=2))
    if len(brought) < due:
        raise typer.Exit(NOT_YET)


def _tried(
    file: Path, plan: Plan, mailbox: EntityMailbox, *, alone: bool, json: bool
) -> dict[str, str | bool | None] | None:
    """Carry a file; of several, one that is no message is told and left."""
    try:
        return _carry(file, plan, mailbox, json=json)
    except (ProtocolError, RoundClosed) as error:
        if alone:
            raise
        say(f"  not taken: {file.name}: {error.summary}", err=True)
        return None


def _files(given: list[Path]) -> list[Path]:
    found: list[Path] = []
    for one in given:
        found += sorted(path for path in one.iterdir() if path.is_file()) if one.is_dir() else [one]
    return found


def _carry(file: Path, plan: Plan, mailbox: EntityMailbox, *, json: bool) -> dict[str, str | bool | None]:
    """Upload one file to the step that its header names."""
    most = max(step.up.limit(plan) for step in steps_of(plan))
    data = read_limited(file, most)
    header = read_header(data)
    step: Step | None = next((one for one in steps_of(plan) if one.up.schema == header.schema), None)
    if step is None or header.entity is None:
        raise BadMessage("this is not a message that an entity sends in this plan.", found=file.name)
    done = mailbox.submit(step, data, entity=header.entity)
    if not json:
        say(f"{file.name}: {SENT[step.id]} of {header.entity}, {'sent' if done.new else 'already there'}")
    return {"file": file.name, "what": SENT[step.id], "entity": header.entity, "new": done.new}


def _bring(plan: Plan, mailbox: EntityMailbox, folder: Path, *, json: bool) -> list[str]:
    """Write what the server published into a folder, as a server of folders does, and name it."""
    box, brought = ServerFolder(folder, folder, plan), list[str]()
    for step in steps_of(plan):
        found = mailbox.fetch(step)
        if isinstance(found, NothingYet):
            say(f"not published yet: {PUBLISHED[step.id]}", err=True)
            break
        box.publish(step, found)
        brought.append(PUBLISHED[step.id])
        if not json:
            say(f"{folder}: {PUBLISHED[step.id]}")
    return brought
