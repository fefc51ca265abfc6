"""`twofold keys`: who someone is. One file of secret keys, one public part to hand out."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.options import Json, PlanOption, read_agreed, refuse_output
from twofold.cli.render import all_verbs, say
from twofold.errors import DataError, Set
from twofold.storage.files import write_whole

if TYPE_CHECKING:
    from twofold.identity.keys import Identity

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Keys of an entity, of a server's operator, or of a person who approves.")

Public = Annotated[Path, typer.Option("--output", "-o", help="File for the public part, such as st-anna.pub.")]


@app.command("new")
def new(
    keys: Annotated[Path, typer.Option(help="File for the secret keys, such as st-anna.keys. Never leaves.")],
    output: Public,
    entity: Annotated[str | None, typer.Option(help="Public name of an entity, such as st-anna.")] = None,
    operator: Annotated[str | None, typer.Option(help="Public name of a server's operator.")] = None,
    person: Annotated[str | None, typer.Option(help="Name of a person who approves releases.")] = None,
    renew: Annotated[
        Path | None, typer.Option(help="Earlier keys: new ones for another plan, with the same fingerprint.")
    ] = None,
    replace: Annotated[
        Path | None, typer.Option(help="Earlier keys that are given up: they vouch for the new fingerprint.")
    ] = None,
    json: Json = False,
) -> None:
    """Make secret keys, to sign with and for one secure sum; send the public part to the author of the plan.

    Running it again writes the same public part. A secure sum among peers needs new keys of everybody for every plan,
    one with two operators new keys of the operators: --renew.

    Examples
    --------
    twofold keys new --entity st-anna --keys st-anna.keys -o st-anna.pub
    twofold keys new --operator coordinator --keys coordinator.keys -o coordinator.pub
    """
    from twofold.entity.site import Site
    from twofold.identity.keys import Role
    from twofold.identity.keystore import KeyStore, new_keys
    from twofold.identity.log import Event

    named = [(role, name) for role, name in zip(Role, (entity, operator, person), strict=True) if name is not None]
    if len(named) != 1:
        raise typer.BadParameter("give one name", param_hint="--entity, --operator or --person")
    if renew is not None and replace is not None:
        raise typer.BadParameter("give one of them", param_hint="--renew or --replace")
    ((role, name),) = named
    _check_place("output", output, f"{name}.pub", (keys, renew, replace))
    _check_place("keys", keys, f"{name}.keys")
    _check_free(output, keys)
    made = new_keys(keys, name, role, renew=renew, replace=replace)
    _write(made.text, output)  # before the log, which can fail
    log = None
    if role is Role.ENTITY:
        log = Site.of(KeyStore(keys), keys).log
        log.add_once(Event.KEY_MADE, name=name, key=made.sign.hex())
    serves = KeyStore(keys).plan_hash
    if json:
        files = {"keys": keys.name, "public": output.name, "log": None if log is None else log.path.name}
        typer.echo(jsonlib.dumps(_record(made) | files | {"plan": serves}))
        return
    say(f"{output}: public part of the {role} {name}")
    say(f"  fingerprint: {made.words}")
    say(f"  secret keys in {keys.name}: for you only; never restore an old copy")
    if log is not None:
        say(f"  security log in {log.path}: twofold log show {log.path}")
    if role is Role.PERSON:
        say("  give the public part to the person who keeps the site's policy")
    else:
        say("  send the public part to the author of the plan, and read them the fingerprint over the phone")
    if serves is not None:
        say(f"note: these keys serve plan {serves[:12]}; for another, make new ones with --renew", err=True)


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A public part, a roster, or a file of secret keys.")],
    json: Json = False,
) -> None:
    """Print names and fingerprints. Of secret keys, prints the public part only.

    Example: twofold keys show st-anna.pub
    """
    every = _identities(file)
    if json:
        typer.echo(jsonlib.dumps([_record(one) for one in every], indent=2))
        return
    for one in every:
        say(f"{one.name} ({one.role})")
        say(f"  fingerprint: {one.words}")
        say(f"  signing key: {one.sign.hex()}")
        if one.replaces:
            say(f"  replaces the key {one.replaces.hex()}, which vouches for it")


@app.command("revoke")
def revoke(
    keys: Annotated[Path, typer.Option(help="The secret keys that must not be used any more.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the statement, such as st-anna.revoked.")],
    json: Json = False,
) -> None:
    """Withdraw a key: a signed statement for everybody who holds its public part. For lost or stolen keys.

    Example: twofold keys revoke --keys st-anna.keys -o st-anna.revoked
    """
    from twofold.identity.keystore import KeyStore

    _check_place("output", output, "st-anna.revoked", (keys,))
    store = KeyStore(keys)
    made = store.revocation()
    _write(made.text, output)
    if json:
        typer.echo(jsonlib.dumps({"name": store.identity.name, "sign": made.sign.hex(), "file": output.name}))
        return
    say(f"{output}: the key of {store.identity.name} is withdrawn")
    say("  send it to everybody who has its public part; plan new, agree, join and coordinate take --revoked")


@app.command("person")
def person(
    keys: Annotated[Path, typer.Option(help="File for the secret key, such as me.keys. Never leaves the device.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the request, such as me.request.")],
    json: Json = False,
) -> None:
    """Make a person's key for one plan, and a request to an institution to vouch for it. It holds no name.

    Running it again writes the same request. Another plan needs another key: the same one would tell both apart.

    Example: twofold keys person --keys me.keys -o me.request
    """
    from twofold.entity.person import person_keys, read_request
    from twofold.federation.reports import person_name

    _check_place("output", output, "me.request", (keys,))
    _check_place("keys", keys, "me.keys")
    _check_free(output, keys)
    _write(person_keys(keys), output)
    name = person_name(read_request(output))
    if json:
        typer.echo(jsonlib.dumps({"keys": keys.name, "request": output.name, "person": name}))
        return
    say(f"{output}: a request for a voucher, for the person {name[:12]}")
    say(f"  secret key in {keys.name}: for you only, and for one plan")
    say("  give the request to the institution that knows you: twofold keys vouch")


@app.command("vouch")
def vouch(
    request: Annotated[Path, typer.Argument(help="The person's request, such as me.request.")],
    plan: PlanOption,
    keys: Annotated[Path, typer.Option(help="Secret keys of the institution, which the plan names.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the voucher, such as me.voucher.")],
    json: Json = False,
) -> None:
    """Vouch for one person of your own, for one plan. Vouch once for every person, and keep the list yourself.

    Example: twofold keys vouch me.request --plan plan.toml --keys st-anna.keys -o me.voucher
    """
    from twofold.entity.person import read_request, voucher_file
    from twofold.entity.person import vouch as sign
    from twofold.federation.reports import person_name
    from twofold.identity.keystore import KeyStore

    _check_place("output", output, "me.voucher", (request, plan, keys))
    agreed, public = read_agreed(plan), read_request(request)
    _write(voucher_file(sign(agreed, KeyStore(keys), public)), output)
    name = person_name(public)
    if json:
        typer.echo(jsonlib.dumps({"voucher": output.name, "person": name, "plan": agreed.hash}))
        return
    say(f"{output}: a voucher for the person {name[:12]}, for plan {agreed.hash[:12]}")
    say("  give it back to them; two vouchers for one person would double what the noise has to hide")


def _identities(file: Path) -> list[Identity]:
    from twofold.errors import BadPlan
    from twofold.identity.keystore import KeyStore
    from twofold.identity.roster import Roster

    try:
        return [KeyStore(file).identity]
    except BadPlan:
        return Roster.identities(file)


def _record(one: Identity) -> dict[str, Any]:
    return {"name": one.name, "role": one.role.value, "fingerprint": one.words, "sign": one.sign.hex()}


def _write(text: str, output: Path) -> None:
    if output.exists() and output.read_bytes() != text.encode():
        raise DataError(
            "{parameter} names a file that already exists.",
            found=output.name,
            fix="choose another name, or remove that file",
            parameter="output",
        )
    write_whole(output, text.encode())


def _check_free(output: Path, keys: Path) -> None:
    """Refuse a public part that exists while its keys do not: it belongs to others."""
    if not keys.exists():
        refuse_output(output)


def _check_place(parameter: str, path: Path, name: str, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse what cannot be a file before keys are made; one that exists may hold the same."""
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
    refuse_output(path, inputs, force=True, parameter=parameter)


all_verbs(app)
