"""Public parts sign themselves, secrets stay secret, and a key is replaced or revoked by its owner only."""

from __future__ import annotations

import copy
import json
import os
import pickle
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, BadPlan, TwofoldError
from twofold.identity.keys import LARGEST_PART, Identity, Revocation, Role, Secrets
from twofold.identity.keystore import new_keys
from twofold.storage.container import canonical_json
from twofold.storage.signing import Purpose, SigningKey

ANNA, BERN = Secrets.new("st-anna"), Secrets.new("st-bern")
NEXT = ANNA.replaced()


def hex_parts(secrets: Secrets) -> list[str]:
    """Everything of these secrets that nobody may see."""
    return [
        secrets.sign.to_bytes().hex(),
        *(getattr(secrets.sum, name).hex() for name in ("mask", "seal", "seed", "salt")),
    ]


# Public parts


@pytest.mark.parametrize("role", Role)
def test_a_file_and_back(tmp_path: Path, role: Role):
    made = Secrets.new("st-anna", role).identity
    made.write(tmp_path / "st-anna.pub")
    assert Identity.read(tmp_path / "st-anna.pub") == made
    assert Identity.from_text(made.text).text == made.text
    assert set(json.loads(made.text)) == {"schema", "name", "role", "sign", "mask", "seal", "signature"}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "st-berna"},
        {"role": Role.OPERATOR},
        {"sign": BERN.identity.sign},
        {"sum": BERN.identity.sum},
        {"signature": BERN.identity.signature},
        {"signature": bytes(64)},
        {"signature": b""},
        {"signature": ANNA.sign.sign(Purpose.MESSAGE, b"anything")},
    ],
)
def test_what_its_owner_did_not_sign_is_no_identity(changes: dict[str, Any]):
    with refused(BadPlan, "public_key"):
        replace(ANNA.identity, **changes)


@pytest.mark.parametrize("at", ["name", "role", "sign", "mask", "seal", "signature"])
def test_every_field_of_the_file_is_signed(at: str):
    with refused(BadPlan, "public_key"):
        Identity.from_record(ANNA.identity.record | {at: BERN.identity.record[at] if at != "role" else "operator"})


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("signature"),
        lambda record: record.pop("mask"),
        lambda record: record.update(extra=1),
        lambda record: record.update(vouched="0" * 128),
        lambda record: record.update(replaces="0" * 64),
        lambda record: record.update(replaces="", vouched=""),
        lambda record: record.update(replaces=BERN.identity.sign.hex(), vouched="0" * 128),
        lambda record: record.update(schema="twofold.identity/2"),
        lambda record: record.update(schema="twofold.secrets/1"),
        lambda record: record.update(schema=["twofold.identity/1"]),
        lambda record: record.update(role="admin"),
        lambda record: record.update(role="Entity"),
        lambda record: record.update(role=["entity"]),
        lambda record: record.update(role=None),
        lambda record: record.update(name="../st-anna"),
        lambda record: record.update(name="x" * 65),
        lambda record: record.update(name=7),
        lambda record: record.update(name={"a": 1}),
        lambda record: record.update(sign=record["sign"].upper()),
        lambda record: record.update(sign=record["sign"][:-2]),
        lambda record: record.update(sign="zz" * 32),
        lambda record: record.update(sign=5),
        lambda record: record.update(sign="ff" * 32),
        lambda record: record.update(sign="00" * 32),
        lambda record: record.update(mask="00" * 32),
        lambda record: record.update(mask=record["seal"]),
        lambda record: record.update(signature=record["signature"] + "00"),
    ],
)
def test_another_record(change: Callable[[dict[str, Any]], Any]):
    record = dict(ANNA.identity.record)
    change(record)
    with refused(BadPlan, "public_key"):
        Identity.from_text(json.dumps(record))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 9_000,
        b'{"a":' * 3_000,
        b'{"name":' + b"1" * 9_000 + b"}",
        b'{"name":1e999}',
        b'{"name":NaN}',
        ANNA.identity.text.encode()[:-1],
        ANNA.identity.text.encode() * 2,
        ANNA.identity.text.replace('"name":', '"name":"x","name":').encode(),
        ANNA.to_bytes(),
    ],
)
def test_hostile_files(tmp_path: Path, data: bytes):
    (tmp_path / "x.pub").write_bytes(data)
    with refused(BadPlan, "public_key") as error:
        Identity.read(tmp_path / "x.pub")
    assert not any(part in str(error.value) for part in hex_parts(ANNA))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path):
    (tmp_path / "x.pub").write_bytes(ANNA.identity.text.encode() + b" " * LARGEST_PART)
    with pytest.raises(TwofoldError):
        Identity.read(tmp_path / "x.pub")


