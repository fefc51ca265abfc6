"""Drafts and approvals: what people sign, and every way in which a signature must not count."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, NotApproved, TwofoldError
from twofold.identity.approval import Approval, Draft, approval_path, check_approvals, find_approvals
from twofold.identity.policy import PlanFacts, Policy
from twofold.storage.container import canonical_json
from twofold.storage.signing import Purpose, SigningKey

OFFICER, HEAD, STRANGER, WRITER = (SigningKey(bytes([number]) * 32) for number in range(1, 5))
NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
AT = "2027-01-31T11:00:00Z"
POLICY = Policy(
    approvals=2,
    writers=(("Trial office", WRITER.public),),
    operators=None,
    approvers=(("officer", OFFICER.public), ("head", HEAD.public)),
)
FACTS = PlanFacts(
    plan="ab" * 32,
    name="drugs",
    epsilon=Fraction(1, 3),
    delta=Fraction(1, 10**6),
    n_users=500,
    entities=("st-anna", "st-bern", "st-clara"),
    mechanism="gram",
    secure="peers",
    colluders=1,
    writer=WRITER.public,
)
REST: dict[str, Any] = {
    "entity": "st-anna",
    "version": "2020",
    "leaves": "457 noisy sums and 104,653 noisy products.",
    "size": 420_000,
    "unit": "person",
    "software": "twofold 0.1",
}
DRAFT = Draft.of(FACTS, POLICY, **REST)


def by(name: str, key: SigningKey, draft: Draft = DRAFT, at: str = AT, remark: str = "") -> Approval:
    return Approval.sign(draft.hash, approver=name, signer=key, at=at, remark=remark)


GOOD = (by("officer", OFFICER), by("head", HEAD))


def check(*approvals: Approval | TwofoldError, draft: Draft = DRAFT, policy: Policy = POLICY, now: datetime = NOW):
    return check_approvals(draft, policy, approvals, now=now)


def test_two_people_approve() -> None:
    assert {one.approver for one in check(*GOOD)} == {"officer", "head"}
    assert check(*reversed(GOOD), *GOOD) == check(*GOOD)


def test_one_is_not_two() -> None:
    for some in ((), GOOD[:1], GOOD[1:]):
        with refused(NotApproved, "approvals", found=f"{len(some)} of 2"):
            check(*some)


def test_who_is_missing_is_named() -> None:
    with refused(NotApproved, "approvals", expected="head") as caught:
        check(GOOD[0])
    assert "officer" not in str(caught.value.expected)


def test_no_approval_is_needed_if_the_policy_says_so() -> None:
    policy = replace(POLICY, approvals=0)
    assert check(draft=Draft.of(FACTS, policy, **REST), policy=policy) == ()


OTHERS: dict[str, Callable[[], Approval]] = {
    "not in the policy": lambda: by("stranger", STRANGER),
    "a stranger under an approver's name": lambda: by("head", STRANGER),
    "the same key under another approver's name": lambda: by("head", OFFICER),
    "the same key under a new name": lambda: by("officer-2", OFFICER),
    "the same name with a new key": lambda: by("officer", STRANGER),
    "the same name in other letters": lambda: by("Officer", OFFICER),
    "the same person again with a remark": lambda: by("officer", OFFICER, remark="again"),
    "the same person at another time": lambda: by("officer", OFFICER, at="2027-01-30T11:00:00Z"),
    "another plan": lambda: by("head", HEAD, Draft.of(replace(FACTS, plan="cd" * 32), POLICY, **REST)),
    "another price": lambda: by("head", HEAD, Draft.of(replace(FACTS, epsilon=Fraction(1, 4)), POLICY, **REST)),
    "another entity": lambda: by("head", HEAD, Draft.of(FACTS, POLICY, **{**REST, "entity": "st-bern"})),
    "an earlier version of the data": lambda: by("head", HEAD, Draft.of(FACTS, POLICY, **{**REST, "version": "2019"})),
    "other software": lambda: by("head", HEAD, Draft.of(FACTS, POLICY, **{**REST, "software": "twofold 0.2"})),
    "another policy": lambda: by("head", HEAD, Draft.of(FACTS, replace(POLICY, max_epsilon=9), **REST)),
    "dated in the future": lambda: by("head", HEAD, at="2027-01-31T12:10:01Z"),
}


@pytest.mark.parametrize("case", list(OTHERS))
def test_what_does_not_count_beside_one_good_approval(case: str) -> None:
    with refused(NotApproved, "approvals", found="1 of 2"):
        check(GOOD[0], OTHERS[case]())
    assert len(check(OTHERS[case](), *GOOD)) == 2  # nor does it stand in the way of two good ones


def test_a_policy_edited_after_the_approval_asks_again() -> None:
    """The approvers approved under a policy; with a wider one they might not have."""
    for change in ({"max_epsilon": Fraction(5)}, {"approvals": 1}, {"approvals": 0}, {"log": "elsewhere.log"}):
        edited = replace(POLICY, **change)
        with refused(NotApproved, "approvals", found="another policy"):
            check(*GOOD, policy=edited)
        if edited.approvals:
            with refused(NotApproved, "approvals", found="another draft"):
                check(*GOOD, draft=Draft.of(FACTS, edited, **REST), policy=edited)


def test_an_approver_taken_out_of_the_policy_no_longer_counts() -> None:
    fewer = replace(POLICY, approvals=1, approvers=(("head", HEAD.public),))
    draft = Draft.of(FACTS, fewer, **REST)
    with refused(NotApproved, "approvals", found="not an approver"):
        check(by("officer", OFFICER, draft), draft=draft, policy=fewer)


def test_a_clock_set_back_makes_an_approval_wait() -> None:
    """Ahead of this machine's clock by more than ten minutes: one of two clocks is wrong, and nothing is lost."""
    early = NOW - timedelta(days=400)
    with refused(NotApproved, "approvals", found="ahead of this machine's clock"):
        check(*GOOD, now=early)
    assert len(check(*GOOD, now=NOW - timedelta(minutes=70))) == 2
    assert len(check(*GOOD, now=NOW + timedelta(days=4000))) == 2  # approvals do not grow old


