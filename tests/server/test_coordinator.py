"""One round: who counts, when it closes, what is refused and remembered, and one publication."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold.errors import BadMessage, PlanMismatch, RoundClosed, TooFewMessages, TransportError
from twofold.federation.factors import decode_factors, encode_factors
from twofold.federation.folder import EntityFolder, ServerFolder
from twofold.federation.mailbox import ROUNDS, InProcess, Rejected
from twofold.federation.messages import receipt
from twofold.federation.plan import CatalogKey, Plan
from twofold.server import Server
from twofold.server.coordinate import CoordinationStatus, coordinate
from twofold.server.state import FolderState

MakePlan = Callable[..., Plan]
MakeMessage = Callable[..., bytes]
DEADLINE = datetime(2027, 1, 31, 12, tzinfo=UTC)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = DEADLINE - timedelta(days=1)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def plan(make_plan: MakePlan) -> Plan:
    return make_plan(n_entities=3, quorum=2, deadline="2027-01-31T12:00:00Z")


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Coordinator:
    """A server that looks at one mailbox again and again."""

    def __init__(self, plan: Plan, box: Any, *, state: Path, **given: Any) -> None:
        self.step = partial(coordinate, Server(plan), box, state=FolderState(state, plan), **given)

    def refused(self) -> tuple[Rejected, ...]:
        return self.step().refused


@pytest.fixture
def coordinator(plan: Plan, box: Any, tmp_path: Path, clock: Clock) -> Coordinator:
    return Coordinator(plan, box, state=tmp_path / "state", clock=clock)


def figures(status: CoordinationStatus) -> tuple[int, int, int, bool, bool]:
    """Arrived, expected, refused, closed, published."""
    return status.arrived, status.expected, len(status.refused), status.closed, status.published


def expected_bytes(plan: Plan, messages: list[bytes]) -> bytes:
    return encode_factors(Server(plan).factorize(messages), plan)


def test_publishes_once_all_have_answered(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage
) -> None:
    messages = [make_message(plan, number) for number in range(3)]
    assert figures(coordinator.step()) == (0, 3, 0, False, False)
    for number, data in enumerate(messages[:2]):
        box.put(f"site-{number}", data)
    assert figures(coordinator.step()) == (2, 3, 0, False, False)
    box.put("site-2", messages[2])
    assert figures(coordinator.step()) == (3, 3, 0, True, True)
    assert box.published() == expected_bytes(plan, messages)
    assert coordinator.step().published
    assert len(box.published_calls) == 1
    assert decode_factors(box.published(), plan).entities == 3


def test_messages_are_kept_whole_so_the_mailbox_may_forget_them(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, tmp_path: Path
) -> None:
    messages = [make_message(plan, number) for number in range(3)]
    for number, data in enumerate(messages):
        box.put("same-name", data)
        coordinator.step()
        stored = tmp_path / "state" / "messages" / f"{receipt(data)}.round1"
        assert stored.read_bytes() == data, number
    assert box.published() == expected_bytes(plan, messages)


def test_an_entity_that_never_answers_is_waited_for_until_the_deadline(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, clock: Clock
) -> None:
    messages = [make_message(plan, number) for number in range(2)]
    for number, data in enumerate(messages):
        box.put(f"site-{number}", data)
    clock.now = DEADLINE - timedelta(seconds=1)
    assert not coordinator.step().closed
    clock.now = DEADLINE
    assert figures(coordinator.step()) == (2, 3, 0, True, True)
    assert box.published() == expected_bytes(plan, messages)


def test_below_the_quorum_nothing_is_published(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, clock: Clock, tmp_path: Path
) -> None:
    box.put("site-0", make_message(plan, 0))
    clock.now = DEADLINE + timedelta(days=1)
    with pytest.raises(TooFewMessages, match="at least 2 of 3") as caught:
        coordinator.step()
    assert caught.value.parameter == "quorum"
    assert box.published() is None
    assert not (tmp_path / "state" / "closed.json").exists()
    box.put("site-1", make_message(plan, 1))  # late, but its sender has paid for it
    assert coordinator.step().published


def test_the_list_that_counts_is_final(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, clock: Clock, tmp_path: Path
) -> None:
    for number in range(2):
        box.put(f"site-{number}", make_message(plan, number))
    clock.now = DEADLINE
    coordinator.step()
    out = box.published()
    box.put("site-2", make_message(plan, 2))
    seen = coordinator.step()
    assert (seen.arrived, len(seen.refused)) == (2, 1)
    assert coordinator.refused()[0].name == "site-2"
    assert coordinator.refused()[0].reason.startswith("RoundClosed")
    assert box.published() == out
    again = Coordinator(plan, box, state=tmp_path / "state", clock=clock)
    assert again.step() == seen
    assert again.refused() == coordinator.refused()


def test_a_message_twice_counts_once(plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage) -> None:
    for name in ("one", "copy of one"):
        box.put(name, make_message(plan, 0))
    assert figures(coordinator.step()) == (1, 3, 0, False, False)


def test_of_two_different_messages_the_first_stored_counts(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage
) -> None:
    messages = [make_message(plan, number) for number in range(3)]
    box.put("first", messages[0])
    coordinator.step()
    box.put("other", make_message(plan, 0, seed=55))
    assert len(coordinator.step().refused) == 1
    assert "ConflictingMessage" in coordinator.refused()[0].reason
    assert "site-0" in coordinator.refused()[0].reason
    for number in (1, 2):
        box.put(f"site-{number}", messages[number])
    coordinator.step()
    assert box.published() == expected_bytes(plan, messages)


def test_of_two_found_in_one_look_neither_is_taken_until_one_is_gone(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, tmp_path: Path, clock: Clock
) -> None:
    messages = [make_message(plan, number) for number in range(3)]
    box.put("first", messages[0])
    box.put("other", make_message(plan, 0, seed=55))
    box.put("site-1", messages[1])
    seen = coordinator.step()
    assert (seen.arrived, len(seen.refused), seen.closed) == (1, 2, False)
    reasons = [one.reason for one in coordinator.refused()]
    assert sorted(one.name for one in coordinator.refused()) == ["first", "other"]
    assert all(
        one.startswith("ConflictingMessage") and "site-0" in one and "none is accepted" in one for one in reasons
    )
    assert any(receipt(messages[0])[:12] in one for one in reasons)
    again = Coordinator(plan, box, state=tmp_path / "state", clock=clock)
    assert again.step() == seen  # nothing was remembered of either
    (box.folder / "other.in").unlink()
    box.put("site-2", messages[2])
    assert figures(again.step()) == (3, 3, 0, True, True)
    assert box.published() == expected_bytes(plan, messages)


def test_a_conflict_at_the_deadline_counts_for_nobody(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, clock: Clock
) -> None:
    messages = [make_message(plan, number) for number in range(3)]
    for number, data in enumerate(messages):
        box.put(f"site-{number}", data)
    box.put("other", make_message(plan, 0, seed=55))
    clock.now = DEADLINE
    assert coordinator.step().published
    assert box.published() == expected_bytes(plan, messages[1:])
    coordinator.step()
    assert [one.reason[:11] for one in coordinator.refused()] == ["RoundClosed"] * 2


def test_a_full_round_takes_no_more(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twofold.server.coordinate.MOST_MESSAGES", 2)
    for number in range(3):
        box.put(f"site-{number}", make_message(plan, number))
    assert (coordinator.step().arrived, len(coordinator.refused())) == (2, 1)
    assert "the round is full" in coordinator.refused()[0].reason


def test_a_plan_that_names_nobody_is_remarked_on(make_plan: MakePlan, box: Any, tmp_path: Path) -> None:
    assert Coordinator(make_plan(), box, state=tmp_path / "state").step().open_to_anybody
    assert not Coordinator(make_plan(entities=("site-0",)), box, state=tmp_path / "other").step().open_to_anybody


def _flipped(data: bytes) -> bytes:
    """One bit of the header's beginning; bits of the arrays are caught by the receipt, which the sender compares."""
    return data[:12] + bytes([data[12] ^ 4]) + data[13:]


