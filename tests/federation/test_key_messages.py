"""Key messages: what decodes fits the plan, and a changed byte or name does not decode."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from twofold.errors import BadMessage, ProtocolError, TooFewMessages, TwofoldError
from twofold.federation.key_messages import (
    body_limit,
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
from twofold.secure_sum import Keys, answer, share_secrets
from twofold.storage.container import open_container, pack_sealed

KEYS = {f"site-{number}": Keys.new() for number in range(4)}
NAMES = tuple(KEYS)
PLAN = Plan(
    catalog=CatalogKey(hash="0" * 64, n_items=12),
    feedback="counts",
    bound=5,
    max_items=4,
    mechanism="gram",
    secure=SecureSum(survivors=3, roster=Roster({name: one.public for name, one in KEYS.items()})),
)
OTHER = PLAN.with_(name="other")
SENT = {name: share_secrets(one, name, secure_terms(PLAN)) for name, one in KEYS.items()}
ANSWER = answer(KEYS["site-0"], "site-0", secure_terms(PLAN), SENT, NAMES, NAMES[:3])
EVERY = {
    "shares": (encode_shares(SENT["site-0"], PLAN), decode_shares),
    "roll": (encode_participants(SENT, PLAN), decode_participants),
    "survivors": (encode_survivors(NAMES, NAMES[:3], PLAN), decode_survivors),
    "answer": (encode_answer(ANSWER, PLAN), decode_answer),
}


def body(schema: str, content: Any, **more: Any) -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return pack_sealed(common_record(schema, PLAN) | more, {"body": np.frombuffer(text, dtype=np.uint8)})


def test_round_trips():
    assert decode_shares(EVERY["shares"][0], PLAN).content == SENT["site-0"]
    assert decode_participants(EVERY["roll"][0], PLAN).shares == SENT
    assert decode_participants(EVERY["roll"][0], PLAN).present == NAMES
    assert decode_survivors(EVERY["survivors"][0], PLAN).survivors == NAMES[:3]
    assert decode_answer(EVERY["answer"][0], PLAN).content == ANSWER


def test_equal_content_gives_equal_bytes():
    assert encode_participants(dict(reversed(SENT.items())), PLAN) == EVERY["roll"][0]
    assert encode_survivors(NAMES[::-1], NAMES[2::-1], PLAN) == EVERY["survivors"][0]


@pytest.mark.parametrize("kind", EVERY)
def test_another_plan_another_kind_and_damage(kind: str):
    data, decode = EVERY[kind]
    with pytest.raises(ProtocolError, match="another plan"):
        decode(data, OTHER)
    for other, (_, wrong) in EVERY.items():
        if other != kind:
            with pytest.raises(BadMessage, match="another step"):
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
    ("content", "words"),
    [
        (b"\xff", "not text"),
        (b"[]", "JSON"),
        ({}, "a list of present"),
        ({"present": list(NAMES)}, "a list of present"),
        ({"present": list(NAMES), "survivors": list(NAMES), "shares": []}, "a list of present"),
        ({"present": list(NAMES), "survivors": "site-0"}, "a list of survivors"),
        ({"present": list(NAMES), "survivors": [["site-0"]]}, "the list of survivors"),
        ({"present": list(NAMES), "survivors": list(NAMES[::-1])}, "out of order"),
        ({"present": list(NAMES), "survivors": ["site-0", "site-1", "site-1"]}, "repeats"),
        ({"present": list(NAMES), "survivors": ["site-0", "site-1", "stranger"]}, "stranger"),
        ({"present": [*NAMES, "stranger"], "survivors": list(NAMES)}, "stranger"),
    ],
)
def test_hostile_lists(content: Any, words: str):
    with pytest.raises(BadMessage, match=words):
        decode_survivors(body(SURVIVORS, content), PLAN)


def test_below_the_floor_nothing_decodes():
    with pytest.raises(TooFewMessages, match="too few"):
        decode_survivors(encode_survivors(NAMES, NAMES[:2], PLAN), PLAN)
    with pytest.raises(TooFewMessages, match="too few"):
        decode_participants(encode_participants({name: SENT[name] for name in NAMES[:3]}, PLAN), PLAN)


def test_a_sender_has_one_name():
    data = body(SHARES, SENT["site-0"].to_record(), entity="site-1")
    with pytest.raises(BadMessage, match="site-1 and site-0"):
        decode_shares(data, PLAN)


def test_the_shares_of_another_plan_are_not_put_on_a_roll():
    strange = share_secrets(KEYS["site-0"], "site-0", secure_terms(OTHER))
    with pytest.raises(ProtocolError, match="another plan"):
        decode_participants(encode_participants(SENT | {"site-0": strange}, PLAN), PLAN)
    boxes = {name: box for name, box in SENT["site-0"].boxes.items() if name != "site-3"}
    fewer = dataclasses.replace(SENT["site-0"], boxes=boxes)
    with pytest.raises(BadMessage, match="from 'site-0'"):
        decode_shares(encode_shares(fewer, PLAN), PLAN)


def test_no_body_at_all():
    empty = pack_sealed(common_record(ROLL, PLAN), {"other": np.zeros(3, dtype=np.uint8)})
    with pytest.raises(BadMessage):
        decode_participants(empty, PLAN)
