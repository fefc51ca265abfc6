"""Options of a federation over HTTPS, and what `coordinate --listen` and `join --server` do with them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from twofold.errors import MissingExtra, PlanMismatch, Set, UntrustedServer
from twofold.federation.plan_file import catalog_path, read_toml

if TYPE_CHECKING:
    from twofold.federation.https import Client, Connection, HttpsMailbox, HttpsPeer
    from twofold.federation.plan import Plan
    from twofold.identity.keystore import KeyStore
    from twofold.server.service.hosted import Hosted

__all__ = [
    "CaOption",
    "CertificateOption",
    "ClientCertificate",
    "ClientKey",
    "FolderOption",
    "KeyOption",
    "ListenOption",
    "PeerOption",
    "PinOption",
    "PlainOption",
    "ProxyOption",
    "ServerOption",
    "connected",
    "documents_of",
    "mailbox_of",
    "peer_of",
    "run_service",
    "waiting",
]

ListenOption = Annotated[str | None, typer.Option("--listen", help="Serve requests here, as 0.0.0.0:8443.")]
CertificateOption = Annotated[
    Path | None, typer.Option("--certificate", help="The server's certificate and its chain (PEM).")
]
KeyOption = Annotated[Path | None, typer.Option("--key", help="The secret key of --certificate (PEM).")]
PlainOption = Annotated[
    bool, typer.Option("--plain-http", help="Without TLS, on this machine only: behind a reverse proxy, or to try.")
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


def need_network(*packages: str) -> None:
    """Refuse early if the optional packages are not installed."""
    if any(find_spec(one) is None for one in packages):
        raise MissingExtra(
            "a federation over the network needs optional packages.",
            fix="pip install 'twofold[network]'",
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


@contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """Show one line on a terminal while something is waited for; call the result with the text."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


def peer_of(plan: Plan, store: KeyStore, peer: str, reach: Mapping[str, Any]) -> HttpsPeer:
    """Give the way to the other operator's service."""
    from twofold.federation.https import HttpsPeer  # loads httpx

    return HttpsPeer(connected(peer, name=store.identity.name, store=store, **reach), plan)


def run_service(
    hosted: Iterable[Hosted],
    state: Path,
    listen: str,
    *,
    certificate: Path | None,
    key: Path | None,
    plain: bool,
    poll: float,
) -> None:
    """Serve until a signal asks for the end."""
    need_network("starlette", "uvicorn", "httpx")
    from twofold.server.service.app import Service  # these load starlette and uvicorn
    from twofold.server.service.run import serve, server_of

    host, port = _address(listen)
    if certificate is None and not (plain and host in ("127.0.0.1", "::1", "localhost")):
        raise UntrustedServer(
            "a service needs a certificate.",
            expected="--certificate and --key; or --plain-http with an address of this machine, as 127.0.0.1:8080",
            fix="--certificate server.pem --key server.key",
            parameter="certificate",
        )
    service = Service(state, hosted, poll=poll)
    server = server_of(service, host=host, port=port, certificate=certificate, key=key)
    scheme = "http" if certificate is None else "https"
    for one in service.federations.values():
        typer.echo(f"{one.plan.name}: plan {one.plan.hash[:12]}, {one.plan.sharing}, run by {one.operator}")
    typer.echo(f"listening on {scheme}://{host}:{port}; Ctrl-C or SIGTERM ends it, and it goes on from there later")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn ends first, and then repeats the signal
    with suppress(KeyboardInterrupt):
        serve(server)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise typer.BadParameter("an address and a port, as 0.0.0.0:8443", param_hint="--listen")
    return host.strip("[]") or "0.0.0.0", int(port)
