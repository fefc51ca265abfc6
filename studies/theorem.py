"""Theorem 1 of the paper against exact privacy losses on domains small enough to write every outcome down.

At a declared ε of 1 unless stated: Algorithm 1 as typed, the step of the printed proof, the division by a cluster's
size, and the whole chain in its kindest reading beside the corrected one; then one or two domains for each of
Algorithms 3 to 6, and the printed constants at the paper's sizes beside ours. docs/explanation/theorem.md shows the
tables with the proofs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Final

from studies.as_published import printed_constants
from twofold.privacy.audit.exact_checks import privacy_loss, selection_law
from twofold.release.balcan.config import PrivateKMeansConfig

__all__ = [
    "chain_limit",
    "chain_loss",
    "choice_loss",
    "corrected_chain",
    "main",
    "phrases",
    "printed_chain",
    "proof_step_loss",
    "size_loss",
    "swaps_loss",
    "tables",
    "threshold_loss",
    "tree_loss",
    "typed_loss",
]

_FEW: Final = 20  # people with one item in the tiny domain: every number up to this,
_CROWDS: Final = (100, 600, 5000)  # and crowds with one item
_OTHERS: Final = 11  # beside up to so many with the other
_GAMMA: Final = 6.0  # opening threshold of the tiny domain, a public number
_SWAPS: Final = 2
_FAILURE: Final = 0.1  # the paper's δ
_HOSPITAL: Final = (900, 10)  # people and clusters
_WIDE: Final = math.floor(8 * math.log(_HOSPITAL[0]))  # the paper's p there
_LARGEST_EXPONENT: Final = 700.0
_BOTH: Final = (("exact loss, add or remove", False), ("exact loss, replace", True))


def typed_loss(epsilon: float) -> float:
    """Loss of which item Algorithm 1 keeps as typed, one person against two; its values may lose more.

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
    swap = part / (8 * (_SWAPS + 1))
    return Chain(level=part / 2, exponent=swap, worst_last=True, select=2.0, values=2.0, counts=0.0, trials=trials)


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
    swap /= 4 * (_SWAPS + 1)
    return Chain(
        level=tree, exponent=swap, worst_last=False, select=0.0, values=1 / values, counts=1 / counts, trials=trials
    )


@cache
def chain_loss(chain: Chain, *, replace: bool, published: bool = False) -> float:
    """Largest loss over tiny data sets, all neighbours and everything that a trial draws, exactly.

    A person has one of two items and is the point -1 or +1 on a line; Λ = s = k = 1. A tree of one level has the cells
    below and above 0; its candidates are 0 and the middle of every open cell, ∓½. Two swaps and a last pick follow,
    then the recovery of the one cluster. The view is all of it: open cells, swaps, pick, kept items, values, count; or
    only what is `published`: the last three. Data sets have up to 20 people per item, or a crowd of up to 5,000
    with one item beside up to 11 with the other; `chain_limit` is the limit of ever larger crowds.

    Examples
    --------
    >>> chain_loss(corrected_chain(), replace=False) <= 1 < chain_loss(printed_chain(), replace=False)
    True
    """
    people = [*product(range(_FEW + 1), repeat=2), *product(range(_OTHERS + 1), _CROWDS)]
    worst = 0.0
    for low, high in people:
        one, added = (low, high), [(low + 1, high), (low, high + 1)]
        for other in ([(low - 1, high + 1)] if low else []) if replace else added:
            for first, second in ((one, other), (other, one)):
                recovery = _recovery(first, second, chain)
                worst = max(worst, recovery if published else recovery + max(_draws(first, second, chain)))
    return chain.trials * worst


def chain_limit(chain: Chain, *, replace: bool) -> tuple[float, float, float]:
    """What `chain_loss` tends to as crowds grow, and never exceeds: of the tree, of the draws, of the recovery.

    Under replace-one both cells count only if one of them does not open. Then 0 and one middle are left, and a move
    changes the difference of their losses by 2; so does one person more that of ∓½. Two of the three draws charge it:
    after two equal swaps the pick is no choice, and of two unequal ones one went the other way.

    Examples
    --------
    >>> [round(part, 3) for part in chain_limit(corrected_chain(), replace=False)]
    [0.25, 0.05, 0.6]
    """
    moved = 2 if replace else 1
    recovery = (1 if chain.select else moved) / chain.values
    if chain.select:
        recovery += moved / chain.select
    if chain.counts and not replace:
        recovery += 1 / chain.counts
    return chain.trials * moved * chain.level, chain.trials * 4 * chain.exponent, chain.trials * recovery


