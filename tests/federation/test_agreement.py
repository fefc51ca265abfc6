"""Agreements: everybody in the roster, to the very same hash, each under their own name and key; or nothing starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.enrolled import OPERATOR, enrolled
from tests.refused import refused
from twofold.errors import BadMessage, NotReady, PlanMismatch, TwofoldError
from twofold.federation.agreement import (
    Agreements,
    check_member,
    decode_agreed,
    decode_agreement,
    encode_agreed,
    encode_agreement,
    plan_words,
)
from twofold.federation.bodies import encode_body
from twofold.federation.mailbox import AGREE
from twofold.federation.messages import AGREED, AGREEMENT
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.keys import Secrets
from twofold.storage.container import canonical_json
from twofold.storage.signing import Purpose

BASE = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
HERE = enrolled(BASE, "st-anna", "st-bern")
PLAN, EVERY = HERE.plan, HERE.agreements
OTHER = enrolled(BASE.with_(rank=1), secrets=HERE.secrets)
ALL = (OPERATOR, "st-anna", "st-bern")


def changed(**signatures: bytes | None) -> Agreements:
    """Everybody's agreements with some of them changed, or taken out."""
    given = {name.replace("_", "-"): one for name, one in signatures.items()}
    kept = {name: one for name, one in (dict(EVERY) | given).items() if one is not None}
    return Agreements(PLAN.hash, kept)


def agreed(agreements: Agreements, plan: Plan = PLAN) -> bytes:
    return encode_agreed(agreements, plan, signer=HERE.signer())


# Who agreed to what

WRONG = {
    "for another hash": (changed(st_anna=OTHER.agreements["st-anna"]), "st-anna"),
    "by another member": (
        changed(st_anna=Agreements.signed(PLAN, HERE.signer("st-bern"), "st-anna")["st-anna"]),
        "st-anna",
    ),
    "by a stranger": (
        changed(st_anna=Agreements.signed(PLAN, Secrets.new("st-anna").sign, "st-anna")["st-anna"]),
        "st-anna",
    ),
    "by the operator": (changed(st_bern=Agreements.signed(PLAN, HERE.signer(), "st-bern")["st-bern"]), "st-bern"),
    "under another name": (changed(st_anna=EVERY["st-bern"]), "st-anna"),
    "for another purpose": (
        changed(st_anna=HERE.signer("st-anna").sign(Purpose.MESSAGE, f"{PLAN.hash} st-anna".encode())),
        "st-anna",
    ),
    "one name missing": (changed(st_bern=None), "st-bern"),
    "the operator missing": (changed(coordinator=None), OPERATOR),
    "two swapped": (changed(st_anna=EVERY["st-bern"], st_bern=EVERY["st-anna"]), "st-anna, st-bern"),
    "cut": (changed(st_anna=EVERY["st-anna"][:63]), "st-anna"),
    "empty": (changed(st_anna=b""), "st-anna"),
}


def test_everybody_agreed_to_the_very_same_plan():
    EVERY.check(PLAN)
    assert EVERY.missing(PLAN) == ()
    assert tuple(EVERY) == ALL
    assert EVERY.missing(OTHER.plan) == ALL
    with refused(NotReady, "agreements", found="3 without", expected=OTHER.plan.hash[:12]):
        EVERY.check(OTHER.plan)


@pytest.mark.parametrize("what", WRONG)
def test_one_wrong_agreement_is_no_start(what: str):
    found, names = WRONG[what]
    assert ", ".join(found.missing(PLAN)) == names
    with refused(NotReady, "agreements", found=names, expected=PLAN.hash[:12]):
        found.check(PLAN)


def test_the_hash_on_the_label_is_not_what_counts():
    """Signatures of another plan under the hash of this one."""
    with refused(NotReady, "agreements", found="3 without"):
        Agreements(PLAN.hash, OTHER.agreements).check(PLAN)


def test_a_re_enrolled_key_has_agreed_to_nothing():
    again = HERE.secrets | {"st-anna": Secrets.new("st-anna")}
    newer = enrolled(BASE, secrets=again).plan
    with refused(NotReady, "agreements", found="3 without"):
        EVERY.check(newer)
    assert Agreements(newer.hash, EVERY).missing(newer) == ALL


def test_a_plan_without_a_roster_has_nobody_to_agree():
    for plan in (BASE, Plan.from_dict(PLAN.as_dict())):
        with refused(PlanMismatch, "roster"):
            EVERY.check(plan)


