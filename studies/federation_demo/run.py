"""`python -m studies federation`: hospitals and a coordinator as strangers on a network, from plan to recommendations.

Every party is a process of its own, in a network namespace of its own where the system allows that, and runs the
commands that a person would type. One hospital is killed (kill -9) after it has paid for its message, and starts again.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, Literal

from studies.federation_demo.network import Network, network_of
from studies.federation_demo.parties import Parties, make_data
from tests.certificates import Authority
from twofold.entity.model import Model
from twofold.errors import LedgerBroken, NotReady
from twofold.identity.keys import Identity
from twofold.identity.log import verify_log
from twofold.privacy.ledger import Ledger

__all__ = ["Demonstration", "Outcome", "demonstrate", "main"]

HOSPITALS: Final = ("st-anna", "st-bern", "st-clara")
#: Who is killed.
KILLED: Final = "st-bern"
Kind = Literal["plain", "operators"]
SERVICES: Final = {"plain": ("coordinator",), "operators": ("city-clinic", "university")}
_TITLES: Final = {"plain": "One coordinator", "operators": "Two operators, each with a service of its own"}
#: Seconds for one party to do its whole part.
_PATIENCE: Final = 300.0
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """What to run.

    Parameters
    ----------
    kind : {"plain", "operators"}
        One coordinator, or two operators.
    patients, items : int
        Of each hospital on average, and of the public list.
    seed : int
        Of the simulator. The noise has no seed.
    loopback : bool
        Do without namespaces.
    """

    kind: Kind = "plain"
    patients: int = 400
    items: int = 40
    seed: int = 7
    loopback: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What happened.

    Parameters
    ----------
    network : str
        "namespaces" or "loopback".
    seconds : float
        From the first key to the last check.
    killed : bool
        Whether a hospital was killed after its ledger had a record and before it had a model.
    releases : mapping of str to int
        Records of each ledger that was verified; more than one would be a second release.
    events : mapping of str to int
        Lines of each log whose chain and signatures were verified.
    recommended : mapping of str to tuple of str
        Items for one patient of each hospital.
    """

    network: str
    seconds: float
    killed: bool
    releases: dict[str, int]
    events: dict[str, int]
    recommended: dict[str, tuple[str, ...]]

    @property
    def is_good(self) -> bool:
        """Whether all of it is as promised."""
        once = [self.releases.get(name) for name in HOSPITALS] == [1] * len(HOSPITALS)
        return self.killed and once and min(self.events.values()) > 0 and all(self.recommended[n] for n in HOSPITALS)


def demonstrate(asked: Demonstration, folder: Path, *, say: Say = print) -> Outcome:
    """Run one federation in an empty folder; leaves no process and no namespace behind."""
    services = SERVICES[asked.kind]
    with (
        network_of((*services, *HOSPITALS), loopback=asked.loopback) as network,
        closing(Parties(folder, network)) as parties,
    ):
        say(network.about)
        start = time.monotonic()

        def tell(text: str) -> None:
            say(f"{time.monotonic() - start:6.1f} s  {text}")

        story = _Story(asked, parties, network, tell)
        story.prepare()
        killed = story.take_part()
        return story.check(start, killed=killed)