def test_a_key_that_is_not_canonical():
    """2^255 - 18 stands for 1, so the same key would have two names."""
    with refused(BadMessage, "sign"):
        replace(ANNA.identity, sign=(2**255 - 18).to_bytes(32, "little"))


def test_the_words_are_those_of_the_signing_key():
    assert ANNA.identity.words == ANNA.renewed().identity.words
    assert len({one.identity.words for one in (ANNA, BERN, NEXT)}) == 3
    assert replace_name(ANNA, "st-berna").identity.words == ANNA.identity.words


def replace_name(secrets: Secrets, name: str) -> Secrets:
    return Secrets(name=name, role=secrets.role, sign=secrets.sign, sum=secrets.sum)


# Secrets


def test_secrets_as_bytes_and_back():
    for one in (ANNA, NEXT, Secrets.new("dr-kim", Role.PERSON)):
        again = Secrets.from_bytes(one.to_bytes())
        assert (again, again.identity, again.to_bytes()) == (one, one.identity, one.to_bytes())


def test_nothing_secret_is_shown_or_pickled():
    for one in (ANNA, ANNA.sign, ANNA.sum, [ANNA], {"keys": NEXT}):
        assert not any(part in repr(one) + str(one) for part in (*hex_parts(ANNA), *hex_parts(NEXT)))
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(ANNA)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("salt"),
        lambda record: record.update(extra=1),
        lambda record: record.update(schema="twofold.secrets/2"),
        lambda record: record.update(schema="twofold.identity/1"),
        lambda record: record.update(role="admin"),
        lambda record: record.update(name="../x"),
        lambda record: record.update(sign=record["sign"][:-2]),
        lambda record: record.update(sign=record["sign"].upper().replace("0", "g")),
        lambda record: record.update(mask=record["seal"]),
        lambda record: record.update(mask=[record["mask"]]),
        lambda record: record.update(replaces="00"),
        lambda record: record.update(vouched="00"),
        lambda record: record.update(replaces=7),
    ],
)
def test_errors_show_no_secret(change: Callable[[dict[str, Any]], Any]):
    record = json.loads(ANNA.to_bytes())
    change(record)
    with refused(BadPlan, "keys") as error:
        Secrets.from_bytes(json.dumps(record).encode())
    shown = str(error.value) + repr(error.value.__cause__) + repr(error.value.parts)
    assert not any(part in shown for part in hex_parts(ANNA))


#: Keys of a secure sum alone, as older versions wrote them.
OLDER = json.dumps({"version": 1} | dict.fromkeys(("mask", "seal", "seed", "salt"), "11" * 32)).encode()


@pytest.mark.parametrize("data", [b"", b"\xff", b"{}", b"[" * 9_000, b'{"a":' + b"1" * 9_000 + b"}", OLDER])
def test_bytes_that_are_no_secrets(data: bytes):
    with refused(BadPlan, "keys"):
        Secrets.from_bytes(data)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_only_their_owner_reads_the_file(tmp_path: Path):
    before = os.umask(0)
    try:
        new_keys(tmp_path / "st-anna.keys", "st-anna")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "st-anna.keys").stat().st_mode) == 0o600