# Joining


def test_joined_from_several_and_the_same_twice():
    parts = [Agreements(PLAN.hash, {name: EVERY[name]}) for name in ALL]
    assert Agreements.joined([*parts, *parts[::-1], EVERY]) == EVERY
    assert Agreements.joined(reversed(parts)).text == EVERY.text


def test_joined_from_two_plans_or_none():
    with refused(PlanMismatch, "agreements", found=PLAN.hash[:12]):
        Agreements.joined([EVERY, OTHER.agreements])
    with refused(PlanMismatch, "agreements", found="none"):
        Agreements.joined([])


def test_a_forged_duplicate_never_makes_an_agreement():
    forged = Agreements(PLAN.hash, {"st-anna": bytes(64)})
    fewer = changed(st_anna=None)
    for parts in ([fewer, forged], [forged, fewer]):
        with refused(NotReady, "agreements", found="st-anna"):
            Agreements.joined(parts).check(PLAN)


# Files


def test_a_file_and_back(tmp_path: Path):
    EVERY.write(tmp_path / "agreements")
    assert Agreements.read(tmp_path / "agreements") == EVERY
    assert hash(Agreements.read(tmp_path / "agreements")) == hash(EVERY)
    assert OTHER.agreements != EVERY


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("plan"),
        lambda record: record.update(schema="twofold.agreements/2"),
        lambda record: record.update(extra=1),
        lambda record: record.update(plan="0" * 63),
        lambda record: record.update(plan=5),
        lambda record: record.update(plan=record["plan"].upper()),
        lambda record: record.update(agreements=[]),
        lambda record: record["agreements"].update({"../a": "0" * 128}),
        lambda record: record["agreements"].update({"st-anna": "0" * 126}),
        lambda record: record["agreements"].update({"st-anna": 5}),
        lambda record: record["agreements"].update({"st-anna": "zz" * 64}),
    ],
)
def test_another_record(change):
    record = json.loads(EVERY.text)
    change(record)
    with refused(BadMessage, "agreements"):
        Agreements.from_text(json.dumps(record))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 60_000,
        b'{"plan":' + b"9" * 60_000 + b"}",
        EVERY.text.encode()[:-1],
        EVERY.text.encode() * 2,
    ],
)
def test_hostile_files(tmp_path: Path, data: bytes):
    (tmp_path / "x").write_bytes(data)
    with refused(BadMessage, "agreements"):
        Agreements.read(tmp_path / "x")


def test_a_name_twice_in_the_file():
    entry = f'"st-anna":"{EVERY["st-anna"].hex()}"'
    assert entry in EVERY.text
    with refused(BadMessage, "agreements"):
        Agreements.from_text(EVERY.text.replace(entry, f"{entry},{entry}"))


# Messages


def test_an_entity_sends_its_own_agreement():
    data = encode_agreement(EVERY["st-anna"], PLAN, entity="st-anna", signer=HERE.signer("st-anna"))
    found = decode_agreement(data, PLAN)
    assert (found.entity, dict(found.content)) == ("st-anna", {"st-anna": EVERY["st-anna"]})
    assert data == encode_agreement(EVERY["st-anna"], PLAN, entity="st-anna", signer=HERE.signer("st-anna"))
    assert AGREE.up.decode(data, PLAN) == found
    with refused(PlanMismatch, "plan"):
        decode_agreement(data, OTHER.plan)


@pytest.mark.parametrize(
    "body",
    [
        {"signature": {"st-anna": OTHER.agreements["st-anna"].hex()}},
        {"signature": {"st-anna": EVERY["st-bern"].hex()}},
        {"signature": {"st-bern": EVERY["st-bern"].hex()}},
        {"signature": {"st-anna": EVERY["st-anna"].hex(), "st-bern": EVERY["st-bern"].hex()}},
        {"signature": {}},
    ],
)
def test_a_message_without_its_senders_agreement(body: dict[str, object]):
    """Signed as a message all the same: by an insider."""
    data = encode_body(AGREEMENT, PLAN, body, entity="st-anna", signer=HERE.signer("st-anna"))
    with refused(BadMessage, "signature", found="st-anna"):
        decode_agreement(data, PLAN)


