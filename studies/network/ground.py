"""What an attacker has: a service, keys of members and of strangers, and sockets to write anything to."""

from __future__ import annotations

import os
import pickle
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from studies.network.place import HOST, Place, Process
from tests.certificates import Authority
from tests.enrolled import OPERATOR, Enrolled, enrolled
from tests.served import NAMES, release_of, small_plan
from twofold.federation import wire
from twofold.federation.mailbox import ROUNDS, StepId
from twofold.storage.container import open_container, pack_sealed, unpack

__all__ = ["ANNA", "BERN", "CLARA", "DORA", "Ground", "is_closed", "status_of"]

ANNA, BERN, CLARA = NAMES
#: A member who never sends anything of its own.
DORA: Final = "st-dora"
_STATUS: Final = re.compile(rb"^HTTP/1\.[01] ([0-9]{3})")


@dataclass
class Canary:
    """Runs when somebody unpickles it."""

    path: str

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


class Ground:
    """A service with two federations, and everything to attack it with.

    Parameters
    ----------
    folder : Path
        An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: Enrolled = enrolled(small_plan(), *NAMES, DORA)
        self.plan = self.made.plan
        #: The same members in another federation, and strangers with the same names.
        self.other = enrolled(small_plan(rank=1), secrets=self.made.secrets)
        self.strangers = enrolled(small_plan(), *NAMES, DORA)
        self.place = Place(folder, self.made, self.other)
        (folder / "foreign").mkdir()
        self.foreign = Authority(folder / "foreign", "another").certificate
        self.canary = folder / "canary"
        self.process: Process | None = None

    @property
    def url(self) -> str:
        """Where the service answers."""
        assert self.process is not None
        return self.process.url

    def path(self, entity: str = ANNA, *, made: Enrolled | None = None, step: StepId = ROUNDS.id) -> str:
        """Path of an entity's message."""
        return wire.message_path((made or self.made).plan.hash, step, entity)

    def message(self, entity: str = ANNA) -> bytes:
        """Draw a message as it should be; another one at each call."""
        return release_of(self.made, entity)

    def forged(self, entity: str = ANNA, *, by: str | None = None, **arrays: Any) -> bytes:
        """Make a message with other arrays, sealed and signed with the entity's own key, or that of somebody else."""
        good = self.message(entity)
        container = open_container(good)
        kept = {name: value for name, value in container.record.items() if name not in ("checksum", "signature")}
        every = {**unpack(good, container, container.layouts), **arrays}
        return pack_sealed(kept, every, signer=self.made.signer(by or entity))

    def signed(
        self,
        method: str,
        path: str,
        data: bytes = b"",
        *,
        name: str = ANNA,
        of: Enrolled | None = None,
        signer: str | None = None,
        late: float = 0.0,
    ) -> dict[str, str]:
        """Headers of a signed request."""
        key = (of or self.made).signer(signer or name)
        at, digest = time.time() + late, wire.digest_of(data)
        made = wire.Request.signed(method, path, name=name, signer=key, at=at, digest=digest)
        return made.headers | ({"content-type": wire.MESSAGE} if method == "PUT" else {})

    def put(
        self,
        data: bytes,
        *,
        entity: str = ANNA,
        path: str | None = None,
        sent: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
        **given: Any,
    ) -> int:
        """Upload; give the status."""
        where = path or self.path(entity)
        every = {**(headers if headers is not None else self.signed("PUT", where, data, **given)), **(more or {})}
        with self.place.http(self.url) as http:
            return http.put(self.url + where, content=data if sent is None else sent, headers=every).status_code

    def get(self, path: str, *, method: str = "GET", **given: Any) -> httpx.Response:
        """Ask for something."""
        with self.place.http(self.url) as http:
            return http.request(method, self.url + path, headers=self.signed(method, path, **given))

    @contextmanager
    def connected(self, *, tls: bool = True, seconds: float = 20.0) -> Iterator[socket.socket]:
        """Give a socket to the service."""
        port = int(self.url.rpartition(":")[2])
        with socket.create_connection((HOST, port), seconds) as plain:
            if not tls:
                yield plain
                return
            context = ssl.create_default_context(cafile=str(self.place.authority.certificate))
            with context.wrap_socket(plain, server_hostname=HOST) as one:
                yield one

    def raw(self, data: bytes, *, seconds: float = 20.0) -> str:
        """Send any bytes; give the first status, or "closed"."""
        with self.connected(seconds=seconds) as one:
            with suppress(OSError):  # refused while it was still being sent; the answer may be there
                one.sendall(data)
            return status_of(one)

    def head(self, data: bytes, *, length: int | None = None, entity: str = ANNA) -> bytes:
        """Give the beginning of an upload, up to the empty line."""
        path = self.path(entity)
        headers = self.signed("PUT", path, data, name=entity) | {"host": HOST}
        headers["content-length"] = str(len(data) if length is None else length)
        lines = [f"PUT {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode()

    def pickled(self) -> bytes:
        """Give a pickle that makes a folder when it is read."""
        return pickle.dumps(Canary(str(self.canary)))

    def stored(self) -> set[tuple[str, str]]:
        """Give entity and receipt of everything the service took in the first federation, from its answers."""
        found = set()
        for name in (*NAMES, DORA):
            answer = self.get(self.path(name), name=OPERATOR).json()
            if answer["receipt"] is not None:
                found.add((name, answer["receipt"]))
        return found


def status_of(one: socket.socket) -> str:
    """Read the status of an answer; "closed" without one."""
    found = b""
    try:
        while len(found) < 16:
            data = one.recv(4096)
            if not data:
                break
            found += data
    except TimeoutError:
        return "no answer"
    except OSError:
        pass
    status = _STATUS.match(found)
    return status[1].decode() if status else "closed"


def is_closed(one: socket.socket) -> bool:
    """Whether the other side has closed a connection on which it says nothing."""
    one.settimeout(0)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
