"""Changed policies, drafts, approvals and logs; hashes and signatures are made right where an insider could."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from twofold.identity.approval import Approval, Draft
from twofold.identity.log import Event, SecurityLog, read_log, verify_log
from twofold.identity.policy import PlanFacts, Policy
from twofold.storage.container import canonical_json
from twofold.storage.signing import Purpose, SigningKey

Case = tuple[str, bytes, Callable[[bytes], object]]
KEY = SigningKey(b"\5" * 32)
POLICY = Policy(
    approvals=1,
    mechanisms=("gram", "sketch"),
    writers=(("Trial office", SigningKey(b"\1" * 32).public),),
    operators=None,
    approvers=(("officer", KEY.public), ("head", SigningKey(b"\2" * 32).public)),
)
FACTS = PlanFacts(
    plan="ab" * 32,
    name="drugs",
    epsilon=Fraction(1, 3),
    delta=Fraction(1, 10**6),
    n_users=500,
    entities=("st-anna", "st-bern", "st-clara"),
    mechanism="gram",
)
DRAFT = Draft.of(
    FACTS, POLICY, entity="st-anna", version="1", leaves="457 noisy sums.", size=4_000, unit="person", software="x 1"
)
APPROVAL = Approval.sign(DRAFT.hash, approver="officer", signer=KEY, at="2027-01-31T12:00:00Z", remark="seen")

#: Values nobody expects.
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**53, 10**19, -(10**19), 0.5, -0.0, 5e-324, 1e308, "", "\x00", "\x1b[2J"),
    *("\u202e", "any", "1/0", "1e999999999", "9" * 300, "../x", "a\nb", "ab" * 32, "AB" * 32, "ff" * 32, "00" * 64),
    *("2027-01-31T12:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "x" * 3_000, [], {}, [[[[[[[[[]]]]]]]]]),
    *([None], ["epsilon"], {"a": 1}, {"schema": 1}, ["st-anna"] * 50, "sent", "repaired", "log opened"),
)
#: The same, as somebody would type it.
TYPED = (
    *("nan", "inf", "-inf", "0x" + "f" * 900, "9" * 900, "1e400", "0.0000001", "1979-05-27", "07:32:00", "true", "[]"),
    *("{}", "{a = 1}", '"any"', '"1/0"', '"1e999999999"', "[" * 300, "'", '"""', '"\\u0000"', "[1, 'a']", "-1", "1_0"),
)


@lru_cache
def log_bytes() -> bytes:
    """A signed log of a few lines, one of them a repair."""
    with tempfile.TemporaryDirectory() as folder:
        log = SecurityLog(Path(folder, "x.log"), KEY, entity="st-anna")
        log.add(Event.PLAN_AGREED, plan="ab" * 32)
        log.path.write_bytes(log.path.read_bytes() + b'{"at":')
        log.add(
            Event.DRAFT_MADE, plan="ab" * 32, policy="cd" * 32, draft="ef" * 32, version="1", epsilon="1", delta="0"
        )
        log.add(Event.POLICY_REFUSED, plan="ab" * 32, policy="cd" * 32, rules=["max_epsilon"])
        log.add(Event.SENT, plan="ab" * 32, digest="cd" * 32)
        return log.path.read_bytes()


def cases(seed: int, n: int) -> Iterator[Case]:
    """Give `n` inputs with what reads them; the same for the same seed.

    A name says which parser and which change. The last of the three takes the bytes as they would be on a disk.
    """
    chance = random.Random(seed)
    sources = {
        "policy": (POLICY.text.encode(), _in_file(_policy)),
        "draft": (DRAFT.text.encode(), _in_file(Draft.read)),
        "approval": (APPROVAL.text.encode(), _in_file(Approval.read)),
        "log": (log_bytes(), _in_file(_log)),
    }
    inside = {"policy": _typed, "draft": _edited, "approval": _signed, "log": _chained}
    for _ in range(n):
        what = chance.choice(list(sources))
        data, parse = sources[what]
        if chance.random() < 0.5:
            yield f"{what} by an insider", inside[what](data, chance), parse
        else:
            change = chance.choice(BLIND)
            yield f"{what} {change.__name__.strip('_')}", change(data, chance), parse


