"""Operators over a transport: killed at any step, separate folders, strangers, the floor, the deadline."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from studies.operators.forge import OPERATORS, report
from tests.operators import Two
from tests.refused import refused
from twofold.errors import ConflictingMessage, PrivacyError, TooFewMessages
from twofold.federation.exchange import encode_freeze
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import DRAFTS, FREEZES, LISTS, REPORTS, REVEALS, InProcess, StepId
from twofold.federation.plan import Plan
from twofold.server.operate import operate, progress_of
from twofold.storage import files as disk

#: Looks after which all is published, of either operator in turn.
LOOKS = 5


class Crash(BaseException):
    """Stands for the end of the process."""


class Apart:
    """Each operator with an inbox and an outbox of its own; a carrier copies files in between."""

    def __init__(self, folder: Path, two: Two) -> None:
        self.two = two
        self.inboxes = [folder / f"in-{place}" for place in (0, 1)]
        self.outboxes = [folder / f"out-{place}" for place in (0, 1)]
        for one in (*self.inboxes, *self.outboxes):
            one.mkdir(parents=True)

    def box(self, place: int) -> ServerFolder:
        return ServerFolder(self.inboxes[place], self.outboxes[place], self.two.plan)

    def carry(self) -> None:
        for place in (0, 1):
            for path in self.outboxes[place].iterdir():
                shutil.copy(path, self.inboxes[1 - place] / path.name)

    def look(self, place: int, *, close: bool = False) -> bool:
        self.carry()
        return self.two.look(place, self.box(place), close=close, forward=True).published

    def sent(self, place: int, suffix: str) -> set[bytes]:
        return {path.read_bytes() for path in self.outboxes[place].glob(f"*.{suffix}")}

    def looks(self) -> Iterator[int]:
        for _ in range(LOOKS):
            yield from (0, 1)


def started(folder: Path) -> Apart:
    """Three entities, each of which sent its report to one operator only."""
    apart = Apart(folder / "boxes", Two(folder / "two"))
    for number, name in enumerate(apart.two.names):
        (apart.inboxes[number % 2] / f"{name}.report").write_bytes(apart.two.reports[name])
    return apart


def check_end(apart: Apart) -> None:
    """One final list and one sum of each, and the sum is right."""
    published = set[bytes]()
    for place in (0, 1):
        for suffix in ("freeze", "reveal", "round2"):
            assert len(apart.sent(place, suffix)) == 1, (place, suffix)
        published |= apart.sent(place, "round2")
        assert np.array_equal(apart.two.opened(place), apart.two.total())
    assert len(published) == 1


def run(apart: Apart, last: int | None, patch: pytest.MonkeyPatch) -> list[str]:
    """Let both look in turn, and kill the one that comes to the n-th step; it starts again."""
    seen: list[str] = []

    def count(name: str) -> None:
        seen.append(name)
        if len(seen) == last:
            raise Crash

    with patch.context() as patched:
        patched.setattr(disk, "_listener", count)
        for place in apart.looks():
            try:
                apart.look(place)
            except Crash:
                continue
    return seen


def test_reports_sent_to_one_operator_reach_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = started(tmp_path)
    steps = run(apart, None, monkeypatch)
    check_end(apart)
    assert {f"operator: send {one}" for one in ("bundles", "lists", "freezes", "reveals", "drafts")} <= {*steps}


def kill_at(steps: range, folder: Path, patch: pytest.MonkeyPatch) -> int:
    count = 0
    for last in steps:
        apart = started(folder / str(last))
        seen = run(apart, last, patch)
        if len(seen) < last:
            break
        check_end(apart)
        count += 1
        shutil.rmtree(folder / str(last))
    return count


@pytest.mark.parametrize("first", [5, 47, 89, 131])
def test_a_kill_at_some_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    assert kill_at(range(first, first + 1), tmp_path, monkeypatch) == 1


@pytest.mark.slow
def test_a_kill_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kill_at(range(1, 10_000), tmp_path, monkeypatch) > 100


def test_a_kill_after_every_store_and_send_of_an_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory of the mailbox: every announced store, commit and send, of both."""
    whole = _in_process(tmp_path / "whole", None, monkeypatch)
    ours = [number for number, name in enumerate(whole, 1) if name.startswith("operator: ")]
    for last in ours[::17]:
        _in_process(tmp_path / str(last), last, monkeypatch)


