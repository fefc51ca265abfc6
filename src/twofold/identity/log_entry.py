"""One line of a security log: which events there are, what each holds, and how it is written and read.

Events and their fields are a fixed list: hashes of public bytes, names, public keys, counts of bytes and fixed words.
No field can hold a value, an id or a count of the data. A model made from the data is not hashed, either: the event
names the item factors it was made with.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from twofold.checks import NAME, is_hash
from twofold.errors import BadMessage, TwofoldError
from twofold.identity.policy import RULES
from twofold.storage.container import canonical_json, parse_json, printable
from twofold.storage.signing import SIGNATURE_BYTES, Purpose, SigningKey, verify

__all__ = ["FIELDS", "LONGEST", "SCHEMA", "START", "TIME", "Entry", "Event", "check_fields"]

SCHEMA: Final = "twofold.log/1"
#: What stands for the hash of the line before the first.
START: Final = "0" * 64
#: Bytes of a line.
LONGEST: Final = 4_096
#: UTC, to the second.
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_AMOUNT: Final = re.compile("[0-9]{1,130}(/[0-9]{1,130})?")


class Event(StrEnum):
    """What can be logged; there is nothing else."""

    LOG_OPENED = "log opened"
    KEY_MADE = "key made"
    PLAN_AGREED = "plan agreed"
    PLAN_CONFIRMED = "plan confirmed"
    POLICY_REFUSED = "policy refused"
    DRAFT_MADE = "draft made"
    APPROVED = "approved"
    RELEASED = "released"
    SENT = "sent"
    RECEIVED = "received"
    MODEL_MADE = "model made"
    STARTED = "started"
    ACCEPTED = "accepted"
    CONFLICT = "conflict"
    CLOSED = "closed"
    PUBLISHED = "published"
    REPAIRED = "repaired"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**15


def _is_version(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= len(value) <= 64 and value.isprintable()


def _is_amount(value: object) -> bool:
    return isinstance(value, str) and _AMOUNT.fullmatch(value) is not None


def _is_rules(value: object) -> bool:
    return isinstance(value, list) and value == [rule for rule in RULES if rule in value] != []


#: The fields of each event, all required, with what they may hold.
FIELDS: Final[Mapping[Event, Mapping[str, Callable[[object], bool]]]] = {
    Event.LOG_OPENED: {"entity": _is_name, "schema": lambda value: value == SCHEMA},
    Event.KEY_MADE: {"name": _is_name, "key": is_hash},
    Event.PLAN_AGREED: {"plan": is_hash},
    Event.PLAN_CONFIRMED: {"plan": is_hash},
    Event.POLICY_REFUSED: {"plan": is_hash, "policy": is_hash, "rules": _is_rules},
    Event.DRAFT_MADE: {
        "plan": is_hash,
        "policy": is_hash,
        "draft": is_hash,
        "version": _is_version,
        "epsilon": _is_amount,
        "delta": _is_amount,
    },
    Event.APPROVED: {"plan": is_hash, "draft": is_hash, "approver": _is_name, "key": is_hash},
    Event.RELEASED: {"plan": is_hash, "digest": is_hash},
    Event.SENT: {"plan": is_hash, "digest": is_hash},
    Event.RECEIVED: {"plan": is_hash, "digest": is_hash},
    Event.MODEL_MADE: {"plan": is_hash, "factors": is_hash},
    # A service: who brought what in which step.
    Event.STARTED: {"plan": is_hash},
    Event.ACCEPTED: {"plan": is_hash, "step": _is_name, "entity": _is_name, "digest": is_hash, "carrier": _is_name},
    Event.CONFLICT: {"plan": is_hash, "step": _is_name, "entity": _is_name, "digest": is_hash, "carrier": _is_name},
    Event.CLOSED: {"plan": is_hash, "step": _is_name},
    Event.PUBLISHED: {"plan": is_hash, "step": _is_name, "digest": is_hash},
    Event.REPAIRED: {"bytes": _is_count, "digest": is_hash},
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a log.

    Parameters
    ----------
    number : int
        From 0.
    at : str
        Time in UTC, by the clock of the machine.
    event : Event
        What happened.
    fields : mapping
        The event's own fields.
    clock_back : bool
        Whether the clock showed an earlier time than at the line before. The order of lines is that of the chain.
    previous, hash : str
        Hash of the line before, and of this one.
    signature : bytes
        Over the hash; empty without a key.
    """

    number: int
    at: str
    event: Event
    fields: Mapping[str, Any]
    clock_back: bool
    previous: str
    hash: str
    signature: bytes = b""

    @classmethod
    def after(
        cls, last: Entry | None, event: Event, fields: Mapping[str, Any], *, at: str, signer: SigningKey | None = None
    ) -> Entry:
        """Make the line that follows another, or the first one."""
        made = cls(
            number=0 if last is None else last.number + 1,
            at=at,
            event=event,
            fields=dict(fields),
            clock_back=last is not None and at < last.at,
            previous=START if last is None else last.hash,
            hash="",
        )
        signature = b"" if signer is None else signer.sign(Purpose.LOG, made.digest.encode())
        return cls(**{**vars(made), "hash": made.digest, "signature": signature})

    @classmethod
    def from_line(cls, line: bytes) -> Entry | None:
        """Read a line with its end; None if it is not exactly what this program writes, its hash included."""
        if len(line) > LONGEST or not line.endswith(b"\n"):
            return None
        try:
            record = parse_json(line.decode("ascii"))
            entry = cls(
                number=record["number"],
                at=record["at"],
                event=Event(record["event"]),
                fields=record["fields"],
                clock_back=record.get("clock_back", False) is True,
                previous=record["previous"],
                hash=record["hash"],
                signature=bytes.fromhex(record["signature"]),
            )
            check_fields(entry.event, entry.fields)
            if datetime.strptime(entry.at, TIME).strftime(TIME) != entry.at or not is_hash(entry.previous):
                return None
            sound = _is_count(entry.number) and len(entry.signature) in (0, SIGNATURE_BYTES)
            return entry if sound and entry.hash == entry.digest and entry.line == line else None
        except (TwofoldError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def digest(self) -> str:
        """The hash that this content must have."""
        return hashlib.sha256(canonical_json(self._covered).encode()).hexdigest()

    @property
    def _covered(self) -> dict[str, Any]:
        marks = {"clock_back": True} if self.clock_back else {}
        head = {"number": self.number, "at": self.at, "event": self.event.value, "previous": self.previous}
        return {**head, **marks, "fields": dict(self.fields)}

    @property
    def record(self) -> dict[str, Any]:
        """The entry as plain JSON."""
        return self._covered | {"hash": self.hash, "signature": self.signature.hex()}

    @property
    def line(self) -> bytes:
        """The entry as it is in the file."""
        return canonical_json(self.record).encode() + b"\n"

    @property
    def text(self) -> str:
        """One line for people.

        Examples
        --------
        >>> Entry.after(None, Event.PLAN_AGREED, {"plan": "ab" * 32}, at="2027-01-31T12:00:00Z").text
        '2027-01-31 12:00:00  plan agreed     plan abababababab'
        """
        shown = [f"{name} {_brief(self.fields[name])}" for name in FIELDS[self.event] if name != "schema"]
        back = "  (the clock was set back)" if self.clock_back else ""
        return f"{self.at[:10]} {self.at[11:19]}  {self.event.value:<15} {', '.join(shown)}{back}"

    def signed_by(self, keys: Sequence[bytes]) -> bool:
        """Whether one of the keys signed this line, and by the chain everything before it."""
        return any(verify(key, Purpose.LOG, self.hash.encode(), self.signature) for key in keys)


def check_fields(event: Event, fields: Mapping[str, Any]) -> None:
    """Refuse other fields than the event has, or a value that a field cannot hold.

    Examples
    --------
    >>> check_fields(Event.RELEASED, {"plan": "ab" * 32, "user": "17"})
    Traceback (most recent call last):
    twofold.errors.BadMessage: an event of the log has other fields...
    """
    wanted = FIELDS[event]
    if not isinstance(fields, Mapping) or set(fields) != set(wanted):
        raise BadMessage("an event of the log has other fields.", expected=", ".join(wanted), parameter="fields")
    for name, fits in wanted.items():
        if not fits(fields[name]):
            raise BadMessage("{parameter} is not what this event of the log holds.", found=event.value, parameter=name)


def _brief(value: object) -> str:
    if isinstance(value, list):
        return "/".join(map(str, value))
    return str(value)[:12] if is_hash(value) else printable(value)
