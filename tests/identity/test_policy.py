"""The site's policy: every rule refuses by itself, all broken rules are told at once, and the file is read strictly."""

from __future__ import annotations

import math
import os
import time
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, BadPolicy, PolicyRefused
from twofold.identity.policy import RULES, PlanFacts, Policy, amount_text, policy_reference
from twofold.storage.signing import Purpose, SigningKey, verify

WRITER, OPERATOR, OFFICER, HEAD = (SigningKey(bytes([number]) * 32).public for number in range(1, 5))
POLICY = Policy(
    max_epsilon=Fraction(1),
    total_epsilon=Fraction(3),
    min_colluders=2,
    require_secure_sum=True,
    mechanisms=("gram", "sketch"),
    approvals=1,
    writers=(("Trial office, Basel", WRITER),),
    operators=(("Data centre", OPERATOR),),
    approvers=(("officer", OFFICER), ("head", HEAD)),
)
FACTS = PlanFacts(
    plan="ab" * 32,
    name="drugs",
    epsilon=Fraction(1),
    delta=Fraction(1, 10**6),
    spent_epsilon=Fraction(2),
    n_users=100,
    entities=("st-anna", "st-bern", "st-clara"),
    mechanism="gram",
    secure="peers",
    colluders=2,
    writer=WRITER,
    operators=(OPERATOR,),
)


def test_a_plan_at_every_limit_is_allowed() -> None:
    assert POLICY.violations(FACTS) == ()
    POLICY.check(FACTS)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("simulation", {"simulation": True}),
        ("max_epsilon", {"epsilon": Fraction(1) + Fraction(1, 10**30), "spent_epsilon": Fraction(0)}),
        ("max_delta", {"delta": Fraction(2, 10**6)}),
        ("total_epsilon", {"spent_epsilon": Fraction(2) + Fraction(1, 10**30)}),
        ("total_delta", {"spent_delta": Fraction(1, 10**5)}),
        ("min_users", {"n_users": 99}),
        ("min_participants", {"entities": ("st-anna", "st-bern")}),
        ("min_participants", {"entities": ("st-anna", "st-anna", "st-anna")}),
        ("min_participants", {"entities": ()}),
        ("min_colluders", {"colluders": 1}),
        ("require_secure_sum", {"secure": "none"}),
        ("mechanisms", {"mechanism": "popularity"}),
        ("writers", {"writer": OPERATOR}),
        ("writers", {"writer": None}),
        ("operators", {"operators": (OPERATOR, WRITER)}),
        ("operators", {"operators": ()}),
    ],
)
def test_each_rule_refuses_by_itself(rule: str, change: dict[str, object]) -> None:
    facts = replace(FACTS, **change)
    assert [one.rule for one in POLICY.violations(facts)] == [rule]
    with refused(PolicyRefused, rule, found=rule, expected=rule):
        POLICY.check(facts)


def test_weak_promises_need_the_sites_word() -> None:
    wide = replace(POLICY, max_epsilon=Fraction(50), total_epsilon=Fraction(50), max_delta="1/2", total_delta="1/2")
    for change in ({"epsilon": Fraction(20) + Fraction(1, 10**9)}, {"delta": Fraction(1, 99)}):
        facts = replace(FACTS, **change)
        assert facts.weak == tuple(change)
        with refused(PolicyRefused, "allow_weak"):
            wide.check(facts)
        replace(wide, allow_weak=True).check(facts)
    assert replace(FACTS, epsilon=Fraction(20), delta=Fraction(1, 100)).weak == ()


def test_every_broken_rule_is_told_at_once() -> None:
    facts = PlanFacts(
        plan="0" * 64,
        name="x",
        epsilon=math.inf,
        delta=Fraction(1, 2),
        n_users=3,
        entities=(),
        mechanism="\x1b[2J",
        simulation=True,
    )
    found = [one.rule for one in POLICY.violations(facts)]
    assert found == [rule for rule in RULES if rule != "min_colluders"]  # which speaks of a secure sum only
    with refused(PolicyRefused, "simulation", *found) as caught:
        POLICY.check(facts)
    assert "\x1b" not in str(caught.value)


def test_a_name_gives_no_right_only_the_key_does() -> None:
    """Another key under an allowed name is refused: names are free text for people."""
    other = replace(POLICY, writers=(("Trial office, Basel", HEAD),))
    assert [one.rule for one in other.violations(FACTS)] == ["writers"]


