"""Both ends over real sockets: TLS and its faults, proxies, retries, and servers that are not what they seem."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.enrolled import Enrolled, enrolled
from tests.refused import refused
from tests.served import NAMES, hosted, listening, release_of, served, small_plan
from twofold.errors import (
    ClockSkew,
    ConflictingMessage,
    KeyRefused,
    PlanMismatch,
    RoundClosed,
    Unreachable,
    UntrustedServer,
)
from twofold.federation.https import Client, Connection, HttpsMailbox, pin_of
from twofold.federation.mailbox import ROUNDS, NothingYet, Rejected
from twofold.server.service.app import Service
from twofold.server.service.limits import Limits

QUICK = Limits(retry_after=0, header_seconds=0.3, pause_seconds=0.4)


@pytest.fixture(scope="module")
def made() -> Enrolled:
    return enrolled(small_plan(), *NAMES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(place: Path) -> Authority:
    return Authority(place)


@pytest.fixture(scope="module")
def pair(authority: Authority) -> tuple[Path, Path]:
    return authority.issue("server")


@pytest.fixture(scope="module")
def url(made: Enrolled, pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One service for the tests that change nothing in it."""
    service = Service(tmp_path_factory.mktemp("one") / "state", [hosted(made)], limits=QUICK, poll=0.02)
    with listening(service, certificate=pair) as found:
        yield found


def client(made: Enrolled, url: str, name: str = "st-anna", *, signer: str | None = None, **more: Any) -> Client:
    clock = {"clock": more.pop("clock")} if "clock" in more else {}
    connection = Connection(server=url, **({"attempts": 1} | more))
    return Client(connection, name=name, signer=made.signer(signer or name), sleep=lambda _: None, **clock)


def asked(made: Enrolled, url: str, **more: Any) -> Any:
    with client(made, url, **more) as one:
        return one.status(made.plan.hash)


def test_a_round_over_tls(made: Enrolled, authority: Authority, pair: tuple[Path, Path], tmp_path: Path) -> None:
    service = Service(tmp_path / "state", [hosted(made)], limits=QUICK, poll=0.02)
    with listening(service, certificate=pair) as url, ExitStack() as stack:

        def box_of(name: str) -> HttpsMailbox:
            return HttpsMailbox(stack.enter_context(client(made, url, name, ca=authority.certificate)), made.plan)

        boxes = [box_of(name) for name in NAMES]
        for box, name in zip(boxes, NAMES, strict=True):
            data = release_of(made, name)
            assert isinstance(box.fetch(ROUNDS), NothingYet)
            assert box.submit(ROUNDS, data, entity=name).new
            assert not box.submit(ROUNDS, data, entity=name).new
            again = box_of(name)
            assert not again.submit(ROUNDS, data, entity=name).new
            with refused(ConflictingMessage, "entity"):
                again.submit(ROUNDS, release_of(made, name), entity=name)
        federation = service.federations[made.plan.hash]
        for _ in range(500):
            if federation.is_published(ROUNDS):
                break
            threading.Event().wait(0.02)
        found = {box.fetch(ROUNDS) for box in boxes}
        assert len(found) == 1
        assert ROUNDS.down.decode(found.pop(), made.plan).entities == 3  # type: ignore[arg-type]


def test_the_certificate_decides_before_anything_is_sent(
    made: Enrolled, authority: Authority, pair: tuple[Path, Path], url: str, place: Path
) -> None:
    assert asked(made, url, ca=authority.certificate)["plan"] == made.plan.hash
    assert (
        asked(made, url, ca=authority.certificate.read_text(), pin=pin_of(pair[0].read_bytes()))["plan"]
        == made.plan.hash
    )
    with refused(UntrustedServer, "ca"):
        asked(made, url)
    with refused(UntrustedServer, "ca"):
        asked(made, url, ca=Authority(place, "another").certificate)
    with refused(UntrustedServer, "pin"):
        asked(made, url, ca=authority.certificate, pin="ab" * 32)
    with refused(UntrustedServer, "ca"):
        asked(made, url, ca=place / "nowhere.pem")
    with refused(UntrustedServer, "server"):
        Connection(server="http://federation.example.org")
    with refused(Unreachable, "server"):
        Connection(server="ftp://federation.example.org")
    with refused(Unreachable, "server"):  # TLS is expected, and not spoken
        asked(made, url.replace("https", "http"))


