"""The command line against its own site's enemies: forbidden plans, swapped files, missing approvals, kills."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.agreed import OPERATOR, agree, make_keys
from tests.refused import check_refusal
from tests.site_keys import write_keys
from twofold.cli import app
from twofold.errors import BadPlan, BadPolicy, NotApproved, NotReady, PlanMismatch, PolicyRefused
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.identity.log import Event, read_log, verify_log
from twofold.identity.policy import Policy
from twofold.privacy.ledger import Ledger
from twofold.storage.container import receipt

pytestmark = pytest.mark.long

NAMES = ("anna", "bern", "clara")
ITEMS = "abcdefgh"
NUMBERS = "--catalog items.csv --mechanism gram --n-users 2000 --rank 1 --max-items 4"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keys of everybody in one folder, and two more people; the policy of anna's site is beside them."""
    monkeypatch.chdir(tmp_path)
    Path("box").mkdir()
    Path("items.csv").write_text("item\n" + "\n".join(ITEMS))
    for name in NAMES:
        rows = [f"{user},{ITEMS[(user * 3 + place) % 8]},1" for user in range(30) for place in range(3)]
        Path(f"{name}.csv").write_text("user,item,value\n" + "\n".join(rows))
    make_keys(NAMES)
    for name in ("officer", "head", "other-centre"):
        write_keys(tmp_path, name)
    return tmp_path


def ask(line: str) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(app, line.split())


def call(line: str, *codes: int) -> str:
    result = ask(line)
    assert result.exit_code in (codes or (0,)), (line, result.output, result.exception)
    return result.output


def plan(name: str = "plan", *, epsilon: float = 1, members: tuple[str, ...] = NAMES, more: str = "") -> Plan:
    """Write a plan to which everybody has agreed, before there was a policy."""
    keys = " ".join(f"--public-key {one}.pub" for one in (*members, OPERATOR))
    call(f"plan new {name}.toml {NUMBERS} --epsilon {epsilon} --name {name} {keys} {more}")
    return agree(f"{name}.toml", write=True)


def join(name: str = "plan", entity: str = "anna", more: str = "", keys: str = "") -> str:
    files = f"--data {entity}.csv --ledger {entity}.ledger --outbox box --inbox box -o {entity}.model"
    return f"join --plan {name}.toml {files} --keys {keys or entity}.keys {more}"


def policy(change: str = "", becomes: str = "", **more: str) -> Policy:
    """Write anna's policy, with other lines if asked."""
    people = {"writer": "anna.pub", "operator": f"{OPERATOR}.pub"} | more
    Path("policy.toml").unlink(missing_ok=True)
    call("policy new -o policy.toml " + " ".join(f"--{key} {file}" for key, file in people.items()))
    if change:
        text, number = re.subn(
            rf"^{change} = .*$", f"{change} = {becomes}", Path("policy.toml").read_text(), flags=re.M
        )
        assert number == 1
        Path("policy.toml").write_text(text)
    return Policy.read("policy.toml")


def ledger(name: str = "anna") -> dict[str, bytes]:
    """Every byte of a ledger, its head and its releases; a lock is no part of it."""
    return {
        str(path): path.read_bytes()
        for path in sorted(Path().rglob(f"{name}.ledger*"))
        if path.is_file() and path.suffix != ".lock"
    }


def events(*kinds: Event) -> list[Event]:
    found = [one.event for one in read_log("anna.log")]
    return [one for one in found if not kinds or one in kinds]


def nothing_left() -> bool:
    return not [path for path in Path("box").iterdir() if path.suffix == ".round1"]


REFUSALS: dict[str, tuple[dict[str, Any], tuple[str, str], dict[str, str]]] = {
    "writers": ({}, ("", ""), {"writer": "officer.pub"}),
    "operators": ({}, ("", ""), {"operator": "other-centre.pub"}),
    "min_participants": ({"members": ("anna", "bern")}, ("", ""), {}),
    "max_epsilon": ({"epsilon": 2}, ("", ""), {}),
    "min_users": ({}, ("min_users", "2001"), {}),
    "mechanisms": ({}, ("mechanisms", '["sketch"]'), {}),
    "require_secure_sum": ({}, ("require_secure_sum", "true"), {}),
}


