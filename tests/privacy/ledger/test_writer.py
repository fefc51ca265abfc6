"""What a crash leaves is mended without losing a byte."""

from __future__ import annotations

import shutil
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.refused import refused
from twofold.errors import LedgerBroken
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.head import head_of
from twofold.privacy.ledger.record import encode, read_chain, seal


def following(ledger: Ledger) -> bytes:
    """The line a next write would have appended."""
    chain = read_chain(ledger.path.read_bytes())
    return encode(seal(number=len(chain.records), previous=chain.hash, body=_reserve()))


def _reserve() -> dict[str, object]:
    unit = {"adjacency": "add-or-remove-one", "entities": 1, "holder": "person"}
    return {
        "kind": "reserve",
        "at": "2026-01-01T00:00:00Z",
        "plan": "0" * 64,
        "data": "1" * 64,
        "version": "of a dead process",
        "nonce": "2" * 64,
        "unit": unit,
        "epsilon": "1/4",
        "delta": "0",
        "events": [],
        "about": {},
        "seeded": False,
        "software": "twofold",
    }


def add(ledger: Ledger, content: bytes) -> None:
    ledger.path.write_bytes(ledger.path.read_bytes() + content)


@pytest.mark.parametrize("kept", [1, 50, -60, -2])
def test_a_torn_line_is_kept_recorded_and_not_counted(ledger, ask, kept):
    torn = following(ledger)[:kept]
    add(ledger, torn)
    before = ledger.path.read_bytes()
    assert "was cut" in ledger.verify().notes[0]
    ledger.release(**ask(), draw=lambda: b"x")
    after = ledger.path.read_bytes()
    assert after.startswith(before)
    assert ledger.state().repaired == 1
    assert ledger.state().spent.epsilon == Fraction(1, 2)
    assert ledger.verify().notes == ("1 torn line(s) recorded",)


def test_a_record_the_head_does_not_know_yet_counts(ledger, ask):
    add(ledger, following(ledger))
    assert ledger.state().spent.epsilon == Fraction(1, 4)
    ledger.release(**ask(), draw=lambda: b"x")
    assert [one.status for one in ledger.state().entries] == ["lost", "released"]
    assert ledger.state().spent.epsilon == Fraction(3, 4)


def test_a_record_without_its_newline_counts(ledger, ask):
    add(ledger, following(ledger)[:-1])
    ledger.release(**ask(), draw=lambda: b"x")
    assert ledger.state().spent.epsilon == Fraction(3, 4)
    assert ledger.state().repaired == 0


def test_zeros_from_a_power_cut_are_torn_bytes(ledger, ask):
    add(ledger, bytes(4096))
    ledger.release(**ask(), draw=lambda: b"x")
    assert ledger.state().repaired == 1
    ledger.verify()


def test_a_torn_record_that_is_edited_later_is_noticed(ledger, ask):
    add(ledger, b'{"body":{"about"')
    ledger.release(**ask(), draw=lambda: b"x")
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b'{"body":{"about"\n', b'{"body":{"abouT"\n'))
    with refused(LedgerBroken, "ledger"):
        ledger.verify()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
def test_repairs_may_be_torn_themselves(tmp_path_factory, ask, cuts):
    """Cut a write, then cut the repair of that write, and so on; the next whole write must read back."""
    from twofold.privacy.budget import PureDP
    from twofold.privacy.unit import Unit

    path = tmp_path_factory.mktemp("torn") / "x.ledger"
    ledger = Ledger.create(path, dataset="x", ceiling=PureDP(epsilon=2), unit=Unit.person())
    kept = path.read_bytes()
    head = path.with_name("x.ledger.head")
    sealed = head.read_bytes()
    for more, cut in enumerate(cuts):
        # Always above the last one, which counts if its cut took the newline alone.
        ledger.release(**ask(), draw=lambda: b"x") if cut % 2 else ledger.raise_ceiling(
            PureDP(epsilon=3 + more), reason="more"
        )
        added = path.read_bytes()[len(kept) :]
        first = added.find(b"\n{") + 1 or len(added)
        kept += added[: cut % (first + 1)]
        path.write_bytes(kept)
        head.write_bytes(sealed)
        shutil.rmtree(path.with_name("x.ledger.releases"), ignore_errors=True)  # a cut write comes before any release
        chain = read_chain(kept)
        if not chain.tail:
            sealed = head_of(chain).encode()
    ledger.raise_ceiling(PureDP(epsilon=100), reason="last")
    assert path.read_bytes().startswith(kept)
    assert ledger.state().ceiling.epsilon == 100
    read = read_chain(path.read_bytes())
    assert not read.tail
