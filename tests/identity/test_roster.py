"""The list of members: one file, one hash, no name and no key twice, and nobody but entities and operators."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import BadPlan, TwofoldError
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.keys import Identity, Role, Secrets
from twofold.identity.roster import Roster
from twofold.secure_sum import Keys, PublicKeys
from twofold.storage.container import canonical_json
from twofold.storage.signing import Purpose

A, B = Secrets.new("a"), Secrets.new("b")
OPERATOR = Secrets.new("coordinator", Role.OPERATOR)


def part(*secrets: Secrets) -> Roster:
    return Roster(one.identity for one in secrets)


def enrolled_with(secrets: Secrets, keys: PublicKeys) -> Identity:
    """Someone who signs whatever keys they like as their own."""
    record = {"schema": "twofold.identity/1", "name": secrets.name, "role": secrets.role.value}
    record |= {"sign": secrets.sign.public.hex()} | keys.to_record()
    signature = secrets.sign.sign(Purpose.IDENTITY, canonical_json(record).encode())
    return Identity(name=secrets.name, role=secrets.role, sign=secrets.sign.public, sum=keys, signature=signature)


def test_a_file_and_back(tmp_path: Path):
    roster = part(OPERATOR, B, A)
    roster.write(tmp_path / "plan.roster")
    again = Roster.read(tmp_path / "plan.roster")
    assert (again, again.hash, list(again)) == (roster, roster.hash, ["a", "b", "coordinator"])
    assert (list(again.entities), list(again.operators), again.operator) == (
        ["a", "b"],
        ["coordinator"],
        OPERATOR.identity,
    )
    assert again.sums == {"a": A.identity.sum, "b": B.identity.sum}
    assert "secret" not in repr(again)


def test_a_public_part_is_a_roster_of_one(tmp_path: Path):
    A.identity.write(tmp_path / "a.pub")
    assert Roster.read(tmp_path / "a.pub") == part(A)
    assert Roster.identities(tmp_path / "a.pub") == [A.identity]


def test_the_hash_changes_with_every_key_name_and_role():
    other = Secrets(name="c", sign=A.sign, sum=A.sum)
    served = Secrets(name="a", role=Role.OPERATOR, sign=A.sign, sum=A.sum)
    members = [(A, B), (A.renewed(), B), (Secrets.new("a"), B), (other, B), (served, B), (A,), (A.replaced(), B)]
    assert len({part(*one).hash for one in members}) == len(members)
    assert part(A, B).hash == part(B, A).hash


def test_one_operator_runs_a_federation():
    with refused(BadPlan, "roster", found="0 operators"):
        part(A).operator  # noqa: B018 - it raises
    both = part(A, OPERATOR, Secrets.new("other", Role.OPERATOR))
    with refused(BadPlan, "roster", found="2 operators"):
        both.operator  # noqa: B018
    with refused(BadPlan, "roster", found="2 operators"):
        Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), roster=both)


# No name and no key twice


def test_ones_own_name_twice():
    """Audit: a roster in which somebody else has my name."""
    with refused(BadPlan, "roster", found="a, a"):
        part(A, B, Secrets.new("a"))
    with refused(BadPlan, "roster", found="a, a"):
        part(A, A)
    with refused(BadPlan, "roster"):
        part(A, OPERATOR, Secrets.new("a", Role.OPERATOR))


@pytest.mark.parametrize("name", ["A", "a"])
def test_names_that_differ_in_case_only(name: str):
    with refused(BadPlan, "roster", found=f"{name}, a" if name == "A" else "a, a"):
        part(A, Secrets.new(name))
    with refused(BadPlan, "roster"):
        part(OPERATOR, Secrets.new("Coordinator"))


def test_a_key_in_two_entries():
    """Two names for one owner; the sum keys cannot be proved to be one's own, so a copy of them is refused as well."""
    with refused(BadPlan, "roster", found="a, c"):
        part(A, Secrets(name="c", sign=A.sign, sum=Keys.new()))
    with refused(BadPlan, "roster", found="a, c"):
        part(A, Secrets(name="c", sign=B.sign, sum=A.sum))
    mine = Keys.new().public
    for keys in (
        PublicKeys(mask=A.identity.sum.mask, seal=mine.seal),
        PublicKeys(mask=mine.mask, seal=A.identity.sum.seal),
        PublicKeys(mask=A.identity.sum.seal, seal=mine.seal),
    ):
        with refused(BadPlan, "roster", found="a, b"):
            Roster([A.identity, enrolled_with(B, keys)])


def test_a_signing_key_as_a_mask_key_of_another_or_of_oneself():
    """The curves differ, and nobody has a reason for it: one number serves one purpose of one member."""
    signer = Secrets.new("a")
    while signer.sign.public[-1] >= 128:  # a mask key in canonical form has no sign bit
        signer = Secrets.new("a")
    copied = PublicKeys(mask=signer.sign.public, seal=Keys.new().public.seal)
    with refused(BadPlan, "roster", found="a, b"):
        Roster([signer.identity, enrolled_with(B, copied)])
    with refused(BadPlan, "roster", found="a"):
        Roster([enrolled_with(signer, copied)])


