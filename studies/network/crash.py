"""``python -m studies network crash``: kill the service and its entities anywhere, and check what is left."""

from __future__ import annotations

import gc
import os
import random
import selectors
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks._kill_points import NEVER, Kill
from studies.network.actors import HOST, RELEASES, Scene, Tell, be, rehearse, run_entities, run_server, run_together
from tests.enrolled import OPERATOR
from twofold.errors import TwofoldError
from twofold.federation.mailbox import InProcess, steps_of
from twofold.federation.messages import receipt
from twofold.identity.log import Event, read_log, verify_log
from twofold.privacy.ledger import Ledger
from twofold.server.coordinate import coordinate, server_for
from twofold.server.service.store import Store
from twofold.server.state import MemoryState

__all__ = ["Tally", "crash", "joined", "report"]

SERVER: Final = "service"
#: One process lets the entities take part in turn.
ENTITIES: Final = "entities"
#: One process is the service and the entities.
TOGETHER: Final = "service and entities"
#: More places than a process passes, so that some come through.
PLACES: Final = {ENTITIES: 250, SERVER: 220, TOGETHER: 450}
#: Kills of one federation, after which its processes are left alone.
MOST_KILLS: Final = 5
CHANCE: Final = 0.6
#: Seconds within which a federation must end.
PATIENCE: Final = 90.0
#: Ports below those that the system gives away itself.
FIRST_PORT: Final = 20_000


@dataclass
class Tally:
    """Counts of all federations; those that must be zero come first."""

    lost: int = 0
    second_releases: int = 0
    wrong_charges: int = 0
    unpaid_draws: int = 0
    changed_draws: int = 0
    different_factors: int = 0
    broken_logs: int = 0
    unfinished: int = 0
    errors: int = 0
    federations: int = 0
    finished: int = 0
    with_a_kill: int = 0
    kills_of_service: int = 0
    kills_of_entities: int = 0
    acknowledged: int = 0
    releases: int = 0
    drawn_again: int = 0
    seconds: float = 0.0
    sharing: Counter[str] = field(default_factory=Counter)
    where: Counter[str] = field(default_factory=Counter)

    @property
    def failures(self) -> int:
        """Everything that must not happen."""
        return sum(getattr(self, name) for name in MUST_BE_ZERO)

    def as_dict(self) -> dict[str, object]:
        """Give plain JSON."""
        return vars(self) | {"sharing": dict(self.sharing), "where": dict(self.where)}


MUST_BE_ZERO: Final = (
    "lost",
    "second_releases",
    "wrong_charges",
    "unpaid_draws",
    "changed_draws",
    "different_factors",
    "broken_logs",
    "unfinished",
    "errors",
)


def joined(records: list[dict[str, object]]) -> Tally:
    """Add up the counts of several processes.

    Examples
    --------
    >>> joined([Tally(federations=2).as_dict(), Tally(federations=3, lost=1).as_dict()]).failures
    1
    """
    whole = Tally()
    for record in records:
        for name, value in record.items():
            if isinstance(value, dict):
                getattr(whole, name).update(value)
            else:
                setattr(whole, name, getattr(whole, name) + value)
    return whole


@dataclass
class _Seen:
    """What was seen of one federation from outside."""

    acknowledged: set[tuple[str, str, str]] = field(default_factory=set)
    tried: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    drawn: dict[str, set[str]] = field(default_factory=dict)
    draws: Counter[str] = field(default_factory=Counter)
    factors: set[str] = field(default_factory=set)
    kills: int = 0
    ended: bool = False

    def hear(self, actor: str, line: str, tally: Tally) -> None:
        """Note what a process said."""
        name, _, told = line.rpartition("|")
        word, _, content = told.partition(" ")
        actor = name or actor
        step, _, mark = content.partition(" ")
        if word == "sent":
            self.acknowledged.add((step, actor, mark))
        elif word == "try":
            self.tried.setdefault((actor, step), set()).add(mark)
        elif word == "factors":
            self.factors.add(content)
        elif word == "draw":
            self.draws[actor] += 1
            tally.unpaid_draws += content != "paid"
        elif word == "drawn":
            self.drawn.setdefault(actor, set()).add(content)
        elif word == "died":
            tally.where[f"{actor}: {content}"] += 1
        elif word == "error":
            tally.errors += 1
            print(f"{actor}: {content}", file=sys.stderr)


@dataclass
class _Child:
    """A running process."""

    actor: str
    pid: int
    pipe: int
    rest: bytes = b""
    #: When it is to be killed from outside, if at all.
    until: float = float("inf")