def record(one: Approval) -> dict[str, Any]:
    return json.loads(one.text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("draft", "ef" * 32),
        ("approver", "head"),
        ("key", STRANGER.public.hex()),
        ("at", "2020-01-31T11:00:00Z"),
        ("remark", "and everything else"),
        ("signature", "00" * 64),
        ("signature", GOOD[1].signature.hex()),
    ],
)
def test_nothing_of_an_approval_can_be_changed(name: str, value: str) -> None:
    with refused(BadMessage, "signature"):
        Approval.from_text(canonical_json({**record(GOOD[0]), name: value}))


def test_a_signature_made_for_something_else_is_none() -> None:
    covered = {name: value for name, value in record(GOOD[0]).items() if name != "signature"}
    for purpose in Purpose:
        signature = OFFICER.sign(purpose, canonical_json(covered).encode()).hex()
        text = canonical_json({**covered, "signature": signature})
        if purpose is Purpose.APPROVAL:
            assert Approval.from_text(text) == GOOD[0]
        else:
            with refused(BadMessage, "signature"):
                Approval.from_text(text)


def test_signed_again_by_another_key_it_is_the_others() -> None:
    """The content of an officer's approval under a stranger's signature: the key is part of what is signed."""
    with refused(NotApproved, "approvals", found="another key"):
        check(by("head", STRANGER), GOOD[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("remark", bad) for bad in ("x" * 201, "a\nb", "\x1b[2J", "\u202e", 5, None)),
        *(("at", bad) for bad in ("2027-01-31", "2027-1-31T11:00:00Z", "9999999-01-01T00:00:00Z", 5, None, "")),
        *(("approver", bad) for bad in ("", "../x", "a b", 5, None)),
        *(("draft", bad) for bad in ("", "AB" * 32, 5)),
        *(("key", bad) for bad in ("", "AB" * 32, "ff" * 32, 5)),
        *(("signature", bad) for bad in ("", "zz", 5)),
        ("schema", "twofold.approval/2"),
        ("more", 1),
    ],
)
def test_a_field_of_an_approval_out_of_range(name: str, value: object) -> None:
    given = {**record(GOOD[0]), name: value}
    if "signature" not in (name,):  # an insider signs what he likes
        covered = {key: one for key, one in given.items() if key != "signature"}
        given["signature"] = OFFICER.sign(Purpose.APPROVAL, canonical_json(covered).encode()).hex()
    with refused(BadMessage):
        Approval.from_text(canonical_json(given))