def test_a_key_in_two_rosters_is_fine_and_the_sum_keys_of_each_are_new():
    """The signing key may serve for years; what ties the keys of a sum to one plan is the key store."""
    first, second = part(A, OPERATOR), part(A.renewed(), OPERATOR.renewed())
    assert first["a"].sign == second["a"].sign
    assert first.hash != second.hash
    assert not {first["a"].sum.mask, first["a"].sum.seal} & {second["a"].sum.mask, second["a"].sum.seal}


def test_people_approve_and_do_not_take_part(tmp_path: Path):
    person = Secrets.new("dr-kim", Role.PERSON)
    with refused(BadPlan, "roster", found="dr-kim"):
        part(A, person)
    person.identity.write(tmp_path / "kim.pub")
    assert Roster.identities(tmp_path / "kim.pub") == [person.identity]
    with refused(BadPlan, "roster", found="dr-kim"):
        Roster.read(tmp_path / "kim.pub")


def test_nobody_at_all():
    with refused(BadPlan, "roster", found="0"):
        Roster([])


# Joining


def test_joined_takes_the_same_twice_and_refuses_two_different():
    assert list(Roster.joined([part(A), part(B), part(A, B)])) == ["a", "b"]
    for other in (Secrets.new("a"), A.renewed(), Secrets.new("a", Role.OPERATOR)):
        with refused(BadPlan, "roster", found="a"):
            Roster.joined([part(A), part(B), part(other)])
    with refused(BadPlan, "roster", found="A, a"):
        Roster.joined([part(A), part(Secrets.new("A"))])


def test_a_key_replaces_those_that_vouch_for_it_in_any_order():
    """The first version took a chain of three in one order only."""
    second = A.replaced()
    third = second.replaced()
    for parts in itertools.permutations([part(A), part(second), part(third), part(B)]):
        assert Roster.joined(parts)["a"] == third.identity


def test_a_gap_or_a_fork_in_the_chain_is_for_people_to_settle():
    second = A.replaced()
    for parts in (
        [A, second.replaced()],
        [A, second, A.replaced()],
        [second, A.replaced()],
        [A, Secrets.new("a").replaced()],
    ):
        for order in (parts, parts[::-1]):
            with refused(BadPlan, "roster", found="a"):
                Roster.joined(part(one) for one in order)


def test_revoked_keys_do_not_join():
    second = A.replaced()
    with refused(BadPlan, "roster", found="a"):
        Roster.joined([part(A), part(B)], revoked=[A.revocation()])
    with refused(BadPlan, "roster", found="a"):
        Roster.joined([part(A), part(second)], revoked=[second.revocation()])
    with refused(BadPlan, "roster", found="a"):
        Roster.joined([part(A.renewed())], revoked=[A.revocation()])
    assert Roster.joined([part(A), part(second)], revoked=[A.revocation()])["a"] == second.identity
    assert list(Roster.joined([part(A)], revoked=[B.revocation()])) == ["a"]


# Files


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("schema"),
        lambda record: record.update(schema="twofold.keys/2"),
        lambda record: record.update(schema="twofold.roster/2"),
        lambda record: record.update(members={}),
        lambda record: record.update(members="a"),
        lambda record: record.update(members=[[]]),
        lambda record: record.update(members=[None]),
        lambda record: record.update(members=[{}] * 2_003),
        lambda record: record["members"].clear(),
        lambda record: record["members"].append(record["members"][0]),
        lambda record: record["members"][0].pop("mask"),
        lambda record: record["members"][0].update(mask="zz"),
        lambda record: record["members"][0].update(mask=5),
        lambda record: record["members"][0].update(mask="00" * 32),
        lambda record: record["members"][0].update(name="../a"),
        lambda record: record["members"][0].update(name="b"),
        lambda record: record["members"][0].update(role="operator"),
        lambda record: record.update(extra=1),
    ],
)
def test_another_file(change):
    record = json.loads(part(A).text)
    change(record)
    with pytest.raises(BadPlan):
        Roster.from_text(json.dumps(record))


@pytest.mark.parametrize("data", [b"\xff\xfe", b"", b"[]", b"[" * 60_000, b'{"members":' + b"9" * 60_000 + b"}"])
def test_no_text(tmp_path: Path, data: bytes):
    (tmp_path / "x").write_bytes(data)
    with refused(BadPlan, "roster") as error:
        Roster.read(tmp_path / "x")
    assert error.value.found


def test_secret_keys_are_no_public_ones_and_are_not_shown(tmp_path: Path):
    for secret in (A.to_bytes(),):
        (tmp_path / "st-anna.keys").write_bytes(secret)
        with pytest.raises(TwofoldError) as error:
            Roster.read(tmp_path / "st-anna.keys")
        parts = [text for text in json.loads(secret).values() if isinstance(text, str) and len(text) == 64]
        assert len(parts) >= 4
        assert not any(text in str(error.value) for text in parts)


def test_a_swapped_key_is_another_roster_and_another_plan():
    """What a plan holds is the hash, so a key cannot be swapped under those who agreed."""
    plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), roster=part(A, OPERATOR))
    swapped = plan.with_(roster=part(Secrets.new("a"), OPERATOR))
    assert plan.differences(swapped) == ("roster",)
    assert replace(A.identity) == plan.members["a"]