def test_an_empty_list_allows_nobody_and_any_allows_all() -> None:
    closed = replace(POLICY, writers=(), operators=(), mechanisms=())
    assert [one.rule for one in closed.violations(FACTS)] == ["mechanisms", "writers", "operators"]
    replace(POLICY, writers=None, operators=None, mechanisms=None).check(replace(FACTS, writer=None, operators=()))


def test_two_operators_must_both_be_listed() -> None:
    """Together they could open a message, so "any" does not allow them."""
    other = SigningKey.new().public
    facts = replace(FACTS, secure="operators", operators=(OPERATOR, other), alone="infinite")
    assert [one.rule for one in POLICY.violations(facts)] == ["operators"]
    assert [one.rule for one in replace(POLICY, operators=None).violations(facts)] == ["operators"]
    both = replace(POLICY, operators=(("one", OPERATOR), ("two", other)))
    both.check(facts)
    for few in ((OPERATOR,), (OPERATOR, OPERATOR), ()):
        assert [one.rule for one in both.violations(replace(facts, operators=few))] == ["operators"]


def test_the_fewest_people_are_the_plans_number() -> None:
    """No field of the facts is a count of the data: all are values of the plan or of the ledger."""
    assert {one.name for one in fields(PlanFacts)} == {
        *("plan", "name", "epsilon", "delta", "spent_epsilon", "spent_delta", "n_users", "entities", "mechanism"),
        *("secure", "colluders", "writer", "operators", "simulation"),
        *("ceiling_epsilon", "ceiling_delta", "guess", "alone", "honest"),
    }


def test_the_file_and_back(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.text)
    again = Policy.read(path)
    assert (again, again.hash) == (POLICY, POLICY.hash)
    path.write_bytes(b"\xef\xbb\xbf# a remark\n" + POLICY.text.replace("max_epsilon = 1", 'max_epsilon = "1"').encode())
    assert Policy.read(path).hash == POLICY.hash
    assert Policy.from_text(Policy().text) == Policy()


def test_every_changed_value_changes_the_hash() -> None:
    changes = {
        **{name: Fraction(1, 7) for name in ("max_epsilon", "max_delta", "total_epsilon", "total_delta")},
        **dict.fromkeys(("min_users", "min_participants", "min_colluders"), 77),
        "allow_weak": True,
        "require_secure_sum": False,
        "mechanisms": None,
        "approvals": 2,
        "log": "other.log",
        "writers": None,
        "operators": (),
        "approvers": (("officer", OFFICER),),
    }
    assert set(changes) == {one.name for one in fields(Policy)}
    hashes = {replace(POLICY, **{name: value}).hash for name, value in changes.items()}
    assert len(hashes | {POLICY.hash}) == len(changes) + 1
    for name, value in changes.items():
        changed = replace(POLICY, **{name: value})
        assert Policy.from_text(changed.text) == changed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_epsilon", bad) for bad in ("0", "-1", "nan", "inf", "true", '"1/0"', '"1e9999999"', "[1]", "1e400")),
        *(("max_epsilon", bad) for bad in ("0x" + "f" * 900, "9" * 900, f'"{"9" * 500}"', "1979-05-27", '"\\u0000"')),
        *(("max_delta", bad) for bad in ("1", "-0.1", "nan", '"x"', "{}")),
        *(("total_epsilon", bad) for bad in ("0", "{a = 1}")),
        *(("min_users", bad) for bad in ("-1", "1.5", "true", '"5"', "1" + "0" * 13, "[]")),
        *(("approvals", bad) for bad in ("3", "-1", "true", "0.5")),
        *(("allow_weak", bad) for bad in ("1", '"true"', "[]")),
        *(("log", bad) for bad in ('""', "5", '"a\\u0000b"', '"\\u202e"', f'"{"x" * 401}"')),
        *(("mechanisms", bad) for bad in ('"gram"', "[1]", '["../x"]', "{}", '[["gram"]]')),
    ],
)
def test_a_value_out_of_range(name: str, value: str) -> None:
    lines = [f"{name} = {value}" if line.startswith(f"{name} =") else line for line in POLICY.text.splitlines()]
    with refused(BadPolicy, name) as caught:
        Policy.from_text("\n".join(lines))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", [one.name for one in fields(Policy)])
