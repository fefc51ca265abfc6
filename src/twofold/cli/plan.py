"""`twofold plan`: write a plan file, show it, and explain what it would release before touching any data."""

from __future__ import annotations

import inspect
import json as json_module
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from twofold.cli.options import (
    CatalogFile,
    Encoding,
    ForceOption,
    Json,
    PolicyOption,
    RevokedOption,
    Separator,
    YesOption,
    accept_weak,
    listed,
    open_site,
    read_items,
    refuse_output,
)
from twofold.cli.plan_explain import explain_plan, note_features, plan_lines, release_lines, release_record
from twofold.cli.render import all_verbs, say
from twofold.cli.steps import operators_of, price_lines, price_record
from twofold.errors import BadPlan, DataError, Set
from twofold.federation.fields import FieldNote
from twofold.federation.plan import Plan
from twofold.federation.plan_file import read_plan
from twofold.federation.secure import OPERATORS, OperatorSum, SecureSum, usual_floor, usual_survivors
from twofold.privacy.ledger import Ledger
from twofold.privacy.unit import Unit

if TYPE_CHECKING:
    from twofold.data.catalog import Catalog
    from twofold.features import Features
    from twofold.identity.roster import Roster

__all__ = ["app", "check_features", "check_names", "new_plan_file", "print_notes", "read_roster"]

_NO_KEYS = "a plan that is not a simulation needs --public-key of every entity and of the operator"


def read_roster(paths: Sequence[Path], revoked: Sequence[Path] = (), *, operators: int = 1) -> Roster:
    """Join the public parts of all entities and of the operators; refuse a repeated or a revoked key."""
    from twofold.identity.keys import Revocation
    from twofold.identity.roster import Roster

    roster = Roster.joined([_public_keys(path) for path in paths], revoked=[Revocation.read(one) for one in revoked])
    if not roster.entities or len(roster.operators) != operators:
        raise BadPlan(
            f"the roster needs entities and {'one operator' if operators == 1 else 'two operators'}.",
            found=f"public parts of {len(roster.entities)} entities and {len(roster.operators)} operators",
            expected=_NO_KEYS if operators == 1 else "--public-key of every entity and of both operators",
            fix="--public-key st-anna.pub --public-key coordinator.pub, and so on; twofold keys new makes them",
            parameter="public_key",
        )
    return roster


def _public_keys(path: Path) -> Roster:
    """Read one file of public keys; an error names the file."""
    from twofold.identity.roster import Roster

    try:
        return Roster.read(path)
    except BadPlan as error:
        raise error.as_(BadPlan, found=f"--public-key {path.name}") from None


def check_names(roster: Roster, entities: Sequence[str], n_entities: int | None) -> None:
    """Refuse names and numbers of entities that do not match the keys."""
    known = roster.entities
    if strangers := [name for name in entities if name not in known]:
        raise BadPlan(
            "an entity has no public keys.",
            found=f"--entity {listed(strangers)}",
            expected=f"names among the keys: {listed(list(known))}",
            fix="--public-key of that entity too, or no --entity: the keys name the entities",
            parameter="entity",
        )
    if entities and (rest := [name for name in known if name not in entities]):
        raise BadPlan(
            "the entities are not those of the public keys.",
            found=f"keys of {listed(rest)}, without --entity",
            fix="leave --entity out: the keys name the entities",
            parameter="entity",
        )
    if n_entities is not None and n_entities != len(known):
        raise BadPlan(
            "the number of public keys differs from the number of entities.",
            found=f"--n-entities {n_entities}, and {len(known)} keys",
            expected="the public keys of every entity, and no other",
            fix="--public-key of the others too, or leave --n-entities out: the keys are counted",
            parameter="n_entities",
        )


def check_features(mechanism: str | None, features: Path | None) -> None:
    """Refuse a mechanism that needs a table of features if there is none."""
    if mechanism == "features" and features is None:
        raise BadPlan(
            "the mechanism features needs a public table of what the items are.",
            found="no --features",
            fix=(Set("features", "kinds.csv"), "another mechanism"),
            parameter="features",
        )


