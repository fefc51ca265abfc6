"""`twofold join`: take part in a federation as one entity, over folders or HTTPS, doing whatever is due."""

from __future__ import annotations

import json as jsonlib
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.formats import with_formats
from twofold.cli.network import (
    CaOption,
    ClientCertificate,
    ClientKey,
    InvitationOption,
    PinOption,
    ProxyOption,
    ServerOption,
    mailbox_of,
    set_up,
)
from twofold.cli.options import (
    AgreementsOption,
    CatalogOption,
    DataOption,
    Decimal,
    Duplicates,
    Encoding,
    EntityName,
    ForceOption,
    ItemColumn,
    Json,
    KeysOption,
    Missing,
    PolicyOption,
    RevokedOption,
    Separator,
    UnknownItems,
    UselessOption,
    UserColumn,
    ValueColumn,
    YesOption,
    accept_useless,
    accept_weak,
    agreed_name,
    listed,
    note_few,
    open_keys,
    open_ledger,
    open_site,
    read_agreed,
    read_agreements,
    read_catalog,
    refuse_output,
)
from twofold.cli.progress import bars, waiting
from twofold.cli.render import say, shell_words
from twofold.cli.scans import open_data
from twofold.cli.steps import NOT_YET, PUBLISHED, SENT, not_taken, operators_of, price_lines, price_record
from twofold.entity.agent import Entity
from twofold.entity.participate import ParticipationStatus, participate
from twofold.errors import TransportError, Unreachable
from twofold.federation.folder import EntityFolder
from twofold.federation.mailbox import EntityMailbox, StepId
from twofold.federation.messages import roster_of
from twofold.federation.plan import Plan

if TYPE_CHECKING:
    from twofold.entity.site import Site
    from twofold.identity.keystore import KeyStore

__all__ = ["join"]


