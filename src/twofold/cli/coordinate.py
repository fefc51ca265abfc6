"""`twofold coordinate`: run the server, over folders or as a service: wait for messages, close, publish once."""

from __future__ import annotations

import json as jsonlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from twofold.cli.network import (
    AddressConnections,
    CaOption,
    CertificateOption,
    FolderOption,
    KeyOption,
    ListenOption,
    PeerOption,
    PinOption,
    PlainOption,
    ProxyOption,
    connected,
    documents_of,
    peer_of,
    run_service,
)
from twofold.cli.options import (
    AgreementsOption,
    Json,
    RevokedOption,
    listed,
    open_keys,
    read_agreed,
    read_agreements,
)
from twofold.cli.progress import bars
from twofold.cli.render import say
from twofold.cli.steps import ARRIVING, NOT_YET, STEPS
from twofold.errors import NotReady, PlanMismatch, Run, Set, TooFewMessages, TransportError
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import BETWEEN, StepId, steps_of
from twofold.server.coordinate import CoordinationStatus, check_signer, server_for, standing
from twofold.server.coordinate import coordinate as look_once
from twofold.server.state import FolderState

if TYPE_CHECKING:
    from twofold.federation.agreement import Agreements
    from twofold.federation.plan import Plan
    from twofold.identity.keystore import KeyStore
    from twofold.server.service.hosted import Hosted

__all__ = ["coordinate"]

#: Said of a plan whose list of entities is empty.
ANYBODY: Final = (
    "The plan is a simulation that names no entities: any made-up name counts and can complete the round, and anyone "
    "who can write into the folder can pose as an entity."
)