class _Story:
    def __init__(self, asked: Demonstration, parties: Parties, network: Network, tell: Say) -> None:
        self.asked, self.parties, self.network, self.tell = asked, parties, network, tell
        self.folder, self.services = parties.folder, SERVICES[asked.kind]
        self.first = self.services[0]
        self.patients: dict[str, int] = {}

    def _url(self, service: str) -> str:
        host, port = self.network.address(service)
        return f"https://{host}:{port}"

    # Before anything leaves.

    def prepare(self) -> None:
        """Data, certificates, keys, the plan, who agrees to it, invitations."""
        for name in (*self.services, *HOSPITALS):
            (self.folder / name).mkdir()
        self.patients = make_data(
            self.folder, HOSPITALS, patients=self.asked.patients, items=self.asked.items, seed=self.asked.seed
        )
        self.tell(f"Three hospitals have made-up patients; one public list of {self.asked.items} drugs and lab tests.")
        authority = Authority(self.folder)
        for name in self.services:
            authority.issue("server", host=self.network.address(name)[0], folder=self.folder / name)
        roles = dict.fromkeys(self.services, "--operator") | dict.fromkeys(HOSPITALS, "--entity")
        self.parties.run(*(self._new_keys(role, name) for name, role in roles.items()))
        self.tell("Everybody has made keys, and sent the public part to the author of the plan.")
        self._plan()
        self.parties.run(*(self._invitation(name) for name in HOSPITALS))
        self.tell("The plan is written: who takes part, how much noise. Each hospital has an invitation by mail.")

    def _new_keys(self, role: str, name: str) -> tuple[str, ...]:
        return (name, "keys", "new", role, name, "--keys", f"{name}.keys", "--output", f"{name}.pub")

    def _plan(self) -> None:
        writer = HOSPITALS[0] if self.asked.kind == "operators" else self.first
        public = [f"--public-key=../{name}/{name}.pub" for name in (*HOSPITALS, *self.services)]
        secure = ["--secure", "operators", "--floor", "3", "--writer", writer] if self.asked.kind == "operators" else []
        numbers = ["--n-users", str(self.asked.patients), "--mechanism", "gram", "--rank", "4", "--max-items", "20"]
        promise = ["--epsilon", "2", "--name", f"demonstration-{self.asked.kind}"]
        self.parties.run(
            (self.first, "plan", "new", "plan.toml", "--catalog", "../items.csv", *numbers, *promise, *secure, *public)
        )
        for name in self.services[1:]:
            for file in (self.folder / self.first).glob("plan.*"):
                (self.folder / name / file.name).write_bytes(file.read_bytes())
        agree = ("plan", "agree", "plan.toml", "--keys")
        self.parties.run(*((name, *agree, f"{name}.keys", "--output", "own.agreement") for name in self.services))
        if self.asked.kind == "operators":
            both = [f"../{name}/own.agreement" for name in self.services]
            self.parties.run(
                *((name, "plan", "agreed", "plan.toml", *both, "-o", "plan.agreed") for name in self.services)
            )

    def _invitation(self, hospital: str) -> tuple[str, ...]:
        """A hospital reaches the first service; it sends nothing to the other one, which gets its half from there."""
        where = ("--server", self._url(self.first), "--ca", "../ca.crt", "--certificate", "server.crt")
        files = ("--keys", f"{self.first}.keys", "--output", f"../{hospital}/demo.invitation")
        return (self.first, "invite", "--plan", "plan.toml", "--entity", hospital, *where, *files)

    # The federation.

    def take_part(self) -> bool:
        """Start services and hospitals, kill one hospital and start it again; whether the kill came in the middle."""
        for name in self.services:
            self._serve(name)
        for name in self.services:
            self._listening(name)
        self.tell(f"Listening with TLS, under an authority made just now: {' and '.join(self.services)}.")
        running = {name: self._join(name) for name in HOSPITALS}
        self.tell("Three hospitals type one command each: twofold join --invitation demo.invitation ...")
        killed = self._kill(running[KILLED])
        running[KILLED] = self._join(KILLED)
        self.tell(f"{KILLED} is started again with the same command.")
        for name, process in running.items():
            self.parties.finish(name, process, within=_PATIENCE)
            self.tell(f"{name} has the shared factors, and its own model.")
        return killed

    def _serve(self, name: str) -> None:
        host, port = self.network.address(name)
        peers = [one for one in self.services if one != name]
        other = ["--peer", self._url(peers[0]), "--ca", "../ca.crt"] if peers else []
        keys = ["--keys", f"{name}.keys", "--certificate", "server.crt", "--key", "server.key"]
        self.parties.start(
            name, "coordinate", "--plan", "plan.toml", *keys, "--listen", f"{host}:{port}", "--state", "state",
            "--poll", "0.2", *other,
        )  # fmt: skip

    def _listening(self, name: str) -> None:
        self._until(lambda: "listening on" in self.parties.printed(name), f"{name} does not listen", name)

    def _join(self, name: str) -> subprocess.Popen[bytes]:
        columns = ("--user", "patient", "--item", "drug", "--value", "times")
        own = ("--keys", f"{name}.keys", "--ledger", f"{name}.ledger", "--new-ledger", "--data", "orders.csv")
        answers = ("--agree", "--confirm", "--confirm-useless", "--poll", "0.2")
        return self.parties.start(
            name, "join", "--invitation", "demo.invitation", *own, *columns, *answers, "-o", f"{name}.model"
        )

    def _kill(self, process: subprocess.Popen[bytes]) -> bool:
        """Kill a hospital as soon as its ledger has a record: from then on a second draw would cost a second time."""
        self._until(lambda: self._records(KILLED) > 0, f"{KILLED} has drawn nothing", KILLED)
        process.kill()
        code, model = process.wait(), self.folder / KILLED / f"{KILLED}.model"
        killed = code == -signal.SIGKILL and not model.exists()
        self.tell(f"kill -9 {KILLED}: its ledger says that its message is paid for, and it has no model yet.")
        return killed

    def _records(self, name: str) -> int:
        with suppress(LedgerBroken):  # not there yet, or being written
            return len(Ledger(self.folder / name / f"{name}.ledger").state().entries)
        return 0

    def _until(self, is_true: Callable[[], bool], otherwise: str, party: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not is_true():
            if time.monotonic() > until:
                raise NotReady(f"{otherwise}.", found=self.parties.printed(party)[-2_000:])
            time.sleep(0.02)

    # Afterwards.

    def check(self, start: float, *, killed: bool) -> Outcome:
        """Look at ledgers, logs and models, as an auditor would."""
        releases, recommended = {}, {}
        for name in HOSPITALS:
            place = self.folder / name
            ledger = Ledger(place / f"{name}.ledger")
            ledger.verify(key=self._public(name).sign)
            releases[name] = len(ledger.state().entries)
            model = Model.load(place / f"{name}.model")
            patient = model.history.user_ids[0]
            recommended[name] = tuple(str(one.item) for one in model.recommend(patient, 3))
            self.tell(f"{name} recommends for its first patient: {', '.join(recommended[name])}")
        events = {}
        for name in (*self.services, *HOSPITALS):
            [log] = (self.folder / name).glob("state/*/audit.log" if name in self.services else f"{name}.log")
            events[name] = verify_log(log, keys=[self._public(name).sign]).entries
        found = Outcome(
            network=self.network.name,
            seconds=time.monotonic() - start,
            killed=killed,
            releases=releases,
            events=events,
            recommended=recommended,
        )
        self._verdict(found)
        return found

    def _public(self, name: str) -> Identity:
        return Identity.from_text((self.folder / name / f"{name}.pub").read_text())

    def _verdict(self, found: Outcome) -> None:
        counts = ", ".join(f"{name} {count}" for name, count in found.releases.items())
        self.tell(f"Check: releases in each ledger: {counts}. Exactly one each, also where a kill came between.")
        lines = ", ".join(f"{name} {count}" for name, count in found.events.items())
        self.tell(f"Check: logs whose chain and signatures are right, with their lines: {lines}.")
        self.tell("Everything is as promised." if found.is_good else "NOT AS PROMISED.")


@contextmanager
def _orderly() -> Iterator[None]:
    """Let signals that end a program run the clean-up first."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {one: signal.signal(one, leave) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def main(arguments: Sequence[str]) -> int:
    """Run one or both kinds; exit code 0 if everything was as promised."""
    parser = argparse.ArgumentParser(prog="python -m studies federation", description=__doc__)
    parser.add_argument("--kind", choices=(*SERVICES, "both"), default="both")
    parser.add_argument("--patients", type=int, default=Demonstration.patients, help="of each hospital, about")
    parser.add_argument("--items", type=int, default=Demonstration.items)
    parser.add_argument("--seed", type=int, default=Demonstration.seed, help="of the simulator; noise has none")
    parser.add_argument("--loopback", action="store_true", help="do without network namespaces")
    asked = parser.parse_args(arguments)
    kinds: list[Kind] = ["plain", "operators"] if asked.kind == "both" else [asked.kind]
    good, start = True, time.monotonic()
    with _orderly():
        for kind in kinds:
            settings = Demonstration(
                kind=kind, patients=asked.patients, items=asked.items, seed=asked.seed, loopback=asked.loopback
            )
            before = _cpu()
            with tempfile.TemporaryDirectory(prefix="twofold-federation-") as folder:
                found = demonstrate(settings, Path(folder), say=lambda text: print(text, flush=True))
            good = good and found.is_good
            print(f"{_TITLES[kind]}: {found.seconds:.0f} s, {_cpu() - before:.0f} s of processor time.\n", flush=True)
    print(f"{'Done' if good else 'FAILED'}: {len(kinds)} in {time.monotonic() - start:.0f} s.")
    return 0 if good else 1


def _cpu() -> float:
    """Seconds of processor time of all parties that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
