"""The requests of a served model, as an ASGI application: who may ask is decided before a body is read.

On this machine alone, no token is needed, and only names of this machine are answered: a page of another site that lets
its own name point here is refused. With a token, every request but health shows it. User ids are private: they are
in no log, no error and no counter.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import time
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from twofold import __version__
from twofold.errors import (
    BadMessage,
    BadParameter,
    CatalogError,
    KeyRefused,
    TransportError,
    TwofoldError,
    UnknownUser,
    UntrustedServer,
)
from twofold.serve.answers import Answers
from twofold.serve.current import Current
from twofold.serve.openapi import openapi
from twofold.serve.questions import Question, from_json, from_query
from twofold.server.service.app import PLAIN, Refusal, http_error, refused, shown
from twofold.server.service.limits import Limits

__all__ = ["LIMITS", "MOST_BYTES", "Api", "build_app", "is_local", "status_of"]

#: Bytes of a body.
MOST_BYTES: Final = 4 << 20
#: An application has one address, and all its requests come from there.
LIMITS: Final = Limits(address_connections=Limits().connections)
#: Bytes from which reading a body takes longer than a thread costs.
_LONG: Final = 64 << 10
#: Questions to a large model that wait; further ones are told to come back.
_WAITING: Final = 256
#: Threads that score for a large model.
_THREADS: Final = 2
#: Scores that are made before other requests get a turn: a few milliseconds.
_TURN: Final = 20_000
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_HEADERS: Final = [(b"content-type", b"application/json"), *((k.encode(), v.encode()) for k, v in PLAIN.items())]
_CHALLENGE: Final = 'Basic realm="twofold serve", charset="UTF-8"'
_log = logging.getLogger("twofold.serve")
Handler = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


class _Json(Response):
    """JSON that is bytes already; its headers are always the same."""

    def init_headers(self, headers: Any = None) -> None:  # noqa: ARG002
        """Take the headers as they are."""
        self.raw_headers = [*_HEADERS, (b"content-length", b"%d" % len(self.body))]


class _Path:
    """The requests of one path by method, as ASGI: for a function, Starlette adds a handler of errors that we have."""

    def __init__(self, work: dict[str, Handler]) -> None:
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        answer = await self._work["GET" if method == "HEAD" else method](Request(scope, receive, send))
        await answer(scope, receive, send)


def is_local(host: str) -> bool:
    """Whether an address is of this machine alone.

    Examples
    --------
    >>> is_local("127.0.0.1"), is_local("::1"), is_local("0.0.0.0")
    (True, True, False)
    """
    return host in _LOCAL or f"[{host}]" in _LOCAL


class Api:
    """One served model: its requests, its counters, and who may ask.

    Parameters
    ----------
    current : Current
        The model.
    token : bytes, optional
        What requests must show; without it only requests to names of this machine are answered.
    poll : float
        Seconds between looks at the model's file.
    """

    def __init__(self, current: Current, *, token: bytes | None = None, poll: float = 1.0) -> None:
        self.current, self.token, self.poll = current, token, poll
        self.answered: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[float]] = {}
        self._started = time.time()
        self._threads = CapacityLimiter(_THREADS)
        self._slow = CapacityLimiter(1)

    def routes(self) -> list[Route]:
        """Give the routes of the API."""
        each: list[tuple[str, str, Handler]] = [
            ("/recommendations/{user:path}", "GET", self.for_user),
            ("/recommendations", "POST", self.for_people),
            ("/items/{item:path}/similar", "GET", self.similar),
            ("/why", "GET", self.why_user),
            ("/why", "POST", self.why_anybody),
            ("/health", "GET", self.health),
            ("/metrics", "GET", self.metrics),
            ("/openapi.json", "GET", self.openapi),
        ]
        # One route for each path, so that a wrong method is told from a wrong path.
        paths: dict[str, dict[str, Handler]] = {}
        for path, method, work in each:
            paths.setdefault(path, {})[method] = self.guarded(path.replace(":path", ""), work)
        return [Route(path, _Path(work), methods=list(work)) for path, work in paths.items()]

    async def watch(self) -> None:
        """Load the model's file whenever it changes, beside the requests."""
        while True:
            await asyncio.sleep(self.poll)
            try:
                if await to_thread.run_sync(self.current.refresh):
                    _log.warning("the model was replaced: generation %d", self.current.answers.generation)
            except Exception as error:
                _log.error("the model's file was not looked at: %s", _where(error))

    def guarded(self, name: str, work: Handler, *, open_to_all: bool = False) -> Handler:
        """Check who asks, count, and turn errors into answers that hold nothing private."""
        open_to_all = open_to_all or name == "/health"

        async def run(request: Request) -> Response:
            start = time.perf_counter()
            try:
                self.admit(request, open_to_all=open_to_all)
                answer = await work(request)
            except Refusal as refusal:
                answer = refused(refusal, close=request.method == "POST")
            except TwofoldError as error:
                answer = refused(Refusal(status_of(error), error), close=False)
            except asyncio.CancelledError:  # it took longer than the grace that is left when the service ends
                answer = refused(Refusal(503, TransportError("the service ends."), after=5), close=True)
            except Exception as error:  # a traceback could hold a user's id
                _log.error("fault at %s: %s", name, _where(error))
                told = TransportError("the service failed at this request.")
                answer = refused(Refusal(500, told), close=True)
            if type(answer) is not _Json:
                for key, value in PLAIN.items():
                    answer.headers.setdefault(key, value)
            self.count(name, answer.status_code, time.perf_counter() - start)
            return answer

        return run

    # Before a body is read.

    def admit(self, request: Request, *, open_to_all: bool = False) -> None:
        """Refuse those without the token or, if there is none, requests under another name than this machine's."""
        headers = request.headers
        if self.token is None:
            host = headers.get("host", "")
            name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
            if name not in _LOCAL:
                raise Refusal(
                    421,
                    UntrustedServer(
                        "without a token, this service answers under names of this machine only.",
                        expected=", ".join(_LOCAL),
                        fix="start it with --token FILE, and send the token",
                        parameter="host",
                    ),
                )
        elif not open_to_all:
            given = shown(headers.get("authorization", ""))
            if given is None or not hmac.compare_digest(given, self.token):
                error = KeyRefused("this needs a token.", expected="Authorization: Bearer TOKEN", parameter="token")
                raise Refusal(401, error, challenge=_CHALLENGE)
        if request.method == "POST" and not _same_site(headers):
            raise Refusal(403, KeyRefused("a page of another site may not ask.", parameter="origin"))

    async def body(self, request: Request, kind: str, most: int = MOST_BYTES) -> bytes:
        """Read a body of known length and type; refuse one that is packed, too long or too slow."""
        headers = request.headers
        length = _length(headers, kind, most)
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(LIMITS.patience(length)):
                while more:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, TransportError("the sender went away."))
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    if size > length:
                        raise _too_long(most)
                    parts.append(part)
        except TimeoutError:
            raise Refusal(408, TransportError("the body came too slowly.", parameter="time")) from None
        return b"".join(parts)

    # The model.

    async def for_user(self, request: Request) -> Response:
        """Recommend to a known user."""
        asked = _query(request, ("n", "seen", "why"))
        answers, text = self.current.answers, request.path_params["user"]
        key = (text, *asked.items())
        kept = answers.cache.get(key)
        if kept is None:
            lists = await self.lists(answers, Question(people=(answers.user(text),), **asked))
            kept = answers.one(lists[0])
            answers.cache.put(key, kept)
        return _Json(kept)

    async def for_people(self, request: Request) -> Response:
        """Recommend to one person or several, known or new."""
        data = await self.body(request, "application/json")
        answers = self.current.answers
        asked = await _read(data, answers)
        lists = await self.lists(answers, asked)
        return _Json(answers.several(lists) if asked.several else answers.one(lists[0]))

    async def similar(self, request: Request) -> Response:
        """Give the items most like one."""
        asked, answers = _query(request, ("n",)), self.current.answers
        item, n = answers.item(request.path_params["item"]), asked.get("n", 10)
        kept = answers.cache.get((self.similar, item, n))
        if kept is None:
            kept = await self.scored(answers, partial(answers.similar, item, n), slow=True)
            answers.cache.put((self.similar, item, n), kept)
        return _Json(kept)

    async def why_user(self, request: Request) -> Response:
        """Explain an item to a known user."""
        asked, answers = _query(request, ("user", "item", "n")), self.current.answers
        for name in ("user", "item"):
            if name not in asked:
                raise BadParameter("{parameter} is missing.", expected="?user=USER&item=ITEM", parameter=name)
        who, item = answers.user(asked["user"]), answers.item(asked["item"])
        return _Json(await self.scored(answers, partial(answers.why, who, item, asked.get("n", 5)), slow=True))

    async def why_anybody(self, request: Request) -> Response:
        """Explain an item to a known user or a basket, with nothing of them in the address."""
        data = await self.body(request, "application/json")
        answers = self.current.answers
        asked = await _read(data, answers, about_item=True)
        job = partial(answers.why, asked.people[0], asked.item, asked.n)
        return _Json(await self.scored(answers, job, slow=True))

    async def lists(self, answers: Answers, asked: Question) -> list[bytes]:
        """Make the list of everybody, some at a time, so that others get their turn."""
        each = max(1, _TURN // (len(answers.items) * (asked.n if asked.why else 1)))
        made: list[bytes] = []
        for start in range(0, len(asked.people), each):
            some = asked.people[start : start + each]
            made += await self.scored(answers, partial(_listed, answers, asked, some), slow=asked.why)
            if len(asked.people) > each:
                await asyncio.sleep(0)
        return made

    async def scored(self, answers: Answers, job: Callable[[], T], *, slow: bool = False) -> T:
        """Run a job of a model: here, or for a long catalog on a thread, where lists do not wait for slow jobs."""
        if not answers.large:
            return job()
        threads = self._slow if slow else self._threads
        if threads.statistics().tasks_waiting >= _WAITING:
            raise Refusal(503, TransportError("the service is busy."), after=1)
        return await to_thread.run_sync(job, limiter=threads)

    # The service.

    async def health(self, _: Request) -> Response:
        """Say whether it answers, and whether with the model that is in the file."""
        return JSONResponse({"version": __version__, **self.current.health()})

    async def openapi(self, _: Request) -> Response:
        """Describe all requests."""
        return JSONResponse(openapi(token=self.token is not None))

    async def metrics(self, _: Request) -> Response:
        """Give counters in the text format of Prometheus."""
        return PlainTextResponse(self.counters(), media_type="text/plain; version=0.0.4")

    def count(self, name: str, status: int, seconds: float) -> None:
        """Count an answer by its route, never by its path: a path holds ids."""
        self.answered[name, status] += 1
        times = self._times.setdefault(name, [0.0] * (len(_BUCKETS) + 2))
        times[bisect_left(_BUCKETS, seconds)] += 1
        times[-1] += seconds

    def counters(self) -> str:
        """Give all counters."""
        current = self.current
        cache = current.answers.cache
        lines = [*_gauge("up", 1), *_gauge("start_time_seconds", self._started)]
        lines.append("# TYPE twofold_serve_requests_total counter")
        for (name, status), number in sorted(self.answered.items()):
            lines.append(f'twofold_serve_requests_total{{route="{name}",status="{status}"}} {number}')
        lines.append("# TYPE twofold_serve_request_seconds histogram")
        for name, times in sorted(self._times.items()):
            lines += _histogram(name, times)
        facts: dict[str, float] = {
            "model_generation": current.answers.generation,
            "model_loaded_seconds": current.loaded_at,
            "model_stale": int(current.problem is not None),
            "model_failures": current.failures,
            "cache_found": cache.found,
            "cache_missed": cache.missed,
            "resident_bytes": _resident(),
        }
        for name, figure in facts.items():
            lines += _gauge(name, figure)
        return "\n".join(lines) + "\n"


def build_app(api: Api, *, more: Iterable[Route] = ()) -> Starlette:
    """Give the ASGI application; it watches the model's file while it runs.

    Parameters
    ----------
    api : Api
        The requests.
    more : iterable of Route
        Further pages, such as the console.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(api.watch())
        try:
            yield
        finally:
            watching.cancel()

    async def no_path(request: Request, error: Exception) -> Response:
        answer = await http_error(request, error)
        api.count("other", answer.status_code, 0.0)
        return answer

    return Starlette(routes=[*api.routes(), *more], lifespan=lifespan, exception_handlers={HTTPException: no_path})


async def _read(data: bytes, answers: Answers, *, about_item: bool = False) -> Question:
    """Read a body; a long one on a thread, so that others are answered meanwhile."""
    read = partial(from_json, data, answers, about_item=about_item)
    return read() if len(data) <= _LONG else await to_thread.run_sync(read)


def _listed(answers: Answers, asked: Question, people: Iterable[Any]) -> list[bytes]:
    n, seen, why, only = asked.n, asked.seen, asked.why, asked.only
    return [answers.list_of(who, n, seen=seen, why=why, only=only) for who in people]


def _query(request: Request, names: Iterable[str]) -> dict[str, Any]:
    query: bytes = request.scope["query_string"]
    return from_query(parse_qsl(query.decode("latin-1"), keep_blank_values=True), names) if query else {}


def _same_site(headers: Headers) -> bool:
    """Whether a program asks, or a page of this service; a browser says which page it is."""
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] in ("same-origin", "none")
    return "origin" not in headers or headers["origin"].partition("://")[2] == headers.get("host")


def _length(headers: Headers, kind: str, most: int) -> int:
    """Length of a body; refuse one that is packed, without a length, or too long."""
    if headers.get("content-encoding", "identity") != "identity":
        raise Refusal(415, BadMessage("packed bodies are not taken.", expected="plain text", parameter="encoding"))
    if headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
        raise Refusal(415, BadMessage("the body has another type.", expected=kind, parameter="type"))
    text = headers.get("content-length", "")
    if "transfer-encoding" in headers or not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise Refusal(411, BadMessage("the body has no length.", expected="Content-Length", parameter="length"))
    if int(text) > most:
        raise _too_long(most)
    return int(text)


def _too_long(most: int) -> Refusal:
    return Refusal(413, BadMessage("the body is too long.", expected=f"at most {most:,} bytes", parameter="length"))


def status_of(error: TwofoldError) -> int:
    """Give the status of an answer that tells an error."""
    if isinstance(error, UnknownUser) or (isinstance(error, CatalogError) and error.parameter == "item"):
        return 404
    return 400 if isinstance(error, BadMessage) else 422


def _where(error: BaseException) -> str:
    """Type and place of a fault, without its words."""
    frames = traceback.extract_tb(error.__traceback__)
    last = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{last}"


def _gauge(name: str, number: float) -> tuple[str, str]:
    return f"# TYPE twofold_serve_{name} gauge", f"twofold_serve_{name} {number:.15g}"


def _histogram(name: str, times: list[float]) -> list[str]:
    total, lines = 0.0, []
    limits = (*map(str, _BUCKETS), "+Inf")
    for limit, number in zip(limits, times, strict=False):
        total += number
        lines.append(f'twofold_serve_request_seconds_bucket{{route="{name}",le="{limit}"}} {total:.0f}')
    sums = f'twofold_serve_request_seconds_sum{{route="{name}"}} {times[-1]:.6f}'
    return [*lines, sums, f'twofold_serve_request_seconds_count{{route="{name}"}} {total:.0f}']


def _resident() -> float:
    """Bytes of memory of this process where the system tells (Linux); 0 elsewhere."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