@pytest.mark.parametrize("kind", ["plan", "catalog", "version", "flipped", "cut", "foreign", "empty"])
def test_a_bad_message_is_refused_and_remembered(
    kind: str, plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, tmp_path: Path, clock: Clock
) -> None:
    sound = make_message(plan, 1)
    bad = {
        "plan": lambda: make_message(plan.with_(rank=3), 1),
        "catalog": lambda: make_message(plan.with_(catalog=CatalogKey(hash="c" * 64, n_items=12)), 1),
        "version": lambda: sound.replace(b"twofold.prototypes/1", b"twofold.prototypes/9"),
        "flipped": lambda: _flipped(sound),
        "cut": lambda: sound[:-3],
        "foreign": lambda: b"PK" + bytes(300),
        "empty": lambda: b"",
    }[kind]()
    box.put("site-1", bad)
    assert figures(coordinator.step()) == (0, 3, 1, False, False)
    reason = coordinator.refused()[0].reason
    assert reason.startswith("PlanMismatch" if kind in ("plan", "catalog") else "BadMessage")
    before = (tmp_path / "state" / "refused.json").read_bytes()
    again = Coordinator(plan, box, state=tmp_path / "state", clock=clock)
    assert len(again.step().refused) == 1
    assert (tmp_path / "state" / "refused.json").read_bytes() == before
    box.put("site-1", sound)
    assert again.step().arrived == 1