def test_only_the_canonical_text_is_read() -> None:
    for text in (GOOD[0].text + "\n", GOOD[0].text.replace(":", ": ", 1), DRAFT.text):
        with refused(BadMessage):
            Approval.from_text(text)
    for text in (DRAFT.text + " ", DRAFT.text.replace('"1/3"', '"2/6"'), GOOD[0].text):
        with refused(BadMessage):
            Draft.from_text(text)


def test_a_draft_and_back(tmp_path: Path) -> None:
    DRAFT.write(tmp_path / "st-anna.draft")
    again = Draft.read(tmp_path / "st-anna.draft")
    assert (again, again.hash) == (DRAFT, DRAFT.hash)
    (tmp_path / "link.draft").symlink_to(tmp_path / "st-anna.draft")
    with pytest.raises(TwofoldError):
        Draft.read(tmp_path / "link.draft")


def test_every_field_changes_the_hash_of_a_draft() -> None:
    changes: dict[str, Any] = {
        "plan": "cd" * 32,
        "name": "other",
        "entity": "st-bern",
        "version": "3",
        "leaves": "all.",
        "bytes": 3,
        "epsilon": Fraction(1),
        "delta": Fraction(0),
        "guess": "73.1%",
        "alone": "1.46",
        "honest": 2,
        "spent_epsilon": Fraction(1),
        "spent_delta": Fraction(1, 10),
        "ceiling_epsilon": Fraction(2),
        "ceiling_delta": Fraction(1, 5),
        "unit": "visit",
        "mechanism": "sketch",
        "secure": "none",
        "colluders": 2,
        "n_users": 4,
        "participants": ("st-anna",),
        "writer": "",
        "operators": ("ab" * 32,),
        "weak": ("delta",),
        "policy": "cd" * 32,
        "software": "other",
    }
    assert set(changes) == set(vars(DRAFT))
    made = [replace(DRAFT, **{name: value}) for name, value in changes.items()]
    assert len({one.hash for one in made} | {DRAFT.hash}) == len(changes) + 1
    assert all(Draft.from_text(one.text) == one for one in made)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("leaves", bad) for bad in ("", "a\nb", "\x1b[31m", "x" * 2_001, 5)),
        *(("epsilon", bad) for bad in ("-1", "1/0", "0.5", "1e999999999", "9" * 200, 1, None, "１")),
        *(("bytes", bad) for bad in (-1, True, 1.5, "5", 10**16)),
        *(("participants", bad) for bad in ("st-anna", [5], ["../x"], {}, [["a"]])),
        *(("weak", bad) for bad in (["all"], [[]], "epsilon")),
        *(("secure", bad) for bad in ("", None, [])),
        *(("writer", bad) for bad in ("x", None)),
        ("plan", "x"),
        ("name", "a b"),
        ("operators", [None]),
        ("version", " "),
        ("more", 1),
    ],
)
def test_a_field_of_a_draft_out_of_range(name: str, value: object) -> None:
    with refused(BadMessage):
        Draft.from_text(canonical_json({**json.loads(DRAFT.text), name: value}))


