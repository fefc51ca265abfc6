"""`twofold log`: read and check the security log of an entity, with no right but to read it."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.approve import public_of
from twofold.cli.render import all_verbs, say
from twofold.errors import BadParameter, LogBroken

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The security log of an entity; both verbs only read.")

LogFile = Annotated[Path, typer.Argument(help="The log, such as security.log.")]


@app.command()
def show(
    path: LogFile,
    since: Annotated[
        str | None, typer.Option(help="Only what happened from then on, such as 2027-01-31 or 2027-01-31T12:00:00Z.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the lines of the file, each a JSON record.")] = False,
) -> None:
    """Print the events, one per line; times are UTC. Stops with exit code 2 where the log is not sound.

    Example: twofold log show security.log --since 2027-01-31
    """
    from twofold.identity.log import read_log, verify_log

    start, entry = None if since is None else _time(since), None
    for entry in read_log(path):
        if start is None or entry.at >= start:
            say(entry.line.decode().rstrip() if json else entry.text)
    if entry is None:
        verify_log(path)  # refuses a file without one whole line


@app.command()
def verify(
    path: LogFile,
    key: Annotated[
        list[Path] | None,
        typer.Option(help="The entity's public keys, such as st-anna.pub; again for each one it had."),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier; its line must still be there: nothing was removed.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")] = False,
) -> None:
    """Check every line, the chain and, with --key, every signature. Exit code 2 if anything was changed.

    Lines that were removed from the end show only with --head. Note the printed head elsewhere, each time.

    Example: twofold log verify security.log --key st-anna.pub --head 3f2a...
    """
    from twofold.identity.log import verify_log

    keys = [public_of(one)[1] for one in key or ()]
    try:
        verdict = verify_log(path, keys=keys, head=head)
    except LogBroken as error:
        if not json:
            raise
        typer.echo(jsonlib.dumps({"sound": False, "summary": error.summary, "found": error.found}, indent=2))
        raise typer.Exit(2) from None
    if json:
        typer.echo(jsonlib.dumps({"sound": True, **asdict(verdict)}, indent=2))
        return
    say(f"sound: {verdict.entries:,} lines of {verdict.entity}, {verdict.opened} to {verdict.last}")
    say(f"  head {verdict.head}")
    say("  every line is signed" if verdict.signed else "  signatures were not checked: give --key")
    if head is None:
        say("  lines removed from the end do not show: compare with a head noted earlier, --head")
    for number, what in ((verdict.repairs, "torn lines were repaired"), (verdict.clock_back, "times set back")):
        if number:
            say(f"  {number:,} {what}")
    if verdict.torn:
        say("  the last line is torn: a process died, or is writing now")


def _time(text: str) -> str:
    """Bring a date or time to the form of the log; without a zone it is UTC."""
    try:
        when = datetime.fromisoformat(text)
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadParameter(
            "{parameter} is not a time.", found=f"{text:.40}", expected="as 2027-01-31", parameter="since"
        ) from None
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


all_verbs(app)