@pytest.mark.parametrize("rule", REFUSALS)
def test_what_the_policy_forbids_draws_nothing(rule: str) -> None:
    numbers, change, people = REFUSALS[rule]
    made = plan(**numbers, more="--writer anna")
    call("ledger new anna.ledger --dataset anna --epsilon 3 --delta 1e-5")
    before, rules = ledger(), policy(*change, **people)
    for _ in range(2):
        result = ask(join())
        check_refusal(result.exception, PolicyRefused, rule)
        assert result.exit_code != 0
    assert ledger() == before
    assert nothing_left()
    [line] = [one for one in read_log("anna.log") if one.event is Event.POLICY_REFUSED]
    assert dict(line.fields) == {"plan": made.hash, "policy": rules.hash, "rules": [rule]}
    check_refusal(ask("plan agree plan.toml --keys anna.keys").exception, PolicyRefused, rule)
    assert verify_log("anna.log", keys=[KeyStore("anna.keys").identity.sign]).signed


def test_the_third_release_is_one_too_many() -> None:
    """Each release is allowed alone; the sum of all is not."""
    policy("total_epsilon", "2")
    for name in ("first", "second", "third"):
        plan(name, more="--writer anna")
    call("ledger new anna.ledger --dataset anna --epsilon 9 --delta 1e-5")
    for name in ("first", "second"):
        call(join(name), 3)
    before = ledger()
    check_refusal(ask(join("third")).exception, PolicyRefused, "total_epsilon", found="after 2")
    assert ledger() == before
    call(join("first"), 3)  # what was released may be sent again
    assert ledger() == before
    assert events(Event.RELEASED, Event.POLICY_REFUSED) == [Event.RELEASED] * 2 + [Event.POLICY_REFUSED]


def test_without_an_approval_nothing_is_drawn() -> None:
    policy(approver="officer.pub")
    plan(more="--writer anna")
    call("ledger new anna.ledger --dataset anna --epsilon 3 --delta 1e-5")
    before = ledger()
    check_refusal(ask(join()).exception, NotApproved)
    # Approvals by others, of another draft, or with another's name do not count.
    check_refusal(ask("approve anna.draft --keys head.keys --yes --policy policy.toml").exception, NotApproved, "keys")
    check_refusal(ask("approve anna.draft --keys head.keys --yes").exception, NotApproved, "keys")
    Path("away").mkdir()  # where there is no policy
    shutil.copy("anna.draft", "away")
    call("approve away/anna.draft --keys head.keys --yes")
    shutil.copy("away/anna.draft.head.approval", "anna.draft.head.approval")
    shutil.copy("anna.draft.head.approval", "anna.draft.officer.approval")
    check_refusal(ask(join()).exception, NotApproved)
    assert (ledger(), nothing_left()) == (before, True)
    assert events(Event.APPROVED, Event.RELEASED) == []
    Path("anna.draft.officer.approval").unlink()
    call("approve anna.draft --keys officer.keys --yes")
    # The policy is edited after the approval: it counts for the old one only.
    text = Path("policy.toml").read_text()
    Path("policy.toml").write_text(text.replace("min_users = 100", "min_users = 50"))
    check_refusal(ask(join()).exception, NotApproved)
    assert (ledger(), nothing_left()) == (before, True)
    Path("policy.toml").write_text(text)
    call(join(), 3)
    kinds = events(Event.APPROVED, Event.RELEASED, Event.SENT)
    assert kinds[-2:] == [Event.RELEASED, Event.SENT]
    assert kinds.count(Event.APPROVED) == kinds.count(Event.RELEASED) == 1


def test_no_option_overrides_the_policy_beside_the_keys() -> None:
    policy(approver="officer.pub")
    plan(more="--writer anna")
    call("ledger new anna.ledger --dataset anna --epsilon 3 --delta 1e-5")
    before = ledger()
    Path("lax").mkdir()
    lax = Policy(writers=None, operators=None, min_users=0, min_participants=0)
    Path("lax", "policy.toml").write_text(lax.text)
    release = "release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.round1"
    for line in (join(), release, "plan agree plan.toml --keys anna.keys"):
        check_refusal(ask(f"{line} --policy lax/policy.toml").exception, BadPolicy, "policy")
        check_refusal(ask(f"{line} --policy none.toml").exception, BadPolicy, "policy")
    check_refusal(ask(f"{join()} --policy ./policy.toml").exception, NotApproved)  # the same file may be named
    Path("policy.toml").unlink()
    Path("policy.toml").symlink_to("nowhere.toml")
    assert ask(join()).exit_code != 0
    assert (ledger(), nothing_left(), list(Path("lax").glob("*.log"))) == (before, True, [])