def crash(
    folder: Path,
    *,
    runs: int,
    seed: int = 0,
    port: int = FIRST_PORT,
    minutes: float = 60.0,
    peers: float = 0.2,
    together: bool = False,
    told: Callable[[Tally], None] | None = None,
) -> Tally:
    """Run federations until `runs` of them had a kill; check each.

    Parameters
    ----------
    folder : Path
        Where they live; one in memory is quicker.
    runs : int
        Federations with at least one kill.
    seed : int
        For the places and times of the kills.
    port : int
        Where the service listens.
    minutes : float
        Time after which no other federation begins.
    peers : float
        Share of federations with a secure sum among the entities.
    together : bool
        Whether service and entities are one process without sockets, which is cheaper: nobody waits for a socket.
    told : callable, optional
        Gets the counts now and then.
    """
    rng, tally = random.Random(seed), Tally()
    scenes = {sharing: Scene(sharing) for sharing in (["plain"] * (peers < 1) + ["peers"] * (peers > 0))}
    usual: dict[str, float] = {}
    for sharing, scene in scenes.items():
        scene.prepare(folder / sharing)
        usual[sharing] = _warm(scene, folder, port, together)
    gc.freeze()  # what is loaded by now is shared with the children and not copied page by page
    start = time.monotonic()
    while tally.with_a_kill < runs and time.monotonic() < start + 60 * minutes:
        sharing = "peers" if rng.random() < peers else "plain"
        place = folder / f"run-{tally.federations:05d}"
        shutil.copytree(folder / sharing, place)
        run = _Federation(scenes[sharing], place, port, rng, tally)
        run.usual, run.together = usual[sharing], together
        seen = run.run()
        check(scenes[sharing], place, seen, tally)
        tally.sharing[sharing] += 1
        shutil.rmtree(place)
        tally.seconds = time.monotonic() - start
        if told is not None and tally.federations % 20 == 0:
            told(tally)
    return tally


def _warm(scene: Scene, folder: Path, port: int, together: bool) -> float:
    """Run without kills, first in this process, so that forks find everything loaded; give the seconds it took."""
    place, tally = folder / "warm", Tally()
    shutil.copytree(folder / scene.sharing, place)
    rehearse(scene, place)
    shutil.rmtree(place)
    shutil.copytree(folder / scene.sharing, place)
    start = time.monotonic()
    run = _Federation(scene, place, port, random.Random(0), tally)
    run.deadly, run.together = False, together
    check(scene, place, run.run(), tally)
    shutil.rmtree(place)
    if tally.failures:
        raise RuntimeError(f"a federation fails even when nobody is killed: {tally.as_dict()}")
    return time.monotonic() - start


