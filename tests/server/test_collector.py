"""One step on its own: any phase, whatever is computed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, TooFewMessages
from twofold.federation.factors import encode_factors
from twofold.federation.mailbox import ROUNDS
from twofold.federation.messages import receipt
from twofold.federation.plan import Plan
from twofold.server import Server
from twofold.server.coordinate import CoordinationStatus, StepRules, coordinate
from twofold.server.factorize import Arrived, checked
from twofold.server.state import FolderState, MemoryState


class Picky:
    """Takes nobody called site-3, and counts how often it computes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.computed = 0
        self.until: str | None = None
        self.known: tuple[str, ...] = ("site-0", "site-1", "site-2")

    def rules(self, *_: Any) -> StepRules:
        return StepRules(
            names=self.known,
            expected=3,
            quorum=2,
            floor="quorum",
            deadline=self.until,
            accept=self.accept,
            compute=self.compute,
        )

    def accept(self, message: Any, read: Callable[[], bytes] | None) -> Arrived:
        if message.entity == "site-3":
            raise BadMessage("not wanted here.")
        return checked(message, read)

    def compute(self, taken: Sequence[Arrived]) -> bytes:
        self.computed += 1
        assert [one.receipt for one in taken] == sorted(one.receipt for one in taken)
        return encode_factors(Server(self.plan).factorize([one.read() for one in taken]), self.plan)


@pytest.fixture
def plan(make_plan: Callable[..., Plan]) -> Plan:
    return make_plan(n_entities=3, rank=2)


class Collector:
    """A picky server that looks at one mailbox again and again."""

    def __init__(self, plan: Plan, box: Any, tmp_path: Path, **given: Any) -> None:
        self.server = Picky(plan)
        self._look = partial(coordinate, self.server, box, state=FolderState(tmp_path / "state", plan), **given)

    def step(self, *, close: bool = False) -> CoordinationStatus:
        return self._look(close=close)


def test_it_closes_when_all_are_in_and_computes_once(plan, box, tmp_path, make_message):
    one = Collector(plan, box, tmp_path)
    for number in (0, 1, 3):
        box.put(f"site-{number}", make_message(plan, number))
    seen = one.step()
    assert (seen.arrived, seen.closed, seen.published) == (2, False, False)
    assert ["not wanted here" in found.reason for found in seen.refused] == [True]
    box.put("site-2", make_message(plan, 2))
    assert one.step().published
    assert one.step().published
    assert one.server.computed == 1


def test_at_the_deadline_the_quorum_decides(plan, box, tmp_path, make_message):
    one = Collector(plan, box, tmp_path, clock=lambda: datetime(2027, 1, 2, tzinfo=UTC))
    box.put("site-0", make_message(plan, 0))
    assert not one.step().closed
    one.server.until = "2027-01-01T00:00:00Z"
    with refused(TooFewMessages, "quorum", found="1", expected="at least 2 of 3") as caught:
        one.step()
    assert caught.value.parameter == "quorum"
    assert box.published() is None
    box.put("site-1", make_message(plan, 1))
    assert one.step().published


def test_closing_by_hand_needs_no_deadline_but_the_quorum(plan, box, tmp_path, make_message):
    one = Collector(plan, box, tmp_path)
    box.put("site-0", make_message(plan, 0))
    with refused(TooFewMessages, "quorum", found="1", expected="at least 2 of 3") as caught:
        one.step(close=True)
    assert caught.value.parameter == "quorum"
    box.put("site-1", make_message(plan, 1))
    assert not one.step().closed
    assert one.step(close=True).published
    assert json.loads((tmp_path / "state" / "closed.json").read_text())["why"] == "by hand"
    box.put("site-2", make_message(plan, 2))
    seen = one.step()
    assert seen.arrived == 2
    assert seen.refused[0].reason.startswith("RoundClosed")


def test_two_messages_of_one_entity_in_one_look(plan, box, tmp_path, make_message):
    one = Collector(plan, box, tmp_path)
    box.put("a", make_message(plan, 0, seed=1))
    box.put("b", make_message(plan, 0, seed=2))
    seen = one.step()
    assert (seen.arrived, [found.reason[:18] for found in seen.refused]) == (0, ["ConflictingMessage"] * 2)
    (box.folder / "b.in").unlink()
    seen = one.step()
    assert (seen.arrived, seen.refused) == (1, ())


def test_stored_bytes_that_changed_are_not_used(plan, box, tmp_path, make_message):
    one = Collector(plan, box, tmp_path)
    for number in range(2):
        box.put(f"site-{number}", make_message(plan, number))
    one.step()
    path = next((tmp_path / "state" / "messages").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    box.put("site-2", make_message(plan, 2))
    for look in (one, Collector(plan, box, tmp_path)):  # the process that took it, and another
        with pytest.raises(BadMessage):
            look.step()
    assert box.published() is None


def test_a_state_gives_only_what_the_receipt_names():
    state = MemoryState().of(ROUNDS)
    state.store("site-0", receipt(b"a"), b"b")
    with pytest.raises(BadMessage) as caught:
        state.message(receipt(b"a"))
    assert caught.value.found == receipt(b"a")[:12]
    state.store("site-0", receipt(b"a"), b"a")
    assert state.message(receipt(b"a")) == b"a"


def test_it_says_who_is_missing_and_whether_it_can_close(plan, box, tmp_path, make_message):
    one = Collector(plan, box, tmp_path)
    box.put("site-0", make_message(plan, 0))
    seen = one.step()
    assert (seen.missing, seen.can_close) == (("site-1", "site-2"), False)
    one.server.known = ()
    assert one.step().missing is None
    box.put("site-1", make_message(plan, 1))
    assert one.step().can_close
    assert not one.step(close=True).can_close


def test_in_memory_it_is_the_same(plan, box, make_message):
    """What a simulation runs: no disk, one look, closed by hand."""
    messages = [make_message(plan, number) for number in range(2)]
    for number, data in enumerate((*messages, make_message(plan, 3))):
        box.put(f"site-{number}", data)
    server, state = Picky(plan), MemoryState()
    seen = coordinate(server, box, state=state, close=True)
    assert (seen.arrived, len(seen.refused), seen.closed, seen.published) == (2, 1, True, True)
    assert box.published() == encode_factors(Server(plan).factorize(messages), plan)
    assert coordinate(server, box, state=state) == seen
    assert server.computed == 1
