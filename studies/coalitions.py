r"""``python -m studies coalitions``: the ε of every coalition, computed for 205 entities and attacked at small size.

The attacked federation has five entities, of whom two work with the attacker. With two operators it has the code's
records, sealed shares, opened boxes, both running sums and both noises, without the operators' exchange of lists; plain
messages and peers are attacked by their noise alone. An attacker gets exactly what its coalition sees, takes off
what it knows, and asks of thousands of canaries whether each is there (`twofold.release.audit`). The bound that comes
out is one on ε from below: above the stated ε it refutes the statement, below it is an attack that failed.

δ is 0.01 in the attacks: at 1e-6 nobody could tell Gaussian noise from the claim with so few canaries. The code under
attack does not know the difference.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np
import scipy.sparse as sp

from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import OperatorSum, SecureSum, usual_floor, usual_survivors
from twofold.privacy.audit.lower_bound import lower_bound
from twofold.privacy.coalitions import ALL_OTHERS, BOTH, EVERYBODY, ONE, PUBLIC, SERVER, coalitions_of
from twofold.privacy.printed import rounded_up
from twofold.privacy.rng import Source
from twofold.release.audit import CanaryAttack, canary_public
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.content import BilinearSums
from twofold.secure_sum.keys import Keys, private_of
from twofold.secure_sum.operators import ReportHeader, add_share, joined_sum, open_share, split, words_match

__all__ = ["Attack", "Row", "main", "planned", "rows"]

ENTITIES: Final = 205
EPSILONS: Final = (1, 3, 10)
#: Small federation: entities whose noise counts, and those who work with the attacker.
HONEST: Final = 3
CORRUPT: Final = 2
_BITS: Final = 48
_DELTA: Final = 0.01
Kind = Literal["plain", "peers", "operators", "entities", "both"]


@dataclass(frozen=True, kw_only=True)
class Attack(CanaryAttack):
    """A coalition in a small federation of two operators; it sees what the code gives to each of its members.

    Parameters
    ----------
    view : {"public", "one operator", "both operators", "all others"}
        Who looks.
    noises : pair of float
        Factor of each operator's noise: 1 as it should be, 0 for one that adds none.
    """

    view: str = ONE
    noises: tuple[float, float] = (1.0, 1.0)

    def message(self, rows: Any, noise: Source) -> BilinearSums:
        """What the coalition knows of all honest entities after it took off what its own members sent."""
        made, nobody = Bilinear(kind=self.kind), sp.csr_array((0, self.public.n_items))
        sent = [made.release(rows if place == 0 else nobody, self.public, rng=noise).value for place in range(HONEST)]
        if self.view in (BOTH, ALL_OTHERS):
            return replace(sent[0], numbers=self._alone(sent, noise))
        numbers = [one.numbers for one in sent]
        known = [np.random.default_rng(place).integers(-1000, 1000, numbers[0].size) for place in range(CORRUPT)]
        totals = _opened([*numbers, *known])
        seen = [totals[0], self._noisy(totals[1], 1, noise)]  # the first operator knows its own noise
        if self.view == PUBLIC:
            seen[0] = self._noisy(totals[0], 0, noise)
        if self.public.operators:  # the promise holds however many entities tell what they sent
            known += numbers[1:]
        return replace(sent[0], numbers=joined_sum(seen, bits=_BITS) - sum(known))

    def _alone(self, sent: Sequence[BilinearSums], noise: Source) -> Any:
        """One message: both operators join its shares, or all others take their own off the sum."""
        if self.view == BOTH:
            return joined_sum(_opened([sent[0].numbers]), bits=_BITS)
        totals = _opened([one.numbers for one in sent])
        totals[1] = self._noisy(totals[1], 1, noise)
        return joined_sum(totals, bits=_BITS) - sum(one.numbers for one in sent[1:])

    def _noisy(self, total: Any, place: int, noise: Source) -> Any:
        if not self.public.operators or not self.noises[place]:
            return total
        drawn = Bilinear(kind=self.kind).operator_noise(self.public, rng=noise)
        return total + np.rint(self.noises[place] * drawn).astype(np.int64).astype(np.uint64)


@cache
def _keys() -> tuple[Keys, Keys]:
    return Keys.new(), Keys.new()


def _opened(numbers: Sequence[Any]) -> list[Any]:
    """Split every entity's numbers, seal, open and add them up at both operators."""
    keys = _keys()
    seals = (keys[0].public.seal, keys[1].public.seal)
    length = numbers[0].size
    totals = [np.zeros(length, dtype=np.uint64) for _ in keys]
    for place, one in enumerate(numbers):
        report, name = os.urandom(16), f"entity-{place}"
        header = ReportHeader(plan=bytes(32), entity=name, report=report, bits=_BITS, length=length, seals=seals)
        shares = [
            open_share(private_of(key.seal), box, header, at)
            for at, (key, box) in enumerate(zip(keys, split(one, header), strict=True))
        ]
        assert words_match(shares[0].word, shares[1].word, bits=_BITS)
        for total, share in zip(totals, shares, strict=True):
            add_share(total, share, header)
    return totals


@dataclass(frozen=True, kw_only=True)
class Row:
    """One coalition: who, the ε at each plan of 205 entities, and what an attack at small size found."""

    kind: str
    who: str
    planned: tuple[str, ...]
    stated: float
    found: float
    broken: bool = False

    @property
    def right(self) -> bool:
        """Whether the attack ended as it should: a broken sum is caught, a sound one is not refuted."""
        return (self.found > self.stated) == self.broken

    @property
    def result(self) -> str:
        """The verdict in a word or two."""
        if self.broken:
            return "caught" if self.right else "NOT CAUGHT"
        return "REFUTED" if not self.right else "open, as stated" if self.stated == np.inf else "not refuted"