def _in_process(folder: Path, last: int | None, patch: pytest.MonkeyPatch) -> list[str]:
    two, box, seen = Two(folder), InProcess(), list[str]()
    for name in two.names:
        box.submit(REPORTS, two.reports[name], entity=name)

    def count(name: str) -> None:
        seen.append(name)
        if len(seen) == last:
            raise Crash

    with patch.context() as patched:
        patched.setattr(disk, "_listener", count)
        for place in (0, 1) * LOOKS:
            try:
                two.look(place, box)
            except Crash:
                continue
    assert box.published(REPORTS) is not None
    assert np.array_equal(two.opened(0), two.total())
    assert sorted(one.entity for one in box.submissions(REVEALS)) == [*OPERATORS]
    return seen


def test_a_shared_drive_with_strangers(tmp_path: Path) -> None:
    two, drive = Two(tmp_path / "two"), tmp_path / "drive"
    drive.mkdir()
    for name in two.names:
        (drive / f"{name}.report").write_bytes(two.reports[name])
    (drive / "nonsense.report").write_bytes(b"nonsense")
    (drive / "other.report").write_bytes(report(two.made, two.names[0], two.numbers[two.names[0]], plan=two.made.other))
    box = ServerFolder(drive, drive, two.plan)
    two.look(0, box)
    (sent,) = drive.glob("*.list")
    forged = bytearray(sent.read_bytes())
    forged[-1] ^= 1
    (drive / f"{OPERATORS[0]}.forged").write_bytes(forged)
    for place in (1, 0, 1, 0, 1, 0):
        seen = two.look(place, box)
    assert seen.published
    assert {one.name for one in seen.refused} >= {"other.report"}
    assert np.array_equal(two.opened(1), two.total())
    assert len([*drive.glob("*.round2")]) == 1


def test_below_the_floor_nothing_is_published_and_late_reports_count(tmp_path: Path) -> None:
    two, box = Two(tmp_path / "two"), InProcess()
    a, b, _ = two.names
    box.submit(REPORTS, two.reports[a], entity=a)
    for place in (0, 1):
        assert not two.look(place, box).can_close
        with refused(TooFewMessages, "secure.floor", found="1"):
            two.look(place, box, close=True)
    assert [*box.submissions(LISTS)] == []
    box.submit(REPORTS, two.reports[b], entity=b)
    assert two.look(0, box).can_close
    for place in (0, 1) * LOOKS:
        seen = two.look(place, box, close=True)
    assert (seen.published, seen.arrived) == (True, 2)
    assert np.array_equal(two.opened(0), two.total((a, b)))


def test_too_few_reports_in_common_are_said_and_made_up_for(tmp_path: Path) -> None:
    two, boxes = Two(tmp_path / "two"), (InProcess(), InProcess())
    a, b, c = two.names
    for place, names in ((0, (a, b)), (1, (b, c))):
        for name in names:
            boxes[place].submit(REPORTS, two.reports[name], entity=name)

    def carry() -> None:
        for step in (LISTS, FREEZES, REVEALS):
            for one, other in (boxes, boxes[::-1]):
                for found in one.submissions(step):
                    other.post(step, found.read())

    two.look(0, boxes[0], close=True)
    carry()
    with refused(TooFewMessages, "secure.floor", found="1"):
        two.look(1, boxes[1], close=True)
    carry()
    seen = two.look(0, boxes[0])
    assert (seen.step, seen.arrived, seen.quorum, seen.missing) == (StepId.REPORTS, 1, 2, (a, c))
    boxes[1].submit(REPORTS, two.reports[a], entity=a)
    for place in (1, 0, 1, 0):
        two.look(place, boxes[place])
        carry()
    assert np.array_equal(two.opened(0), two.total((a, b)))


def test_the_deadline_closes(tmp_path: Path) -> None:
    end = datetime(2027, 1, 1, tzinfo=UTC)
    two, box = Two(tmp_path / "two", deadline="2027-01-01T00:00:00Z"), InProcess()
    for name in two.names[:2]:
        box.submit(REPORTS, two.reports[name], entity=name)
    one = two.operator(0)
    assert operate(one, box, clock=lambda: end - timedelta(1)).step is StepId.REPORTS
    assert operate(one, box, clock=lambda: end).step is StepId.LISTS


