"""`twofold join` and `twofold coordinate`: both rounds by folders, plain and under a secure sum."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.agreed import OPERATOR, agree, make_keys
from tests.refused import check_refusal
from twofold.cli import app, main
from twofold.errors import (
    BadPlan,
    BudgetExceeded,
    NotReady,
    PlanMismatch,
    TooFewMessages,
    TransportError,
    UnreadableSource,
)
from twofold.federation.plan import Plan
from twofold.identity.keys import Identity
from twofold.identity.policy import Policy
from twofold.privacy.ledger.state import StaleRelease

NAMES = ("anna", "bern", "clara", "curt", "dora")
ITEMS = [f"item-{number}" for number in range(8)]
KEYS = " ".join(f"--public-key {name}.pub" for name in (*NAMES, OPERATOR))
NUMBERS = "--mechanism gram --n-users 25 --epsilon 20 --rank 2 --max-items 4"
MADE = f"plan new plan.toml --catalog items.csv {NUMBERS} {KEYS}"
NEW = f"{MADE} --secure peers"


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str, code: int = 0) -> str:
    result = ask(line)
    assert result.exit_code == code, (line, result.output, result.exception)
    return result.output


def bare(name: str, more: str = "", *, plan: str = "plan.toml") -> str:
    files = f"--data {name}.csv --ledger {name}.ledger --new-ledger --outbox box --inbox box -o {name}.model"
    return f"join --plan {plan} {files} {more}"


def join(name: str, more: str = "", *, plan: str = "plan.toml") -> str:
    return bare(name, f"--keys {name}.keys {more}", plan=plan)


COLLECT = f"coordinate --plan plan.toml --inbox box --outbox box --state state --keys {OPERATOR}.keys"


def new(more: str = "", *, made: str = NEW) -> str:
    """Write plan.toml, to which everybody agrees, with the agreements beside it."""
    said = call(f"{made} {more}")
    agree(made.split()[2], write=True)
    return said


def plain(*names: str, more: str = "") -> str:
    """The same without a secure sum, for some of the entities."""
    keys = " ".join(f"--public-key {name}.pub" for name in (*names, OPERATOR))
    return new(f"{keys} {more}", made="plan new plan.toml --catalog items.csv --n-users 25 --rank 2")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("box").mkdir()
    pl.DataFrame({"item": ITEMS}).write_csv("items.csv")
    for seed, name in enumerate(NAMES):
        rng = np.random.default_rng(seed)
        users, items = np.nonzero(rng.random((25, 8)) < 0.4)
        frame = {"user": users + 100, "item": np.array(ITEMS)[items], "value": rng.integers(1, 6, users.size)}
        pl.DataFrame(frame).write_csv(f"{name}.csv")
    make_keys(NAMES)
    return tmp_path


def test_a_whole_federation():
    assert "plan.roster" in new("--survivors 4")
    explained = call("plan explain plan.toml")
    assert "Secure sum: the server sees only the sum. The noise of " in explained
    assert "if all others collude with the server: ε =" in explained
    for step, waits in (("key shares", "shared keys"), ("the masked message", "messages in the sum")):
        for name in NAMES:
            said = call(join(name), 3)
            assert step in said
            assert waits in said
            assert "not taken" not in said
        assert "not taken" not in call(COLLECT, 3)
    for name in NAMES[:4]:
        call(join(name), 3)
    assert json.loads(call(f"{COLLECT} --json"))["published"]
    record = json.loads(call(join("dora", "--json")))
    assert (record["waits"], record["dropped"], record["file"]) == (None, False, "dora.model")
    assert len(json.loads(call("recommend dora.model --user 100 -n 3 --json"))) > 0
    spent = json.loads(call("ledger show dora.ledger --json"))
    assert len(spent["entries"] if "entries" in spent else spent["records"]) == 1


def test_a_late_entity_spends_nothing_and_gets_a_model():
    new("--survivors 4 --present 4 --share-deadline 2020-01-01T00:00:00Z")
    for step in range(3):
        for name in NAMES[:4]:
            call(join(name), 3)
        call(COLLECT, 3 if step < 2 else 0)
    said = call(join("dora"))
    assert "nothing was drawn or spent" in said
    assert Path("dora.model").exists()
    assert "remaining  ε=20" in call("ledger show dora.ledger")


def test_a_server_goes_on_without_those_who_are_missing():
    new("--survivors 4 --present 4")
    for name in NAMES[:4]:
        call(join(name), 3)
    said = call(COLLECT, 3)
    assert "4 of 5 key shares" in said
    assert "--close" in said
    assert "0 of 4 messages" in call(f"{COLLECT} --close", 3)
    error = ask(f"{COLLECT} --close").exception
    assert isinstance(error, TooFewMessages)
    assert (error.parameter, error.found) == ("secure.survivors", "0")
    for step in range(2):
        for name in NAMES[:4]:
            call(join(name), 3)
        call(COLLECT, 0 if step else 3)
    assert "nothing was drawn or spent" in call(join("dora"))


def test_what_is_missing_is_said_before_a_ledger_is_made():
    new()
    for line, kind, fact, found in (
        (bare("anna"), PlanMismatch, "nothing was drawn", None),
        (bare("anna", "--keys nowhere.keys"), UnreadableSource, "twofold keys new", "nowhere.keys"),
        (bare("anna", "--keys bern.keys"), PlanMismatch, "anna", "keys of bern"),
    ):
        check_refusal(ask(line).exception, kind, "keys", fact, found=found)
        assert not Path("anna.ledger").exists()
    Path("plan.roster").unlink()
    check_refusal(ask(join("anna")).exception, PlanMismatch, "roster")


def test_another_list_of_keys_is_refused():
    new()
    call("keys new --entity anna --keys other.keys -o other.pub")
    call(NEW.replace("plan.toml", "two.toml").replace("anna.pub", "other.pub"))
    Path("plan.roster").write_bytes(Path("two.roster").read_bytes())
    check_refusal(ask(join("anna")).exception, PlanMismatch, "hash", found="plan.roster")


def test_keys_of_an_earlier_plan_are_refused():
    new()
    call(join("anna"), 3)
    new("--name second", made=NEW.replace("plan.toml", "two.toml"))
    error = ask(join("anna", plan="two.toml")).exception
    check_refusal(error, PlanMismatch, "plan", "twofold keys new", expected=Plan.read("two.toml").hash[:12])


def test_one_message_needs_join():
    new()
    error = ask("release --plan plan.toml --data anna.csv --ledger anna.ledger --new-ledger -o anna.round1").exception
    check_refusal(error, PlanMismatch, "secure", "twofold join")
    assert not Path("anna.ledger").exists()


def test_plans_that_cannot_be():
    for more, parameter, found in (
        ("--survivors 2", "secure.survivors", "threshold 2, survivors 2, present 5"),
        ("--mechanism buckets", "mechanism", "buckets"),
        ("--most-alone 0.5", "secure.most_alone", "ε = 41.6"),
        ("--entity anna --entity bern", "entity", "keys of clara, curt, dora"),
    ):
        check_refusal(ask(f"{NEW} {more}").exception, BadPlan, parameter, found=found)
    assert not Path("plan.toml").exists()
    Path("plan.roster").write_text("something of mine")
    assert isinstance(ask(NEW).exception, BadPlan)
    assert Path("plan.roster").read_text() == "something of mine"
    call(f"{NEW} --force")
    assert Plan.read("plan.toml").members is not None
    assert Plan.read("plan.toml").n_entities == 5


def test_a_plain_plan_by_folders():
    plain("anna", "bern")
    for name in NAMES[:2]:
        said = call(join(name), 3)
        assert "waiting for the item factors" in said
        assert "not taken" not in said
    call(COLLECT)
    assert json.loads(call(join("anna", "--json")))["file"] == "anna.model"


def test_a_plan_starts_when_everybody_has_agreed():
    """Without the agreements beside the plan, the first step brings them together; nothing is drawn before."""
    plain("anna", "bern")
    Path("plan.agreed").unlink()
    said = call(join("anna"), 3)
    assert "sent: the agreement" in said
    assert "waiting for everybody's agreements" in said
    assert "1 of 2 entities agreed" in call(COLLECT, 3)
    assert json.loads(call("ledger show anna.ledger --json"))["entries"] == []
    call(join("bern"), 3)
    assert "0 of 2 entities answered" in call(COLLECT, 3)
    assert "sent: the message" in call(join("anna"), 3)
    call(join("bern"), 3)
    call(COLLECT)
    call(join("anna"))


@pytest.mark.parametrize("who", ["anna", OPERATOR])
def test_nobody_takes_part_who_has_not_agreed(who: str):
    call(MADE)
    agree("plan.toml", but=(who,))
    line = COLLECT if who == OPERATOR else join(who)
    check_refusal(ask(line).exception, NotReady, "agreements", "twofold plan agree")
    assert not list(Path("box").iterdir())


def test_the_agreements_of_another_plan_start_nothing():
    new()
    new("--name second", made=NEW.replace("plan.toml", "two.toml"))
    Path("plan.agreed").write_bytes(Path("two.agreed").read_bytes())
    for line in (join("anna"), COLLECT):
        check_refusal(ask(line).exception, NotReady, "agreements", found="6 without")
    assert not list(Path("box").iterdir())


def test_those_who_agreed_and_stay_away_do_not_stop_the_others():
    plain("anna", "bern", more="--quorum 1")
    call(join("anna"), 3)
    assert "missing: bern" in call(COLLECT, 3)
    call(f"{COLLECT} --close")


def test_the_fingerprint_and_the_members_are_shown():
    new("--writer clara")
    words = json.loads(call("plan agree plan.toml --keys anna.keys --json"))["fingerprint"]
    said = call(join("anna"), 3)
    assert words in said
    assert f"entities: anna, bern, clara, curt, dora; operator: {OPERATOR}" in said
    assert "written by clara" in said
    record = json.loads(call(join("anna", "--json"), 3))
    assert (record["fingerprint"], record["entities"], record["operators"]) == (words, [*NAMES], [OPERATOR])


def test_a_secure_sum_is_confirmed_once():
    call(NEW)
    agree("plan.toml", confirm=False, write=True)
    check_refusal(ask(join("anna")).exception, NotReady, "confirm", "--confirm")
    assert not list(Path("box").glob("*.shares"))
    call(join("anna", "--confirm"), 3)
    call(join("anna"), 3)
    assert len(list(Path("box").glob("*.shares"))) == 1


FEATURES = "item,kind\n" + "".join(f"{item},{'lab' if at % 2 else 'drug'}\n" for at, item in enumerate(ITEMS))


def test_a_missing_table_of_features_is_refused_before_anything_is_spent():
    Path("kinds.csv").write_text(FEATURES)
    call("plan new f.toml --catalog items.csv --n-users 25 --rank 2 --simulation --features kinds.csv")
    made = "release --plan f.toml --data anna.csv --ledger {} --new-ledger -o {}"
    call(made.format("before.ledger", "anna.round1"))
    call("factorize anna.round1 --plan f.toml -o items.round2")
    Path("f.features").rename("elsewhere")
    for line in (
        join("anna", plan="f.toml"),
        made.format("anna.ledger", "bern.round1"),
        "coordinate --plan f.toml --inbox box --outbox box --state state",
        "factorize anna.round1 --plan f.toml -o again.round2",
        "personalize items.round2 --plan f.toml --data anna.csv -o anna.model",
        "simulate --plan f.toml --data anna.csv --entity user -o out",
    ):
        error = check_refusal(ask(line).exception, PlanMismatch, "features", found="no f.features beside f.toml")
        assert "f.features" in str(error.fix), line
    assert not any(Path(name).exists() for name in ("anna.ledger", "bern.round1", "again.round2", "anna.model", "out"))
    for verb in ("show", "explain"):
        assert "note: the plan's table of features is missing: no f.features" in call(f"plan {verb} f.toml")
    Path("elsewhere").rename("f.features")
    assert "missing" not in call("plan show f.toml")
    call("personalize items.round2 --plan f.toml --data anna.csv -o anna.model")


@pytest.mark.parametrize("mechanism", ["gram", "features"])
def test_a_missing_table_of_features_under_a_secure_sum(mechanism: str):
    Path("kinds.csv").write_text(FEATURES)
    new("--survivors 4 --features kinds.csv", made=NEW.replace("gram", mechanism))
    call(join("clara"), 3)
    Path("plan.features").unlink()
    for line in (join("anna"), COLLECT):
        error = ask(line).exception
        check_refusal(error, PlanMismatch, "features", found="no plan.features beside plan.toml")
    assert not Path("anna.ledger").exists()


def test_a_plan_that_names_no_file_of_features_says_what_to_write():
    Path("kinds.csv").write_text(FEATURES)
    call("plan new f.toml --catalog items.csv --n-users 25 --features kinds.csv")
    Path("f.toml").write_text(Path("f.toml").read_text().replace('file = "f.features"', ""))
    error = ask(join("anna", plan="f.toml")).exception
    check_refusal(error, PlanMismatch, "features", found='file = "f.features"')


def test_a_state_that_cannot_be_a_folder():
    new()
    for state, fact, found in (
        ("no/such/state", "mkdir -p no/such", "state"),
        ("items.csv", "items.csv", "items.csv"),
        ("items.csv/x", "x", "x "),
    ):
        error = ask(COLLECT.replace("--state state", f"--state {state}")).exception
        check_refusal(error, TransportError, "folder", fact, found=found)


def test_who_is_missing_and_closing_only_where_it_works():
    new()  # all five must share keys
    said = call(COLLECT, 3)
    assert "missing: anna, bern, clara, curt, dora" in said
    assert "needs 5 more, 5 of 5" in said
    assert "it closes when all have shared keys; messages" in said
    for name in NAMES[:4]:
        call(join(name), 3)
    said = call(COLLECT, 3)
    assert "missing: dora" in said
    assert "--close" not in said
    assert json.loads(call(f"{COLLECT} --json", 3))["missing"] == ["dora"]
    result = ask(f"{COLLECT} --close")
    assert "missing: dora" in result.output
    assert isinstance(result.exception, TooFewMessages)
    assert (result.exception.parameter, result.exception.expected) == ("secure.present", "at least 5 of 5")


def test_a_server_waits_looks_again_and_ends(monkeypatch: pytest.MonkeyPatch):
    plain("anna", "bern")
    late, waits = list(NAMES[:2]), []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        call(join(late.pop()), 3)

    monkeypatch.setattr(time, "sleep", sleep)
    assert json.loads(call(f"{COLLECT} --wait 60 --poll 0.25 --json"))["published"]
    assert waits == [0.25] * 2


def test_an_entity_waits_and_says_what_it_sent_meanwhile(monkeypatch: pytest.MonkeyPatch):
    plain("anna")
    monkeypatch.setattr(time, "sleep", lambda _: call(COLLECT))
    said = call(join("anna", "--wait 60"))
    assert "sent: the agreement, the message" in said
    assert "already" not in said
    assert Path("anna.model").exists()
    assert "already sent: the agreement, the message" in call(join("anna", "--wait 60"))


def test_too_few_at_the_deadline_are_waited_for_and_then_refused(monkeypatch: pytest.MonkeyPatch):
    plain("anna", "bern", more="--quorum 2 --deadline 2020-01-01T00:00:00Z")
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0 * len(slept))
    error = ask(f"{COLLECT} --wait 100").exception
    assert isinstance(error, TooFewMessages)
    assert (error.parameter, error.found, len(slept)) == ("quorum", "0", 2)


def test_a_plan_without_names_names_nobody():
    call("plan new plain.toml --catalog items.csv --n-entities 2 --n-users 25 --rank 2 --simulation")
    said = call("coordinate --plan plain.toml --inbox box --outbox box --state state", 3)
    assert "missing" not in said
    assert "--close" not in said
    call(bare("anna", plan="plain.toml"), 3)
    assert "--close" in call("coordinate --plan plain.toml --inbox box --outbox box --state state", 3)


def test_when_a_step_closes_is_said_with_its_own_deadline():
    new("--survivors 4 --present 4 --share-deadline 2126-01-01T00:00:00Z")
    assert "all have shared keys, or 4 by 2126-01-01T00:00:00Z" in call(COLLECT, 3)


@pytest.mark.parametrize(
    ("more", "parameter", "found"),
    [
        ("--n-entities 9", "n_entities", "--n-entities 9, and 5 keys"),
        ("--entity zz", "entity", "--entity zz"),
        ("--entity anna", "entity", "keys of bern, clara, curt, dora"),
        ("--public-key other.pub", "roster", "anna"),
    ],
)
def test_keys_that_are_not_those_of_the_entities(more: str, parameter: str, found: str):
    call("keys new --entity anna --keys other.keys -o other.pub")
    check_refusal(ask(f"{NEW} {more}").exception, BadPlan, parameter, found=found)
    assert not Path("plan.toml").exists()


def test_a_secure_sum_needs_keys():
    without = NEW.replace(KEYS, "")
    for more, found in (
        ("--public-key anna.pub", "1 entities and 0 operators"),
        (f"--public-key {OPERATOR}.pub", "0 entities and 1 operators"),
    ):
        check_refusal(ask(f"{without} {more}").exception, BadPlan, "public_key", "--public-key", found=found)
    assert "can be explained and simulated, not run" in call(f"{without} --survivors 4 --n-entities 5")
    assert "note" not in call(f"{NEW} --force")


def test_a_name_that_the_plan_does_not_have():
    new()
    files = "--data anna.csv --ledger anna.ledger --new-ledger --outbox box --inbox box --keys anna.keys"
    line = f"join --plan plan.toml {files} -o wrong.model"
    names = "anna, bern, clara, curt, dora"
    error = ask(line).exception
    check_refusal(error, PlanMismatch, "entity", "wrong, ", "--entity NAME", found="-o wrong.model", expected=names)
    error = ask(f"{line} --entity erna").exception
    check_refusal(error, PlanMismatch, "entity", "erna, ", found="--entity", expected=names)
    assert not Path("anna.ledger").exists()
    call(f"{line} --entity anna", 3)


def test_what_was_sent_before_is_not_sent_again():
    new("--survivors 4")
    first, again = call(join("anna"), 3), call(join("anna"), 3)
    assert "already" not in first
    assert "already sent: the agreement, key shares" in again
    for name in NAMES[1:]:
        call(join(name), 3)
    call(COLLECT, 3)
    said = call(join("anna"), 3)
    assert "already sent: the agreement, key shares\nsent: the masked message" in said
    record = json.loads(call(join("anna", "--json"), 3))
    assert record["sent"] == record["already_sent"] == ["the agreement", "key shares", "the masked message"]


def test_a_folder_that_is_not_there_yet_is_waited_for_and_a_file_is_refused():
    new()
    line = join("anna").replace("--outbox box --inbox box", "--outbox up --inbox down")
    for option in ("up", "down"):
        error = ask(line.replace(option, "items.csv")).exception
        check_refusal(error, TransportError, None, found=f"--{'outbox' if option == 'up' else 'inbox'} items.csv")
        assert not Path("anna.ledger").exists()
    said = call(line, 3)
    assert "not taken" not in said
    assert "there is no folder down yet" in said


def test_advice_is_in_the_words_of_a_shell():
    call("plan new plain.toml --catalog items.csv --n-users 25 --rank 2")
    Path("strange.csv").write_text("user,item,value\n1,nowhere,2\n")
    Path("twice.csv").write_text("user,item,value\n1,item-1,2\n1,item-1,2\n")
    for verb in ("join --outbox box --inbox box", "release"):
        line = f"{verb} --plan plain.toml --ledger x.ledger --new-ledger -o x.model --data"
        assert "Do: --unknown-items drop\n" in ask(f"{line} strange.csv").stderr
        assert "Do: --duplicates sum, or --duplicates mean, or --duplicates last\n" in ask(f"{line} twice.csv").stderr
    assert "Do: --unknown-items drop\n" in ask("check strange.csv --catalog items.csv").stderr
    assert "--unknown-items " in ask("check anna.csv --catalog items.csv --unknown-items x").stderr
    assert "Do: --survivors 5\n" in ask(f"{NEW} --survivors 6").stderr
    Path("kinds.csv").write_text("code,kind\nitem-1,a\n")
    error = ask("plan new f.toml --catalog items.csv --features kinds.csv").stderr
    assert "Found: columns code, kind\n  Expected: columns item\n" in error
    assert "Do: " in error
    assert "read_features" not in error


@pytest.mark.parametrize("secure", [False, True])
def test_changed_data_advise_what_can_be_done(secure: bool):
    new("--survivors 4") if secure else plain("anna")
    for name in NAMES if secure else NAMES[:1]:
        call(join(name), 3)
    if secure:
        call(COLLECT, 3)
        call(join("anna"), 3)
    Path("anna.csv").write_text(Path("anna.csv").read_text() + "999,item-1,3\n")
    with pytest.warns(StaleRelease, match="new plan and new keys" if secure else "--version") as told:
        call(join("anna"), 3)
    assert not any("release(version" in str(one.message) for one in told)


def test_an_entity_without_users_takes_part():
    """Audit M2: its table was refused, and that it was missing told that there was nobody in it."""
    new()
    Path("curt.csv").write_text("user,item,value\n")
    for _ in range(2):
        for name in NAMES:
            call(join(name), 3)
        call(COLLECT, 3)
    for name in NAMES:
        call(join(name), 3)
    call(COLLECT)
    assert "no entries of its own" in call(join("curt"))


def test_the_colluders_are_explained():
    """Audit H1: `colluders` stood neither on the card nor in `plan explain`."""
    call(NEW)
    assert "the server together with 1 dishonest participant" in call("plan explain plan.toml")
    assert json.loads(call("plan explain plan.toml --json"))["plan"]["colluders"] == 1
    call(f"{NEW} --colluders 2 --force")
    assert "the server together with 2 dishonest participants" in call("plan explain plan.toml")
    error = ask(f"{NEW} --colluders 0 --force").exception
    check_refusal(error, BadPlan, "secure.colluders", found="0", expected="at least 1")


@pytest.mark.parametrize("secure", [False, True])
def test_a_ledger_without_room_is_told_before_anything_is_sent(secure: bool):
    """First reader A4: all had agreed, shared keys and approved when the budget was found missing."""
    new("--survivors 4") if secure else plain("anna")
    Path("plan.agreed").unlink()
    call("ledger new anna.ledger --dataset anna --epsilon 0.5 --delta 1e-6")
    line = join("anna").replace("--new-ledger", "")
    check_refusal(ask(line).exception, BudgetExceeded, "cost", "--epsilon", found="remaining")
    assert not list(Path("box").iterdir())


def test_a_stored_release_needs_no_room():
    plain("anna")
    first = call(join("anna"), 3)
    assert "sent: the agreement, the message" in first
    assert "already sent" in call(join("anna"), 3)  # the ledger is spent to the last
    assert json.loads(call("ledger show anna.ledger --json"))["remaining"]["epsilon"] == "0"
    error = ask(f"{join('anna')} --version 2").exception
    check_refusal(error, BudgetExceeded, "cost")


def test_the_advice_to_raise_a_signed_ledger_works():
    """First reader A5: the printed command lacked --keys and was refused."""
    plain("anna")
    call(join("anna"), 3)
    told = str(ask(f"{join('anna')} --version 2").exception)
    advice = told.split("twofold ledger raise ")[1].split(' --reason "..."')[0]
    assert "--keys anna.keys" in advice
    call(f"ledger raise {advice} --reason agreed")
    call("plan agree plan.toml --keys anna.keys --ledger anna.ledger")


def test_the_price_and_the_policy_are_said():
    """First reader A2, A6."""
    new("--survivors 4")
    record = json.loads(call(join("anna", "--json"), 3))
    assert (record["policy"], record["epsilon"]) == (None, "20")
    assert record["honest"] == Plan.read("plan.toml").parameters.honest
    said = call(join("anna"), 3)
    assert "no policy" in said
    for fact in ("ε = 20", record["guess"], f"ε = {record['alone']}", f"at least {record['honest']} entities"):
        assert fact in said


def test_a_release_says_under_which_policy():
    """First reader A2."""
    plain("anna")
    line = "release --plan plan.toml --data anna.csv --ledger anna.ledger --new-ledger --keys anna.keys -o anna.round1"
    assert "no policy" in call(line)
    rules = Policy(writers=None, operators=None, min_users=0, min_participants=0)
    Path("policy.toml").write_text(rules.text)
    assert f"policy {rules.hash[:8]} (policy.toml)" in call(line)
    assert json.loads(call(f"{line} --json"))["policy"] == rules.hash


def test_waiting_for_an_approval_is_no_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """First reader A10: exit code 3 as for every wait, and a command that can be copied."""
    plain("anna")
    call("keys new --person ada --keys ada.keys -o ada.pub")
    people = (("ada", Identity.read("ada.pub").sign),)
    rules = Policy(writers=None, operators=None, min_users=0, min_participants=0, approvals=1, approvers=people)
    Path("site").mkdir()
    Path("site/policy.toml").write_text(rules.text)
    Path("anna.keys").rename("site/anna.keys")
    for state in Path().glob("anna.keys.*"):
        state.rename(Path("site") / state.name)
    line = join("anna").replace("anna.keys", "site/anna.keys")
    single = "release --plan plan.toml --data anna.csv --ledger anna.ledger --keys site/anna.keys -o anna.round1"
    for words, code in ((line, 3), (single, 3), (f"{line} --policy items.csv", 2)):
        monkeypatch.setattr(sys, "argv", ["twofold", *words.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == code, words
        told = capsys.readouterr().err
        if code == 3:
            assert "twofold approve site/anna.draft --keys ada.keys --policy site/policy.toml" in told
    call("approve site/anna.draft --keys ada.keys --policy site/policy.toml --yes")
    call(line, 3)
    assert list(Path("box").glob("*.round1"))


def test_a_server_says_which_step_is_open():
    """First reader A13: "0 of 4 messages" right after the key shares, and no word that a step had closed."""
    new("--survivors 4")
    assert "closed: agreements\nopen: key shares, step 2 of 4" in call(COLLECT, 3)
    for name in NAMES:
        call(join(name), 3)
    assert "closed: agreements, key shares\nopen: masked messages, step 3 of 4" in call(COLLECT, 3)
    record = json.loads(call(f"{COLLECT} --json", 3))
    assert (record["steps_closed"], record["step_open"]) == (["agreements", "key shares"], "masked messages")


def test_a_plan_that_nobody_confirmed_says_what_was_sent():
    """First reader A7: "nothing was shared", and the agreement was in the folder."""
    call(NEW)
    agree("plan.toml", confirm=False, write=True)
    check_refusal(ask(join("anna")).exception, NotReady, "confirm", "agreement was sent")
    assert len(list(Path("box").iterdir())) == 1
