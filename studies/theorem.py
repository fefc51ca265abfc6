"""Theorem 1 of the paper against exact privacy losses on domains small enough to write every outcome down.

Four tables, at a declared ε of 1 unless stated: Algorithm 1 as typed, the step of the printed proof, the division by a
cluster's size, and the whole chain in its kindest reading beside the corrected one. Then the printed constants at the
paper's sizes beside ours. docs/explanation/theorem.md shows them with the proofs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Final

from studies.as_published import printed_constants
from twofold.privacy.audit.exact_checks import privacy_loss, selection_law
from twofold.release.balcan.config import PrivateKMeansConfig

__all__ = [
    "Chain",
    "Table",
    "chain_loss",
    "corrected_chain",
    "main",
    "printed_chain",
    "proof_step_loss",
    "size_loss",
    "tables",
    "typed_loss",
]

_MOST: Final = 20  # people with one item in the tiny domain: beyond, the largest ratio no longer moves
_GAMMA: Final = 6.0  # opening threshold of the tiny domain, a public number
_SWAPS: Final = 2
_LARGEST_EXPONENT: Final = 700.0


def typed_loss(epsilon: float) -> float:
    """Loss of the support that Algorithm 1 publishes as typed, one person against two.

    One person has item 1; the neighbour has a second person, with item 2; s = Λ = 1. The means are (1, 0) and (½, ½).
    With Gumbel noise of scale ε|μ|/2, item 2 is kept with the probability of 1 + (ε/2)·G < 0, which is
    exp(-exp(2/ε)), and with ½.

    Examples
    --------
    >>> [round(typed_loss(epsilon), 1) for epsilon in (5, 1)], f"{typed_loss(0.1):.0f}"
    ([0.8, 6.7], '485165195')
    """
    return math.exp(min(2 / epsilon, _LARGEST_EXPONENT)) - math.log(2)


def proof_step_loss(picks: int, *, replace: bool) -> float:
    """Loss of the `picks` largest of scores with Gumbel(2Δ/ε) noise, at ε = Δ = 1, by enumeration.

    The person has `picks` items, on which all the weight lies; none of them is picked in the worst outcome. With
    `replace`, another person with other items takes the place.

    Examples
    --------
    >>> round(proof_step_loss(2, replace=False), 3), round(proof_step_loss(2, replace=True), 3)
    (1.0, 2.0)
    """
    far, none = 80.0, [0.0] * picks
    base, with_one, other = [far] * picks + none, [far + 1] * picks + none, [far] * picks + [1.0] * picks
    one, two = (with_one, other) if replace else (base, with_one)
    return privacy_loss(selection_law(one, 2.0, picks), selection_law(two, 2.0, picks))


def size_loss(distance: float, epsilon: float = 1.0) -> float:
    """Loss at one published value, where the divisor is the size of the cluster: two people or one, both with the item.

    Both means are 1; the Laplace scales are 2/(2ε) and 2/ε. The log ratio of the densities at a distance d from 1 is
    ln 2 - εd/2: it has no bound.

    Examples
    --------
    >>> [round(size_loss(distance), 2) for distance in (0, 10, 1000)]
    [0.69, 4.31, 499.31]
    """
    return abs(math.log(2) - epsilon * distance / 2)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Constants of one trial of the chain on the tiny domain, for an ε of 1.

    Attributes
    ----------
    level : float
        ε' of the one level of the tree.
    exponent : float
        What a loss is multiplied by in a swap and in the last pick.
    worst_last : bool
        Whether the last pick has the printed sign, which prefers the larger loss.
    select : float
        Scale of the Gumbel noise on the two sums, of which one is kept; 0 keeps both.
    values : float
        Scale of the Laplace noise on kept sums.
    counts : float
        Scale of the Laplace noise on the number of people; 0 if it is not released.
    trials : int
        Trials, each with these constants.
    """

    level: float
    exponent: float
    worst_last: bool
    select: float
    values: float
    counts: float
    trials: int = 1


def printed_chain(trials: int = 1) -> Chain:
    """The supplement's constants at ε = 1 in their kindest reading.

    Gumbel and Laplace noise of scale 2sΛ/(εn) on the mean, n public, is 2/ε on the sum; one tree of one level at ε/6T
    has ε' = half of that, the printed factor for replace-one; swaps at ε/6T have the exponent ε/(6T·8Λ²(T_s + 1)).

    Examples
    --------
    >>> printed_chain().values, round(printed_chain(2).level, 4)
    (2.0, 0.0417)
    """
    part = 1 / (6 * trials)
    return Chain(
        level=part / 2,
        exponent=part / (8 * (_SWAPS + 1)),
        worst_last=True,
        select=2.0,
        values=2.0,
        counts=0.0,
        trials=trials,
    )


