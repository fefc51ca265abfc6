"""The site's policy: what may leave this site at all. It belongs to the site, and no plan overrides it.

A policy is a TOML file that must hold every field, so that it never depends on the defaults of a version. It is checked
against public facts of the plan alone. A rule about a count of the data would tell something about the people in it
each time it refused, so `min_users` is compared with the number the plan promises.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from fractions import Fraction
from os import PathLike
from pathlib import Path
from textwrap import fill
from typing import Any, Final, Literal

from twofold.checks import NAME, check_entity_name, exact, is_hash, positive, read_delta
from twofold.errors import BadMessage, BadPolicy, PolicyRefused, Run, TransportError, TwofoldError
from twofold.privacy.budget import LARGEST_EPSILON
from twofold.storage.container import canonical_json, printable
from twofold.storage.files import read_limited
from twofold.storage.signing import check_public_key

__all__ = ["RULES", "Amount", "PlanFacts", "Policy", "Violation", "amount_text", "policy_reference"]

Amount = Fraction | float  # the only float is infinity: a release without a promise
Named = tuple[tuple[str, bytes], ...]

SCHEMA: Final = "twofold.policy/1"
#: Every rule that `Policy.check` can report.
RULES: Final = (
    *("simulation", "max_epsilon", "max_delta", "total_epsilon", "total_delta", "allow_weak", "min_users"),
    *("min_participants", "require_secure_sum", "min_colluders", "mechanisms", "writers", "operators"),
)
_LARGEST: Final = 100_000
#: Bytes of a line; dotted names and numbers of a hundred thousand digits take a parser long.
_LINE: Final = 1_000
_MOST: Final = 10**12
_MOST_NAMES: Final = 1_000
_BITS: Final = 400
_HEX_KEY: Final = re.compile("[0-9a-f]{64}")
_TOP: Final = """\
# Policy of this site: what may leave it at all. No plan overrides it. The person who runs the program chooses the
# keys and their folder: what binds people are the permissions of this file, of that folder and of the keys.
# Every change makes another policy: approvals given under the old one no longer count.
# Only the people who answer for it should be able to write to this file.
"""


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What a policy looks at: public values of the plan and of the ledger, nothing of the data.

    Parameters
    ----------
    plan, name : str
        Hash and name of the plan.
    epsilon, delta : Fraction
        Price of the release; infinity for a mechanism without a promise.
    spent_epsilon, spent_delta : Fraction
        What the ledger has spent so far, without this very release if that was made before.
    ceiling_epsilon, ceiling_delta : Fraction, optional
        The most that the ledger allows in all; None if no ledger was asked, or if it has no ceiling.
    guess : str
        How often an attacker's best guess about one person is right, as "73.1%".
    alone : str
        ε of the message by itself, if all others collude with the server, or both operators work together, rounded
        up; "" without a secure sum.
    honest : int
        Entities, this one included, whose noise must stay secret; 0 without a secure sum, or if operators add it.
    n_users : int
        People that the plan promises for an entity; never a count.
    entities : tuple of str
        Names of the participants.
    mechanism : str
        The one that runs: not "auto".
    secure : str
        "none", "peers" or "operators": which secure sum hides the single messages.
    colluders : int
        Participants who may lie together with the server, or with one of two operators, before the promise ends.
    writer : bytes, optional
        Public signing key of the plan's writer.
    operators : tuple of bytes
        Public signing keys of all who run a server.
    simulation : bool
        Whether the plan says it is one.

    Examples
    --------
    >>> facts = PlanFacts(plan="0" * 64, name="drugs", epsilon=Fraction(30), delta=Fraction(0), n_users=500,
    ...                   entities=("st-anna", "st-bern"), mechanism="gram")
    >>> facts.weak
    ('epsilon',)
    """

    plan: str
    name: str
    epsilon: Amount
    delta: Amount
    spent_epsilon: Amount = Fraction(0)
    spent_delta: Amount = Fraction(0)
    ceiling_epsilon: Amount | None = None
    ceiling_delta: Amount | None = None
    guess: str = ""
    alone: str = ""
    honest: int = 0
    n_users: int
    entities: tuple[str, ...]
    mechanism: str
    secure: Literal["none", "peers", "operators"] = "none"
    colluders: int = 0
    writer: bytes | None = None
    operators: tuple[bytes, ...] = ()
    simulation: bool = False

    def __post_init__(self) -> None:
        if not is_hash(self.plan):
            raise BadMessage("the plan must be given as a SHA-256.", parameter="plan")
        for name in ("epsilon", "delta", "spent_epsilon", "spent_delta"):
            value = getattr(self, name)
            if not (isinstance(value, Fraction | int) or value == math.inf) or value < 0:
                raise BadMessage("{parameter} is not an exact number from 0.", parameter=name)

    @property
    def weak(self) -> tuple[str, ...]:
        """Which parts of the promise are weak: "epsilon" above 20, "delta" above one in the number of users."""
        marks = {"epsilon": self.epsilon > LARGEST_EPSILON, "delta": self.delta * max(self.n_users, 2) > 1}
        return tuple(name for name, weak in marks.items() if weak)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One broken rule, with what was found and what the policy allows."""

    rule: str
    found: str
    expected: str


def _note(meaning: str, expected: str, read: Callable[[str, Any], Any]) -> dict[str, Any]:
    return {"meaning": meaning, "expected": expected, "read": read}


def _bad(name: str, value: object, summary: str = "{parameter} is out of range.") -> BadPolicy:
    return BadPolicy(summary, found=_shown(value), expected=_expected(name), parameter=name)


def _number(read: Callable[..., Fraction], **more: Any) -> Callable[[str, Any], Fraction]:
    def check(name: str, value: Any) -> Fraction:
        try:
            if isinstance(value, str | int | float | Fraction) and len(str(value)) <= _BITS:
                found = read(value, **more)
                if max(found.numerator.bit_length(), found.denominator.bit_length()) <= _BITS:
                    return found
        except (TwofoldError, ValueError):  # an integer too long to be written, too
            pass
        raise _bad(name, value)

    return check


def _whole(most: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise _bad(name, value)
        return value

    return check


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _bad(name, value)
    return value


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 400 or not value.isprintable():
        raise _bad(name, value)
    return value


def _mechanisms(name: str, value: Any) -> tuple[str, ...] | None:
    if value in (None, "any"):
        return None
    if not isinstance(value, list | tuple) or len(value) > _MOST_NAMES:
        raise _bad(name, value)
    if not all(isinstance(one, str) and NAME.fullmatch(one) for one in value):
        raise _bad(name, value)
    return tuple(sorted(set(value)))


def _anyone_or_keys(name: str, value: Any) -> Named | None:
    return None if value is None or (isinstance(value, str) and value == "any") else _keys(name, value)


def _people(name: str, value: Any) -> Named:
    found = _keys(name, value)
    for person, _ in found:
        check_entity_name(person, error=BadPolicy)
    return found


def _keys(name: str, value: Any) -> Named:
    """Names with their public keys; nobody may be there twice, under two spellings or with two names."""
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else None
    if pairs is None or len(pairs) > _MOST_NAMES:
        raise _bad(name, value)
    found: dict[str, bytes] = {}
    for one, key in pairs:
        if not isinstance(one, str) or not one.strip() or len(one) > 100 or not one.isprintable():
            raise _bad(name, one, "{parameter} has a name that is not a short printable text.")
        if isinstance(key, str) and _HEX_KEY.fullmatch(key):
            key = bytes.fromhex(key)
        try:
            found[one] = check_public_key(key)
        except BadMessage:
            shown = f"{printable(one)}: {_shown(key)}"
            raise _bad(name, shown, "{parameter} has an entry that is not a public signing key.") from None
    folded = [" ".join(one.casefold().split()) for one in found]
    for what, distinct in (("a name", len(set(folded))), ("a key", len(set(found.values())))):
        if distinct < len(pairs):
            raise BadPolicy(
                "{parameter} lists somebody twice.",
                found=f"{what} twice",
                expected="each name and each key once",
                parameter=name,
            )
    return tuple(sorted(found.items()))


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a site allows to leave; see docs/reference/policy.md for every field.

    Parameters
    ----------
    **fields
        As in the file. None in `mechanisms`, `writers` and `operators` means any; an empty list means none.

    Privacy
    -------
    `check` sees public values only: whether a plan is refused says nothing about the data.

    Examples
    --------
    >>> policy = Policy(max_epsilon=Fraction(1, 2), writers=None, operators=None)
    >>> Policy.from_text(policy.text) == policy
    True
    >>> facts = PlanFacts(plan="0" * 64, name="drugs", epsilon=Fraction(1), delta=Fraction(0), n_users=500,
    ...                   entities=("st-anna", "st-bern"), mechanism="gram")
    >>> policy.check(facts)
    Traceback (most recent call last):
    twofold.errors.PolicyRefused: the policy of this site does not allow the plan...
    """

    max_epsilon: Fraction = field(
        default=Fraction(1),
        metadata=_note(
            "Largest ε of one release.", 'a number above 0, as 0.5 or "1/3"', _number(positive, name="epsilon")
        ),
    )
    max_delta: Fraction = field(
        default=Fraction(1, 10**6),
        metadata=_note("Largest δ of one release.", "a number from 0 to below 1", _number(read_delta)),
    )
    total_epsilon: Fraction = field(
        default=Fraction(3),
        metadata=_note(
            "Largest ε of all releases together: what the ledger has spent, and the new one.",
            'a number above 0, as 0.5 or "1/3"',
            _number(positive, name="epsilon"),
        ),
    )
    total_delta: Fraction = field(
        default=Fraction(1, 10**5),
        metadata=_note("Largest δ of all releases together.", "a number from 0 to below 1", _number(read_delta)),
    )
    allow_weak: bool = field(
        default=False,
        metadata=_note(
            "Whether a weak promise may be released: ε above 20, or δ above one in n_users.", "true or false", _flag
        ),
    )
    min_users: int = field(
        default=100,
        metadata=_note(
            "Fewest people an entity promises: the plan's n_users. Nobody counts the data for this: a refusal by a "
            "count would tell something about the people.",
            "a whole number from 0",
            _whole(_MOST),
        ),
    )
    min_participants: int = field(
        default=3, metadata=_note("Fewest entities that the plan names.", "a whole number from 0", _whole(_MOST))
    )
    require_secure_sum: bool = field(
        default=False,
        metadata=_note(
            "Whether the server may see sums only, never the message of this site alone.", "true or false", _flag
        ),
    )
    min_colluders: int = field(
        default=1,
        metadata=_note(
            "Fewest participants that a secure sum withstands if they lie together with the server, or with one of two "
            "operators. Where operators add the noise it withstands all.",
            "a whole number from 0",
            _whole(_MOST),
        ),
    )
    mechanisms: tuple[str, ...] | None = field(
        default=None, metadata=_note("Mechanisms that may run.", '"any", or a list as ["gram", "sketch"]', _mechanisms)
    )
    approvals: int = field(
        default=0,
        metadata=_note(
            "How many of the approvers must approve each release, by their own keys.", "0, 1 or 2", _whole(2)
        ),
    )
    log: str = field(
        default="{entity}.log",
        metadata=_note(
            "The security log, seen from the folder of this file. {entity} stands for the entity's name, so that "
            "several may share a policy.",
            "the path of a file",
            _path,
        ),
    )
    writers: Named | None = field(
        default=(),
        metadata=_note(
            "Who may write a plan: a name you choose, and the public signing key. Only the key counts.",
            '"any", or a table of lines as "Trial office" = "64 hexadecimal digits"',
            _anyone_or_keys,
        ),
    )
    operators: Named | None = field(
        default=(),
        metadata=_note(
            "Who may run a server of the federation: a name you choose, and the public signing key. Two operators who "
            'together could open a message must both be listed: "any" does not allow them.',
            '"any", or a table of lines as "Data centre" = "64 hexadecimal digits"',
            _anyone_or_keys,
        ),
    )
    approvers: Named = field(
        default=(),
        metadata=_note(
            "Who may approve: the name in their keys, and the public signing key.",
            'a table of lines as officer = "64 hexadecimal digits"',
            _people,
        ),
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, one.metadata["read"](one.name, getattr(self, one.name)))
        if self.approvals > len(self.approvers):
            raise BadPolicy(
                "the policy asks for more approvals than it has approvers.",
                found=f"{self.approvals} approvals, {len(self.approvers)} approvers",
                expected="at least as many approvers",
                parameter="approvals",
            )

    def check(self, facts: PlanFacts) -> None:
        """Refuse a plan that breaks a rule; the error lists all of them."""
        broken = self.violations(facts)
        if broken:
            raise PolicyRefused(
                "the policy of this site does not allow the plan; nothing was drawn.",
                found="\n    ".join(f"{one.rule}: {one.found}" for one in broken),
                expected="\n    ".join(f"{one.rule}: {one.expected}" for one in broken),
                fix="agree on another plan, or ask the owner of the policy",
                parameter=broken[0].rule,
            )

    def violations(self, facts: PlanFacts) -> tuple[Violation, ...]:
        """List every rule that a plan breaks, in the order of `RULES`."""
        found = {one.rule: one for one in (*self._price(facts), *self._company(facts))}
        return tuple(found[rule] for rule in RULES if rule in found)

    def _price(self, facts: PlanFacts) -> Iterator[Violation]:
        if facts.simulation:
            yield Violation(rule="simulation", found="a simulation", expected="a plan with simulation = false")
        for name, most, price, spent in (
            ("epsilon", self.max_epsilon, facts.epsilon, None),
            ("delta", self.max_delta, facts.delta, None),
            ("epsilon", self.total_epsilon, facts.epsilon, facts.spent_epsilon),
            ("delta", self.total_delta, facts.delta, facts.spent_delta),
        ):
            if price + (spent or 0) > most:
                before = "" if spent is None else f" after {amount_text(spent)}"
                yield Violation(
                    rule=f"{'max' if spent is None else 'total'}_{name}",
                    found=f"{name} {amount_text(price)}{before}",
                    expected=f"at most {amount_text(most)}",
                )
        if facts.weak and not self.allow_weak:
            shown = {
                "epsilon": f"epsilon {amount_text(facts.epsilon)}",
                "delta": f"delta {amount_text(facts.delta)} for {facts.n_users:,} people",
            }
            yield Violation(
                rule="allow_weak",
                found=", ".join(shown[one] for one in facts.weak),
                expected=f"epsilon at most {LARGEST_EPSILON}, delta at most 1/n_users",
            )

    def _company(self, facts: PlanFacts) -> Iterator[Violation]:
        for rule, least, has in (
            ("min_users", self.min_users, facts.n_users),
            ("min_participants", self.min_participants, len(set(facts.entities))),
            ("min_colluders", self.min_colluders if facts.secure != "none" else 0, facts.colluders),
        ):
            if has < least:
                yield Violation(rule=rule, found=f"{has:,} in the plan", expected=f"at least {least:,}")
        if self.require_secure_sum and facts.secure == "none":
            yield Violation(rule="require_secure_sum", found="no secure sum", expected="a secure sum")
        if self.mechanisms is not None and facts.mechanism not in self.mechanisms:
            listed = ", ".join(self.mechanisms[:12]) or "none"
            yield Violation(rule="mechanisms", found=printable(facts.mechanism), expected=f"one of: {listed}")
        for rule, allowed, keys in (
            ("writers", self.writers, () if facts.writer is None else (facts.writer,)),
            ("operators", self.operators, facts.operators),
        ):
            if allowed is None:
                if rule == "operators" and facts.secure == "operators":
                    yield Violation(rule=rule, found="any", expected="both operators by their keys")
                continue
            strange = [key for key in keys if key not in dict(allowed).values()]
            if strange or not keys:  # a plan that names nobody cannot be checked
                shown = ", ".join(f"key {key.hex()[:16]}" for key in strange[:5]) or "none named"
                names = ", ".join(name for name, _ in allowed[:12]) or "nobody"
                yield Violation(rule=rule, found=shown, expected=f"a key of: {names}")
            elif rule == "operators" and facts.secure == "operators" and len(set(keys)) < 2:
                yield Violation(rule=rule, found="one operator", expected="two operators with two keys")

    def log_path(self, policy_file: str | PathLike[str], entity: str) -> Path:
        """Give the path of an entity's security log, which the file names as seen from its own folder.

        Examples
        --------
        >>> Policy(log="logs/{entity}.log").log_path("site/policy.toml", "st-anna").as_posix()
        'site/logs/st-anna.log'
        """
        check_entity_name(entity, error=BadPolicy)  # it becomes part of a path
        return Path(policy_file).parent / self.log.replace("{entity}", entity)

    @property
    def record(self) -> dict[str, Any]:
        """The policy as plain JSON."""
        return {"schema": SCHEMA} | {one.name: _plain(one.name, getattr(self, one.name)) for one in fields(self)}

    @property
    def hash(self) -> str:
        """SHA-256 of the content; spaces, order and comments of the file do not change it."""
        return hashlib.sha256(canonical_json(self.record).encode()).hexdigest()

    @property
    def text(self) -> str:
        """TOML with a comment at every field."""
        plain, tables = [_TOP, f"# Format of this file.\nschema = {json.dumps(SCHEMA)}\n"], []
        for one in fields(self):
            value = _plain(one.name, getattr(self, one.name))
            note = f"{_comment(one.metadata['meaning'])}{_comment(one.metadata['expected'])}"
            if isinstance(value, dict):
                lines = [f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(key)}\n" for name, key in value.items()]
                tables.append(f"{note}[{one.name}]\n{''.join(lines)}")
            else:
                plain.append(f"{note}{one.name} = {json.dumps(value, ensure_ascii=False)}\n")
        return "\n".join([*plain, *tables])

    @classmethod
    def from_text(cls, text: str) -> Policy:
        """Read the text of a policy file; an unknown or missing field is refused by name."""
        if any(len(line) > _LINE for line in text.splitlines()):
            raise BadPolicy("the policy is not valid.", found="a very long line", expected="short lines")
        try:
            record = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # a number of many digits is a plain ValueError
            reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number too long, or deep nesting"
            raise BadPolicy(
                "the policy is not TOML.",
                found=printable(reason, 120),
                expected="lines such as max_epsilon = 1",
                parameter="policy",
            ) from None
        _check_fields(record)
        return cls(**{name: value for name, value in record.items() if name != "schema"})

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Policy:
        """Read a policy file: a regular file of at most 100 kB."""
        try:
            return cls.from_text(read_limited(path, _LARGEST, links=False).decode("utf-8-sig"))
        except (BadMessage, TransportError, UnicodeDecodeError) as error:
            found = error.found if isinstance(error, TwofoldError) else f"{Path(path).name}: not UTF-8"
            raise BadPolicy(
                "the policy could not be read; nothing was drawn.",
                found=found,
                expected=f"a regular file of at most {_LARGEST:,} bytes",
                fix=Run("policy new -o policy.toml"),
                parameter="policy",
            ) from None


