"""Reports of a sum with two operators: what comes through, and every way in which one does not belong."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.federation.with_operators import (
    OPERATORS,
    SITES,
    content,
    make_plan,
    parts,
    person,
    person_report,
    plan,
    report,
    secrets,
    voucher,
)
from tests.refused import refused
from twofold.errors import BadMessage, NotForRealUse, PlanMismatch
from twofold.federation.messages import decode_release, encode_release, modulus_bits
from twofold.federation.plan import Plan
from twofold.federation.reports import (
    Report,
    _signed,
    decode_bundle,
    decode_report,
    encode_bundle,
    encode_report,
    half,
    person_name,
    report_limit,
    seals_of,
)
from twofold.identity.roster import Roster
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.operators import add_share, joined_sum, open_share
from twofold.storage.container import pack_sealed
from twofold.storage.signing import Purpose, SigningKey

EXTREMES = (0, 1, -1, 2**63 - 1, -(2**63))


def numbers_in(found: Report, of: Plan) -> list[int]:
    """What both operators together find."""
    totals = []
    for place, name in enumerate(OPERATORS):
        box = found.boxes[place]
        assert box is not None
        share = open_share(private_of(secrets(name).sum.seal), box, found.header, place)
        totals.append(np.zeros(found.header.length, dtype=np.uint64))
        add_share(totals[-1], share, found.header)
    return joined_sum(totals, bits=modulus_bits(of)).tolist()


def resigned(data: bytes, signer: SigningKey, arrays: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """A report with other fields, or other boxes, signed and sealed again as its maker could."""
    record, found = parts(data)
    record = {name: value for name, value in (record | changes).items() if value is not None and name != "signed"}
    found |= {name: np.frombuffer(one, dtype=np.uint8) for name, one in (arrays or {}).items() if one is not None}
    found = {name: one for name, one in found.items() if name not in (arrays or {}) or arrays[name] is not None}
    if "boxes" not in changes and arrays:
        digests = list(record["boxes"])
        for place, name in enumerate(("first", "second")):
            if name in found:
                digests[place] = hashlib.sha256(found[name].tobytes()).hexdigest()
        record["boxes"] = digests
    signature = signer.sign(Purpose.REPORT, _signed(record)).hex()
    return pack_sealed({**record, "signed": signature}, found)


# What comes through.


@pytest.mark.parametrize("name", SITES)
def test_a_report_comes_through(name: str) -> None:
    data = report(name)
    found = decode_report(data, plan())
    assert (found.entity, found.data, found.seeded) == (name, data, False)
    assert found.header.seals == seals_of(plan()) == tuple(secrets(one).sum.public.seal for one in OPERATORS)
    assert numbers_in(found, plan()) == [*range(found.header.length)]


def test_a_persons_report_comes_through() -> None:
    found = decode_report(person_report(3), plan(people=True))
    assert found.entity == person_name(person(3).public)
    assert numbers_in(found, plan(people=True)) == [*range(found.header.length)]


def test_two_reports_of_the_same_numbers_have_nothing_in_common() -> None:
    one, two = decode_report(report(), plan()), decode_report(report(), plan())
    assert one.digest != two.digest
    assert one.header.report != two.header.report
    assert not set(one.boxes) & set(two.boxes)


@pytest.mark.parametrize("people", [False, True])
def test_the_size_of_a_report_does_not_depend_on_the_numbers(people: bool) -> None:
    under = plan(people=people)
    stated = under.spec.sum
    assert stated is not None
    sizes = set()
    for value in EXTREMES:
        numbers = np.full(stated.length, value, dtype=np.int64)
        if people:
            key = person()
            made = encode_report(
                content(under, numbers), under, entity=person_name(key.public), signer=key, voucher=voucher(key, under)
            )
        else:
            made = report("anna", under, numbers)
        sizes.add(len(made))
    assert len(sizes) == 1


def test_no_field_of_a_report_depends_on_the_numbers() -> None:
    stated = plan().spec.sum
    assert stated is not None
    made = [parts(report(numbers=np.full(stated.length, value, dtype=np.int64)))[0] for value in EXTREMES]
    drawn = {"report", "boxes", "signed"}
    assert all(set(one) == set(made[0]) for one in made)
    assert {name for name in made[0] if len({str(one[name]) for one in made}) > 1} == drawn


def test_either_half_has_the_digest_of_the_whole() -> None:
    whole = decode_report(report(), plan())
    for place in (0, 1):
        data = half(whole, place)
        found = decode_report(data, plan())
        assert found.digest == whole.digest
        assert found.header == whole.header
        assert found.boxes[place] == whole.boxes[place]
        assert found.boxes[1 - place] is None
        assert half(found, place) == data
        with refused(BadMessage, "boxes"):
            half(found, 1 - place)
    assert len(half(whole, 1)) < 1_500


# Not a report of this plan.


def test_another_plan_is_refused() -> None:
    other = make_plan(epsilon=2)
    with refused(PlanMismatch, "plan"):
        decode_report(report(of=other), plan())
    with refused(PlanMismatch, "plan"):
        decode_report(resigned(report(), secrets("anna").sign, catalog_hash="1" * 64), plan())


def test_a_report_of_another_plan_under_this_ones_hash_does_not_open() -> None:
    """The maker writes the hash into the record; the boxes know better."""
    moved = resigned(report(of=make_plan(epsilon=2)), secrets("anna").sign, plan_hash=plan().hash)
    assert_closed(decode_report(moved, plan()))


def assert_closed(found: Report) -> None:
    """Neither operator can open its box."""
    for place, name in enumerate(OPERATORS):
        box = found.boxes[place]
        assert box is not None
        with refused(BadMessage, "box"):
            open_share(private_of(secrets(name).sum.seal), box, found.header, place)


def test_a_victims_boxes_signed_by_a_sybil_do_not_open() -> None:
    """Else its numbers would count twice, and the difference to a sum without them would show them."""
    victim = report("anna")
    stolen = resigned(victim, secrets("bern").sign, entity="bern")
    found = decode_report(stolen, plan())
    assert found.entity == "bern"
    assert_closed(found)
    renamed = resigned(victim, secrets("bern").sign, entity="bern", report="ab" * 16)
    assert_closed(decode_report(renamed, plan()))


def test_a_victims_boxes_under_another_persons_key_do_not_open() -> None:
    under, thief = plan(people=True), person(1)
    stolen = resigned(
        person_report(0), thief, entity=person_name(thief.public), by=thief.public.hex(), voucher=voucher(thief, under)
    )
    assert_closed(decode_report(stolen, under))


def test_keys_swapped_between_the_operators_open_nothing() -> None:
    """Boxes in each other's place have the wrong length; of the same length they would be of the wrong role."""
    boxes = decode_report(report(), plan()).boxes
    with refused(BadMessage, "first"):
        decode_report(resigned(report(), secrets("anna").sign, {"first": boxes[1], "second": boxes[0]}), plan())


