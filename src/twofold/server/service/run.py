"""Run a service: sockets, TLS, time-outs, and an orderly end."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from twofold.errors import TransportError
from twofold.server.service.app import Service, build_app
from twofold.server.service.connections import Connections, Line, Listener, room_for
from twofold.server.service.limits import Limits

__all__ = ["Running", "give_back_memory", "server_for", "server_of"]

#: Seconds that requests have to finish when the service ends.
_GRACE: Final = 15
#: Bytes from which a block of memory goes back to the system when it is freed; every message of some size is above it.
_LARGE_BLOCK: Final = 1 << 20
_M_MMAP_THRESHOLD: Final = -3  # of glibc's mallopt(3)
#: Connections that wait to be accepted.
_BACKLOG: Final = 512


class _Guarded(H11Protocol):
    """Closes a connection whose request does not arrive, or whose answer is not fetched; uvicorn waits without end."""

    def __init__(self, line: Line, connections: Connections, limits: Limits, **given: Any) -> None:
        super().__init__(**given)
        self._line, self._open, self._limits = line, connections, limits
        self._headers: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.busy:
            self._cancel("_headers")
        else:
            self._await_headers()

    def pause_writing(self) -> None:
        """Nothing more fits on the way to the reader."""
        super().pause_writing()
        self._reader = self.loop.call_later(self._limits.pause_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The reader has fetched most of it."""
        super().resume_writing()
        self._cancel("_reader")

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel("_headers", "_reader")
        self._open.leave(self._line)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End at once what answers nothing: over TLS, a polite end would wait for the other side."""
        if self.busy:
            super().shutdown()
        else:
            self.transport.abort()

    def _await_headers(self) -> None:
        if self._headers is None:
            self._headers = self.loop.call_later(self._limits.header_seconds, self._give_up)

    def _give_up(self) -> None:
        self._headers = None
        if not self.busy and not self.transport.is_closing():
            self.transport.abort()

    def _cancel(self, *timers: str) -> None:
        for name in timers:
            timer: asyncio.TimerHandle | None = getattr(self, name)
            if timer is not None:
                timer.cancel()
                setattr(self, name, None)


class _Server(uvicorn.Server):
    """Accepts through a `Listener`; the rest is uvicorn's."""

    def __init__(self, config: uvicorn.Config, limits: Limits, federations: int) -> None:
        super().__init__(config)
        self._limits, self._federations = limits, federations

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(3)  # as uvicorn's own server does; the name of this code has moved between its versions
        limits, config = self._limits, self.config
        connections = Connections(room_for(limits, self._federations), limits.address_connections)

        def speaker(line: Line) -> _Guarded:
            given = {"config": config, "server_state": self.server_state, "app_state": self.lifespan.state}
            return _Guarded(line, connections, limits, **given)

        try:
            bound = sockets or await _bound(config.host, config.port)
        except OSError as error:
            await self.lifespan.shutdown()
            raise TransportError(
                "the service cannot listen here.",
                found=f"{config.host}:{config.port}: {error.strerror or type(error).__name__}",
                expected="an address of this machine, and a port that is free and that this user may use",
                parameter="listen",
            ) from None
        listener = Listener(bound, connections, speaker, limits=limits, context=config.ssl)
        self.servers = [listener]  # type: ignore[list-item]  # uvicorn only closes them
        self.started = True


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of a name."""
    passive = socket.AI_PASSIVE
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=passive)
    addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
    return [socket.create_server(address, family=family, backlog=_BACKLOG) for family, address in addresses]


def server_of(
    service: Service,
    *,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    app: Any = None,
) -> uvicorn.Server:
    """Give the uvicorn server of a service, ready to run.

    Parameters
    ----------
    service : Service
        What to serve.
    host, port : str, int
        Where to listen; port 0 lets the system choose.
    certificate, key : Path, optional
        The server's certificate with its chain, and its secret key, as PEM. Without them the connection is not
        encrypted, which is for this machine or a reverse proxy on it only.
    app : ASGI application, optional
        Another one than `build_app(service)`, such as one with more pages.
    """
    federations = len(service.federations)
    given: dict[str, Any] = {"host": host, "port": port, "certificate": certificate, "key": key}
    return server_for(app or build_app(service), service.limits, federations=federations, **given)


def server_for(
    app: Any,
    limits: Limits,
    *,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    federations: int = 0,
) -> uvicorn.Server:
    """Give the uvicorn server of any application, with the same limits and time-outs.

    Parameters
    ----------
    app : ASGI application
        What to serve.
    limits : Limits
        Connections and times.
    host, port, certificate, key
        As for `server_of`.
    federations : int
        How many of them keep files open beside the connections.
    """
    give_back_memory()
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http="h11",
        ws="none",
        lifespan="on",
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=int(max(1, limits.header_seconds)),
        timeout_graceful_shutdown=_GRACE,
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=True,
        proxy_headers=False,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise TransportError(
            "the certificate or its key cannot be used.",
            found=getattr(error, "strerror", None) or type(error).__name__,
            expected="two PEM files that belong together, readable by this user",
            parameter="certificate",
        ) from None
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return _Server(config, limits, federations)


def give_back_memory() -> None:
    """Let glibc return large blocks to the system as soon as they are free; other systems do as they please.

    By itself it keeps blocks of up to 32 MB for later, in a pool for each thread: after 40 uploads of 20 MB from eight
    senders a service held 430 MB, and 140 in this way.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


class Running:
    """A service in a thread of this process, for tests and demonstrations; a context manager.

    Parameters
    ----------
    server : uvicorn.Server
        What `server_of` gave.

    Attributes
    ----------
    url : str
        Where it answers, once entered.
    """

    def __init__(self, server: uvicorn.Server, *, name: str | None = None) -> None:
        self.server, self.url = server, ""
        self._name = name
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._fault: BaseException | None = None

    def _run(self) -> None:
        try:
            asyncio.run(self.server.serve())
        except BaseException as error:
            self._fault = error

    def __enter__(self) -> Running:
        self._thread.start()
        until = time.monotonic() + 20
        while not self.server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                raise TransportError("the service did not start.", found=str(self._fault or "no answer")[:200])
            time.sleep(0.005)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        config = self.server.config
        scheme = "http" if config.ssl is None else "https"
        self.url = f"{scheme}://{self._name or config.host}:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.should_exit = True
        self._thread.join(30)
