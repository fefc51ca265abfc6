"""Two honest operators that act at the same time, messages that overtake each other, and a kill behind a bundle."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.federation.with_operators import OPERATORS, content, make_plan, report, secrets
from twofold.federation.mailbox import BUNDLES, DRAFTS, FREEZES, LISTS, REPORTS, REVEALS, InProcess, Step
from twofold.federation.plan import Plan
from twofold.federation.reports import decode_report, encode_bundle, half
from twofold.federation.secure import OperatorSum
from twofold.identity.keystore import KeyStore
from twofold.identity.roster import Roster
from twofold.server.operate import operate
from twofold.server.operator import Operator

NAMES = tuple(f"e{place}" for place in range(5))


@pytest.fixture(scope="module")
def plan() -> Plan:
    members = Roster(secrets(name).identity for name in (*NAMES, *OPERATORS))
    return make_plan(simulation=True, secure=OperatorSum(floor=3), roster=members)


class Apart:
    """Each operator with a mailbox of its own; messages cross over when they are carried."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reports = {name: report(name, plan) for name in NAMES}
        self.operators = [Operator(plan, KeyStore(secrets(name)), rng=at) for at, name in enumerate(OPERATORS)]
        self.boxes = [InProcess(), InProcess()]

    def give(self, place: int, names: Collection[str]) -> None:
        for name in names:
            self.boxes[place].submit(REPORTS, self.reports[name], entity=name)

    def look(self, *places: int, close: bool = False) -> None:
        """All of them before anything is carried: at the same time."""
        for place in places:
            operate(self.operators[place], self.boxes[place], close=close)

    def carry(self, *steps: Step) -> None:
        for place in (0, 1):
            for step in steps or (LISTS, FREEZES, REVEALS, DRAFTS):
                for one in list(self.boxes[place].submissions(step)):
                    self.boxes[1 - place].post(step, one.read())

    def finish(self) -> None:
        for _ in range(8):
            self.look(0, 1)
            self.carry()


def with_different_lists(plan: Plan) -> Apart:
    """Both made a list of three at the deadline with one report in common; then all five are at both."""
    apart = Apart(plan)
    apart.give(0, NAMES[:3])
    apart.give(1, NAMES[2:])
    apart.look(0, 1, close=True)
    apart.carry()
    apart.look(0, 1)
    for place in (0, 1):
        apart.give(place, NAMES)
    return apart


def sums_fit(apart: Apart) -> bool:
    """Both froze the same list, and published one message."""
    one, two = apart.operators
    assert one.freeze is not None
    assert two.freeze is not None
    return (one.freeze.lists, one.freeze.reports) == (two.freeze.lists, two.freeze.reports) and one.final == two.final


def test_two_who_act_at_the_same_time_freeze_one_list(plan: Plan) -> None:
    """Each could freeze its own newest list with the other's older one; neither pair would ever be taken back."""
    apart = with_different_lists(plan)
    apart.finish()
    assert sums_fit(apart)
    assert apart.operators[0].final is not None


def test_a_freeze_that_overtakes_its_list_is_waited_for(plan: Plan) -> None:
    apart = with_different_lists(plan)
    apart.look(0)  # its second list and its freeze are under way
    apart.carry(FREEZES)
    apart.look(1)
    assert apart.operators[1].peer_freeze is not None
    assert not apart.operators[1].frozen
    apart.finish()
    assert sums_fit(apart)
    assert apart.operators[0].final is not None


def test_a_kill_behind_a_bundle_loses_no_report(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts as read once all reports in it are stored."""
    apart = Apart(plan)
    halves = [half(decode_report(data, plan), 1) for data in apart.reports.values()]
    apart.boxes[1].post(BUNDLES, encode_bundle(halves, plan))

    class Killed(BaseException):
        pass

    def killed(*_: object) -> int:
        raise Killed

    with monkeypatch.context() as during:
        during.setattr(Operator, "_store", killed)
        with pytest.raises(Killed):
            apart.look(1)
    assert apart.operators[1].book.count == 0
    apart.look(1)
    assert apart.operators[1].book.count == len(NAMES)


def test_reports_of_both_operators_are_counted_once(plan: Plan) -> None:
    apart = Apart(plan)
    for place in (0, 1):
        apart.give(place, NAMES)
    for _ in range(3):
        apart.look(0, 1)
    assert [one.book.count for one in apart.operators] == [len(NAMES)] * 2
    apart.carry()
    apart.finish()
    total = apart.operators[0].total()
    assert total is not None
    expected = len(NAMES) * content(plan).numbers
    assert abs(total.numbers - expected).max() < 10 * total.deviation