@pytest.mark.parametrize(
    ("start", "parameter"),
    [(datetime.now(UTC) - timedelta(days=9), "certificate"), (datetime.now(UTC) + timedelta(days=9), "certificate")],
    ids=["expired", "not yet"],
)
def test_a_certificate_of_another_time(
    made: Enrolled, authority: Authority, tmp_path: Path, start: datetime, parameter: str
) -> None:
    files = authority.issue("timed", start=start)
    with (
        listening(Service(tmp_path / "state", [hosted(made)]), certificate=files) as url,
        refused(UntrustedServer, parameter),
    ):
        asked(made, url, ca=authority.certificate)


def test_keys_clocks_and_plans_are_told_apart(made: Enrolled, authority: Authority, url: str) -> None:
    with refused(KeyRefused, "keys"):
        asked(made, url, ca=authority.certificate, signer="st-bern")
    with refused(ClockSkew, "time"):
        asked(made, url, ca=authority.certificate, clock=lambda: 1e9)
    other = enrolled(small_plan(rank=1), secrets=made.secrets)
    with refused(PlanMismatch, "plan"):
        asked(other, url, ca=authority.certificate)


def test_a_closed_round_is_a_closed_round(tmp_path: Path) -> None:
    late = enrolled(small_plan(quorum=1, deadline="2020-01-01T00:00:00+00:00"), *NAMES)
    with served(tmp_path, late) as one:
        one.box("st-anna").submit(ROUNDS, release_of(late, "st-anna"), entity="st-anna")
        one.look()
        with refused(RoundClosed, None):
            one.box("st-bern").submit(ROUNDS, release_of(late, "st-bern"), entity="st-bern")


def test_why_a_message_does_not_count_is_told_to_its_sender(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        one.look()
        assert one.federation.status is not None
        rejected = (Rejected("st-anna", "BadMessage: it is not."), Rejected("st-bern", "another"))
        object.__setattr__(one.federation.status, "refused", rejected)
        found = one.box("st-anna").fetch(ROUNDS)
        assert found == NothingYet(rejected=(Rejected("st-anna", "BadMessage: it is not."),))


class _Proxy(socketserver.BaseRequestHandler):
    """A proxy that knows CONNECT and nothing else."""

    seen: list[str] = []  # noqa: RUF012

    def handle(self) -> None:
        line = self.request.recv(65_536).split(b"\r\n")[0].decode()
        self.seen.append(line)
        host, port = line.split()[1].split(":")
        with socket.create_connection((host, int(port))) as inner:
            self.request.sendall(b"HTTP/1.1 200 yes\r\n\r\n")
            pump = threading.Thread(target=self._pump, args=(inner, self.request), daemon=True)
            pump.start()
            self._pump(self.request, inner)
            pump.join(2)

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_proxy_given_or_of_the_environment(
    made: Enrolled, authority: Authority, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    socketserver.ThreadingTCPServer.daemon_threads = True
    with running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Proxy)) as proxy:
        assert asked(made, url, ca=authority.certificate, proxy=proxy)["plan"] == made.plan.hash
        assert _Proxy.seen == [f"CONNECT {url.removeprefix('https://')} HTTP/1.1"]
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        asked(made, url, ca=authority.certificate)
        assert len(_Proxy.seen) == 2
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        asked(made, url, ca=authority.certificate)
        assert len(_Proxy.seen) == 2
    with refused(Unreachable, "server"):
        asked(made, url, ca=authority.certificate, proxy=proxy)


