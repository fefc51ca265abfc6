"""What a service allows before it reads a body: sizes, rates and times."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from twofold.federation.wire import WINDOW

__all__ = ["Limits", "Rates", "sender_of"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a service. The sizes of messages are those of the plan.

    Parameters
    ----------
    address_rate, address_burst : float, int
        Requests per second and at once from one address, before any signature is checked. Sites behind one gateway
        share an address.
    member_rate, member_burst : float, int
        The same for one member of a federation.
    uploads, member_uploads : int
        Bodies that are read at the same time, and those of one member; each goes to the disk in small pieces.
    checks : int
        Messages that are decoded at the same time; each is in memory meanwhile.
    connections, address_connections : int
        Open connections, and those of one address, from the first packet on. If there are as many, the oldest that is
        not being answered is closed for a new one. Fewer if the system allows the process fewer descriptors. All
        connections of a reverse proxy have one address.
    handshake_seconds : float
        Time for TLS to begin.
    header_bytes : int
        Bytes of a request's headers.
    header_seconds : float
        Time for them to arrive.
    pause_seconds : float
        Longest pause within a body, in either direction.
    slowest : float
        Bytes per second below which a body is given up.
    retry_after : int
        Seconds after which those who wait ask again.
    window : int
        Seconds by which clocks may differ.

    Examples
    --------
    >>> Limits(uploads=8).patience(1_000_000)
    80.0
    """

    address_rate: float = 200.0
    address_burst: int = 1_000
    member_rate: float = 10.0
    member_burst: int = 100
    uploads: int = 64
    member_uploads: int = 4
    checks: int = 2
    connections: int = 2_000
    address_connections: int = 200
    handshake_seconds: float = 5.0
    header_bytes: int = 16_384
    header_seconds: float = 10.0
    pause_seconds: float = 30.0
    slowest: float = 20_000.0
    retry_after: int = 5
    window: int = WINDOW

    def patience(self, length: int) -> float:
        """Seconds that a body of this length may take."""
        return self.pause_seconds + length / self.slowest


def sender_of(address: str) -> str:
    """Give what counts as one sender: an address, or the whole network of an IPv6 address, which one host can fill.

    Examples
    --------
    >>> sender_of("192.0.2.7"), sender_of("2001:db8::1") == sender_of("2001:db8::2"), sender_of("::ffff:192.0.2.7")
    ('192.0.2.7', True, '192.0.2.7')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))


class Rates:
    """Counts requests by sender: a bucket that refills steadily and holds a burst.

    Parameters
    ----------
    rate, burst : float, int
        Requests per second, and at once.
    clock : callable
        Gives seconds, for tests.
    most : int
        Senders that are remembered; those who were quiet the longest are forgotten.

    Examples
    --------
    >>> rates = Rates(1.0, 2, clock=lambda: 0.0)
    >>> [rates.wait("st-anna") for _ in range(3)], rates.wait("st-bern")
    ([0.0, 0.0, 1.0], 0.0)
    """

    def __init__(
        self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic, most: int = 10_000
    ) -> None:
        self._rate, self._burst, self._clock, self._most = rate, burst, clock, most
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def wait(self, sender: str) -> float:
        """Take one request; 0, or the seconds after which the next one is taken."""
        with self._lock:
            now = self._clock()
            left, last = self._left.pop(sender, (float(self._burst), now))
            left = min(float(self._burst), left + (now - last) * self._rate)
            due = 0.0 if left >= 1 else (1 - left) / self._rate
            self._left[sender] = (left - 1 if due == 0 else left, now)
            while len(self._left) > self._most:
                del self._left[next(iter(self._left))]
            return due
