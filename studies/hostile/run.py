"""Feed hostile files to every parser and count what happens.

``python -m studies hostile --cases 50000 --seed 1`` prints a table: files whose seals fit, files accepted and refused,
exceptions that are not ours, crashes, hangs, the slowest case and the peak of memory. The first cases of every parser
are what is no file at all (pipes, folders, devices) and valid files of every other kind; all further ones are changed
files. Every parser runs in a process of its own, with a limit
of memory; a case that takes too long is ended and counted. ``--only NAME --case K`` runs one case again, with its
traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from studies.hostile.mutate import mutated
from studies.hostile.parsers import PARSERS, Parser
from studies.hostile.planted import PLANTS, clear
from studies.hostile.registry import watched_seals
from twofold.errors import BadParameter, TwofoldError

__all__ = ["Case", "Outcome", "attempt", "case", "main", "run"]

#: Seconds for one case; for starting, which compiles kernels.
PATIENCE: Final = 20.0
START: Final = 300.0
#: Bytes that a worker may add to what it has after reading the valid samples.
MEMORY: Final = 2 * 1024**3
#: Megabytes that no file may take.
MOST_MEGABYTES: Final = 1_000
_LONGEST_ERROR: Final = 4_000


@dataclass
class Outcome:
    """What happened to the cases of one parser."""

    name: str
    cases: int = 0
    past: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    slowest: float = 0.0
    megabytes: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing happened that must not."""
        return not self.faults and not self.hangs and self.megabytes <= MOST_MEGABYTES

    def row(self) -> str:
        """A line of the table."""
        sealed = self.name in PARSERS and PARSERS[self.name].sealed
        past = f"{self.past:,}" if sealed else "-"
        refused = ", ".join(f"{kind} {times:,}" for kind, times in self.refused.most_common(4))
        return (
            f"| {self.name} | {self.cases:,} | {past} | {self.accepted:,} "
            f"| {sum(self.refused.values()):,}: {refused} | {len(self.faults)} | {len(self.hangs)} "
            f"| {self.slowest:.2f} | {self.megabytes} |"
        )


_COLUMNS: Final = (
    "parser",
    "cases",
    "past the seal",
    "accepted",
    "refused",
    "foreign",
    "hangs",
    "slowest (s)",
    "peak (MB)",
)
HEADER: Final = f"| {' | '.join(_COLUMNS)} |\n" + "|---" * len(_COLUMNS) + "|"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A hostile file: its bytes, or what stands in its place."""

    kind: str
    data: bytes = b""
    plant: Callable[[Path], None] | None = None

    def put(self, path: Path) -> None:
        """Put it where the parser looks."""
        if self.plant is None:
            path.write_bytes(self.data)
        else:
            self.plant(path)


def case(parser: Parser, samples: Sequence[bytes], number: int, seed: int) -> Case:
    """Make the file of one case; the same numbers give the same file."""
    if parser.opens and number < len(PLANTS):
        kind, plant = list(PLANTS.items())[number]
        return Case(kind=kind, plant=plant)
    others = [] if parser.form == "number" else foreign_samples()
    if (place := number - len(PLANTS) * parser.opens) < len(others):
        return Case(kind=f"file of {others[place][0]}", data=others[place][1])
    chance = random.Random(f"{seed} {parser.name} {number}")
    kind, data = mutated(samples, parser.form, chance, insider=parser.insider, changes=parser.changes)
    return Case(kind=kind, data=data)


@cache
def foreign_samples() -> list[tuple[str, bytes]]:
    """One valid file of every kind."""
    return [(name, one.samples()[0]) for name, one in PARSERS.items()]


def attempt(parser: Parser, given: Case, folder: Path) -> tuple[str, bool]:
    """Parse one file; give how it ended, and whether there was a seal that fitted.

    The end is "accepted", the name of our error, or a fault that begins with "!".
    """
    place = folder / "case"
    place.mkdir()
    given.put(place / parser.file)
    try:
        with watched_seals() as seals:
            end = _end_of(parser, place / parser.file)
        return end, seals.past
    finally:
        clear(place)


def _end_of(parser: Parser, path: Path) -> str:
    try:
        parser.parse(path)
    except TwofoldError as error:
        text = str(error)
        if len(text) > _LONGEST_ERROR or not text.replace("\n", "").isprintable():
            return f"!{type(error).__name__} with a text that cannot be shown"
        if parser.secret in text:
            return f"!{type(error).__name__} shows a value"
        return type(error).__name__
    except BaseException as error:
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        place = "" if last is None else f" at {Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
        return f"!{type(error).__name__}{place}"
    return "accepted"


def _no_wait(fd: Any) -> None:
    """In place of `os.fsync`: thousands of waits for a disk that nobody cuts off."""


def work(name: str, first: int, last: int, seed: int) -> None:
    """Run the cases of one parser in this process, with a line of JSON before and after each."""
    warnings.simplefilter("ignore")
    os.fsync = _no_wait
    parser = PARSERS[name]
    samples = parser.samples()
    foreign_samples()  # before memory is limited
    with tempfile.TemporaryDirectory() as folder:
        for sample in samples:
            end, past = attempt(parser, Case(kind="valid", data=sample), Path(folder))
            if end != "accepted" or past < parser.sealed:
                raise BadParameter(f"a valid sample of {name} was not accepted.", found=end, parameter="samples")
        base = _megabytes("VmHWM")
        _limit(_megabytes("VmSize") * 1024**2 + MEMORY)
        _say({"ready": base})
        for number in range(first, last):
            given = case(parser, samples, number, seed)
            _say({"start": number, "kind": given.kind})
            started = time.perf_counter()
            end, past = attempt(parser, given, Path(folder))
            seconds = time.perf_counter() - started
            _say({"end": end, "past": past, "number": number, "seconds": seconds, "peak": _megabytes("VmHWM")})


def _say(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def _megabytes(name: str) -> int:
    """Memory of this process, where Linux tells it."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.partition(f"{name}:")[2].split()[0]) // 1024