@with_formats
def join(
    data: DataOption,
    ledger: Annotated[Path, typer.Option(help="The ledger of this data set; see `twofold ledger new`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model, such as st-anna.model.")],
    plan: Annotated[Path | None, typer.Option("--plan", help="The agreed plan (TOML).")] = None,
    invitation: InvitationOption = None,
    outbox: Annotated[Path | None, typer.Option(help="Folder whose files go to the server.")] = None,
    inbox: Annotated[
        Path | None, typer.Option(help="Folder in which the server's files arrive; may be the outbox.")
    ] = None,
    server: ServerOption = None,
    ca: CaOption = None,
    pin: PinOption = None,
    proxy: ProxyOption = None,
    client_certificate: ClientCertificate = None,
    client_key: ClientKey = None,
    once: Annotated[
        bool, typer.Option("--once", help="With --server: do what is due and end, for a scheduler.")
    ] = False,
    keys: KeysOption = None,
    agreements: AgreementsOption = None,
    agree: Annotated[bool, typer.Option("--agree", help="Agree to the plan, as `twofold plan agree` does.")] = False,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="You compared the plan's fingerprint with people you know; asked for once."),
    ] = False,
    revoked: RevokedOption = None,
    policy: PolicyOption = None,
    yes: YesOption = False,
    confirm_useless: UselessOption = False,
    entity: EntityName = None,
    catalog: CatalogOption = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    missing: Missing = "error",
    version: Annotated[str, typer.Option(help="Public version of the data; a new version spends again.")] = "1",
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Create the ledger, for people who have none.")
    ] = False,
    wait: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to wait for the server; 0 checks once. With --server without end."),
    ] = None,
    poll: Annotated[float, typer.Option(min=0.05, help="Seconds between checks.")] = 2.0,
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Take part: send what is due, read what has arrived, and write the model once the item factors are here.

    Over folders (--outbox, --inbox), or with a server (--server), which --invitation names together with the plan.
    Safe to stop and start again at any time: nothing is drawn or paid for twice. Exit code 3 while the server, or an
    approval, is still waited for.

    Examples
    --------
    twofold join --plan plan.toml --data visits.csv --keys st-anna.keys --ledger st-anna.ledger --outbox out
      --inbox in -o st-anna.model
    twofold join --invitation st-anna.invitation --data visits.csv --keys st-anna.keys --ledger st-anna.ledger
      -o st-anna.model
    twofold join --invitation st-anna.invitation --omop postgresql://me@cdm/omop --schema cdm --keys st-anna.keys
      --ledger st-anna.ledger -o st-anna.model
    """
    reach = {"ca": ca, "pin": pin, "proxy": proxy, "certificate": client_certificate, "key": client_key}
    if invitation is not None:
        plan, server, entity, reach = set_up(invitation, keys, plan=plan, server=server, entity=entity, reach=reach)
    if plan is None:
        raise typer.BadParameter("--plan FILE, or --invitation FILE", param_hint="--plan")
    folders = _folders(outbox, inbox, server)
    agreed = read_agreed(plan)
    refuse_output(output, (plan, data, catalog, keys, invitation), ledger=ledger, force=force, plan=agreed)
    accept_weak(agreed, yes)
    accept_useless(agreed, confirm_useless, ledger, version=version)
    name = agreed_name(entity, output, agreed)
    items = read_catalog(agreed, plan, catalog, encoding=encoding)
    columns = {"user": user, "item": item, "value": value}
    columns |= {"separator": separator, "encoding": encoding, "decimal": decimal, "missing": missing}
    table = open_data(data, agreed, items, duplicates=duplicates, unknown_items=unknown_items, **columns)
    if not json:
        note_few(agreed, table)
    store, every = open_keys(agreed, keys, revoked), read_agreements(agreed, plan, agreements)
    first = Entity(name, table, agreed, version=version, keys=keys, agreements=every)
    about = {} if store is None or agreed.simulation else _members(agreed)
    if store is not None:
        if about and not json:
            _show_members(agreed, about)
        first.check_keys()  # refuses what does not fit before a ledger is made
    site = open_site(agreed, store, keys, policy)
    about |= {} if site is None else {"policy": site.policy_hash}
    if site is not None and not json:
        say(site.line, err=True)
    if agree and store is not None:
        _agree(agreed, store, site)
    if confirm and site is not None and store is not None:
        store.confirm(agreed.hash)
        site.confirmed(agreed)
    book = open_ledger(ledger, agreed, name, new=new_ledger, store=store)
    agent = Entity(name, table, agreed, ledger=book, version=version, keys=keys, agreements=every, site=site)
    agent.check_room()  # before others wait for this entity

    patience = wait if wait is not None else 0.0 if once or server is None else math.inf
    with ExitStack() as stack:
        mailbox: EntityMailbox = EntityFolder(*folders, agreed)
        if server is not None:
            mailbox = stack.enter_context(mailbox_of(agreed, store, server, reach))
        stack.enter_context(shell_words(secure=agreed.peers is not None))
        status, fresh = _take_part(agent, mailbox, 0.0 if once else patience, poll)
    note = ""
    if status.factors is not None:
        with bars():
            model = agent.personalize(status.factors)
        model.save(output)
        note = model.summary()
    already = [step for step in status.sent if step not in fresh]
    _print(status, already, folders[1] if server is None else None, output, note, about if json else None)
    if status.factors is None:
        raise typer.Exit(NOT_YET)


def _agree(plan: Plan, store: KeyStore, site: Site | None) -> None:
    """Sign the plan's hash, if the policy allows it."""
    if plan.peers is not None:
        store.check_free(plan.hash)
    if site is not None:
        site.agreed(plan)
    store.agree(plan.hash)


