"""What a service allows before it reads a body: sizes, rates and times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from twofold.federation.wire import WINDOW

__all__ = ["Limits", "Rates"]


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
    uploads : int
        Bodies that are read at the same time; each goes to the disk in small pieces.
    checks : int
        Messages that are decoded at the same time; each is in memory meanwhile.
    connections : int
        Open connections; more are answered with 503.
    header_bytes : int
        Bytes of a request's headers.
    header_seconds : float
        Time for them to arrive.
    pause_seconds : float
        Longest pause within a body.
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
    checks: int = 2
    connections: int = 2_000
    header_bytes: int = 16_384
    header_seconds: float = 10.0
    pause_seconds: float = 30.0
    slowest: float = 20_000.0
    retry_after: int = 5
    window: int = WINDOW

    def patience(self, length: int) -> float:
        """Seconds that a body of this length may take."""
        return self.pause_seconds + length / self.slowest


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
