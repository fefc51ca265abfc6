"""``python -m studies network crash``: kill the service and its entities anywhere, and check what is left."""

from __future__ import annotations

import gc
import os
import random
import selectors
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks._kill_points import COUNT, NEVER, Counts, Job, Kill, Witness, forked, was_killed
from studies.network.actors import HOST, RELEASES, Scene, rehearse, run_entities, run_server, run_together
from studies.network.tally import KINDS, Tally
from tests.enrolled import OPERATOR
from twofold.errors import TwofoldError
from twofold.federation.mailbox import InProcess, steps_of
from twofold.federation.messages import receipt
from twofold.identity.log import Event, read_log, verify_log
from twofold.privacy.ledger import Ledger
from twofold.server.coordinate import coordinate, server_for
from twofold.server.service.store import Store
from twofold.server.state import MemoryState

__all__ = ["check", "crash"]

SERVER: Final = "service"
#: One process lets the entities take part in turn.
ENTITIES: Final = "entities"
#: One process is the service and the entities.
TOGETHER: Final = "service and entities"
#: Kills of one federation, after which its processes are left alone.
MOST_KILLS: Final = 5
#: How often a process is killed that is not the first to be.
CHANCE: Final = 0.8
#: Seconds within which a federation must end.
PATIENCE: Final = 90.0
#: Ports below those that the system gives away itself.
PORTS: Final = range(20_000, 32_000)


@dataclass
class _Seen(Witness):
    """What was seen of one federation from outside."""

    acknowledged: set[tuple[str, str, str]] = field(default_factory=set)
    tried: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    passed: Counter[tuple[str, str]] = field(default_factory=Counter)
    kills: int = 0
    ended: bool = False

    def hear(self, actor: str, line: str, tally: Counts) -> None:
        """Note what a process said; an entity's name may stand before it."""
        name, _, told = line.rpartition("|")
        super().hear(name or actor, told, tally)
        word, _, content = told.partition(" ")
        step, _, mark = content.partition(" ")
        if word == "sent":
            self.acknowledged.add((step, name, mark))
        elif word == "try":
            self.tried.setdefault((name, step), set()).add(mark)
        elif word == "passed":
            self.passed[actor, content] += 1


@dataclass
class _Running:
    """A running process."""

    actor: str
    pid: int
    pipe: int
    rest: bytes = b""
    #: When it is to be killed from outside, if at all.
    until: float = float("inf")
    shot: bool = False


@dataclass(frozen=True)
class _Rehearsal:
    """What a federation passes when nobody is killed: places of each process by kind, and seconds in all."""

    places: Counter[tuple[str, str]]
    seconds: float