def corrected_chain(trials: int = 1) -> Chain:
    """The package's constants at ε = 1: shares that add up to 1, each divided by the trials; no choice among trials.

    Examples
    --------
    >>> round(1 / corrected_chain().values + 1 / corrected_chain().counts, 9)  # sums and counts: six tenths
    0.6
    """
    split = PrivateKMeansConfig(n_clusters=1, epsilon=1, promised_users=9, bound=1, max_items=1).split()
    tree, swap, values, counts = (
        float(split[name].epsilon) / trials for name in ("candidate", "swap", "values", "counts")
    )
    return Chain(
        level=tree,
        exponent=swap / (4 * (_SWAPS + 1)),
        worst_last=False,
        select=0.0,
        values=1 / values,
        counts=1 / counts,
        trials=trials,
    )


@cache
def chain_loss(chain: Chain, *, replace: bool) -> float:
    """Largest loss over all tiny data sets, all neighbours and everything that a trial reveals, exactly.

    A person has one of two items and is the point -1 or +1 on a line; Λ = s = k = 1. A tree of one level has the cells
    below and above 0; its candidates are 0 and the middle of every open cell, ∓½. Two swaps and a last pick follow,
    then the recovery of the one cluster. The view is all of it: open cells, swaps, pick, kept items, values, count.

    Examples
    --------
    >>> chain_loss(corrected_chain(), replace=False) <= 1 < chain_loss(printed_chain(), replace=False)
    True
    """
    worst = 0.0
    for low, high in product(range(_MOST + 1), repeat=2):
        one = (low, high)
        if replace:
            others = [(low - 1, high + 1)] if low else []
        else:
            others = [(low + 1, high), (low, high + 1)]
        for other in others:
            steps = max(_view_ratios(one, other, chain))
            worst = max(worst, steps, max(_view_ratios(other, one, chain)))
    return chain.trials * worst


People = tuple[int, int]


def _view_ratios(one: People, other: People, chain: Chain) -> Iterator[float]:
    """Log ratio of every outcome of one trial, `one` over `other`; of noisy values, the largest ratio there is."""
    changed = [abs(a - b) for a, b in zip(one, other, strict=True)]
    counted = abs(sum(one) - sum(other)) / chain.counts if chain.counts else 0.0
    first, second = _kept(one, chain), _kept(other, chain)
    recovery = max(
        math.log(first[kept] / second[kept]) + sum(changed[item] for item in kept) / chain.values for kept in first
    )
    for opened in product((False, True), repeat=2):
        tree = math.fsum(
            _open(a, yes, chain.level) - _open(b, yes, chain.level)
            for a, b, yes in zip(one, other, opened, strict=True)
        )
        centers = [0.0, *(c for c, yes in zip((-0.5, 0.5), opened, strict=True) if yes)]
        for swaps in product(range(len(centers)), repeat=_SWAPS):
            picked = [_swap(people, centers, swaps, chain) for people in (one, other)]
            for last in range(_SWAPS):
                yield tree + picked[0][last] - picked[1][last] + recovery + counted


def _open(count: int, yes: bool, level: float) -> float:
    """Log probability that a cell opens, or not: the printed f, which is that of Laplace noise of scale 1/ε'."""
    gap = level * (_GAMMA - count)
    below = math.log(0.5) - gap if gap >= 0 else math.log1p(-0.5 * math.exp(gap))
    if yes:
        return below
    return math.log1p(-0.5 * math.exp(-gap)) if gap >= 0 else math.log(0.5) + gap


def _swap(people: People, centers: Sequence[float], swaps: tuple[int, ...], chain: Chain) -> list[float]:
    """Log probability of these swaps and of each last pick. With one center every swap may go anywhere."""
    losses = [people[0] * (c + 1) ** 2 + people[1] * (c - 1) ** 2 for c in centers]
    weights = [-chain.exponent * loss for loss in losses]
    taken = math.fsum(weights[s] - _log_sum(weights) for s in swaps)
    sign = -1 if chain.worst_last else 1
    last = [sign * weights[s] for s in swaps]
    return [taken + one - _log_sum(last) for one in last]


def _kept(people: People, chain: Chain) -> Mapping[tuple[int, ...], float]:
    if not chain.select:
        return {(0, 1): 1.0}
    return selection_law([float(one) for one in people], chain.select, 1)


