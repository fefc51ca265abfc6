"""`twofold invite`: write the small file from which an entity's set-up follows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.network import need_network
from twofold.cli.options import PlanOption, read_agreed, refuse_output
from twofold.errors import PlanMismatch
from twofold.federation.messages import roster_of

__all__ = ["invite"]


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
) -> None:
    """Write an invitation: where the server is, how to know it, and the plan's hash. It holds no secret.

    Send it by any way; the entity runs `twofold join --invitation FILE` and compares the plan's fingerprint.
    """
    need_network("httpx")
    from twofold.federation.https import Connection, pin_of  # these load httpx and the library of ciphers
    from twofold.federation.invitation import Invitation
    from twofold.identity.keystore import KeyStore

    refuse_output(output, (plan, keys, certificate, ca))
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
        pin="" if certificate is None else pin_of(certificate.read_bytes()),
        authority="" if ca is None else ca.read_text(),
    ).signed(store.signer)
    made.check(members)
    made.write(output)
    typer.echo(f"{output}: invites {entity} to plan {agreed.name}, {agreed.hash[:12]}, at {server}")
    if made.pin:
        typer.echo(f"  pinned key: {made.pin}")
