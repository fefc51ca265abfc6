"""A privacy card with the signature of the entity: canonical JSON that anyone can check.

The signature covers everything in the record but itself: the card, the key, the time and the software that wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Final, Literal

from twofold import __version__
from twofold.errors import BadCard, ProtocolError
from twofold.privacy.card import Card, brief, card_of
from twofold.privacy.ledger import Cost, Ledger, Statement
from twofold.privacy.ledger.writer import now
from twofold.storage.container import canonical_json, parse_json
from twofold.storage.signing import KEY_BYTES, SIGNATURE_BYTES, Purpose, SigningKey, fingerprint, verify

__all__ = ["LARGEST", "LedgerNow", "SignedCard", "check_ledger", "parse_signed", "sign_card"]

SCHEMA: Final = "twofold.card/1"
#: Most bytes of a card in any form.
LARGEST: Final = 1_000_000
#: What later records of the same ledger may change.
_TOTALS: Final = ("ceiling", "releases", "renews", "composition", "release_type", "ledger_head", "ledger_records")
#: What does not depend on how a version of the software words things.
_FACTS: Final = (
    "dataset",
    "at",
    "private",
    "seeded",
    "bytes",
    "digest",
    "parties",
    "unit",
    "public_numbers",
    "software",
    "plan",
    "version",
    "rho",
    "entities",
    "survivors",
    "colluders",
    "spent",
)


@dataclass(frozen=True, kw_only=True)
class SignedCard:
    """A card, and who signed it when; `key` and `signature` are hexadecimal.

    Privacy
    -------
    A valid signature shows that the owner of the key wrote the card, not who the owner is and not that the card is
    true. Compare the fingerprint with the institution, and the card with its ledger (`check_ledger`).
    """

    card: Card
    key: str
    at: str
    software: str
    signature: str

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON."""
        return {**_content(self.card, self.key, self.at, self.software), "signature": self.signature}

    def to_json(self) -> str:
        """Give the canonical form: the artefact, equal bytes for equal content."""
        return canonical_json(self.as_dict())

    @property
    def fingerprint(self) -> str:
        """Twelve words of the key, to compare over the phone."""
        return fingerprint(bytes.fromhex(self.key))

    def check_key(self, public: bytes) -> None:
        """Refuse a card that was signed with another key."""
        if bytes.fromhex(self.key) != public:
            raise BadCard(
                "the card was signed with another key.",
                found=self.fingerprint,
                expected=fingerprint(public),
                fix="ask the institution to read its fingerprint to you; do not rely on this card",
                parameter="key",
            )


def _content(card: Card, key: str, at: str, software: str) -> dict[str, Any]:
    return {"schema": SCHEMA, "card": card.as_dict(), "key": key, "at": at, "software": software}


def sign_card(card: Card, key: SigningKey, *, at: str | None = None) -> SignedCard:
    """Sign a card with the key of the entity that made the release.

    Parameters
    ----------
    card : Card
        The card.
    key : SigningKey
        The entity's.
    at : str, optional
        Time in UTC, such as 2027-01-15T12:00:00Z; now by default.

    Raises
    ------
    BadCard
        A text on it, such as the name of the data set, has characters that cannot be shown; nothing was signed.
    """
    Card.from_dict(card.as_dict())  # what cannot be read back is not signed
    written, software = at or now(), f"twofold {__version__}"
    content = _content(card, key.public.hex(), written, software)
    signature = key.sign(Purpose.CARD, canonical_json(content).encode())
    return SignedCard(card=card, key=key.public.hex(), at=written, software=software, signature=signature.hex())


def parse_signed(text: str) -> SignedCard:
    """Read a signed card and check its signature; refuse any other text.

    Examples
    --------
    >>> parse_signed('{"card": {}}')
    Traceback (most recent call last):
    twofold.errors.BadCard: this is not a signed privacy card...
    """
    if len(text) > LARGEST:
        raise _foreign(f"{len(text):,} characters")
    try:
        record = parse_json(text)
    except ProtocolError:
        raise _foreign("text that is not plain JSON") from None
    if record.get("schema") != SCHEMA:
        raise _foreign("a card without a signature" if "record_hash" in record else "another format")
    signed = _read(record)
    data = canonical_json({name: value for name, value in record.items() if name != "signature"}).encode()
    if not verify(bytes.fromhex(signed.key), Purpose.CARD, data, bytes.fromhex(signed.signature)):
        raise BadCard(
            "the card was changed after it was signed.",
            found="a signature that does not fit",
            fix="ask its signer for the card again",
            parameter="signature",
        )
    return signed


