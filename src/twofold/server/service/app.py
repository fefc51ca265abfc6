"""The service's requests, as an ASGI application: who may send what is decided before a body is read."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from twofold import __version__
from twofold.checks import NAME, is_hash
from twofold.errors import (
    BadMessage,
    KeyRefused,
    LogBroken,
    PlanMismatch,
    PrivacyError,
    ProtocolError,
    TransportError,
    TwofoldError,
)
from twofold.federation import wire
from twofold.federation.mailbox import Step, closed, conflict
from twofold.server.service.hosted import Federation, Hosted
from twofold.server.service.limits import Limits, Rates, sender_of
from twofold.server.service.openapi import openapi
from twofold.server.service.store import Incoming, Outcome
from twofold.storage.files import Busy, locked, make_folder, put_once, read_limited

__all__ = ["METRICS_FILE", "PLAIN", "Refusal", "Service", "build_app", "http_error", "password_in", "refused", "shown"]

#: File with the password of the metrics, in the service's folder.
METRICS_FILE: Final = "metrics.password"
#: Bytes of a file with a password, and fewest characters of one that somebody wrote into it.
_LARGEST_PASSWORD: Final = 1024
_SHORTEST_PASSWORD: Final = 16
_LENGTH: Final = 12
#: Threads, of 40, that check and store messages; the others answer what takes no time.
_TAKING: Final = 16
_CHUNK: Final = 256 * 1024
#: Content types of documents.
_TYPES: Final = {"plan": "application/json", "roster": "application/json", "agreements": "application/json"}
#: A cache between the two would hand what one reader may see to somebody else; nothing here is a page.
PLAIN: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
Handler = Callable[[Request], Awaitable[Response]]


class Refusal(Exception):
    """A request that is answered with an error of ours."""

    def __init__(self, status: int, error: TwofoldError, *, after: float | None = None, challenge: str = "") -> None:
        super().__init__(error.summary)
        self.status, self.error, self.after, self.challenge = status, error, after, challenge


class Service:
    """Several federations in one process, apart from each other.

    Parameters
    ----------
    state : Path
        Folder of this service alone; each federation has a folder in it, named by its plan's hash.
    hosted : iterable of Hosted
        The federations.
    limits : Limits
        Sizes, rates and times.
    poll : float
        Seconds between looks if nothing arrives.
    clock : callable
        Gives seconds since 1970, for tests.
    """

    def __init__(
        self,
        state: Path,
        hosted: Iterable[Hosted],
        *,
        limits: Limits | None = None,
        poll: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.state, self.limits, self.clock = Path(state), limits or Limits(), clock
        self.seen = wire.SeenRequests(clock=clock, window=self.limits.window)
        self.addresses = Rates(self.limits.address_rate, self.limits.address_burst)
        self.members = Rates(self.limits.member_rate, self.limits.member_burst)
        self.answers: Counter[int] = Counter()
        self.taken: Counter[str] = Counter()
        self.started = clock()
        make_folder(self.state)
        self._lock = locked(self.state / "lock", wait=0)
        try:
            self._lock.__enter__()
        except Busy as error:
            raise TransportError(
                "another service is using this folder.",
                found=str(error),
                fix="let it finish or end it, or give this one another folder",
                parameter="state",
            ) from None
        self.metrics_password = password_in(self.state / METRICS_FILE)
        self.federations: dict[str, Federation] = {}
        for one in hosted:
            folder = self.state / one.plan.hash
            self.federations[one.plan.hash] = Federation(one, folder, poll=poll, checks=self.limits.checks)

    def start(self) -> None:
        """Let every federation work."""
        for one in self.federations.values():
            one.start()

    def stop(self) -> None:
        """Let every federation finish what it does, and release the folder."""
        for one in self.federations.values():
            one.stop()
        self._lock.__exit__(None, None, None)

    def wait_for(self, request: Request) -> float:
        """Count a request of an address; 0, or the seconds after which the next one is taken."""
        return self.addresses.wait("" if request.client is None else sender_of(request.client.host))

    def metrics(self) -> str:
        """Counters in the text format of Prometheus; plans by the beginning of their hashes, no names."""
        lines = [
            "# TYPE twofold_up gauge",
            "twofold_up 1",
            "# TYPE twofold_start_time_seconds gauge",
            f"twofold_start_time_seconds {self.started:.0f}",
            "# TYPE twofold_responses_total counter",
            *(f'twofold_responses_total{{status="{status}"}} {n}' for status, n in sorted(self.answers.items())),
            "# TYPE twofold_messages_total counter",
            *(f'twofold_messages_total{{outcome="{outcome}"}} {n}' for outcome, n in sorted(self.taken.items())),
        ]
        gauges = ("arrived", "expected", "published", "problem")
        for gauge in gauges:
            lines.append(f"# TYPE twofold_federation_{gauge} gauge")
            for key, one in self.federations.items():
                status = one.status
                values = {
                    "arrived": 0 if status is None else status.arrived,
                    "expected": 0 if status is None else status.expected,
                    "published": int(status is not None and status.published),
                    "problem": int(one.problem is not None),
                }
                lines.append(f'twofold_federation_{gauge}{{plan="{key[:12]}"}} {values[gauge]}')
        return "\n".join(lines) + "\n"


def build_app(service: Service, *, more: Iterable[Route] = ()) -> Starlette:
    """Give the ASGI application of a service; its federations start and stop with it.

    Parameters
    ----------
    service : Service
        What it serves.
    more : iterable of Route
        Further pages, such as a status page.
    """
    requests = _Requests(service)
    plan = f"{wire.ROOT}/federations/{{plan}}"
    step = f"{plan}/steps/{{step}}"
    routes: list[tuple[str, list[str], Handler]] = [
        (f"{wire.ROOT}/health", ["GET"], requests.health),
        (f"{wire.ROOT}/metrics", ["GET"], requests.metrics),
        (f"{wire.ROOT}/openapi.json", ["GET"], requests.openapi),
        (plan, ["GET"], requests.status),
        (f"{plan}/documents/{{kind}}", ["GET"], requests.document),
        (f"{step}/messages/{{entity}}", ["GET", "PUT"], requests.message),
        (f"{step}/parts/{{receipt}}", ["PUT"], requests.part),
        (f"{step}/published", ["GET"], requests.published),
        (f"{step}/close", ["POST"], requests.close),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await to_thread.run_sync(service.stop)

    app = Starlette(
        routes=[*(Route(path, requests.guarded(work), methods=methods) for path, methods, work in routes), *more],
        lifespan=lifespan,
        exception_handlers={HTTPException: http_error, Exception: _fault},
    )
    app.state.service = service
    return app


class _Requests:
    """One method per path."""

    def __init__(self, service: Service) -> None:
        self.service, self.limits = service, service.limits
        self._uploads = asyncio.Semaphore(self.limits.uploads)
        self._uploading: Counter[str] = Counter()  # by member: one alone must not fill all places
        self._taking = asyncio.Semaphore(_TAKING)

    def guarded(self, work: Handler) -> Handler:
        """Count, limit by address, and turn errors into answers."""

        async def run(request: Request) -> Response:
            try:
                self._admit_address(request)
                answer = await work(request)
            except Refusal as refusal:
                answer = refused(refusal, close=request.method in ("PUT", "POST"))
            self.service.answers[answer.status_code] += 1
            answer.headers.update(PLAIN)
            return answer

        return run

    # Open to everybody.

    async def health(self, _: Request) -> Response:
        """Say that the service answers."""
        return JSONResponse({"status": "ok", "version": __version__, "federations": len(self.service.federations)})

    async def metrics(self, request: Request) -> Response:
        """Give counters to those who have the password; an address proves nothing behind a proxy."""
        given = shown(request.headers.get("authorization", ""))
        if given is None or not hmac.compare_digest(given, self.service.metrics_password):
            due = f"Authorization: Bearer, with what is in {METRICS_FILE}"
            error = KeyRefused("metrics need a password.", expected=due, parameter="password")
            raise Refusal(401, error, challenge='Bearer realm="twofold metrics"')
        return PlainTextResponse(self.service.metrics(), media_type="text/plain; version=0.0.4")

    async def openapi(self, _: Request) -> Response:
        """Describe all requests."""
        return JSONResponse(openapi())

    # For members.

    async def status(self, request: Request) -> Response:
        """Say how far a federation has come."""
        one, _ = self._admit(request)
        return JSONResponse(await to_thread.run_sync(one.describe))

    async def document(self, request: Request) -> Response:
        """Hand out a document of the plan."""
        one, _ = self._admit(request)
        kind = request.path_params["kind"]
        data = one.documents.get(kind)
        if data is None:
            raise Refusal(
                404,
                BadMessage(
                    "this service has no such document.",
                    expected=f"one of {', '.join(sorted(one.documents))}",
                    parameter="document",
                ),
            )
        tag = f'"{wire.digest_of(data)}"'
        if _matches(request, tag):
            return Response(status_code=304, headers={"etag": tag})
        return Response(data, media_type=_TYPES.get(kind, wire.MESSAGE), headers={"etag": tag})

    async def message(self, request: Request) -> Response:
        """Take an entity's message, or say which one is here."""
        one, sent = self._admit(request)
        step, entity = self._step(one, request), request.path_params["entity"]
        if not NAME.fullmatch(entity) or not (one.plan.people or entity in one.roster.entities):
            raise Refusal(404, PlanMismatch("the plan does not name this entity.", parameter="entity"))
        known = await to_thread.run_sync(one.store.receipt_of, step, entity)
        over = known is None and await to_thread.run_sync(one.is_published, step)
        if request.method != "PUT":
            return JSONResponse({"receipt": known, "closed": over}, headers=_tag(known))
        if over:
            raise Refusal(410, closed())
        length = self._length(request, step)
        incoming = await self._receive(request, one, length, sent)
        try:
            work = partial(one.take, step, entity, incoming, carrier=sent.name)
            outcome = await self._check(work)
        finally:
            incoming.discard()
        self.service.taken[outcome.value] += 1
        return self._outcome(outcome, sent.digest, entity)

    async def part(self, request: Request) -> Response:
        """Take a message of the other operator."""
        one, sent = self._admit(request)
        step = one.between.get(request.path_params["step"])
        if step is None:
            raise Refusal(404, PlanMismatch("the plan has no such step.", parameter="step"))
        if sent.name not in one.roster.operators or sent.name == one.operator:
            raise Refusal(403, KeyRefused("this is for the other operator.", found=sent.name, parameter="keys"))
        if request.path_params["receipt"] != sent.digest:
            raise Refusal(400, BadMessage("the path names other bytes than the request.", parameter="receipt"))
        length = self._length(request, step)
        incoming = await self._receive(request, one, length, sent)
        try:
            outcome = await self._check(partial(one.take_part, step, incoming, carrier=sent.name))
        finally:
            incoming.discard()
        self.service.taken[outcome.value] += 1
        return self._outcome(outcome, sent.digest, sent.name)

    async def published(self, request: Request) -> Response:
        """Give what was published in a step, or say when to ask again."""
        one, sent = self._admit(request)
        step = self._step(one, request)
        mark = await to_thread.run_sync(one.store.published_receipt, step)
        if mark is None:
            record: dict[str, Any] = {"step": step.id.value, "published": False}
            record["refused"] = one.refusals(sent.name)
            record["problem"] = None if one.problem is None else one.problem.summary
            return JSONResponse(record, status_code=202, headers={"retry-after": str(self.limits.retry_after)})
        tag = f'"{mark}"'
        if _matches(request, tag):
            return Response(status_code=304, headers={"etag": tag})
        path = one.store.path_of(mark)
        size = (await to_thread.run_sync(path.stat)).st_size
        headers = {"etag": tag, "content-length": str(size)}
        if request.method == "HEAD":
            return Response(headers=headers, media_type=wire.MESSAGE)
        return StreamingResponse(_file(path), media_type=wire.MESSAGE, headers=headers)

    async def close(self, request: Request) -> Response:
        """Stop waiting in a step; the operator alone may ask for it."""
        one, sent = self._admit(request)
        step = self._step(one, request)
        if sent.name != one.operator:
            raise Refusal(403, KeyRefused("only the operator closes a step.", found=sent.name, parameter="keys"))
        await to_thread.run_sync(one.close_step, step)
        return JSONResponse({"step": step.id.value, "closing": True}, status_code=202)

    # Before a body is read.

    def _admit_address(self, request: Request) -> None:
        if after := self.service.wait_for(request):
            raise _too_many(after)

    def _admit(self, request: Request) -> tuple[Federation, wire.Request]:
        """Find the federation, and check who asks; nothing of the body is read."""
        asked = request.path_params["plan"]
        one = self.service.federations.get(asked)
        if one is None:
            raise Refusal(
                404,
                PlanMismatch(
                    "this server does not run the plan.",
                    found=f"plan {asked[:12]}" if is_hash(asked) else None,
                    fix="the address of the server that runs it, or the plan that this server runs",
                    parameter="plan",
                ),
            )
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        path = raw.decode("ascii", "replace")
        if query := request.scope.get("query_string"):
            path += "?" + query.decode("ascii", "replace")
        try:
            sent = wire.Request.from_headers(request.method, path, request.headers)
            sent.check(one.roster, now=self.service.clock(), window=self.limits.window)
        except TransportError as error:
            raise Refusal(401, error) from None
        if after := self.service.members.wait(f"{one.plan.hash} {sent.name}"):
            raise _too_many(after)
        if not self.service.seen.is_new(sent.signature.hex(), at=sent.at):
            raise Refusal(
                401,
                KeyRefused("this request was sent before.", fix="sign each request anew", parameter="nonce"),
            )
        return one, sent

    def _step(self, one: Federation, request: Request) -> Step:
        step = one.steps.get(request.path_params["step"])
        if step is None:
            raise Refusal(
                404,
                PlanMismatch("the plan has no such step.", expected=f"one of {', '.join(one.steps)}", parameter="step"),
            )
        return step

    def _length(self, request: Request, step: Step) -> int:
        """Length of the body; refuse one that is packed, without a length, or longer than any message of the step."""
        headers = request.headers
        if headers.get("content-encoding", "identity") != "identity":
            raise Refusal(415, BadMessage("packed bodies are not taken.", expected="the bytes of the message"))
        if headers.get("content-type", "").partition(";")[0].strip() != wire.MESSAGE:
            raise Refusal(415, BadMessage("the body has another type.", expected=wire.MESSAGE, parameter="type"))
        text = headers.get("content-length", "")
        if "transfer-encoding" in headers or not (text.isascii() and text.isdigit() and len(text) <= _LENGTH):
            raise Refusal(411, BadMessage("the body has no length.", expected="Content-Length", parameter="length"))
        one = self.service.federations[request.path_params["plan"]]
        if int(text) > (limit := step.up.limit(one.plan)):
            raise Refusal(
                413,
                BadMessage(
                    "the message is larger than any of this step.",
                    found=f"{int(text):,} bytes",
                    expected=f"at most {limit:,}",
                    parameter="length",
                ),
            )
        return int(text)

    # The body.

    async def _receive(self, request: Request, one: Federation, length: int, sent: wire.Request) -> Incoming:
        """Take a body if its sender has not too many on the way."""
        member = f"{one.plan.hash} {sent.name}"
        if self._uploading[member] >= self.limits.member_uploads:
            raise _too_many(self.limits.retry_after)
        self._uploading[member] += 1
        try:
            return await self._written(request, one, length, sent.digest)
        finally:
            self._uploading[member] -= 1
            self._uploading += Counter()  # forgets those who have none

    async def _written(self, request: Request, one: Federation, length: int, digest: str) -> Incoming:
        """Write a body to the disk as it comes; give up one that is too slow, too long or not what was signed."""
        try:
            async with asyncio.timeout(self.limits.pause_seconds):
                await self._uploads.acquire()
        except TimeoutError:
            raise Refusal(503, TransportError("the server is busy."), after=self.limits.retry_after) from None
        incoming: Incoming | None = None
        try:
            incoming = await to_thread.run_sync(one.store.incoming)
            async with asyncio.timeout(self.limits.patience(length)):
                await self._copy(request, incoming, length)
            if incoming.size != length or incoming.digest != digest:
                raise Refusal(400, BadMessage("the body is not what was signed, or not whole.", parameter="digest"))
        except TimeoutError:
            _discard(incoming)
            raise Refusal(408, TransportError("the body came too slowly.", parameter="time")) from None
        except ClientDisconnect:
            _discard(incoming)
            raise Refusal(400, TransportError("the sender went away.")) from None
        except OSError as error:
            _discard(incoming)
            raise _full(error) from None
        except BaseException:
            _discard(incoming)
            raise
        finally:
            self._uploads.release()
        return incoming

    async def _copy(self, request: Request, incoming: Incoming, length: int) -> None:
        stream = request.stream().__aiter__()
        while True:
            async with asyncio.timeout(self.limits.pause_seconds):
                chunk = await anext(stream, None)
            if chunk is None:
                return
            if incoming.size + len(chunk) > length:
                raise Refusal(413, BadMessage("the body is longer than it said.", parameter="length"))
            if chunk:
                incoming.write(chunk)

    async def _check(self, work: Callable[[], Outcome]) -> Outcome:
        try:
            async with self._taking:
                return await to_thread.run_sync(work)
        except LogBroken as error:  # the service's own; the message is not at fault, and is logged when it comes again
            raise Refusal(507, error.as_(TransportError), after=self.limits.retry_after) from None
        except (ProtocolError, PrivacyError) as error:
            raise Refusal(422, error) from None
        except TransportError as error:
            raise Refusal(507, error, after=self.limits.retry_after) from None
        except OSError as error:
            raise _full(error) from None

    def _outcome(self, outcome: Outcome, digest: str, entity: str) -> Response:
        if outcome is Outcome.CONFLICT:
            raise Refusal(409, conflict(entity))
        if outcome is Outcome.CLOSED:
            raise Refusal(410, closed())
        status = 201 if outcome is Outcome.NEW else 200
        record = {"receipt": digest, "new": outcome is Outcome.NEW}
        return JSONResponse(record, status_code=status, headers=_tag(digest))


