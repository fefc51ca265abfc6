"""Options of a federation over HTTPS, and what `coordinate --listen` and `join --server` do with them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.options import read_catalog
from twofold.errors import MissingExtra, PlanMismatch, Set, UntrustedServer, install
from twofold.federation.plan import Plan
from twofold.federation.plan_file import catalog_path, read_toml
from twofold.federation.wire import DOCUMENTS

if TYPE_CHECKING:
    from twofold.federation.https import Client, Connection, HttpsMailbox, HttpsPeer
    from twofold.federation.invitation import Invitation
    from twofold.identity.keystore import KeyStore
    from twofold.server.service.hosted import Hosted

__all__ = [
    "AddressConnections",
    "CaOption",
    "CertificateOption",
    "ClientCertificate",
    "ClientKey",
    "FolderOption",
    "InvitationOption",
    "KeyOption",
    "ListenOption",
    "PeerOption",
    "PinOption",
    "PlainOption",
    "ProxyOption",
    "ServerOption",
    "address_of",
    "connected",
    "documents_of",
    "mailbox_of",
    "need_network",
    "peer_of",
    "run_service",
    "set_up",
]

ListenOption = Annotated[str | None, typer.Option("--listen", help="Serve requests here, as 0.0.0.0:8443.")]
CertificateOption = Annotated[
    Path | None, typer.Option("--certificate", help="The server's certificate and its chain (PEM).")
]
KeyOption = Annotated[Path | None, typer.Option("--key", help="The secret key of --certificate (PEM).")]
PlainOption = Annotated[
    bool, typer.Option("--plain-http", help="Without TLS, on this machine only: behind a reverse proxy, or to try.")
]
AddressConnections = Annotated[
    int | None,
    typer.Option(
        "--address-connections",
        min=1,
        help="Open connections of one address (200). For a reverse proxy on another machine, as many as it opens; "
        "with --plain-http not limited.",
    ),
]
FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="Take files from here, too, and publish here; a folder per plan in it.")
]
PeerOption = Annotated[str | None, typer.Option("--peer", help="Address of the other operator's service.")]
ServerOption = Annotated[
    str | None, typer.Option("--server", help="Address of the coordinator, as https://federation.example.org:8443.")
]
CaOption = Annotated[Path | None, typer.Option("--ca", help="Certificate authorities to trust (PEM).")]
PinOption = Annotated[
    str | None, typer.Option("--pin", help="SHA-256 of the server's public key; any other server is refused.")
]
ProxyOption = Annotated[
    str | None, typer.Option("--proxy", help="HTTP proxy; by default that of HTTPS_PROXY and NO_PROXY.")
]
ClientCertificate = Annotated[
    Path | None, typer.Option("--client-certificate", help="For a reverse proxy that asks for one (PEM).")
]
ClientKey = Annotated[Path | None, typer.Option("--client-key", help="The secret key of --client-certificate (PEM).")]


InvitationOption = Annotated[
    Path | None, typer.Option("--invitation", help="What the coordinator sent: names server, plan and entity.")
]


def need_network(*packages: str) -> None:
    """Refuse early if the optional packages are not installed."""
    if any(find_spec(one) is None for one in packages):
        raise MissingExtra(
            "this command needs optional packages.",
            fix=install("network"),
            parameter="network",
        )


def documents_of(plan: Path) -> dict[str, bytes]:
    """Read the files that a service hands out with a plan: its item list and its features, as they are."""
    files = {"catalog": catalog_path(plan)}
    table = read_toml(plan).get("features")
    if isinstance(table, dict) and isinstance(table.get("file"), str):
        files["features"] = plan.parent / table["file"]
    return {kind: path.read_bytes() for kind, path in files.items() if path is not None and path.is_file()}


def connected(
    server: str,
    *,
    name: str,
    store: KeyStore,
    ca: Path | str | None = None,
    pin: str | None = None,
    proxy: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Client:
    """Open a client that signs with these keys."""
    need_network("httpx")
    from twofold.federation.https import Client, Connection  # loads httpx

    pair = None if certificate is None else (str(certificate), str(key or certificate))
    text = ca if isinstance(ca, str) or ca is None else str(ca)
    connection: Connection = Connection(server=server, ca=text, pin=pin, proxy=proxy, certificate=pair)
    return Client(connection, name=name, signer=store.signer)


def mailbox_of(plan: Plan, store: KeyStore | None, server: str, reach: Mapping[str, Any]) -> HttpsMailbox:
    """Give an entity's end of a plan over HTTPS."""
    need_network("httpx")
    from twofold.federation.https import HttpsMailbox  # loads httpx

    if store is None:
        raise PlanMismatch(
            "a simulation without a roster cannot use a server: nobody could prove who they are.",
            fix=Set("keys", "st-anna.keys"),
            parameter="keys",
        )
    return HttpsMailbox(connected(server, name=store.identity.name, store=store, **reach), plan)


