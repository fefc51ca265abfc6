"""What two operators send each other, and the item factors that both sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.federation.with_operators import OPERATORS, SITES, make_plan, parts, plan, report, secrets
from tests.refused import refused
from tests.totals import totals_of
from twofold.errors import BadMessage, PlanMismatch
from twofold.federation.exchange import (
    decode_draft,
    decode_freeze,
    decode_list,
    decode_reveal,
    draft_limit,
    encode_draft,
    encode_freeze,
    encode_list,
    encode_reveal,
    freeze_limit,
    list_limit,
    reveal_limit,
)
from twofold.federation.factors import ItemFactors, decode_factors, encode_factors
from twofold.federation.messages import common_record, modulus_bits
from twofold.federation.plan import Plan
from twofold.identity.roster import Roster
from twofold.storage.container import COSIGNATURE, cosign, pack_sealed, receipt
from twofold.storage.signing import SigningKey

FIRST, SECOND = OPERATORS
HASHES = ("1" * 64, "2" * 64)


def digests(count: int = 3) -> np.ndarray:
    return np.arange(32 * count, dtype=np.uint8).reshape(count, 32)


def words(count: int = 3) -> np.ndarray:
    return np.arange(8 * count, dtype=np.uint8).reshape(count, 8)


def share(of: Plan) -> bytes:
    stated = of.spec.sum
    assert stated is not None
    return bytes(stated.length * modulus_bits(of) // 8)


def factors(of: Plan, value: float = 1.0) -> ItemFactors:
    return ItemFactors(
        plan=of.hash,
        catalog=of.catalog.hash,
        factors=np.full((4, 2), value, dtype=np.float32),
        moments=np.eye(2),
        means=np.ones(4),
        support=np.ones(4),
        users=9.0,
        entities=3,
        private=True,
        patterns=np.eye(4, 2, dtype=np.float32),
        strengths=np.ones(2),
        squares=np.ones(4),
        totals=totals_of(4),
    )


def listed(by: str = FIRST, of: Plan | None = None, signer: SigningKey | None = None) -> bytes:
    return encode_list(digests(), words(), of or plan(), operator=by, number=1, signer=signer or secrets(by).sign)


def frozen(by: str = FIRST, of: Plan | None = None, signer: SigningKey | None = None, count: int = 3) -> bytes:
    return encode_freeze(
        of or plan(),
        operator=by,
        lists=HASHES,
        reports="3" * 64,
        count=count,
        commitment="4" * 64,
        signer=signer or secrets(by).sign,
    )


def revealed(by: str = FIRST, of: Plan | None = None, signer: SigningKey | None = None) -> bytes:
    under = of or plan()
    return encode_reveal(share(under), b"n" * 32, under, operator=by, signer=signer or secrets(by).sign)


def drafted(by: str = FIRST, of: Plan | None = None, signer: SigningKey | None = None) -> bytes:
    return encode_draft(b"anything", of or plan(), operator=by, signer=signer or secrets(by).sign)


KINDS: dict[str, tuple[Callable[..., bytes], Callable[[bytes, Plan], Any], Callable[[Plan], int]]] = {
    "list": (listed, decode_list, list_limit),
    "freeze": (frozen, decode_freeze, freeze_limit),
    "reveal": (revealed, decode_reveal, reveal_limit),
    "draft": (drafted, decode_draft, draft_limit),
}
every_kind = pytest.mark.parametrize(("make", "decode", "limit"), KINDS.values(), ids=KINDS)


def edited(data: bytes, by: str = FIRST, arrays: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """A message as its own maker could change it."""
    record, found = parts(data)
    return pack_sealed(record | changes, found | (arrays or {}), signer=secrets(by).sign)


# Every kind.


@pytest.mark.parametrize("by", OPERATORS)
def test_messages_come_through(by: str) -> None:
    one = decode_list(listed(by), plan())
    assert (one.entity, one.number, one.data) == (by, 1, listed(by))
    assert np.array_equal(one.digests, digests())
    assert np.array_equal(one.words, words())
    two = decode_freeze(frozen(by), plan())
    assert (two.entity, two.lists, two.reports, two.count, two.commitment) == (by, HASHES, "3" * 64, 3, "4" * 64)
    three = decode_reveal(revealed(by), plan())
    assert (three.entity, three.share, three.nonce) == (by, share(plan()), b"n" * 32)
    four = decode_draft(drafted(by), plan())
    assert (four.entity, four.factors) == (by, b"anything")


def test_an_empty_list_comes_through() -> None:
    made = encode_list(digests(0), words(0), plan(), operator=FIRST, number=7, signer=secrets(FIRST).sign)
    found = decode_list(made, plan())
    assert (found.number, found.digests.shape, found.words.shape) == (7, (0, 32), (0, 8))


@every_kind
def test_another_plan_is_refused(make: Any, decode: Any, limit: Any) -> None:
    with refused(PlanMismatch, "plan"):
        decode(make(of=make_plan(epsilon=2)), plan())


@every_kind
def test_another_step_is_refused(make: Any, decode: Any, limit: Any) -> None:
    for other, _, _ in KINDS.values():
        if other is not make:
            with refused(BadMessage, "schema"):
                decode(other(), plan())
    with refused(BadMessage, "schema"):
        decode(report(), plan())


@every_kind
@pytest.mark.parametrize("signer", [SECOND, "anna", "stranger"])
def test_another_signature_is_refused(make: Any, decode: Any, limit: Any, signer: str) -> None:
    with refused(BadMessage, "signature"):
        decode(make(signer=secrets(signer).sign), plan())


@every_kind
def test_an_unsigned_message_is_refused(make: Any, decode: Any, limit: Any) -> None:
    with refused(BadMessage, "signature"):
        decode(pack_sealed(*parts(make())), plan())


@every_kind
@pytest.mark.parametrize("by", ["anna", "stranger"])
def test_nobody_but_an_operator_sends_it(make: Any, decode: Any, limit: Any, by: str) -> None:
    with refused(PlanMismatch, "entity"):
        decode(make(by=by), plan())


@every_kind
def test_a_damaged_name_is_refused(make: Any, decode: Any, limit: Any) -> None:
    for name in (None, 3, [FIRST], {FIRST: 1}):
        with refused(BadMessage, "entity"):
            decode(edited(make(), entity=name), plan())


@every_kind
def test_a_plan_without_operators_has_no_such_message(make: Any, decode: Any, limit: Any) -> None:
    plain = make_plan(secure=None, roster=Roster(secrets(name).identity for name in (*SITES, FIRST)))
    record, arrays = parts(make())
    data = pack_sealed(record | common_record(record["schema"], plain), arrays, signer=secrets(FIRST).sign)
    with refused(PlanMismatch, "secure"):
        decode(data, plain)


@every_kind
def test_a_changed_byte_anywhere_is_refused(make: Any, decode: Any, limit: Any) -> None:
    data = make()
    for at in range(0, len(data), 31):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises((BadMessage, PlanMismatch)):
            decode(bytes(changed), plan())


@every_kind
def test_cut_and_long_messages_are_refused(make: Any, decode: Any, limit: Any) -> None:
    data = make()
    for size in (0, 8, 500, -1):
        with refused(BadMessage):
            decode(data[:size], plan())
    with refused(BadMessage, "size"):
        decode(bytes(limit(plan()) + 1), plan())


@every_kind
def test_an_array_too_many_is_refused(make: Any, decode: Any, limit: Any) -> None:
    with refused(BadMessage, "arrays"):
        decode(edited(make(), arrays={"more": np.ones(3)}), plan())


# Lists.


@pytest.mark.parametrize(
    "order", [[1, 0, 2], [0, 2, 1], [2, 1, 0], [0, 0, 1], [0, 1, 1]], ids=lambda order: "".join(map(str, order))
)
def test_a_list_out_of_order_or_with_a_report_twice_is_refused(order: list[int]) -> None:
    """Twice in the list would be twice in the sum."""
    with refused(BadMessage, "digests"):
        decode_list(edited(listed(), arrays={"digests": digests()[order]}), plan())


@pytest.mark.parametrize("number", [0, -1, 10**6, 10**15])
def test_a_list_with_an_impossible_number_is_refused(number: int) -> None:
    """A million has seven digits, and would stand before the second list in an operator's memory."""
    with refused(BadMessage, "number"):
        decode_list(edited(listed(), number=number), plan())


