"""`twofold release`, `factorize` and `personalize`: the single steps of the two rounds."""

from __future__ import annotations

import json as jsonlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from twofold.cli.formats import with_formats
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
    Local,
    Missing,
    PlanOption,
    PolicyOption,
    Separator,
    Strength,
    UnknownItems,
    UselessOption,
    UserColumn,
    ValueColumn,
    YesOption,
    accept_useless,
    accept_weak,
    agreed_name,
    check_folder,
    open_keys,
    open_ledger,
    open_site,
    read_agreed,
    read_agreements,
    read_catalog,
    read_table,
    refuse_output,
    strength_of,
)
from twofold.cli.progress import bars
from twofold.cli.render import say, shell_words
from twofold.cli.scans import open_data
from twofold.cli.steps import not_taken
from twofold.data.scan import Scan
from twofold.entity.agent import Entity
from twofold.errors import NotReady, PlanMismatch, Run, Set
from twofold.federation.factors import ItemFactors, save_factors
from twofold.federation.folder import EntityFolder
from twofold.federation.mailbox import ROUNDS, NothingYet, steps_of
from twofold.federation.messages import ReleaseMessage
from twofold.federation.plan import Plan
from twofold.privacy.ledger import Ledger, cost_text
from twofold.privacy.ledger.state import cost_of
from twofold.server.coordinate import check_signer
from twofold.server.factorize import Server

if TYPE_CHECKING:
    from twofold.data.ratings import Ratings
    from twofold.entity.site import Site
    from twofold.federation.agreement import Agreements
    from twofold.federation.reports import Report

__all__ = ["factorize", "personalize", "release"]


@with_formats
def release(
    plan: PlanOption,
    data: DataOption,
    ledger: Annotated[Path, typer.Option(help="The ledger of this data set; see `twofold ledger new`.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The message, such as st-anna.round1, or an outbox folder (with --entity)."
        ),
    ],
    keys: KeysOption = None,
    agreements: AgreementsOption = None,
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
    version: Annotated[
        str, typer.Option(help="Public version of the data, such as 2026; a new version spends again.")
    ] = "1",
    new_ledger: Annotated[
        bool,
        typer.Option("--new-ledger", help="Create the ledger, for people who have none; its ceiling is the plan's."),
    ] = False,
    person: Annotated[
        bool, typer.Option("--person", help="This is one person's device; for a plan in which people are entities.")
    ] = False,
    voucher: Annotated[
        Path | None, typer.Option(help="With --person: the institution's voucher, from `twofold keys vouch`.")
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="With --person: you compared the operators' fingerprints, and agree to the plan."
        ),
    ] = False,
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Make an entity's one message: reserve the budget, draw the noise, store and write the message.

    Running it again writes the same bytes and spends nothing. Exit code 3 while an approval is waited for.

    Examples
    --------
    twofold release --plan plan.toml --data visits.csv --keys st-anna.keys --ledger st-anna.ledger --new-ledger
      -o st-anna.round1
    twofold release --plan plan.toml --meds meds --codes LAB// --since 2025-01-01 --keys st-anna.keys --ledger
      st-anna.ledger -o st-anna.round1
    """
    agreed = read_agreed(plan)
    if output.is_dir():
        check_folder(output)
    else:
        refuse_output(output, (plan, data, catalog, keys), ledger=ledger, force=force, plan=agreed)
    if agreed.peers is not None:
        raise PlanMismatch(
            "this plan has a secure sum, which needs more than one message; nothing was drawn.",
            fix=Run("join --keys ... --outbox ... --inbox ..."),
            parameter="secure",
        )
    accept_weak(agreed, yes)
    accept_useless(agreed, confirm_useless, ledger, version=version)
    items = read_catalog(agreed, plan, catalog, encoding=encoding)
    _check_person(agreed, person=person, voucher=voucher, confirm=confirm, keys=keys, entity=entity)
    columns = {"user": user, "item": item, "value": value}
    columns |= {"separator": separator, "encoding": encoding, "decimal": decimal, "missing": missing}
    if person:
        own = read_table(data, agreed, items, duplicates=duplicates, unknown_items=unknown_items, **columns)
        every = _all_agreements(agreed, plan, agreements)
        assert keys is not None
        me = _Device(own, agreed, keys, voucher, ledger, version, every, confirm=confirm, new_ledger=new_ledger)
        _release_person(me, output, json=json)
        return
    if entity is None and output.is_dir():
        raise typer.BadParameter("an outbox folder needs the entity's name", param_hint="--entity")
    name = agreed_name(entity, output, agreed)
    table = open_data(data, agreed, items, duplicates=duplicates, unknown_items=unknown_items, **columns)
    store = open_keys(agreed, keys)
    every = _all_agreements(agreed, plan, agreements)
    Entity(name, table, agreed, keys=keys, agreements=every).check_keys()  # before a ledger is made
    site = open_site(agreed, store, keys, policy)
    book = open_ledger(ledger, agreed, name, new=new_ledger, store=store)
    if site is not None and not json:
        say(site.line, err=True)
    agent = Entity(name, table, agreed, ledger=book, version=version, keys=keys, agreements=every, site=site)
    agent.check_room()
    with shell_words(), bars("making the message"):
        message: ReleaseMessage | Report = agent.release() if agreed.operators is None else agent.report()
    if output.is_dir():
        EntityFolder(output, output, agreed).submit(steps_of(agreed)[-1], message.data, entity=name)
    else:
        message.save(output)
    if site is not None:
        site.sent(agreed, message.data)
    _print_release(message, agreed, book, output, site, json=json)


@dataclass(frozen=True)
class _Device:
    """What a person's release needs."""

    table: Ratings
    plan: Plan
    keys: Path
    voucher: Path | None
    ledger: Path
    version: str
    agreements: Agreements | None
    confirm: bool
    new_ledger: bool


