"""Policy, draft, approvals and log in one order; whatever fails, nothing is cleared."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.identity.test_approval import FACTS, HEAD, NOW, OFFICER, POLICY, REST, by
from tests.refused import refused
from twofold.errors import BadPolicy, LogBroken, NotApproved, PolicyRefused, TransportError
from twofold.identity.approval import Draft, approval_path
from twofold.identity.clearance import Clearance, clearance
from twofold.identity.log import Event, LogIncomplete, SecurityLog, read_log, verify_log
from twofold.identity.policy import PlanFacts, Policy
from twofold.storage import files
from twofold.storage.signing import SigningKey

KEY = SigningKey(b"\7" * 32)


def ask(folder: Path, *, policy: Policy = POLICY, facts: PlanFacts = FACTS, **more: Any) -> Clearance:
    log = SecurityLog(folder / "security.log", KEY, entity="st-anna")
    given = {"draft_file": folder / "st-anna.draft", "now": NOW, **REST, **more}
    return clearance(policy=policy, facts=facts, log=log, **given)


def events(folder: Path) -> list[Event]:
    return [one.event for one in read_log(folder / "security.log")]


def approve(folder: Path, draft: Draft | None = None) -> None:
    file = folder / "st-anna.draft"
    for name, key in (("officer", OFFICER), ("head", HEAD)):
        by(name, key, draft or Draft.read(file)).write(approval_path(file, name))


def test_a_draft_is_made_approved_and_cleared(tmp_path: Path) -> None:
    with refused(NotApproved, "approvals", found="0 of 2"):
        ask(tmp_path)
    approve(tmp_path)
    cleared = ask(tmp_path)
    assert cleared.draft == Draft.read(tmp_path / "st-anna.draft")
    assert [one.approver for one in cleared.approvals] == ["head", "officer"]
    assert events(tmp_path) == [Event.LOG_OPENED, Event.DRAFT_MADE, Event.APPROVED, Event.APPROVED]
    assert list(read_log(tmp_path / "security.log"))[1:] == list(cleared.entries)
    assert verify_log(tmp_path / "security.log", keys=[KEY.public]).signed


def test_trying_again_logs_nothing_twice(tmp_path: Path) -> None:
    for _ in range(3):
        with refused(NotApproved):
            ask(tmp_path)
    approve(tmp_path)
    assert ask(tmp_path) == ask(tmp_path)
    assert len(events(tmp_path)) == 4


def test_a_refusal_by_the_policy_comes_first_and_is_logged(tmp_path: Path) -> None:
    """Not even a draft is made of what the policy does not allow, and approvals cannot help."""
    facts = replace(FACTS, epsilon=Fraction(9), n_users=3)
    approve(tmp_path, Draft.of(facts, POLICY, **REST))
    for _ in range(2):
        with refused(PolicyRefused, "max_epsilon", found="min_users"):
            ask(tmp_path, facts=facts)
    [_, entry] = read_log(tmp_path / "security.log")
    assert entry.event is Event.POLICY_REFUSED
    assert entry.fields["rules"] == ["max_epsilon", "total_epsilon", "min_users"]
    assert not (tmp_path / "st-anna.draft").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"facts": replace(FACTS, plan="cd" * 32)},
        {"facts": replace(FACTS, epsilon=Fraction(1, 2))},
        {"policy": replace(POLICY, max_epsilon=Fraction(2))},
        {"version": "2021"},
        {"entity": "st-bern"},
        {"leaves": "Everything."},
        {"size": 1},
        {"software": "twofold 0.2"},
    ],
)
def test_approvals_of_anything_else_do_not_count(change: dict[str, Any], tmp_path: Path) -> None:
    with refused(NotApproved):
        ask(tmp_path)
    approve(tmp_path)
    with refused(NotApproved, "approvals", found="another draft"):
        ask(tmp_path, **change)
    assert Event.APPROVED not in events(tmp_path)


def test_a_forged_draft_file_changes_nothing(tmp_path: Path) -> None:
    """The people may be shown another draft: what they sign then does not count for this release."""
    with refused(NotApproved):
        ask(tmp_path)
    file = tmp_path / "st-anna.draft"
    replace(Draft.read(file), epsilon=Fraction(1, 1000)).write(file)
    approve(tmp_path)
    with refused(NotApproved, "approvals", found="another draft"):
        ask(tmp_path)
    assert Draft.read(file).epsilon == FACTS.epsilon


def test_nothing_is_cleared_without_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(NotApproved):
        ask(tmp_path)
    approve(tmp_path)
    log = tmp_path / "security.log"
    sound = log.read_bytes()
    log.write_bytes(b"".join(sound.splitlines(keepends=True)[:1]) + b"{}\n" * 30_000)
    with refused(LogBroken, "log"):
        ask(tmp_path)
    log.write_bytes(sound)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    with refused(LogBroken, "log"):
        ask(tmp_path)
    with pytest.warns(LogIncomplete), refused(PolicyRefused, "min_users"):  # a refusal stands without a log
        ask(tmp_path, facts=replace(FACTS, n_users=1))
    monkeypatch.undo()
    assert ask(tmp_path).approvals


def test_the_entity_does_not_approve_by_itself(tmp_path: Path) -> None:
    policy = replace(POLICY, approvers=(*POLICY.approvers, ("robot", KEY.public)))
    with refused(BadPolicy, "approvers"):
        ask(tmp_path, policy=policy)
    assert not (tmp_path / "security.log").exists()


def test_a_draft_that_cannot_be_written_clears_nothing(tmp_path: Path) -> None:
    with refused(TransportError):
        ask(tmp_path, draft_file=tmp_path / "none" / "st-anna.draft")


def test_no_other_file_is_written_over(tmp_path: Path) -> None:
    other = tmp_path / "visits.csv"
    other.write_text("patient,code\n")
    with refused(NotApproved, "draft_file", found="visits.csv"):
        ask(tmp_path, draft_file=other)
    assert other.read_text() == "patient,code\n"


def test_a_policy_without_approvals_still_leaves_a_draft_and_a_line(tmp_path: Path) -> None:
    cleared = ask(tmp_path, policy=replace(POLICY, approvals=0))
    assert cleared.approvals == ()
    assert Draft.read(tmp_path / "st-anna.draft") == cleared.draft
    assert events(tmp_path) == [Event.LOG_OPENED, Event.DRAFT_MADE]


def test_a_kill_at_every_step_clears_later_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    seen: list[str] = []
    policy = replace(POLICY, approvals=0)
    (tmp_path / "first").mkdir()
    monkeypatch.setattr(files, "_listener", seen.append)
    whole = ask(tmp_path / "first", policy=policy)
    for cut in range(len(seen)):
        folder, left = tmp_path / str(cut), iter(range(cut))
        folder.mkdir()

        def listen(name: str, left=left) -> None:
            if next(left, None) is None:
                raise Killed

        monkeypatch.setattr(files, "_listener", listen)
        with pytest.raises(Killed):
            ask(folder, policy=policy)
        monkeypatch.setattr(files, "_listener", None)
        assert ask(folder, policy=policy).draft == whole.draft
        assert verify_log(folder / "security.log").entries == 2