@pytest.mark.parametrize(
    "body", [{}, {"signature": []}, {"signature": {"st-anna": "00"}}, {"signature": {"st-anna": "0" * 128}, "more": 1}]
)
def test_another_body(body: dict[str, object]):
    data = encode_body(AGREEMENT, PLAN, body, entity="st-anna", signer=HERE.signer("st-anna"))
    with pytest.raises(BadMessage):
        decode_agreement(data, PLAN)
    with pytest.raises(BadMessage):
        decode_agreed(encode_body(AGREED, PLAN, body, signer=HERE.signer()), PLAN)


def test_the_operator_is_no_entity():
    data = encode_agreement(EVERY[OPERATOR], PLAN, entity=OPERATOR, signer=HERE.signer())
    with refused(PlanMismatch, "entity", found=OPERATOR):
        decode_agreement(data, PLAN)


def test_the_list_of_all():
    data = agreed(EVERY)
    assert decode_agreed(data, PLAN) == EVERY
    assert AGREE.down.decode(data, PLAN) == EVERY
    assert agreed(EVERY) == data
    assert len(data) <= AGREE.down.limit(PLAN)


@pytest.mark.parametrize("what", [what for what in WRONG if what not in ("cut", "empty")])
def test_an_operator_who_lies_about_one_of_them(what: str):
    found, names = WRONG[what]
    for _ in range(2):  # what was refused is not remembered as decoded
        with refused(BadMessage, "agreements", found=names):
            decode_agreed(agreed(found), PLAN)


def test_nobody_else_is_on_the_list():
    stranger = Secrets.new("stranger")
    more = Agreements.joined([EVERY, Agreements.signed(PLAN, stranger.sign, "stranger")])
    with refused(BadMessage, "agreements", found="stranger"):
        decode_agreed(agreed(more), PLAN)


def test_what_was_decoded_for_one_plan_is_not_taken_for_another():
    """The list is read once for all entities of a simulation; another plan with the same roster gets nothing of it."""
    data = agreed(EVERY)
    assert decode_agreed(data, PLAN) == EVERY
    with refused(PlanMismatch, "plan"):
        decode_agreed(data, OTHER.plan)
    theirs = agreed(OTHER.agreements, OTHER.plan)
    assert decode_agreed(theirs, OTHER.plan) == OTHER.agreements != decode_agreed(data, PLAN)
    with refused(PlanMismatch, "plan"):
        decode_agreed(theirs, PLAN)
    with refused(BadMessage, "agreements", found=OPERATOR):
        decode_agreed(agreed(EVERY, OTHER.plan), OTHER.plan)
    newer = enrolled(BASE, secrets=HERE.secrets | {"st-anna": Secrets.new("st-anna")}).plan
    with refused(PlanMismatch, "plan"):
        decode_agreed(data, newer)


def test_a_changed_byte():
    data = agreed(EVERY)
    for at in range(8, len(data), 41):
        with pytest.raises(TwofoldError):
            decode_agreed(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], PLAN)


# Fingerprints and members


def test_the_words_stand_for_plan_and_roster():
    newer = enrolled(BASE, secrets=HERE.secrets | {"st-anna": HERE.secrets["st-anna"].renewed()}).plan
    assert len({plan_words(one) for one in (PLAN, OTHER.plan, newer, BASE)}) == 4
    assert plan_words(Plan.from_dict(PLAN.as_dict())) == plan_words(PLAN)


def test_only_members_with_the_keys_of_the_roster():
    anna = HERE.secrets["st-anna"]
    assert check_member(PLAN, anna.identity) == PLAN.members
    assert check_member(PLAN, HERE.secrets[OPERATOR].identity) == PLAN.members
    for other in (Secrets.new("st-anna"), anna.renewed(), anna.replaced(), Secrets.new("stranger")):
        with refused(PlanMismatch, "keys"):
            check_member(PLAN, other.identity)


def test_one_revoked_key_stops_everybody():
    anna, bern = HERE.secrets["st-anna"], HERE.secrets["st-bern"]
    with refused(PlanMismatch, "roster", found="st-bern"):
        check_member(PLAN, anna.identity, [bern.revocation()])
    with refused(PlanMismatch, "roster", found=OPERATOR):
        check_member(PLAN, anna.identity, [HERE.secrets[OPERATOR].revocation()])
    assert check_member(PLAN, anna.identity, [Secrets.new("st-bern").revocation()])


def test_the_text_is_canonical():
    assert canonical_json(json.loads(EVERY.text)) == EVERY.text
