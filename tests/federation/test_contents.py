"""Messages of bilinear plans, plain and masked: round trips, and nothing else decodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadMessage, NotForRealUse, TwofoldError
from twofold.federation.messages import CHECKS, array_bytes, decode_release, encode_release, message_limit, modulus_bits
from twofold.federation.plan import LARGEST_NUMBER, CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.identity.roster import Roster
from twofold.release.content import BilinearSums, Masked
from twofold.storage.container import open_container, pack_sealed

ROSTER, SECRETS = Roster.new(("a", "b", "c"))
SIGNER = SECRETS["a"].sign


def plan(*, secure: bool = False, **changes: Any) -> Plan:
    given = {
        "catalog": CatalogKey(hash="0" * 64, n_items=6),
        "feedback": "counts",
        "bound": 5,
        "max_items": 3,
        "mechanism": "gram",
        "n_prototypes": 4,
        "n_users": 20,
        "secure": SecureSum(survivors=3) if secure else None,
        "roster": ROSTER,
    }
    return Plan(**(given | changes))


def rows(made: Plan) -> np.ndarray:
    return np.tile([1.0, 2.0, 3.0, 0.0, 0.0, 0.0], (20, 1)).clip(made.lower)


def content(made: Plan) -> BilinearSums | Masked:
    drawn = made.release_mechanism.release(rows(made), made.parameters).value
    if made.secure is None:
        return drawn
    bits, size = modulus_bits(made), drawn.numbers.size + CHECKS
    packed = np.random.default_rng(1).integers(0, 256, (size, bits // 8)).astype(np.uint8)
    return Masked(mechanism="gram", present="1" * 64, bits=bits, packed=packed, seeded=False)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("mechanism", ["gram", "sketch"])
def test_round_trips(secure: bool, feedback: str, mechanism: str):
    made = plan(secure=secure, feedback=feedback, mechanism=mechanism, lower=0 if feedback == "counts" else 1)
    sent = dataclasses.replace(content(made), mechanism=mechanism)
    data = encode_release(sent, entity="a", plan=made, signer=SIGNER)
    found = decode_release(data, made)
    assert found.entity == "a"
    assert type(found.content) is type(sent)
    for name, array in sent.arrays().items():
        assert (found.content.arrays()[name] == array).all()
    assert encode_release(found.content, entity="a", plan=made, signer=SIGNER) == data
    assert sum(array.nbytes for array in sent.arrays().values()) == array_bytes(made)
    assert len(data) <= message_limit(made)


@pytest.mark.parametrize("secure", [False, True])
def test_a_changed_byte_does_not_decode(secure: bool):
    made = plan(secure=secure)
    data = encode_release(content(made), entity="a", plan=made, signer=SIGNER)
    for at in np.random.default_rng(2).integers(0, len(data), 80):
        changed = bytearray(data)
        changed[at] ^= 1 << int(at) % 8
        with pytest.raises(TwofoldError):
            decode_release(bytes(changed), made)


def resealed(made: Plan, arrays: dict[str, np.ndarray] | None = None, **changes: Any) -> bytes:
    """A message whose sender lies, with a checksum and a signature that fit."""
    sent = content(made)
    record = dict(open_container(encode_release(sent, entity="a", plan=made, signer=SIGNER)).record)
    del record["checksum"], record["signature"]
    return pack_sealed(record | changes, arrays or sent.arrays(), signer=SIGNER)


@pytest.mark.parametrize(
    "changes",
    [
        {"bits": 64},
        {"bits": 16},
        {"bits": "48"},
        {"bits": True},
        {"present": "xyz"},
        {"present": None},
        {"mechanism": "sketch"},
        {"mechanism": "none"},
        {"entity": "stranger"},
        {"noise": {"law": "none", "values": 0.0, "observed": 0.0, "counts": 0.0}},
    ],
)
def test_a_lying_header_of_a_masked_message(changes: dict[str, Any]):
    with pytest.raises(TwofoldError):
        decode_release(resealed(plan(secure=True), **changes), plan(secure=True))


def test_seeded_noise_has_no_place_in_a_real_plan():
    with refused(NotForRealUse, "seeded"):
        decode_release(resealed(plan(secure=True), seeded=True), plan(secure=True))
    with refused(NotForRealUse, "seeded"):
        decode_release(resealed(plan(), seeded=True), plan())


@pytest.mark.parametrize("change", [(-1, 0), (1, 0), (0, -1), (0, 1)])
def test_another_shape(change: tuple[int, int]):
    made = plan(secure=True)
    rows, width = made.spec.sum.length + CHECKS, modulus_bits(made) // 8
    assert content(made).arrays()["masked"].shape == (rows, width)
    shape = (rows + change[0], width + change[1])
    with pytest.raises(TwofoldError):
        decode_release(resealed(made, {"masked": np.zeros(shape, dtype=np.uint8)}), made)


def test_plain_and_masked_do_not_mix():
    plain, masked = plan(), plan(secure=True)
    with pytest.raises(TwofoldError):
        decode_release(resealed(masked, content(plain).arrays()), masked)
    with pytest.raises(TwofoldError):
        decode_release(resealed(plain, content(masked).arrays()), plain)


@pytest.mark.parametrize("value", [LARGEST_NUMBER + 1, -LARGEST_NUMBER - 1, np.iinfo(np.int64).min])
def test_a_plain_number_that_could_overflow(value: int):
    made = plan()
    numbers = content(made).arrays()["numbers"].copy()
    numbers[0] = value
    with refused(BadMessage, "numbers", expected="9.2e+14"):
        decode_release(resealed(made, {"numbers": numbers}), made)