def set_up(
    file: Path, keys: Path | None, *, plan: Path | None, server: str | None, entity: str | None, reach: dict[str, Any]
) -> tuple[Path, str, str, dict[str, Any]]:
    """Fetch plan, roster, item list and features that an invitation leads to; options that were given come first.

    They are written into a folder beside the invitation once all of them are what their hashes say, and read from
    there afterwards.
    """
    from twofold.federation.invitation import Invitation  # these load the library of ciphers
    from twofold.federation.messages import roster_of
    from twofold.identity.keystore import KeyStore

    asked = Invitation.read(file)
    where, name = server or asked.server, entity or asked.entity
    if reach["ca"] is None and asked.authority:
        reach = reach | {"ca": asked.authority}
    if reach["pin"] is None and asked.pin:
        reach = reach | {"pin": asked.pin}
    folder = file.with_suffix(".federation")
    if plan is None and not folder.is_dir():
        if keys is None:
            raise PlanMismatch("{parameter} is missing.", fix=Set("keys", f"{name}.keys"), parameter="keys")
        with connected(where, name=name, store=KeyStore(keys), **reach) as client:
            _write_documents(_documents(client, asked), asked, folder)
    made = plan or folder / "plan.toml"
    agreed = Plan.read(made)
    if agreed.hash != asked.plan:
        raise PlanMismatch(
            "the invitation is for another plan than the one here.",
            found=str(made),
            expected=f"plan {asked.plan[:12]}",
            fix="move it away" if plan is None else "the invitation to this plan",
            parameter="invitation",
        )
    asked.check(roster_of(agreed))  # every time: an invitation may have been replaced since the plan was fetched
    return made, where, name, reach


def _documents(client: Client, asked: Invitation) -> dict[str, bytes]:
    here = client.status(asked.plan).get("documents")
    kinds = [kind for kind in DOCUMENTS if isinstance(here, list) and kind in here]
    return {kind: client.document(asked.plan, kind) for kind in kinds}


def _write_documents(documents: Mapping[str, bytes], asked: Invitation, folder: Path) -> None:
    """Check everything against its hash, and put it in place at once."""
    from twofold.federation.agreement import Agreements
    from twofold.federation.invitation import fetched_plan
    from twofold.federation.messages import roster_of
    from twofold.federation.plan_file import write_plan

    plan = fetched_plan(documents, asked.plan)
    asked.check(roster_of(plan))
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as place:
        made = Path(place) / folder.name
        made.mkdir(mode=0o700)
        items = made / ("items.parquet" if documents.get("catalog", b"").startswith(b"PAR1") else "items.csv")
        if "catalog" in documents:
            items.write_bytes(documents["catalog"])
            read_catalog(plan, made / "plan.toml", items)
        if "agreements" in documents:
            every = Agreements.from_text(documents["agreements"].decode(errors="replace"))
            every.check(plan)
            every.write(made / "plan.agreed")
        write_plan(plan, made / "plan.toml", catalog_file=items if "catalog" in documents else None)
        made.rename(folder)


def peer_of(plan: Plan, store: KeyStore, peer: str, reach: Mapping[str, Any]) -> HttpsPeer:
    """Give the way to the other operator's service."""
    from twofold.federation.https import HttpsPeer  # loads httpx

    return HttpsPeer(connected(peer, name=store.identity.name, store=store, **reach), plan)


def run_service(
    hosted: Iterable[Hosted],
    state: Path,
    listen: str,
    tls: tuple[Path | None, Path | None],
    *,
    plain: bool,
    poll: float,
    of_one: int | None = None,
) -> None:
    """Serve until a signal asks for the end."""
    need_network("starlette", "uvicorn", "httpx")
    from twofold.report.status_site import PASSWORD_FILE, status_routes  # these load starlette and uvicorn
    from twofold.server.service.app import METRICS_FILE, Service, build_app
    from twofold.server.service.limits import Limits
    from twofold.server.service.run import server_of

    (host, port), (certificate, key) = address_of(listen), tls
    if certificate is None and not (plain and host in ("127.0.0.1", "::1", "localhost")):
        raise UntrustedServer(
            "a service needs a certificate.",
            expected="--certificate and --key; or --plain-http with an address of this machine, as 127.0.0.1:8080",
            fix="--certificate server.pem --key server.key",
            parameter="certificate",
        )
    limits = Limits()
    usual = limits.connections if plain else limits.address_connections
    limits = replace(limits, address_connections=of_one or usual)
    service = Service(state, hosted, limits=limits, poll=poll)
    app = build_app(service, more=status_routes(service))
    server = server_of(service, host=host, port=port, certificate=certificate, key=key, app=app)
    scheme = "http" if certificate is None else "https"
    for one in service.federations.values():
        typer.echo(f"{one.plan.name}: plan {one.plan.hash[:12]}, {one.plan.sharing}, run by {one.operator}")
    typer.echo(f"listening on {scheme}://{host}:{port}; Ctrl-C or SIGTERM ends it, and it goes on from there later")
    typer.echo(f"status page: the same address in a browser; its password is in {state / PASSWORD_FILE}")
    typer.echo(f"metrics: /v1/metrics with the password in {state / METRICS_FILE}")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn ends first, and then repeats the signal
    with suppress(KeyboardInterrupt):
        server.run()


def address_of(text: str) -> tuple[str, int]:
    """Split an address and its port.

    Examples
    --------
    >>> address_of("127.0.0.1:8080"), address_of("[::1]:8080")
    (('127.0.0.1', 8080), ('::1', 8080))
    """
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise typer.BadParameter("an address and a port, as 0.0.0.0:8443", param_hint="--listen")
    return host.strip("[]") or "0.0.0.0", int(port)
