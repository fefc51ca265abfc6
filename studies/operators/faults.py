"""Random federations with two operators and random faults: each ends in the right sum, or in a clear refusal."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from studies.operators.forge import OPERATORS, World, halves_of, report, resealed, stranger_seals, world
from studies.operators.parts import DISHONEST, Part, Way
from twofold.errors import TwofoldError
from twofold.federation.exchange import ListMessage
from twofold.federation.factors import decode_factors
from twofold.federation.mailbox import StepId
from twofold.federation.messages import modulus_bits
from twofold.federation.reports import decode_report, seals_of
from twofold.release.bilinear.mechanism import Bilinear
from twofold.secure_sum.operators import joined_sum
from twofold.server.operator import Operator
from twofold.server.operator_terms import Pair
from twofold.storage.container import receipt

__all__ = ["FAULTS", "Outcome", "federation"]

Numbers = NDArray[np.int64]
#: Rounds after which missing reports are not waited for, after which late ones arrive, and after which all is over.
_CLOSE: Final = 6
_LATE: Final = 9
_ROUNDS: Final = 20
#: Refusals of one operator after which nothing is waited for.
_ENOUGH: Final = 3
#: Seeds of an operator's noise; few, so that their noises are drawn once.
_SEEDS: Final = 16
#: Most steps on the way to the point at which an operator is killed.
_STEPS: Final = 12


@dataclass
class Outcome:
    """What came of one federation.

    Parameters
    ----------
    faults : tuple of str
        What went wrong in it.
    result : str
        "sum", or the refusal's type and parameter.
    wrong : str
        What must not happen; empty if it did not.
    entities, left_out : int
        How many there are, and how many of them are not in the sum.
    kills : int
        How often an operator was killed.
    """

    faults: tuple[str, ...]
    result: str = ""
    wrong: str = ""
    entities: int = 0
    left_out: int = 0
    kills: int = 0


@dataclass
class _Run:
    made: World
    rng: random.Random
    forward: bool
    ways: tuple[Way, Way]
    #: Everything valid that was signed, by its digest.
    signed: dict[bytes, tuple[str, Numbers]] = field(default_factory=dict)
    inside: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    late: list[tuple[int, bytes]] = field(default_factory=list)

    def honest(self, name: str) -> bytes:
        """Make a report as it should be, and remember what it holds."""
        numbers = np.array([self.rng.randrange(-1000, 1000) for _ in range(self.made.length)], dtype=np.int64)
        data = report(self.made, name, numbers)
        self.signed[decode_report(data, self.made.plan).digest] = (name, numbers)
        return data

    def send(self, data: bytes, *places: int) -> None:
        """Send bytes to some operators."""
        for place in places:
            self.ways[place].deliver(StepId.REPORTS, data)


def _fine(run: _Run, name: str) -> None:
    data = run.honest(name)
    way = run.rng.randrange(4)
    if way == 0:
        run.send(data, 0, 1)
    elif way == 1:
        for place, part in enumerate(halves_of(data, run.made.plan)):
            run.send(part, place)
    else:
        run.send(data, way - 2 if run.forward else 0)
        if not run.forward:
            run.send(data, 1)
    run.inside.add(name)


def _missing(run: _Run, name: str) -> None:
    place = run.rng.randrange(2)
    run.send(halves_of(run.honest(name), run.made.plan)[place], place)
    run.outside.add(name)


def _absent(run: _Run, name: str) -> None:
    run.outside.add(name)


def _late(run: _Run, name: str) -> None:
    data, first = run.honest(name), run.rng.randrange(3)
    run.late += [(place, data) for place in (0, 1)]
    if first < 2:
        run.send(halves_of(data, run.made.plan)[first], first)


def _repeated(run: _Run, name: str) -> None:
    data = run.honest(name)
    for _ in range(2):
        run.send(data, 0, 1)
        for place, part in enumerate(halves_of(data, run.made.plan)):
            run.send(part, place, 1 - place)
    run.inside.add(name)


def _bad(make: Callable[[_Run, str, Numbers], bytes]) -> Callable[[_Run, str], None]:
    def fault(run: _Run, name: str) -> None:
        data = make(run, name, np.arange(run.made.length, dtype=np.int64))
        run.send(data, 0, 1)
        run.outside.add(name)

    return fault


def _tampered(run: _Run, name: str, _: Numbers) -> bytes:
    data = bytearray(run.honest(name))
    if run.rng.random() < 0.5:
        return resealed(bytes(data), run.rng.randrange(2))
    data[-run.rng.randrange(1, 80)] ^= 1 << run.rng.randrange(8)
    return bytes(data)


def _stolen(run: _Run, name: str, numbers: Numbers) -> bytes:
    victim = run.made.names[0] if name != run.made.names[0] else run.made.names[1]
    return report(run.made, name, numbers, bound_to=victim)


def _two(run: _Run, name: str) -> None:
    first, second = run.honest(name), run.honest(name)
    for place in (0, 1):
        run.send(first, place)
        run.send(second, place)
    run.inside.add(name)


def _two_ways(run: _Run, name: str) -> None:
    for place in (0, 1):
        run.send(run.honest(name), place)
    run.outside.add(name)


_SENT: Final[dict[str, Callable[[_Run, str], None]]] = {
    "share missing at one operator": _missing,
    "report missing": _absent,
    "report late": _late,
    "report sent twice": _repeated,
    "report for another plan": _bad(lambda run, name, at: report(run.made, name, at, plan=run.made.other)),
    "report bound to another entity": _bad(_stolen),
    "share for another operator": _bad(
        lambda run, name, at: report(run.made, name, at, seals=stranger_seals(run.made, run.rng.randrange(2)))
    ),
    "keys swapped": _bad(lambda run, name, at: report(run.made, name, at, seals=seals_of(run.made.plan)[::-1])),
    "report tampered with": _bad(_tampered),
    "report of another length": _bad(lambda run, name, at: report(run.made, name, at, longer=1)),
    "report of another modulus": _bad(lambda run, name, at: report(run.made, name, at, bits=8)),
    "wrong seed under a valid seal": _bad(lambda run, name, at: report(run.made, name, at, mixed=True)),
    "two reports of one entity": _two,
    "two reports, one for each operator": _two_ways,
}
#: Every fault of a federation.
FAULTS: Final = (*_SENT, "operator killed", *DISHONEST)


def federation(seed: int, *, only: str | None = None) -> Outcome:
    """Run one random federation.

    Parameters
    ----------
    seed : int
        Of everything but keys and seals.
    only : str, optional
        One of `FAULTS`, to happen for sure and alone.

    Examples
    --------
    >>> federation(1, only="operator adds no noise").result
    'sum'
    """
    rng = random.Random(seed)
    entities = rng.randrange(3, 7)
    made = world(entities, rng.choice((2, entities // 2 + 1, entities)) if only is None else 2, rng.randrange(1, 3))
    ways = Way(rng), Way(rng)
    ways[0].other, ways[1].other = ways[1], ways[0]
    run = _Run(made=made, rng=rng, forward=rng.random() < 0.5, ways=ways)
    faults = _sent(run, only)
    dishonest, where = None, rng.randrange(2)
    if only in DISHONEST or (only is None and rng.random() < 0.3):
        dishonest = only or rng.choice([*DISHONEST])
        faults.append(dishonest)
        if dishonest == "operator makes up item factors":
            where = 0  # the second operator makes none
    kinds = [DISHONEST[dishonest] if dishonest and place == where else Operator for place in (0, 1)]
    seeds = [rng.randrange(_SEEDS) for _ in OPERATORS]
    parts = [Part(made, place, ways[place], kinds[place], seeds[place]) for place in (0, 1)]
    kills = rng.randrange(1, 4) if only == "operator killed" or (only is None and rng.random() < 0.4) else 0
    if kills:
        faults.append("operator killed")
    outcome = Outcome(faults=tuple(dict.fromkeys(faults)), entities=entities)
    try:
        _rounds(run, parts, kills)
        _judge(run, parts, seeds, dishonest, outcome)
    except AssertionError as error:
        outcome.wrong = str(error) or "an assertion of the program"
    except Exception as error:  # whatever is not a refusal is a finding
        outcome.wrong = f"{type(error).__name__}: {error}"
    outcome.kills = sum(part.kills for part in parts)
    return outcome


def _sent(run: _Run, only: str | None) -> list[str]:
    faults = []
    for name in run.made.names:
        kind = None
        if only in _SENT:
            kind = only if name == run.made.names[-1] else None
        elif only is None and run.rng.random() < 0.3:
            kind = run.rng.choice([*_SENT])
        if kind is not None:
            faults.append(kind)
        (_SENT[kind] if kind is not None else _fine)(run, name)
    return faults


def _rounds(run: _Run, parts: list[Part], kills: int) -> None:
    for number in range(_ROUNDS):
        if number == _LATE:
            for place, data in run.late:
                run.send(data, place)
        for part in run.rng.sample(parts, 2):
            kill = None
            if kills and run.rng.random() < 0.5:
                kill, kills = run.rng.randrange(1, _STEPS), kills - 1
            part.look(close=number >= _CLOSE, forward=run.forward, kill=kill)
        waiting = bool(run.late) and number < _LATE
        if not waiting and all(part.way.out is not None for part in parts):
            return
        if number > _LATE and not waiting and any(len(part.errors) > _ENOUGH for part in parts):
            return


def _judge(run: _Run, parts: list[Part], seeds: list[int], dishonest: str | None, outcome: Outcome) -> None:
    for part in parts:
        if part.honest:
            for step in (StepId.FREEZES, StepId.REVEALS):
                assert len(part.way.posted.get(step, {})) <= 1, f"an honest operator sent two {step}"
    finals = [part.operator.final for part in parts]
    if any(one is None for one in finals):
        refusals = [error for part in sorted(parts, key=lambda one: one.honest) for error in part.errors]
        assert refusals, "it ended neither in a sum nor in a refusal"
        last: TwofoldError = refusals[-1]
        outcome.result = f"{type(last).__name__} ({last.parameter})"
        if dishonest is None:  # nothing else may stop honest operators
            assert last.parameter == "secure.floor", f"honest operators stopped: {last}"
            assert len(run.inside) < run.made.floor, "enough reports arrived, and nothing was summed"
        return
    outcome.result = "sum"
    assert finals[0] == finals[1] == parts[0].way.out == parts[1].way.out, "two different publications"
    assert finals[0] is not None
    decode_factors(finals[0], run.made.plan)
    one, two = (part.operator.freeze for part in parts)
    assert one is not None, "no list was frozen"
    assert two is not None, "no list was frozen"
    assert (one.lists, one.reports, one.count) == (two.lists, two.reports, two.count), "two different lists"
    lists: dict[str, ListMessage] = {receipt(each.data): each for part in parts for each in part.operator.own_lists}
    pair = Pair.of(lists[one.lists[0]], lists[one.lists[1]], run.made.plan)
    assert pair.hash == one.reports, "another list than the two have in common"
    assert len(pair.digests) == one.count >= run.made.floor, "fewer entities than the floor"
    names = [run.signed[digest][0] for digest in pair.digests]
    assert len(set(names)) == len(names), "an entity counts twice"
    assert not set(names) & run.outside, "an entity is in the sum whose report must not be"
    if dishonest is None:
        assert run.inside <= set(names), "an entity is missing whose report arrived"
    noises = [
        _noise(run.made, seed)
        for part, seed in zip(parts, seeds, strict=True)
        if part.honest or dishonest != "operator adds no noise"
    ]
    exact = sum((run.signed[digest][1] for digest in pair.digests), np.zeros(run.made.length, dtype=np.int64))
    due = joined_sum([np.asarray(exact + sum(noises)).astype(np.uint64)], bits=modulus_bits(run.made.plan))
    for part in parts:
        total = part.operator.total()
        assert total is not None, "no sum"
        assert np.array_equal(total.numbers, due), "the sum is wrong"
    outcome.left_out = outcome.entities - len(names)


@cache
def _noise(made: World, seed: int) -> Numbers:
    mechanism = made.plan.release_mechanism
    assert isinstance(mechanism, Bilinear)
    return mechanism.operator_noise(made.plan.parameters, rng=seed)