def _read(record: Mapping[str, Any]) -> SignedCard:
    known = {"schema", *(one.name for one in fields(SignedCard))}
    if set(record) != known or not isinstance(record["card"], Mapping):
        raise _foreign("other fields")
    for name, size in (("key", KEY_BYTES), ("signature", SIGNATURE_BYTES)):
        if not _is_hex(record[name], size):
            raise _foreign(f"a {name} that is none")
    if not _is_time(record["at"]) or not isinstance(record["software"], str) or len(record["software"]) > 80:
        raise _foreign("no valid time or software")
    card = Card.from_dict(record["card"])
    return SignedCard(card=card, **{name: record[name] for name in ("key", "at", "software", "signature")})


def _is_hex(text: object, size: int) -> bool:
    return isinstance(text, str) and len(text) == 2 * size and not set(text) - set("0123456789abcdef")


def _is_time(text: object) -> bool:
    try:
        return isinstance(text, str) and bool(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return False


def _foreign(found: str) -> BadCard:
    return BadCard(
        "this is not a signed privacy card.",
        found=found,
        expected="a file that twofold card show wrote with --keys",
        parameter="card",
    )


@dataclass(frozen=True, kw_only=True)
class LedgerNow:
    """What the ledger of a card says today; `has_grown` if it has records that the card does not know.

    `statement` is "" for a ledger. For a statement of one it is "signed" if the card's key signed the statement, else
    "unsigned".
    """

    has_grown: bool
    spent: str
    releases: int
    statement: Literal["", "signed", "unsigned"] = ""


def check_ledger(signed: SignedCard, ledger: Ledger | Statement) -> LedgerNow:
    """Refuse a card that says anything else than its ledger.

    The ledger may have grown since the card was made: then its totals are compared as of that time, and what later
    records change (the ceiling, the number of releases) is left out. Of a card that another version of the software
    wrote, the facts and figures are compared but not the words.

    A statement is what auditors have in the place of a ledger. Hashes of its reservations cover secrets that it leaves
    out, so only a signature shows that nobody rewrote them: with that of the card's key, one hand wrote both; without,
    the two texts agree, and no more is proved. Stored releases, and what was recorded later, a statement cannot show.

    Returns
    -------
    LedgerNow
        What was spent by now: the card is true as of its own time only.

    Raises
    ------
    BadCard
        The release is not in this ledger, or the card says something else about it.
    LedgerBroken
        The ledger is damaged, or older than the card: it was restored from a copy.
    """
    card = signed.card
    ledger.verify()
    state = ledger.state()
    entry = next((one for one in state.entries if (one.number, one.hash) == (card.record, card.record_hash)), None)
    if entry is None:
        raise BadCard(
            "the card's release is not in this ledger.",
            found=f"no record {card.record} with hash {card.record_hash[:16]}",
            fix="name the ledger of this data set",
            parameter="ledger",
        )
    ledger.verify(head=card.ledger_head)
    before = tuple(one for one in state.entries if one.number < card.ledger_records)
    then = replace(state, entries=before, spent=sum((one.cost for one in before), Cost()))
    made = card_of(then, entry, statement=card.statement, audit=card.audit)
    same_words = signed.software == f"twofold {__version__}"
    names = [one.name for one in fields(Card)] if same_words else _FACTS
    grown = state.hash != card.ledger_head
    left_out = _TOTALS if grown else ()
    differing = [one for one in names if one not in left_out and getattr(made, one) != getattr(card, one)]
    if _prices(made) != _prices(card):
        differing.append("figures")
    if differing:
        raise BadCard(
            "the card says something else than its ledger.",
            found=f"different: {', '.join(dict.fromkeys(differing))}",
            expected="what the ledger records",
            fix="do not rely on this card; ask its signer why",
            parameter="ledger",
        )
    releases = sum(one.status == "released" for one in state.entries)
    kept: Literal["", "signed", "unsigned"] = ""
    if isinstance(ledger, Statement):
        kept = "signed" if ledger.verify().signer == signed.key else "unsigned"
    return LedgerNow(has_grown=grown, spent=brief(state.spent), releases=releases, statement=kept)


def _prices(card: Card) -> list[tuple[float, float, float, bool]]:
    return [(one.epsilon, one.delta, one.guess, one.headline) for one in card.figures]