def test_an_entity_that_the_plan_does_not_name_is_refused() -> None:
    with refused(PlanMismatch, "entity"):
        decode_report(resigned(report(), secrets("dora").sign, entity="dora"), plan())
    with refused(PlanMismatch, "entity"):  # an operator is no entity
        decode_report(resigned(report(), secrets("uni").sign, entity="uni"), plan())


@pytest.mark.parametrize("changes", [{"bits": 64}, {"bits": 16}, {"length": 3}, {"bits": "48"}, {"length": True}])
def test_another_length_or_modulus_is_refused(changes: dict[str, Any]) -> None:
    (name,) = changes
    kind = "bits" if type(changes[name]) is int else name
    with refused(BadMessage, kind):
        decode_report(resigned(report(), secrets("anna").sign, **changes), plan())


@pytest.mark.parametrize("place", ["first", "second"])
@pytest.mark.parametrize("more", [-1, 1])
def test_a_box_of_another_length_is_refused(place: str, more: int) -> None:
    box = parts(report())[1][place].tobytes()
    with refused(BadMessage, place):
        decode_report(resigned(report(), secrets("anna").sign, {place: box + b"x" if more > 0 else box[:-1]}), plan())


def test_a_report_without_any_share_is_refused() -> None:
    with refused(BadMessage, "boxes"):
        decode_report(resigned(report(), secrets("anna").sign, {"first": None, "second": None}), plan())


@pytest.mark.parametrize("boxes", [[], ["0" * 64], ["0" * 64] * 3, [1, 2], [None, None], "ab", {"a": 1}])
def test_a_report_with_other_hashes_is_refused(boxes: Any) -> None:
    with refused(BadMessage, "boxes"):
        decode_report(resigned(report(), secrets("anna").sign, boxes=boxes), plan())


def test_an_array_too_many_is_refused() -> None:
    with refused(BadMessage, "arrays"):
        decode_report(resigned(report(), secrets("anna").sign, {"third": b"x" * 80}), plan())


# Signatures and damage.


@pytest.mark.parametrize("signer", ["bern", "uni", "dora"])
def test_a_report_signed_by_somebody_else_is_refused(signer: str) -> None:
    with refused(BadMessage, "signature"):
        decode_report(resigned(report(), secrets(signer).sign), plan())


@pytest.mark.parametrize("value", ["", "00" * 64, "ab" * 63, "AB" * 64, 7, None, "zz" * 64])
def test_an_unsigned_report_is_refused(value: Any) -> None:
    record, arrays = parts(report())
    record["signed"] = value
    with refused(BadMessage):
        decode_report(pack_sealed(record, arrays), plan())


