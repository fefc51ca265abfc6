"""Signed heads: an edit that was hashed again shows to anyone who knows the signer's key."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter, LedgerBroken
from twofold.privacy.budget import ApproxDP
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.head import head_of, read_head, signed
from twofold.privacy.ledger.record import START, encode, read_chain, seal
from twofold.privacy.unit import Unit
from twofold.storage import files as disk
from twofold.storage.signing import Purpose, SigningKey, verify

KEY, OTHER = SigningKey(bytes(32)), SigningKey(bytes([1] * 32))
CEILING = ApproxDP(epsilon=2, delta=1e-5)
MORE = ApproxDP(epsilon=3, delta=1e-5)


class Killed(BaseException):
    """The process ends here."""


def head_path(path: Path) -> Path:
    return path.with_name(path.name + ".head")


@pytest.fixture
def signing(tmp_path) -> Ledger:
    return Ledger.create(
        tmp_path / "s.ledger", dataset="visits", ceiling=CEILING, unit=Unit.person(), signer=KEY, wait=0.0
    )


def test_a_signed_head_verifies_with_its_key_and_no_other(signing, ask):
    signing.release(**ask("a"), draw=lambda: b"a")
    assert signing.verify(key=KEY.public).signer == KEY.public.hex()
    assert Ledger(signing.path).verify().signer == KEY.public.hex()
    for use in (
        lambda: signing.verify(key=OTHER.public),
        lambda: Ledger(signing.path, key=OTHER.public).state(),
        lambda: Ledger(signing.path, signer=OTHER).state(),
        lambda: Ledger(signing.path, signer=OTHER).release(**ask("b"), draw=lambda: b"b"),
    ):
        with refused(LedgerBroken, "signature"):
            use()


def test_the_signature_covers_dataset_hash_and_number_for_this_purpose_only(signing):
    head = read_head(head_path(signing.path))
    said = json.dumps({"dataset": "visits", "hash": head.hash, "length": 1}, separators=(",", ":")).encode()
    assert verify(KEY.public, Purpose.LEDGER, said, bytes.fromhex(head.signature))
    assert not verify(KEY.public, Purpose.CARD, said, bytes.fromhex(head.signature))


def test_a_ledger_without_a_signature_works_and_is_refused_where_a_key_is_given(ledger, ask):
    before = ledger.path.read_bytes(), head_path(ledger.path).read_bytes()
    assert "signer" not in json.loads(before[1])
    assert ledger.verify().signer == ""
    with refused(LedgerBroken, "signature"):
        ledger.verify(key=KEY.public)
    with refused(LedgerBroken, "signature"):
        Ledger(ledger.path, key=KEY.public).release(**ask("a"), draw=lambda: b"a")


def test_an_older_ledger_is_signed_from_the_next_record_on_and_keeps_its_bytes(ledger, ask):
    ledger.release(**ask("a"), draw=lambda: b"a")
    before = ledger.path.read_bytes()
    signer = Ledger(ledger.path, signer=KEY)
    assert signer.release(**ask("a"), draw=lambda: b"never") == b"a"
    assert ledger.path.read_bytes() == before
    signer.release(**ask("b"), draw=lambda: b"b")
    assert ledger.path.read_bytes().startswith(before)
    assert signer.verify(key=KEY.public).records == 6
    assert signer.state().spent.epsilon == 1


def test_once_signed_it_is_written_to_by_its_signer_alone(signing, ask):
    for other in (Ledger(signing.path), Ledger(signing.path, key=KEY.public)):
        for use in (
            lambda other=other: other.release(**ask("a"), draw=lambda: b"a"),
            lambda other=other: other.raise_ceiling(MORE, reason="x"),
        ):
            with refused(LedgerBroken, "signer"):
                use()
    assert len(signing.path.read_bytes().splitlines()) == 1


@pytest.mark.parametrize("how", ["no signature", "another key", "another length", "another data set", "cut", "zeros"])
def test_an_unsigned_or_wrongly_signed_head_is_refused(signing, ask, how):
    signing.release(**ask("a"), draw=lambda: b"a")
    path = head_path(signing.path)
    plain = head_of(read_chain(signing.path.read_bytes()))
    right = json.loads(path.read_bytes())
    heads = {
        "no signature": plain.encode(),
        "another key": signed(plain, "visits", OTHER).encode(),
        "another data set": signed(plain, "visitz", KEY).encode(),
        "another length": json.dumps(right | {"length": 2}).encode(),
        "cut": json.dumps(right | {"signature": right["signature"][:-2]}).encode(),
        "zeros": json.dumps(right | {"signature": "0" * 128}).encode(),
    }
    path.write_bytes(heads[how])
    for use in (
        lambda: Ledger(signing.path).state(),
        lambda: Ledger(signing.path, signer=KEY).release(**ask("b"), draw=lambda: b"b"),
        lambda: signing.verify(key=KEY.public),
    ):
        with pytest.raises(LedgerBroken):
            use()


def test_a_chain_without_its_signer_is_refused_where_the_key_is_given(signing, ask):
    """Hashed again without the field that names the signer: as good as new to those who know no key."""
    signing.release(**ask("a"), draw=lambda: b"a")
    previous, content = START, b""
    for number, line in enumerate(signing.path.read_bytes().splitlines()[:1]):
        body = {name: value for name, value in json.loads(line)["body"].items() if name != "signer"}
        record = seal(number=number, previous=previous, body=body)
        previous, content = record.hash, content + encode(record)
    signing.path.write_bytes(content)
    shutil.rmtree(f"{signing.path}.releases")
    plain = head_of(read_chain(content))
    head_path(signing.path).write_bytes(plain.encode())
    Ledger(signing.path).state()
    for head in (plain.encode(), signed(plain, "visits", OTHER).encode()):
        head_path(signing.path).write_bytes(head)
        with refused(LedgerBroken, "signature"):
            Ledger(signing.path).verify(key=KEY.public)
    with refused(LedgerBroken, "signature"):  # signed, and no record asks for it
        Ledger(signing.path).state()


def test_a_raise_behind_the_head_needs_the_signature(signing):
    """One record behind the head is adopted after a crash; a stranger's raise must not be."""
    chain = read_chain(signing.path.read_bytes())
    body = {"kind": "raise", "at": "", "epsilon": "100", "delta": "1/2", "reason": "planted"}
    forged = encode(seal(number=1, previous=chain.hash, body=body))
    for line in (forged, forged[:-1]):
        signing.path.write_bytes(signing.path.read_bytes().splitlines(keepends=True)[0] + line)
        before = signing.path.read_bytes()
        with refused(LedgerBroken, "signature", found="record 1"):
            Ledger(signing.path, signer=KEY).raise_ceiling(ApproxDP(epsilon=200, delta="1/2"), reason="x")
        assert signing.path.read_bytes() == before


