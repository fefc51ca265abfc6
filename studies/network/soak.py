"""``python -m studies network soak``: requests without end, and whether the service grows."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import numpy as np

from studies.network.place import Place, Process, Usage
from tests.enrolled import enrolled
from tests.served import NAMES, release_of, small_plan
from twofold.federation import wire
from twofold.federation.mailbox import ROUNDS

__all__ = ["Growth", "Soak", "per_hour", "soak"]

#: Growth per hour that is still none: a page of memory now and then, one descriptor, no file.
LIMITS: Final = {"memory (MB)": 24.0, "descriptors": 6.0, "files": 1.0}
#: Share of the time that fills caches, pools and the memory of requests, and is not judged.
WARM: Final = 0.35


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How one quantity changed: first and last of the judged part, and the slope per hour by least squares."""

    name: str
    first: float
    last: float
    most: float
    slope: float

    @property
    def sound(self) -> bool:
        """Whether it does not grow."""
        return self.slope <= LIMITS[self.name]


@dataclass
class Soak:
    """What was seen: seconds and usage of every sample, and the answers."""

    seconds: list[float] = field(default_factory=list)
    samples: list[Usage] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    faults: int = 0

    def growth(self) -> list[Growth]:
        """Judge memory, descriptors and files."""
        start = min(int(WARM * len(self.samples)), max(0, len(self.samples) - 3))
        hours = [one / 3600 for one in self.seconds[start:]]
        columns = {"memory (MB)": "megabytes", "descriptors": "descriptors", "files": "files"}
        found = []
        for name, column in columns.items():
            values = [float(getattr(one, column)) for one in self.samples[start:]]
            slope = per_hour(hours, values)
            found.append(Growth(name=name, first=values[0], last=values[-1], most=max(values), slope=slope))
        return found

    @property
    def sound(self) -> bool:
        """Whether nothing grows, and no answer is a fault."""
        return self.faults == 0 and all(one.sound for one in self.growth())

    def report(self) -> list[str]:
        """Give the tables as Markdown."""
        lines = [
            "| held by the service | first | last | most | growth per hour | allowed |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for one in self.growth():
            numbers = f"{one.first:.1f} | {one.last:.1f} | {one.most:.1f} | {one.slope:+.2f} | {LIMITS[one.name]:.0f}"
            lines.append(f"| {one.name} | {numbers} |")
        told = ", ".join(f"{status}: {count:,}" for status, count in sorted(self.answers.items()))
        minutes = (self.seconds[-1] - self.seconds[0]) / 60
        total = sum(self.answers.values())
        return [
            *lines,
            "",
            f"{total:,} requests in {minutes:.0f} minutes, by status {told}; answers of 500 and more: {self.faults}.",
        ]


def per_hour(hours: Sequence[float], values: Sequence[float]) -> float:
    """Slope by least squares.

    Examples
    --------
    >>> round(per_hour([0, 1, 2], [5, 7, 9]), 6)
    2.0
    """
    if len(set(hours)) < 2:
        return 0.0
    return float(np.polyfit(hours, values, 1)[0])


def soak(folder: Path, *, seconds: float, every: float = 10.0, pause: float = 0.02, seed: int = 0) -> Soak:
    """Send good and bad requests for some time, and sample what the service holds.

    Parameters
    ----------
    folder : Path
        An empty folder.
    seconds, every : float
        How long, and the time between two samples.
    pause : float
        Between two requests.
    seed : int
        For the order of the requests.
    """
    made = enrolled(small_plan(), *NAMES)
    place, rng, seen = Place(folder, made), random.Random(seed), Soak()
    first, second = release_of(made, NAMES[0]), release_of(made, NAMES[0])
    with place.started() as process:
        requests = _Requests(place, process, first, second)
        start = time.monotonic()
        due = start
        while (now := time.monotonic()) < start + seconds:
            if now >= due:
                seen.seconds.append(now - start)
                seen.samples.append(process.usage)
                due += every
            for status in requests.turn(rng):
                seen.answers[status] += 1
            time.sleep(pause)
        requests.close()
        time.sleep(min(2.0, every))
        seen.seconds.append(time.monotonic() - start)
        seen.samples.append(process.usage)
        seen.faults = process.faults() + sum(count for status, count in seen.answers.items() if status >= 500)
    return seen


class _Requests:
    """Requests of every kind, over one connection that stays and one that is made anew."""

    def __init__(self, place: Place, process: Process, first: bytes, second: bytes) -> None:
        self.place, self.url, self.made = place, process.url, place.made[0]
        self.first, self.second, self.plan = first, second, place.made[0].plan.hash
        self.http = place.http(self.url)

    def close(self) -> None:
        """End the connection that stays."""
        self.http.close()

    def turn(self, rng: random.Random) -> list[int]:
        """Send one request of a random kind, now and then over a connection of its own."""
        work = rng.choice(
            (self._open, self._status, self._here, self._again, self._conflict, self._tampered, self._unsigned)
        )
        if rng.random() < 0.1:
            with self.place.http(self.url) as http:
                return [work(http)]
        return [work(self.http)]

    def _ask(self, http: httpx.Client, method: str, path: str, data: bytes = b"", sent: bytes | None = None) -> int:
        name = NAMES[0]
        signed = wire.Request.signed(
            method, path, name=name, signer=self.made.signer(name), at=time.time(), digest=wire.digest_of(data)
        )
        headers = signed.headers | ({"content-type": wire.MESSAGE} if data else {})
        content = (data if sent is None else sent) or None
        return http.request(method, self.url + path, content=content, headers=headers).status_code

    def _put(self, http: httpx.Client, data: bytes, sent: bytes | None = None) -> int:
        return self._ask(http, "PUT", wire.message_path(self.plan, ROUNDS.id, NAMES[0]), data, sent)

    def _open(self, http: httpx.Client) -> int:
        return http.get(f"{self.url}/v1/health").status_code

    def _status(self, http: httpx.Client) -> int:
        paths = (wire.federation_path(self.plan), wire.published_path(self.plan, ROUNDS.id))
        return self._ask(http, "GET", random.choice(paths))

    def _here(self, http: httpx.Client) -> int:
        return self._ask(http, "GET", wire.message_path(self.plan, ROUNDS.id, NAMES[1]))

    def _again(self, http: httpx.Client) -> int:
        return self._put(http, self.first)

    def _conflict(self, http: httpx.Client) -> int:
        return self._put(http, self.second)

    def _tampered(self, http: httpx.Client) -> int:
        return self._put(http, self.second, self.second[:-1] + bytes([self.second[-1] ^ 1]))

    def _unsigned(self, http: httpx.Client) -> int:
        return http.get(self.url + wire.federation_path(self.plan)).status_code
