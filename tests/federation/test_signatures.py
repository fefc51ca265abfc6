"""Every kind of message is signed by its maker: what anybody else makes, changes, copies or replays does not decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.enrolled import OPERATOR, enrolled
from tests.refused import refused
from tests.totals import totals_of
from twofold.errors import BadMessage, PlanMismatch, TwofoldError
from twofold.federation.agreement import (
    Agreements,
    decode_agreed,
    decode_agreement,
    encode_agreed,
    encode_agreement,
)
from twofold.federation.factors import ItemFactors, decode_factors, encode_factors
from twofold.federation.key_messages import (
    decode_answer,
    decode_participants,
    decode_shares,
    decode_survivors,
    encode_answer,
    encode_participants,
    encode_shares,
    encode_survivors,
    modulus_bits,
    secure_terms,
)
from twofold.federation.messages import CHECKS, common_record, decode_release, encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.identity.keys import Secrets
from twofold.release.content import Masked
from twofold.secure_sum import answer, share_secrets
from twofold.storage.container import open_container, pack_sealed, unpack
from twofold.storage.signing import Purpose, SigningKey

NAMES = ("a", "b", "c", "d", "e")
SECRETS = enrolled(Plan(catalog=CatalogKey(hash="0" * 64, n_items=6)), *NAMES).secrets
ONES = np.ones((20, 6)) * [1, 2, 3, 0, 0, 0]


def made_plan(*, secure: bool, secrets: dict[str, Secrets] = SECRETS, **changes: Any) -> Plan:
    given = {"catalog": CatalogKey(hash="0" * 64, n_items=6), "bound": 5, "max_items": 3, "rank": 2, "n_users": 20}
    given |= {"mechanism": "gram", "n_entities": 5, "secure": SecureSum(survivors=4) if secure else None}
    return enrolled(Plan(**(given | changes)), secrets=secrets).plan


PLAIN, SECURE = made_plan(secure=False), made_plan(secure=True)
SIGN = {name: one.sign for name, one in SECRETS.items()}


def _agreement(plan: Plan) -> bytes:
    signature = Agreements.signed(plan, SIGN["a"], "a")["a"]
    return encode_agreement(signature, plan, entity="a", signer=SIGN["a"])


def _agreed(plan: Plan) -> bytes:
    every = Agreements.joined(Agreements.signed(plan, key, name) for name, key in SIGN.items())
    return encode_agreed(every, plan, signer=SIGN[OPERATOR])


_DRAWN = PLAIN.release_mechanism.release(ONES, PLAIN.parameters).value


def _release(plan: Plan) -> bytes:
    return encode_release(_DRAWN, entity="a", plan=plan, signer=SIGN["a"])


def _masked(plan: Plan) -> bytes:
    bits = modulus_bits(plan)
    packed = np.random.default_rng(1).integers(0, 256, (plan.spec.sum.length + CHECKS, bits // 8)).astype(np.uint8)
    content = Masked(mechanism="gram", present="1" * 64, bits=bits, packed=packed, seeded=False)
    return encode_release(content, entity="a", plan=plan, signer=SIGN["a"])


def _shared(plan: Plan) -> dict[str, Any]:
    return {name: share_secrets(SECRETS[name].sum, name, secure_terms(plan)) for name in NAMES}


def _shares(plan: Plan) -> bytes:
    return encode_shares(_shared(plan)["a"], plan, signer=SIGN["a"])


def _roll(plan: Plan) -> bytes:
    return encode_participants(_shared(plan), plan, signer=SIGN[OPERATOR])


def _survivors(plan: Plan) -> bytes:
    return encode_survivors(NAMES, NAMES[:4], plan, signer=SIGN[OPERATOR])


def _answer(plan: Plan) -> bytes:
    content = answer(SECRETS["a"].sum, "a", secure_terms(plan), _shared(plan), NAMES, NAMES[:4])
    return encode_answer(content, plan, signer=SIGN["a"])


def _factors(plan: Plan) -> bytes:
    ones = np.ones(6)
    made = ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        factors=np.ones((6, 2), dtype=np.float32),
        moments=np.eye(2),
        means=ones,
        support=ones,
        users=9.0,
        entities=4,
        private=True,
        patterns=np.zeros((6, 0), dtype=np.float32),
        strengths=np.zeros(0),
        squares=ones,
        totals=totals_of(6),
    )
    return encode_factors(made, plan, signer=SIGN[OPERATOR])


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of message: how its true maker writes it under a plan, and how everybody reads it."""

    plan: Plan
    make: Callable[[Plan], bytes]
    decode: Callable[[bytes, Plan], Any]
    maker: str

    def other(self, **changes: Any) -> Plan:
        return made_plan(secure=self.plan.secure is not None, **changes)


