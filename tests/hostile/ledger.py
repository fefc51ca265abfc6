"""Hostile ledgers: damage by a disk, and edits by somebody who can hash and sign.

`cases(seed, n)` gives `n` pairs of a name and a function that changes a ledger in its folder. A name says the kind of
damage, so that a harness can count kinds. The functions change the files of the ledger at the given path, which must
be a fresh copy of one that `template` made. `explore(path)` does with it what anyone could: it opens, shows, verifies,
exports and prints cards, and tries to release. Only `TwofoldError` may come out of it, quickly and in little memory.

>>> import random
>>> [name for name, _ in cases(seed=1, n=3)] == [name for name, _ in cases(seed=1, n=3)]
True
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from twofold.errors import TwofoldError
from twofold.privacy.budget import ApproxDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, ParallelEvent, ThresholdEvent
from twofold.privacy.ledger import Ledger, Statement, digest
from twofold.privacy.ledger.head import Head, signed
from twofold.privacy.ledger.record import START
from twofold.privacy.unit import Unit
from twofold.report.card import to_html, to_markdown
from twofold.storage.signing import SigningKey

__all__ = ["SIGNER", "cases", "explore", "template"]

#: The entity's key; an insider may sign whatever was made of its ledger.
SIGNER = SigningKey(bytes(range(32)))
NAME = "x.ledger"
UNIT = Unit.person()
LAPLACE = DiscreteLaplaceEvent(unit=UNIT, sensitivity=Fraction(60), scale=Fraction(120), coordinates=457)
GAUSS = DiscreteGaussianEvent(unit=UNIT, sensitivity_squared=Fraction(1), variance=Fraction(50), coordinates=9)
CELLS = ThresholdEvent(unit=UNIT, scale=Fraction(10), threshold=5)
Change = Callable[[Path], None]

#: Values that a field may be given: of the wrong type, out of range, or made to be costly.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, 10**400, 1e308, -0.0, 0.5, "", "x", "-5", "-1/2", "0", "1/0", "inf", "-inf"),
    *("nan", "1e999999999", "1e-999999999", "0.1", "9" * 299, "9" * 301, "9" * 4_400, "1/" + "9" * 4_000, "１", " 1"),
    *("\u0000", "\ud800", "\x1b[2J", "../../etc/passwd", "a" * 70_000, [], [[]], {}, {"kind": "open"}, [None], ["1"]),
    *({"a": {"b": {"c": []}}}, "0" * 64, "f" * 64, "2020-01-01T00:00:00Z", 10**18, -(10**18), [1] * 3_000),
)


def template(path: Path, *, signer: SigningKey | None = SIGNER) -> Ledger:
    """Make a ledger with releases of three kinds, one of them lost, and a raise."""
    ceiling = ApproxDP(epsilon=4, delta="1/1000")
    ledger = Ledger.create(path, dataset="visits", ceiling=ceiling, unit=UNIT, signer=signer, wait=0.0)
    numbers = {"n_items": 9, "n_users": 90, "bound": 5.0, "max_items": 3, "n_prototypes": 1, "n_entities": 2}
    about = {"what": "sums", "public_numbers": numbers, "not_promised": ["more"]}
    draw = lambda source: source.words(5).tobytes()  # noqa: E731
    whole: dict[str, Any] = {"unit": UNIT, "data": digest(b"d"), "about": about, "draw": draw}
    ledger.release(plan=digest(b"a"), events=[LAPLACE], **whole)
    delta = ApproxDP(epsilon=1, delta="1/100000")
    ledger.release(plan=digest(b"b"), events=[GAUSS], cost=delta, **whole)
    with suppress(ZeroDivisionError):
        ledger.release(plan=digest(b"c"), events=[CELLS], **whole | {"draw": lambda: 1 // 0})
    ledger.raise_ceiling(ApproxDP(epsilon=5, delta="1/1000"), reason="agreed")
    ledger.release(plan=digest(b"c"), events=[ParallelEvent.of(CELLS, CELLS)], **whole)
    return ledger


def cases(seed: int, n: int) -> Iterator[tuple[str, Change]]:
    """Give `n` changes of a ledger at a path, the same for the same seed.

    Parameters
    ----------
    seed : int
        Of the choice of changes.
    n : int
        How many.

    Returns
    -------
    iterator of (str, callable)
        Kind of the change, and a function that makes it in the files of the ledger at a path.
    """
    for number in range(n):
        kind, change = _KINDS[number % len(_KINDS)]
        yield kind, _seeded(change, f"{seed} {number}")


def _seeded(change: Callable[[Path, random.Random], None], seed: str) -> Change:
    def made(path: Path) -> None:
        change(path, random.Random(seed))

    return made


def explore(path: Path) -> None:
    """Use a ledger in every way; only our errors are let pass."""

    def attempt(doing: Callable[[], object]) -> None:
        with suppress(TwofoldError):
            doing()

    def exported() -> None:
        path.with_name("out.statement").write_bytes(Ledger(path).statement())
        told = Statement(path.with_name("out.statement"))
        told.verify()

    def cards() -> None:
        made = card_from_ledger(Ledger(path))
        made.to_json(), to_markdown(made), to_html(made)

    attempt(lambda: json.dumps(Ledger(path).state().as_dict()))
    attempt(lambda: Ledger(path).verify())
    attempt(lambda: Ledger(path, key=SIGNER.public).verify(head="0" * 64))
    attempt(cards)
    attempt(exported)
    attempt(lambda: Ledger(path, signer=SIGNER, wait=0.0).raise_ceiling(ApproxDP(epsilon=6, delta="1/100"), reason="x"))
    asked: dict[str, Any] = {"plan": digest(b"new"), "data": digest(b"d"), "events": [LAPLACE], "unit": UNIT}
    attempt(lambda: Ledger(path, signer=SIGNER, wait=0.0).release(**asked, draw=lambda: b"new"))


def _bodies(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["body"] for line in path.read_bytes().splitlines()]


def _dump(value: object) -> bytes:
    # Not `canonical`: hostile values such as NaN must reach the file.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _write(path: Path, bodies: list[Any], *, sign: bool = True) -> None:
    """Hash the records anew, and write and sign a head that fits: all that an insider can make right."""
    previous, content = START, b""
    for number, body in enumerate(bodies):
        plain = _dump(body)
        hashed = digest(b'{"body":%b,"number":%d,"previous":"%b"}' % (plain, number, previous.encode()))
        line = b'{"body":%b,"hash":"%b","number":%d,"previous":"%b"}\n'
        content += line % (plain, hashed.encode(), number, previous.encode())
        previous = hashed
    path.write_bytes(content)
    head = Head(length=len(bodies), size=len(content), hash=previous)
    dataset = bodies[0].get("dataset") if bodies and isinstance(bodies[0], dict) else None
    if sign and isinstance(dataset, str):
        head = signed(head, dataset, SIGNER)
    _head(path).write_bytes(head.encode())


def _head(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Give every place inside a value: its container and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key], depth + 1)


def _change_value(path: Path, chance: random.Random) -> None:
    bodies = _bodies(path)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        container, key = chance.choice(list(_places(chance.choice(bodies))))
        container[key] = chance.choice(VALUES)
    _write(path, bodies)


def _scale_number(path: Path, chance: random.Random) -> None:
    """Change costs, guarantees and events by plausible amounts."""
    bodies = _bodies(path)
    texts = [(c, k) for body in bodies for c, k in _places(body) if isinstance(c[k], str) and c[k][:1].isdigit()]
    container, key = chance.choice(texts)
    container[key] = chance.choice(("-5", "0", "1/1000000", "1" + "0" * chance.randrange(400), "7/3", "inf"))
    _write(path, bodies)


def _drop_or_add(path: Path, chance: random.Random) -> None:
    bodies = _bodies(path)
    places = [(c, k) for body in bodies for c, k in _places(body) if isinstance(c, dict)]
    container, key = chance.choice(places)
    if chance.random() < 0.7:
        del container[key]
    else:
        container[chance.choice(("extra", "signer", "draw", "public", "reserve", key + "x"))] = chance.choice(VALUES)
    _write(path, bodies)


def _swap_types(path: Path, chance: random.Random) -> None:
    bodies = _bodies(path)
    first, one = chance.choice(list(_places(chance.choice(bodies))))
    second, other = chance.choice(list(_places(chance.choice(bodies))))
    first[one], second[other] = second[other], json.loads(json.dumps(first[one]))
    _write(path, bodies)


def _reorder(path: Path, chance: random.Random) -> None:
    bodies: list[Any] = _bodies(path)
    how = chance.randrange(5)
    if how == 0:
        chance.shuffle(bodies)
    elif how == 1:
        del bodies[chance.randrange(len(bodies))]
    elif how == 2:
        bodies.insert(chance.randrange(len(bodies) + 1), json.loads(json.dumps(chance.choice(bodies))))
    elif how == 3:
        bodies[chance.randrange(len(bodies))] = chance.choice((*VALUES, {"kind": chance.choice(VALUES)}))
    else:
        bodies = bodies[: chance.randrange(len(bodies) + 1)]
    _write(path, bodies, sign=chance.random() < 0.5)


def _nest(path: Path, chance: random.Random) -> None:
    bodies = _bodies(path)
    container, key = chance.choice(list(_places(chance.choice(bodies))))
    depth = chance.choice((5, 20, 31, 40, 200, 900))
    inner: Any = container[key]
    for _ in range(depth):
        inner = [inner] if chance.random() < 0.5 else {"events": inner}
    container[key] = inner
    with suppress(RecursionError):
        _write(path, bodies)


def _nest_events(path: Path, chance: random.Random) -> None:
    """Events inside events, with the right fields."""
    bodies = _bodies(path)
    body = chance.choice([one for one in bodies if one["kind"] == "reserve"])
    unit = body["unit"]
    for _ in range(chance.choice((1, 5, 12, 14, 60))):
        kind = chance.choice(("sequential/1", "parallel/1"))
        body["events"] = [{"kind": kind, "unit": unit, "seeded": False, "events": body["events"]}]
    if chance.random() < 0.3:
        body["events"] *= chance.choice((2, 200, 1_500))
    _write(path, bodies)


def _damage_bytes(path: Path, chance: random.Random) -> None:
    target = chance.choice((path, path, _head(path)))
    content = bytearray(target.read_bytes())
    how = chance.randrange(5)
    if how == 0:
        for _ in range(chance.choice((1, 3, 50))):
            content[chance.randrange(len(content))] = chance.randrange(256)
    elif how == 1:
        content = content[: chance.randrange(len(content))]
    elif how == 2:
        content += chance.randbytes(chance.choice((1, 300, 5_000)))
    elif how == 3:
        content = bytearray(chance.choice((b"", b"[" * 100_000, b'{"a":' * 50_000, b"\x00" * 4_096, b"1" * 9_999)))
    else:
        start = chance.randrange(len(content))
        content[start : start + chance.randrange(400)] = content[: chance.randrange(400)]
    target.write_bytes(content)


def _damage_head(path: Path, chance: random.Random) -> None:
    plain = json.loads(_head(path).read_bytes())
    name = chance.choice(list(plain))
    if chance.random() < 0.3:
        del plain[name]
    else:
        plain[name] = chance.choice((*VALUES, math.inf, math.nan))
    _head(path).write_bytes(_dump(plain) + b"\n")


def _plant(path: Path, chance: random.Random) -> None:
    """Put something else in the place of a file, or beside it."""
    releases = path.with_name(path.name + ".releases")
    stored = sorted(releases.iterdir())
    names = (path, _head(path), path.with_name(path.name + ".lock"), _head(path).with_name(_head(path).name + ".new"))
    unknown = releases / f"{chance.randrange(99):06d}-{'ab' * 8}-{'cd' * 32}.release{chance.choice(('', '.new'))}"
    others = (releases / "room", releases / f"{'ab' * 16}.key", releases / "junk.new", unknown, releases)
    target = chance.choice((*names, *others, *stored))
    with suppress(FileNotFoundError):
        target.rename(path.with_name(f"moved-{target.name}"))
    how = chance.randrange(6)
    if how == 0:
        target.symlink_to(path.with_name("victim"))
        path.with_name("victim").write_bytes(b"victim")
    elif how == 1:
        target.symlink_to(path.with_name(f"moved-{target.name}"))
    elif how == 2 and hasattr(os, "mkfifo"):
        os.mkfifo(target)
    elif how == 3:
        target.mkdir()
    elif how == 4:
        target.write_bytes(b"")
        os.truncate(target, chance.choice((1, 1 << 30, 1 << 36)))
    # else it is gone


_KINDS: tuple[tuple[str, Callable[[Path, random.Random], None]], ...] = (
    ("a value changed", _change_value),
    ("a number changed", _scale_number),
    ("a field gone or new", _drop_or_add),
    ("two values swapped", _swap_types),
    ("records reordered", _reorder),
    ("nested deeply", _nest),
    ("events nested", _nest_events),
    ("bytes damaged", _damage_bytes),
    ("head damaged", _damage_head),
    ("something planted", _plant),
)
