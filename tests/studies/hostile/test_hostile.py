"""Hostile files in small numbers: only our errors; and the harness sees what it must."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from studies.hostile import run as harness
from studies.hostile.mutate import mutated, reseal
from studies.hostile.parsers import PARSERS, Parser
from studies.hostile.planted import PLANTS
from studies.hostile.run import Case, Outcome, attempt, case, main
from twofold.errors import BadMessage, TransportError
from twofold.storage.container import is_sealed, open_container

#: Changed files of each parser, beside what is no file and files of other kinds. Bombs take time to unpack.
FEW, SOME = 8, 20
#: Seconds for all files of one parser, and bytes that they may add: a hang ends the test, a huge table not the machine.
PATIENCE, MEMORY = 60, 2 * 1024**3


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda _: None)

    def stop(*_: object) -> None:
        raise TimeoutError

    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (harness._megabytes("VmSize") * 1024**2 + MEMORY, before[1]))
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def tried(parser: Parser, data: bytes, folder: Path) -> tuple[str, bool]:
    return attempt(parser, Case(kind="x", data=data), folder)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PARSERS)
def test_hostile_files_give_only_our_errors(name: str, tmp_path: Path, limited: None) -> None:
    """Audit L1: about 30 kinds of foreign errors came from plans, keys, models, ledgers and tables."""
    parser = PARSERS[name]
    samples = parser.samples()
    for sample in samples:
        end, past = tried(parser, sample, tmp_path)
        assert end == "accepted"
        assert past or not parser.sealed
    faults, past_seal = [], 0
    plants, start = len(PLANTS) * parser.opens, len(PLANTS) * parser.opens + len(PARSERS)
    others = range(plants, start)[list(PARSERS).index(name) % 4 :: 4]  # every kind for some parsers; the study has all
    changed = range(start, start + (FEW if parser.form in ("public gzip", "number") else SOME))
    for number in (*range(plants), *(() if parser.form == "number" else others), *changed):
        given = case(parser, samples, number, seed=2)
        end, past = attempt(parser, given, tmp_path)
        past_seal += past
        if end.startswith("!"):
            faults.append((number, given.kind, end))
    assert not faults
    assert past_seal or not parser.sealed


def test_the_same_numbers_give_the_same_file() -> None:
    for name in ("plan", "keys", "survivors", "catalog.csv"):
        parser = PARSERS[name]
        samples = parser.samples()
        files = [case(parser, samples, number, seed=7) for number in range(100, 150)]
        assert files == [case(parser, samples, number, seed=7) for number in range(100, 150)]
        assert len({one.data for one in files}) > 40


def test_an_insider_makes_the_checksum_right() -> None:
    sample = PARSERS["plan's features"].samples()[0]
    changed = sample[:-3] + b"!!!"
    assert not is_sealed(changed, open_container(changed).record)
    again = reseal(changed)
    assert is_sealed(again, open_container(again).record)
    assert reseal(b"anything") == b"anything"


@pytest.mark.parametrize("name", [name for name, one in PARSERS.items() if one.insider is not reseal])
def test_an_insider_signs_what_is_unchanged(name: str, tmp_path: Path) -> None:
    """So the cases fail for what they change, not for their signature."""
    parser = PARSERS[name]
    for sample in parser.samples():
        end, past = tried(parser, parser.insider(sample), tmp_path)
        assert end == "accepted"
        assert past or not parser.sealed
        if parser.form != "bytes":
            assert parser.insider(b"anything").strip() == b"anything"


def test_an_insider_signs_other_content(tmp_path: Path) -> None:
    """Each is refused with the old signature and passes with a new one, so that what comes behind it is reached."""
    changes = {
        "public part": (b'"site-0"', b'"site-9"'),
        "approval": (b'"seen"', b'"fine"'),
        "card.json": (b'"St. Anna"', b'"St. Bern"'),
        "message signed": (b'note\\":\\"', b'note\\":\\"!'),
    }
    for name, (before, after) in changes.items():
        parser = PARSERS[name]
        sample = parser.samples()[0]
        assert before in sample, name
        changed = sample.replace(before, after)
        if parser.form == "container":
            changed = sample.replace(b"twofold ", b"twofoid ", 1)
        assert not tried(parser, changed, tmp_path)[1], name
        assert tried(parser, parser.insider(changed), tmp_path)[1], name


def test_every_form_changes_something() -> None:
    for parser in PARSERS.values():
        samples = parser.samples()
        given = {"insider": parser.insider, "changes": parser.changes}
        assert any(mutated(samples, parser.form, random.Random(seed), **given)[1] not in samples for seed in range(20))


def test_faults_are_seen(tmp_path: Path) -> None:
    def foreign(path: Path) -> object:
        raise KeyError(path.read_bytes())

    def loud(_: Path) -> object:
        raise BadMessage("\x1b[2J")

    def telling(_: Path) -> object:
        raise BadMessage("no such person.", found="patient-7")

    ends = [
        tried(Parser(name="x", form="bytes", samples=list, parse=parse), b"", tmp_path)[0]
        for parse in (foreign, loud, telling, Path.read_bytes)
    ]
    assert ends[0].startswith("!KeyError at test_hostile.py")
    assert [end[:12] for end in ends[1:3]] == ["!BadMessage "] * 2
    assert ends[3] == "accepted"
    outcome = Outcome(name="x", faults=["case 3 (flip): KeyError"], cases=9)
    assert not outcome.sound
    assert "| x | 9 |" in outcome.row()
    assert not Outcome(name="x", megabytes=5_000).sound
    assert Outcome(name="x").sound


def test_a_hang_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "PATIENCE", 0.3)
    code = "import time; print('{\"ready\": 1}', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert list(harness._lines(process)) == [{"ready": 1}, None]
    finally:
        process.kill()
        process.communicate()


def test_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", "30", "--only", "keys"]) == 0
    told = capsys.readouterr().out
    assert "| keys | 30 |" in told
    assert "30 files, 0 foreign" in told
    with pytest.raises(TransportError):  # a loop of links
        main(["--only", "public part", "--case", "3"])
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])


def test_a_worker_reports_every_case(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_limit", lambda _: None)  # this process goes on
    harness.work("survivors", 0, 3, seed=1)
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "ready" in records[0]
    assert [record["number"] for record in records if "end" in record] == [0, 1, 2]
