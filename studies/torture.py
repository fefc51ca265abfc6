"""Kill processes that write to a ledger, thousands of times, and check that nothing was lost or spent twice.

``python -m studies torture FOLDER --kills 1000`` runs it on any folder, for instance on the network
share where a ledger is to live. A child process asks for releases and is killed with SIGKILL at the n-th step on the
disk, in the middle of a write, or at a random time; the parent then reopens the ledger and compares it with what the
outside world has seen. Most draws take their noise from the ledger, and must be paid once however often they are
killed; every fourth brings its own, and a killed one stays spent. Now and then the data change between a kill and the
restart, and no noise that was drawn before may be drawn again. Needs `os.fork`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from benchmarks._kill_points import Kill, Kind, Tell, forked, was_killed
from twofold.privacy import accountant  # loaded before the children are forked, not by each of them
from twofold.privacy.budget import PureDP
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger.book import Ledger
from twofold.privacy.ledger.record import digest
from twofold.privacy.ledger.state import StaleRelease
from twofold.privacy.rng import OperatingSystem, Source
from twofold.privacy.unit import Unit

__all__ = ["Tally", "torture"]

EPSILON = Fraction(1, 10)
EVENT = ThresholdEvent(unit=Unit.person(), scale=Fraction(10), threshold=5)
#: More steps than one release takes, so that some children come through.
STEPS = 52
#: Writes of one release, about.
WRITES = 8
KINDS: tuple[Kind, ...] = ("step", "step", "write", "time")
#: At this interval, a version is drawn with its own noise, as by a program that does not know keys.
OWN_NOISE = 4
#: How often the data change after a child died before it had sent anything.
CHANGES = 0.1
#: Kills before a new ledger: every opening reads the whole file.
KILLS_PER_LEDGER = 25


@dataclass
class Tally:
    """Counts of one run; the five that must be zero come first."""

    double_spends: int = 0
    lost_releases: int = 0
    changed_releases: int = 0
    reused_keys: int = 0
    errors: int = 0
    kills: int = 0
    children: int = 0
    releases: int = 0
    draws_lost: int = 0
    recovered: int = 0
    resumed: int = 0
    torn_lines: int = 0
    ledgers: int = 0
    where: Counter[str] = field(default_factory=Counter)

    @property
    def failures(self) -> int:
        """The events that must not happen."""
        return self.double_spends + self.lost_releases + self.changed_releases + self.reused_keys + self.errors


def torture(folder: Path, *, kills: int, seed: int = 0) -> Tally:
    """Kill `kills` writers and check the ledger after each.

    Parameters
    ----------
    folder : Path
        An empty folder for the ledgers.
    kills : int
        How many children must die by SIGKILL.
    seed : int
        For the places and times of the kills.
    """
    rng, tally = random.Random(seed), Tally()
    assert accountant.spent(EVENT).epsilon == EPSILON
    while tally.kills < kills:
        path = folder / f"{tally.ledgers:05d}.ledger"
        _one_ledger(path, tally, rng, min(kills, tally.kills + KILLS_PER_LEDGER))
        tally.ledgers += 1
    return tally


@dataclass
class _World:
    """Observations outside the ledger: draws made and bytes handed out, per version of the data.

    `changes` counts how often the data of a version changed, `noise` says for which version and change a digest was
    drawn: draws show their noise bare, so that a key used for two data sets gives the same digest twice.
    """

    draws: Counter[str] = field(default_factory=Counter)
    sent: dict[str, str] = field(default_factory=dict)
    changes: Counter[str] = field(default_factory=Counter)
    noise: dict[str, tuple[str, int]] = field(default_factory=dict)
    known: dict[tuple[str, int], str] = field(default_factory=dict)


def _one_ledger(path: Path, tally: Tally, rng: random.Random, until: int) -> None:
    world, key, seen = _World(), 0, b""
    while tally.kills < until:
        version = str(key)
        kill = _kill_at(tally.children, rng)
        tally.children += 1
        tally.kills += _child(path, version, kill, world, tally)
        if not path.exists():
            continue
        seen = _check(path, version, world, tally, seen)
        if version in world.sent and rng.random() < 0.8:
            key += 1
        elif version not in world.sent and rng.random() < CHANGES:
            world.changes[version] += 1
    if path.exists():
        state = Ledger(path).state()
        tally.lost_releases += any(state.released(digest(b"plan"), version) is None for version in world.sent)
        tally.releases += sum(one.status == "released" for one in state.entries)
        tally.draws_lost += sum(one.status == "lost" for one in state.entries)
        tally.recovered += sum(one.recovered for one in state.entries)
        tally.resumed += sum(one.resumed for one in state.entries)
        tally.torn_lines += state.repaired


def _kill_at(child: int, rng: random.Random) -> Kill:
    """Choose how a child dies: the first ones before each step in turn, then at a step, in a write, or at any time."""
    if child < STEPS:
        return Kill("step", child + 1, rng.random())
    kind, number = rng.choice(KINDS), rng.randrange(1, STEPS)
    return Kill(kind, number % WRITES + 1 if kind == "write" else number, rng.random())


def _child(path: Path, version: str, kill: Kill, world: _World, tally: Tally) -> int:
    """Run one release in a child; return 1 if it was killed."""
    child = forked(lambda tell, _: _work(path, version, world.changes[version], tell), kill)
    if kill.kind == "time":
        time.sleep(kill.share * 0.02)
        os.kill(child.pid, signal.SIGKILL)
    with os.fdopen(child.pipe, "rb") as pipe:
        messages = pipe.read().decode().splitlines()
    _, status = os.waitpid(child.pid, 0)
    for message in messages:
        _hear(message, version, world, tally)
    return int(was_killed(status))


def _hear(message: str, version: str, world: _World, tally: Tally) -> None:
    kind, _, content = message.partition(" ")
    if kind == "draw":
        world.draws[version] += 1
        drawn_for = (version, world.changes[version])
        tally.reused_keys += world.noise.setdefault(content, drawn_for) != drawn_for
        if not _own_noise(version):
            tally.changed_releases += world.known.setdefault(drawn_for, content) != content
    elif kind == "sent":
        tally.changed_releases += world.sent.setdefault(version, content) != content
    elif kind == "died":
        tally.where[content.partition(": ")[2]] += 1
    else:
        tally.errors += 1


def _own_noise(version: str) -> bool:
    return int(version) % OWN_NOISE == OWN_NOISE - 1


def _work(path: Path, version: str, change: int, tell: Tell) -> bool:
    """Run the process that dies: create the ledger if needed, ask for a release, report it."""
    warnings.simplefilter("ignore", StaleRelease)  # the data are made to change
    if not path.exists():
        Ledger.create(path, dataset="torture", ceiling=PureDP(epsilon=10**6), unit=Unit.person())

    def draw_from(source: Source) -> bytes:
        content = source.words(250).tobytes()
        tell(f"draw {digest(content)}")
        return content

    def draw() -> bytes:
        return draw_from(OperatingSystem())

    sent = Ledger(path).release(
        plan=digest(b"plan"),
        data=digest(f"{version} {change}".encode()),
        version=version,
        events=[EVENT],
        unit=Unit.person(),
        draw=draw if _own_noise(version) else draw_from,
        room=2000,
    )
    tell(f"sent {digest(sent)}")
    return True


def _check(path: Path, version: str, world: _World, tally: Tally, seen: bytes) -> bytes:
    """Reopen after a kill and compare the ledger with the observations; return the current file."""
    ledger = Ledger(path)
    ledger.verify()  # chain, head and the digests of all stored releases
    content = path.read_bytes()
    tally.lost_releases += not content.startswith(seen)  # append-only: nothing that was there may go
    state = ledger.state()
    entries = [one for one in state.entries if one.key[1] == version]
    released = [one for one in entries if one.status == "released"]
    # Every draw was paid for before it was made, and a version is released once; what comes after it costs nothing.
    if _own_noise(version):
        tally.double_spends += len(entries) < world.draws[version]
    else:  # one price for the data as they were first, and one for each change, however many died
        tally.double_spends += len(entries) > 1 + world.changes[version] or len(entries) < bool(world.draws[version])
    tally.double_spends += len(released) > 1 or (bool(released) and entries[-1] is not released[0])
    tally.double_spends += state.spent.epsilon != EPSILON * len(state.entries)
    if version in world.sent:
        stored = ledger.stored(plan=digest(b"plan"), version=version)
        tally.lost_releases += stored is None
        tally.changed_releases += stored is not None and digest(stored) != world.sent[version]
    return content


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; exit code 1 if anything was lost or spent twice."""
    parser = argparse.ArgumentParser(prog="python -m studies torture", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="an empty folder on the disk to test")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    tally = torture(given.folder, kills=given.kills, seed=given.seed)
    print(json.dumps({**vars(tally), "where": dict(tally.where.most_common())}, indent=2))
    return int(tally.failures > 0)
