"""The entity's end over HTTPS: one outbound connection, signed requests, retries, and nothing taken on trust.

What the server answers is data: it is bounded before it is read, never unpacked, and decoded with the checks that a
file from a folder gets. Redirects are not followed.
"""

from __future__ import annotations

import ipaddress
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import httpx
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from twofold import __version__, errors
from twofold.errors import (
    BadMessage,
    ClockSkew,
    ConflictingMessage,
    KeyRefused,
    PlanMismatch,
    PrivacyError,
    ProtocolError,
    RoundClosed,
    TransportError,
    TwofoldError,
    Unreachable,
    UntrustedServer,
)
from twofold.federation import wire
from twofold.federation.mailbox import (
    NothingYet,
    Rejected,
    Step,
    StepId,
    Submitted,
    as_bytes,
    check_sender,
    closed,
    conflict,
)
from twofold.federation.messages import receipt
from twofold.federation.plan import Plan
from twofold.storage.container import parse_json, printable
from twofold.storage.signing import SigningKey

__all__ = ["Answer", "Client", "Connection", "HttpsMailbox", "HttpsPeer", "pin_of"]

#: Bytes of an answer that is not a message: an error, or a progress.
_LARGEST_ANSWER: Final = 4 * 1024 * 1024
#: Bytes per second below which an answer is given up.
_SLOWEST: Final = 1_000.0
#: Answers after which the same request is tried again.
_LATER: Final = frozenset({408, 429, 500, 502, 503, 504, 507})
#: Longest pause that a server may ask for, in seconds.
_LONGEST: Final = 120.0
#: Errors that a server may answer with.
_KNOWN: Final[Mapping[str, type[TwofoldError]]] = {
    one.__name__: one
    for one in (BadMessage, ClockSkew, ConflictingMessage, KeyRefused, PlanMismatch, RoundClosed, TransportError)
}
_BY_STATUS: Final[Mapping[int, type[TwofoldError]]] = {
    401: KeyRefused,
    403: KeyRefused,
    404: PlanMismatch,
    409: ConflictingMessage,
    410: RoundClosed,
    413: BadMessage,
    422: BadMessage,
}