def policy_reference() -> str:
    """Write the table of fields as Markdown, for the reference page.

    Examples
    --------
    >>> print(policy_reference().splitlines()[2])
    | `max_epsilon` | Largest ε of one release. | a number above 0, as 0.5 or "1/3" | 1 |
    """
    lines = ["| field | meaning | value | in a new file |", "|---|---|---|---|"]
    for one in fields(Policy):
        value = _plain(one.name, one.default)
        shown = "empty: nobody" if value == {} else value if isinstance(value, str) else json.dumps(value)
        lines.append(f"| `{one.name}` | {one.metadata['meaning']} | {one.metadata['expected']} | {shown} |")
    return "\n".join(lines) + "\n"


def amount_text(value: Amount) -> str:
    """Write a number briefly if that is exact, otherwise with all its digits.

    Examples
    --------
    >>> amount_text(Fraction(1, 2)), amount_text(Fraction(1, 3)), amount_text(math.inf)
    ('0.5', '0.3333333333333333', 'infinite')
    """
    if value == math.inf:
        return "infinite"
    short = f"{float(value):g}"
    return short if exact(short) == value else repr(float(value))


def _plain(name: str, value: Any) -> Any:
    """Give a value as the file and the hash hold it."""
    if value is None:
        return "any"
    if isinstance(value, Fraction):
        short = float(value)
        return value.numerator if value.denominator == 1 else short if exact(repr(short)) == value else str(value)
    if name == "mechanisms":
        return list(value)
    return {one: key.hex() for one, key in value} if isinstance(value, tuple) else value


