"""Kill the processes of a federation over both rounds, start them again until all are done, and check what is left.

``python -m benchmarks._kills FOLDER --runs 1000`` prints counts as JSON; exit code 1 if anything was released twice,
changed, paid for twice, drawn without having been paid for, or never finished. Needs `os.fork`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import _kill_actors as actors
from benchmarks._kill_points import NEVER, Child, Counts, Job, Kill, Places, Witness, be, forked, was_killed
from twofold.federation.factors import encode_factors
from twofold.federation.messages import receipt
from twofold.privacy.ledger import Ledger
from twofold.server.factorize import Server

#: More touches of the disk than any of the processes makes, so that some of them come through.
TOUCHES = {"entity": 90, "entity that has sent": 24, "server": 130, "carrier": 24}
#: Passes in which processes are killed; afterwards they are left alone.
DEADLY_PASSES, MOST_PASSES = 3, 12
CHANCE = 0.45
#: Whether processes are programs started anew, which takes a hundred times as long, instead of forks of this one.
SPAWN = False


@dataclass
class Tally:
    """Counts of all runs; those that must be zero come first."""

    double_releases: int = 0
    changed_draws: int = 0
    changed_messages: int = 0
    changed_factors: int = 0
    changed_models: int = 0
    unpaid_draws: int = 0
    wrong_charges: int = 0
    charged_without_a_message: int = 0
    left_keys: int = 0
    unfinished: int = 0
    errors: int = 0
    runs: int = 0
    runs_with_a_kill: int = 0
    kills: int = 0
    kills_of_entities: int = 0
    kills_of_server: int = 0
    kills_of_carrier: int = 0
    processes: int = 0
    releases: int = 0
    paid_once: int = 0
    drawn_again: int = 0
    resumed: int = 0
    recovered: int = 0
    torn_lines: int = 0
    where: Counter[str] = field(default_factory=Counter)

    @property
    def failures(self) -> int:
        """Everything that must not happen."""
        changed = self.changed_draws + self.changed_messages + self.changed_factors + self.changed_models
        charged = self.double_releases + self.unpaid_draws + self.wrong_charges + self.charged_without_a_message
        return changed + charged + self.left_keys + self.unfinished + self.errors


@dataclass
class World(Witness):
    """What was seen of one federation from outside: everything that the processes said and the kills."""

    sent: dict[str, set[str]] = field(default_factory=dict)
    models: dict[str, set[str]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    done: set[str] = field(default_factory=set)

    def hear(self, actor: str, line: str, tally: Counts) -> None:
        """Note what a process said."""
        word, _, content = line.partition(" ")
        super().hear(kind(actor) if word == "died" else actor, line, tally)
        if word == "sent":
            self.sent.setdefault(actor, set()).add(content)
        elif word == "model":
            self.models.setdefault(actor, set()).add(content)


def torture(folder: Path, *, runs: int, seed: int = 0) -> Tally:
    """Run many federations in a folder, killing their processes, and check each."""
    rng, tally, turns = random.Random(seed), Tally(), Counter[str]()
    usual = _warm(folder / "warm")
    gc.freeze()  # what is loaded by now is shared with the children and not copied page by page
    while tally.runs_with_a_kill < runs:
        place = folder / f"{tally.runs:05d}"
        world = _federation(place, rng, tally, turns, usual)
        check(place, world, tally)
        shutil.rmtree(place)
    return tally


def kind(actor: str) -> str:
    """Entities are of one kind."""
    return "entity" if actor in actors.ENTITIES else actor


def _federation(folder: Path, rng: random.Random, tally: Tally, turns: Counter[str], usual: dict[str, float]) -> World:
    world = World()
    actors.prepare(folder)
    for number in range(MOST_PASSES):
        entities = rng.sample(actors.ENTITIES, len(actors.ENTITIES))
        for actor in (*entities, "carrier", "server", "carrier"):
            deadly = number < DEADLY_PASSES and rng.random() < CHANCE
            if actor in world.done or (not deadly and _idle(folder, actor, world)):
                continue
            if actor == "carrier" and not deadly:  # needs no process of its own when nobody kills it
                actors.run_carrier(folder)
                continue
            stage = kind(actor) + " that has sent" * (actor in world.sent)
            _child(folder, actor, _choose(stage, rng, turns) if deadly else NEVER, usual, world, tally)
        if world.done.issuperset({*actors.ENTITIES, "server"}):
            break
    tally.runs += 1
    tally.runs_with_a_kill += bool(world.kills)
    return world


def _idle(folder: Path, actor: str, world: World) -> bool:
    """Whether an entity has sent its message and nothing has come back: it would look and go."""
    return actor in world.sent and not any((folder / actor / "in").glob("*.round2"))


def _choose(stage: str, rng: random.Random, turns: Counter[str]) -> Kill:
    """Every second kill at another touch, until none is left out; else in a write, or at any time.

    In steps of seven, so that a few dozen kills are spread over the whole run.
    """
    turns[stage] += 1
    if turns[stage] % 2:
        return Kill("touch", 7 * (turns[stage] // 2) % TOUCHES[stage] + 1)
    if rng.random() < 0.5:
        return Kill("write", rng.randrange(1, 1 + TOUCHES[stage] // 5), rng.random())
    return Kill("time", 0, rng.random())


def _job(folder: Path, actor: str) -> Job:
    if actor == "server":
        return lambda tell, _: actors.run_server(folder, tell)
    if actor == "carrier":
        return lambda *_: actors.run_carrier(folder)
    return lambda tell, _: actors.run_entity(folder, actor, tell)


def _child(folder: Path, actor: str, kill: Kill, usual: dict[str, float], world: World, tally: Tally) -> None:
    """Run one process to its end or its death."""
    child = _spawned(folder, actor, kill) if SPAWN else forked(_job(folder, actor), kill)
    if kill.kind == "time":
        time.sleep(kill.share * usual[kind(actor)])
        os.kill(child.pid, signal.SIGKILL)
    with os.fdopen(child.pipe, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    _, status = os.waitpid(child.pid, 0)
    tally.processes += 1
    killed = was_killed(status)
    if killed:
        _count_kill(actor, world, tally)
    for line in lines:
        world.hear(actor, line, tally)
    if not killed and os.waitstatus_to_exitcode(status) == 0 and actor != "carrier":
        world.done.add(actor)


def _spawned(folder: Path, actor: str, kill: Kill) -> Child:
    """Start a program of its own, as a site would: everything is loaded anew."""
    reader, writer = os.pipe()
    given = json.dumps({"actor": actor, "kill": [kill.kind, kill.number, kill.share], "pipe": writer})
    command = [sys.executable, "-m", "benchmarks._kills", str(folder), "--be", given]
    os.set_inheritable(writer, True)
    pid = os.posix_spawn(sys.executable, command, os.environ)
    os.close(writer)
    return Child(pid, reader)


def _count_kill(actor: str, world: World, tally: Tally) -> None:
    world.kills[actor] += 1
    tally.kills += 1
    name = {"entity": "kills_of_entities", "server": "kills_of_server", "carrier": "kills_of_carrier"}[kind(actor)]
    setattr(tally, name, getattr(tally, name) + 1)


def _warm(folder: Path) -> dict[str, float]:
    """Find out how long each process takes; forks find everything loaded and compiled afterwards."""
    world, tally, usual = World(), Tally(), {}
    actors.prepare(folder)
    for actor in ("carrier",) if SPAWN else (*actors.ENTITIES, "carrier", "server", "carrier", *actors.ENTITIES):
        if not SPAWN:
            _job(folder, actor)(lambda _: None, Places(NEVER, lambda _: None))
        start = time.perf_counter()
        _child(folder, actor, NEVER, {}, world, tally)
        usual[kind(actor)] = max(usual.get(kind(actor), 0.0), time.perf_counter() - start)
    shutil.rmtree(folder)
    if SPAWN:  # most of the time goes into loading
        return dict.fromkeys(("entity", "server", "carrier"), 1.5 * usual["carrier"])
    if not world.done.issuperset({*actors.ENTITIES, "server"}) or tally.errors:
        raise RuntimeError("the federation does not come to its end even when nobody is killed")
    return usual


def check(folder: Path, world: World, tally: Tally) -> None:
    """Compare what is on the disks with what the world has seen."""
    tally.unfinished += len({*actors.ENTITIES, "server"} - world.done)
    stored = []
    for name in actors.ENTITIES:
        content = _check_entity(folder, name, world, tally)
        if content is not None:
            stored.append(content)
    if len(stored) < len(actors.ENTITIES):
        return
    factors = Server(actors.PLAN, threads=1).factorize(stored)
    due = receipt(encode_factors(factors, actors.PLAN, signer=actors.MADE.signer()))
    tally.changed_factors += world.factors != {due}
    models = set().union(*world.models.values())
    tally.changed_factors += len({line.split()[0] for line in models}) != 1
    # However often an entity had to start: one model, and it can be read back.
    tally.changed_models += sum(len(said) > 1 for said in world.models.values())


def _check_entity(folder: Path, name: str, world: World, tally: Tally) -> bytes | None:
    ledger = Ledger(actors.ledger_path(folder, name))
    ledger.verify()  # chain, head and the digests of all stored releases
    state = ledger.state()
    statuses = Counter(entry.status for entry in state.entries)
    tally.releases += statuses["released"]
    tally.double_releases += statuses["released"] > 1
    tally.charged_without_a_message += statuses["lost"]
    tally.paid_once += state.spent.epsilon == actors.COST
    tally.drawn_again += world.draws[name] > 1
    tally.resumed += sum(entry.resumed for entry in state.entries)
    tally.recovered += sum(entry.recovered for entry in state.entries)
    tally.torn_lines += state.repaired
    # One price, however often the process died; and a draw that is made again is the same draw.
    tally.wrong_charges += state.spent.epsilon != actors.COST
    tally.changed_draws += len(world.drawn.get(name, ())) > 1
    tally.left_keys += len(list((folder / name).rglob("*.key*")))
    content = ledger.stored(plan=actors.PLAN.hash)
    seen = {path.read_bytes() for place in (folder / name / "out",) for path in place.glob("*.round1")}
    seen |= {path.read_bytes() for path in (folder / "server" / "in").glob(f"{name}.*.round1")}
    if content is None or world.sent.get(name) != {receipt(content)} or seen != {content}:
        tally.changed_messages += 1
    return content


def main() -> int:
    """Run from the command line."""
    global SPAWN
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="an empty folder on the disk to test")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spawn", action="store_true", help="start programs instead of forking")
    parser.add_argument("--be", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.be:
        be(_job(given.folder, given.be["actor"]), Kill(*given.be["kill"]), given.be["pipe"])
    SPAWN = given.spawn
    tally = torture(given.folder, runs=given.runs, seed=given.seed)
    print(json.dumps({**vars(tally), "where": dict(tally.where.most_common())}, indent=2))
    return int(tally.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
