"""The security log: a fixed list of events, every change seen, every kill survived, readable with no other right."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, LogBroken
from twofold.identity import log as module
from twofold.identity.log import Entry, Event, LogIncomplete, SecurityLog, read_log, verify_log
from twofold.identity.log_entry import FIELDS, LONGEST
from twofold.identity.policy import RULES
from twofold.storage import files
from twofold.storage.files import locked
from twofold.storage.signing import SigningKey

KEY, OTHER = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)
PLAN, DIGEST = "ab" * 32, "cd" * 32
EXAMPLES: dict[Event, dict[str, Any]] = {
    Event.KEY_MADE: {"name": "st-anna", "key": KEY.public.hex()},
    Event.PLAN_AGREED: {"plan": PLAN},
    Event.PLAN_CONFIRMED: {"plan": PLAN},
    Event.POLICY_REFUSED: {"plan": PLAN, "policy": DIGEST, "rules": ["max_epsilon", "min_users"]},
    Event.DRAFT_MADE: {
        "plan": PLAN,
        "policy": DIGEST,
        "draft": DIGEST,
        "version": "2020 ε",
        "epsilon": "1/3",
        "delta": "0",
    },
    Event.APPROVED: {"plan": PLAN, "draft": DIGEST, "approver": "officer", "key": KEY.public.hex()},
    Event.RELEASED: {"plan": PLAN, "digest": DIGEST},
    Event.SENT: {"plan": PLAN, "digest": DIGEST},
    Event.RECEIVED: {"plan": PLAN, "digest": DIGEST},
    Event.MODEL_MADE: {"plan": PLAN, "factors": DIGEST},
    Event.STARTED: {"plan": PLAN},
    Event.ACCEPTED: {"plan": PLAN, "step": "rounds", "entity": "st-anna", "digest": DIGEST, "carrier": "st-bern"},
    Event.CONFLICT: {"plan": PLAN, "step": "rounds", "entity": "st-anna", "digest": DIGEST, "carrier": "st-anna"},
    Event.CLOSED: {"plan": PLAN, "step": "rounds"},
    Event.PUBLISHED: {"plan": PLAN, "step": "rounds", "digest": DIGEST},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "st-anna.log"


def filled(path: Path, signer: SigningKey | None = KEY, number: int = 4) -> SecurityLog:
    log = SecurityLog(path, signer, entity="st-anna")
    for turn in range(number):
        log.add(Event.SENT, plan=PLAN, digest=f"{turn:064x}")
    return log


def test_every_event_is_written_and_read(path: Path) -> None:
    log = SecurityLog(path, KEY, entity="st-anna")
    made = [log.add(event, **fields) for event, fields in EXAMPLES.items()]
    found = list(read_log(path))
    assert found[1:] == made
    assert {one.event for one in found} | {Event.REPAIRED} == set(Event) == set(FIELDS)
    assert [one.number for one in found] == list(range(len(found)))
    assert all(one.signed_by([KEY.public]) and not one.signed_by([OTHER.public]) for one in found)
    assert all(one.text.isprintable() and one.text.isascii() for one in found)
    verdict = verify_log(path, keys=[KEY.public], head=made[3].hash)
    assert (verdict.entries, verdict.head, verdict.entity) == (len(found), made[-1].hash, "st-anna")
    assert (verdict.signed, verdict.repairs, verdict.clock_back, verdict.torn) == (True, 0, 0, False)


def test_the_file_is_for_its_owner_and_a_group(path: Path) -> None:
    before = os.umask(0)
    try:
        filled(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("event", list(EXAMPLES))
def test_no_event_takes_another_field_or_free_text(event: Event, path: Path) -> None:
    log, fields = SecurityLog(path), EXAMPLES[event]
    with refused(BadMessage, "fields"):
        log.add(event, **fields, user="17")
    for name in fields:
        with refused(BadMessage, "fields"):
            log.add(event, **{key: value for key, value in fields.items() if key != name})
        for bad in ("patient 17 has diabetes\n", "x" * 300, "", None, 5.5, -1, True, [], ["free text"], {}):
            with refused(BadMessage, name):
                log.add(event, **{**fields, name: bad})
    assert not path.exists()


@pytest.mark.parametrize("bad", ["1e99999999", "inf", "-1", "1/", "0.5", "9" * 200, "1/2/3", "１"])
def test_an_amount_is_a_plain_fraction(bad: str, path: Path) -> None:
    with refused(BadMessage, "epsilon"):
        SecurityLog(path).add(Event.DRAFT_MADE, **{**EXAMPLES[Event.DRAFT_MADE], "epsilon": bad})


def test_what_the_log_writes_by_itself_is_not_taken_from_outside(path: Path) -> None:
    for event, fields in (
        (Event.REPAIRED, {"bytes": 3, "digest": DIGEST}),
        (Event.LOG_OPENED, {"entity": "x", "schema": "twofold.log/1"}),
    ):
        with refused(LogBroken, "event"):
            SecurityLog(path).add(event, **fields)


def test_the_longest_line_can_be_read(path: Path) -> None:
    log = SecurityLog(path, KEY)
    log.add(Event.POLICY_REFUSED, plan=PLAN, policy=DIGEST, rules=list(RULES))
    amounts = {"epsilon": f"{'9' * 130}/{'8' * 130}", "delta": f"{'9' * 130}/{'8' * 130}"}
    log.add(Event.DRAFT_MADE, plan=PLAN, policy=DIGEST, draft=DIGEST, version="\U0001f600" * 64, **amounts)
    assert max(len(line) for line in path.read_bytes().splitlines()) < LONGEST
    assert verify_log(path, keys=[KEY.public]).entries == 3


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a line removed": lambda lines: lines[:2] + lines[3:],
    "the first line removed": lambda lines: lines[1:],
    "two lines swapped": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "a line twice": lambda lines: [*lines[:2], lines[1], *lines[2:]],
    "a byte changed": lambda lines: [lines[0], lines[1].replace(b"sent", b"lost"), *lines[2:]],
    "a digest changed": lambda lines: [*lines[:2], lines[2].replace(b'"digest":"0', b'"digest":"1'), *lines[3:]],
    "the last line damaged": lambda lines: [*lines[:-1], lines[-1].replace(b"sent", b"sEnt")],
    "a space": lambda lines: [*lines[:2], lines[2].replace(b":", b": ", 1), *lines[3:]],
    "an empty line": lambda lines: [*lines[:2], b"\n", *lines[2:]],
    "an empty last line": lambda lines: [*lines, b"\n"],
    "windows line ends": lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
    "nothing": lambda lines: lines[:0],
}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("signer", [KEY, None], ids=["signed", "plain"])
def test_every_change_is_seen(change: str, signer: SigningKey | None, path: Path) -> None:
    filled(path, signer)
    path.write_bytes(b"".join(CHANGES[change](path.read_bytes().splitlines(keepends=True))))
    with refused(LogBroken, "log"):
        verify_log(path)


def test_every_flipped_bit_is_seen(path: Path) -> None:
    filled(path, number=2)
    sound = path.read_bytes()
    for place in range(0, len(sound), 11):
        changed = bytearray(sound)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(LogBroken):
            verify_log(path, keys=[KEY.public])


def rewritten(path: Path, signer: SigningKey | None) -> None:
    """The whole chain made anew with another story, as somebody can who may write the file."""
    last, lines = None, []
    for one in read_log(path):
        fields = {**one.fields, **({"digest": "00" * 32} if one.event is Event.SENT else {})}
        last = Entry.after(last, one.event, fields, at=one.at, signer=signer)
        lines.append(last.line)
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("forger", [None, OTHER])
def test_a_chain_written_anew_shows_by_its_signature_and_by_a_noted_head(forger: SigningKey | None, path: Path) -> None:
    log = filled(path)
    head = verify_log(path).head
    rewritten(path, forger)
    assert verify_log(path).entries == 5  # the chain alone cannot show it
    with refused(LogBroken, "log"):
        verify_log(path, keys=[KEY.public])
    with refused(LogBroken, "log"):
        verify_log(path, head=head)
    before = path.read_bytes()
    with pytest.raises(LogBroken):  # the next event must not give a forged history a true signature
        log.add(Event.SENT, plan=PLAN, digest=DIGEST)
    assert path.read_bytes() == before


def test_signatures_cannot_be_taken_off(path: Path) -> None:
    log = filled(path)
    path.write_bytes(re.sub(rb'"signature":"[0-9a-f]*"', b'"signature":""', path.read_bytes()))
    with refused(LogBroken, "log"):
        verify_log(path, keys=[KEY.public])
    with refused(LogBroken, "key"):
        log.add(Event.SENT, plan=PLAN, digest=DIGEST)


def test_a_signed_log_is_not_continued_without_a_key(path: Path) -> None:
    filled(path)
    with refused(LogBroken, "key"):
        SecurityLog(path).add(Event.SENT, plan=PLAN, digest=DIGEST)


def test_a_new_key_continues_the_log_of_the_old_one(path: Path) -> None:
    filled(path)
    with refused(LogBroken, "log"):
        SecurityLog(path, OTHER).add(Event.PLAN_AGREED, plan=PLAN)
    SecurityLog(path, OTHER, earlier=[KEY.public]).add(Event.PLAN_AGREED, plan=PLAN)
    assert verify_log(path, keys=[OTHER.public, KEY.public]).signed
    for key in (KEY, OTHER):
        with refused(LogBroken, "log"):
            verify_log(path, keys=[key.public])


def test_lines_removed_from_the_end_show_against_a_noted_head(path: Path) -> None:
    log = filled(path)
    head = verify_log(path).head
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert verify_log(path, keys=[KEY.public]).entries == 4
    with refused(LogBroken, "log"):
        verify_log(path, keys=[KEY.public], head=head)
    log.add(Event.RELEASED, plan=PLAN, digest=DIGEST)
    with refused(LogBroken, "log"):
        verify_log(path, keys=[KEY.public], head=head)


def test_a_line_torn_at_every_byte_is_repaired_and_recorded(path: Path) -> None:
    log = filled(path, number=1)
    before = path.read_bytes()
    log.add(Event.RELEASED, plan=PLAN, digest=DIGEST)
    line = path.read_bytes()[len(before) :]
    for kept in sorted({*range(1, len(line), 7), len(line) - 2, len(line) - 1}):
        path.write_bytes(before + line[:kept])
        complete = kept == len(line) - 1
        assert verify_log(path, keys=[KEY.public]).torn
        log.add(Event.SENT, plan=PLAN, digest=DIGEST)
        verdict = verify_log(path, keys=[KEY.public])
        assert (verdict.repairs, verdict.entries, verdict.torn) == (not complete, 4, False)
        assert path.read_bytes().startswith(before + line[:kept] + b"\n")  # nothing is taken away


def test_a_repair_torn_at_every_byte_is_repaired_in_turn(path: Path) -> None:
    log = filled(path, number=1)
    torn = path.read_bytes() + b'{"at":"20'
    path.write_bytes(torn)
    log.add(Event.SENT, plan=PLAN, digest=DIGEST)
    more = path.read_bytes()[len(torn) :]
    for kept in sorted({*range(0, len(more), 23), *(more.index(b"}\n") + place for place in range(-1, 3))}):
        path.write_bytes(torn + more[:kept])
        log.add(Event.SENT, plan=PLAN, digest=DIGEST)
        verdict = verify_log(path, keys=[KEY.public])
        assert 1 <= verdict.repairs <= 2
        assert [one.event for one in read_log(path)][-1] is Event.SENT


def test_a_torn_line_cannot_be_used_to_hide_one(path: Path) -> None:
    """A repair names the bytes it repairs: others in their place are seen."""
    log = filled(path, number=1)
    torn = path.read_bytes() + b'{"at":"20'
    path.write_bytes(torn)
    log.add(Event.SENT, plan=PLAN, digest=DIGEST)
    for other in (b'{"at":"21', b"", b'{"at":"20\n{'):
        changed = path.read_bytes().replace(b'{"at":"20\n', other + b"\n" if other else b"")
        copy = path.with_name("copy")
        copy.write_bytes(changed)
        with refused(LogBroken, "log"):
            verify_log(copy)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("start", [0, 2])
def test_a_kill_at_every_step_leaves_a_sound_log(start: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, seen = filled(path, number=start), []
    before = path.read_bytes() if start else None
    monkeypatch.setattr(files, "_listener", seen.append)
    log.add(Event.RELEASED, plan=PLAN, digest=DIGEST)
    assert len(seen) >= 3
    for cut in range(len(seen)):
        path.unlink()
        if before is not None:
            path.write_bytes(before)
        left = iter(range(cut))

        def listen(name: str, left=left) -> None:
            if next(left, None) is None:
                raise Killed

        monkeypatch.setattr(files, "_listener", listen)
        with pytest.raises(Killed):
            log.add(Event.RELEASED, plan=PLAN, digest=DIGEST)
        monkeypatch.setattr(files, "_listener", None)
        log.add(Event.SENT, plan=PLAN, digest=DIGEST)
        assert verify_log(path, keys=[KEY.public]).repairs == 0
        assert [one.event for one in read_log(path)][-1] is Event.SENT


def test_a_clock_set_back_is_said_and_the_order_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SecurityLog(path, KEY)
    times = iter(
        ["2027-05-01T00:00:00Z"] * 2 + ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2027-06-01T00:00:00Z"]
    )
    monkeypatch.setattr(module, "_now", lambda: next(times))
    made = [log.add(Event.PLAN_AGREED, plan=PLAN) for _ in range(4)]
    assert [one.clock_back for one in made] == [False, True, False, False]
    assert "set back" in made[1].text
    assert verify_log(path).clock_back == 1
    hidden = path.read_bytes().replace(b'"clock_back":true,', b"")
    path.write_bytes(hidden)
    with refused(LogBroken, "log"):
        verify_log(path)


def test_a_step_tried_again_is_logged_once(path: Path) -> None:
    log = SecurityLog(path, KEY)
    first = log.add_once(Event.PLAN_AGREED, plan=PLAN)
    assert log.add_once(Event.PLAN_AGREED, plan=PLAN) == first
    log.add_once(Event.PLAN_AGREED, plan=DIGEST)
    assert verify_log(path).entries == 3
    with refused(LogBroken, "event"):
        log.add_once(Event.REPAIRED, bytes=3, digest=DIGEST)


def test_an_auditor_needs_no_right_but_to_read(path: Path) -> None:
    filled(path)
    (path.parent / "st-anna.log.lock").unlink()
    before = {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()}
    path.parent.chmod(0o555)
    path.chmod(0o440)
    try:
        with locked(path.parent.parent / f"{path.parent.name}.lock", wait=0):
            verify_log(path, keys=[KEY.public])
            assert len(list(read_log(path))) == 5
        assert {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()} == before
    finally:
        path.parent.chmod(0o755)
        (path.parent.parent / f"{path.parent.name}.lock").unlink()


def test_links_and_other_things_are_never_followed(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    filled(target)
    before = target.read_bytes()
    path.symlink_to(target)
    for act in (lambda: verify_log(path), lambda: SecurityLog(path, KEY).add(Event.PLAN_AGREED, plan=PLAN)):
        with refused(LogBroken, "log"):
            act()
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    with refused(LogBroken, "log"):
        SecurityLog(path, KEY).add(Event.PLAN_AGREED, plan=PLAN)
    path.unlink()
    lock = path.with_name(path.name + ".lock")
    lock.unlink(missing_ok=True)
    lock.symlink_to(target)
    with refused(LogBroken, "log"):
        SecurityLog(path, KEY).add(Event.PLAN_AGREED, plan=PLAN)
    lock.unlink()
    os.mkfifo(path)
    for act in (lambda: verify_log(path), lambda: SecurityLog(path, KEY).add(Event.PLAN_AGREED, plan=PLAN)):
        with refused(LogBroken, "log"):
            act()
    assert target.read_bytes() == before
    assert not (tmp_path / "nowhere").exists()


def test_a_log_that_cannot_be_written_stops_what_comes_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    with refused(LogBroken, "log", found="No space left"):
        log.add(Event.RELEASED, plan=PLAN, digest=DIGEST)
    with pytest.warns(LogIncomplete, match="sent"):  # the message has left: a refusal would not bring it back
        assert log.add_after(Event.SENT, plan=PLAN, digest=DIGEST) is None
    monkeypatch.undo()
    assert log.add_after(Event.SENT, plan=PLAN, digest=DIGEST) is not None
    missing = SecurityLog(path.parent / "none" / "st-anna.log")
    with refused(LogBroken, "log"):
        missing.add(Event.PLAN_AGREED, plan=PLAN)


def test_another_writer_is_waited_for_and_then_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    log = filled(path)
    with locked(path.with_name(path.name + ".lock"), wait=0), refused(LogBroken, "log"):
        log.add(Event.PLAN_AGREED, plan=PLAN)
    log.add(Event.PLAN_AGREED, plan=PLAN)


def test_two_processes_write_one_chain(path: Path) -> None:
    code = (
        "import sys; from twofold.identity.log import *;"
        "log = SecurityLog(sys.argv[1]);"
        "[log.add(Event.PLAN_AGREED, plan='ab' * 32) for _ in range(40)]"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    assert [one.wait(60) for one in writers] == [0, 0]
    assert verify_log(path).entries == 81


def test_a_writer_killed_at_any_moment_leaves_a_log_that_goes_on(path: Path) -> None:
    code = (
        "import sys; from twofold.identity.log import *; from twofold.storage.signing import SigningKey\n"
        "log = SecurityLog(sys.argv[1], SigningKey(bytes([1]) * 32)); print('ready', flush=True)\n"
        "while True: log.add(Event.PLAN_AGREED, plan='ab' * 32)"
    )
    for turn in range(4):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.05 + 0.037 * turn)
            writer.kill()
        SecurityLog(path, KEY).add(Event.SENT, plan=PLAN, digest=DIGEST)  # the lock went with its holder
        assert verify_log(path, keys=[KEY.public]).entries > 2 + turn


def test_an_empty_file_made_by_an_administrator_is_used(path: Path) -> None:
    path.touch(0o660)
    filled(path)
    assert verify_log(path, keys=[KEY.public]).entries == 5


def test_another_file_is_not_written_to(path: Path) -> None:
    for content in (b"notes", b"notes\nmore\n", b"\n", b"{}\n", b"x" * 100_000):
        path.write_bytes(content)
        with refused(LogBroken, "log"):
            SecurityLog(path, KEY).add(Event.PLAN_AGREED, plan=PLAN)
        assert path.read_bytes() == content


def test_a_large_file_takes_little_memory(path: Path) -> None:
    log = SecurityLog(path)
    log.add(Event.PLAN_AGREED, plan=PLAN)
    last, lines = list(read_log(path))[-1], []
    for _ in range(3_000):
        last = Entry.after(last, Event.PLAN_AGREED, {"plan": PLAN}, at=last.at)
        lines.append(last.line)
    path.write_bytes(path.read_bytes() + b"".join(lines))
    del lines
    tracemalloc.start()
    try:
        assert verify_log(path).entries == 3_002
        path.write_bytes(b"[" * 30_000_000)
        tracemalloc.reset_peak()
        with pytest.raises(LogBroken):
            verify_log(path)
        assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    finally:
        tracemalloc.stop()


def test_no_line_holds_more_than_the_list_says(path: Path) -> None:
    log = SecurityLog(path, KEY, entity="st-anna")
    for event, fields in EXAMPLES.items():
        log.add(event, **fields)
    for line in path.read_text().splitlines():
        record = json.loads(line)
        assert set(record) <= {"number", "at", "event", "fields", "previous", "hash", "signature", "clock_back"}
        assert set(record["fields"]) == set(FIELDS[Event(record["event"])])