def _policy(path: Path) -> None:
    Policy.read(path).check(FACTS)


def _log(path: Path) -> None:
    """Everything that is done with a log: read, check, show and continue."""
    try:
        verify_log(path, keys=[KEY.public])
        for entry in read_log(path):
            assert entry.text.isprintable()
    finally:
        SecurityLog(path, KEY, entity="st-anna").add(Event.SENT, plan="ab" * 32, digest="cd" * 32)


def _in_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x")
            path.write_bytes(data)
            return read(path)

    return parse


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return chance.choice((data[:start], data[start:], data[:start] + data[end:]))


def _insert(data: bytes, chance: random.Random) -> bytes:
    place = chance.choice((0, len(data), chance.randrange(len(data))))
    piece = chance.choice(
        (b"\n", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"[" * 2_000, b'{"a":' * 500, b"9" * 5_000, b'"', b"a." * 2_000)
    )
    return data[:place] + piece + data[place:]


def _double(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    return b"".join([*lines[:one], lines[two], *lines[one:]])


def _large(data: bytes, chance: random.Random) -> bytes:
    return data + chance.choice((b" ", b"\n", b"[", b"#", b"a")) * chance.choice((4_096, 100_001, 2_000_000))


def _noise(_: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(3_000))


BLIND = (_flip, _flip, _cut, _insert, _double, _large, _noise)


def _typed(data: bytes, chance: random.Random) -> bytes:
    """A policy with other values, fields and tables, as its owner might mistype it."""
    lines = data.decode().splitlines()
    spots = [number for number, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    for _ in range(chance.choice((1, 1, 2))):
        spot = chance.choice(spots)
        name = lines[spot].split("=")[0].strip()
        key = chance.choice((name, name, name, "more", "a.b.c", '"\\u202e"', "schema", "officer"))
        lines[spot] = f"{key} = {chance.choice(TYPED)}"
    if chance.random() < 0.2:
        lines.append(chance.choice(("[more]", "[[approvers]]", "[approvers.x]", "[writers]", "[a" + ".a" * 300 + "]")))
    return "\n".join(lines).encode()


def _change(record: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    changed = dict(record)
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice([*changed, "more"])
        if chance.random() < 0.1:
            changed.pop(name, None)
        elif isinstance(changed.get(name), dict) and chance.random() < 0.8:
            changed[name] = _change(changed[name], chance)
        else:
            changed[name] = chance.choice(STRANGE)
    return changed


def _edited(data: bytes, chance: random.Random) -> bytes:
    return canonical_json(_change(json.loads(data), chance)).encode()


def _signed(data: bytes, chance: random.Random) -> bytes:
    """An approval with other content, rightly signed by its key."""
    record = _change(json.loads(data), chance)
    if chance.random() < 0.8:
        record.pop("signature", None)
        record["signature"] = KEY.sign(Purpose.APPROVAL, canonical_json(record).encode()).hex()
    return canonical_json(record).encode()


def _chained(data: bytes, chance: random.Random) -> bytes:
    """A log with other content in one line, all hashes and signatures made anew by the entity itself."""
    lines = data.splitlines()
    spot, made, previous = chance.randrange(len(lines)), [], "0" * 64
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
        except ValueError:
            made.append(line)
            continue
        record["previous"] = previous
        if number == spot:
            record = _change(record, chance)
        covered = {name: value for name, value in record.items() if name not in ("hash", "signature")}
        previous = hashlib.sha256(canonical_json(covered).encode()).hexdigest()
        signature = KEY.sign(Purpose.LOG, previous.encode()).hex()
        made.append(canonical_json({**covered, "hash": previous, "signature": signature}).encode())
    return b"\n".join(made) + b"\n"