People = tuple[int, int]


def _recovery(one: People, other: People, chain: Chain) -> float:
    """Largest log ratio of what is published: the kept item, the noisy sums and the noisy number of people."""
    changed = [abs(a - b) for a, b in zip(one, other, strict=True)]
    counted = abs(sum(one) - sum(other)) / chain.counts if chain.counts else 0.0
    if not chain.select:
        return sum(changed) / chain.values + counted
    first, second = ([count / chain.select for count in people] for people in (one, other))
    same = _log_sum(second) - _log_sum(first)
    return max(first[i] - second[i] + same + changed[i] / chain.values for i in range(2)) + counted


def _draws(one: People, other: People, chain: Chain) -> Iterator[float]:
    """Log ratio of every outcome of tree, swaps and pick, `one` over `other`."""
    for opened in product((False, True), repeat=2):
        tree = math.fsum(
            _open(a, yes, chain.level) - _open(b, yes, chain.level)
            for a, b, yes in zip(one, other, opened, strict=True)
        )
        centers = [0.0, *(c for c, yes in zip((-0.5, 0.5), opened, strict=True) if yes)]
        for swaps in product(range(len(centers)), repeat=_SWAPS):
            picked = [_swap(people, centers, swaps, chain) for people in (one, other)]
            for last in range(_SWAPS):
                yield tree + picked[0][last] - picked[1][last]


def _open(count: int, yes: bool, level: float, threshold: float = _GAMMA) -> float:
    """Log probability that a cell opens, or not: the printed f, which is that of Laplace noise of scale 1/ε'."""
    gap = level * (threshold - count)
    if yes:
        return math.log(0.5) - gap if gap >= 0 else math.log1p(-0.5 * math.exp(gap))
    return math.log1p(-0.5 * math.exp(-gap)) if gap >= 0 else math.log(0.5) + gap


def _swap(people: People, centers: Sequence[float], swaps: tuple[int, ...], chain: Chain) -> list[float]:
    """Log probability of these swaps and of each last pick. A swap may choose the present center."""
    losses = [people[0] * (c + 1) ** 2 + people[1] * (c - 1) ** 2 for c in centers]
    weights = [-chain.exponent * loss for loss in losses]
    taken = math.fsum(weights[s] - _log_sum(weights) for s in swaps)
    sign = -1 if chain.worst_last else 1
    last = [sign * weights[s] for s in swaps]
    return [taken + one - _log_sum(last) for one in last]


def _log_sum(logs: Sequence[float]) -> float:
    top = max(logs)
    return top + math.log(math.fsum(math.exp(one - top) for one in logs))


def swaps_loss(
    row: float, *, center: float = 1.0, swaps: int, exponent: float, replace: bool, worst_last: bool = True
) -> float:
    """Loss of all swaps and the last pick of Algorithm 6 on a line, k = 1, Λ = 1.

    The candidates are -`center` and +`center`. 900 people are at +1. One more is at -`row`, or is moved there from
    +`row`. Only how many swaps went to the far candidate matters, so thousands of swaps can be written down.

    Examples
    --------
    >>> [round(swaps_loss(row, swaps=9, exponent=1 / 80, replace=True), 3) for row in (1, 2)]  # two: outside the ball
    [0.9, 1.8]
    """
    far, person = 4 * center * _HOSPITAL[0], 4 * row * center  # how much further the far candidate is, in squares
    one = _sequences(exponent * (far + person * replace), swaps, worst_last)
    two = _sequences(exponent * (far - person), swaps, worst_last)
    return max(abs(one[outcome] - two[outcome]) for outcome in one)


def _sequences(gap: float, swaps: int, worst_last: bool = False) -> dict[tuple[int, bool], float]:
    """Log probability of a sequence of swaps between two candidates, and a pick, by number of far ones and pick.

    `gap` is the exponent times the difference of the losses.
    """
    logs = {}
    near, sign = -math.log1p(math.exp(-gap)), 1 if worst_last else -1
    for number in range(swaps + 1):
        picks = {False: (swaps - number, 0.0), True: (number, sign * gap)}
        last = _log_sum([math.log(many) + weight for many, weight in picks.values() if many])
        for far, (many, weight) in picks.items():
            if many:
                logs[number, far] = swaps * near - number * gap + weight - last
    return logs