def crash(
    folder: Path,
    *,
    runs: int,
    seed: int = 0,
    minutes: float = 60.0,
    peers: float = 0.2,
    together: bool = False,
    told: Callable[[Tally], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
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
    minutes : float
        Time after which no other federation begins.
    peers : float
        Share of federations with a secure sum among the entities.
    together : bool
        Whether service and entities are one process without sockets, which is cheaper: nobody waits for a socket.
    told : callable
        Gets the counts after each federation.
    stop : callable
        Asked before each federation whether to end.
    """
    rng, tally, port = random.Random(seed), Tally(), _port()
    scenes = {sharing: Scene(sharing) for sharing in (["plain"] * (peers < 1) + ["peers"] * (peers > 0))}
    rehearsed: dict[str, _Rehearsal] = {}
    for sharing, scene in scenes.items():
        scene.prepare(folder / sharing)
        rehearsed[sharing] = _rehearse(scene, folder, port, together)
    gc.freeze()  # what is loaded by now is shared with the children and not copied page by page
    start, before = time.monotonic(), _cpu()
    while tally.with_a_kill < runs and time.monotonic() < start + 60 * minutes and not stop():
        sharing = "peers" if rng.random() < peers else "plain"
        place = folder / f"run-{tally.federations:05d}"
        shutil.copytree(folder / sharing, place)
        run = _Federation(scenes[sharing], place, port, rng, tally, rehearsed[sharing], together)
        check(scenes[sharing], place, run.run(), tally)
        tally.sharing[sharing] += 1
        shutil.rmtree(place)
        tally.seconds, tally.cpu_seconds = time.monotonic() - start, _cpu() - before
        told(tally)
    return tally


def _cpu() -> float:
    """Seconds of processor time of this process and of all its children that ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _port() -> int:
    """Choose a free port; another process that does the same finds another one."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as one:
            if one.connect_ex((HOST, port)) != 0:
                return port
    raise RuntimeError("no port is free")


def _rehearse(scene: Scene, folder: Path, port: int, together: bool) -> _Rehearsal:
    """Run without kills, first in this process, so that forks find everything loaded; then count what it passes."""
    place, tally = folder / "warm", Tally()
    shutil.copytree(folder / scene.sharing, place)
    rehearse(scene, place)
    shutil.rmtree(place)
    found = []
    for kill in (COUNT, NEVER):
        shutil.copytree(folder / scene.sharing, place)
        start = time.monotonic()
        run = _Federation(scene, place, port, random.Random(0), tally, None, together)
        run.always = kill
        check(scene, place, run.run(), tally)
        found.append(_Rehearsal(run.seen.passed, time.monotonic() - start))
        shutil.rmtree(place)
    if tally.failures:
        raise RuntimeError(f"a federation fails even when nobody is killed: {tally.as_dict()}")
    counted, plain = found
    return _Rehearsal(counted.places, plain.seconds)


class _Federation:
    """One federation with its processes."""

    def __init__(
        self,
        scene: Scene,
        place: Path,
        port: int,
        rng: random.Random,
        tally: Tally,
        rehearsed: _Rehearsal | None,
        together: bool,
    ) -> None:
        self.scene, self.place, self.port, self.rng, self.tally = scene, place, port, rng, tally
        self.rehearsed, self.actors = rehearsed, [TOGETHER] if together else rng.sample([SERVER, ENTITIES], 2)
        #: What happens to every process of a rehearsal.
        self.always = NEVER
        #: Who is killed in any case.
        self.doomed = rng.choice(self.actors)
        self.seen = _Seen()
        self.children: dict[int, _Running] = {}
        self.selector = selectors.DefaultSelector()

    def run(self) -> _Seen:
        """Start all processes, start again whichever dies, until all entities have the item factors."""
        until = time.monotonic() + PATIENCE
        for actor in self.actors:
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
            if not child.shot and child.until <= now:
                child.shot = True
                os.kill(child.pid, signal.SIGKILL)
        pause = min([0.5, *(one.until - now for one in self.children.values() if not one.shot)])
        for key, _ in self.selector.select(max(0.0, pause)):
            child = self.children[key.fd]
            if not self._listen(child):
                self._ended(child)

    def _listen(self, child: _Running) -> bool:
        """Read what a process said; False at its end."""
        data = os.read(child.pipe, 65_536)
        *lines, child.rest = (child.rest + data).split(b"\n")
        for line in lines:
            self.seen.hear(child.actor, line.decode(), self.tally)
        return bool(data)

    def _ended(self, child: _Running) -> None:
        status = self._end(child)
        if was_killed(status):
            if child.shot:
                self.seen.hear(child.actor, "died time: at any time", self.tally)
            self.seen.kills += 1
            self.tally.kills_of_service += child.actor != ENTITIES
            self.tally.kills_of_entities += child.actor != SERVER
        elif os.waitstatus_to_exitcode(status) == 0 and child.actor != SERVER:
            self.seen.ended = True
            return
        else:
            self.seen.hear(child.actor, f"error ended with status {status}", self.tally)
        self._start(child.actor)

    def _end(self, child: _Running) -> int:
        while self._listen(child):
            pass
        _, status = os.waitpid(child.pid, 0)
        self.selector.unregister(child.pipe)
        os.close(child.pipe)
        del self.children[child.pipe]
        return status

    def _start(self, actor: str) -> None:
        kill = self.always if self.rehearsed is None else self._choose(actor, self.rehearsed)
        child = _Running(actor, *forked(self._job(actor), kill))
        if kill.kind == "time" and self.rehearsed is not None:
            child.until = time.monotonic() + kill.share * self.rehearsed.seconds
        self.children[child.pipe] = child
        self.selector.register(child.pipe, selectors.EVENT_READ)

    def _choose(self, actor: str, rehearsed: _Rehearsal) -> Kill:
        """Choose a kind, and one of the places of this kind that the process passes if nobody kills it."""
        pending = sum(one.until < float("inf") for one in self.children.values())
        first = actor == self.doomed and self.seen.kills == 0
        if self.seen.kills + pending >= MOST_KILLS or (not first and self.rng.random() > CHANCE):
            return NEVER
        kind = self.rng.choice([one for one in KINDS if one == "time" or rehearsed.places[actor, one]])
        return Kill(kind, self.rng.randint(1, max(1, rehearsed.places[actor, kind])), self.rng.random())  # type: ignore[arg-type]

    def _job(self, actor: str) -> Job:
        if actor == SERVER:
            return lambda _, places: run_server(self.place, self.port, places)
        if actor == TOGETHER:
            return lambda tell, places: run_together(self.scene, self.place, tell, places)
        url = f"http://{HOST}:{self.port}"
        return lambda tell, places: run_entities(self.scene, self.place, url, tell, places)


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
