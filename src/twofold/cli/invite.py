"""`twofold invite`: write the small file from which an entity's set-up follows."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Final

import typer

from twofold.cli.network import need_network
from twofold.cli.options import ForceOption, Json, PlanOption, read_agreed, refuse_output
from twofold.cli.render import say
from twofold.errors import BadMessage, PlanMismatch
from twofold.federation.messages import roster_of
from twofold.storage.files import read_limited

__all__ = ["invite"]

#: Bytes of a chain of certificates, at most.
_LARGEST: Final = 1 << 20


def invite(
    plan: PlanOption,
    entity: Annotated[str, typer.Option("--entity", help="Whom to invite, by the name in the plan.")],
    server: Annotated[str, typer.Option("--server", help="Address of the service, as entities reach it.")],
    keys: Annotated[Path, typer.Option("--keys", help="The operator's secret keys, which sign the invitation.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The invitation, such as st-anna.invitation.")],
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="The server's certificate (PEM): its key is pinned.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", help="The authority that entities are to trust (PEM), if not a public one.")
    ] = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Write an invitation: where the server is, how to know it, and the plan's hash. It holds no secret.

    Send it by any way; the entity runs `twofold join --invitation FILE` and compares the plan's fingerprint.

    Examples
    --------
    twofold invite --plan plan.toml --entity st-anna --server https://federation.example.org:8443 --keys
      coordinator.keys --certificate server.pem -o st-anna.invitation
    """
    need_network("httpx")
    from twofold.federation.https import Connection, pin_of  # these load httpx and the library of ciphers
    from twofold.federation.invitation import Invitation
    from twofold.identity.keystore import KeyStore

    refuse_output(output, (plan, keys, certificate, ca), force=force)
    agreed, store = read_agreed(plan), KeyStore(keys)
    members = roster_of(agreed)
    if store.identity.name not in members.operators:
        raise PlanMismatch(
            "an invitation is signed by an operator of the plan.", found=store.identity.name, parameter="keys"
        )
    Connection(server=server)
    made = Invitation(
        server=server,
        plan=agreed.hash,
        entity=entity,
        operator=store.identity.name,
        pin="" if certificate is None else pin_of(_pem(certificate, "certificate").encode()),
        authority="" if ca is None else _pem(ca, "ca"),
    ).signed(store.signer)
    made.check(members)
    made.write(output)
    if json:
        record = {"file": output.name, "entity": entity, "plan": agreed.hash, "server": server, "pin": made.pin or None}
        typer.echo(jsonlib.dumps(record, indent=2))
        return
    say(f"{output}: invites {entity} to plan {agreed.name}, {agreed.hash[:12]}, at {server}")
    if made.pin:
        say(f"  pinned key: {made.pin}")


def _pem(path: Path, parameter: str) -> str:
    """Read a certificate as text; refuse anything else."""
    text = read_limited(path, _LARGEST).decode("ascii", errors="replace")
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise BadMessage(
            "{parameter} is no certificate.",
            found=path.name,
            expected="-----BEGIN CERTIFICATE-----",
            parameter=parameter,
        )
    return text