def pin_of(certificate: bytes) -> str:
    """SHA-256 of the public key of a certificate (PEM or DER), in hexadecimal digits; it survives a renewal.

    Examples
    --------
    >>> pin_of(b"no certificate")
    Traceback (most recent call last):
    twofold.errors.UntrustedServer: this is not a certificate...
    """
    try:
        pem = certificate.lstrip().startswith(b"-----")
        one = x509.load_pem_x509_certificate(certificate) if pem else x509.load_der_x509_certificate(certificate)
    except ValueError:
        raise UntrustedServer("this is not a certificate.", expected="a PEM file", parameter="certificate") from None
    return sha256(one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How to reach a server, and how to know it.

    Parameters
    ----------
    server : str
        Its address, as https://federation.example.org; a path is allowed, where a reverse proxy needs one.
    ca : path or str, optional
        PEM file of the authorities to trust, or the PEM text itself; those of the system by default.
    pin : str, optional
        SHA-256 of the server's public key (`pin_of`); any other is refused before anything is sent.
    proxy : str, optional
        An HTTP proxy, as http://proxy.example.org:3128; by default that of the environment (HTTPS_PROXY, NO_PROXY).
    certificate : pair of paths, optional
        A client certificate and its key, where a reverse proxy asks for one.
    seconds : float
        Time for one request to make progress.
    attempts : int
        How often a request is tried.

    Examples
    --------
    >>> Connection(server="http://federation.example.org")
    Traceback (most recent call last):
    twofold.errors.UntrustedServer: the address is not encrypted...
    """

    server: str
    ca: str | PathLike[str] | None = None
    pin: str | None = None
    proxy: str | None = None
    certificate: tuple[str, str] | None = None
    seconds: float = 60.0
    attempts: int = 7

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.server)
        except httpx.InvalidURL:
            url = httpx.URL("")
        plain = url.scheme in ("http", "https") and url.host and not url.query and not url.fragment and not url.userinfo
        if not plain:
            raise Unreachable(
                "the server's address is not valid.",
                found=printable(self.server),
                expected="an address as https://federation.example.org",
                parameter="server",
            )
        if url.scheme == "http" and (self.proxy or not _is_loopback(url.host)):
            raise UntrustedServer(
                "the address is not encrypted.",
                found=printable(self.server),
                expected="https://, or http:// for a server on this very machine, which no proxy leads to",
                parameter="proxy" if self.proxy else "server",
            )

    @property
    def base(self) -> str:
        """The address without an end slash."""
        return self.server.rstrip("/")

    def open(self) -> httpx.Client:
        """Open a client; it connects with the first request."""
        proxy = self.proxy if self.proxy is not None else _proxy_of(httpx.URL(self.server))
        return httpx.Client(
            verify=self._context(),
            proxy=_checked_proxy(proxy) if proxy else None,
            trust_env=False,  # no credentials from files of the user, and no authorities but those of the context
            follow_redirects=False,
            timeout=httpx.Timeout(self.seconds, connect=min(self.seconds, 20.0)),
            headers={"accept-encoding": "identity", "user-agent": f"twofold/{__version__}"},
        )

    def _context(self) -> ssl.SSLContext:
        context = _Pinned(ssl.PROTOCOL_TLS_CLIENT)
        context.pin = self.pin
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if self.ca is None:
                context.load_default_certs()
            elif isinstance(self.ca, str) and self.ca.lstrip().startswith("-----"):
                context.load_verify_locations(cadata=self.ca)
            else:
                context.load_verify_locations(cafile=str(self.ca))
            if self.certificate is not None:
                context.load_cert_chain(*self.certificate)
        except (OSError, ssl.SSLError) as error:
            raise UntrustedServer(
                "a certificate file cannot be used.",
                found=getattr(error, "strerror", None) or type(error).__name__,
                expected="PEM files that this user can read",
                parameter="ca" if self.certificate is None else "client_certificate",
            ) from None
        return context


class _Pinned(ssl.SSLContext):
    """Compares the server's key before a byte of a request is sent, whichever way the connection is made."""

    pin: str | None = None

    def check_pin(self, one: ssl.SSLSocket | ssl.SSLObject) -> None:
        """Refuse another key than the pinned one."""
        shown = one.getpeercert(binary_form=True)
        if self.pin is not None and (shown is None or pin_of(shown) != self.pin.lower()):
            if isinstance(one, ssl.SSLSocket):
                one.close()
            raise UntrustedServer(
                "the server has another key than the pinned one; nothing was sent.",
                found="no certificate" if shown is None else f"a key with SHA-256 {pin_of(shown)[:16]}",
                expected=f"the key with SHA-256 {printable(self.pin, 16)}",
                fix="ask the operator by phone whether the key was replaced",
                parameter="pin",
            )


class _PinnedSocket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        if isinstance(self.context, _Pinned):
            self.context.check_pin(self)


class _PinnedObject(ssl.SSLObject):  # inside the TLS of a proxy, where there is no socket
    def do_handshake(self) -> None:
        super().do_handshake()
        if isinstance(self.context, _Pinned):
            self.context.check_pin(self)


_Pinned.sslsocket_class, _Pinned.sslobject_class = _PinnedSocket, _PinnedObject


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


class Client:
    """Signed requests of one member to one server; every request may be repeated.

    Parameters
    ----------
    connection : Connection
        How to reach the server.
    name, signer : str, SigningKey
        Who asks.
    http : httpx.Client, optional
        Another client, for tests.
    sleep, clock : callable
        For tests.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        signer: SigningKey,
        http: httpx.Client | None = None,
        sleep: Callable[[float], None] = lambda seconds: time.sleep(seconds),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.connection, self.name, self._signer = connection, name, signer
        self._http = http or connection.open()
        self._sleep, self._clock = sleep, clock

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str, *, limit: int = _LARGEST_ANSWER, known: str | None = None) -> Answer:
        """Ask for something of at most `limit` bytes; 304 if it still is what is `known` by its digest."""
        return self.ask("GET", path, limit=limit, headers={} if known is None else {"if-none-match": f'"{known}"'})

    def status(self, plan_hash: str) -> dict[str, Any]:
        """Give the progress of a federation, as the server tells it."""
        answer = self.get(wire.federation_path(plan_hash))
        if answer.status != 200:
            raise refused(answer)
        return _record(answer)

    def document(self, plan_hash: str, kind: str) -> bytes:
        """Fetch a document of a plan; it is checked by those who know its hash."""
        answer = self.get(wire.document_path(plan_hash, kind), limit=wire.LARGEST_DOCUMENT)
        if answer.status != 200:
            raise refused(answer)
        return answer.content

    def close_step(self, plan_hash: str, step: StepId) -> None:
        """Ask the server to stop waiting in a step; for its operator."""
        answer = self.ask("POST", wire.close_path(plan_hash, step))
        if answer.status != 202:
            raise refused(answer)

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        limit: int = _LARGEST_ANSWER,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, again and again while the server cannot be reached; give its answer, whatever it says.

        Raises
        ------
        UntrustedServer
            It is not the expected server; nothing was sent.
        Unreachable
            There was no answer after all attempts.
        """
        digest = wire.digest_of(body)
        last: TwofoldError | None = None
        for attempt in range(self.connection.attempts):
            if attempt:
                self._sleep(self._pause(attempt, last))
            signed = wire.Request.signed(
                method, path, name=self.name, signer=self._signer, at=self._clock(), digest=digest
            )
            every = {**signed.headers, **(headers or {})}
            if method == "PUT":
                every["content-type"] = wire.MESSAGE
            try:
                answer = self._once(method, path, body, every, limit)
            except httpx.HTTPError as error:
                last = _unreachable(error, self.connection)
                if isinstance(last, UntrustedServer):
                    raise last from None
                continue
            if answer.status not in _LATER:
                return answer
            last = _Later(answer)
        assert last is not None
        raise last.as_(Unreachable) if isinstance(last, _Later) else last

    def _once(self, method: str, path: str, body: bytes, headers: Mapping[str, str], limit: int) -> Answer:
        url = self.connection.base + path
        with self._http.stream(method, url, content=body or None, headers=dict(headers)) as found:
            if found.headers.get("content-encoding", "identity") != "identity":
                raise _foreign(f"a packed answer ({found.status_code})")
            most = limit if found.status_code == 200 else min(limit, _LARGEST_ANSWER)
            parts, size, begun = [], 0, self._clock()
            for chunk in found.iter_raw():
                size += len(chunk)
                if size > most:
                    raise _foreign(f"an answer of more than {most:,} bytes")
                if self._clock() - begun > self.connection.seconds + size / _SLOWEST:
                    raise httpx.ReadTimeout("an answer that comes too slowly")
                parts.append(chunk)
            plain = {key.lower(): value for key, value in found.headers.items()}
        if 300 <= found.status_code < 400 and found.status_code != 304:
            raise _foreign(f"a redirect ({found.status_code})")
        return Answer(status=found.status_code, headers=plain, content=b"".join(parts))

    def _pause(self, attempt: int, last: TwofoldError | None) -> float:
        """Twice as long after every attempt, by a random part so that many do not come back together."""
        asked: float = last.after if isinstance(last, _Later) else 0.0
        steady: float = min(30.0, 0.5 * 2.0**attempt)
        return max(asked, steady * random.uniform(0.5, 1.0))


class HttpsMailbox:
    """An `EntityMailbox` over HTTPS.

    Parameters
    ----------
    client : Client
        Of this entity.
    plan : Plan
        The plan of these messages.

    Attributes
    ----------
    retry_after : float
        Seconds after which the server wants to be asked again.
    """

    def __init__(self, client: Client, plan: Plan) -> None:
        self.client, self.plan = client, plan
        self.retry_after = 0.0
        self._sent: set[tuple[StepId, str]] = set()
        self._got: dict[StepId, bytes] = {}

    def __enter__(self) -> HttpsMailbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def submit(self, step: Step, data: bytes, *, entity: str) -> Submitted:
        """Upload the message, unless the server has it; see `EntityMailbox`."""
        content, mark = as_bytes(data), receipt(data)
        check_sender(content, entity)
        if (step.id, mark) in self._sent:
            return Submitted(receipt=mark, new=False)
        step.up.decode(content, self.plan)
        path = wire.message_path(self.plan.hash, step.id, entity)
        here = self.client.get(path)
        if here.status != 200:
            raise refused(here)
        record, new = _record(here), False
        if (known := record.get("receipt")) is None:
            if record.get("closed"):
                raise closed()
            answer = self.client.ask("PUT", path, body=content)
            if answer.status not in (200, 201) or _tag(answer) != mark:
                raise refused(answer)
            new = answer.status == 201
        elif known != mark:
            raise conflict(entity)
        self._sent.add((step.id, mark))
        return Submitted(receipt=mark, new=new)

    def fetch(self, step: Step) -> bytes | NothingYet:
        """Give what the server published, once it has; what its operator did not sign does not count."""
        if step.id in self._got:
            return self._got[step.id]
        answer = self.client.get(wire.published_path(self.plan.hash, step.id), limit=step.down.limit(self.plan))
        if answer.status == 202:
            self.retry_after = _seconds(answer)
            told = _record(answer).get("refused")
            reasons = [printable(one, 300) for one in told if isinstance(one, str)] if isinstance(told, list) else []
            return NothingYet(rejected=tuple(Rejected(self.client.name, reason) for reason in reasons[:3]))
        if answer.status != 200:
            raise refused(answer)
        try:
            step.down.decode(answer.content, self.plan)
        except (ProtocolError, PrivacyError) as error:
            return NothingYet(rejected=(Rejected("the server's answer", error.summary),))
        self._got[step.id] = answer.content
        return answer.content


class HttpsPeer:
    """The way from one operator to the service of the other."""

    def __init__(self, client: Client, plan: Plan) -> None:
        self.client, self.plan = client, plan

    def deliver(self, step: Step, data: bytes) -> None:
        """Hand over a message; the same bytes again change nothing."""
        path = wire.part_path(self.plan.hash, step.id, receipt(data))
        answer = self.client.ask("PUT", path, body=data)
        if answer.status not in (200, 201):
            raise refused(answer)

    def close(self) -> None:
        """Close the connection."""
        self.client.close()


class _Later(TransportError):
    """The server asks to come back later."""

    def __init__(self, answer: Answer | None = None, **parts: Any) -> None:
        status = 0 if answer is None else answer.status
        self.after = 0.0 if answer is None else _seconds(answer)
        given = {"found": f"status {status}", "fix": "run the same command again later", "parameter": "server"}
        super().__init__(**({"summary": "the server cannot take requests now."} | given | parts))


def refused(answer: Answer) -> TwofoldError:
    """Give an answer that is no success as an error; foreign text in it is made safe to show.

    Examples
    --------
    >>> refused(Answer(status=410, headers={}, content=b"")).anchor()
    'round-closed'
    """
    record = _record(answer)
    name = record.get("error") or answer.headers.get("twofold-error")
    kind = _KNOWN.get(name) if isinstance(name, str) else None
    if kind is None:
        kind = _BY_STATUS.get(answer.status, Unreachable)
    parts = {key: _text(record.get(key)) for key in ("found", "expected", "fix")}
    summary = _text(record.get("summary")) or f"the server refused the request ({answer.status})."
    if kind is TransportError:
        kind = Unreachable
    return kind(summary, **parts, parameter=_text(record.get("parameter")))


def _text(value: object) -> str | None:
    return printable(value, 300) if isinstance(value, str) and value else None


def _record(answer: Answer) -> dict[str, Any]:
    try:
        return dict(parse_json(answer.content.decode()))
    except (ProtocolError, ValueError):
        return {}


def _tag(answer: Answer) -> str:
    return answer.headers.get("etag", "").strip('"')


def _seconds(answer: Answer) -> float:
    text = answer.headers.get("retry-after", "")
    return min(_LONGEST, float(text)) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _foreign(found: str) -> Unreachable:
    return Unreachable(
        "what answers at this address is not a twofold service.",
        found=found,
        fix="check the address and the proxy",
        parameter="server",
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _unreachable(error: httpx.HTTPError, connection: Connection) -> TwofoldError:
    """Say what is wrong with a connection, in words of ours."""
    for one in _causes(error):
        if isinstance(one, UntrustedServer):
            return one
        if isinstance(one, ssl.SSLCertVerificationError):
            return _untrusted(one)
        if isinstance(one, ssl.SSLError):
            return Unreachable(
                "no encrypted connection could be made.",
                found=printable(one.reason or type(one).__name__),
                expected="a server that speaks HTTPS at this address",
                parameter="server",
            )
    kind = "the proxy" if isinstance(error, httpx.ProxyError) else "the server"
    return Unreachable(
        f"{kind} cannot be reached.",
        found=f"{printable(connection.server)}: {type(error).__name__}",
        expected="an answer; nothing is lost, and the same command goes on from here",
        fix="check the address, the network and --proxy, then run the same command again",
        parameter="proxy" if kind == "the proxy" else "server",
    )


def _untrusted(error: ssl.SSLCertVerificationError) -> UntrustedServer:
    """Say what is wrong with a certificate, by the number that OpenSSL gives it."""
    clock, today = "check the clock of this machine", "a certificate that is valid today, by the clock of this machine"
    renew = f"{clock}; otherwise ask the operator to renew the certificate"
    name = ("is for another name", "a certificate for the name in the address", None, "server")
    authority = "a certificate of an authority that this machine, or --ca, names"
    late, early = ("has expired", today, renew, "certificate"), ("is not valid yet", today, clock, "certificate")
    known: Mapping[int, tuple[str, str, errors.Fix | None, str]] = {10: late, 9: early, 62: name, 64: name}
    other = ("is not from a trusted authority", authority, errors.Set("ca", "authority.pem"), "ca")
    what, expected, fix, parameter = known.get(error.verify_code, other)
    return UntrustedServer(
        f"the server's certificate {what}; nothing was sent.",
        found=printable(error.verify_message),
        expected=expected,
        fix=fix,
        parameter=parameter,
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy_of(url: httpx.URL) -> str | None:
    """The proxy that the environment names for an address; what is not encrypted stays on this machine."""
    if url.scheme == "http" or proxy_bypass(url.host):
        return None
    found = getproxies()
    return found.get(url.scheme) or found.get("all")


def _checked_proxy(text: str) -> httpx.URL:
    """Refuse what is not the address of an HTTP proxy; the text may hold a password, so it is not shown."""
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise Unreachable(
            "the proxy's address is not valid.",
            expected="an HTTP proxy, as http://proxy.example.org:3128, in --proxy or HTTPS_PROXY",
            parameter="proxy",
        )
    return url
