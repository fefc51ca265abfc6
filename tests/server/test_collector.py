"""One step on its own: any phase, whatever is computed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from twofold.errors import BadMessage, TooFewMessages
from twofold.federation.messages import encode_factors, receipt
from twofold.federation.plan import Plan
from twofold.federation.steps import ROUNDS
from twofold.server import Server
from twofold.server.coordinate import Collector, Stored


class Picky(Collector):
    """Takes nobody called site-3, and counts how often it computes."""

    computed = 0
    until: str | None = None
    known: tuple[str, ...] = ("site-0", "site-1", "site-2")

    @property
    def names(self) -> tuple[str, ...]:
        return self.known

    @property
    def expected(self) -> int:
        return 3

    @property
    def quorum(self) -> int:
        return 2

    @property
    def deadline(self) -> str | None:
        return self.until

    def accept(self, message: Any) -> None:
        if message.entity == "site-3":
            raise BadMessage("not wanted here.")

    def compute(self, taken: Sequence[Stored]) -> bytes:
        self.computed += 1
        messages = [one.data() for one in taken]
        assert [receipt(one) for one in messages] == sorted(receipt(one) for one in messages)
        return encode_factors(Server(self.plan).factorize(messages), self.plan)


@pytest.fixture
def plan(make_plan: Callable[..., Plan]) -> Plan:
    return make_plan(n_entities=3, rank=2)


def collector(plan: Plan, box: Any, tmp_path: Path, **given: Any) -> Picky:
    return Picky(plan, box, state=tmp_path / "state", phase=ROUNDS, **given)


def test_it_closes_when_all_are_in_and_computes_once(plan, box, tmp_path, make_message):
    one = collector(plan, box, tmp_path)
    for number in (0, 1, 3):
        box.put(f"site-{number}", make_message(plan, number))
    seen = one.step()
    assert (seen.arrived, seen.rejected, seen.closed, seen.published) == (2, 1, False, False)
    assert "not wanted here" in one.refused()[0].reason
    box.put("site-2", make_message(plan, 2))
    assert one.step().published
    assert one.step().published
    assert one.computed == 1


def test_at_the_deadline_the_quorum_decides(plan, box, tmp_path, make_message):
    one = collector(plan, box, tmp_path, clock=lambda: datetime(2027, 1, 2, tzinfo=UTC))
    box.put("site-0", make_message(plan, 0))
    assert not one.step().closed
    one.until = "2027-01-01T00:00:00Z"
    with pytest.raises(TooFewMessages, match="at least 2 of 3"):
        one.step()
    assert box.published() is None
    box.put("site-1", make_message(plan, 1))
    assert one.step().published


def test_closing_by_hand_needs_no_deadline_but_the_quorum(plan, box, tmp_path, make_message):
    one = collector(plan, box, tmp_path)
    box.put("site-0", make_message(plan, 0))
    with pytest.raises(TooFewMessages, match="at least 2 of 3"):
        one.step(close=True)
    box.put("site-1", make_message(plan, 1))
    assert not one.step().closed
    assert one.step(close=True).published
    assert json.loads((tmp_path / "state" / "closed.json").read_text())["why"] == "by hand"
    box.put("site-2", make_message(plan, 2))
    assert one.step().arrived == 2
    assert "too late" in one.refused()[0].reason


def test_two_messages_of_one_entity_in_one_look(plan, box, tmp_path, make_message):
    one = collector(plan, box, tmp_path)
    box.put("a", make_message(plan, 0, seed=1))
    box.put("b", make_message(plan, 0, seed=2))
    assert one.step().arrived == 0
    assert all("none is taken" in found.reason for found in one.refused())
    (box.folder / "b.in").unlink()
    assert one.step().arrived == 1
    assert one.refused() == []


def test_stored_bytes_that_changed_are_not_used(plan, box, tmp_path, make_message):
    one = collector(plan, box, tmp_path)
    for number in range(2):
        box.put(f"site-{number}", make_message(plan, number))
    one.step()
    path = next((tmp_path / "state" / "messages").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    box.put("site-2", make_message(plan, 2))
    with pytest.raises(BadMessage, match="not the one that was taken"):
        one.step()
    assert box.published() is None


def test_stored_gives_only_what_its_receipt_names():
    with pytest.raises(BadMessage, match="not the one that was taken"):
        Stored(receipt=receipt(b"a"), read=lambda: b"b").data()
    assert Stored(receipt=receipt(b"a"), read=lambda: b"a").data() == b"a"


def test_it_says_who_is_missing_and_whether_it_can_close(plan, box, tmp_path, make_message):
    one = collector(plan, box, tmp_path)
    box.put("site-0", make_message(plan, 0))
    one.step()
    assert (one.missing(), one.can_close) == (("site-1", "site-2"), False)
    one.known = ()
    assert one.missing() is None
    box.put("site-1", make_message(plan, 1))
    one.step()
    assert one.can_close
    one.step(close=True)
    assert not one.can_close