def print_notes(plan: Plan, table: Features | None) -> None:
    """Warn about what is allowed but probably unintended; on standard error, so that JSON stays JSON."""
    for note in _notes(plan, table):
        say(f"note: {note}", err=True)


def _notes(plan: Plan, table: Features | None) -> Iterable[str]:
    if table is not None and (bare := plan.n_items - table.described):
        yield (
            f"{bare:,} of {plan.n_items:,} items have no features: no line in the table, an empty class or only zeros. "
            "Allowed; fill them in if more is publicly known"
        )
    secure = plan.peers
    if plan.roster is None and not plan.simulation:
        yield f"{_NO_KEYS}; without keys this plan can be explained and simulated, not run"
    if plan.operators is not None and plan.operators.floor < 3:
        yield (
            "--floor 2: in a sum of two entities each can take off its own numbers, and sees the other's totals under "
            "noise that is made for one person"
        )
    times = {"--deadline": plan.deadline, "--share-deadline": None if secure is None else secure.share_deadline}
    for option, text in times.items():
        if text is not None and datetime.fromisoformat(text) <= datetime.now(UTC):
            yield f"{option} {text} is in the past: the server would stop waiting as soon as enough messages arrive"


def new_plan_file(
    file: Annotated[Path, typer.Argument(help="The plan file to write, such as plan.toml.")],
    catalog: CatalogFile,
    item: Annotated[str | None, typer.Option(help="Column of the item ids in the catalog.")] = None,
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    entity: Annotated[list[str] | None, typer.Option(help="An entity that may take part; repeat for more.")] = None,
    unit: Annotated[str, typer.Option(help="Whose presence is hidden: person or visit.")] = "person",
    unit_entities: Annotated[int, typer.Option(help="Entities in which one person or visit may be found.")] = 1,
    features: Annotated[
        Path | None,
        typer.Option(help="Public table of what the items are: an item column and classes."),
    ] = None,
    public_key: Annotated[
        list[Path] | None,
        typer.Option(help="Public part of an entity or of the operator (twofold keys new); repeat for all."),
    ] = None,
    revoked: RevokedOption = None,
    secure: Annotated[
        str | None,
        typer.Option(
            help="Nobody sees more than the sum of messages. operators: two of them, one visit. peers: three visits."
        ),
    ] = None,
    force: ForceOption = False,
    yes: YesOption = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Write a commented plan file for a catalog, with sensible defaults. Reads only the public item list.

    Examples
    --------
    twofold plan new plan.toml --catalog items.csv --n-users 5000 --public-key st-anna.pub --public-key
      st-benno.pub --public-key coordinator.pub
    twofold plan new plan.toml --catalog items.csv --simulation
    """
    from twofold.federation.plan_file import write_plan
    from twofold.federation.tables import save_features

    _refuse(file, (catalog, features, *(public_key or ())), force=force)
    check_features(given["mechanism"], features)
    items = read_items(catalog, item=item, separator=separator, encoding=encoding)
    table = None if features is None else _features(features, items, separator)
    chosen = {name: value for name, value in given.items() if value is not None and value is not False}
    if secure not in (None, "peers", "operators"):
        raise BadPlan("{parameter} is unknown.", found=secure[:20], expected="peers or operators", parameter="secure")
    shared = secure == "operators"
    secured = _secured(chosen, shared=shared)
    counted, people = chosen.get("n_entities"), shared and bool(secured.get("people"))
    if people:
        chosen.setdefault("n_users", 1)
    roster = None
    if public_key:
        roster = read_roster(public_key, revoked or (), operators=OPERATORS if shared else 1)
        check_names(roster, entity or (), None if people else counted)
    number = counted if counted is not None else len((roster.entities if roster else entity) or ()) or 1
    if shared:
        chosen["secure"] = OperatorSum(**{"floor": usual_floor(number)} | secured)
    elif secure or secured:
        chosen["secure"] = SecureSum(**{"survivors": usual_survivors(number)} | secured)
    made = Plan(
        catalog=items,
        features=table,
        roster=roster,
        entities=tuple(entity or ()),
        unit=Unit(holder=unit, entities=unit_entities),  # type: ignore[arg-type]
        **chosen | {"n_entities": number},
    )
    accept_weak(made, yes)
    # Not .keys, which is how secret ones are called.
    beside = {"features_file": file.with_suffix(".features"), "roster_file": file.with_suffix(".roster")}
    named = {key: path for key, path in beside.items() if _asked(key, table, roster)}
    for path in named.values():
        _refuse(path, (file, catalog, features, *(public_key or ())), force=force)
    if table is not None:
        save_features(table, beside["features_file"])
    if roster is not None:
        roster.write(beside["roster_file"])
    write_plan(made, file, catalog_file=catalog, **named)
    print_notes(made, table)
    if json:
        typer.echo(json_module.dumps({"file": file.name, "hash": made.hash, "plan": made.as_dict()}, indent=2))
    else:
        say(f"Wrote {file.name}: {made.n_items:,} items, plan {made.hash[:12]}.")
        if named:
            say(f"Beside it, also for every side: {', '.join(path.name for path in named.values())}.")
        say(f"Next: see what it means: twofold plan explain {file.name}")
        if roster is not None:
            say(f"Then everybody agrees: twofold plan agree {file.name} --keys NAME.keys")


def _refuse(path: Path, inputs: Iterable[Path | None], *, force: bool) -> None:
    try:
        refuse_output(path, inputs, force=force, parameter="file")
    except DataError as error:
        raise error.as_(BadPlan) from None


def _secured(chosen: dict[str, Any], *, shared: bool) -> dict[str, Any]:
    """Take the fields of the secure sum out of what was given; refuse those of the other kind."""
    own, other = (OperatorSum, SecureSum) if shared else (SecureSum, OperatorSum)
    fields = {one.name for one in own.notes()}
    for name in (one.name for one in other.notes() if one.name not in fields):
        if name in chosen:
            raise BadPlan(
                "{parameter} belongs to the other kind of secure sum.",
                found=f"--secure {'operators' if shared else 'peers'}",
                fix=Set("secure", "peers" if shared else "operators"),
                parameter=name,
            )
    return {name: chosen.pop(name) for name in fields if name in chosen}


def _option(note: FieldNote) -> inspect.Parameter:
    """Make the option of one field, with the field's help and type."""
    meaning = note.meaning + (f" {note.default} by default." if note.default not in ("", "none", "false") else "")
    if note.kind is bool:
        return inspect.Parameter(
            note.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(f"--{note.name.replace('_', '-')}", help=meaning)],
        )
    return inspect.Parameter(
        note.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[note.kind | None, typer.Option(help=meaning)],
    )