def _log_sum(logs: Sequence[float]) -> float:
    top = max(logs)
    return top + math.log(math.fsum(math.exp(one - top) for one in logs))


@dataclass(frozen=True, kw_only=True)
class Table:
    """A printed table."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Render it for the page."""
        lines = ["| " + " | ".join(row) + " |" for row in (self.heads, *self.rows)]
        return "\n".join([lines[0], "|" + "---|" * len(self.heads), *lines[1:]])


def tables() -> list[Table]:
    """Every table of the page, in its order."""
    return [_typed(), _proof(), _sizes(), _chains(), _constants()]


def _typed() -> Table:
    return Table(
        title="Algorithm 1 as typed: which item is kept, one person against two",
        heads=("declared ε", "P(item 2 kept), one person", "P(item 2 kept), two people", "exact loss"),
        rows=tuple(
            (f"{e:g}", _power(-math.exp(2 / e)), "1/2", f"{typed_loss(e):,.2f}") for e in (0.1, 0.5, 1.0, 2.0, 5.0)
        ),
    )


def _power(log: float) -> str:
    """A probability from its natural logarithm, also where it is far below what a float holds."""
    if log > math.log(1e-4):
        return f"{math.exp(log):.4f}"
    ten = log / math.log(10)
    return f"10^{ten:,.1f}"


def _proof() -> Table:
    return Table(
        title="The step of the proof: the s largest with Gumbel(2Δ/ε) noise, declared ε = 1",
        heads=("s", "exact loss, add or remove", "exact loss, replace"),
        rows=tuple(
            (str(s), f"{proof_step_loss(s, replace=False):.3f}", f"{proof_step_loss(s, replace=True):.3f}")
            for s in (1, 2, 3, 4)
        ),
    )


def _sizes() -> Table:
    return Table(
        title="Division by the cluster's size, declared ε = 1",
        heads=("published value, distance from the mean", *(f"{d:g}" for d in (0, 10, 100, 1000))),
        rows=(("exact loss", *(f"{size_loss(d):.2f}" for d in (0, 10, 100, 1000))),),
    )


def _chains() -> Table:
    asked = (
        ("as printed, kindest reading, T = 1", printed_chain(1)),
        ("as printed, kindest reading, T = 5", printed_chain(5)),
        ("corrected, T = 1", corrected_chain(1)),
        ("corrected, T = 5", corrected_chain(5)),
    )
    return Table(
        title="One entity's whole chain, declared ε = 1",
        heads=("reading", "exact loss, add or remove", "exact loss, replace"),
        rows=tuple(
            (name, f"{chain_loss(chain, replace=False):.3f}", f"{chain_loss(chain, replace=True):.3f}")
            for name, chain in asked
        ),
    )


def _constants() -> Table:
    """Every constant of Algorithms 3 to 6 at an eICU hospital (n = 900, k = 10) and a synthetic entity, ε = 0.1."""
    rows: list[tuple[str, ...]] = []
    for n, k in ((900, 10), (10_000, 100)):
        said = printed_constants(n, k, 0.1)
        ours = PrivateKMeansConfig(n_clusters=k, epsilon="0.1", promised_users=n, bound=1, max_items=66, fallback=False)
        level = float(ours.split()["candidate"].epsilon / (ours.trees * ours.depth))
        where = f"n = {n:,}, k = {k}"
        rows += [
            (where, "projected dimension p", f"{said.dimension:.0f}", str(ours.dimension)),
            (where, "trials T", f"{said.trials:.1f}", str(ours.trials)),
            (where, "shifted trees", f"{said.trees:,.0f}", str(ours.trees)),
            (where, "levels of a tree", f"{n:,}", str(ours.depth)),
            (where, "ε' of a level", f"{said.level_epsilon:.1e}", f"{level:.1e}"),
            (where, "people for a cell to open, γ", f"{said.threshold:.1e}", f"{ours.threshold:,}"),
            (where, "swaps", f"{said.swaps:,.0f}", str(ours.swaps)),
            (where, "really spent, add or remove", f"{said.really_spent:.2f}", f"{float(ours.epsilon):.2f}"),
        ]
    return Table(title="Constants at ε = 0.1, δ = 0.1", heads=("size", "constant", "printed", "here"), rows=tuple(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every table of the page."""
    parser = argparse.ArgumentParser(prog="python -m studies theorem", description=__doc__)
    parser.parse_args(arguments)
    for table in tables():
        print(f"{table.title}\n\n{table.markdown()}\n")