def _comment(text: str) -> str:
    return fill(text, 100, initial_indent="# ", subsequent_indent="# ") + "\n"


def _check_fields(record: Mapping[str, Any]) -> None:
    known = ["schema", *(one.name for one in fields(Policy))]
    for name in record:
        if name not in known:
            near = get_close_matches(name[:40], known, n=1)
            raise BadPolicy(
                "the policy has an unknown field.",
                found=printable(name, 40),
                expected=f"perhaps {near[0]}" if near else f"one of {', '.join(known)}",
                parameter=printable(name, 40),
            )
    if missing := [name for name in known if name not in record]:
        raise BadPolicy(
            "the policy is incomplete.",
            found=f"missing {', '.join(missing)}",
            fix=Run("policy new -o policy.toml"),
            parameter=missing[0],
        )
    if record["schema"] != SCHEMA:
        raise BadPolicy(
            "the policy has another format.", found=_shown(record["schema"]), expected=SCHEMA, parameter="schema"
        )


def _expected(name: str) -> str:
    return next(str(one.metadata["expected"]) for one in fields(Policy) if one.name == name)


def _shown(value: object) -> str:
    """Show a plain value; only the type of anything else, which may be nested deeply."""
    if isinstance(value, int) and abs(value) > _MOST:
        return "a number of many digits"
    return printable(value, 40) if isinstance(value, bool | int | float | str | Fraction) else type(value).__name__