@pytest.mark.parametrize("number", ["1", 1.0, True, None])
def test_a_list_with_a_number_of_another_type_is_refused(number: Any) -> None:
    with refused(BadMessage, "number"):
        decode_list(edited(listed(), number=number), plan())


def test_a_list_of_more_reports_than_the_plan_has_entities_is_refused() -> None:
    with refused(BadMessage, "number", expected="3"):
        decode_list(edited(listed(), arrays={"digests": digests(4), "words": words(4)}), plan())


@pytest.mark.parametrize(
    "arrays",
    [
        {"words": words(2)},
        {"digests": digests().reshape(-1)},
        {"digests": digests()[:, :31]},
        {"words": words().astype(np.int64)},
        {"digests": digests().astype(np.float32)},
    ],
)
def test_a_list_of_another_shape_is_refused(arrays: dict[str, Any]) -> None:
    with refused(BadMessage):
        decode_list(edited(listed(), arrays=arrays), plan())


# Final lists.


@pytest.mark.parametrize("count", [-1, 0, 1, 4, 10**15])
def test_a_final_list_below_the_floor_or_above_all_entities_is_refused(count: int) -> None:
    with refused(BadMessage, "count", expected="2 to 3"):
        decode_freeze(frozen(count=count), plan())


@pytest.mark.parametrize("count", [2, 3])
def test_a_final_list_from_the_floor_on_comes_through(count: int) -> None:
    assert decode_freeze(frozen(count=count), plan()).count == count


