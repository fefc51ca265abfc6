"""The words of the status page: every state, every kind of plan, and nothing that is not public."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.served import small_plan
from twofold.errors import TooFewMessages, Unreachable
from twofold.federation.mailbox import Rejected, StepId
from twofold.federation.plan import Plan
from twofold.identity.roster import Roster
from twofold.report.page import Facts, Folded, Table
from twofold.report.status import (
    FederationView,
    State,
    Steps,
    StepView,
    door_page,
    overview_page,
    state_of,
    status_page,
)
from twofold.server.coordinate import CoordinationStatus

NOW = datetime(2027, 1, 31, 12, 0, tzinfo=UTC)
NAMES = ("st-anna", "st-bern", "st-clara")
CAME = "2027-01-31T09:30:00Z"


def plan_of(names: tuple[str, ...] = NAMES, **changes: Any) -> Plan:
    roster, _ = Roster.new(list(names))
    return small_plan(roster=roster, n_entities=len(names), **changes)


def view(sent: tuple[str, ...] = (), *, agreed: bool = True, published: bool = False, **changes: Any) -> FederationView:
    """A plain federation before its coordinator has looked."""
    plan = changes.pop("plan", None) or plan_of(quorum=2, deadline="2027-02-02T12:00:00Z")
    steps = (
        StepView(id=StepId.AGREE, came={}, here=0, published=agreed),
        StepView(id=StepId.ROUNDS, came=dict.fromkeys(sent, CAME), here=len(sent), published=published),
    )
    given = tuple(plan.entities) if agreed else ()
    return FederationView(**({"plan": plan, "operator": "coordinator", "agreed": given, "steps": steps} | changes))


def told(one: FederationView, now: datetime = NOW) -> str:
    notice = status_page(one, now=now).notice
    assert notice is not None
    return " ".join((notice.text, *notice.more))


def test_open_names_what_is_expected_and_until_when() -> None:
    assert state_of(view(), NOW) is State.OPEN
    assert told(view()) == (
        "Open. Nobody has sent anything yet; 3 messages are expected. Until 2 Feb 2027, 12:00 UTC, in 2 days. Then it "
        "goes on without the others if 2 of 3 are here."
    )


def test_a_plan_waits_for_agreements_first() -> None:
    one = view(agreed=False)
    assert state_of(one, NOW) is State.OPEN
    assert "3 agreements are expected" in told(one)
    assert "A plan starts when everybody has agreed to it." in told(one)


def test_waiting_names_who_is_missing() -> None:
    one = view(("st-anna",))
    assert state_of(one, NOW) is State.WAITING
    assert told(one).startswith("Waiting for st-bern and st-clara. 1 of 3 messages is here.")


def test_many_names_are_counted() -> None:
    names = tuple(f"site-{number:03d}" for number in range(120))
    page = status_page(view(names[:10], plan=plan_of(names)), now=NOW)
    assert page.notice is not None
    assert page.notice.text.startswith("Waiting for site-010, site-011, site-012 and 107 more.")
    [first, rest, _] = page.sections[1].blocks
    assert isinstance(first, Table)
    assert isinstance(rest, Folded)
    assert isinstance(rest.block, Table)
    rows = [*first.rows, *rest.block.rows]
    assert [row[0] for row in rows] == [*names[10:], *names[:10]]
    assert len(first.strong) + len(rest.block.strong) == 110 + len([one for one in first.strong if one >= 40])


def test_late_asks_for_a_person() -> None:
    later = NOW + timedelta(days=2, hours=2)
    one = view(("st-anna",), problem=TooFewMessages("fewer messages arrived in time.", found="1"))
    page = status_page(one, now=later)
    assert state_of(one, later) is State.LATE
    assert page.notice is not None
    assert page.notice.warning
    assert told(one, later).startswith(
        "Late. The deadline has passed, and only 1 of 3 messages is here. It was 2 Feb 2027"
    )
    assert "2 h ago; the plan needs 2 of 3" in told(one, later)
    assert "problem" not in told(one, later)


def test_a_step_closed_by_hand_below_the_quorum_is_late_without_a_deadline() -> None:
    one = view(("st-anna",), plan=plan_of(quorum=2), problem=TooFewMessages("fewer messages arrived.", found="1"))
    assert state_of(one, NOW) is State.LATE


def test_closed_waits_for_nobody() -> None:
    one = view(NAMES, published=True)
    assert state_of(one, NOW + timedelta(days=9)) is State.CLOSED
    assert told(one) == "Closed. The item factors are published; every member can fetch them."
    assert "not yet" not in status_page(one, now=NOW).html()


def test_a_problem_is_told_by_its_summary_alone() -> None:
    one = view(("st-anna",), problem=Unreachable("the other operator does not answer.", found="10.0.0.7"))
    assert "The last look met a problem: the other operator does not answer." in told(one)
    assert "10.0.0.7" not in status_page(one, now=NOW).html()


def test_the_coordinators_own_count_comes_first() -> None:
    """What was refused is here, and does not count."""
    status = CoordinationStatus(
        step=StepId.ROUNDS,
        arrived=1,
        expected=3,
        quorum=2,
        missing=("st-bern", "st-clara"),
        refused=(Rejected("st-bern", "BadMessage: <too long>"),),
    )
    page = status_page(view(("st-anna", "st-bern"), status=status), now=NOW)
    assert page.notice is not None
    assert page.notice.text == "Waiting for st-bern and st-clara. 1 of 3 messages is here."
    assert "&lt;too long&gt;" in page.html()


def test_two_operators_wait_for_each_other() -> None:
    from twofold.federation.secure import OperatorSum
    from twofold.identity.keys import Role, Secrets

    roles = dict.fromkeys(NAMES, Role.ENTITY) | dict.fromkeys(("clinic", "university"), Role.OPERATOR)
    roster = Roster(Secrets.new(name, role).identity for name, role in roles.items())
    plan = small_plan(roster=roster, mechanism="gram", secure=OperatorSum(floor=3), n_entities=3)
    steps = (StepView(id=StepId.REPORTS, came=dict.fromkeys(NAMES, CAME), here=3, published=False),)
    status = CoordinationStatus(step=StepId.FREEZES, arrived=0, expected=1, quorum=1, missing=("university",))
    one = FederationView(plan=plan, operator="clinic", agreed=("clinic", "university"), steps=steps, status=status)
    page = status_page(one, now=NOW)
    assert told(one) == "Waiting for operator university: its final list is not here yet."
    [progress, *_] = page.sections[0].blocks
    assert isinstance(progress, Steps)
    states = [row[:2] for row in progress.steps]
    assert states[:3] == [("Reports", "done"), ("Lists of reports", "done"), ("Final lists", "now")]
    assert {state for _, state in states[3:]} == {"later"}
    assert "clinic (this service) and university" in page.html()
    [noise] = page.sections[2].blocks
    assert isinstance(noise, Facts)
    assert dict(noise.rows)["Beside the noise"].startswith("two sealed shares")


def test_a_simulation_says_that_it_protects_nobody() -> None:
    text = status_page(view(plan=plan_of(simulation=True)), now=NOW).html()
    assert "It protects nobody" in text
    assert "NOT PRIVATE" in text


def test_the_noise_is_that_of_the_plan() -> None:
    [noise] = status_page(view(plan=plan_of(epsilon="1/2", delta="1e-7")), now=NOW).sections[2].blocks
    assert isinstance(noise, Facts)
    assert dict(noise.rows)["Price for each person"] == "ε = 0.5, δ = 1e-7"


@pytest.mark.parametrize("live", [False, True])
def test_it_is_sound_and_every_link_stays_here(read_html: Callable[[str], Any], live: bool) -> None:
    text = status_page(view(("st-anna",)), now=NOW, live=live).html()
    parser = read_html(text)
    assert ('http-equiv="refresh"' in text) == live
    assert "http://" not in text
    assert "https://" not in text
    assert all(target.startswith(("#", "?", "v1/", "status")) for target in parser.targets)


def test_an_overview_shows_which_one_is_late(read_html: Callable[[str], Any]) -> None:
    late = view(plan=plan_of(name="late-one", quorum=3, deadline="2027-01-01T00:00:00Z"))
    page = overview_page([view(NAMES, published=True), late], now=NOW)
    assert page.notice is not None
    assert page.notice.warning
    assert page.notice.text == "2 federations; 1 late."
    parser = read_html(page.html())
    assert parser.targets[0] == late.plan.hash


def test_the_door_tells_nothing() -> None:
    from twofold import __version__

    text = door_page().html()
    assert __version__ not in text
    assert text == door_page().html()


def test_a_view_is_that_of_the_last_step_when_all_are_published() -> None:
    one = view(NAMES, published=True)
    assert replace(one, status=None).present is StepId.ROUNDS


def test_a_message_that_another_operator_forwarded_is_here_in_the_table_too() -> None:
    """The bar counted 2 of 3 and the table said of one of them: not yet."""
    status = CoordinationStatus(step=StepId.ROUNDS, arrived=2, expected=3, quorum=2, missing=("st-clara",))
    [table, *_] = status_page(view(("st-anna",), status=status), now=NOW).sections[1].blocks
    assert isinstance(table, Table)
    assert {row[0]: row[-1] for row in table.rows} == {
        "st-clara": "not yet",
        "st-anna": "31 Jan, 09:30",
        "st-bern": "here",
    }