def test_progress_names_the_operator_that_must_act(tmp_path: Path) -> None:
    two, box = Two(tmp_path / "two"), InProcess()
    assert two.look(0, box).missing == two.names
    for name in two.names:
        box.submit(REPORTS, two.reports[name], entity=name)
    steps = [(two.look(place, box), place) for place in (0, 1, 0, 1, 0, 1, 0)]
    waiting = [(seen.step, seen.missing) for seen, _ in steps if not seen.published]
    assert waiting == [
        (StepId.LISTS, (OPERATORS[1],)),
        (StepId.FREEZES, (OPERATORS[0],)),
        (StepId.FREEZES, (OPERATORS[1],)),
        (StepId.REVEALS, (OPERATORS[0],)),
        (StepId.DRAFTS, (OPERATORS[1],)),
    ]
    assert steps[-1][0].published
    assert progress_of(two.operator(1)).arrived == 3


def test_evidence_stops_an_operator_even_when_the_file_is_gone(tmp_path: Path) -> None:
    two, box = Two(tmp_path / "two"), InProcess()
    for name in two.names:
        box.submit(REPORTS, two.reports[name], entity=name)
    for place in (0, 1, 0):
        two.look(place, box)
    frozen = two.operator(0).freeze
    assert frozen is not None
    second = encode_freeze(
        two.plan, operator=OPERATORS[0], lists=frozen.lists, reports=frozen.reports, count=3, commitment="0" * 64,
        signer=two.made.operator(0).sign,
    )  # fmt: skip
    worse = InProcess()
    for data in (frozen.data, second):
        worse.post(FREEZES, data)
    for mailbox in (worse, box):
        with refused(ConflictingMessage, "operators"):
            two.look(1, mailbox)
    assert [one.entity for one in box.submissions(FREEZES)] == [OPERATORS[0]]


def test_an_older_state_sends_nothing(tmp_path: Path) -> None:
    two, box = Two(tmp_path / "two"), InProcess()
    for name in two.names:
        box.submit(REPORTS, two.reports[name], entity=name)
    two.look(1, box)
    two.look(0, box)
    shutil.rmtree(two.folder / OPERATORS[0])
    before = len([*box.submissions(FREEZES)])
    with refused(PrivacyError, "state"):
        two.look(0, box)
    assert len([*box.submissions(FREEZES)]) == before
    assert [*box.submissions(REVEALS)] == []


def test_several_processes_of_each_operator_at_once(tmp_path: Path) -> None:
    """Threads with files and locks of their own, as processes have them."""
    two, box = Two(tmp_path / "two"), InProcess()
    for name in two.names:
        box.submit(REPORTS, two.reports[name], entity=name)
    with ThreadPoolExecutor(6) as pool:
        for _ in range(LOOKS):
            done = [pool.submit(two.look, place, box) for place in (0, 1) * 3]
            for one in done:
                one.result()
    for step in (FREEZES, REVEALS, DRAFTS):
        assert sorted(one.entity for one in box.submissions(step)) == [*OPERATORS]
    assert box.published(REPORTS) is not None
    assert np.array_equal(two.opened(0), two.total())


@pytest.mark.parametrize("apart", [False, True])
def test_an_older_state_with_older_keys_sees_its_own_final_list(tmp_path: Path, apart: bool) -> None:
    """State and records beside the keys set back together: the files in the folders still show the first noise."""
    two = Two(tmp_path)
    boxes = _boxes(tmp_path, two.plan, apart=apart)
    for name in two.names:
        for box in boxes:
            (box.inbox / f"{name}.report").write_bytes(two.reports[name])
    two.look(1, boxes[1])
    _carry(boxes)
    two.look(0, boxes[0])  # the first operator freezes and says so
    assert two.operator(0).frozen
    shutil.rmtree(tmp_path / OPERATORS[0])
    for left in tmp_path.glob(f"{OPERATORS[0]}.keys.*"):
        left.unlink()
    for _ in range(2):
        with refused(PrivacyError, "state"):
            two.look(0, boxes[0])
    assert not two.operator(0).frozen
    assert len({path.name for box in boxes for path in box.outbox.glob("*.freeze")}) == 1


def _boxes(folder: Path, plan: Plan, *, apart: bool) -> list[ServerFolder]:
    if not apart:
        (folder / "box").mkdir()
        return [ServerFolder(folder / "box", folder / "box", plan)] * 2
    return [ServerFolder(folder / f"in-{place}", folder / f"out-{place}", plan) for place in (0, 1)]


def _carry(boxes: list[ServerFolder]) -> None:
    for box, other in (boxes, boxes[::-1]):
        for path in box.outbox.iterdir():
            if other.inbox.resolve() != box.outbox.resolve():
                shutil.copy(path, other.inbox)
