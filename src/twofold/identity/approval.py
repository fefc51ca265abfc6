"""Approval of a release by named people, before anything is drawn.

A *draft* is a public document of what would leave. It is made from the plan, the policy, the ledger's account of other
releases and public names alone, so trying the same release again gives the same draft. A person approves it by signing
its hash. A changed policy, plan, data version, software or account makes another draft that nobody has approved yet.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Final

from twofold.checks import NAME, check_entity_name, is_hash
from twofold.errors import BadMessage, NotApproved, Run, TwofoldError
from twofold.identity.policy import Amount, PlanFacts, Policy, amount_text
from twofold.storage.container import canonical_json, parse_json
from twofold.storage.files import read_limited, write_whole
from twofold.storage.signing import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    Purpose,
    SigningKey,
    check_public_key,
    fingerprint,
    verify,
)

__all__ = ["Approval", "Draft", "approval_path", "check_approvals", "find_approvals"]

_DRAFT: Final = "twofold.draft/1"
_APPROVAL: Final = "twofold.approval/1"
#: Bytes; a draft names up to some thousand participants.
LARGEST_DRAFT: Final = 1024 * 1024
LARGEST_APPROVAL: Final = 4 * 1024
#: Fields with exact numbers.
_AMOUNTS: Final = ("epsilon", "delta", "spent_epsilon", "spent_delta", "ceiling_epsilon", "ceiling_delta")
_PERCENT: Final = re.compile("[0-9]{2,3}([.][0-9]{1,2})?%", re.ASCII)
_DECIMAL: Final = re.compile("[0-9]{1,20}([.][0-9]{1,20})?(e[+-]?[0-9]{1,3})?", re.ASCII)
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
#: Clocks of two machines may differ by this much.
TOLERANCE: Final = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What would leave, in public words and numbers; made before anything is drawn.

    Parameters
    ----------
    plan, name : str
        Hash and name of the plan.
    entity, version : str
        Whose release, and the public name of the state of its data.
    leaves : str
        What leaves, in a sentence.
    bytes : int
        The most that it can have; the plan fixes it.
    epsilon, delta : Fraction
        Its price.
    guess : str
        How often an attacker's best guess about one person is right, as "73.1%"; "" if not known.
    alone : str
        ε of the message by itself, if all others collude with the server, or both operators work together, rounded
        up; "" without a secure sum.
    honest : int
        Entities, this one included, whose noise must stay secret; 0 without a secure sum, or if operators add it.
    spent_epsilon, spent_delta : Fraction
        What the ledger had spent before.
    ceiling_epsilon, ceiling_delta : Fraction, optional
        The most that it allows; None, in the file "", if it has no ceiling.
    unit : str
        Whose presence is hidden.
    mechanism, secure, colluders : str, str, int
        What runs, which secure sum hides the single message, and how many liars that withstands.
    n_users : int
        People that the plan promises for an entity.
    participants : tuple of str
        All entities that the plan names.
    writer, operators : str, tuple of str
        Public signing keys in hexadecimal of the plan's writer ("" if none) and of those who run a server.
    weak : tuple of str
        Which parts of the promise are weak: "epsilon", "delta".
    policy : str
        Hash of the site's policy.
    software : str
        Name and version of the program.

    Examples
    --------
    >>> facts = PlanFacts(plan="0" * 64, name="drugs", epsilon=Fraction(1, 2), delta=Fraction(0), n_users=500,
    ...                   entities=("st-anna", "st-bern"), mechanism="gram")
    >>> draft = Draft.of(facts, Policy(), entity="st-anna", version="2020", leaves="457 noisy sums.", size=4_000,
    ...                  unit="person", software="twofold 1")
    >>> Draft.from_text(draft.text) == draft
    True
    """

    plan: str
    name: str
    entity: str
    version: str
    leaves: str
    bytes: int
    epsilon: Fraction
    delta: Fraction
    guess: str
    alone: str
    honest: int
    spent_epsilon: Fraction
    spent_delta: Fraction
    ceiling_epsilon: Fraction | None
    ceiling_delta: Fraction | None
    unit: str
    mechanism: str
    secure: str
    colluders: int
    n_users: int
    participants: tuple[str, ...]
    writer: str
    operators: tuple[str, ...]
    weak: tuple[str, ...]
    policy: str
    software: str

    def __post_init__(self) -> None:
        for name in _AMOUNTS:
            value = getattr(self, name)
            none = name.startswith("ceiling") and (value is None or value == "")
            object.__setattr__(self, name, None if none else _amount(name, value))
        for name in ("participants", "operators", "weak"):
            value = getattr(self, name)
            if not isinstance(value, list | tuple) or len(value) > 10_000:
                raise _bad(name)
            object.__setattr__(self, name, tuple(value))
        check_entity_name(self.entity, error=BadMessage)
        for name, fits in _FITS.items():
            value = getattr(self, name)
            if not (all(map(fits, value)) if isinstance(value, tuple) else fits(value)):
                raise _bad(name)

    @classmethod
    def of(
        cls,
        facts: PlanFacts,
        policy: Policy,
        *,
        entity: str,
        version: str,
        leaves: str,
        size: int,
        unit: str,
        software: str,
    ) -> Draft:
        """Make the draft of a release from public values."""
        price, spent = (facts.epsilon, facts.delta), (facts.spent_epsilon, facts.spent_delta)
        if any(isinstance(one, float) for one in (*price, *spent)):
            raise NotApproved("a release without a privacy promise has no draft.", parameter="epsilon")
        epsilon, delta, before, before_delta = (Fraction(one) for one in (*price, *spent))
        return cls(
            plan=facts.plan,
            name=facts.name,
            entity=entity,
            version=version,
            leaves=leaves,
            bytes=size,
            epsilon=epsilon,
            delta=delta,
            guess=facts.guess,
            alone=facts.alone,
            honest=facts.honest,
            spent_epsilon=before,
            spent_delta=before_delta,
            ceiling_epsilon=_finite(facts.ceiling_epsilon),
            ceiling_delta=_finite(facts.ceiling_delta),
            unit=unit,
            mechanism=facts.mechanism,
            secure=facts.secure,
            colluders=facts.colluders,
            n_users=facts.n_users,
            participants=tuple(sorted(facts.entities)),
            writer="" if facts.writer is None else facts.writer.hex(),
            operators=tuple(sorted(key.hex() for key in facts.operators)),
            weak=facts.weak,
            policy=policy.hash,
            software=software,
        )

    @property
    def total_epsilon(self) -> Fraction:
        """What the ledger will have spent after this release."""
        return self.spent_epsilon + self.epsilon

    @property
    def total_delta(self) -> Fraction:
        """What the ledger will have spent after this release."""
        return self.spent_delta + self.delta

    @property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        record: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        exact = {name: "" if record[name] is None else str(record[name]) for name in _AMOUNTS}
        return canonical_json({"schema": _DRAFT, **record, **exact})

    @property
    def hash(self) -> str:
        """SHA-256 of the text: what people sign."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @classmethod
    def from_text(cls, text: str) -> Draft:
        """Read a draft; any text but the canonical one is refused."""
        record = _record(text, _DRAFT, [one.name for one in fields(cls)])
        made = cls(**record)
        if made.text != text:
            raise _bad("schema")
        return made

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Draft:
        """Read the file of a draft."""
        return cls.from_text(_text(path, LARGEST_DRAFT))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the file of a draft, completely or not at all."""
        write_whole(path, self.text.encode(), mode=0o644)

    def lines(self, policy: Policy | None = None) -> list[str]:
        """Say in plain words what would leave, for the person who approves it.

        Parameters
        ----------
        policy : Policy, optional
            Gives names to the keys of the plan's writer and of the operators.
        """
        names = (
            {}
            if policy is None
            else {key.hex(): one for one, key in (*(policy.writers or ()), *(policy.operators or ()))}
        )
        weak = {
            "epsilon": "WEAK: ε is above 20. This promises a person almost nothing.",
            "delta": f"WEAK: δ is above one in {self.n_users:,}. The promise may fail for somebody.",
        }
        hidden = {
            "none": "The server sees this message by itself.",
            "peers": f"The server sees only the sum over all participants, unless more than {self.colluders} of them "
            "lie together with it.",
            "operators": "Two operators see only a sum over participants, as long as one of them is honest.",
        }
        shown = self.participants[:12]
        more = len(self.participants) - len(shown)
        return [
            f"{self.entity} would send, once, under the plan {self.name}:",
            f"  {self.leaves}",
            f"  at most {self.bytes:,} bytes, made by {self.mechanism} from version {self.version} of the data",
            f"Promise, for each {self.unit}: ε = {amount_text(self.epsilon)}, δ = {amount_text(self.delta)}",
            *self._guess_lines(),
            *(f"  {weak[one]}" for one in self.weak),
            hidden[self.secure],
            *self._alone_lines(),
            self._total_line(),
            f"{len(self.participants):,} participants: {', '.join(shown)}" + (f" and {more:,} more" if more else ""),
            f"Plan written by: {_known(self.writer, names) if self.writer else 'nobody named'}",
            f"Servers run by: {', '.join(_known(one, names) for one in self.operators) or 'nobody named'}",
            f"Plan {self.plan[:16]}, policy {self.policy[:16]}, {self.software}",
            f"Draft in words: {fingerprint(self.hash.encode())}",
        ]

    def _guess_lines(self) -> list[str]:
        said = f"Someone who guesses whether one {self.unit} was in the data is right at most {self.guess} of the time"
        return [f"  {said}; a coin, 50%."] if self.guess else []

    def _alone_lines(self) -> list[str]:
        if not self.alone:
            return []
        if self.secure == "operators":
            return self._operator_lines()
        return [
            f"  The noise is enough if at least {self.honest:,} entities, this one included, draw their share and keep "
            "it secret.",
            f"  If all others collude: ε = {self.alone}.",
        ]

    def _operator_lines(self) -> list[str]:
        first = "  The two operators add the noise. One of them must add it and keep it secret."
        if self.honest:
            first = f"  At least {self.honest:,} entities, this one included, must draw their noise and keep it secret."
        lost = "this entity's exact sums are open to them" if self.alone == "infinite" else f"ε = {self.alone}"
        lines = [first, f"  If both operators work together, or one administrator reaches both: {lost}."]
        warned = "  WARNING: the plan's writer is one of the operators. If it runs both, it reads everything."
        return [*lines, warned] if self.writer in self.operators else lines

    def _total_line(self) -> str:
        parts = [("ε", self.total_epsilon, self.ceiling_epsilon)]
        if self.total_delta:
            parts.append(("δ", self.total_delta, self.ceiling_delta))
        shown = (
            f"{sign} = {amount_text(total)}" + ("" if most is None else f" of {amount_text(most)}")
            for sign, total, most in parts
        )
        return f"After this release in all: {', '.join(shown)}."


