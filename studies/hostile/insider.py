"""Somebody with keys: signatures, chains and checksums made right after a change.

The keys of every sample follow from names, so that each process has the same ones. A file that is no longer JSON, or
whose key is nobody's, stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final

from studies.hostile.mutate import edit_tree, reseal_container
from tests.enrolled import OPERATOR, fixed_secrets
from twofold.errors import TwofoldError
from twofold.identity.keys import Role, Secrets
from twofold.identity.keystore import agreement_text
from twofold.privacy.ledger.head import Head, signed
from twofold.privacy.ledger.record import START, canonical, digest
from twofold.privacy.signed_card import parse_signed
from twofold.report.card import FENCE, to_html, to_markdown
from twofold.storage.container import COSIGNATURE, canonical_json, cosign, open_container
from twofold.storage.signing import Purpose, SigningKey

__all__ = [
    "DATASET",
    "NAMES",
    "OFFICER",
    "PERSON",
    "SECOND",
    "SIGNER",
    "both_operators",
    "edited_page",
    "members",
    "resign_agreements",
    "resign_approval",
    "resign_both",
    "resign_card",
    "resign_head",
    "resign_identity",
    "resign_log",
    "resign_message",
    "resign_report",
    "resign_revocation",
    "resign_roster",
    "resign_statement",
    "secrets",
]

NAMES: Final = tuple(f"site-{number}" for number in range(5))
#: The key of a ledger, a card and a log; and of a person who approves.
SIGNER: Final = SigningKey(bytes(range(32)))
OFFICER: Final = SigningKey(b"\5" * 32)
#: The key of a person who is an entity, and the second operator of a sum in shares.
PERSON: Final = SigningKey(b"\7" * 32)
SECOND: Final = "registry"
DATASET: Final = "visits"


@cache
def secrets() -> dict[str, Secrets]:
    """Keys of five entities, their operator, a person, and an entity that replaced its signing key."""
    made = fixed_secrets(*NAMES)
    person = fixed_secrets("dr-bern")["dr-bern"]
    made["dr-bern"] = Secrets(name="dr-bern", role=Role.PERSON, sign=person.sign, sum=person.sum)
    old, new = fixed_secrets("old", "st-clara")["old"], fixed_secrets("st-clara")["st-clara"]
    covered = {name: new.identity.record[name] for name in _COVERED}
    vouched = old.sign.sign(Purpose.IDENTITY, b"next " + canonical_json(covered).encode())
    made["st-clara"] = Secrets(name="st-clara", sign=new.sign, sum=new.sum, replaces=old.sign.public, vouched=vouched)
    made["old"] = old
    other = fixed_secrets(SECOND)[SECOND]
    made[SECOND] = Secrets(name=SECOND, role=Role.OPERATOR, sign=other.sign, sum=other.sum)
    return made


def members() -> dict[str, Secrets]:
    """Those who take part in the samples' plans: the entities and the operator."""
    return {name: secrets()[name] for name in (*NAMES, OPERATOR)}


def both_operators() -> dict[str, Secrets]:
    """Those who take part in a sum in shares: the entities and two operators."""
    return members() | {SECOND: secrets()[SECOND]}


_COVERED: Final = ("schema", "name", "role", "sign", "mask", "seal")


@cache
def _keys() -> dict[str, SigningKey]:
    """Every key by its public part."""
    every = [SIGNER, OFFICER, PERSON, *(one.sign for one in secrets().values())]
    return {one.public.hex(): one for one in every}


def _key(public: object) -> SigningKey | None:
    return _keys().get(public) if isinstance(public, str) else None


def resign_message(data: bytes) -> bytes:
    """Seal and sign a container again, with the key of the entity that it names, else with the operator's."""
    name: object = None
    with suppress(TwofoldError):
        name = open_container(data).record.get("entity")
    maker = secrets().get(name) if isinstance(name, str) else None
    return reseal_container(data, (maker or secrets()[OPERATOR]).sign)


def resign_both(data: bytes) -> bytes:
    """Seal item factors again with the signatures of both operators."""
    found = re.search(rb'\\"%b\\":\\"([0-9a-f]{128})' % COSIGNATURE.encode(), data[: 2**16])
    if found is None:
        return resign_message(data)
    made = resign_message(data[: found.start(1)] + b"0" * 128 + data[found.end(1) :])
    with suppress(TwofoldError):
        return cosign(made, secrets()[SECOND].sign)
    return made


def resign_report(data: bytes) -> bytes:
    """Write the hashes of a report's boxes, its maker's signature and its checksum anew."""
    try:
        container = open_container(data)
        record = dict(container.record)
        made, boxes = data, record.get("boxes")
        for place, name in enumerate(("first", "second")):
            if name in container.layouts and isinstance(boxes, list) and place < len(boxes):
                at, size = container.places[name], container.layouts[name].size
                made, boxes[place] = _rewritten(made, boxes[place], hashlib.sha256(data[at : at + size]).hexdigest())
        maker = _key(record.get("by")) or getattr(secrets().get(str(record.get("entity"))), "sign", None)
        if maker is not None:
            covered = {name: value for name, value in record.items() if name not in ("checksum", "signed")}
            text = hashlib.sha256(canonical_json(covered).encode()).digest()
            made, _ = _rewritten(made, record.get("signed"), maker.sign(Purpose.REPORT, text).hex())
        return reseal_container(made, None)
    except (TwofoldError, ValueError, TypeError, RecursionError):
        return data