def planned(kind: Kind, epsilon: int) -> Plan:
    """Make the plan of 205 entities whose coalitions the table has.

    Examples
    --------
    >>> planned("operators", 3).sharing
    'operators'
    """
    usual = usual_survivors(ENTITIES)
    secure = {
        "plain": None,
        "peers": SecureSum(survivors=usual),
        "operators": OperatorSum(floor=usual_floor(ENTITIES)),
        "entities": OperatorSum(floor=usual, noise="entities"),
        "both": OperatorSum(floor=usual, noise="both"),
    }[kind]
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=457),
        feedback="counts",
        bound=5,
        max_items=66,
        n_users=900,
        n_entities=ENTITIES,
        mechanism="gram",
        epsilon=epsilon,
        delta=1e-6,
        secure=secure,
    )


#: Broken on purpose: name, who looks, factors of the noises, and which row's ε is claimed.
_BROKEN: Final = (
    ("second operator adds no noise", ONE, (1.0, 0.0), ONE),
    ("second operator adds half of its noise", ONE, (1.0, 0.5), ONE),
    ("second operator adds no noise, and the price counts both", PUBLIC, (1.0, 0.0), PUBLIC),
)


def rows(*, canaries: int, seed: int | None = None) -> Iterator[Row]:
    """Give the rows of the table, sound coalitions first, then sums that are broken on purpose."""
    for kind in ("plain", "peers", "operators", "entities", "both"):
        tables = [planned(kind, epsilon).coalitions for epsilon in EPSILONS]
        stated = _small(kind)
        for place, one in enumerate(tables[0]):
            shown = tuple(rounded_up(table[place].epsilon) for table in tables)
            attack = _attack(kind, one.kind)
            yield Row(
                kind=kind,
                who=one.who,
                planned=shown,
                stated=stated[one.kind],
                found=_found(attack, canaries, seed),
            )
    stated = _small("operators")
    yield Row(
        kind="operators",
        who="readers of the sum, one operator without noise",
        planned=tuple(str(epsilon) for epsilon in EPSILONS),
        stated=stated[ONE],
        found=_found(replace(_attack("operators", PUBLIC), noises=(1.0, 0.0)), canaries, seed),
    )
    for name, view, noises, claim in _BROKEN:
        attack = replace(_attack("operators", view), noises=noises)
        found = _found(attack, canaries, seed)
        yield Row(kind="operators", who=name, planned=(), stated=stated[claim], found=found, broken=True)


def _public(kind: Kind) -> Any:
    honest = 0 if kind in ("plain", "operators") else HONEST
    public = canary_public("sketch", delta=_DELTA, honest=honest)
    return replace(public, operators=2 if kind in ("operators", "both") else 0)


def _small(kind: Kind) -> dict[str, float]:
    public = _public(kind)
    sharing = kind if kind in ("plain", "peers") else "operators"
    event = Bilinear(kind="sketch").spec(public).event
    found = coalitions_of(event, sharing=sharing, delta=public.delta, colluders=CORRUPT)
    return {one.kind: float(one.epsilon) for one in found}


def _attack(kind: Kind, who: str) -> Any:
    public = _public(kind)
    if who in (EVERYBODY, SERVER):
        return CanaryAttack(kind="sketch", public=public)
    if kind == "peers":
        return _Alone(kind="sketch", public=public)
    return Attack(kind="sketch", public=public, view=who)


@dataclass(frozen=True, kw_only=True)
class _Alone(CanaryAttack):
    """One message whose masks are known to all others."""

    def message(self, rows: Any, noise: Source) -> BilinearSums:
        return Bilinear(kind=self.kind).release(rows, self.public, rng=noise).value


def _found(attack: CanaryAttack, canaries: int, seed: int | None) -> float:
    proved = lower_bound(
        attack, False, True, runs=canaries, delta=_DELTA, confidence=0.99, statistic=lambda it: it, rng=seed
    )
    return proved.epsilon


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if an attack refutes what is stated, or misses what is broken on purpose."""
    parser = argparse.ArgumentParser(prog="python -m studies coalitions", description=__doc__.partition("\n")[0])
    parser.add_argument("--canaries", type=int, default=400_000, help="canaries on each side of every attack")
    asked = parser.parse_args(arguments)
    started = time.process_time()
    print(
        f"epsilon under every coalition; {ENTITIES} entities, gram of 457 items, delta 1e-6; attacks: sketch, "
        f"{HONEST + CORRUPT} entities, delta {_DELTA:g}, {asked.canaries:,} canaries a side, 99% confidence"
    )
    print("| noise by | who works together | ε = 1 | ε = 3 | ε = 10 | small: stated | attack proves | result |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    right = True
    for row in rows(canaries=asked.canaries):
        cells = [*row.planned, *[""] * (len(EPSILONS) - len(row.planned))]
        stated = "infinite" if row.stated == np.inf else f"{row.stated:.2f}"
        print(f"| {_NOISE[row.kind]} | {row.who} | {' | '.join(cells)} | {stated} | {row.found:.2f} | {row.result} |")
        right = right and row.right
    print(f"CPU seconds: {time.process_time() - started:.0f}")
    return 0 if right else 1


_NOISE: Final = {
    "plain": "each entity, whole (plain)",
    "peers": "entities' shares (peers)",
    "operators": "operators",
    "entities": "entities' shares, two operators",
    "both": "operators and entities' shares",
}