def _with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every field of a plan that has one."""
    notes = {note.name: note for table in (OperatorSum, SecureSum, Plan) for note in table.notes() if note.option}
    options = [_option(note) for note in notes.values()]
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "given"]
    hints = get_type_hints(command, include_extras=True)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*(one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *options]
    )
    command.__annotations__ = {one.name: one.annotation for one in command.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return command


def _asked(key: str, table: object, roster: object) -> bool:
    return (table if key == "features_file" else roster) is not None


def _features(path: Path, items: Catalog, separator: str) -> Features:
    from twofold.data.features import read_features

    return read_features(path, items, separator=separator)


app = typer.Typer(no_args_is_help=True, help="Write, show and explain plans: the public parameters of a federation.")


app.command("new")(_with_fields(new_plan_file))


@app.command("show")
def show_plan(
    file: Annotated[Path, typer.Argument(help="A plan file.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")] = False,
) -> None:
    """Print the hash, every field, the mechanism that would run and the size of its message.

    Example: twofold plan show plan.toml
    """
    note_features(file)
    plan = read_plan(file)
    if json:
        record = {"hash": plan.hash, "plan": plan.as_dict(), "leaves": release_record(plan)}
        typer.echo(json_module.dumps(record, indent=2))
    else:
        say("\n".join([f"Plan {plan.hash}", "", *plan_lines(plan), "", *release_lines(plan)]))


app.command("explain")(explain_plan)


@app.command("agree")
def agree_plan(
    file: Annotated[Path, typer.Argument(help="The plan file.")],
    keys: Annotated[Path, typer.Option(help="Your secret keys, whose public part is in the plan's roster.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the agreement, to send to the plan's author.")
    ] = None,
    revoked: RevokedOption = None,
    policy: PolicyOption = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger of your data set: checks that it has room for the plan.")
    ] = None,
    yes: YesOption = False,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Agree to a plan: sign its hash. A plan that is not a simulation starts when everybody it names has agreed.

    `join` and `coordinate` send the agreement. With --output it is also written to a file.

    Example: twofold plan agree plan.toml --keys st-anna.keys -o st-anna.agreement
    """
    from twofold.federation.agreement import Agreements, check_member, plan_words
    from twofold.identity.keys import Revocation
    from twofold.identity.keystore import KeyStore

    plan, store = read_plan(file), KeyStore(keys)
    if output is not None:
        refuse_output(output, (file, keys, ledger), force=force, plan=plan)
    accept_weak(plan, yes)
    members = check_member(plan, store.identity, [Revocation.read(one) for one in revoked or ()])
    site = open_site(plan, store, keys, policy) if store.identity.name in members.entities else None
    if site is not None and not json:
        say(site.line, err=True)
    if ledger is not None:
        _check_room(ledger, plan, store.identity.name)
    if plan.peers is not None or (plan.operators is not None and store.identity.name in members.operators):
        store.check_free(plan.hash)
    if site is not None:
        site.agreed(plan)
    signature = store.agree(plan.hash)
    if output is not None:
        Agreements(plan.hash, {store.identity.name: signature}).write(output)
    words = plan_words(plan)
    if json:
        record = {"plan": plan.hash, "fingerprint": words, "name": store.identity.name, "members": list(members)}
        record |= price_record(plan) | {"policy": None if site is None else site.policy_hash}
        typer.echo(json_module.dumps(record, indent=2))
        return
    say(f"{store.identity.name} agrees to plan {plan.name}, {plan.hash[:12]}")
    say(f"  fingerprint: {words}")
    say(f"  entities: {listed(list(members.entities))}; {operators_of(members)}")
    say(f"  written by: {plan.writer or 'nobody named'}")
    for line in price_lines(plan):
        say(f"  {line}")
    if output is not None:
        say(f"  send {output.name} to the author of the plan")