def test_a_signature_for_another_purpose_is_refused() -> None:
    record, arrays = parts(report())
    record["signed"] = secrets("anna").sign.sign(Purpose.MESSAGE, _signed(record)).hex()
    with refused(BadMessage, "signature"):
        decode_report(pack_sealed(record, arrays), plan())


@pytest.mark.parametrize("field", ["entity", "report", "seeded", "boxes", "extra"])
def test_every_field_is_signed(field: str) -> None:
    record, arrays = parts(report())
    others = {"entity": "bern", "report": "ab" * 16, "seeded": True, "boxes": record["boxes"][::-1], "extra": 1}
    changed = pack_sealed(record | {field: others[field]}, arrays)
    with refused(NotForRealUse if field == "seeded" else BadMessage):
        decode_report(changed, plan())


def test_a_share_of_another_report_is_refused() -> None:
    """Both are the entity's own: the signature covers the hash of each box."""
    (record, arrays), (_, others) = parts(report()), parts(report())
    for name in arrays:
        with refused(BadMessage, "boxes", found=name):
            decode_report(pack_sealed(record, arrays | {name: others[name]}), plan())


def test_a_changed_byte_anywhere_is_refused() -> None:
    data = report()
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises((BadMessage, PlanMismatch)):
            decode_report(bytes(changed), plan())


@pytest.mark.parametrize("size", [0, 5, 8, 200, -1])
def test_a_cut_report_is_refused(size: int) -> None:
    with refused(BadMessage):
        decode_report(report()[:size], plan())


def test_bytes_behind_the_end_and_too_many_bytes_are_refused() -> None:
    with refused(BadMessage, "size"):
        decode_report(report() + b"x", plan())
    with refused(BadMessage, "size"):
        decode_report(bytes(report_limit(plan()) + 1), plan())


@pytest.mark.parametrize("name", ["report", "by"])
@pytest.mark.parametrize("value", ["", "ab", "AB" * 16, "zz" * 16, 3, None])
def test_a_damaged_name_or_key_is_refused(name: str, value: Any) -> None:
    under = plan(people=name == "by")
    data = person_report() if name == "by" else report()
    signer = person() if name == "by" else secrets("anna").sign
    with refused(BadMessage):
        decode_report(resigned(data, signer, **{name: value}), under)


def test_a_seeded_report_is_for_simulations_only() -> None:
    with refused(NotForRealUse, "seeded"):
        report(seeded=True)
    pretend = make_plan(simulation=True)
    assert decode_report(report(of=pretend, seeded=True), pretend).seeded


# Kinds of messages.


def test_a_message_that_is_not_in_shares_is_refused() -> None:
    """Under a plan with operators it would put the entity's numbers into the clear."""
    plain = make_plan(secure=None, roster=Roster(secrets(name).identity for name in (*SITES, "uni")))
    drawn = plain.release_mechanism.release(np.ones((3, 4), dtype=np.float32), plain.parameters).value
    data = encode_release(drawn, entity="anna", plan=plain, signer=secrets("anna").sign)
    with refused(BadMessage, "schema"):
        decode_report(data, plan())
    with refused(BadMessage, "schema"):
        encode_release(content(plan()), entity="anna", plan=plan(), signer=secrets("anna").sign)


def test_a_report_is_no_release() -> None:
    with refused(BadMessage, "schema"):
        decode_release(report(), plan())


def test_a_plan_without_operators_has_no_reports() -> None:
    plain = make_plan(secure=None, roster=Roster(secrets(name).identity for name in (*SITES, "uni")))
    data = resigned(report(), secrets("anna").sign, plan_hash=plain.hash)
    with refused(PlanMismatch, "secure"):
        decode_report(data, plain)
    with refused(PlanMismatch, "secure"):
        encode_report(content(plan()), plain, entity="anna", signer=secrets("anna").sign)


# Vouchers.


def test_a_person_without_a_voucher_is_refused_but_in_simulations() -> None:
    with refused(BadMessage, "voucher"):
        person_report(vouched={})
    pretend = make_plan(people=True, simulation=True)
    assert decode_report(person_report(of=pretend, vouched={}), pretend)


def test_a_wrong_voucher_is_refused_even_in_simulations() -> None:
    pretend = make_plan(people=True, simulation=True)
    with refused(BadMessage, "voucher"):
        person_report(of=pretend, vouched={"institution": "anna", "signature": "00" * 64})


def _vouchers() -> dict[str, dict[str, str]]:
    under, key = plan(people=True), person(0)
    good = voucher(key, under)
    return {
        "of another plan": voucher(key, make_plan(people=True, epsilon=2)),
        "for another key": voucher(person(1), under),
        "by a stranger": voucher(key, under, by="dora"),
        "by an operator": voucher(key, under, by="uni"),
        "under another name": good | {"institution": "bern"},
        "without a name": {"signature": good["signature"]},
        "of the person's own": {
            "institution": "anna",
            "signature": key.sign(Purpose.VOUCHER, f"{under.hash} {person_name(key.public)}".encode()).hex(),
        },
        "for another purpose": {
            "institution": "anna",
            "signature": secrets("anna")
            .sign.sign(Purpose.REPORT, f"{under.hash} {person_name(key.public)}".encode())
            .hex(),
        },
    }


