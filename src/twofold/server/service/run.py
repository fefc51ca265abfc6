"""Run a service: sockets, TLS, time-outs, and an orderly end."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from twofold.errors import TransportError
from twofold.server.service.app import Service, build_app

__all__ = ["Running", "serve", "server_of"]

#: Seconds that requests have to finish when the service ends.
_GRACE: Final = 15


class _Guarded(H11Protocol):
    """Closes a connection whose request does not arrive in time; uvicorn itself waits for headers without end."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering:
            self._forget()
        else:
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End at once what answers nothing: over TLS, a polite end would wait for the other side."""
        if self._answering:
            super().shutdown()
        else:
            self.transport.abort()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_headers(self) -> None:
        if self._timer is None:
            patience = getattr(self.config, "header_seconds", 10.0)
            self._timer = self.loop.call_later(patience, self._give_up)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self._answering and not self.transport.is_closing():
            self.transport.abort()


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
    limits = service.limits
    config = uvicorn.Config(
        app or build_app(service),
        host=host,
        port=port,
        http=_Guarded,
        ws="none",
        lifespan="on",
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
        h11_max_incomplete_event_size=limits.header_bytes,
        limit_concurrency=limits.connections,
        timeout_keep_alive=int(max(1, limits.header_seconds)),
        timeout_graceful_shutdown=_GRACE,
        backlog=512,
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=True,
        proxy_headers=False,
    )
    config.header_seconds = limits.header_seconds  # type: ignore[attr-defined]
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
    return uvicorn.Server(config)


def serve(server: uvicorn.Server) -> None:
    """Run until a signal asks for the end; requests that are being answered are finished first."""
    server.run()


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
