"""Every way of tampering is noticed, by `verify` and before any draw."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold.errors import LedgerBroken
from twofold.privacy.budget import PureDP
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.head import Standing, head_of, standing
from twofold.privacy.ledger.record import FORMAT, START, encode, read_chain, seal


@pytest.fixture
def filled(ledger, ask):
    """A ledger with three releases and a raise."""
    for name in "abc":
        ledger.release(**ask(name), draw=lambda name=name: name.encode() * 50)
    ledger.raise_ceiling(PureDP(epsilon=3).to_approx(1e-5), reason="more work")
    return ledger


def lines(ledger: Ledger) -> list[bytes]:
    return ledger.path.read_bytes().splitlines(keepends=True)


def refuses(ledger: Ledger, ask) -> str:
    """The ledger must refuse to verify, to show and to draw; give what it says."""
    before = ledger.path.read_bytes() if ledger.path.exists() else b""

    def never() -> bytes:
        raise AssertionError("nothing may be drawn")

    with pytest.raises(LedgerBroken):
        ledger.state()
    with pytest.raises(LedgerBroken):
        ledger.release(**ask("new"), draw=never)
    assert (ledger.path.read_bytes() if ledger.path.exists() else b"") == before
    with pytest.raises(LedgerBroken) as caught:
        ledger.verify()
    return str(caught.value)


def test_a_sound_ledger_verifies(filled):
    verdict = filled.verify()
    assert (verdict.records, verdict.releases, verdict.notes) == (8, 3, ())
    assert verdict.head == filled.state().hash


@pytest.mark.parametrize("number", range(8))
def test_an_edited_record_is_found(filled, ask, number):
    changed = lines(filled)
    changed[number] = changed[number].replace(b'"at":"20', b'"at":"19')
    filled.path.write_bytes(b"".join(changed))
    assert f"record {number} is damaged: its hash does not fit" in refuses(filled, ask)


def test_an_edit_with_a_mended_hash_is_found(filled, ask):
    changed = lines(filled)
    whole = json.loads(changed[1])
    body = {**whole["body"], "epsilon": "1/100"}
    changed[1] = encode(seal(number=1, previous=whole["previous"], body=body))
    filled.path.write_bytes(b"".join(changed))
    assert "record 2 does not follow" in refuses(filled, ask)


def test_a_whole_new_chain_is_found_by_the_head(filled, ask):
    previous, rewritten = START, b""
    for number, line in enumerate(lines(filled)):
        body = {**json.loads(line)["body"], "at": "2000-01-01T00:00:00Z"}
        record = seal(number=number, previous=previous, body=body)
        previous, rewritten = record.hash, rewritten + encode(record)
    filled.path.write_bytes(rewritten)
    assert "is not the one the head file names" in refuses(filled, ask)


@pytest.mark.parametrize("kept", range(8))
def test_a_cut_at_a_line_is_found(filled, ask, kept):
    filled.path.write_bytes(b"".join(lines(filled)[:kept]))
    assert f"it ends after {kept} of 8 records" in refuses(filled, ask)


def test_a_cut_inside_the_last_line_is_found(filled, ask):
    content = filled.path.read_bytes()
    for size in (len(content) - 1, len(content) - 60):
        filled.path.write_bytes(content[:size])
        assert "the last line has no end" in refuses(filled, ask)


def test_a_removed_or_swapped_record_is_found(filled, ask):
    whole = lines(filled)
    filled.path.write_bytes(b"".join(whole[:3] + whole[4:]))
    assert "record 4 stands where record 3 belongs" in refuses(filled, ask)
    filled.path.write_bytes(b"".join([*whole[:3], whole[4], whole[3], *whole[5:]]))
    assert "record 4 stands where record 3 belongs" in refuses(filled, ask)


def test_a_missing_damaged_or_older_head_is_found(filled, ask, tmp_path):
    head = filled.path.with_name(filled.path.name + ".head")
    content = head.read_bytes()
    shutil.copy(head, tmp_path / "old")
    filled.release(**ask("d", epsilon="1/100"), draw=lambda: b"d")
    head.write_bytes(content)
    assert "no single interrupted write explains" in refuses(filled, ask)
    head.write_bytes(b"{}")
    assert "head file is damaged" in refuses(filled, ask)
    head.unlink()
    assert "head file is missing" in refuses(filled, ask)


def test_a_missing_ledger_with_its_head_is_not_started_anew(filled, ask):
    filled.path.unlink()
    assert "missing" in refuses(filled, ask)
    with refused(LedgerBroken, "ledger"):
        Ledger.create(filled.path, dataset="x", ceiling=PureDP(epsilon=1), unit=ask()["unit"])


def test_a_changed_or_missing_release_is_found(filled, ask):
    stored = sorted(filled.path.with_name(filled.path.name + ".releases").glob("*.release"))
    stored[1].write_bytes(b"forged")
    for check in (filled.verify, lambda: filled.release(**ask("b"), draw=lambda: b"")):
        with refused(LedgerBroken, "digest"):
            check()
    stored[1].unlink()
    with refused(LedgerBroken, "release"):
        filled.verify()


def test_an_older_copy_of_everything_is_found_by_a_noted_hash(filled, ask, tmp_path):
    backup = tmp_path / "backup"
    shutil.copytree(filled.path.parent, backup, ignore=shutil.ignore_patterns("backup"))
    filled.release(**ask("d", epsilon="1/100"), draw=lambda: b"d")
    noted = filled.state().hash
    assert filled.verify(head=noted).head == noted
    old = Ledger(backup / filled.path.name)
    old.verify()
    with refused(LedgerBroken, "head"):
        old.verify(head=noted)


def test_a_hash_too_short_to_mean_anything_is_not_accepted(filled):
    with pytest.raises(LedgerBroken):
        filled.verify(head=filled.state().hash[:8])


def test_a_newer_version_is_refused(filled, ask):
    head = filled.path.with_name(filled.path.name + ".head")
    content = head.read_bytes()
    head.write_bytes(content.replace(b'"format":2', b'"format":3'))
    assert "another version of twofold" in refuses(filled, ask)


def test_a_newer_kind_of_record_is_refused(filled, ask):
    chain = read_chain(filled.path.read_bytes())
    newer = seal(number=8, previous=chain.hash, body={"kind": "merge", "at": ""})
    filled.path.write_bytes(filled.path.read_bytes() + encode(newer))
    assert "kind of record that this version" in refuses(filled, ask)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "reserve"},
        {"kind": "raise", "epsilon": "much", "delta": "0"},
        {"kind": "raise", "epsilon": "1/0", "delta": "0"},
        {"kind": "commit", "reserve": 99, "digest": "", "bytes": 0, "recovered": False},
    ],
)
def test_a_chained_record_without_sense_is_refused(filled, ask, body):
    chain = read_chain(filled.path.read_bytes())
    filled.path.write_bytes(filled.path.read_bytes() + encode(seal(number=8, previous=chain.hash, body=body)))
    refuses(filled, ask)


def test_a_ledger_that_cannot_be_read_is_refused(filled, ask):
    head = filled.path.with_name(filled.path.name + ".head")
    head.unlink()
    head.mkdir()
    with refused(LedgerBroken, "ledger"):
        filled.state()


def test_records_out_of_turn_are_refused(filled):
    chain = read_chain(filled.path.read_bytes())
    twice = seal(number=8, previous=chain.hash, body={**chain.records[2].body})
    filled.path.write_bytes(filled.path.read_bytes() + encode(twice))
    with refused(LedgerBroken, "records", found="out of turn"):
        filled.verify()


def sample() -> bytes:
    """A short chain; built anew because hypothesis keeps no fixtures."""
    previous, content = START, b""
    for number, kind in enumerate(("open", "reserve", "commit", "raise")):
        body = {"kind": kind, "format": FORMAT} if kind == "open" else {"kind": kind, "epsilon": "1/10"}
        record = seal(number=number, previous=previous, body=body)
        previous, content = record.hash, content + encode(record)
    return content


WHOLE = sample()


@given(position=st.integers(0, len(WHOLE) - 1), value=st.integers(0, 255))
def test_no_single_byte_can_change_unnoticed(position, value):
    changed = WHOLE[:position] + bytes([value]) + WHOLE[position + 1 :]
    if changed == WHOLE:
        return
    with pytest.raises(LedgerBroken):
        standing(read_chain(changed), head_of(read_chain(WHOLE)))


@given(cut=st.integers(0, 10**6), junk=st.binary(max_size=40))
def test_whatever_stands_behind_the_head_is_torn_ahead_or_refused(cut, junk):
    chain = read_chain(WHOLE)
    following = encode(seal(number=4, previous=chain.hash, body={"kind": "raise", "epsilon": "1"}))
    cut %= len(following) + 1
    how = standing(read_chain(WHOLE + following[:cut]), head_of(chain))
    names = {0: Standing.CLEAN, len(following): Standing.AHEAD, len(following) - 1: Standing.UNENDED}
    assert how is names.get(cut, Standing.TORN)
    if junk:
        assert standing(read_chain(WHOLE + junk), head_of(chain)) is Standing.TORN
