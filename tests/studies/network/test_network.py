"""The laboratory of the network at tiny sizes: it finds what must not happen, and a real service passes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks._kill_points import NEVER, SINGLE, Places
from studies.network import flower
from studies.network.actors import Scene, rehearse, run_together
from studies.network.crash import _Seen, check
from studies.network.disk import cases, faults_report
from studies.network.hostile import ATTACKS, Hostile, Row, hostile
from studies.network.hostile import report as hostile_report
from studies.network.load import Load, Size, loads
from studies.network.load import report as load_report
from studies.network.place import Usage
from studies.network.run import written
from studies.network.soak import Soak, soak
from studies.network.tally import Tally, joined, report
from tests.enrolled import OPERATOR
from twofold.entity.agent import Entity
from twofold.federation.mailbox import ROUNDS
from twofold.storage import files as disk

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
ROOT = Path(__file__).parents[3]
BIG = 10**6


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Scene, Path, _Seen]:
    """A federation that nobody killed, as it is on the disk and as it was seen."""
    monkeypatch.setattr(Entity, "_draw", Entity._draw)  # both are replaced by the run, and put back afterwards
    monkeypatch.setattr(disk, "_listener", None)
    scene, seen = Scene("plain"), _Seen()
    scene.prepare(tmp_path / "plain")

    def tell(line: str) -> None:
        seen.hear("both", line, Tally())

    run_together(scene, tmp_path / "plain", tell, Places(NEVER, tell))
    seen.ended = True
    return scene, tmp_path / "plain", seen


def counted(scene: Scene, place: Path, seen: _Seen) -> dict[str, Any]:
    tally = Tally()
    check(scene, place, seen, tally)
    return {name: value for name, value in vars(tally).items() if value and isinstance(value, int)}


def test_a_federation_without_kills_has_nothing_to_complain_about(ended: tuple[Scene, Path, _Seen]) -> None:
    assert counted(*ended) == {"acknowledged": 6, "releases": 3}


def test_the_check_finds_what_must_not_happen(ended: tuple[Scene, Path, _Seen]) -> None:
    scene, place, seen = ended
    other, first = "0" * 64, scene.names[0]
    seen.acknowledged.add((ROUNDS.id.value, first, other))
    assert counted(*ended)["lost"] == 1
    seen.tried[first, ROUNDS.id.value].add(other)
    assert counted(*ended)["second_releases"] == 1
    seen.drawn[first].add(other)
    assert counted(*ended)["changed_draws"] == 1
    seen.factors.add(other)
    assert counted(*ended)["different_factors"] == 1
    log = place / "state" / scene.plan.hash / "audit.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-2]))  # the publication, and a message
    assert counted(*ended)["broken_logs"] == 1
    mark = min(one for _, _, one in seen.acknowledged - {(ROUNDS.id.value, first, other)})
    (place / "state" / scene.plan.hash / "objects" / mark[:2] / mark).write_bytes(b"something else")
    log.write_bytes(b"".join(lines))
    seen.ended = False
    assert counted(*ended)["lost"] == 2


def test_a_rehearsal_of_peers_ends(tmp_path: Path) -> None:
    scene = Scene("peers")
    scene.prepare(tmp_path / "peers")
    rehearse(scene, tmp_path / "peers")
    assert (tmp_path / "peers" / "state" / scene.plan.hash / "service.db").exists()


def _crash(folder: Path, *given: str) -> Tally:
    command = [sys.executable, "-m", "studies", "network", "--folder", str(folder), "crash", "--worker", "7", *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | SINGLE)
    assert done.returncode == 0, done.stderr[-2000:]
    return joined([json.loads(done.stdout.splitlines()[-1])])


def test_kills_lose_nothing(fast_disk: Path) -> None:
    tally = _crash(fast_disk, "--together", "4", "--seed", "3")
    assert (tally.failures, tally.with_a_kill, tally.finished) == (0, 4, tally.federations)
    assert min(tally.kills_of_service, tally.acknowledged, tally.releases) > 0
    assert f"| federations finished | {tally.finished} of {tally.finished} | all |" in report(tally)


def test_a_run_that_is_asked_to_end_tells_its_counts(fast_disk: Path) -> None:
    command = [sys.executable, "-m", "studies", "network", "--folder", str(fast_disk), "crash", "--workers", "1"]
    with subprocess.Popen([*command, "--runs", "1000"], stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        until = time.monotonic() + 120
        while not list(fast_disk.glob("worker--runs-0/run-0000[1-9]")) and time.monotonic() < until:
            time.sleep(0.05)
        running.terminate()
        table, _ = running.communicate()
    assert running.returncode == 0
    assert "| submissions acknowledged and lost | 0 | 0 |" in table
    assert "| federations finished | 0 of 0 | all |" not in table


@pytest.mark.slow
def test_kills_of_two_processes_lose_nothing(fast_disk: Path) -> None:
    tally = _crash(fast_disk, "--runs", "40", "--seed", "5")
    assert (tally.failures, tally.with_a_kill) == (0, 40)
    assert min(tally.kills_of_service, tally.kills_of_entities, tally.drawn_again) > 0


def test_some_hostile_uploads_are_refused(tmp_path: Path) -> None:
    found = hostile(tmp_path, only="cross-")
    assert [row.found for row in found.rows] == ["422", "401", "422"]
    assert found.sound
    assert "| answers of 500 and more | 0 | 0 |" in hostile_report(found)


@pytest.mark.slow
def test_all_hostile_uploads_are_refused(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    assert [row.name for row in found.rows if not row.sound] == []
    assert found.sound
    assert len(found.rows) == len(ATTACKS) > 50


def test_the_table_of_attacks_shows_what_is_wrong() -> None:
    assert Row("a", "400 or 413", "413").sound
    assert not Row("a", "400", "201").sound
    bad = Hostile(rows=[Row("a", "401", "201")], alive=True)
    assert not bad.sound
    assert "| a | 401 | 201 | WRONG |" in hostile_report(bad)
    assert Hostile(alive=True).sound
    assert not Hostile(alive=True, faults=1).sound
    assert not Hostile(alive=True, taken_from_strangers=1).sound


def test_a_small_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "PROGRAMS", tmp_path)
    ours, other = loads(tmp_path, sizes=[Size(entities=3, items=20)])
    assert (ours.accepted, len(ours.each), ours.sound) == (3, 3, True)
    assert ours.published is not None
    assert "make flower" in other.missing
    assert len({line.count("|") for line in load_report([ours, other])}) == 1


@pytest.mark.slow
@pytest.mark.skipif(not (flower.PROGRAMS / "twofold-flower").exists(), reason="no environment of Flower: make flower")
def test_a_small_load_of_flower(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    for name in "abc":
        (tmp_path / "messages" / name).write_bytes(name.encode() * 1000)
    (tmp_path / "place").mkdir()
    found = flower.measured(tmp_path / "place", Size(entities=3, items=20), tmp_path / "messages")
    assert (found.accepted, found.bytes, found.missing) == (3, 1000, "")
    assert found.peak_in_all > found.peak > 0


def test_a_load_that_loses_or_swells_is_not_sound() -> None:
    given = {"engine": "a", "size": Size(entities=2, items=9), "bytes": 9, "seconds": 1.0, "each": (1.0, 1.0)}
    assert Load(accepted=2, **given).sound  # type: ignore[arg-type]
    assert not Load(accepted=1, **given).sound  # type: ignore[arg-type]
    assert not Load(accepted=2, peak_in_all=BIG, **given).sound  # type: ignore[arg-type]
    assert Load(accepted=2, peak_in_all=BIG, limited=False, **given).sound  # type: ignore[arg-type]


def test_a_short_soak(tmp_path: Path) -> None:
    seen = soak(tmp_path, seconds=4.0, every=0.5, pause=0.0)
    assert seen.faults == 0
    assert {200, 401} <= set(seen.answers)
    assert len(seen.samples) == len(seen.seconds) > 3
    assert "answers of 500 and more: 0." in seen.report()[-1]


def test_growth_is_noticed() -> None:
    hours = [number * 60.0 for number in range(30)]
    steady = [Usage(megabytes=90.0 + number % 2, descriptors=12, files=9) for number in range(30)]
    assert Soak(seconds=hours, samples=steady).sound
    for change in ({"megabytes": 2.0}, {"descriptors": 1}, {"files": 1}):
        (name, by) = next(iter(change.items()))
        grown = [Usage(**(vars(one) | {name: getattr(one, name) + by * n})) for n, one in enumerate(steady)]
        assert not Soak(seconds=hours, samples=grown).sound


@pytest.mark.slow
def test_a_full_disk_and_wrong_clocks_lose_nothing(tmp_path: Path) -> None:
    sound, lines = faults_report(tmp_path)
    assert sound, lines
    assert len(lines) == 5
    assert all(one.sound for one in cases(tmp_path / "again"))


def test_tables_go_where_their_marks_are() -> None:
    page = (ROOT / "docs/results/network.md").read_text()
    for name in ("load", "hostile", "crash", "soak"):
        assert f"| {OPERATOR} |" in written(page, name, f"| {OPERATOR} |")