# Rotation and revocation


def test_renewed_keys_have_the_same_signing_key_and_no_other():
    later = ANNA.renewed()
    assert later.sign == ANNA.sign
    assert not {later.identity.sum.mask, later.identity.sum.seal} & {ANNA.identity.sum.mask, ANNA.identity.sum.seal}
    assert len({getattr(one.sum, name) for one in (ANNA, later) for name in ("mask", "seal", "seed", "salt")}) == 8


def test_an_earlier_key_vouches_for_the_next():
    third = NEXT.replaced()
    assert (NEXT.identity.replaces, third.identity.replaces) == (ANNA.identity.sign, NEXT.identity.sign)
    assert Identity.from_text(third.identity.text) == third.identity
    assert NEXT.renewed().identity.replaces == b""  # by now everybody knows the new one


@pytest.mark.parametrize(
    "changes",
    [
        {"replaces": BERN.identity.sign},
        {"vouched": bytes(64)},
        {"vouched": b""},
        {"vouched": ANNA.identity.signature},
        {"vouched": ANNA.replaced().vouched},
        {"vouched": BERN.sign.sign(Purpose.IDENTITY, b"next " + canonical_json({}).encode())},
        {"vouched": ANNA.revocation().signature},
    ],
)
def test_nobody_else_vouches(changes: dict[str, Any]):
    with refused(BadPlan, "public_key"):
        replace(NEXT.identity, **changes)


def test_a_thief_of_the_name_has_no_voucher():
    """An identity of one's own cannot be made the next one of somebody else."""
    thief = Secrets.new("st-anna")
    forged = SigningKey.new().sign(Purpose.IDENTITY, b"next " + thief.identity.text.encode())
    with refused(BadPlan, "public_key"):
        Secrets(name="st-anna", sign=thief.sign, sum=thief.sum, replaces=ANNA.identity.sign, vouched=forged).identity  # noqa: B018 - made and checked here


def test_a_revocation_and_back(tmp_path: Path):
    gone = ANNA.revocation()
    (tmp_path / "gone").write_text(gone.text)
    assert Revocation.read(tmp_path / "gone") == gone
    assert gone.sign == ANNA.identity.sign == ANNA.renewed().revocation().sign


@pytest.mark.parametrize(
    ("sign", "signature"),
    [
        (BERN.identity.sign, ANNA.revocation().signature),
        (ANNA.identity.sign, BERN.revocation().signature),
        (ANNA.identity.sign, BERN.sign.sign(Purpose.IDENTITY, b"revoked " + ANNA.identity.sign)),
        (ANNA.identity.sign, ANNA.identity.signature),
        (ANNA.identity.sign, NEXT.vouched),
        (ANNA.identity.sign, ANNA.sign.sign(Purpose.MESSAGE, b"revoked " + ANNA.identity.sign)),
        (ANNA.identity.sign, bytes(64)),
    ],
)
def test_nobody_revokes_the_key_of_another(sign: bytes, signature: bytes):
    with refused(BadPlan, "revoked"):
        Revocation(sign=sign, signature=signature)
    record = {"schema": "twofold.revocation/1", "sign": sign.hex(), "signature": signature.hex()}
    with refused(BadPlan, "revoked"):
        Revocation.from_text(canonical_json(record))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[" * 9_000, ANNA.identity.text, ANNA.revocation().text.replace("revocation/1", "revocation/2")],
)
def test_a_text_that_is_no_revocation(text: str):
    with refused(BadPlan, "revoked"):
        Revocation.from_text(text)


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"\xff", b"", b"null", b'"' + b"x" * 10_000 + b'"', b"NaN"],
    ids=lambda _: "case",
)
def test_bytes_made_to_break_a_parser_are_no_keys(data):
    """Audit L1: a keys file of brackets was a RecursionError."""
    with refused(BadPlan, "keys"):
        Secrets.from_bytes(data)