KINDS = {
    "agreement": Kind(plan=PLAIN, make=_agreement, decode=decode_agreement, maker="a"),
    "agreed": Kind(plan=PLAIN, make=_agreed, decode=decode_agreed, maker=OPERATOR),
    "release": Kind(plan=PLAIN, make=_release, decode=decode_release, maker="a"),
    "shares": Kind(plan=SECURE, make=_shares, decode=decode_shares, maker="a"),
    "roll": Kind(plan=SECURE, make=_roll, decode=decode_participants, maker=OPERATOR),
    "masked release": Kind(plan=SECURE, make=_masked, decode=decode_release, maker="a"),
    "survivors": Kind(plan=SECURE, make=_survivors, decode=decode_survivors, maker=OPERATOR),
    "answer": Kind(plan=SECURE, make=_answer, decode=decode_answer, maker="a"),
    "factors": Kind(plan=PLAIN, make=_factors, decode=decode_factors, maker=OPERATOR),
}


class Copied:
    """A key that nobody has: it gives a signature that was seen elsewhere."""

    def __init__(self, signature: bytes) -> None:
        self.signature = signature

    def sign(self, *_: Any) -> bytes:
        return self.signature


class Purposeful:
    """A true key, used for something else."""

    def __init__(self, key: SigningKey, purpose: Purpose) -> None:
        self.key, self.purpose = key, purpose

    def sign(self, _: Purpose, data: bytes) -> bytes:
        return self.key.sign(self.purpose, data)


def rewritten(data: bytes, signer: Any, **changes: Any) -> bytes:
    """The same message with some fields changed, a checksum that fits, and this signature."""
    container = open_container(data)
    arrays = unpack(data, container, container.layouts)
    record = {name: value for name, value in container.record.items() if name not in ("checksum", "signature")}
    return pack_sealed(record | changes, arrays, signer=signer)


def signature_of(data: bytes) -> bytes:
    return bytes.fromhex(open_container(data).record["signature"])


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_its_maker_is_believed_and_equal_content_gives_equal_bytes(kind: Kind):
    data = kind.make(kind.plan)
    kind.decode(data, kind.plan)
    assert kind.make(kind.plan) == data
    assert rewritten(data, SIGN[kind.maker]) == data  # what the next tests change is all that differs


def test_unsigned(kind: Kind):
    with refused(BadMessage, "signature", found="no signature", expected=kind.maker):
        kind.decode(rewritten(kind.make(kind.plan), None), kind.plan)


@pytest.mark.parametrize("who", ["another member", "the other role", "a stranger"])
def test_signed_by_somebody_else(kind: Kind, who: str):
    other_role = SIGN[OPERATOR] if kind.maker != OPERATOR else SIGN["a"]
    signer = {"another member": SIGN["b"], "the other role": other_role, "a stranger": SigningKey.new()}[who]
    with refused(BadMessage, "signature", found="another key", expected=kind.maker):
        kind.decode(rewritten(kind.make(kind.plan), signer), kind.plan)


def test_the_signature_of_another_message_of_the_same_maker(kind: Kind):
    data = kind.make(kind.plan)
    other = rewritten(data, SIGN[kind.maker], software="twofold 9.9.9")
    kind.decode(other, kind.plan)
    with refused(BadMessage, "signature"):
        kind.decode(rewritten(data, Copied(signature_of(other))), kind.plan)
    for step in KINDS.values():  # and of every other step
        if step.maker == kind.maker and step is not kind:
            with refused(BadMessage, "signature"):
                kind.decode(rewritten(data, Copied(signature_of(step.make(step.plan)))), kind.plan)


@pytest.mark.parametrize("purpose", [one for one in Purpose if one is not Purpose.MESSAGE])
def test_a_signature_for_another_purpose(kind: Kind, purpose: Purpose):
    with refused(BadMessage, "signature"):
        kind.decode(rewritten(kind.make(kind.plan), Purposeful(SIGN[kind.maker], purpose)), kind.plan)


@pytest.mark.parametrize("signature", [None, 5, "", "0" * 128, "zz" * 64, "A" * 128, ["0" * 128]])
def test_what_is_no_signature(kind: Kind, signature: Any):
    with pytest.raises(BadMessage) as error:
        kind.decode(rewritten(kind.make(kind.plan), None, signature=signature), kind.plan)
    assert error.value.parameter in ("signature", "checksum")


