"""``python -m studies network load``: many entities upload at once; rate, times, memory and bytes of the service."""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from studies.network.place import Place, Process, peak_megabytes
from tests.enrolled import Enrolled, enrolled
from twofold.federation import wire
from twofold.federation.mailbox import ROUNDS
from twofold.federation.messages import encode_release
from twofold.federation.plan import CatalogKey, Plan

__all__ = ["OTHERS", "SIZES", "Load", "Size", "load", "loads", "report"]

#: Most memory of the service, in megabytes.
MEGABYTES: Final = 600.0
#: Uploads at the same time.
SENDERS: Final = 8
#: Seconds to wait for the item factors after the last upload; they are not part of the rates.
FACTORS: Final = 240.0
#: Other engines, as ``module:function`` that takes a folder, a `Size` and the messages' folder, and gives a `Load`.
OTHERS: Final = {"Flower": "studies.network.flower:measured"}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many entities send how much: a Gram matrix of so many items."""

    entities: int
    items: int


#: 650 kB and 20 MB.
SIZES: Final = (Size(entities=500, items=400), Size(entities=40, items=2_236))


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one engine did with one size; seconds of each upload from connecting to the acknowledgement."""

    engine: str
    size: Size
    bytes: int
    accepted: int = 0
    seconds: float = 0.0
    each: tuple[float, ...] = ()
    peak: float = 0.0
    peak_in_all: float = 0.0
    published: float | None = None
    limited: bool = True
    missing: str = ""

    @property
    def sound(self) -> bool:
        """Whether every message was taken, within the memory; other engines have no limits here."""
        return not self.limited or (self.accepted == self.size.entities and self.peak_in_all < MEGABYTES)

    def row(self) -> str:
        """Give a line of the table."""
        what = f"| {self.engine} | {self.size.entities} x {self.bytes / 1e6:.2f} MB "
        if self.missing:
            return what + f"| {self.missing} |" + " |" * 7
        middle, high = np.quantile(self.each, [0.5, 0.99])
        published = "no" if self.published is None else f"{self.published:.1f}"
        return what + (
            f"| {self.accepted} | {self.accepted / self.seconds:.1f} | {middle:.2f} | {high:.2f} "
            f"| {self.accepted * self.bytes / 1e6:,.0f} | {self.peak:.0f} | {self.peak_in_all:.0f} | {published} |"
        )


def report(found: Sequence[Load]) -> list[str]:
    """Give the table as Markdown."""
    columns = ["engine", "entities x message", "taken", "per second", "p50 (s)", "p99 (s)", "MB in all"]
    columns += ["peak MB, uploads", "peak MB, to the end", "end after (s)"]
    return [f"| {' | '.join(columns)} |", "|---|---|" + "---:|" * 8, *(one.row() for one in found)]


def loads(folder: Path, *, scale: float = 1.0, sizes: Sequence[Size] = SIZES) -> list[Load]:
    """Measure all sizes, with every engine; all of them get the same messages."""
    found = []
    for number, size in enumerate(sizes):
        asked = Size(entities=max(2, round(scale * size.entities)), items=size.items)
        place, messages = folder / f"load-{number}", folder / f"messages-{number}"
        for one in (place, messages):
            one.mkdir(parents=True)
        found.append(load(place, asked, messages))
        shutil.rmtree(place)
        found += [_other(name, folder / f"{name}-{number}", asked, messages) for name in OTHERS]
        shutil.rmtree(messages)
    return found


def _other(name: str, folder: Path, size: Size, messages: Path) -> Load:
    module, _, function = OTHERS[name].partition(":")
    measured: Any = getattr(importlib.import_module(module), function)
    folder.mkdir()
    made: Load = measured(folder, size, messages)
    shutil.rmtree(folder)
    return made


def load(folder: Path, size: Size, messages: Path) -> Load:
    """Let all entities upload their messages to a service over TLS, each over a connection of its own."""
    names = [f"site-{number:04d}" for number in range(size.entities)]
    given = {"feedback": "counts", "bound": 5, "max_items": 2, "rank": 2, "mechanism": "gram", "n_users": 1000}
    key = CatalogKey(hash="0" * 64, n_items=size.items)
    plan = Plan(catalog=key, n_entities=size.entities, **given)
    made = enrolled(plan, *names)
    place = Place(folder, made)
    length = _draw(made, names, messages)
    with place.started() as process:
        start = time.monotonic()
        with ThreadPoolExecutor(SENDERS) as pool:
            ends = list(pool.map(partial(_upload, place, process, made), [messages / name for name in names]))
        seconds = time.monotonic() - start
        peak = peak_megabytes(process.process.pid)
        published = _published(place, process, made)
        whole = peak_megabytes(process.process.pid)
    return Load(
        engine="twofold",
        size=size,
        bytes=length,
        accepted=sum(status == 201 for status, _ in ends),
        seconds=seconds,
        each=tuple(each for _, each in ends),
        peak=peak,
        peak_in_all=whole,
        published=published,
    )


def _draw(made: Enrolled, names: Sequence[str], folder: Path) -> int:
    """Write everybody's message; they hold the same numbers, each signed by its entity. Give the length of one."""
    drawn = made.plan.release_mechanism.release(np.ones((4, made.plan.n_items)), made.plan.parameters)
    for name in names:
        data = encode_release(drawn.value, entity=name, plan=made.plan, signer=made.signer(name))
        (folder / name).write_bytes(data)
    return len(data)


def _upload(place: Place, process: Process, made: Enrolled, file: Path) -> tuple[int, float]:
    name, data = file.name, file.read_bytes()
    start = time.monotonic()
    with place.client(process.url, made, name, seconds=300.0) as client:
        answer = client.ask("PUT", wire.message_path(made.plan.hash, ROUNDS.id, name), body=data)
    return answer.status, time.monotonic() - start


def _published(place: Place, process: Process, made: Enrolled) -> float | None:
    start = time.monotonic()
    path = wire.published_path(made.plan.hash, ROUNDS.id)
    with place.client(process.url, made, next(iter(made.secrets)), seconds=120.0) as client:
        while time.monotonic() < start + FACTORS:
            if client.get(path, limit=1 << 30).status == 200:
                return time.monotonic() - start
            time.sleep(0.5)
    return None