def password_in(file: Path) -> bytes:
    """Read a password, or make one, for the owner alone; the operator may write another into the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = password_in(Path(folder) / "metrics.password")
    ...     len(made), password_in(Path(folder) / "metrics.password") == made
    (32, True)
    """
    if not file.exists():
        put_once(file, f"{secrets.token_urlsafe(24)}\n".encode(), mode=0o600)
    password = read_limited(file, _LARGEST_PASSWORD).strip()
    if len(password) < _SHORTEST_PASSWORD:
        raise TransportError(
            "a password of the service is too short.",
            found=f"{len(password)} characters in {file.name}",
            expected=f"at least {_SHORTEST_PASSWORD}",
            fix="remove the file: the service makes a new one",
            parameter="state",
        )
    return password


def shown(header: str) -> bytes | None:
    """Give the password in an Authorization header, as a browser (Basic) or a program (Bearer) sends it; or None.

    Examples
    --------
    >>> shown("Bearer abc"), shown("Basic " + base64.b64encode(b"anybody:abc").decode()), shown("Digest abc")
    (b'abc', b'abc', None)
    """
    scheme, _, text = header.partition(" ")
    if scheme.lower() == "bearer":
        return text.strip().encode("utf-8", "replace")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(text, validate=True).partition(b":")[2]  # the user's name does not matter
    except (binascii.Error, ValueError):
        return None