def _check_person(
    plan: Plan, *, person: bool, voucher: Path | None, confirm: bool, keys: Path | None, entity: str | None
) -> None:
    """Match the options with the kind of plan, before anything is read."""
    if plan.people and not person:
        raise PlanMismatch(
            "every entity of this plan is one person; nothing was drawn.", fix=Set("person", True), parameter="person"
        )
    if not person and (voucher is not None or confirm):
        raise typer.BadParameter("belong to --person", param_hint="--voucher and --confirm")
    if person and entity is not None:
        raise typer.BadParameter("a person has no name", param_hint="--entity")
    if person and keys is None:
        raise PlanMismatch(
            "{parameter} is missing: a person's report is signed with a key that serves once; nothing was drawn.",
            fix=(Set("keys", "me.keys"), Run("keys person --keys me.keys --output me.request")),
            parameter="keys",
        )


def _release_person(me: _Device, output: Path, *, json: bool) -> None:
    """Make a person's one report, or write the stored one again."""
    from twofold.entity.person import Person  # loads the library of ciphers

    given: dict[str, Any] = {"keys": me.keys, "voucher": me.voucher, "agreements": me.agreements}
    first = Person(me.table, me.plan, **given)
    first.check_keys()  # before a ledger is made
    if me.confirm:
        first.confirm()
    first.check_confirmed()
    book = open_ledger(me.ledger, me.plan, "person", new=me.new_ledger)
    agent = Person(me.table, me.plan, ledger=book, version=me.version, **given)
    agent.check_room()
    with shell_words():
        report = agent.report()
    if output.is_dir():
        EntityFolder(output, output, me.plan).submit(steps_of(me.plan)[-1], report.data, entity=agent.name)
    else:
        report.save(output)
    _print_release(report, me.plan, book, output, None, json=json)


def _all_agreements(plan: Plan, path: Path, given: Path | None) -> Agreements | None:
    """Read everybody's agreements; refuse a real plan without them before a ledger is made."""
    found = read_agreements(plan, path, given)
    if found is None and not plan.simulation:
        raise NotReady(
            "everybody's agreements to the plan are missing; nothing was drawn.",
            expected=f"a file of them, by default {path.with_suffix('.agreed').name} beside the plan",
            fix=(Set("agreements", "plan.agreed"), Run("join"), Run("coordinate")),
            parameter="agreements",
        )
    return found


def _print_release(
    message: ReleaseMessage | Report, plan: Plan, book: Ledger, output: Path, site: Site | None, *, json: bool
) -> None:
    content = message.content if isinstance(message, ReleaseMessage) else None
    seeded = content.seeded if content is not None else message.seeded  # type: ignore[union-attr]
    record: dict[str, Any] = {
        "file": output.name,
        "entity": message.entity,
        "bytes": len(message.data),
        "receipt": message.receipt,
        "plan": plan.hash,
        "mechanism": plan.spec.mechanism,
        "prototypes": getattr(content, "n_prototypes", None),
        "cost": cost_text(cost_of(plan.budget)) if not plan.simulation else None,
        "private": not seeded and not plan.simulation,
        "policy": None if site is None else site.policy_hash,
    }
    if json:
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    rows = record["prototypes"]
    holds = f"{plan.spec.numbers:,} numbers" if rows is None else f"{rows} prototype{'s' * (rows != 1)}"
    shared = "" if content is not None else ", in two sealed shares"
    what = f"{len(message.data):,} bytes, {holds} by {plan.spec.mechanism}{shared}"
    say(f"{output}: the message of {message.entity}, {what}")
    if content is not None and content.note:
        say(f"  {content.note}")
    price = f"costs {record['cost']} per {plan.unit.holder}, written to {book.path.name}; asking again costs nothing"
    say(f"  {price if record['private'] else 'NOT PRIVATE: the plan is a simulation'}")
    say(f"  receipt {message.receipt}")