def test_what_is_not_encrypted_does_not_leave_the_machine(
    made: Enrolled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with listening(Service(tmp_path / "state", [hosted(made)])) as url:
        assert asked(made, url)["plan"] == made.plan.hash
        with refused(UntrustedServer, "proxy"):
            asked(made, url, proxy="http://127.0.0.1:1")


@pytest.mark.parametrize("proxy", ["socks5://proxy.example.org:1080", "ftp://proxy", "http://", "http://proxy:port"])
def test_a_proxy_that_is_none_is_refused_without_its_password(
    made: Enrolled, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    with refused(Unreachable, "proxy") as caught:
        Connection(server="https://federation.example.org", proxy=proxy).open()
    assert "proxy.example.org:1080" not in str(caught.value)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with refused(Unreachable, "proxy"):
        Connection(server="https://federation.example.org").open()


@pytest.mark.parametrize("right", [True, False])
def test_a_pin_holds_inside_the_tls_of_a_proxy(authority: Authority, pair: tuple[Path, Path], right: bool) -> None:
    """There the handshake is made without a socket."""
    pin = pin_of(pair[0].read_bytes()) if right else "ab" * 32
    context = Connection(server="https://localhost", ca=authority.certificate, pin=pin)._context()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*pair)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = context.wrap_bio(down, up, server_hostname="localhost")
    other = server.wrap_bio(up, down, server_side=True)

    def shake() -> None:
        for _ in range(4):
            for side in (one, other):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()

    if right:
        shake()
        assert one.version() == "TLSv1.3"
    else:
        with refused(UntrustedServer, "pin"):
            shake()


class _Liar(BaseHTTPRequestHandler):
    """Answers whatever a test asks for."""

    answers: list[tuple[int, dict[str, str], bytes]] = []  # noqa: RUF012
    count = 0

    def do_GET(self) -> None:
        type(self).count += 1
        status, headers, body = self.answers[min(self.count, len(self.answers)) - 1]
        self.send_response(status)
        for key, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def liar() -> Iterator[str]:
    _Liar.answers, _Liar.count = [], 0
    with running(ThreadingHTTPServer(("127.0.0.1", 0), _Liar)) as url:
        yield url


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((302, {"location": "http://127.0.0.1:1/"}, b""), Unreachable),
        ((200, {"content-encoding": "gzip"}, b"\x1f\x8b"), Unreachable),
        ((418, {}, b"<html>captive portal</html>"), Unreachable),
        ((401, {}, b""), KeyRefused),
        ((410, {}, b'{"error": "SystemExit", "summary": "x"}'), RoundClosed),
        ((503, {}, b""), Unreachable),
    ],
    ids=["redirect", "packed", "foreign", "refused", "foreign name of an error", "busy"],
)
def test_foreign_answers(made: Enrolled, liar: str, answer: Any, kind: type[Exception]) -> None:
    _Liar.answers = [answer]
    with pytest.raises(kind):
        asked(made, liar)


def test_foreign_words_are_made_safe(made: Enrolled, liar: str) -> None:
    _Liar.answers = [(404, {}, b'{"error": "PlanMismatch", "summary": "\\u001b[2J' + b"x" * 999 + b'"}')]
    with pytest.raises(PlanMismatch) as caught:
        asked(made, liar)
    assert "\x1b" not in str(caught.value)
    assert len(caught.value.summary) <= 300


def test_what_the_operator_did_not_sign_is_not_taken(made: Enrolled, liar: str) -> None:
    _Liar.answers = [(200, {}, b"not item factors")]
    with client(made, liar) as one:
        found = HttpsMailbox(one, made.plan).fetch(ROUNDS)
    assert isinstance(found, NothingYet)
    assert found.rejected[0].name == "the server's answer"
    _Liar.answers = [(200, {}, bytes(ROUNDS.down.limit(made.plan) + 1))]
    with client(made, liar) as one, refused(Unreachable, "server"):
        HttpsMailbox(one, made.plan).fetch(ROUNDS)