@pytest.mark.parametrize("doing", ["raise", "release", "first signature", "change"])
def test_a_kill_at_any_step_leaves_a_ledger_its_signer_can_use(tmp_path, ask, monkeypatch, doing):
    for step in range(1, 80):
        path = tmp_path / f"{step}.ledger"
        first = None if doing == "first signature" else KEY
        Ledger.create(path, dataset="v", ceiling=CEILING, unit=Unit.person(), signer=first)
        left = [step]

        def listen(name, left=left):
            left[0] -= 1
            if left[0] == 0:
                raise Killed(name)

        def act(path=path):
            ledger = Ledger(path, signer=KEY)
            if doing == "raise":
                ledger.raise_ceiling(MORE, reason="more")
            elif doing == "change":
                ledger.change_signer(OTHER, reason="lost")
            else:
                ledger.release(**ask("a"), draw=lambda source: source.words(3).tobytes())

        with monkeypatch.context() as patch:
            patch.setattr(disk, "_listener", listen)
            try:
                act()
                done = True
            except Killed:
                done = False
        Ledger(path).verify()
        # Behind the head may be the record that names the new key.
        signers = [KEY, OTHER] if doing == "change" else [KEY]
        outcomes = []
        for key in signers:
            try:
                Ledger(path, signer=key).release(**ask("a"), draw=lambda source: source.words(3).tobytes())
                outcomes.append(key)
            except LedgerBroken:
                pass
        assert len(outcomes) == 1, step
        assert Ledger(path).verify(key=outcomes[0].public).releases == 1
        assert Ledger(path).state().spent.epsilon == Fraction(1, 2)
        if done:
            return
    raise AssertionError("never done")


def test_a_lost_key_is_replaced_for_a_reason_that_stays(signing, ask):
    with refused(BadPrivacyParameter, "reason"):
        Ledger(signing.path).change_signer(OTHER, reason=" ")
    changed = Ledger(signing.path)
    changed.change_signer(OTHER, reason="the old key was lost")
    changed.release(**ask("a"), draw=lambda: b"a")
    assert changed.verify(key=OTHER.public).signer == OTHER.public.hex()
    assert "the old key was lost" in signing.path.read_text()
    with refused(LedgerBroken, "signature"):
        Ledger(signing.path).verify(key=KEY.public)
    with refused(LedgerBroken, "signature"):
        signing.release(**ask("b"), draw=lambda: b"b")