class _Federation:
    """One federation with its processes."""

    def __init__(self, scene: Scene, place: Path, port: int, rng: random.Random, tally: Tally) -> None:
        self.scene, self.place, self.port, self.rng, self.tally = scene, place, port, rng, tally
        self.seen, self.usual, self.deadly, self.together = _Seen(), 0.0, True, False
        self.children: dict[int, _Child] = {}
        self.selector = selectors.DefaultSelector()

    def run(self) -> _Seen:
        """Start both processes, start again whichever dies, until all entities have the item factors."""
        until = time.monotonic() + PATIENCE
        for actor in [TOGETHER] if self.together else self.rng.sample([SERVER, ENTITIES], 2):
            self._start(actor)
        try:
            while not self.seen.ended and time.monotonic() < until:
                self._turn()
        finally:
            for child in list(self.children.values()):
                os.kill(child.pid, signal.SIGKILL)
                self._end(child)
            self.selector.close()
        self.tally.federations += 1
        self.tally.with_a_kill += self.seen.kills > 0
        self.tally.finished += self.seen.ended
        self.tally.unfinished += not self.seen.ended
        return self.seen

    def _turn(self) -> None:
        now = time.monotonic()
        for child in list(self.children.values()):
            if child.until <= now:
                child.until = float("inf")
                self.seen.hear(child.actor, "died at any time", self.tally)
                os.kill(child.pid, signal.SIGKILL)
        pause = min([0.5, *(one.until - now for one in self.children.values())])
        for key, _ in self.selector.select(max(0.0, pause)):
            child = self.children[key.fd]
            if not self._listen(child):
                self._ended(child)

    def _listen(self, child: _Child) -> bool:
        """Read what a process said; False at its end."""
        data = os.read(child.pipe, 65_536)
        *lines, child.rest = (child.rest + data).split(b"\n")
        for line in lines:
            self.seen.hear(child.actor, line.decode(), self.tally)
        return bool(data)

    def _ended(self, child: _Child) -> None:
        status = self._end(child)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if killed:
            self.seen.kills += 1
            self.tally.kills_of_service += child.actor != ENTITIES
            self.tally.kills_of_entities += child.actor != SERVER
        elif os.waitstatus_to_exitcode(status) == 0 and child.actor != SERVER:
            self.seen.ended = True
            return
        else:
            self.seen.hear(child.actor, f"error ended with status {status}", self.tally)
        self._start(child.actor)

    def _end(self, child: _Child) -> int:
        while self._listen(child):
            pass
        _, status = os.waitpid(child.pid, 0)
        self.selector.unregister(child.pipe)
        os.close(child.pipe)
        del self.children[child.pipe]
        return status

    def _start(self, actor: str) -> None:
        kill = self._choose(actor) if self.deadly and self.seen.kills + len(self._doomed) < MOST_KILLS else NEVER
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            be(self._job(actor, kill), kill, writer)
        os.close(writer)
        child = _Child(actor, pid, reader)
        if kill.kind == "time":
            child.until = time.monotonic() + kill.share * self.usual
        self.children[reader] = child
        self.selector.register(reader, selectors.EVENT_READ)

    @property
    def _doomed(self) -> list[_Child]:
        return [one for one in self.children.values() if one.until < float("inf")]

    def _choose(self, actor: str) -> Kill:
        """Before a touch of the disk, inside a write, at any time, or (kind none) at a store or send boundary."""
        if self.rng.random() > CHANCE:
            return NEVER
        kind = self.rng.choice(("touch", "write", "time", "none", "none"))
        places, share = PLACES[actor], self.rng.random()
        most = {"touch": places, "write": places // 5, "none": 25 if actor == ENTITIES else places, "time": 1}[kind]
        return Kill(kind, self.rng.randint(1, most), share)  # type: ignore[arg-type]

    def _job(self, actor: str, kill: Kill) -> Callable[[Tell, Tell], None]:
        if actor == SERVER:
            return lambda _, die: run_server(self.place, self.port, kill, die)
        if actor == TOGETHER:
            return lambda tell, die: run_together(self.scene, self.place, tell, kill, die)
        url = f"http://{HOST}:{self.port}"
        return lambda tell, die: run_entities(self.scene, self.place, url, tell, kill, die)


def check(scene: Scene, place: Path, seen: _Seen, tally: Tally) -> None:
    """Compare what is on the disks with what was seen from outside."""
    tally.acknowledged += len(seen.acknowledged)
    store = Store(place / "state" / scene.plan.hash, scene.plan)
    try:
        _check_store(scene, store, seen, tally)
    finally:
        store.close()
    for name in scene.names:
        book = scene.ledger(place, name)
        state = Ledger(book).state() if book.exists() else None
        released = 0 if state is None else sum(one.status == "released" for one in state.entries)
        tally.releases += released
        sent = {mark for step in RELEASES for mark in seen.tried.get((name, step.value), ())}
        tally.second_releases += max(0, released - 1) + max(0, len(sent) - 1)
        if seen.ended:
            tally.wrong_charges += state is None or state.spent.epsilon != scene.plan.budget.epsilon
        tally.changed_draws += len(seen.drawn.get(name, ())) > 1
        tally.drawn_again += seen.draws[name] > 1
    try:
        verify_log(place / "state" / scene.plan.hash / "audit.log", keys=[scene.made.signer(OPERATOR).public])
    except TwofoldError:
        tally.broken_logs += 1


def _check_store(scene: Scene, store: Store, seen: _Seen, tally: Tally) -> None:
    """Find every acknowledged message, and compute from the stored ones what should have been published."""
    box, steps = InProcess(), {step.id.value: step for step in steps_of(scene.plan)}
    for named, entity, mark in seen.acknowledged:
        tally.lost += store.receipt_of(steps[named], entity) != mark
    stored = 0
    for step in steps.values():
        tally.second_releases += len(store.conflicts(step))
        for entity, mark in store.messages(step):
            try:
                box.submit(step, store.read(mark, step.up.limit(scene.plan)), entity=entity)
                stored += 1
            except (TwofoldError, OSError):
                tally.lost += 1
    if not seen.ended:
        return
    logged = [one for one in read_log(store.folder / "audit.log") if one.event is Event.ACCEPTED]
    tally.broken_logs += len(logged) != stored
    server = server_for(scene.plan, threads=1, signer=scene.made.signer(OPERATOR))
    coordinate(server, box, state=MemoryState())
    last = steps_of(scene.plan)[-1]
    due = box.published(last)
    assert due is not None
    tally.different_factors += seen.factors != {receipt(due)}
    tally.different_factors += store.published_receipt(last) != receipt(due)


def report(tally: Tally) -> list[str]:
    """Give the table of a run as Markdown."""
    acknowledged = f"{tally.acknowledged:,}"
    rows = [
        ("federations with at least one kill", f"{tally.with_a_kill:,}", ""),
        ("federations finished", f"{tally.finished:,} of {tally.federations:,}", "all"),
        ("kills of the service", f"{tally.kills_of_service:,}", ""),
        ("kills of entities", f"{tally.kills_of_entities:,}", ""),
        ("submissions acknowledged", acknowledged, ""),
        ("submissions acknowledged and lost", f"{tally.lost:,}", "0"),
        ("releases", f"{tally.releases:,}", ""),
        ("second releases", f"{tally.second_releases:,}", "0"),
        ("ledgers with another price than one release", f"{tally.wrong_charges:,}", "0"),
        ("draws before they were paid for", f"{tally.unpaid_draws:,}", "0"),
        ("draws made again after a kill, that differ", f"{tally.changed_draws:,} of {tally.drawn_again:,}", "0"),
        ("sums or factors that differ from an uninterrupted run", f"{tally.different_factors:,}", "0"),
        ("audit logs that are broken, or miss or repeat a message", f"{tally.broken_logs:,}", "0"),
        ("errors of a process", f"{tally.errors:,}", "0"),
    ]
    lines = ["| what | found | must be |", "|---|---:|---:|"]
    return lines + [f"| {name} | {found} | {due} |" for name, found, due in rows]