@pytest.mark.parametrize("kind", _vouchers())
def test_a_voucher_that_is_not_for_this_key_in_this_plan_is_refused(kind: str) -> None:
    with refused(BadMessage, "voucher"):
        person_report(vouched=_vouchers()[kind])


@pytest.mark.parametrize(
    "value", [None, "x", 1, [], {"institution": 3}, {"institution": "anna"}, {"institution": None}]
)
def test_a_damaged_voucher_is_refused(value: Any) -> None:
    with refused(BadMessage):
        decode_report(resigned(person_report(), person(), voucher=value), plan(people=True))


def test_a_person_under_another_name_is_refused() -> None:
    """A key gives one name; else one person would count as often as wanted."""
    for name in ("anna", person_name(person(1).public), "ab" * 32, 5):
        with refused(BadMessage, "entity"):
            decode_report(resigned(person_report(), person(), entity=name), plan(people=True))


def test_an_institution_sends_no_report_where_people_do() -> None:
    with refused(BadMessage):
        report("anna", plan(people=True))


# Several reports in one file.


def test_a_bundle_gives_its_reports_in_their_order() -> None:
    every = [report(name) for name in SITES]
    every += [half(decode_report(one, plan()), place) for one in every for place in (0, 1)]
    assert [*decode_bundle(encode_bundle(every, plan()), plan())] == every


def test_an_empty_bundle_gives_nothing() -> None:
    assert [*decode_bundle(encode_bundle([], plan()), plan())] == []


def test_a_bundle_of_another_plan_or_kind_is_refused() -> None:
    with refused(PlanMismatch, "plan"):
        decode_bundle(encode_bundle([report()], make_plan(epsilon=2)), plan())
    with refused(BadMessage, "schema"):
        decode_bundle(report(), plan())
    with refused(BadMessage, "schema"):
        decode_report(encode_bundle([report()], plan()), plan())


def test_what_a_bundle_holds_is_not_trusted() -> None:
    stolen = resigned(report("anna"), secrets("dora").sign)
    (inside,) = decode_bundle(encode_bundle([stolen], plan()), plan())
    with refused(BadMessage, "signature"):
        decode_report(inside, plan())


@pytest.mark.parametrize(
    "change",
    [
        lambda sizes: sizes * 0,
        lambda sizes: sizes + 1,
        lambda sizes: sizes - 1,
        lambda sizes: -sizes,
        lambda sizes: sizes[:-1],
        lambda sizes: np.concatenate([sizes, [0]]),
        lambda sizes: np.concatenate([sizes, [5, -5]]),
        lambda sizes: np.array([2**62, 2**62, 2**62, 2**62 + int(sizes.sum())]),  # overflows to the right sum
        lambda sizes: np.ones(int(sizes.sum())),  # a crumb of every byte
        lambda sizes: np.array([100] * (int(sizes.sum()) // 100) + [int(sizes.sum()) % 100]),
    ],
)
def test_sizes_that_do_not_add_up_are_refused(change: Any) -> None:
    record, arrays = parts(encode_bundle([report(name) for name in SITES], plan()))
    with refused(BadMessage, "sizes"):
        decode_bundle(pack_sealed(record, arrays | {"sizes": change(arrays["sizes"]).astype(np.int64)}), plan())


@pytest.mark.parametrize("arrays", [{}, {"sizes": np.zeros((1, 1), np.int64)}, {"sizes": np.ones(3)}])
def test_a_bundle_with_other_arrays_is_refused(arrays: dict[str, Any]) -> None:
    record, _ = parts(encode_bundle([report()], plan()))
    with refused(BadMessage):
        decode_bundle(pack_sealed(record, arrays), plan())


@pytest.mark.parametrize("size", [0, 8, 300, -1])
def test_a_cut_or_damaged_bundle_is_refused(size: int) -> None:
    data = encode_bundle([report(name) for name in SITES], plan())
    with refused(BadMessage):
        decode_bundle(data[:size], plan())
    with refused(BadMessage, "checksum"):
        decode_bundle(data[:-1] + bytes([data[-1] ^ 1]), plan())


def test_a_report_says_nothing_of_itself_when_printed() -> None:
    found = decode_report(report(), plan())
    assert found.digest.hex() not in repr(found)
    assert found.header.report.hex() not in repr(found)
    assert len(repr(found)) < 200
    assert replace(found, seeded=True).receipt == found.receipt
