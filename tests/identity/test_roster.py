"""The list of public keys: one file, one hash, no key twice."""

from __future__ import annotations

import json

import pytest

from tests.refused import refused
from twofold.errors import BadPlan, TwofoldError
from twofold.identity.roster import Roster
from twofold.secure_sum import Keys


def test_a_file_and_back(tmp_path):
    roster = Roster({name: Keys.new().public for name in ("st-bern", "st-anna")})
    roster.write(tmp_path / "plan.roster")
    again = Roster.read(tmp_path / "plan.roster")
    assert (again, again.hash, list(again)) == (roster, roster.hash, ["st-anna", "st-bern"])
    assert "secret" not in repr(again)


def test_the_hash_changes_with_every_key_and_name():
    one, two = Keys.new().public, Keys.new().public
    hashes = {Roster(keys).hash for keys in ({"a": one, "b": two}, {"a": two, "b": one}, {"a": one, "c": two})}
    assert len(hashes) == 3


def test_joined_takes_the_same_twice_and_refuses_two_different():
    one, two = Roster({"a": Keys.new().public}), Roster({"b": Keys.new().public})
    assert list(Roster.joined([one, two, one])) == ["a", "b"]
    with refused(BadPlan, "roster", found="a"):
        Roster.joined([one, Roster({"a": Keys.new().public})])


def test_a_key_twice_is_refused():
    key = Keys.new().public
    with refused(BadPlan, "roster", found="a, b"):
        Roster({"a": key, "b": key})


SMALL_ORDER = "00" * 32


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("schema"),
        lambda record: record.update(schema="twofold.keys/2"),
        lambda record: record.update(keys=[]),
        lambda record: record["keys"].clear(),
        lambda record: record["keys"]["a"].pop("mask"),
        lambda record: record["keys"]["a"].update(mask="zz"),
        lambda record: record["keys"]["a"].update(mask=5),
        lambda record: record["keys"]["a"].update(mask=SMALL_ORDER),
        lambda record: record["keys"].update({"../a": record["keys"]["a"]}),
        lambda record: record.update(extra=1),
    ],
)
def test_another_file(change):
    record = json.loads(Roster({"a": Keys.new().public}).text)
    change(record)
    with pytest.raises(TwofoldError):
        Roster.from_text(json.dumps(record))


def test_no_text(tmp_path):
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with refused(BadPlan, "roster", found="no text"):
        Roster.read(tmp_path / "x")


def test_secret_keys_are_no_public_ones_and_are_not_shown(tmp_path):
    secret = Keys.new().to_bytes()
    (tmp_path / "st-anna.keys").write_bytes(secret)
    with pytest.raises(TwofoldError) as error:
        Roster.read(tmp_path / "st-anna.keys")
    assert not any(part in str(error.value) for part in json.loads(secret).values() if isinstance(part, str))