def _limit(size: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def run(name: str, cases: int, seed: int) -> Outcome:
    """Run the cases of one parser in processes that may die."""
    outcome, number = Outcome(name=name), 0
    while number < cases:
        number = _one_worker(outcome, number, cases, seed)
    return outcome


def _one_worker(outcome: Outcome, first: int, last: int, seed: int) -> int:
    """Run a worker until it is done, dies or hangs; give the next case."""
    asked = [sys.executable, "-m", "studies", "hostile", "--worker", outcome.name, "--seed", str(seed)]
    asked += ["--case", str(first), "--cases", str(last)]
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    at, kind, ready = first, "", False
    try:
        for record in _lines(process):
            if record is None:
                if not ready:
                    raise BadParameter("the worker did not start.", found=outcome.name, parameter="samples")
                outcome.hangs.append(f"case {at} ({kind})")
                outcome.cases += 1
                return at + 1
            if "ready" in record:
                ready = True
            elif "start" in record:
                at, kind = record["start"], record["kind"]
            else:
                _count(outcome, record, kind)
                at += 1
    finally:
        process.kill()
        _, told = process.communicate()
    if not ready:
        raise BadParameter("the worker did not start.", found=told[-300:], parameter="samples")
    if at < last:
        outcome.faults.append(f"case {at} ({kind}): the process died with {process.returncode}")
        outcome.cases += 1
        return at + 1
    return last


def _count(outcome: Outcome, record: dict[str, Any], kind: str) -> None:
    end = record["end"]
    outcome.cases += 1
    outcome.past += record["past"]
    outcome.slowest = max(outcome.slowest, record["seconds"])
    outcome.megabytes = max(outcome.megabytes, record["peak"])
    if end == "accepted":
        outcome.accepted += 1
    elif end.startswith("!"):
        outcome.faults.append(f"case {record['number']} ({kind}): {end[1:]}")
    else:
        outcome.refused[end] += 1


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """Records of a worker as they come; None when one takes too long."""
    told: queue.Queue[str | None] = queue.Queue()
    stream = process.stdout
    assert stream is not None

    def listen() -> None:
        for line in stream:
            told.put(line)
        told.put(None)

    threading.Thread(target=listen, daemon=True).start()
    patience = START
    while True:
        try:
            line = told.get(timeout=patience)
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        patience = PATIENCE
        yield json.loads(line)


def again(name: str, number: int, seed: int) -> None:
    """Run one case in this process; its exception goes through."""
    parser = PARSERS[name]
    given = case(parser, parser.samples(), number, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, parser.file)
        given.put(path)
        print(f"{name}, case {number}: {given.kind}, {len(given.data):,} bytes: {given.data[:300]!r}")
        print(f"accepted: {parser.parse(path)!r:.300}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; exit code 1 if anything but our errors happened."""
    parser = argparse.ArgumentParser(prog="python -m studies hostile", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=5_000, help="files in all, shared among the parsers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=PARSERS, help="only this parser; repeat for more")
    parser.add_argument("--case", type=int, help="run this case of --only again, with its traceback")
    parser.add_argument("--worker", choices=PARSERS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        work(given.worker, given.case, given.cases, given.seed)
        return 0
    names = given.only or list(PARSERS)
    if given.case is not None:
        again(names[0], given.case, given.seed)
        return 0
    print(HEADER)
    outcomes = []
    for place, name in enumerate(names):
        share = given.cases // len(names) + (place < given.cases % len(names))
        outcomes.append(run(name, share, given.seed))
        print(outcomes[-1].row(), flush=True)
    return _end(outcomes)


def _end(outcomes: Sequence[Outcome]) -> int:
    total = sum(one.cases for one in outcomes)
    faults, hangs = sum(len(one.faults) for one in outcomes), sum(len(one.hangs) for one in outcomes)
    peak = max(one.megabytes for one in outcomes)
    print(f"{total:,} files, {faults} foreign exceptions or crashes, {hangs} hangs, peak {peak:,} MB")
    for one in outcomes:
        kinds: dict[str, list[str]] = {}
        for fault in [*one.faults, *(f"{hang}: hang" for hang in one.hangs)]:
            kinds.setdefault(fault.partition(": ")[2], []).append(fault.partition(": ")[0])
        for kind, where in kinds.items():
            print(f"{one.name}: {kind}, {len(where)} times, first {where[0]}")
    return int(not all(one.sound for one in outcomes))