def test_a_flipped_bit_in_a_stored_message_is_noticed(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, tmp_path: Path
) -> None:
    for number in range(2):
        box.put(f"site-{number}", make_message(plan, number))
    coordinator.step()
    stored = next((tmp_path / "state" / "messages").iterdir())
    data = bytearray(stored.read_bytes())
    data[-2] ^= 255
    stored.write_bytes(bytes(data))
    box.put("site-2", make_message(plan, 2))
    for look in (coordinator, Coordinator(plan, box, state=tmp_path / "state")):  # who took it, and another process
        with pytest.raises(BadMessage, match=stored.name[:12]):
            look.step()
    assert box.published() is None


def test_entities_the_plan_does_not_name_are_refused(
    make_plan: MakePlan, make_message: MakeMessage, box: Any, tmp_path: Path
) -> None:
    plan = make_plan(entities=("site-0", "site-1"))
    box.put("stranger", make_message(plan, 0).replace(b"site-0", b"site-7"))
    box.put("site-0", make_message(plan, 0))
    seen = Coordinator(plan, box, state=tmp_path / "state").step()
    assert (seen.arrived, seen.expected, len(seen.refused), seen.closed) == (1, 2, 1, False)


def test_a_submission_that_cannot_be_read_now_is_tried_again(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.put("site-0", make_message(plan, 0))
    honest = type(box).submissions

    def failing(self: Any, step: Any) -> Any:
        def read() -> bytes:
            raise TransportError("the drive is gone.")

        for one in honest(self, step):
            yield type(one)(entity=one.entity, receipt=one.receipt, read=read)

    with monkeypatch.context() as patched:
        patched.setattr(type(box), "submissions", failing)
        assert figures(coordinator.step()) == (0, 3, 0, False, False)
    assert coordinator.step().arrived == 1


def test_two_coordinators_do_not_work_in_one_folder(
    plan: Plan, box: Any, coordinator: Coordinator, tmp_path: Path, clock: Clock
) -> None:
    other = FolderState(tmp_path / "state", plan).of(ROUNDS)
    with other.opened(), pytest.raises(TransportError, match="another coordinator"):
        coordinator.step()
    clock.now = DEADLINE
    for _ in range(2):  # the lock is free again, also after an error
        with pytest.raises(TooFewMessages):
            coordinator.step()


def test_the_folder_of_another_plan_is_refused(plan: Plan, box: Any, coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.step()
    with pytest.raises(PlanMismatch, match="another plan"):
        Coordinator(plan.with_(rank=3), box, state=tmp_path / "state").step()


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(plan: Plan, box: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError, match="cannot be used"):
        Coordinator(plan, box, state=tmp_path / "file" / "state").step()


@pytest.mark.parametrize(("name", "content"), [("closed.json", "{"), ("closed.json", "[]"), ("refused.json", "7")])
def test_a_damaged_record_stops_the_round(
    plan: Plan, box: Any, coordinator: Coordinator, tmp_path: Path, name: str, content: str
) -> None:
    coordinator.step()
    (tmp_path / "state" / name).write_text(content)
    with pytest.raises(BadMessage, match=name):
        coordinator.step()


def test_other_factors_in_the_mailbox_are_never_replaced(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage
) -> None:
    for number in range(3):
        box.put(f"site-{number}", make_message(plan, number))
    (box.folder / "out").write_bytes(b"something else")
    with pytest.raises(RoundClosed):
        coordinator.step()
    assert box.published() == b"something else"


def test_with_the_mailbox_of_the_library(plan: Plan, make_message: MakeMessage, tmp_path: Path) -> None:
    inside = InProcess()
    messages = [make_message(plan, number) for number in range(3)]
    for number, data in enumerate(messages):
        inside.submit(ROUNDS, data, entity=f"site-{number}")
    assert Coordinator(plan, inside, state=tmp_path / "state").step().published
    assert inside.fetch(ROUNDS) == expected_bytes(plan, messages)
    assert np.isfinite(decode_factors(inside.fetch(ROUNDS), plan).factors).all()


def test_closed_json_is_written_before_anything_is_computed(
    plan: Plan,
    box: Any,
    coordinator: Coordinator,
    make_message: MakeMessage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = [make_message(plan, number) for number in range(3)]
    for number, data in enumerate(messages):
        box.put(f"site-{number}", data)

    def stopped(*_: Any) -> Any:
        record = json.loads((tmp_path / "state" / "closed.json").read_text())
        assert record["receipts"] == sorted(receipt(data) for data in messages)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Server, "factorize_arrived", stopped)
        with pytest.raises(KeyboardInterrupt):
            coordinator.step()
    box.put("site-9", make_message(plan, 9))
    assert coordinator.step().published
    assert box.published() == expected_bytes(plan, messages)


def test_damaged_factors_are_not_published(
    plan: Plan, box: Any, coordinator: Coordinator, make_message: MakeMessage, tmp_path: Path
) -> None:
    for number in range(3):
        box.put(f"site-{number}", make_message(plan, number))
    coordinator.step()
    (box.folder / "out").unlink()
    stored = tmp_path / "state" / "items.round2"
    stored.write_bytes(stored.read_bytes()[:-9])
    with pytest.raises(BadMessage, match="cut off"):
        coordinator.step()
    assert box.published() is None


def test_over_folders_with_foreign_files_and_copies(plan: Plan, make_message: MakeMessage, tmp_path: Path) -> None:
    inbox, outbox = tmp_path / "in", tmp_path / "out"
    messages = [make_message(plan, number) for number in range(3)]
    for number, data in enumerate(messages):
        EntityFolder(inbox, outbox, plan).submit(ROUNDS, data, entity=f"site-{number}")
    (inbox / "copy of a message").write_bytes(messages[1])
    (inbox / "holiday.jpg").write_bytes(bytes(999))
    second = inbox / "second.round1"
    second.write_bytes(make_message(plan, 1, seed=31))
    coordinator = Coordinator(plan, ServerFolder(inbox, outbox, plan), state=tmp_path / "state")
    seen = coordinator.step()
    assert (seen.arrived, seen.published, len(seen.refused)) == (2, False, 3)
    second.unlink()
    seen = coordinator.step()
    assert (seen.arrived, seen.published, len(seen.refused)) == (3, True, 1)
    assert EntityFolder(inbox, outbox, plan).fetch(ROUNDS) == expected_bytes(plan, messages)
    assert coordinator.step() == seen