def factorize(
    messages: Annotated[list[Path], typer.Argument(help="The entities' messages (*.round1), in any order.")],
    plan: PlanOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the item factors, such as items.round2.")],
    keys: KeysOption = None,
    agreements: AgreementsOption = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Combine the entities' messages into shared item factors, signed by the operator. Reads no data.

    Examples
    --------
    twofold factorize st-anna.round1 st-benno.round1 --plan plan.toml --keys coordinator.keys -o items.round2
    """
    refuse_output(output, (*messages, plan, keys), force=force)
    agreed = read_agreed(plan)
    store = open_keys(agreed, keys)
    _all_agreements(agreed, plan, agreements)
    server = Server(agreed, signer=None if store is None else store.signer)
    check_signer(server)
    with bars():
        factors = server.factorize(messages)
    save_factors(factors, output, agreed, signer=server.signer)
    _print_factors(factors, output, json=json)


def _print_factors(factors: ItemFactors, output: Path, *, json: bool) -> None:
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
    say(f"{output}: {factors.rank} factors of {factors.n_items:,} items from {factors.entities} entities")
    if factors.note:
        say(f"  {factors.note}")
    if not factors.private:
        say("  NOT PRIVATE: made in a simulation, or without a proof")


@with_formats
def personalize(
    plan: PlanOption,
    data: DataOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model, such as st-anna.model.")],
    factors: Annotated[
        Path | None,
        typer.Argument(help="The shared item factors, such as items.round2, or the folder they arrive in."),
    ] = None,
    entity: EntityName = None,
    catalog: CatalogOption = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    missing: Missing = "error",
    local: Local = "auto",
    strength: Strength = "auto",
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Fit an entity's model; its own validation decides how far to follow the shared factors. Costs nothing.

    Without factors it is the entity's own model, with nothing shared: what a federation has to beat.

    Examples
    --------
    twofold personalize items.round2 --plan plan.toml --data visits.csv -o st-anna.model
    twofold personalize --plan plan.toml --data visits.csv -o alone.model
    twofold personalize --plan plan.toml --omop cdm.duckdb --table drug_exposure -o alone.model
    """
    if factors is None and strength not in ("auto", "own"):
        raise typer.BadParameter("needs the shared factors", param_hint="--strength")
    refuse_output(output, (factors, plan, data, catalog), force=force)
    agreed = read_agreed(plan)
    name = "person" if agreed.people else agreed_name(entity, output, agreed)
    items = read_catalog(agreed, plan, catalog, encoding=encoding)
    columns = {"user": user, "item": item, "value": value}
    columns |= {"separator": separator, "encoding": encoding, "decimal": decimal, "missing": missing}
    table = open_data(data, agreed, items, duplicates=duplicates, unknown_items=unknown_items, **columns)
    chosen = cast(Literal["auto", "factors", "item-item", "patterns", "features"], local)
    last = steps_of(agreed)[-1] if agreed.secure is not None else ROUNDS
    shared = EntityFolder(factors, factors, agreed).fetch(last) if factors and factors.is_dir() else factors
    if isinstance(shared, NothingYet):
        found = not_taken(shared.rejected) or None
        raise NotReady("the item factors have not arrived yet.", found=found, fix="run the same command again later")
    pull = strength_of(strength)
    with bars():
        if agreed.people and not isinstance(table, Scan):
            from twofold.entity.person import personal_model  # loads the library of ciphers

            model = personal_model(table, agreed, shared)
        else:
            model = Entity(name, table, agreed).personalize(shared, local=chosen, strength=pull)
    model.save(output)
    if json:
        record = {"file": output.name, "kind": model.scorer.kind, "strength": str(model.strength), "note": model.note}
        typer.echo(jsonlib.dumps(record, indent=2))
    else:
        say(f"{output}: {model.summary()}")