@dataclass(frozen=True, kw_only=True)
class Approval:
    """One person's signature under one draft.

    Parameters
    ----------
    draft : str
        Hash of the draft.
    approver : str
        Name of the person, as in the policy.
    key : bytes
        Public signing key of the person.
    at : str
        When, in UTC, by the person's clock.
    remark : str
        What the person wants to add; may be empty.
    signature : bytes
        By the key, over everything else.

    Examples
    --------
    >>> key = SigningKey.new()
    >>> made = Approval.sign("0" * 64, approver="officer", signer=key, at="2027-01-31T12:00:00Z")
    >>> Approval.from_text(made.text) == made
    True
    """

    draft: str
    approver: str
    key: bytes
    at: str
    remark: str = ""
    signature: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        check_entity_name(self.approver, error=BadMessage)
        check_public_key(self.key)
        if not is_hash(self.draft):
            raise _bad("draft")
        if not isinstance(self.remark, str) or len(self.remark) > 200 or not self.remark.isprintable():
            raise _bad("remark")
        if _time(self.at) is None:
            raise _bad("at")
        if not verify(self.key, Purpose.APPROVAL, self._covered, self.signature):
            raise BadMessage("the approval is not signed by its key.", parameter="signature")

    @classmethod
    def sign(
        cls, draft: str, *, approver: str, signer: SigningKey, at: str | None = None, remark: str = ""
    ) -> Approval:
        """Approve the draft with this hash."""
        given = {"draft": draft, "approver": approver, "key": signer.public.hex(), "remark": remark}
        given["at"] = datetime.now(UTC).strftime(_TIME) if at is None else at
        signature = signer.sign(Purpose.APPROVAL, canonical_json({"schema": _APPROVAL, **given}).encode())
        return cls(**{**given, "key": signer.public, "signature": signature})  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        return canonical_json(self._record | {"signature": self.signature.hex()})

    @property
    def _record(self) -> dict[str, str]:
        given = {"draft": self.draft, "approver": self.approver, "at": self.at, "remark": self.remark}
        return {"schema": _APPROVAL, "key": self.key.hex(), **given}

    @property
    def _covered(self) -> bytes:
        return canonical_json(self._record).encode()

    @classmethod
    def from_text(cls, text: str) -> Approval:
        """Read an approval; any text but the canonical one, or one not signed by its key, is refused."""
        record = _record(text, _APPROVAL, [one.name for one in fields(cls)])
        made = cls(
            **{
                **record,
                "key": _hex("key", record["key"], KEY_BYTES),
                "signature": _hex("signature", record["signature"], SIGNATURE_BYTES),
            }
        )
        if made.text != text:
            raise _bad("schema")
        return made

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Approval:
        """Read the file of an approval."""
        return cls.from_text(_text(path, LARGEST_APPROVAL))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the file of an approval, completely or not at all."""
        write_whole(path, self.text.encode(), mode=0o644)


def check_approvals(
    draft: Draft,
    policy: Policy,
    approvals: Iterable[Approval | TwofoldError],
    *,
    draft_file: str | PathLike[str] | None = None,
    policy_file: str | PathLike[str] | None = None,
    now: datetime | None = None,
) -> tuple[Approval, ...]:
    """Give the approvals that count, one for each person, or refuse if they are too few.

    Parameters
    ----------
    draft : Draft
        The very release that is about to be made.
    policy : Policy
        The site's policy as it is now.
    approvals : iterable of Approval or TwofoldError
        What was found; errors stand for files that could not be read. What does not count is passed over, because
        others may be able to put files there, and is named if too few are left.
    draft_file, policy_file : path, optional
        Where they are, for the command that the error gives.
    now : datetime, optional
        The time, with its zone.

    Raises
    ------
    NotApproved
        With the reason for everything that did not count.

    Notes
    -----
    An approval dated more than ten minutes ahead of this machine's clock does not count: one of the two clocks is
    wrong, and the log would say that a release came before its approval. It counts as soon as the clock is right. An
    approval does not grow old, because its draft stands for one release only. To withdraw one, take the person out of
    the policy: that makes another draft.
    """
    clock = datetime.now(UTC) if now is None else now
    people, reasons = dict(policy.approvers), list[str]()
    counted: dict[str, Approval] = {}
    same = draft.policy == policy.hash
    if not same:
        reasons.append("the draft was made under another policy")
    for one in approvals if same else ():
        reason = _reason(one, draft, people, clock)
        if isinstance(one, Approval) and reason is None:
            counted.setdefault(one.approver, one)
        elif reason is not None:
            reasons.append(reason)
    if not same or len(counted) < policy.approvals:
        waiting = [name for name in people if name not in counted][:12]
        where = shlex.quote(os.fspath(draft_file or f"{draft.entity}.draft"))
        under = "" if policy_file is None else f" --policy {shlex.quote(os.fspath(policy_file))}"
        raise NotApproved(
            "this release is not approved; nothing was drawn.",
            found=f"{len(counted)} of {policy.approvals} approvals" + "".join(f"; {one}" for one in reasons[:10]),
            expected=f"an approval by {', '.join(waiting)}" if same else "a draft made under the policy as it is now",
            fix=Run(f"approve {where} --keys {next(iter(waiting), 'officer')}.keys{under}"),
            parameter="approvals",
        )
    return tuple(counted[name] for name in sorted(counted))


def approval_path(draft: str | PathLike[str], approver: str) -> Path:
    """Name the file of a person's approval: beside the draft.

    Examples
    --------
    >>> approval_path("st-anna.draft", "officer").name
    'st-anna.draft.officer.approval'
    """
    file = Path(draft)
    return file.with_name(f"{file.name}.{approver}.approval")


def find_approvals(draft: str | PathLike[str], policy: Policy) -> list[Approval | TwofoldError]:
    """Read the approvals beside a draft, of the policy's approvers only; a file that is none is given as its error."""
    found = list[Approval | TwofoldError]()
    for name, _ in policy.approvers:  # other files may be there in any number
        file = approval_path(draft, name)
        if os.path.lexists(file):
            try:
                found.append(Approval.read(file))
            except TwofoldError as error:
                found.append(error)
    return found