def coordinate(
    plan: Annotated[list[Path], typer.Option("--plan", help="The agreed plan (TOML); with --listen repeat for more.")],
    state: Annotated[Path, typer.Option(help="The server's private folder, to resume after a crash.")],
    inbox: Annotated[Path | None, typer.Option(help="Folder in which the entities' messages arrive.")] = None,
    outbox: Annotated[Path | None, typer.Option(help="Folder for the item factors; may be the inbox.")] = None,
    keys: Annotated[
        list[Path] | None,
        typer.Option("--keys", help="The operator's secret keys; needed unless the plan is a simulation."),
    ] = None,
    agreements: AgreementsOption = None,
    revoked: RevokedOption = None,
    listen: ListenOption = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    plain_http: PlainOption = False,
    address_connections: AddressConnections = None,
    folder: FolderOption = None,
    peer: PeerOption = None,
    ca: CaOption = None,
    pin: PinOption = None,
    proxy: ProxyOption = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the messages; 0 checks once.")] = 0.0,
    poll: Annotated[float, typer.Option(min=0.05, help="Seconds between checks.")] = 2.0,
    close: Annotated[
        bool, typer.Option("--close", help="Stop waiting: continue with those who answered, if they are enough.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option("--server", help="With --close: address of a running service."),
    ] = None,
    json: Json = False,
) -> None:
    """Collect messages, and publish the item factors once when the plan's round is complete.

    Over folders (--inbox, --outbox), or as a service that entities reach (--listen). Safe to stop and start again at
    any time. Exit code 3 while messages are still missing.

    Examples
    --------
    twofold coordinate --plan plan.toml --keys coordinator.keys --inbox in --outbox out --state state --wait
      3600
    twofold coordinate --plan plan.toml --keys coordinator.keys --state state --listen 0.0.0.0:8443
      --certificate server.pem --key server.key
    """
    reach = {"ca": ca, "pin": pin, "proxy": proxy}
    if listen is not None:
        hosted = [
            _hosted(path, _nth(keys, number), _only(agreements, plan), revoked, _own(folder, path, plan), peer, reach)
            for number, path in enumerate(plan)
        ]
        tls = (certificate, key)
        run_service(hosted, state, listen, tls, plain=plain_http, poll=poll, of_one=address_connections)
        return
    if server is not None:
        if not close:
            raise typer.BadParameter("--server goes with --close; to serve, --listen", param_hint="--server")
        for number, path in enumerate(plan):
            _close_at(server, path, _nth(keys, number), revoked, reach)
        return
    if inbox is None or outbox is None or len(plan) != 1 or (keys is not None and len(keys) != 1):
        raise typer.BadParameter("one --plan, --inbox and --outbox, or --listen ADDRESS:PORT", param_hint="--inbox")
    _by_folders(plan[0], inbox, outbox, state, _nth(keys, 0), agreements, revoked, wait, poll, close, json)


def _close_at(server: str, plan: Path, keys: Path | None, revoked: list[Path] | None, reach: Mapping[str, Any]) -> None:
    """Ask a running service to stop waiting in the step that is open."""
    agreed = read_agreed(plan)
    store = open_keys(agreed, keys, revoked)
    if store is None:
        raise PlanMismatch("{parameter} is missing.", fix=Set("keys", "coordinator.keys"), parameter="keys")
    with connected(server, name=store.identity.name, store=store, **reach) as client:
        told = client.status(agreed.hash).get("steps")
        steps = {step.id.value: step.id for step in steps_of(agreed)}
        every = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
        over = {one.get("step") for one in every if one.get("published")}
        step = next((one for name, one in steps.items() if name not in over), None)
        if step is None:
            say(f"{agreed.name}: the item factors are published; nothing is waited for")
            return
        client.close_step(agreed.hash, step)
    say(f"{agreed.name}: asked to close {STEPS[step]}; it closes at the next look, if enough have answered")


def _by_folders(
    plan: Path,
    inbox: Path,
    outbox: Path,
    state: Path,
    keys: Path | None,
    agreements: Path | None,
    revoked: list[Path] | None,
    wait: float,
    poll: float,
    close: bool,
    json: bool,
) -> None:
    if not inbox.is_dir():
        raise TransportError(
            "the inbox does not exist.", found=str(inbox), fix="make the folder first, or correct the name"
        )
    agreed, store, every = _opened(plan, keys, agreements, revoked)
    if agreed.operators is not None:
        look, progress = _operator(agreed, store, ServerFolder(inbox, outbox, agreed), state)
        steps = [StepId.REPORTS, *BETWEEN]
    else:
        server = server_for(agreed, signer=None if store is None else store.signer)
        check_signer(server)  # before a folder is made
        mailbox, kept = ServerFolder(inbox, outbox, agreed), FolderState(state, agreed)
        look = partial(look_once, server, mailbox, state=kept, agreements=every)
        progress = partial(standing, server, mailbox, state=kept)
        steps = [step.id for step in steps_of(agreed)]
    status = _look(look, progress, wait, poll, close)
    _print(status, steps, json=json)
    if not status.published:
        raise typer.Exit(NOT_YET)


def _opened(
    plan: Path, keys: Path | None, agreements: Path | None, revoked: list[Path] | None
) -> tuple[Plan, KeyStore | None, Agreements | None]:
    """Read a plan with the operator's keys; refuse one that the operators have not agreed to."""
    agreed = read_agreed(plan)
    store = open_keys(agreed, keys, revoked)
    if store is not None and not agreed.simulation and store.agreement(agreed.hash) is None:
        raise NotReady(
            "the operator has not agreed to this plan; nothing is published.",
            fix=Run(f"plan agree {plan} --keys {keys}"),
            parameter="agreements",
        )
    every = read_agreements(agreed, plan, agreements)
    if agreed.operators is not None and every is None and not agreed.simulation:
        raise NotReady(
            "the agreements to this plan are not here; nothing is taken.",
            found=f"no file {plan.with_suffix('.agreed').name} beside the plan",
            expected="one file with the agreement of everybody who must agree, both operators first",
            fix=Run(f"plan agreed {plan} A.agreement B.agreement -o {plan.with_suffix('.agreed')}"),
            parameter="agreements",
        )
    return agreed, store, every


def _hosted(
    plan: Path,
    keys: Path | None,
    agreements: Path | None,
    revoked: list[Path] | None,
    folder: Path | None,
    peer: str | None,
    reach: Mapping[str, Any],
) -> Hosted:
    """Prepare one federation of a service."""
    from twofold.server.service.hosted import Hosted  # loads the library of ciphers

    agreed, store, every = _opened(plan, keys, agreements, revoked)
    if store is None:
        raise PlanMismatch(
            "the plan is a simulation without a roster, so nobody could prove who they are; nothing is served.",
            fix=Run("plan new plan.toml --public-key st-anna.pub ..."),
            parameter="roster",
        )
    other = None if peer is None or agreed.operators is None else peer_of(agreed, store, peer, reach)
    return Hosted(
        plan=agreed,
        keys=store,
        agreements=every,
        documents=documents_of(plan),
        folders=None if folder is None else (folder, folder),
        peer=other,
    )


def _nth(keys: list[Path] | None, number: int) -> Path | None:
    """Keys of one of several plans; one file of keys serves all."""
    if not keys:
        return None
    return keys[number] if number < len(keys) else keys[0]


def _only(agreements: Path | None, plans: list[Path]) -> Path | None:
    """An --agreements file belongs to one plan; of several, each has its own beside it."""
    if agreements is not None and len(plans) > 1:
        raise typer.BadParameter("with several plans, put each PLAN.agreed beside its plan", param_hint="--agreements")
    return agreements


def _own(folder: Path | None, plan: Path, plans: list[Path]) -> Path | None:
    """Folder of one plan: with several, each has one of its own in it."""
    if folder is None or len(plans) == 1:
        return folder
    folder.mkdir(exist_ok=True)
    return folder / plan.stem


def _operator(
    plan: Plan, store: KeyStore | None, mailbox: ServerFolder, state: Path
) -> tuple[Callable[..., CoordinationStatus], Callable[[], CoordinationStatus]]:
    """Give what one look of an operator does, and what tells how far it has come."""
    from twofold.server.operate import operate, progress_of  # these load the library of ciphers
    from twofold.server.operator import Operator

    assert store is not None  # a plan with operators has a roster
    one = Operator(plan, store, state=state)
    apart = mailbox.inbox.resolve() != mailbox.outbox.resolve()  # else the other one sees every report itself
    return partial(operate, one, mailbox, forward=apart), partial(progress_of, one)


def _look(
    look: Callable[..., CoordinationStatus],
    progress_so_far: Callable[[], CoordinationStatus],
    wait: float,
    poll: float,
    close: bool,
) -> CoordinationStatus:
    """Check until the round is published or time is up; late messages can still make a short round complete."""
    until = time.monotonic() + wait
    with bars() as show:
        while True:
            try:
                status = look(close=close)
                close = False  # the present step only, not those that follow
                if status.published or time.monotonic() >= until:
                    return status
                show("messages", status.arrived, status.expected)
            except TooFewMessages:
                if time.monotonic() >= until:
                    _print_people(progress_so_far())
                    raise
            time.sleep(poll)


def _print(status: CoordinationStatus, steps: list[StepId], *, json: bool) -> None:
    """Say which steps are closed, which one is open, and who is missing in it."""
    over = steps if status.published else steps[: steps.index(status.step)]
    present = None if status.published else STEPS[status.step]
    remark = ANYBODY if status.open_to_anybody else ""
    if json:
        record = {
            "arrived": status.arrived,
            "expected": status.expected,
            "rejected": len(status.refused),
            "closed": status.closed,
            "steps_closed": [STEPS[one] for one in over],
            "step_open": present,
            "published": status.published,
            "missing": status.missing,
            "refused": [{"name": one.name, "reason": one.reason} for one in status.refused],
            "remark": remark,
        }
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    if over:
        say(f"closed: {', '.join(STEPS[one] for one in over)}")
    if present is not None:
        say(f"open: {present}, step {len(over) + 1} of {len(steps)}")
    if _waits_for_operator(status):
        say(f"waiting: for operator {_other(status)}")
    else:
        done = "published" if status.published else "waiting"
        say(f"{done}: {status.arrived} of {status.expected} {ARRIVING[status.step][0]}")
    _print_people(status)
    if remark:
        say(f"note: {remark}", err=True)
    if not status.published:
        say(str(_not_complete(status)), err=True)


def _not_complete(status: CoordinationStatus) -> NotReady:
    """Say when the step closes; closing by hand is offered only where it would work."""
    _, ends, then = ARRIVING[status.step]
    if _waits_for_operator(status):
        other = _other(status)
        return NotReady(
            "the operators are not done yet; nothing is published.",
            expected=f"the next step is that of {other}: this one goes on when {ends.replace('it', other, 1)}",
            fix=f"let {other} run twofold coordinate with the files of this outbox in its inbox; then run the same "
            "command again, or --wait SECONDS",
        )
    if status.deadline is not None:
        ends += f", or {status.quorum} by {status.deadline}"
    later = "run the same command again later, or --wait SECONDS"
    if status.can_close:
        later += "; --close continues without the missing entities"
    elif (lacking := status.quorum - status.arrived) > 0:
        later += f"; it needs {lacking} more, {status.quorum} of {status.expected} in all"
    return NotReady("the round is not complete.", expected=f"it closes when {ends}{then}", fix=later)


def _waits_for_operator(status: CoordinationStatus) -> bool:
    return not status.published and status.step in BETWEEN


def _other(status: CoordinationStatus) -> str:
    """Name the operator that is waited for."""
    return listed(status.missing or ())


def _print_people(status: CoordinationStatus) -> None:
    """Show whose messages were rejected, and who is missing."""
    for one in status.refused:
        say(f"  not taken: {one.name}: {one.reason}")
    if status.missing and not status.published and not _waits_for_operator(status):
        say(f"  missing: {listed(status.missing)}")
