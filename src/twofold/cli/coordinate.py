"""`twofold coordinate`: the server by folders: wait for the messages, close the round, publish once."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli.options import Json, PlanOption, bar, listed, read_agreed
from twofold.errors import NotReady, TooFewMessages, TransportError
from twofold.federation.folder import ServerFolder
from twofold.federation.plan import Plan
from twofold.server.coordinate import Coordinator, Progress

if TYPE_CHECKING:
    from twofold.server.secure_coordinate import SecureCoordinator

__all__ = ["coordinate"]


def coordinate(
    plan: PlanOption,
    inbox: Annotated[Path, typer.Option(help="Folder in which the entities' messages arrive.")],
    outbox: Annotated[Path, typer.Option(help="Folder for the item factors; may be the inbox.")],
    state: Annotated[Path, typer.Option(help="Folder of the server's own, to go on after a crash.")],
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the messages; 0 looks once.")] = 0.0,
    poll: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 2.0,
    close: Annotated[
        bool, typer.Option("--close", help="Wait for nobody else: go on with those who answered, if they are enough.")
    ] = False,
    json: Json = False,
) -> None:
    """Take the messages that arrive in a folder, and publish the item factors once when the plan's round is complete.

    Safe to stop and start again at any time. Exit code 3 while messages are still missing.
    """
    agreed = read_agreed(plan)
    if not inbox.is_dir():
        raise TransportError("there is no such inbox.", found=str(inbox), fix="make the folder first, or mend the name")
    coordinator = _coordinator(agreed, inbox, outbox, state)
    found = _look(coordinator, wait=wait, poll=poll, close=close)
    _print(found, coordinator, json=json)
    if not found.published:
        raise typer.Exit(NOT_YET)


def _coordinator(plan: Plan, inbox: Path, outbox: Path, state: Path) -> Coordinator | SecureCoordinator:
    """One round, or the three steps of a secure sum."""
    if plan.secure is None:
        return Coordinator(plan, ServerFolder(inbox, outbox, plan), state=state)
    from twofold.server.secure_coordinate import SecureCoordinator  # loads the library of ciphers

    return SecureCoordinator(plan, lambda phase: ServerFolder(inbox, outbox, plan, phase=phase), state=state)


def _look(coordinator: Coordinator | SecureCoordinator, *, wait: float, poll: float, close: bool) -> Progress:
    """Look until the round is published or the time is over; too few after the deadline may still become enough."""
    until = time.monotonic() + wait
    with bar("messages") as progress:
        while True:
            try:
                found = coordinator.step(close=close)
                close = False  # the present step only, not those that follow
                if found.published or time.monotonic() >= until:
                    return found
                progress(found.arrived, found.expected)
            except TooFewMessages:
                if time.monotonic() >= until:
                    _print_refused(coordinator)
                    _print_missing(coordinator)
                    raise
            time.sleep(poll)


#: When each step closes, and what comes then.
_ENDS = {
    "key shares": ("all have shared keys", "; messages and answers come then"),
    "messages": ("all who shared keys have sent a message", "; answers come then"),
    "answers": ("enough have answered to take the masks off", ""),
}
#: Exit code when nothing is wrong and the round is not complete.
NOT_YET = 3


def _print(found: Progress, coordinator: Coordinator | SecureCoordinator, *, json: bool) -> None:
    if json:
        refused = [{"name": one.name, "reason": one.reason} for one in coordinator.refused()]
        record = {**vars(found), "missing": coordinator.missing(), "refused": refused, "remark": coordinator.remark}
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    done = "published" if found.published else "waiting"
    what = "entities answered" if coordinator.plan.secure is None else f"{coordinator.step_name} arrived"
    typer.echo(f"{done}: {found.arrived} of {found.expected} {what}")
    _print_refused(coordinator)
    if not found.published:
        _print_missing(coordinator)
    if coordinator.remark:
        typer.echo(f"note: {coordinator.remark}", err=True)
    if not found.published:
        typer.echo(str(_not_complete(found, coordinator)), err=True)


def _not_complete(found: Progress, coordinator: Coordinator | SecureCoordinator) -> NotReady:
    """Say when the step closes; closing by hand is offered only where it would work."""
    ends, then = ("all have answered", "") if coordinator.plan.secure is None else _ENDS[coordinator.step_name]
    if coordinator.deadline is not None:
        ends += f", or {coordinator.quorum} by {coordinator.deadline}"
    later = "run the same command again later, or --wait SECONDS"
    if coordinator.can_close:
        later += "; --close goes on without those who are missing"
    elif (lacking := coordinator.quorum - found.arrived) > 0:
        later += f"; it needs {lacking} more, {coordinator.quorum} of {found.expected} in all"
    return NotReady("the round is not complete.", expected=f"it closes when {ends}{then}", fix=later)


def _print_missing(coordinator: Coordinator | SecureCoordinator) -> None:
    if names := coordinator.missing():
        typer.echo(f"  missing: {listed(names)}")


def _print_refused(coordinator: Coordinator | SecureCoordinator) -> None:
    for one in coordinator.refused():
        typer.echo(f"  not taken: {one.name}: {one.reason}")
