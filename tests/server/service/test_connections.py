"""Connections that say nothing: however many there are, those who ask are answered."""

from __future__ import annotations

import os
import resource
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from studies.network.ground import is_closed, status_of
from studies.network.place import Place
from tests.certificates import Authority
from tests.enrolled import Enrolled, enrolled
from tests.refused import refused
from tests.served import NAMES, hosted, listening, release_of, small_plan
from twofold.errors import TransportError
from twofold.federation import wire
from twofold.federation.https import Client, Connection, HttpsMailbox
from twofold.federation.mailbox import ROUNDS
from twofold.server.service.app import Service
from twofold.server.service.connections import Connections, Line, Listener, room_for
from twofold.server.service.limits import Limits, sender_of
from twofold.server.service.run import Running, server_of


@pytest.fixture(scope="module")
def made() -> Enrolled:
    return enrolled(small_plan(), *NAMES)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


class Busy:
    """A connection over which an answer is on its way; it cannot be closed."""

    busy, transport = True, object()


def busy(sender: str) -> Line:
    line = Line(sender)
    line.speaker = Busy()  # type: ignore[assignment]
    return line


def test_the_oldest_that_is_idle_gives_way() -> None:
    every = Connections(3, 3)
    lines = [busy("a"), Line("b"), Line("c"), Line("d")]
    assert all(every.admit(one) for one in lines)
    assert [one in every for one in lines] == [True, False, True, True]
    for one in (*lines, lines[1]):  # leaving twice changes nothing
        every.leave(one)
    assert len(every) == 0


def test_one_sender_takes_its_own_place_only() -> None:
    every = Connections(10, 2)
    others, own = [Line("b") for _ in range(2)], [Line("a") for _ in range(5)]
    assert all(every.admit(one) for one in (*others, *own))
    assert [one in every for one in (*others, *own)] == [True, True, False, False, False, True, True]


def test_nobody_who_is_answered_gives_way() -> None:
    every = Connections(2, 2)
    assert [every.admit(busy(name)) for name in "abc"] == [True, True, False]
    alone = Connections(9, 1)
    assert [alone.admit(busy("a")), alone.admit(Line("a")), alone.admit(Line("b"))] == [True, False, True]


def test_one_host_of_ipv6_is_one_sender() -> None:
    assert sender_of("2001:db8:1:2::3") == sender_of("2001:db8:1:2:ffff::4") != sender_of("2001:db8:1:3::3")
    assert sender_of("fe80::1%eth0") == sender_of("fe80::2")
    assert sender_of("testclient") == "testclient"