def _check_room(ledger: Path, plan: Plan, name: str) -> None:
    """Refuse a plan for which the ledger has no room, before it is signed."""
    from twofold.entity.account import open_account

    event = plan.spec.event_for(seeded=False)
    open_account(Ledger(ledger), plan, dataset=name, event=event).check_room("1")


@app.command("agreed")
def join_agreements(
    file: Annotated[Path, typer.Argument(help="The plan file.")],
    parts: Annotated[list[Path], typer.Argument(help="Agreements from everybody (twofold plan agree --output).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for all agreements; beside the plan as .agreed by default."),
    ] = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Join everybody's agreements into one file to hand out with the plan; it saves everybody one visit.

    Examples
    --------
    twofold plan agreed plan.toml st-anna.agreement st-benno.agreement coordinator.agreement -o plan.agreed
    """
    from twofold.federation.agreement import Agreements

    output = output or file.with_suffix(".agreed")
    refuse_output(output, (file, *parts), force=force)
    plan = read_plan(file)
    every = Agreements.joined([Agreements.read(one) for one in parts])
    every.check(plan)
    every.write(output)
    if json:
        typer.echo(json_module.dumps({"file": output.name, "plan": plan.hash, "agreements": len(every)}, indent=2))
    else:
        say(f"{output}: all {len(every)} agreements to plan {plan.hash[:12]}")


all_verbs(app)
