"""A service for tests: a plan with a roster, a service over it, members' clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

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


class Sync(httpx.BaseTransport):
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
        return httpx.Client(transport=Sync(self.app), base_url="http://127.0.0.1")

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