def test_the_limit_of_the_process_is_raised_to_what_is_needed() -> None:
    code = (
        "import resource; from twofold.server.service.connections import room_for\n"
        "from twofold.server.service.limits import Limits\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))\n"
        "print(room_for(Limits(connections=300), 1), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )

    def found(hard: int) -> list[int]:
        line = [sys.executable, "-c", code.replace("{hard}", str(hard))]
        return [int(one) for one in subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()]

    assert found(1000) == [300, 744]
    assert found(400) == [128, 400]  # what is left beside the service's own files, two for each
    assert found(100) == [8, 100]
    assert room_for(Limits(connections=20), 1) == 20


@contextmanager
def mute(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that never begin TLS."""
    port = int(url.rpartition(":")[2])
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(count)]


def wait_until(done: object, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not done():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.02)


def member(made: Enrolled, url: str, authority: Authority) -> HttpsMailbox:
    connection = Connection(server=url, ca=authority.certificate, attempts=1, proxy="")
    return HttpsMailbox(Client(connection, name="st-anna", signer=made.signer("st-anna")), made.plan)


@pytest.mark.parametrize("limits", [Limits(connections=30), Limits(address_connections=30)], ids=["all", "one address"])
def test_a_member_is_served_among_connections_that_never_begin(
    made: Enrolled, authority: Authority, tmp_path: Path, limits: Limits
) -> None:
    service = Service(tmp_path / "state", [hosted(made)], limits=limits)
    with listening(service, certificate=authority.issue("server")) as url, mute(url, 100) as every:
        # The handshakes have five seconds each: these give way because there are too many, not because time is up.
        with member(made, url, authority) as box:
            assert box.submit(ROUNDS, release_of(made, "st-anna"), entity="st-anna").new
        wait_until(lambda: sum(is_closed(one) for one in every) >= 70)


def test_a_handshake_that_does_not_end_is_given_up(made: Enrolled, authority: Authority, tmp_path: Path) -> None:
    limits = Limits(handshake_seconds=0.3)
    service = Service(tmp_path / "state", [hosted(made)], limits=limits)
    with listening(service, certificate=authority.issue("server")) as url, mute(url, 4) as every:
        every[0].sendall(b"\x16\x03\x01\x02\x00\x01")  # begins, and stops
        wait_until(lambda: all(is_closed(one) for one in every))


def test_an_answer_that_is_not_fetched_is_given_up(made: Enrolled, tmp_path: Path) -> None:
    service = Service(tmp_path / "state", [hosted(made)], limits=Limits(pause_seconds=0.3))
    ask = b"GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    with listening(service) as url, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        one.settimeout(30)
        with pytest.raises(ConnectionError):  # reset, or a broken pipe
            one.sendall(ask * 100_000)  # and reads nothing


def test_one_member_does_not_take_all_places_of_uploads(made: Enrolled, tmp_path: Path) -> None:
    """Four bodies on the way that never end; a fifth of the same member waits its turn, and others are served."""
    service = Service(tmp_path / "state", [hosted(made)], limits=Limits(uploads=5, member_uploads=4))
    data = release_of(made, "st-anna")
    with listening(service) as url, ExitStack() as stack:

        def begun() -> socket.socket:
            path = wire.message_path(made.plan.hash, ROUNDS.id, "st-anna")
            signer, digest = made.signer("st-anna"), wire.digest_of(data)
            signed = wire.Request.signed("PUT", path, name="st-anna", signer=signer, at=time.time(), digest=digest)
            length = {"host": "x", "content-type": wire.MESSAGE, "content-length": str(len(data))}
            lines = [
                f"PUT {path} HTTP/1.1",
                *(f"{key}: {value}" for key, value in {**signed.headers, **length}.items()),
            ]
            one = stack.enter_context(socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 20))
            one.sendall("\r\n".join([*lines, "", ""]).encode() + data[:10])
            return one

        every = [begun() for _ in range(5)]
        ready, _, _ = select.select(every, [], [], 20)
        assert [status_of(one) for one in ready] == ["429"]
        other = Client(Connection(server=url, attempts=1), name="st-bern", signer=made.signer("st-bern"))
        with HttpsMailbox(other, made.plan) as box:
            assert box.submit(ROUNDS, release_of(made, "st-bern"), entity="st-bern").new


def test_an_answer_does_not_wait_for_a_receipt(made: Enrolled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers and body are two writes; with Nagle's algorithm the second waits 40 ms for a delayed receipt."""
    found: list[int] = []

    def greeted(self: Listener, line: Line, accepted: socket.socket) -> Coroutine[Any, Any, None]:
        found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return greet(self, line, accepted)

    greet = Listener._greet
    monkeypatch.setattr(Listener, "_greet", greeted)
    with listening(Service(tmp_path / "state", [hosted(made)])) as url:
        assert httpx.get(f"{url}/v1/health").status_code == 200
    assert found
    assert all(found)


def test_a_port_that_is_taken_is_told(made: Enrolled, tmp_path: Path) -> None:
    service = Service(tmp_path / "state", [hosted(made)])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = server_of(service, host="127.0.0.1", port=taken.getsockname()[1])
        with refused(TransportError), Running(server):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors as Linux tells them")
def test_more_connections_than_descriptors_do_not_stop_a_service(
    made: Enrolled, authority: Authority, tmp_path: Path
) -> None:
    """A process that may open 256 descriptors, and 400 connections to it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_000:
        pytest.skip("this process may not open as many connections")
    if soft < 1_000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_000, hard))
    place, data = Place(tmp_path, made), release_of(made, "st-anna")
    with place.started(descriptors=256) as process, mute(process.url, 400):
        for _ in range(3):
            with place.client(process.url, made, "st-anna") as client:
                assert client.status(made.plan.hash)["plan"] == made.plan.hash
                HttpsMailbox(client, made.plan).submit(ROUNDS, data, entity="st-anna")
        assert len(os.listdir(f"/proc/{process.process.pid}/fd")) < 200  # noqa: PTH208
        assert process.faults() == 0
    assert "Traceback" not in process.errors.read_text()


def test_a_polite_end_of_tls_is_not_waited_for_long(made: Enrolled, authority: Authority, tmp_path: Path) -> None:
    """Who never answers the end of TLS keeps no descriptor."""
    limits = Limits(handshake_seconds=0.3, header_seconds=60)
    service = Service(tmp_path / "state", [hosted(made)], limits=limits)
    with listening(service, certificate=authority.issue("server")) as url:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        plain = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 20)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as one:
            one.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            found = b""
            while data := one.recv(4096):
                found += data
            assert b"200 OK" in found
            raw = one.detach()
        with socket.socket(fileno=raw) as left:
            wait_until(lambda: is_closed(left))
