"""A ledger that was edited and hashed again: costs are priced anew, numbers are bounded (audit M4b, L1)."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter, LedgerBroken, UnitMissing
from twofold.privacy.budget import ApproxDP, NotPrivate, PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.events import DiscreteGaussianEvent, NonPrivateEvent
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.head import head_of
from twofold.privacy.ledger.record import LARGEST, LONGEST, START, encode, read_chain, seal
from twofold.privacy.unit import Unit

PRICE = {"epsilon": "1/2", "delta": "0"}


@pytest.fixture
def filled(ledger, ask) -> Ledger:
    for name in "ab":
        ledger.release(**ask(name), draw=lambda name=name: name.encode())
    return ledger


def bodies(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["body"] for line in path.read_bytes().splitlines()]


def rewrite(path: Path, changed: list[dict[str, Any]]) -> None:
    """Hash everything again, head included; stored releases get the names that fit."""
    previous, content, renamed = START, b"", {}
    old = read_chain(path.read_bytes()).records
    for number, body in enumerate(changed):
        record = seal(number=number, previous=previous, body=body)
        if number < len(old):
            renamed[f"{number:06d}-{old[number].hash[:16]}"] = f"{number:06d}-{record.hash[:16]}"
        previous, content = record.hash, content + encode(record)
    path.write_bytes(content)
    path.with_name(path.name + ".head").write_bytes(head_of(read_chain(content)).encode())
    for stored in path.with_name(path.name + ".releases").glob("*.release"):
        start, _, end = stored.name.rpartition("-")
        stored.rename(stored.with_name(f"{renamed.get(start, start)}-{end}"))


def edited(path: Path, number: int, **fields: Any) -> Path:
    changed = bodies(path)
    changed[number] |= fields
    rewrite(path, changed)
    return path


def pure(epsilon: str) -> dict[str, Any]:
    return {"epsilon": epsilon, "guarantee": {"kind": "approx-dp", "epsilon": epsilon, "delta": "0"}}


def test_hashed_again_without_a_change_it_is_sound(filled):
    edited(filled.path, 1)
    assert Ledger(filled.path).verify().releases == 2


@pytest.mark.parametrize("epsilon", ["-5", "0", "-1/2", "nan", "-inf", "1e999999999", "1e5", "0.5", "1/0", "9" * 400])
@pytest.mark.parametrize("number", [0, 1])
def test_no_impossible_cost_or_ceiling_is_believed(filled, ask, epsilon, number):
    """Audit M4b: costs of -5 passed `verify`; audit L1: "1e999999999" hung state, verify and card."""
    path, started = edited(filled.path, number, **pure(epsilon)), time.monotonic()
    for use in (
        lambda: Ledger(path).state(),
        lambda: Ledger(path).verify(),
        lambda: Ledger(path).release(**ask("c"), draw=lambda: b"c"),
        lambda: Ledger(path).raise_ceiling(ApproxDP(epsilon=9, delta=1e-5), reason="x"),
        lambda: card_from_ledger(Ledger(path)),
    ):
        with refused(LedgerBroken, "record", found=f"record {number}"):
            use()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("delta", ["-1/10", "2", "inf", "nan", "1e-6"])
def test_no_impossible_delta_is_believed(filled, delta):
    with refused(LedgerBroken, "record", found="record 1"):
        Ledger(edited(filled.path, 1, delta=delta)).state()


@pytest.mark.parametrize("epsilon", ["1/100", "49/100"])
def test_a_cost_below_the_price_of_its_events_is_found(filled, epsilon):
    """Audit M4b: nobody priced the events again."""
    with refused(LedgerBroken, "cost", found="record 3", expected="0.5"):
        Ledger(edited(filled.path, 3, **pure(epsilon))).verify()


def test_a_cost_that_is_not_its_guarantee_is_found(filled):
    with refused(LedgerBroken, "cost", found="record 1"):
        Ledger(edited(filled.path, 1, epsilon="1/3")).verify()


def test_a_cost_above_the_price_is_sound(filled):
    Ledger(edited(filled.path, 1, **pure("3/4"))).verify()


def test_a_total_above_the_ceiling_of_its_time_is_found(filled):
    with refused(LedgerBroken, "cost", found="record 3"):
        Ledger(edited(filled.path, 0, epsilon="3/4")).verify()
    changed = bodies(filled.path)
    rewrite(filled.path, [*changed, {"kind": "raise", "epsilon": "2", "delta": "1/10", "reason": "late", "at": ""}])
    with refused(LedgerBroken, "cost", found="record 3"):
        Ledger(filled.path).verify()


def test_a_ceiling_that_falls_is_refused(filled):
    changed = bodies(filled.path)
    rewrite(filled.path, [*changed, {"kind": "raise", "epsilon": "1", "delta": "0", "reason": "less", "at": ""}])
    with refused(LedgerBroken, "record", found="record 5"):
        Ledger(filled.path).state()


@pytest.mark.parametrize(
    "fields",
    [
        {"events": []},
        {"events": [{"kind": "magic/1"}]},
        {"events": [[]]},
        {"events": [None]},
        {"guarantee": {"kind": "zcdp", "rho": "1"}},
        {"guarantee": {}},
        {"guarantee": 3},
        {"seeded": True},
        {"unit": {"holder": "visit", "entities": 1, "adjacency": "add-or-remove-one"}},
    ],
)
def test_an_entry_that_cannot_be_priced_is_refused(filled, fields):
    path = edited(filled.path, 1, **fields)
    with pytest.raises(LedgerBroken):
        Ledger(path).verify()


@pytest.mark.parametrize("scale", ["9" * 4_000, "1e4999", "9" * 200_000, "1e999999999", "-1", "x", 7, None])
def test_numbers_in_events_are_bounded_before_they_are_computed_with(filled, scale):
    changed = bodies(filled.path)
    changed[3]["events"][0]["scale"] = scale
    rewrite(filled.path, changed)
    started = time.monotonic()
    for use in (lambda: Ledger(filled.path).verify(), lambda: card_from_ledger(Ledger(filled.path))):
        with suppress(LedgerBroken):
            use()
    assert time.monotonic() - started < 10


def test_costs_that_have_nothing_in_common_do_not_grow_without_end(filled):
    changed, several = bodies(filled.path), []
    for number in range(1_000):
        cost = f"1/{10**290 + 2 * number + 1}"
        several.append(changed[3] | pure(cost) | {"version": f"{number}"})
    rewrite(filled.path, [*changed, *several])
    started = time.monotonic()
    with refused(LedgerBroken, "record"):
        Ledger(filled.path).state()
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "field", ["plan", "version", "data", "nonce", "unit", "events", "about", "seeded", "software", "at"]
)
@pytest.mark.parametrize("value", [None, 7, [], {}, "\ud800", "x" * 2_000])
def test_every_field_of_a_reservation_is_checked(filled, field, value):
    """Audit L1: KeyError, TypeError, AttributeError, OverflowError and UnicodeEncodeError came out of such files."""
    path = edited(filled.path, 3, **{field: value})
    if (field, value) in (("unit", {}), ("events", []), ("about", {})):  # possible to open, not to price
        Ledger(path).state()
        return
    if field == "seeded" and value is None:
        changed = bodies(path)
        del changed[3]["seeded"]
        rewrite(path, changed)
    with pytest.raises(LedgerBroken):
        Ledger(path).state()


@pytest.mark.parametrize("field", ["dataset", "unit", "at", "epsilon", "delta"])
@pytest.mark.parametrize("value", [None, 7, [], {}, 1e308])
def test_every_field_of_the_first_record_is_checked(filled, field, value):
    with pytest.raises(LedgerBroken):
        Ledger(edited(filled.path, 0, **{field: value})).state()


@pytest.mark.parametrize("field", ["reserve", "digest", "bytes", "recovered"])
@pytest.mark.parametrize("value", [None, -1, 10**30, [], "x", True, 2.0])
def test_every_field_of_a_commit_is_checked(filled, field, value):
    if (field, value) == ("recovered", True):
        return
    with pytest.raises(LedgerBroken):
        Ledger(edited(filled.path, 2, **{field: value})).state()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "3",
        '{"format":2}',
        '{"format":2,"hash":1,"length":1,"size":1}',
        "[" * 4_000,
        "1e999",
        "[1" + "0" * 4_000,
    ],
)
def test_a_senseless_head_is_refused(filled, text):
    filled.path.with_name(filled.path.name + ".head").write_text(text)
    with pytest.raises(LedgerBroken):
        Ledger(filled.path).verify()


def test_sizes_are_bounded_before_anything_is_read(filled):
    os.truncate(filled.path, LARGEST + 1)
    with refused(LedgerBroken, "ledger"):
        Ledger(filled.path).state()
    os.truncate(filled.path.with_name(filled.path.name + ".head"), 1 << 40)
    with refused(LedgerBroken, "head"):
        Ledger(filled.path).state()


def test_what_no_reader_would_accept_is_not_written(ledger, ask):
    """A refusal before the draw: else the ledger could not be opened any more."""
    before = ledger.path.read_bytes()

    def never() -> bytes:
        raise AssertionError

    with refused(BadPrivacyParameter, "about"):
        ledger.release(**ask(about={"what": "x" * LONGEST}), draw=never)
    with refused(BadPrivacyParameter, "cost"):
        ledger.release(**ask(cost=PureDP(epsilon=Fraction(10**400, 10**400 - 1))), draw=never)
    deep: list[Any] = []
    for _ in range(40):
        deep = [deep]
    for about in ({"what": "\ud800"}, {"what": deep}):
        with refused(BadPrivacyParameter, "about"):
            ledger.release(**ask(about=about), draw=never)
    for name in ("x" * 2_000, "\ud800"):
        with refused(BadPrivacyParameter, "dataset"):
            Ledger.create(ledger.path.with_name("y"), dataset=name, ceiling=PureDP(epsilon=1), unit=Unit.person())
    assert ledger.path.read_bytes() == before


def test_gaussian_noise_and_what_is_not_private_are_priced_again(tmp_path, ask):
    unit = Unit.person()
    free = NotPrivate(reason="a simulation")
    ledger = Ledger.create(tmp_path / "x", dataset="x", ceiling=free, unit=unit)
    gauss = DiscreteGaussianEvent(unit=unit, sensitivity_squared=1, variance=50, coordinates=9)
    common = {"unit": unit, "draw": lambda: b"x"}
    asked = {key: ask()[key] for key in ("plan", "data")}
    budget = ApproxDP(epsilon="0.7", delta=1e-6)
    ledger.release(**asked, version="1", events=[gauss], cost=budget, **common)
    ledger.release(**asked, version="2", events=[NonPrivateEvent(unit=unit, reason="exact")], **common)
    ledger.release(**asked, version="3", events=[gauss], cost=free, **common)
    assert ledger.verify().releases == 3
    less = {"epsilon": "11/20", "guarantee": {"kind": "approx-dp", "epsilon": "11/20", "delta": "1/1000000"}}
    with refused(LedgerBroken, "cost", found="record 1"):
        Ledger(edited(ledger.path, 1, **less)).verify()


def test_no_advice_sends_anybody_to_a_second_ledger(ledger, ask):
    """Audit M4c: "a ledger for each unit" doubles the budget of the same people."""
    with refused(UnitMissing, "unit") as caught:
        ledger.release(**ask(unit=Unit.visit()), draw=lambda: b"x")
    assert "per unit" not in str(caught.value.fix)
    assert "spent twice" in str(caught.value.fix)
    with refused(LedgerBroken, "path") as caught:
        Ledger.create(ledger.path, dataset="x", ceiling=PureDP(epsilon=1), unit=Unit.person())
    assert "double" in str(caught.value.fix)


def test_thousands_of_different_events_are_not_priced_one_by_one(filled):
    """Each takes the accountant 10 ms where a plain sum does not fit: a small file would keep `verify` for hours."""
    changed = bodies(filled.path)
    unit = changed[1]["unit"]
    fields = {"kind": "threshold/1", "unit": unit, "seeded": False, "threshold": 5, "cells_per_unit": 1}
    guarantee = {"kind": "approx-dp", "epsilon": "1/2", "delta": "1/1000000"}
    for number in (1, 3):
        several = [fields | {"scale": str(100 * number + one)} for one in range(700)]
        changed[number] |= {"events": several, "epsilon": "1/2", "delta": "1/1000000", "guarantee": guarantee}
    changed[1]["events"] = [fields | {"scale": "2000"}] * 990  # alike, and within the cost as a plain sum
    changed[3]["events"] = [fields | {"scale": str(10_000 + one)} for one in range(990)]
    rewrite(filled.path, changed)
    assert Ledger(filled.path).verify().releases == 2
    changed[3]["events"] = [fields | {"scale": str(one + 1)} for one in range(1_001)]
    rewrite(filled.path, changed)
    started = time.monotonic()
    with refused(LedgerBroken, "events", found="record 3"):
        Ledger(filled.path).verify()
    assert time.monotonic() - started < 10