def _reason(one: Approval | TwofoldError, draft: Draft, people: Mapping[str, bytes], now: datetime) -> str | None:
    """Why an approval does not count; None if it does."""
    if not isinstance(one, Approval):
        return f"a file that is not an approval: {one.summary}"
    if one.draft != draft.hash:
        return f"{one.approver}: approved another draft"
    if one.approver not in people:
        return f"{one.approver}: not an approver in the policy"
    if people[one.approver] != one.key:
        return f"{one.approver}: the policy has another key for this name"
    when = _time(one.at)
    if when is None or when > now + TOLERANCE:
        return f"{one.approver}: dated {one.at}, ahead of this machine's clock"
    return None


def _is_line(value: object, most: int = 64) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= len(value) <= most and value.isprintable()


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**15


#: What the fields of a draft may hold; of a list, each of its parts.
_FITS: Final[Mapping[str, Callable[[object], bool]]] = {
    "plan": is_hash,
    "policy": is_hash,
    "name": lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
    "participants": lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
    "version": _is_line,
    "leaves": lambda value: _is_line(value, 2_000),
    "unit": _is_line,
    "mechanism": _is_line,
    "software": _is_line,
    "guess": lambda value: value == "" or (isinstance(value, str) and _PERCENT.fullmatch(value) is not None),
    "alone": lambda value: (
        value in ("", "infinite") or (isinstance(value, str) and _DECIMAL.fullmatch(value) is not None)
    ),
    "honest": _is_whole,
    "bytes": _is_whole,
    "colluders": _is_whole,
    "n_users": _is_whole,
    "secure": lambda value: value in ("none", "peers", "operators"),
    "writer": lambda value: value == "" or is_hash(value),
    "operators": is_hash,
    "weak": lambda value: value in ("epsilon", "delta"),
}


