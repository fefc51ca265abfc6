"""`twofold approve` and `twofold policy`: a person sees what would leave, and signs it or not."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.identity.test_approval import FACTS, REST
from tests.refused import check_refusal
from tests.site_keys import write_keys
from twofold.cli import app
from twofold.errors import (
    BadMessage,
    BadParameter,
    BadPlan,
    BadPolicy,
    DataError,
    NotApproved,
    TransportError,
    UnreadableSource,
)
from twofold.identity.approval import Approval, Draft, check_approvals, find_approvals
from twofold.identity.policy import Policy

DRAFT, FILE = Path("st-anna.draft"), Path("st-anna.draft.officer.approval")


@pytest.fixture(autouse=True)
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    """A site with an officer, a policy and a draft."""
    monkeypatch.chdir(tmp_path)
    for name in ("officer", "head", "stranger", "trial-office", "centre"):
        write_keys(tmp_path, name)
    line = "policy new -o policy.toml --approver officer.pub --approver head.pub --writer trial-office.pub"
    assert ask(f"{line} --operator centre.pub").exit_code == 0
    made = Policy.read("policy.toml")
    Draft.of(FACTS, made, **REST).write(DRAFT)
    return made


def ask(line: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, line.split(), input=answer)


def test_a_person_reads_agrees_and_signs(policy: Policy) -> None:
    result = ask("approve st-anna.draft --keys officer.keys", "y\n")
    assert result.exit_code == 0
    for fact in ("457 noisy sums", "420,000 bytes", "ε = 0.333", "st-bern", "officer"):
        assert fact in result.output
    [made] = check_approvals(Draft.read(DRAFT), policy, find_approvals(DRAFT, policy))
    assert made.approver == "officer"


@pytest.mark.parametrize("answer", ["n\n", "\n", "", None])
def test_without_a_yes_nothing_is_signed(answer: str | None) -> None:
    result = ask("approve st-anna.draft --keys officer.keys", answer)
    check_refusal(result.exception, NotApproved, "yes")
    assert not FILE.exists()


def test_with_a_remark_and_as_json() -> None:
    told = json.loads(
        CliRunner()
        .invoke(app, ["approve", str(DRAFT), "--keys", "officer.keys", "--remark", "seen, Ä", "--yes", "--json"])
        .stdout
    )
    made = Approval.read(FILE)
    assert (told["draft"], told["approver"], told["remark"]) == (Draft.read(DRAFT).hash, "officer", "seen, Ä")
    assert (told["key"], told["at"], told["file"]) == (made.key.hex(), made.at, FILE.name)
    check_refusal(ask("approve st-anna.draft --keys officer.keys --json").exception, BadParameter, "yes")


def test_again_the_same_approval() -> None:
    line = "approve st-anna.draft --keys officer.keys --yes"
    ask(line)
    before = FILE.read_bytes()
    assert ask(f"{line} --remark later").exit_code == 0
    assert FILE.read_bytes() == before


def test_an_approval_of_an_older_draft_is_replaced(policy: Policy) -> None:
    ask("approve st-anna.draft --keys officer.keys --yes")
    Draft.of(replace(FACTS, plan="cd" * 32), policy, **REST).write(DRAFT)
    ask("approve st-anna.draft --keys officer.keys --yes")
    assert Approval.read(FILE).draft == Draft.read(DRAFT).hash


def test_with_the_policy_the_writer_has_a_name_and_strangers_are_told(policy: Policy) -> None:
    named = Draft.of(replace(FACTS, writer=dict(policy.writers or ())["trial-office"]), policy, **REST)
    named.write(DRAFT)
    assert "trial-office" in ask("approve st-anna.draft --keys officer.keys --policy policy.toml --yes").output
    result = ask("approve st-anna.draft --keys stranger.keys --policy policy.toml --yes")
    check_refusal(result.exception, NotApproved, "keys", found="stranger")
    assert not Path("st-anna.draft.stranger.approval").exists()


def test_a_policy_edited_since_the_draft_is_told() -> None:
    text = Path("policy.toml").read_text()
    Path("policy.toml").write_text(text.replace("max_epsilon = 1", "max_epsilon = 2"))
    result = ask("approve st-anna.draft --keys officer.keys --policy policy.toml --yes")
    check_refusal(result.exception, NotApproved, "policy")


def test_a_weak_promise_is_said() -> None:
    replace(Draft.read(DRAFT), weak=("epsilon",)).write(DRAFT)
    assert "WEAK" in ask("approve st-anna.draft --keys officer.keys --yes").output


def test_files_that_are_none() -> None:
    secret = json.loads(Path("officer.keys").read_text())["sign"]
    for line, kind in (
        ("approve none.draft --keys officer.keys --yes", TransportError),
        ("approve policy.toml --keys officer.keys --yes", BadMessage),
        ("approve officer.keys --keys officer.keys --yes", BadMessage),
        ("approve st-anna.draft --keys none.keys --yes", UnreadableSource),
        ("approve st-anna.draft --keys officer.pub --yes", BadPlan),
        ("approve st-anna.draft --keys policy.toml --yes", BadPlan),
        ("policy new -o x.toml --approver officer.keys", BadPlan),
        ("approve st-anna.draft --keys officer.keys --policy st-anna.draft --yes", BadPolicy),
    ):
        result = ask(line)
        check_refusal(result.exception, kind)
        assert secret not in result.output + str(result.exception)
    assert not Path("x.toml").exists()


def test_a_new_policy_is_complete_and_never_written_over(policy: Policy) -> None:
    assert policy.approvals == 1
    assert [name for name, _ in policy.approvers] == ["head", "officer"]
    assert Path("policy.toml").read_text().count("# ") > 25
    check_refusal(ask("policy new -o policy.toml").exception, DataError, "output")
    assert Policy.read("policy.toml") == policy
    told = json.loads(ask("policy new -o other.toml --json").stdout)
    assert told["hash"] == Policy.read("other.toml").hash
    check_refusal(ask("policy new -o x.toml --approvals 2").exception, BadPolicy, "approvals")


def test_a_policy_that_allows_nobody_says_so() -> None:
    shown = ask("policy new -o other.toml").output
    assert "writers" in shown
    assert "operators" in shown


def test_a_policy_is_shown(policy: Policy) -> None:
    shown = ask("policy show policy.toml").output
    assert policy.hash in shown
    assert "total_epsilon: 3" in shown
    assert dict(policy.approvers)["officer"].hex() in shown
    assert json.loads(ask("policy show policy.toml --json").stdout)["hash"] == policy.hash


def test_the_policy_beside_the_draft_is_taken() -> None:
    """First reader A10: a person not in the policy approved without a word."""
    result = ask("approve st-anna.draft --keys stranger.keys --yes")
    check_refusal(result.exception, NotApproved, "keys", found="stranger")
    assert not Path("st-anna.draft.stranger.approval").exists()
    assert "no policy" not in ask("approve st-anna.draft --keys officer.keys --yes").stderr


def test_without_a_policy_it_is_said_that_nothing_was_checked() -> None:
    Path("policy.toml").rename("elsewhere.toml")
    result = ask("approve st-anna.draft --keys officer.keys --yes")
    assert result.exit_code == 0
    assert "no policy" in result.stderr
    assert "no policy" not in ask("approve st-anna.draft --keys officer.keys --yes --policy elsewhere.toml").stderr


def test_the_officer_sees_the_price_alone_and_in_all(policy: Policy) -> None:
    """First reader A6: `approve` showed ε and δ of the release, and nothing else that the card says."""
    given = {"epsilon": Fraction(1), "spent_epsilon": Fraction(1), "ceiling_epsilon": Fraction(2)}
    Draft.of(replace(FACTS, **given, guess="73.1%", alone="1.46", honest=2), policy, **REST).write(DRAFT)
    said = " ".join(ask("approve st-anna.draft --keys officer.keys --yes").output.split())
    for fact in ("at most 73.1%", "If all others collude: ε = 1.46.", "After this release in all: ε = 2 of 2"):
        assert fact in said