def test_a_draft_in_plain_words() -> None:
    shown = "\n".join(DRAFT.lines(POLICY))
    for fact in ("st-anna", "drugs", "457 noisy sums", "420,000 bytes", "ε = 0.333", "person", "3 participants"):
        assert fact in shown
    assert f"Trial office (key {WRITER.public.hex()[:16]})" in shown
    assert "WEAK" not in shown
    weak = replace(DRAFT, weak=("epsilon", "delta"), secure="none")
    assert "\n".join(weak.lines()).count("WEAK") == 2


def test_what_other_releases_spent_is_part_of_what_people_sign() -> None:
    """First reader A6: an approval at ε = 1 in all must not serve at ε = 3 in all."""
    later = Draft.of(replace(FACTS, spent_epsilon=Fraction(1)), POLICY, **REST)
    assert (later.total_epsilon, DRAFT.total_epsilon) == (Fraction(4, 3), Fraction(1, 3))
    assert later.hash != DRAFT.hash


def test_a_draft_says_what_the_card_will_say() -> None:
    """First reader A6: ε alone, the total and the ceiling, the best guess, and that the bytes are a limit."""
    given = {"epsilon": Fraction(1), "spent_epsilon": Fraction(1), "ceiling_epsilon": Fraction(2), "guess": "73.1%"}
    draft = Draft.of(replace(FACTS, **given, alone="1.46", honest=2), POLICY, **REST)
    assert Draft.from_text(draft.text) == draft
    said = "\n".join(draft.lines(POLICY))
    for fact in ("at most 420,000 bytes", "at most 73.1%", "ε = 1.46", "at least 2 entities", "in all: ε = 2 of 2"):
        assert fact in said
    plain = "\n".join(DRAFT.lines(POLICY))
    assert "collude" not in plain
    assert " of the time" not in plain


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("guess", bad) for bad in ("73", "x%", "\x1b[31m%", 0.7, None)),
        *(("alone", bad) for bad in ("one", "1.4\n", 1.4, None, "-1")),
        *(("honest", bad) for bad in (-1, True, "2", 1.5)),
        *(("spent_epsilon", bad) for bad in ("", None, "-1", 1)),
        *(("ceiling_epsilon", bad) for bad in ("none", "-1", 2)),
    ],
)
def test_a_price_that_cannot_be(name: str, value: object) -> None:
    with refused(BadMessage, name):
        replace(DRAFT, **{name: value})


def test_the_command_for_the_approver_is_whole() -> None:
    """First reader A10: with the folder of the draft, the policy, and a name of the policy."""
    with refused(NotApproved, "approvals", "twofold approve 'my site/st-anna.draft'", "head.keys --policy p.toml"):
        check_approvals(DRAFT, POLICY, [], draft_file="my site/st-anna.draft", policy_file="p.toml", now=NOW)


def test_no_draft_without_a_promise() -> None:
    with refused(NotApproved, "epsilon"):
        Draft.of(replace(FACTS, epsilon=float("inf")), POLICY, **REST)


def test_files_beside_a_draft(tmp_path: Path) -> None:
    file = tmp_path / "st-anna.draft"
    assert find_approvals(file, POLICY) == []
    for one in GOOD:
        one.write(approval_path(file, one.approver))
    for number in range(300):  # strangers' files, however many, are not looked at
        (tmp_path / f"st-anna.draft.{number}.approval").write_bytes(b"{")
    assert set(find_approvals(file, POLICY)) == set(GOOD)
    approval_path(file, "head").write_bytes(b"\xff" * 10)
    found = find_approvals(file, POLICY)
    with refused(NotApproved, "approvals", found="not an approval"):
        check(*found)
    approval_path(file, "head").write_bytes(b" " * 5_000)
    assert sum(isinstance(one, Approval) for one in find_approvals(file, POLICY)) == 1