def test_a_change_by_an_insider_without_the_key(kind: Kind):
    """The checksum is made again, which anybody can; the signature cannot be."""
    data = kind.make(kind.plan)
    with refused(BadMessage, "signature"):
        kind.decode(rewritten(data, Copied(signature_of(data)), software="twofold 9.9.9"), kind.plan)
    container = open_container(data)
    name, array = max(unpack(data, container, container.layouts).items(), key=lambda one: one[1].nbytes)
    changed = array.copy()
    changed.flat[0] += 1
    record = {key: value for key, value in container.record.items() if key not in ("checksum", "signature")}
    arrays = unpack(data, container, container.layouts) | {name: changed}
    with refused(BadMessage, "signature"):
        kind.decode(pack_sealed(record, arrays, signer=Copied(signature_of(data))), kind.plan)


def test_a_changed_byte(kind: Kind):
    data = kind.make(kind.plan)
    for at in np.random.default_rng(3).integers(0, len(data), 60).tolist():
        with pytest.raises(TwofoldError):
            kind.decode(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :], kind.plan)
    with refused(BadMessage, "checksum"):
        kind.decode(data[:-1] + bytes([data[-1] ^ 1]), kind.plan)


def test_replayed_under_another_plan_with_the_same_roster(kind: Kind):
    data, other = kind.make(kind.plan), kind.other(name="other")
    assert other.roster == kind.plan.roster
    with refused(PlanMismatch, "plan", found="name is federation, here other"):
        kind.decode(data, other)
    header = common_record("", other)
    moved = {name: header[name] for name in ("plan", "plan_hash", "catalog_hash")}
    with refused(BadMessage, "signature"):
        kind.decode(rewritten(data, Copied(signature_of(data)), **moved), other)


def test_the_same_name_with_another_key(kind: Kind):
    """An entity that enrolled again is somebody else, and so are renewed keys: each is another roster."""
    data = kind.make(kind.plan)
    role = SECRETS[kind.maker].role
    for newer in (Secrets.new(kind.maker, role), SECRETS[kind.maker].renewed(), SECRETS[kind.maker].replaced()):
        other = kind.other(secrets=SECRETS | {kind.maker: newer})
        with refused(PlanMismatch, "plan", found="roster is"):
            kind.decode(data, other)
        if newer.sign == SIGN[kind.maker]:
            continue
        header = common_record("", other)
        with refused(BadMessage, "signature", expected=kind.maker):  # the old key, whatever the header says
            kind.decode(rewritten(data, SIGN[kind.maker], plan=header["plan"], plan_hash=other.hash), other)


def test_under_another_name(kind: Kind):
    data = kind.make(kind.plan)
    if kind.maker == OPERATOR:  # nobody is named: a name is not looked at, and covered all the same
        with refused(BadMessage, "signature"):
            kind.decode(rewritten(data, SIGN["b"], entity="b"), kind.plan)
        return
    with refused(BadMessage, "signature", expected="b"):
        kind.decode(rewritten(data, SIGN["a"], entity="b"), kind.plan)
    for name in (OPERATOR, "stranger"):
        with refused(PlanMismatch, "entity", found=name):
            kind.decode(rewritten(data, SIGN[OPERATOR], entity=name), kind.plan)


def test_one_kind_for_another(kind: Kind):
    data = kind.make(kind.plan)
    for other in KINDS.values():
        if other.decode is not kind.decode and other.plan is kind.plan:
            with refused(BadMessage, "schema"):
                other.decode(data, kind.plan)
            schema = open_container(other.make(other.plan)).record["schema"]
            with pytest.raises(BadMessage):
                other.decode(rewritten(data, Copied(signature_of(data)), schema=schema), kind.plan)


def test_without_the_roster_nothing_is_believed(kind: Kind):
    plan = kind.other(name="hash-only")
    data, hashes = kind.make(plan), Plan.from_dict(plan.as_dict())
    assert hashes == plan
    with refused(PlanMismatch, "roster", expected=plan.roster.hash[:12]):
        kind.decode(data, hashes)


def test_own_words_are_checked_before_they_leave():
    """Somebody with the wrong key notices before anybody else does."""
    with refused(BadMessage, "signature"):
        encode_release(_DRAWN, entity="a", plan=PLAIN, signer=SIGN["b"])
    with refused(BadMessage, "signature"):
        encode_release(_DRAWN, entity="a", plan=PLAIN)


def test_a_simulation_with_a_roster_is_signed_and_one_without_is_not():
    keyed = made_plan(secure=False, simulation=True)
    with refused(BadMessage, "signature"):
        encode_release(_DRAWN, entity="a", plan=keyed)
    plain = keyed.with_(roster=None, writer=None)
    data = encode_release(_DRAWN, entity="a", plan=plain)
    assert "signature" not in open_container(data).record
    assert decode_release(data, plain).entity == "a"