async def _file(path: Path) -> AsyncIterator[bytes]:
    file: BinaryIO = await to_thread.run_sync(lambda: path.open("rb"))
    try:
        while chunk := await to_thread.run_sync(file.read, _CHUNK):
            yield chunk
    finally:
        file.close()  # not awaited: a sender who went away cancels whatever waits here


def _tag(mark: str | None) -> dict[str, str]:
    return {} if mark is None else {"etag": f'"{mark}"'}


def _matches(request: Request, tag: str) -> bool:
    return tag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]


def _discard(incoming: Incoming | None) -> None:
    if incoming is not None:
        incoming.discard()


def _too_many(after: float) -> Refusal:
    return Refusal(429, TransportError("too many requests; ask again later.", parameter="rate"), after=after)


def _full(error: OSError) -> Refusal:
    found = error.strerror or type(error).__name__
    return Refusal(507, TransportError("the server cannot store it now; nothing was taken.", found=found), after=60)


def refused(refusal: Refusal, *, close: bool) -> Response:
    """An answer without the body having been read: the connection is closed, so that nobody sends it in vain."""
    headers = {"twofold-error": type(refusal.error).__name__}
    if refusal.challenge:
        headers["www-authenticate"] = refusal.challenge
    if close:
        headers["connection"] = "close"
    if refusal.after is not None:
        headers["retry-after"] = str(max(1, round(refusal.after + 0.5)))
    return JSONResponse(refusal.error.as_dict(), status_code=refusal.status, headers=headers)


async def http_error(_: Request, error: Exception) -> Response:
    """An answer to a request that no path takes."""
    assert isinstance(error, HTTPException)
    found: Mapping[int, str] = {404: "there is no such path.", 405: "the path takes no such request."}
    summary = found.get(error.status_code, "the request is not valid.")
    headers = {"connection": "close", **(error.headers or {})}
    return JSONResponse(BadMessage(summary).as_dict(), status_code=error.status_code, headers=headers)


async def _fault(_: Request, __: Exception) -> Response:
    """A fault of ours; what it was stands in the service's own log, not in the answer."""
    record = TransportError("the server failed at this request; nothing was taken.").as_dict()
    return JSONResponse(record, status_code=500, headers={"connection": "close"})
