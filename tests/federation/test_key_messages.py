"""Key messages: what decodes fits the plan, and a changed byte or name does not decode."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadMessage, PlanMismatch, TooFewMessages, TwofoldError
from twofold.federation.bodies import body_limit
from twofold.federation.key_messages import (
    decode_answer,
    decode_participants,
    decode_shares,
    decode_survivors,
    encode_answer,
    encode_participants,
    encode_shares,
    encode_survivors,
    secure_terms,
)
from twofold.federation.messages import ROLL, SHARES, SURVIVORS, common_record
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.identity.roster import Roster
from twofold.secure_sum import answer, share_secrets
from twofold.storage.container import open_container, pack_sealed

NAMES = tuple(f"site-{number}" for number in range(5))
ROSTER, SECRETS = Roster.new(NAMES)
KEYS = {name: SECRETS[name].sum for name in NAMES}
SIGNER, OPERATOR = SECRETS["site-0"].sign, SECRETS["coordinator"].sign
PLAN = Plan(
    catalog=CatalogKey(hash="0" * 64, n_items=12),
    feedback="counts",
    bound=5,
    max_items=4,
    mechanism="gram",
    secure=SecureSum(survivors=4),
    roster=ROSTER,
)
OTHER = PLAN.with_(name="other")
SENT = {name: share_secrets(one, name, secure_terms(PLAN)) for name, one in KEYS.items()}
ANSWER = answer(KEYS["site-0"], "site-0", secure_terms(PLAN), SENT, NAMES, NAMES[:4])
EVERY = {
    "shares": (encode_shares(SENT["site-0"], PLAN, signer=SIGNER), decode_shares),
    "roll": (encode_participants(SENT, PLAN, signer=OPERATOR), decode_participants),
    "survivors": (encode_survivors(NAMES, NAMES[:4], PLAN, signer=OPERATOR), decode_survivors),
    "answer": (encode_answer(ANSWER, PLAN, signer=SIGNER), decode_answer),
}


def body(schema: str, content: Any, **more: Any) -> bytes:
    """A message of a maker who lies, with a signature that fits."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    signer = SECRETS[more.get("entity", "coordinator")].sign
    return pack_sealed(common_record(schema, PLAN) | more, {"body": np.frombuffer(text, dtype=np.uint8)}, signer=signer)


def test_round_trips():
    assert decode_shares(EVERY["shares"][0], PLAN).content == SENT["site-0"]
    assert decode_participants(EVERY["roll"][0], PLAN).shares == SENT
    assert decode_participants(EVERY["roll"][0], PLAN).present == NAMES
    assert decode_survivors(EVERY["survivors"][0], PLAN).survivors == NAMES[:4]
    assert decode_answer(EVERY["answer"][0], PLAN).content == ANSWER


def test_equal_content_gives_equal_bytes():
    assert encode_participants(dict(reversed(SENT.items())), PLAN, signer=OPERATOR) == EVERY["roll"][0]
    assert encode_survivors(NAMES[::-1], NAMES[3::-1], PLAN, signer=OPERATOR) == EVERY["survivors"][0]


@pytest.mark.parametrize("kind", EVERY)
def test_another_plan_another_kind_and_damage(kind: str):
    data, decode = EVERY[kind]
    with refused(PlanMismatch, "plan", found="name is federation, here other"):
        decode(data, OTHER)
    for other, (_, wrong) in EVERY.items():
        if other != kind:
            with refused(BadMessage, "schema"):
                wrong(data, PLAN)
    size = open_container(data).size
    for at in np.random.default_rng(0).integers(0, size, 60):
        changed = bytearray(data)
        changed[at] ^= 1 << int(at) % 8
        with pytest.raises(TwofoldError):
            decode(bytes(changed), PLAN)
    for cut in (0, 7, len(data) // 2, len(data) - 1):
        with pytest.raises(TwofoldError):
            decode(data[:cut], PLAN)
    assert len(data) <= body_limit(PLAN, everybody=kind == "roll")


@pytest.mark.parametrize(
    ("content", "parameter", "found", "expected"),
    [
        (b"\xff", "body", None, None),
        (b"[]", "header", None, None),
        ({}, "present", None, None),
        ({"present": list(NAMES)}, "present", None, None),
        ({"present": list(NAMES), "survivors": list(NAMES), "shares": []}, "present", None, None),
        ({"present": list(NAMES), "survivors": "site-0"}, "survivors", None, "list of survivors"),
        ({"present": list(NAMES), "survivors": [["site-0"]]}, "survivors", None, "list of names"),
        ({"present": list(NAMES), "survivors": list(NAMES[::-1])}, "survivors", None, "sorted"),
        ({"present": list(NAMES), "survivors": ["site-0", "site-1", "site-1"]}, "survivors", None, "sorted"),
        ({"present": list(NAMES), "survivors": ["site-0", "site-1", "stranger"]}, "survivors", "'stranger'", None),
        ({"present": [*NAMES, "stranger"], "survivors": list(NAMES)}, "present", "'stranger'", None),
    ],
)
def test_hostile_lists(content: Any, parameter: str, found: str | None, expected: str | None):
    with refused(BadMessage, parameter, found=found, expected=expected):
        decode_survivors(body(SURVIVORS, content), PLAN)


def test_below_the_floor_nothing_decodes():
    with refused(TooFewMessages, "survivors", found="3", expected="4"):
        decode_survivors(encode_survivors(NAMES, NAMES[:3], PLAN, signer=OPERATOR), PLAN)
    with refused(TooFewMessages, "present", found="4", expected="5"):
        fewer = {name: SENT[name] for name in NAMES[:4]}
        decode_participants(encode_participants(fewer, PLAN, signer=OPERATOR), PLAN)


def test_a_sender_has_one_name():
    data = body(SHARES, SENT["site-0"].to_record(), entity="site-1")
    with refused(BadMessage, "entity", found="site-1 and site-0"):
        decode_shares(data, PLAN)


def test_the_shares_of_another_plan_are_not_put_on_a_roll():
    strange = share_secrets(KEYS["site-0"], "site-0", secure_terms(OTHER))
    with refused(PlanMismatch, "terms", found="site-0"):
        decode_participants(encode_participants(SENT | {"site-0": strange}, PLAN, signer=OPERATOR), PLAN)
    boxes = {name: box for name, box in SENT["site-0"].boxes.items() if name != "site-3"}
    fewer = dataclasses.replace(SENT["site-0"], boxes=boxes)
    with refused(BadMessage, "boxes", found="site-0"):
        decode_shares(encode_shares(fewer, PLAN, signer=SIGNER), PLAN)


def test_no_body_at_all():
    empty = pack_sealed(common_record(ROLL, PLAN), {"other": np.zeros(3, dtype=np.uint8)}, signer=OPERATOR)
    with pytest.raises(BadMessage):
        decode_participants(empty, PLAN)