def _better_chance(people: int, swaps: int, exponent: float, worst_last: bool) -> float:
    """Chance that Algorithm 6 returns the better of -1 and +1, if all people are at +1."""
    total = 0.0
    for (number, far), log in _sequences(4 * exponent * people, swaps, worst_last).items():
        if not far:
            ways = math.lgamma(swaps + 1) - math.lgamma(number + 1) - math.lgamma(swaps - number + 1)
            total += (swaps - number) * math.exp(ways + log)
    return total


def choice_loss(distance: float, *, replace: bool) -> float:
    """Loss of the choice among two trials, whose centers are +1 and -`distance`, Λ = 1.

    900 people are at +1. One more is there, or is moved from there to -1.

    Examples
    --------
    >>> [round(choice_loss(d, replace=False), 2) for d in (1, 10)]  # declared is a sixth
    [0.17, 5.04]
    """
    further = (1 + distance) ** 2
    after = (distance - 1) ** 2 - 4 if replace else 0.0
    one, two = (_sequences((_HOSPITAL[0] * further + more) / 24, 1) for more in (further, after))
    return max(abs(one[outcome] - two[outcome]) for outcome in one)


def _leaving_chance(dimension: int) -> float:
    """Chance that a row of norm Λ leaves the ball when projected: that χ² exceeds its degrees of freedom, even."""
    half = dimension / 2
    return math.fsum(math.exp(i * math.log(half) - half - math.lgamma(i + 1)) for i in range(dimension // 2))


def tree_loss(people: int, levels: int) -> float:
    """Loss of Algorithm 4 with its printed ε' and γ, at ε = 1: one person more in a corner that was empty.

    An outcome is the number of levels at which the corner's cell opens. No data set loses more than ε' at a level if a
    person is added or removed; a person who came from elsewhere costs no less.

    Examples
    --------
    >>> round(tree_loss(900, 900), 1)
    66.2
    """
    level = 1 / (2 * math.log(people))
    threshold = 20 / level * math.log(people / _FAILURE)
    yes, no = (_open(1, how, level, threshold) - _open(0, how, level, threshold) for how in (True, False))
    return max(*(abs(opened * yes + no) for opened in range(levels)), abs(levels * yes))


def threshold_loss(people: int, dimension: int) -> float:
    """Loss of the first level of Algorithm 4 if one person leaves and n goes with them, at ε = 1.

    All people are in one of the 2^p cells. That cell opens or not; the others all open.

    Examples
    --------
    >>> round(threshold_loss(900, 6), 2)
    1.4
    """

    def opens(n: int, count: int, yes: bool) -> float:
        level = 1 / (2 * math.log(n))
        return _open(count, yes, level, 20 / level * math.log(n / _FAILURE))

    empty = opens(people, 0, True) - opens(people - 1, 0, True)
    full = [opens(people, people, yes) - opens(people - 1, people - 1, yes) for yes in (True, False)]
    return max(abs((2.0**dimension - 1) * empty + one) for one in full)


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
    printed = (_typed, _proof, _sizes, _budget, _chains, _rows, _choices, _levels, _thresholds, _roots, _picks)
    return [*(table() for table in printed), _constants()]


def phrases() -> list[str]:
    """Every number of the page that stands in a sentence, in its words."""
    (n, k), ours = _HOSPITAL, _ours(*_HOSPITAL)
    trees = [math.floor(25 * k * math.log(one / _FAILURE)) for one in (n, n - 1)]
    low, high = 1.0, 5.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if typed_loss(middle) > middle else (low, middle)
    level = float(ours.split()["candidate"].epsilon / (ours.trees * ours.depth))
    opens = math.exp(_open(n, True, level, ours.threshold))
    parts = [chain_limit(corrected_chain(), replace=replace) for replace in (False, True)]
    sums = [" + ".join(f"{part:.3f}" for part in one) + f" = {math.fsum(one):.3f}" for one in parts]
    return [
        f"breaks ε up to about {low:.1f} only",
        f"A/R {sums[0]}",
        f"R1 {sums[1]}",
        f"{7 / 6:.2f}ε and {7 / 3:.2f}ε",
        f"leaves the ball with probability {_leaving_chance(_WIDE):.2f}",
        f"by a factor of {_stretch(_WIDE):.2f}",
        f"{tree_loss(n, n):.0f}ε at n = {n}",
        f"{trees[0]:,} trees for {n} people and {trees[1]:,} for {n - 1}",
        f"With {ours.threshold:,} people needed per cell at ε = 0.1",
        f"opens with probability {opens:.2f}",
    ]


def _ours(n: int, k: int) -> PrivateKMeansConfig:
    return PrivateKMeansConfig(n_clusters=k, epsilon="0.1", promised_users=n, bound=1, max_items=66, fallback=False)


def _stretch(dimension: int, items: int = 457) -> float:
    """How much the projection lengthens the worst row: about the largest singular value of G/√p."""
    return (math.sqrt(items) + math.sqrt(dimension)) / math.sqrt(dimension)


def _typed() -> Table:
    return Table(
        title="Algorithm 1 as typed: which item is kept, one person against two",
        heads=("declared ε", "P(item 2 kept), one person", "P(item 2 kept), two people", "loss of which item is kept"),
        rows=tuple(
            (f"{e:g}", _power(-math.exp(2 / e)), "1/2", f"{typed_loss(e):,.2f}") for e in (0.1, 0.5, 1.0, 2.0, 5.0)
        ),
    )


def _power(log: float) -> str:
    """A probability from its natural logarithm, also where it is far below what a float holds."""
    if log > math.log(1e-4):
        return f"{math.exp(log):.4f}"
    return f"10^{log / math.log(10):,.1f}"


def _proof() -> Table:
    return Table(
        title="The step of the proof: the s largest with Gumbel(2Δ/ε) noise, declared ε = 1",
        heads=("s", *(name for name, _ in _BOTH)),
        rows=tuple((str(s), *(f"{proof_step_loss(s, replace=how):.3f}" for _, how in _BOTH)) for s in (1, 2, 3, 4)),
    )


def _sizes() -> Table:
    return Table(
        title="Division by the cluster's size, declared ε = 1",
        heads=("published value, distance from the mean", *(f"{d:g}" for d in (0, 10, 100, 1000))),
        rows=(("exact loss", *(f"{size_loss(d):.2f}" for d in (0, 10, 100, 1000))),),
    )


def _budget() -> Table:
    names = ("candidates", "swaps", "recoveries", "choice among trials", "together")
    columns = []
    for trials, moved in product((1, 2 * math.log(10)), (1, 2)):
        parts = [moved / 12, moved / 12, moved * trials, moved / 6]
        columns.append([*parts, math.fsum(parts)])
    return Table(
        title="What the kindest reading spends, in units of ε",
        heads=("step", *(f"{trials}, {how}" for trials in ("T = 1", "T = 2 ln 10") for how in ("A/R", "R1"))),
        rows=tuple((name, *(f"{column[i]:.2f}" for column in columns)) for i, name in enumerate(names)),
    )


def _chains() -> Table:
    asked = [
        (f"{name}, T = {trials}{', published numbers alone' * alone}", make(trials), alone)
        for name, make in (("as printed, kindest reading", printed_chain), ("corrected", corrected_chain))
        for trials, alone in ((1, False), (5, False), (1, True))
    ]
    return Table(
        title="One entity's whole chain, declared ε = 1",
        heads=("reading", *(name for name, _ in _BOTH)),
        rows=tuple(
            (name, *(f"{chain_loss(chain, replace=replace, published=alone):.3f}" for replace in (False, True)))
            for name, chain, alone in asked
        ),
    )


def _swaps_printed() -> tuple[int, float]:
    """Number of swaps and exponent of Algorithm 6 at the hospital, ε = Λ = 1."""
    swaps = round(_HOSPITAL[0] / _FAILURE)
    return swaps, 1 / (8 * (swaps + 1))


def _rows() -> Table:
    swaps, exponent = _swaps_printed()
    lengths = (1.0, 2.0, _stretch(_WIDE))
    return Table(
        title="Algorithm 3, line 3: a row outside the ball; exact loss of Algorithm 6 at a declared ε of 1",
        heads=("length of the projected row, in Λ", *(f"{one:.3g}" for one in lengths)),
        rows=tuple(
            (name, *(f"{swaps_loss(one, swaps=swaps, exponent=exponent, replace=how):.2f}" for one in lengths))
            for name, how in _BOTH
        ),
    )


def _choices() -> Table:
    distances = (1, 10, 100, 1000)
    return Table(
        title="Algorithm 3, line 9: centres that are not bounded, declared ε = 1",
        heads=("distance of a centre from 0, in Λ", *(f"{one:,}" for one in distances)),
        rows=tuple((name, *(f"{choice_loss(one, replace=how):,.2f}" for one in distances)) for name, how in _BOTH),
    )


def _levels() -> Table:
    rows = []
    for n in (20, 900, 10_000):
        few, level = math.floor(math.log(n)), 1 / (2 * math.log(n))
        rows.append((f"{n:,}", f"{level:.3f}", f"{few}", f"{tree_loss(n, few):.2f}", f"{tree_loss(n, n):.2f}"))
    return Table(
        title="Algorithm 4, while: levels of a tree, declared ε = 1",
        heads=("n", "ε' of a level", "log n, rounded down", "exact loss of log n levels", "exact loss of n levels"),
        rows=tuple(rows),
    )


def _thresholds() -> Table:
    dimensions = (1, 6, _WIDE)
    return Table(
        title="Algorithm 4, line 11: n in ε' and γ, 900 people against 899, one level, declared ε = 1",
        heads=("dimension p", *(str(p) for p in dimensions)),
        rows=(
            ("cells", *(f"{2**p:.3g}" for p in dimensions)),
            ("exact loss, add or remove", *(f"{threshold_loss(_HOSPITAL[0], p):.3g}" for p in dimensions)),
        ),
    )


def _roots() -> Table:
    swaps, exponent = _swaps_printed()
    rows = []
    for p in (1, 6, _WIDE):
        far, inside = 2 * math.sqrt(p), (1 - 1 / (2 * math.sqrt(p))) ** p
        losses = [swaps_loss(1, center=far, swaps=swaps, exponent=exponent, replace=how) for _, how in _BOTH]
        rows.append((str(p), f"{far:.2f}", *(f"{one:.2f}" for one in losses), f"{inside:.2f}"))
    return Table(
        title="Algorithm 5, line 4: candidates outside the ball; exact loss of Algorithm 6 at a declared ε of 1",
        heads=("dimension p", "farthest candidate, in Λ", *(name for name, _ in _BOTH), "P(a row is in the root)"),
        rows=tuple(rows),
    )


def _picks() -> Table:
    n, (swaps, exponent), few = _HOSPITAL[0], _swaps_printed(), _ours(*_HOSPITAL).swaps
    asked = (
        (f"as printed: {swaps:,} swaps, last sign +", swaps, exponent, True),
        (f"{swaps:,} swaps, last sign -", swaps, exponent, False),
        (f"corrected: {few} swaps, last sign -", few, 1 / (4 * (few + 1)), False),
    )
    rows = []
    for name, many, rate, worst in asked:
        losses = [swaps_loss(1, swaps=many, exponent=rate, replace=how, worst_last=worst) for _, how in _BOTH]
        rows.append((name, *(f"{one:.3f}" for one in losses), f"{_better_chance(n, many, rate, worst):.3f}"))
    return Table(
        title="Algorithm 6: two candidates, declared ε = 1",
        heads=("reading", *(name for name, _ in _BOTH), "P(the better one is returned)"),
        rows=tuple(rows),
    )


def _constants() -> Table:
    """Every constant of Algorithms 3 to 6 at an eICU hospital and at a synthetic entity, ε = 0.1."""
    rows: list[tuple[str, ...]] = []
    for n, k in (_HOSPITAL, (10_000, 100)):
        said, ours = printed_constants(n, k, 0.1, failure_probability=_FAILURE), _ours(n, k)
        level = float(ours.split()["candidate"].epsilon / (ours.trees * ours.depth))
        spent = f"{float(ours.epsilon):.2f}"
        typed = said.really_spent + 0.1 * (n / (12 * math.log(n)) - 1 / 12)
        where = f"n = {n:,}, k = {k}"
        rows += [
            (where, "projected dimension p", f"{said.dimension:.0f}", str(ours.dimension)),
            (where, "trials T", f"{said.trials:.1f}", str(ours.trials)),
            (where, "shifted trees", f"{said.trees:,.0f}", str(ours.trees)),
            (where, "levels of a tree", f"{n:,}", str(ours.depth)),
            (where, "ε' of a level", f"{said.level_epsilon:.1e}", f"{level:.1e}"),
            (where, "people for a cell to open, γ", f"{said.threshold:.1e}", f"{ours.threshold:,}"),
            (where, "swaps", f"{said.swaps:,.0f}", str(ours.swaps)),
            (where, "spent, add or remove, kindest reading (log n levels)", f"{said.really_spent:.2f}", spent),
            (where, "spent, add or remove, the same with n levels, as typed", f"{typed:.2f}", spent),
        ]
    return Table(title="Constants at ε = 0.1, δ = 0.1", heads=("size", "constant", "printed", "here"), rows=tuple(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every table of the page, and the numbers in its sentences."""
    parser = argparse.ArgumentParser(prog="python -m studies theorem", description=__doc__)
    parser.parse_args(arguments)
    for table in tables():
        print(f"{table.title}\n\n{table.markdown()}\n")
    print("Numbers in sentences\n")
    for phrase in phrases():
        print(f"- {phrase}")