def _rewritten(data: bytes, before: object, after: str) -> tuple[bytes, object]:
    """Write a text over another one of the same length; one that is not there stays."""
    if isinstance(before, str) and len(before) == len(after) and before.isascii() and before.encode() in data:
        return data.replace(before.encode(), after.encode(), 1), after
    return data, before


def _json(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    """Apply a change to a file that is one JSON object, and write it in canonical form."""

    def made(data: bytes) -> bytes:
        try:
            record = json.loads(data)
            if not isinstance(record, dict):
                return data
            change(record)
            return canonical_json(record).encode()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return data

    return made


def _sign_identity(record: dict[str, Any]) -> None:
    covered = canonical_json({name: record[name] for name in _COVERED if name in record}).encode()
    if (key := _key(record.get("sign"))) and "signature" in record:
        record["signature"] = key.sign(Purpose.IDENTITY, covered).hex()
    if (old := _key(record.get("replaces"))) and "vouched" in record:
        record["vouched"] = old.sign(Purpose.IDENTITY, b"next " + covered).hex()


def _sign_roster(record: dict[str, Any]) -> None:
    for one in record["members"]:
        if isinstance(one, dict):
            _sign_identity(one)


def _sign_revocation(record: dict[str, Any]) -> None:
    if key := _key(record.get("sign")):
        record["signature"] = key.sign(Purpose.IDENTITY, b"revoked " + key.public).hex()


def _sign_agreements(record: dict[str, Any]) -> None:
    for name in record["agreements"]:
        if name in secrets():
            signature = secrets()[name].sign.sign(Purpose.AGREEMENT, agreement_text(str(record["plan"]), name))
            record["agreements"][name] = signature.hex()


def _sign_plain(purpose: Purpose) -> Callable[[dict[str, Any]], None]:
    """For records whose field `key` signs everything but the signature."""

    def sign(record: dict[str, Any]) -> None:
        covered = {name: value for name, value in record.items() if name != "signature"}
        if (key := _key(record.get("key"))) and "signature" in record:
            record["signature"] = key.sign(purpose, canonical_json(covered).encode()).hex()

    return sign


def _sign_head(record: dict[str, Any]) -> None:
    head = Head(**{name: record[name] for name in ("length", "size", "hash", "format")})
    if "signature" in record:
        record |= signed(head, DATASET, SIGNER).as_dict()


resign_identity: Final = _json(_sign_identity)
resign_roster: Final = _json(_sign_roster)
resign_revocation: Final = _json(_sign_revocation)
resign_agreements: Final = _json(_sign_agreements)
resign_approval: Final = _json(_sign_plain(Purpose.APPROVAL))
resign_card: Final = _json(_sign_plain(Purpose.CARD))
resign_head: Final = _json(_sign_head)


def resign_log(data: bytes) -> bytes:
    """Hash and sign every line of a log again."""
    made, previous = [], "0" * 64
    for line in data.splitlines():
        try:
            record = json.loads(line)
            covered = {name: record[name] for name in record if name not in ("hash", "signature", "previous")}
            covered["previous"] = previous
            hashed = hashlib.sha256(canonical_json(covered).encode()).hexdigest()
        except (ValueError, TypeError, RecursionError):
            made.append(line)
            continue
        previous = hashed
        signature = SIGNER.sign(Purpose.LOG, hashed.encode()).hex()
        made.append(canonical_json({**covered, "hash": hashed, "signature": signature}).encode())
    return b"\n".join(made) + b"\n"


def resign_statement(data: bytes) -> bytes:
    """Number, link and hash every record again, and sign the head and the whole."""
    lines = data.splitlines()
    try:
        records = [json.loads(line) for line in lines[2:-1]]
        previous = START
        for number, record in enumerate(records):
            record |= {"number": number, "previous": previous}
            form = b'{"body":%b,"number":%d,"previous":"%b"}'
            record["hash"] = digest(form % (canonical(record["body"]), number, previous.encode()))
            previous = record["hash"]
        head = {"length": len(records), "hash": previous, "size": json.loads(lines[1])["head"]["size"]}
        dataset = records[0]["body"]["dataset"]
        top = canonical({"head": signed(Head(**head), str(dataset), SIGNER).as_dict()})
        content = b"".join(line + b"\n" for line in (lines[0], top, *(canonical(one) for one in records)))
        said = canonical({"statement": digest(content)})
        end = {"signature": SIGNER.sign(Purpose.LEDGER, said).hex(), "signer": SIGNER.public.hex()}
        return content + canonical(end) + b"\n"
    except (TwofoldError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return data


_BLOCKS: Final = {
    "html": ('<script type="application/json" id="signed-card">', "</script>"),
    "markdown": (f"\n{FENCE}\n", "\n```"),
}


def edited_page(data: bytes, chance: random.Random) -> bytes:
    """Change the signed card inside a page, sign it, and write the page that belongs to it where there is one."""
    text = data.decode()
    form = "html" if text.startswith("<") else "markdown"
    begin, end = _BLOCKS[form]
    before, _, rest = text.partition(begin)
    inside, _, after = rest.partition(end)
    record = json.loads(inside)
    edit_tree(record["card"] if chance.random() < 0.8 else record, chance)
    made = resign_card(json.dumps(record).encode())
    try:
        signed_card = parse_signed(made.decode())
        return (to_html if form == "html" else to_markdown)(signed_card).encode()
    except Exception:  # whatever it is, the parser meets it again
        return f"{before}{begin}{made.decode()}{end}{after}".encode("utf-8", "replace")
