"""``python -m studies network hostile``: everything that must be refused, with the intended and the found status."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
import warnings
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np

from studies.network.ground import ANNA, BERN, CLARA, DORA, Ground, is_closed, status_of
from studies.network.place import OPEN
from twofold.errors import TwofoldError
from twofold.federation import wire
from twofold.federation.https import Client, Connection
from twofold.federation.mailbox import ROUNDS, StepId

__all__ = ["ATTACKS", "Attack", "Hostile", "hostile", "report"]

#: Short, so that slow senders are given up while somebody waits for the table.
QUICK: Final = replace(OPEN, header_seconds=2.0, pause_seconds=2.0, handshake_seconds=2.0, retry_after=1)
#: Descriptors that the service may open, and connections of an attacker: more than that.
DESCRIPTORS: Final = 512
MANY: Final = 600
#: Megabytes that the service may hold after and during everything.
MEGABYTES: Final = 600.0
_BOMB: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Attack:
    """One attack: what must come of it, and what does."""

    name: str
    intended: str
    run: Callable[[Ground], str]


@dataclass
class Row:
    """What came of an attack."""

    name: str
    intended: str
    found: str

    @property
    def sound(self) -> bool:
        """Whether everything found is intended."""
        allowed = self.intended.replace(" or ", " ").replace(",", " ").split()
        return all(one in allowed for one in self.found.replace(",", " ").split())


@dataclass
class Hostile:
    """What came of all attacks."""

    rows: list[Row] = field(default_factory=list)
    taken_from_strangers: int = 0
    lost: int = 0
    faults: int = 0
    alive: bool = False
    canary: bool = False
    left_files: int = 0
    peak: float = 0.0
    descriptors: tuple[int, int] = (0, 0)

    @property
    def sound(self) -> bool:
        """Whether everything ended as intended."""
        clean = not (self.taken_from_strangers or self.lost or self.faults or self.canary or self.left_files)
        grown = self.descriptors[1] - self.descriptors[0]
        return all(row.sound for row in self.rows) and clean and self.alive and self.peak < MEGABYTES and grown < 20


ATTACKS: Final[list[Attack]] = []


def attack(name: str, intended: str) -> Callable[[Callable[[Ground], object]], None]:
    """Add an attack to the table."""

    def add(run: Callable[[Ground], object]) -> None:
        ATTACKS.append(Attack(name, intended, lambda ground: str(run(ground))))

    return add


# Who sends it.
attack("unsigned", "401")(lambda g: g.put(g.message(), headers={"content-type": wire.MESSAGE}))
attack("stranger's key under a member's name", "401")(lambda g: g.put(g.message(), of=g.strangers))
attack("stranger's name and key", "401")(lambda g: g.put(g.message(), name="mallory", signer=ANNA, of=g.strangers))
attack("member's key under another member's name", "401")(lambda g: g.put(g.message(), name=ANNA, signer=BERN))
attack("signature of another request of the same member", "401")(
    lambda g: g.put(g.message(), headers=g.signed("PUT", g.path(BERN), g.message()))
)
attack("clock 10 minutes late", "401")(lambda g: g.put(g.message(), late=-600))
attack("clock 10 minutes early", "401")(lambda g: g.put(g.message(), late=600))
attack("cross-entity: another's message under one's own name", "422")(lambda g: g.put(g.message(BERN)))
attack("cross-federation: request for another plan", "401")(
    lambda g: g.put(g.message(), headers=g.signed("PUT", g.path(made=g.other), g.message()))
)
attack("cross-federation: message of another plan", "422")(lambda g: g.put(g.message(), path=g.path(made=g.other)))
attack("plan that this service does not run", "404")(
    lambda g: g.put(g.message(), path=wire.message_path("ab" * 32, ROUNDS.id, ANNA))
)
attack("step that the plan does not have", "404")(lambda g: g.put(g.message(), path=g.path(step=StepId.MASKED)))
attack("closing a step without being the operator", "403")(
    lambda g: g.get(wire.close_path(g.plan.hash, ROUNDS.id), method="POST").status_code
)


attack("message made by another member in this one's name", "422")(lambda g: g.put(g.forged(by=BERN)))


@attack("replayed: the same signed upload again", "201, 401")
def _replayed(g: Ground) -> str:
    data = g.message(CLARA)
    headers = g.signed("PUT", g.path(CLARA), data, name=CLARA)
    return f"{g.put(data, entity=CLARA, headers=headers)}, {g.put(data, entity=CLARA, headers=headers)}"


@attack("second, different message", "409")
def _second(g: Ground) -> int:
    return g.put(g.message(CLARA), entity=CLARA, name=CLARA)


# What is in it.
attack("tampered: a byte changed on the way", "400")(lambda g: g.put(data := g.message(), sent=_flipped(data)))
attack("tampered: a byte changed, and the request signed again", "422")(lambda g: g.put(_flipped(g.message())))
attack("truncated", "422")(lambda g: g.put(g.message()[:-9]))
attack("empty body", "422")(lambda g: g.put(b""))
attack("NaN instead of numbers, sealed and signed", "422")(
    lambda g: g.put(g.forged(sums=np.full((1, g.plan.n_items), np.nan)))
)
attack("infinite counts, sealed and signed", "422")(lambda g: g.put(g.forged(counts=np.full(1, np.inf))))
attack("wrong shape, sealed and signed", "422")(
    lambda g: g.put(g.forged(sums=np.zeros((1, g.plan.n_items + 1), dtype=np.int64)))
)
attack("array too many, sealed and signed", "422")(lambda g: g.put(g.forged(more=np.zeros(3))))
attack("pickle", "422")(lambda g: g.put(g.pickled()))
attack("pickle with the content type of a pickle", "415")(
    lambda g: g.put(g.pickled(), more={"content-type": "application/x-python-pickle"})
)
attack("header bomb inside the message: a header of 2^62 bytes", "422")(
    lambda g: g.put((2**62).to_bytes(8, "little") + b"{}" * 50)
)
attack("header bomb inside the message: 10,000 levels of JSON", "422")(lambda g: g.put(_deep(10_000)))
attack("compressed bomb, declared", "415")(
    lambda g: g.put(gzip.compress(bytes(_BOMB)), more={"content-encoding": "gzip"})
)
attack("compressed bomb, not declared", "413 or 422")(lambda g: g.put(gzip.compress(bytes(_BOMB))))
attack("zip bomb", "413 or 422")(lambda g: g.put(_zipped()))
attack("oversize, 64 MB", "413")(lambda g: g.raw(g.head(b"", length=_BOMB) + bytes(1_000_000)))
attack("oversize, length of 30 digits", "400 or 411 or 413")(lambda g: g.raw(g.head(b"", length=10**30)))
attack("longer than it says", "400")(lambda g: g.raw(g.head(data := g.message(), length=20) + data))
attack("chunked, without a length", "411")(
    lambda g: g.raw(g.head(b"x").replace(b"content-length: 1", b"transfer-encoding: chunked") + b"1\r\nx\r\n0\r\n\r\n")
)
attack("two lengths (smuggling)", "400")(
    lambda g: g.raw(g.head(b"xy").replace(b"host:", b"content-length: 1\r\nhost:"))
)
attack("length and chunks (smuggling)", "400 or 411")(
    lambda g: g.raw(g.head(b"x").replace(b"host:", b"transfer-encoding: chunked\r\nhost:") + b"0\r\n\r\n")
)
attack("request header bomb: one of 1 MB", "400 or 431 or closed")(
    lambda g: g.raw(b"GET /v1/health HTTP/1.1\r\nx: " + b"a" * 1_000_000 + b"\r\n\r\n")
)
attack("request header bomb: 20,000 headers", "400 or 431 or closed")(
    lambda g: g.raw(b"GET /v1/health HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n")
)
attack("path of 100 kB", "400 or 414 or closed")(lambda g: g.raw(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"))
attack("no HTTP at all", "400 or closed")(lambda g: g.raw(b"\x16\x03\x01" + bytes(range(256)) + b"\r\n\r\n"))
attack("HTTP/2 without agreement", "400 or 404 or 505 or closed")(lambda g: g.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))


@attack("path traversal and odd names", "400 or 401 or 404 or 405")
def _names(g: Ground) -> str:
    odd = (
        "..%2f..%2fetc",
        "..",
        "%2e%2e",
        "st-anna%00",
        "st-anna/../st-bern",
        "con",
        "a" * 80,
        "%ff",
        "%0d%0ax: y",
        "*",
    )
    base = f"{wire.federation_path(g.plan.hash)}/steps/rounds/messages/"
    found = {g.raw(_put_raw(g, base + name)) for name in odd}
    found |= {g.raw(_put_raw(g, path)) for path in ("/v1/../../etc/passwd", "//v1/health", "/v1/federations/%2e%2e/x")}
    return ", ".join(sorted(found))


# How it is sent.
@attack("wrong authority (the client notices)", "UntrustedServer")
def _authority(g: Ground) -> str:
    connection = Connection(server=g.url, ca=g.foreign, attempts=1, proxy="")
    try:
        with Client(connection, name=ANNA, signer=g.made.signer(ANNA)) as one:
            one.status(g.plan.hash)
    except TwofoldError as error:
        return type(error).__name__
    return "sent"


@attack("plain HTTP to the TLS port", "closed")
def _plain(g: Ground) -> str:
    with g.connected(tls=False) as one:
        one.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n")
        return status_of(one)


@attack("TLS 1.1", "closed")
def _old(g: Ground) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # an old client is what this plays
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    try:
        with g.connected(tls=False) as one, context.wrap_socket(one):
            return "open"
    except (ssl.SSLError, OSError):
        return "closed"


@attack("duplicated: the same upload five times at once", "200, 201")
def _duplicated(g: Ground) -> str:
    data = g.message(BERN)
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda _: g.put(data, entity=BERN, name=BERN), range(5)))
    assert found.count(201) == 1, found
    return ", ".join(str(one) for one in sorted(set(found)))


@attack("reordered: twelve requests, delivered backwards", "200, 202")
def _reordered(g: Ground) -> str:
    paths = [wire.federation_path(g.plan.hash), g.path(BERN), wire.published_path(g.plan.hash, ROUNDS.id)] * 4
    signed = [(path, g.signed("GET", path, name=BERN)) for path in paths]
    with g.place.http(g.url) as http:
        found = {http.get(g.url + path, headers=headers).status_code for path, headers in reversed(signed)}
    return ", ".join(str(one) for one in sorted(found))


@attack("slow-loris: 100 connections with unfinished headers", "closed, 200")
def _loris(g: Ground) -> str:
    with ExitStack() as stack:
        every = [stack.enter_context(g.connected()) for _ in range(100)]
        for one in every:
            one.sendall(b"GET /v1/health HTTP/1.1\r\nx: ")
        served = g.get(wire.federation_path(g.plan.hash)).status_code
        until = time.monotonic() + QUICK.header_seconds + 20
        while time.monotonic() < until and any(_drips(one) for one in every):
            time.sleep(0.3)
        return f"{'open' if any(_drips(one) for one in every) else 'closed'}, {served}"


@attack(f"slow-loris: {MANY} connections that never begin TLS, and {DESCRIPTORS} descriptors", "200, closed")
def _mute(g: Ground) -> str:
    """Requests are answered while the connections last, and all of these are closed."""
    with ExitStack() as stack:
        every = [stack.enter_context(g.connected(tls=False)) for _ in range(MANY)]
        found = {g.get(wire.federation_path(g.plan.hash)).status_code for _ in range(5)}
        until = time.monotonic() + QUICK.handshake_seconds + 20
        while time.monotonic() < until and not all(is_closed(one) for one in every):
            time.sleep(0.3)
        open_ = not all(is_closed(one) for one in every)
        return ", ".join([*(str(one) for one in sorted(found)), "open" if open_ else "closed"])


@attack("slow-loris: a body that stops", "408 or closed")
def _slow_body(g: Ground) -> str:
    data = g.message()
    with g.connected(seconds=30) as one:
        one.sendall(g.head(data) + data[:40])
        return status_of(one)


@attack("network cut in the middle of 20 bodies", "200")
def _cut(g: Ground) -> str:
    data = g.message(DORA)
    for place in range(20):
        with g.connected(tls=place % 2 == 0) as one:
            one.sendall(g.head(data, entity=DORA) + data[: place * len(data) // 20] if place % 2 == 0 else b"PUT /v1")
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset, not an end
    assert g.get(g.path(DORA), name=DORA).json()["receipt"] is None
    return str(g.get(wire.federation_path(g.plan.hash)).status_code)


@attack("the right upload after all cuts", "201")
def _after(g: Ground) -> int:
    return g.put(g.message(DORA), entity=DORA, name=DORA)


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _deep(levels: int) -> bytes:
    text = b'{"a":' * levels + b"1" + b"}" * levels
    return len(text).to_bytes(8, "little") + text


def _zipped() -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("numbers", bytes(_BOMB))
    return made.getvalue()


def _put_raw(g: Ground, path: str) -> bytes:
    data = g.message()
    headers = g.signed("PUT", path, data) | {"host": "x", "content-length": str(len(data))}
    lines = [f"PUT {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + data


def _drips(one: socket.socket) -> bool:
    """Send one more byte; False if the other side has closed."""
    one.settimeout(0.02)
    try:
        one.sendall(b"a")
        return one.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def hostile(folder: Path, *, only: str | None = None) -> Hostile:
    """Run every attack against one service, and look at it afterwards.

    Parameters
    ----------
    folder : Path
        An empty folder.
    only : str, optional
        Attacks whose names hold this.
    """
    ground, found = Ground(folder), Hostile()
    with ground.place.started(limits=QUICK, descriptors=DESCRIPTORS) as process:
        ground.process = process
        before = process.usage.descriptors
        for one in ATTACKS:
            if only is None or only in one.name:
                found.rows.append(Row(one.name, one.intended, one.run(ground)))
        taken = ground.stored()
        found.taken_from_strangers = sum(name == ANNA for name, _ in taken)  # only attacks used this name
        found.lost = 0 if only else 3 - len(taken)
        found.faults, found.alive = process.faults(), process.alive
        time.sleep(QUICK.header_seconds + 1)
        found.descriptors = before, process.usage.descriptors
        found.left_files = sum(1 for _ in ground.place.state.rglob("*.part"))
    found.peak, found.canary = process.peak, ground.canary.exists()
    return found


def report(found: Hostile) -> list[str]:
    """Give the tables as Markdown."""
    lines = ["| upload or request | intended | found | |", "|---|---|---|---|"]
    lines += [f"| {row.name} | {row.intended} | {row.found} | {'' if row.sound else 'WRONG'} |" for row in found.rows]
    rows = [
        ("messages taken under a name that only attackers used", found.taken_from_strangers, "0"),
        ("messages acknowledged and not there", found.lost, "0"),
        ("answers of 500 and more", found.faults, "0"),
        ("half-written files left", found.left_files, "0"),
        ("foreign code run", int(found.canary), "0"),
        ("service answers afterwards", "yes" if found.alive else "no", "yes"),
        ("descriptors before and after", f"{found.descriptors[0]}, {found.descriptors[1]}", "as before"),
        ("most memory (MB)", f"{found.peak:.0f}", f"below {MEGABYTES:.0f}"),
    ]
    lines += ["", "| afterwards | found | must be |", "|---|---:|---:|"]
    return lines + [f"| {name} | {value} | {due} |" for name, value, due in rows]