@pytest.mark.parametrize(
    ("parameter", "changes"),
    [
        ("lists", {"lists": []}),
        ("lists", {"lists": ["1" * 64]}),
        ("lists", {"lists": ["1" * 64] * 3}),
        ("lists", {"lists": ["1" * 64, 3]}),
        ("lists", {"lists": ["1" * 64, None]}),
        ("lists", {"lists": ["1" * 64, ["2" * 64]]}),
        ("lists", {"lists": ["1" * 64, "Z" * 64]}),
        ("lists", {"lists": "12"}),
        ("lists", {"reports": "3" * 63}),
        ("reports", {"reports": None}),
        ("lists", {"commitment": "4" * 65}),
        ("commitment", {"commitment": 4}),
        ("count", {"count": "3"}),
        ("count", {"count": True}),
        ("count", {"count": 3.0}),
    ],
)
def test_a_damaged_final_list_is_refused(parameter: str, changes: dict[str, Any]) -> None:
    with refused(BadMessage, parameter):
        decode_freeze(edited(frozen(), **changes), plan())


# Sums of shares.


@pytest.mark.parametrize("name", ["share", "nonce"])
@pytest.mark.parametrize("more", [-1, 1])
def test_a_sum_or_a_nonce_of_another_length_is_refused(name: str, more: int) -> None:
    size = len(share(plan())) if name == "share" else 32
    with refused(BadMessage, name):
        decode_reveal(edited(revealed(), arrays={name: np.zeros(size + more, dtype=np.uint8)}), plan())


# Item factors.


def both(of: Plan, value: float = 1.0) -> bytes:
    return cosign(encode_factors(factors(of, value), of, signer=secrets(FIRST).sign), secrets(SECOND).sign)


def test_factors_with_both_signatures_come_through() -> None:
    assert decode_factors(both(plan()), plan()).hash == factors(plan()).hash


def test_factors_with_one_signature_are_a_draft_only() -> None:
    draft = encode_factors(factors(plan()), plan(), signer=secrets(FIRST).sign)
    assert decode_factors(draft, plan(), draft=True).hash == factors(plan()).hash
    with refused(BadMessage, "signature", SECOND):
        decode_factors(draft, plan())


@pytest.mark.parametrize(
    "signers", [(FIRST, FIRST), (SECOND, SECOND), (SECOND, FIRST), (FIRST, "anna"), ("anna", SECOND)]
)
def test_factors_need_the_first_and_the_second_operator_in_their_places(signers: tuple[str, str]) -> None:
    record, arrays = parts(encode_factors(factors(plan()), plan(), signer=secrets(FIRST).sign))
    record.pop(COSIGNATURE)
    made = pack_sealed(record, arrays, signer=secrets(signers[0]).sign, cosigned=True)
    with refused(BadMessage, "signature"):
        decode_factors(cosign(made, secrets(signers[1]).sign), plan())


def test_a_signature_of_other_factors_does_not_fit() -> None:
    """Both signatures of one message over the numbers of another."""
    one, two = both(plan()), both(plan(), 2.0)
    record, _ = parts(one)
    _, arrays = parts(two)
    fields = {name: value for name, value in record.items() if name != COSIGNATURE}
    made = pack_sealed(fields, arrays, signer=secrets(FIRST).sign, cosigned=True)
    changed = made.replace(b"0" * 128, record[COSIGNATURE].encode())
    with refused(BadMessage, "signature"):
        decode_factors(changed, plan())


def test_factors_without_a_place_for_the_second_signature_are_refused() -> None:
    record, arrays = parts(both(plan()))
    record.pop(COSIGNATURE)
    data = pack_sealed(record, arrays, signer=secrets(FIRST).sign)
    with refused(BadMessage, "signature"):
        decode_factors(data, plan())
    with refused(BadMessage, COSIGNATURE):
        cosign(data, secrets(SECOND).sign)


def test_a_changed_byte_of_factors_is_refused() -> None:
    data = both(plan())
    for at in range(0, len(data), 37):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises((BadMessage, PlanMismatch)):
            decode_factors(bytes(changed), plan())


def test_the_second_signature_changes_the_receipt_and_nothing_else() -> None:
    draft = encode_factors(factors(plan()), plan(), signer=secrets(FIRST).sign)
    done = cosign(draft, secrets(SECOND).sign)
    assert len(done) == len(draft)
    assert receipt(done) != receipt(draft)
    (one, arrays), (two, same) = parts(draft), parts(done)
    assert {name for name in one if one[name] != two[name]} == {COSIGNATURE}
    assert all(np.array_equal(arrays[name], same[name]) for name in arrays)