def test_the_keys_of_another_entity() -> None:
    plan()
    check_refusal(ask(join(keys="bern", more="--new-ledger")).exception, PlanMismatch, "keys")
    call("keys new --entity anna --keys second.keys -o second.pub")
    check_refusal(ask(join(keys="second", more="--new-ledger")).exception, PlanMismatch, "keys")
    assert (list(Path("box").iterdir()), ledger()) == ([], {})


def test_a_roster_swapped_beside_the_plan() -> None:
    """The plan's writer hands out one plan, and somebody changes the keys beside it."""
    plan()
    old = Path("plan.roster").read_bytes()
    call("keys new --entity bern --keys false.keys -o false.pub")
    keys = " ".join(f"--public-key {one}.pub" for one in ("anna", "false", "clara", OPERATOR))
    call(f"plan new other.toml {NUMBERS} --epsilon 1 --name plan {keys}")
    shutil.copy("other.roster", "plan.roster")
    for line in (join(more="--new-ledger"), "plan agree plan.toml --keys anna.keys", "plan show plan.toml"):
        check_refusal(ask(line).exception, PlanMismatch, "hash", found="plan.roster")
    Path("plan.roster").unlink()
    assert ask(join(more="--new-ledger")).exit_code != 0
    assert (list(Path("box").iterdir()), ledger()) == ([], {})
    # Both swapped make another plan, to which nobody has agreed.
    shutil.copy("other.roster", "plan.roster")
    shutil.copy("other.toml", "plan.toml")
    check_refusal(ask(join(more="--new-ledger")).exception, NotReady, "agreements")
    Path("plan.roster").write_bytes(old)


def test_agreements_of_another_plan() -> None:
    made = plan()
    plan("other")
    shutil.copy("other.agreed", "plan.agreed")
    check_refusal(ask(join(more="--new-ledger")).exception, NotReady, "agreements", found="4 without")
    Path("plan.agreed").write_text(Path("plan.agreed").read_text().replace(Plan.read("other.toml").hash, made.hash))
    check_refusal(ask(join(more="--new-ledger")).exception, NotReady, "agreements", found="4 without")
    assert (list(Path("box").iterdir()), ledger()) == ([], {})


def test_a_secure_sum_that_nobody_confirmed() -> None:
    keys = " ".join(f"--public-key {one}.pub" for one in (*NAMES, OPERATOR))
    call(f"plan new plan.toml {NUMBERS} --epsilon 1 {keys} --secure peers")
    agree("plan.toml", write=True, confirm=False)
    check_refusal(ask(join(more="--new-ledger")).exception, NotReady, "confirm")
    assert not list(Path("box").glob("*.shares"))
    # Confirmed for another plan is not confirmed for this one.
    KeyStore("anna.keys").confirm("ab" * 32)
    check_refusal(ask(join(more="--new-ledger")).exception, NotReady, "confirm")
    call(join(more="--new-ledger --confirm"), 3)
    assert list(Path("box").glob("anna.*.shares"))


def test_a_plan_of_the_older_format_is_refused_in_words_that_help() -> None:
    keys = " ".join(f"--public-key {one}.pub" for one in (*NAMES, OPERATOR))
    call(f"plan new plan.toml {NUMBERS} --epsilon 1 {keys} --secure peers")
    text = Path("plan.toml").read_text()
    old = re.sub(r"\[roster\].*?(?=^#|^\[|\Z)", "", text, flags=re.S | re.M)
    Path("plan.toml").write_text(f'{old}\n[secure.roster]\nhash = "{"ab" * 32}"\nn_entities = 3\n')
    for line in (join(more="--new-ledger"), "plan agree plan.toml --keys anna.keys", "plan show plan.toml"):
        error = ask(line).exception
        check_refusal(error, BadPlan, "secure.roster", "twofold plan new", found="secure.roster", expected="[roster]")
    assert ledger() == {}