def test_an_answer_that_drips_is_given_up(made: Enrolled, liar: str) -> None:
    """Each part comes within the time for one read; all of them would take days."""
    _Liar.answers = [(200, {}, b"x" * 300_000)]
    clock = iter(range(0, 10**9, 3_600))  # an hour from one look to the next
    with client(made, liar, clock=lambda: float(next(clock))) as one, refused(Unreachable, "server"):
        one.get("/v1/x")
    with client(made, liar, clock=lambda: 0.0) as one:
        assert len(one.get("/v1/x").content) == 300_000


def test_a_request_is_tried_again_with_growing_pauses(made: Enrolled, liar: str) -> None:
    busy = (503, {"retry-after": "7"}, b"")
    _Liar.answers = [busy, (500, {}, b""), (200, {}, b'{"plan": "x"}')]
    pauses: list[float] = []
    connection = Connection(server=liar, attempts=4)
    with Client(connection, name="st-anna", signer=made.signer("st-anna"), sleep=pauses.append) as one:
        assert one.status(made.plan.hash) == {"plan": "x"}
        assert pauses[0] == 7.0
        assert 1.0 <= pauses[1] <= 2.0
        _Liar.answers, _Liar.count = [busy], 0
        with refused(Unreachable, "server"):
            one.status(made.plan.hash)
    assert _Liar.count == 4


def test_a_server_that_is_away_is_unreachable(made: Enrolled) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with refused(Unreachable, "server"):
            asked(made, f"http://127.0.0.1:{taken.getsockname()[1]}")


def raw(url: str, *parts: bytes, pause: float = 0.0) -> bytes:
    """Send bytes as they are; give all that comes back before the other side closes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as line:
        try:
            for part in parts:
                line.sendall(part)
                threading.Event().wait(pause)
            found = b""
            while data := line.recv(65_536):
                found += data
        except ConnectionError:
            return b"reset"
        return found


def test_slow_senders_and_large_headers_are_given_up(made: Enrolled, tmp_path: Path) -> None:
    with listening(Service(tmp_path / "state", [hosted(made)], limits=QUICK)) as url:
        assert raw(url, b"GET /v1/health HTTP/1.1\r\n", *[b"a: b\r\n"] * 9, pause=0.1) in (b"", b"reset")
        assert raw(url, b"") in (b"", b"reset")
        bomb = raw(url, b"GET /v1/health HTTP/1.1\r\n", b"a: " + b"b" * 20_000 + b"\r\n\r\n")
        assert bomb.startswith(b"HTTP/1.1 400") or bomb == b"reset"
        assert b"200 OK" in raw(url, b"GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")


def test_a_body_that_stops_is_given_up(made: Enrolled, tmp_path: Path) -> None:
    import time

    from twofold.federation import wire

    service = Service(tmp_path / "state", [hosted(made)], limits=QUICK)
    with listening(service) as url:
        data = release_of(made, "st-anna")
        path = wire.message_path(made.plan.hash, ROUNDS.id, "st-anna")
        signed = wire.Request.signed(
            "PUT", path, name="st-anna", signer=made.signer("st-anna"), at=time.time(), digest=wire.digest_of(data)
        )
        lines = {**signed.headers, "host": "x", "content-type": wire.MESSAGE, "content-length": str(len(data))}
        head = f"PUT {path} HTTP/1.1\r\n" + "".join(f"{key}: {value}\r\n" for key, value in lines.items()) + "\r\n"
        assert raw(url, head.encode() + data[:100]).startswith(b"HTTP/1.1 408")
        assert list((tmp_path / "state" / made.plan.hash / "objects").glob(".*.part")) == []
        assert service.federations[made.plan.hash].store.messages(ROUNDS) == []
