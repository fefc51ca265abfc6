"""A service for tests: a plan with a roster, a service over it, members' clients, and certificates."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.enrolled import OPERATOR, Enrolled, enrolled
from twofold.federation.https import Client, Connection, HttpsMailbox
from twofold.federation.messages import encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.keystore import KeyStore
from twofold.server.service.app import Service, build_app
from twofold.server.service.hosted import Hosted
from twofold.server.service.limits import Limits
from twofold.server.service.run import Running, server_of

NAMES = ("st-anna", "st-bern", "st-clara")


def small_plan(**changes: Any) -> Plan:
    """A plan of a few numbers."""
    given: dict[str, Any] = {"feedback": "counts", "bound": 5, "max_items": 2, "rank": 2, "mechanism": "popularity"}
    return Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), **(given | changes))


def release_of(made: Enrolled, entity: str, *, of: Plan | None = None, signer: str | None = None) -> bytes:
    """Draw a message of an entity; another one at each call."""
    plan = of or made.plan
    drawn = plan.release_mechanism.release(np.ones((4, plan.n_items)), plan.parameters)
    return encode_release(drawn.value, entity=entity, plan=plan, signer=made.signer(signer or entity))


class _Sync(httpx.BaseTransport):
    """Calls an ASGI application without a socket."""

    def __init__(self, app: Any) -> None:
        self._inner = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def run() -> httpx.Response:
            content = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
            asked = httpx.Request(request.method, request.url, headers=request.headers, content=content)
            found = await self._inner.handle_async_request(asked)
            data = await found.aread()
            return httpx.Response(found.status_code, headers=found.headers, stream=httpx.ByteStream(data))

        return asyncio.run(run())


@dataclass
class Served:
    """A service in this process, without sockets and without a thread: `look` lets its coordinator work."""

    made: Enrolled
    service: Service
    app: Any = field(init=False)

    def __post_init__(self) -> None:
        self.app = build_app(self.service)
        self.plan = self.made.plan
        self.federation = self.service.federations[self.plan.hash]

    def http(self) -> httpx.Client:
        """Give a plain client."""
        return httpx.Client(transport=_Sync(self.app), base_url="http://127.0.0.1")

    def client(self, name: str, *, made: Enrolled | None = None, **more: Any) -> Client:
        """Give a member's client."""
        of = made or self.made
        connection = Connection(server="http://127.0.0.1", attempts=2)
        given: dict[str, Any] = {
            "http": self.http(),
            "sleep": lambda _: None,
            "clock": lambda: self.service.clock(),
        } | more
        return Client(connection, name=name, signer=of.signer(name), **given)

    def box(self, name: str) -> HttpsMailbox:
        """Give a member's mailbox."""
        return HttpsMailbox(self.client(name), self.plan)

    def look(self) -> Any:
        """Let the coordinator look once."""
        return self.federation.look()


@contextmanager
def served(
    folder: Path, made: Enrolled | None = None, *, more: tuple[Hosted, ...] = (), **given: Any
) -> Iterator[Served]:
    """Serve a plan to which everybody agreed."""
    of = made or enrolled(small_plan(), *NAMES)
    limits = given.pop("limits", Limits())
    service = Service(folder / "state", [hosted(of), *more], limits=limits, poll=0.05, **given)
    try:
        yield Served(of, service)
    finally:
        service.stop()


@contextmanager
def listening(service: Service, *, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Run a service on a real socket of this machine; give its address."""
    files = {} if certificate is None else {"certificate": certificate[0], "key": certificate[1]}
    with Running(server_of(service, host="127.0.0.1", port=0, **files)) as running:
        yield running.url


def hosted(made: Enrolled, **more: Any) -> Hosted:
    """Give what a service needs to run a plan."""
    keys = KeyStore(made.keys(OPERATOR))
    given: dict[str, Any] = {"plan": made.plan, "keys": keys, "agreements": made.agreements}
    return Hosted(**given | more)


class Authority:
    """A certificate authority of a test."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key.public_key(), 3650).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.file = folder / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def _builder(self, subject: x509.Name, public: Any, days: int, start: datetime | None = None) -> Any:
        begin = start or datetime.now(UTC) - timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=days))
        )

    def issue(self, label: str = "server", *, start: datetime | None = None, days: int = 30) -> tuple[Path, Path]:
        """Issue a certificate for this machine; give its file and that of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = self._builder(subject, key.public_key(), days, start).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        certificate, secret = self.folder / f"{label}.pem", self.folder / f"{label}.key"
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, secret