def test_a_missing_field_is_named(name: str) -> None:
    text = "\n".join(line for line in POLICY.text.splitlines() if not line.startswith((f"{name} =", f"[{name}]")))
    if name in ("writers", "operators", "approvers"):  # its lines now belong to the table above
        with pytest.raises(BadPolicy):
            Policy.from_text(text)
        return
    with refused(BadPolicy, name, found=name):
        Policy.from_text(text)


def test_an_unknown_field_is_named() -> None:
    with refused(BadPolicy, "max_epsilom", expected="max_epsilon"):
        Policy.from_text("max_epsilom = 3\n" + POLICY.text)
    with refused(BadPolicy, "schema", expected="twofold.policy/1"):
        Policy.from_text(POLICY.text.replace("twofold.policy/1", "twofold.policy/2"))


def person(name: str, key: bytes | str) -> str:
    return f'{name} = "{key if isinstance(key, str) else key.hex()}"\n'


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (person("second", OFFICER), "a key twice"),
        (person("Officer", WRITER), "a name twice"),
        (person('"o fficer"', WRITER), None),
        (person("other", OFFICER.hex().upper()), None),
        (person("other", "ab"), None),
        (person("other", "ff" * 32), None),
        ("other = 5\n", None),
        ("[approvers.other]\nkey = 1\n", None),
    ],
)
def test_an_approver_twice_or_without_a_key(more: str, found: str | None) -> None:
    assert POLICY.text.rstrip().splitlines()[-1].startswith('"officer"')
    with refused(BadPolicy, found=found):
        Policy.from_text(POLICY.text + more)


SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


@pytest.mark.parametrize("key", SMALL_ORDER)
def test_a_key_for_which_everybody_can_sign_is_refused(key: str) -> None:
    """OpenSSL takes R = identity, s = 0 as a signature under these points: of every text, or of one in 2, 4 or 8."""
    forged = (1).to_bytes(32, "little") + bytes(32)
    texts = [str(number).encode() for number in range(200)]
    holds = sum(verify(bytes.fromhex(key), Purpose.APPROVAL, text, forged) for text in texts)
    assert holds == 200 if int(key, 16) >> 248 == 1 else holds > 10
    with refused(BadPolicy, "approvers"):
        Policy.from_text(POLICY.text + person("anyone", key))


def test_the_same_name_twice_is_not_toml() -> None:
    with refused(BadPolicy, "policy"):
        Policy.from_text(POLICY.text + person("officer", WRITER))


def test_more_approvals_than_approvers() -> None:
    with refused(BadPolicy, "approvals", found="2 approvals, 1 approvers"):
        replace(POLICY, approvals=2, approvers=(("officer", OFFICER),))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    large, link, pipe, text = (tmp_path / name for name in ("large", "link", "pipe", "text"))
    large.write_bytes(b"#" * 100_001)
    text.write_bytes(b"\xff\xfe")
    link.symlink_to(text)
    os.mkfifo(pipe)
    for path in (large, link, pipe, text, tmp_path, tmp_path / "none"):
        with refused(BadPolicy, "policy"):
            Policy.read(path)


@pytest.mark.parametrize(
    "text", ["a." * 49_000 + "a = 1", "a = " + "[" * 90_000, "a = " + "[\n" * 40_000, "[" + "a." * 400 + "a]\n" * 99]
)
def test_text_made_to_be_costly_is_refused_quickly(text: str) -> None:
    started = time.process_time()
    with pytest.raises(BadPolicy):
        Policy.from_text(text)
    assert time.process_time() - started < 2


def test_facts_must_be_exact() -> None:
    for change in ({"epsilon": 0.5}, {"delta": math.nan}, {"spent_epsilon": Fraction(-1)}, {"plan": "plan.toml"}):
        with refused(BadMessage, next(iter(change))):
            replace(FACTS, **change)


def test_numbers_are_shown_so_that_a_difference_is_seen() -> None:
    assert amount_text(Fraction(1000001, 1000000)) == "1.000001"
    assert amount_text(Fraction(10**9 + 1, 10**9)) == "1.000000001"


def test_the_reference_page_has_every_field() -> None:
    """Print it anew: python -c "from twofold.identity.policy import *; print(policy_reference())"."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "policy.md"
    assert policy_reference() in page.read_text()