KILLS = {
    "approved, before the ledger": ("Site", "clear", "after"),
    "drawn and stored, before the log": ("Site", "released", "before"),
    "logged, before it is sent": ("EntityFolder", "submit", "before"),
    "sent, before the log": ("Site", "sent", "before"),
}
#: A join that the system kills at the release, before or after a function does its work.
KILLED = """
import os, signal, sys
from twofold.cli import main
from twofold.entity.site import Site
from twofold.federation.folder import EntityFolder
from twofold.federation.messages import RELEASE

owner, name, when = {"Site": Site, "EntityFolder": EntityFolder}[sys.argv[1]], *sys.argv[2:4]
usual = getattr(owner, name)

def dies(*args, **more):
    data = next((one for one in args if isinstance(one, bytes)), None)
    due = data is None or RELEASE.encode() in data[:4_000]
    found = None if due and when == "before" else usual(*args, **more)
    if due:
        os.kill(os.getpid(), signal.SIGKILL)
    return found

setattr(owner, name, dies)
sys.argv = ["twofold", *sys.argv[4:]]
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("when", KILLS)
def test_killed_between_approval_ledger_and_sending(when: str) -> None:
    policy(approver="officer.pub")
    made = plan(more="--writer anna")
    call("ledger new anna.ledger --dataset anna --epsilon 3 --delta 1e-5")
    check_refusal(ask(join()).exception, NotApproved)
    call("approve anna.draft --keys officer.keys --yes")
    for _ in range(2):
        command = [sys.executable, "-c", KILLED, *KILLS[when], *join().split()]
        died = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr
    call(join(), 3)
    sent = [path.read_bytes() for path in Path("box").glob("*.round1")]
    [stored] = Ledger("anna.ledger").state().entries
    assert (stored.status, sent) == ("released", [Ledger("anna.ledger").stored(plan=made.hash)])
    of_release = [one for one in read_log("anna.log") if one.fields.get("digest") in (None, receipt(sent[0]))]
    kinds = [one.event for one in of_release if one.event is not Event.LOG_OPENED]
    assert kinds == [Event.DRAFT_MADE, Event.APPROVED, Event.RELEASED, Event.SENT]
    assert verify_log("anna.log", keys=[KeyStore("anna.keys").identity.sign]).signed


@pytest.mark.parametrize(("option", "parameter"), [("--delta 0.9 --epsilon 1", "delta"), ("--epsilon 21", "epsilon")])
def test_a_weak_promise_needs_a_yes_at_every_step(option: str, parameter: str) -> None:
    """Audit L4: δ = 0.9 was accepted in a real plan without a word."""
    keys = " ".join(f"--public-key {one}.pub" for one in (*NAMES, OPERATOR))
    new = f"plan new plan.toml {NUMBERS} {option} {keys}"
    check_refusal(ask(new).exception, BadPlan, parameter)
    assert not Path("plan.toml").exists()
    assert "WEAK" in call(f"{new} --yes")
    check_refusal(ask("plan agree plan.toml --keys anna.keys").exception, BadPlan, parameter)
    agree("plan.toml", write=True)
    check_refusal(ask(join(more="--new-ledger")).exception, BadPlan, parameter)
    assert (ledger(), nothing_left()) == ({}, True)
    call(join(more="--new-ledger --yes"), 3)
    assert "WEAK" in call("card show anna.ledger")


def test_exact_counts_and_files_of_histories_are_never_called_private() -> None:
    """Audit L3: `simulate --json` said "private" beside exact counts, `join` of a file that holds raw histories."""
    rows = [f"{name},{line}" for name in NAMES for line in Path(f"{name}.csv").read_text().splitlines()[1:]]
    Path("all.csv").write_text("hospital,user,item,value\n" + "\n".join(rows))
    call(f"plan new real.toml {NUMBERS} --epsilon 1 --n-entities 3")
    line = "simulate --data all.csv --entity hospital --plan real.toml --ledgers books --new-ledgers --json"
    told = json.loads(call(line))
    assert "users" in told["entities"][0]
    assert "private" not in told
    assert "exact" in told["keep_here"]
    plan()
    for name in NAMES:
        call(join(entity=name, more="--new-ledger"), 3)
    call(f"coordinate --plan plan.toml --inbox box --outbox box --state state --keys {OPERATOR}.keys")
    said = call(join())
    assert "histories as they are" in said
    assert "private:" not in said.lower()