def _folders(outbox: Path | None, inbox: Path | None, server: str | None) -> tuple[Path, Path]:
    """Check the two folders, which a server replaces."""
    if server is not None:
        if outbox is not None or inbox is not None:
            raise typer.BadParameter("either --server, or --outbox and --inbox", param_hint="--server")
        return Path(), Path()
    if outbox is None or inbox is None:
        raise typer.BadParameter("--server ADDRESS, or both --outbox and --inbox", param_hint="--server")
    for option, box in (("--outbox", outbox), ("--inbox", inbox)):
        _check_folder(option, box)
    return outbox, inbox


def _take_part(
    agent: Entity, mailbox: EntityMailbox, patience: float, poll: float
) -> tuple[ParticipationStatus, set[StepId]]:
    """Do what is due until the item factors are here or time is up; a server that is away is waited for, too."""
    until, fresh = time.monotonic() + patience, set[StepId]()
    with waiting() as show:
        while True:
            show("sending what is due, reading what has arrived")
            try:
                status = participate(agent, mailbox)
                fresh |= set(status.fresh)
                if status.factors is not None or time.monotonic() >= until:
                    return status, fresh
                show("" if status.waits is None else f"waiting for {PUBLISHED[status.waits]}")
            except Unreachable as error:
                if time.monotonic() >= until:
                    raise
                show(f"{error.summary} trying again")
            time.sleep(max(poll, getattr(mailbox, "retry_after", 0.0)))


def _members(plan: Plan) -> dict[str, Any]:
    """What everybody else must see, too."""
    from twofold.federation.agreement import plan_words  # loads the library of ciphers

    members = roster_of(plan)
    names = {"entities": [*members.entities], "operators": [*members.operators]}
    return {"fingerprint": plan_words(plan), **names, **price_record(plan)}


def _show_members(plan: Plan, about: dict[str, Any]) -> None:
    """Say on standard error what the entity takes part in; it stays useful if the command is refused later."""
    say(f"plan {plan.name}, {plan.hash[:12]}, written by {plan.writer or 'nobody named'}", err=True)
    say(f"  fingerprint: {about['fingerprint']}", err=True)
    say(f"  entities: {listed(about['entities'])}; {operators_of(roster_of(plan))}", err=True)
    for line in price_lines(plan):
        say(f"  {line}", err=True)


def _check_folder(option: str, path: Path) -> None:
    """Refuse a file in place of a folder before anything is drawn or spent."""
    if path.exists() and not path.is_dir():
        raise TransportError(
            "this is a file, not a folder; nothing was drawn or spent.",
            found=f"{option} {path}",
            expected="a folder",
            fix=f"{option} {path.parent}, or another name",
        )


def _print(
    status: ParticipationStatus,
    already: Sequence[StepId],
    inbox: Path | None,
    output: Path,
    note: str,
    about: dict[str, Any] | None,
) -> None:
    """Say what was done; as JSON if there is something `about` the plan, which may be empty."""
    sent, before = [SENT[step] for step in status.sent], [SENT[step] for step in already]
    waits, rejected = "" if status.waits is None else PUBLISHED[status.waits], not_taken(status.rejected)
    if (
        waits and inbox is not None and not inbox.is_dir()
    ):  # nobody has brought anything yet, which is nothing to complain about
        waits, rejected = f"{waits} (there is no folder {inbox} yet)", ""
    if about is not None:
        record: dict[str, object] = {**about, "sent": sent, "already_sent": before, "waits": waits or None}
        record |= {"dropped": status.dropped, "not_taken": rejected or None}
        record |= {"file": output.name if note else None, "note": note}
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    if before:
        say(f"already sent: {', '.join(before)}")
    if fresh := [one for one in sent if one not in before]:
        say(f"sent: {', '.join(fresh)}")
    if status.dropped:
        spent = "its budget is spent" if StepId.MASKED in status.sent else "nothing was drawn or spent"
        say(f"note: the sum continues without this entity's message; {spent}, and it still gets the item factors")
    if rejected:
        say(f"  not taken: {rejected}", err=True)
    if waits:
        say(f"waiting for {waits}; run the same command again later, or --wait SECONDS", err=True)
    else:
        say(f"{output}: {note}")
