"""Open connections of a service: a bounded number, and those who say nothing give way to those who come.

A connection costs a descriptor from its first packet on, before TLS and before any signature. asyncio's own server
accepts until none is left, and then nothing works: no upload, no database, no other client. This one accepts what fits
beside the service's own files. If it is full, the oldest connection that waits for nothing but its sender is closed.
So a client that only holds connections open keeps them until others come, and requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol

from twofold.server.service.limits import Limits, sender_of

if sys.platform != "win32":
    import resource

__all__ = ["Connections", "Line", "Listener", "room_for"]

#: Descriptors for libraries, standard streams and the threads that read and write files.
_OWN: Final = 128
#: Descriptors of a federation: its database with journals, its log, its locks.
_EACH: Final = 16
#: Descriptors of a connection: its socket, and the file that is sent or received over it.
_LINE: Final = 2
#: Fewest connections, however few descriptors there are.
_FEWEST: Final = 8
#: Seconds until the next attempt if the system has no descriptor for a connection.
_AGAIN: Final = 0.05


def room_for(limits: Limits, federations: int) -> int:
    """Give how many connections fit beside the service's own files; asks the system for as many as the limits want.

    Examples
    --------
    >>> room_for(Limits(connections=10), federations=1)
    10
    """
    own = _OWN + _EACH * federations
    return max(_FEWEST, min(limits.connections, (_descriptors(own + _LINE * limits.connections) - own) // _LINE))


def _descriptors(needed: int) -> int:
    """Raise the soft limit of this process if it is below what is needed; give what it may open."""
    if sys.platform == "win32":  # it has no such limit
        return needed
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft
    return most


class Speaker(Protocol):
    """The protocol of a connection."""

    transport: asyncio.Transport

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        ...


class Line:
    """One connection of a sender, as limits count senders, from its acceptance to its end."""

    def __init__(self, sender: str) -> None:
        self.sender = sender
        self.speaker: Speaker | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is being answered; otherwise its sender is waited for."""
        return self.speaker is not None and self.speaker.busy

    def end(self) -> None:
        """Close it at once."""
        if self.speaker is not None and self.speaker.transport is not None:
            self.speaker.transport.abort()
        elif self.task is not None:  # in its handshake
            self.task.cancel()


class Connections:
    """Those that are open, the oldest first.

    Parameters
    ----------
    most, of_one : int
        Open at once: all, and those of one sender.

    Examples
    --------
    >>> every = Connections(2, 2)
    >>> first, second, third = Line("a"), Line("b"), Line("c")
    >>> [every.admit(one) for one in (first, second, third)], first in every, len(every)
    ([True, True, True], False, 2)
    """

    def __init__(self, most: int, of_one: int) -> None:
        self._most, self._of_one = most, of_one
        self._every: dict[Line, None] = {}
        self._by: dict[str, dict[Line, None]] = {}

    def __len__(self) -> int:
        return len(self._every)

    def __contains__(self, line: object) -> bool:
        return line in self._every

    def admit(self, line: Line) -> bool:
        """Take a connection, in the place of an idle one if it must be; False if all are busy."""
        of_one = self._by.get(line.sender, {})
        if len(of_one) >= self._of_one and not self.drop(of_one):
            return False
        if len(self._every) >= self._most and not self.drop():
            return False
        self._every[line] = None
        self._by.setdefault(line.sender, {})[line] = None
        return True

    def drop(self, among: Iterable[Line] | None = None) -> bool:
        """Close the oldest that is idle; whether there was one."""
        found = next((one for one in (self._every if among is None else among) if not one.busy), None)
        if found is None:
            return False
        self.leave(found)
        found.end()
        return True

    def leave(self, line: Line) -> None:
        """Forget a connection that ended."""
        if self._every.pop(line, line) is None:
            of_one = self._by[line.sender]
            del of_one[line]
            if not of_one:
                del self._by[line.sender]


class Listener:
    """Accepts connections as long as there is room, in the place of asyncio's server.

    Parameters
    ----------
    sockets : iterable of socket
        Bound and listening.
    connections : Connections
        What is open.
    speaker : callable
        Makes the protocol of a connection; it calls `Connections.leave` when the connection is lost.
    limits : Limits
        Time for a handshake.
    context : SSLContext, optional
        Without it the connections are not encrypted.
    """

    def __init__(
        self,
        sockets: Iterable[socket.socket],
        connections: Connections,
        speaker: Callable[[Line], Any],
        *,
        limits: Limits,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.sockets, self._connections, self._speaker = tuple(sockets), connections, speaker
        seconds = limits.handshake_seconds
        times = {"ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": seconds}
        self._tls: dict[str, Any] = {} if context is None else {"ssl": context, **times}
        self._greeting: set[asyncio.Task[None]] = set()
        for one in self.sockets:
            one.setblocking(False)
        self._accepting = [asyncio.create_task(self._accept(one)) for one in self.sockets]

    def close(self) -> None:
        """Accept nothing more, and give up handshakes; open connections stay."""
        for task in (*self._accepting, *self._greeting):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing is accepted any more."""
        await asyncio.gather(*self._accepting, *self._greeting, return_exceptions=True)
        for one in self.sockets:
            one.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:  # the sender went away, or the system has no descriptor
                self._connections.drop()
                await asyncio.sleep(_AGAIN)
                continue
            with suppress(
                OSError
            ):  # headers and body are two writes: else the second waits 40 ms for the first's receipt
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Line(sender_of(address[0]))
            if self._connections.admit(line):
                line.task = asyncio.create_task(self._greet(line, accepted))
                self._greeting.add(line.task)
                line.task.add_done_callback(self._greeting.discard)
            else:
                accepted.close()
            await asyncio.sleep(0)  # many who come at once must not keep others from being served

    async def _greet(self, line: Line, accepted: socket.socket) -> None:
        """Make the handshake; one that takes too long is given up."""
        made = self._speaker(line)
        line.speaker = made
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: made, accepted, **self._tls)
        except (OSError, asyncio.CancelledError):
            self._connections.leave(line)
            with suppress(OSError):
                accepted.close()
