"""A disk that is full and clocks that differ: what the service answers, and that it goes on afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from studies.network.place import Place, Process
from tests.enrolled import Enrolled, enrolled
from tests.served import NAMES, release_of
from twofold.errors import TwofoldError
from twofold.federation import wire
from twofold.federation.https import HttpsMailbox
from twofold.federation.mailbox import ROUNDS, NothingYet
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.log import verify_log
from twofold.server.service.store import Store

__all__ = ["Case", "cases", "faults_report"]

#: Seconds to wait for the item factors.
PATIENCE: Final = 60.0
#: Messages of 162 kB, larger than everything else.
_CATALOG: Final = CatalogKey(hash="0" * 64, n_items=200)
_GIVEN: Final = {"feedback": "counts", "bound": 5, "max_items": 2, "rank": 2}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What came of one fault: the answers meanwhile, and the federation afterwards."""

    name: str
    intended: str
    found: str
    lost: int = 0
    finished: bool = True

    @property
    def sound(self) -> bool:
        """Whether it ended as intended."""
        allowed = self.intended.replace(" or ", " ").split()
        return set(self.found.replace(",", " ").split()) <= set(allowed) and self.lost == 0 and self.finished


def cases(folder: Path) -> list[Case]:
    """Run all of them, each with a federation of its own."""
    found = []
    for number, run in enumerate((_full_disk, _clock_ahead, _clock_behind)):
        place = folder / f"fault-{number}"
        place.mkdir(parents=True)
        made = enrolled(Plan(catalog=_CATALOG, mechanism="gram", n_users=100, **_GIVEN), *NAMES)
        found.append(run(Place(place, made), made))
    return found


def _full_disk(place: Place, made: Enrolled) -> Case:
    """Files may not grow beyond some bytes: too few for the log, then for the database, then for a message."""
    sent = {name: release_of(made, name) for name in NAMES}
    answers: set[str] = set()
    taken: dict[str, str] = {}
    with place.started() as process:  # its database and its log are there before the disk is full
        taken |= _send(place, process, made, {NAMES[0]: sent[NAMES[0]]}, answers)
    for limit in (*range(1_500, 12_000, 1_500), 40_000, len(sent[NAMES[1]]) - 1):
        with suppress(RuntimeError), place.started(file_limit=limit) as process:  # it may refuse to start at all
            taken |= _send(place, process, made, {NAMES[1]: sent[NAMES[1]]}, answers)
            assert process.process.poll() is None
    return _afterwards(place, made, sent, taken, answers, name="disk full", intended="200 or 201 or 507", met="507")


def _clock(skew: float, name: str) -> Callable[[Place, Enrolled], Case]:
    def run(place: Place, made: Enrolled) -> Case:
        sent = {name: release_of(made, name) for name in NAMES}
        answers: set[str] = set()
        with place.started(skew=skew) as process:
            taken = _send(place, process, made, sent, answers)
        return _afterwards(place, made, sent, taken, answers, name=name, intended="401 or 201", met="401")

    return run


_clock_ahead = _clock(3600.0, "clock of the service an hour ahead")
_clock_behind = _clock(-3600.0, "clock of the service an hour behind")


def _send(place: Place, process: Process, made: Enrolled, sent: dict[str, bytes], answers: set[str]) -> dict[str, str]:
    """Upload; note the statuses, and give the receipts of what was acknowledged."""
    taken = {}
    for name, data in sent.items():
        with place.client(process.url, made, name) as client:
            path = wire.message_path(made.plan.hash, ROUNDS.id, name)
            try:
                status = client.ask("PUT", path, body=data).status
            except TwofoldError as error:
                status = int(str(error.found).rpartition(" ")[2]) if "status" in str(error.found) else 0
        answers.add(str(status))
        if status in (200, 201):
            taken[name] = wire.digest_of(data)
    return taken


def _afterwards(
    place: Place, made: Enrolled, sent: dict[str, bytes], taken: dict[str, str], answers: set[str], **given: Any
) -> Case:
    """Start the service as it should be; everything acknowledged must be there, and the federation must end."""
    meanwhile = set(answers)
    with place.started() as process:
        taken |= _send(place, process, made, sent, answers)
        with place.client(process.url, made, NAMES[0]) as client:
            box, until = HttpsMailbox(client, made.plan), time.monotonic() + PATIENCE
            while isinstance(data := box.fetch(ROUNDS), NothingYet) and time.monotonic() < until:
                time.sleep(0.1)
    store = Store(place.state / made.plan.hash, made.plan)
    lost = sum(store.receipt_of(ROUNDS, name) != mark for name, mark in taken.items())
    lost += sum(store.read(mark, 1 << 20) != sent[name] for name, mark in taken.items())
    store.close()
    verify_log(place.state / made.plan.hash / "audit.log")
    met = given.pop("met") in meanwhile  # otherwise the case shows nothing
    finished = met and not isinstance(data, NothingYet) and len(taken) == len(sent)
    return Case(found=", ".join(sorted(answers)), lost=lost, finished=finished, **given)


def faults_report(folder: Path) -> tuple[bool, list[str]]:
    """Run all cases; give whether all are sound, and the table as Markdown."""
    found = cases(folder)
    lines = [
        "| fault | statuses intended | found | acknowledged and lost | finished afterwards |",
        "|---|---|---|---:|---|",
    ]
    for one in found:
        end = "yes" if one.finished else "NO"
        lines.append(f"| {one.name} | {one.intended} | {one.found} | {one.lost} | {end} |")
    return all(one.sound for one in found), lines