def _record(text: str, schema: str, names: list[str]) -> dict[str, Any]:
    record = parse_json(text)
    if record.get("schema") != schema or set(record) != {"schema", *names}:
        raise BadMessage("this file has another format.", expected=schema, parameter="schema")
    return {name: record[name] for name in names}


def _amount(name: str, value: object) -> Fraction:
    if isinstance(value, Fraction) and value >= 0:
        return value
    top, _, bottom = value.partition("/") if isinstance(value, str) else ("", "", "")
    digits = (top, bottom or "1")
    if all(part.isascii() and part.isdigit() and len(part) <= 130 for part in digits) and int(digits[1]):
        return Fraction(int(top), int(digits[1]))
    raise _bad(name)


def _finite(value: Amount | None) -> Fraction | None:
    return None if value is None or isinstance(value, float) else Fraction(value)


def _hex(name: str, value: object, length: int) -> bytes:
    if isinstance(value, str) and len(value) == 2 * length and set(value) <= set("0123456789abcdef"):
        return bytes.fromhex(value)
    raise _bad(name)


def _time(text: object) -> datetime | None:
    try:
        when = datetime.strptime(str(text), _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return when if when.strftime(_TIME) == text else None


def _known(key: str, names: Mapping[str, str]) -> str:
    return f"{names[key]} (key {key[:16]})" if key in names else f"key {key[:16]}"


def _text(path: str | PathLike[str], limit: int) -> str:
    try:
        return read_limited(path, limit, links=False).decode("ascii")
    except UnicodeDecodeError:
        raise BadMessage("this file has another format.", found="no text", parameter="schema") from None


def _bad(name: str) -> BadMessage:
    return BadMessage("{parameter} is not what a draft or an approval holds.", parameter=name)
