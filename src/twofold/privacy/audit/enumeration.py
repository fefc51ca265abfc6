"""Exact enumeration: every outcome of a mechanism on a tiny domain, and the privacy loss it really has.

A law is a mapping from outcome to probability. The loss between two laws is the largest |log ratio| over all
outcomes, infinite where one can happen and the other cannot. The laws here are written from the definitions,
not from the samplers, so that the two can be held against each other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

__all__ = [
    "Loss",
    "discrete_laplace_law",
    "hockey_stick",
    "loss_table",
    "privacy_loss",
    "selection_law",
    "threshold_law",
]

Outcome = TypeVar("Outcome", bound=Hashable)


def privacy_loss(one: Mapping[Outcome, float], two: Mapping[Outcome, float]) -> float:
    """Largest |log ratio| over all outcomes of two laws.

    Examples
    --------
    >>> round(privacy_loss({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75}), 3)
    1.099
    >>> privacy_loss({"open": 0.1, "shut": 0.9}, {"shut": 1.0})
    inf
    """
    worst = 0.0
    for outcome in set(one) | set(two):
        p, q = one.get(outcome, 0.0), two.get(outcome, 0.0)
        if (p > 0) != (q > 0):
            return math.inf
        if p > 0:
            worst = max(worst, abs(math.log(p) - math.log(q)))
    return worst


def hockey_stick(one: Mapping[Outcome, float], two: Mapping[Outcome, float], epsilon: float) -> float:
    """Smallest δ for which the first law is (ε, δ)-close to the second: Σ max(0, p - e^ε q).

    Examples
    --------
    >>> round(hockey_stick({"a": 0.75, "b": 0.25}, {"a": 0.25, "b": 0.75}, 0.0), 3)
    0.5
    """
    return sum(max(0.0, p - math.exp(epsilon) * two.get(outcome, 0.0)) for outcome, p in one.items())


def selection_law(scores: Sequence[float], scale: float, picks: int) -> dict[tuple[int, ...], float]:
    """Law of ordered picks without replacement with weights exp(score/scale).

    Examples
    --------
    >>> {k: round(p, 3) for k, p in selection_law([0, math.log(3)], 1, 1).items()}
    {(0,): 0.25, (1,): 0.75}
    """
    if picks == 0:
        return {(): 1.0}
    top = max(scores)
    weights = [math.exp((score - top) / scale) for score in scores]
    total = math.fsum(weights)
    law: dict[tuple[int, ...], float] = {}
    for first, weight in enumerate(weights):
        rest = [index for index in range(len(scores)) if index != first]
        inner = selection_law([scores[index] for index in rest], scale, picks - 1)
        for tail, probability in inner.items():
            law[(first, *(rest[index] for index in tail))] = weight / total * probability
    return law


def threshold_law(counts: Sequence[int], scale: float, threshold: int) -> dict[tuple[bool, ...], float]:
    """Law of which cells open when count + discrete Laplace noise exceeds the threshold.

    Examples
    --------
    >>> law = threshold_law([5], 1.0, 5)
    >>> round(law[(True,)], 3)  # a/(1+a) with a = 1/e
    0.269
    """
    # P(noise <= gap) = P(noise > -gap - 1): computed on its own, not as one minus the other, to keep its
    # digits
    sides = [(_above(count - threshold - 1, scale), _above(threshold - count, scale)) for count in counts]
    return {
        outcome: math.prod(side[opened] for side, opened in zip(sides, outcome, strict=True))
        for outcome in product((False, True), repeat=len(counts))
    }


def discrete_laplace_law(value: int, scale: float, reach: int) -> dict[int, float]:
    """Law of value + discrete Laplace noise on the whole numbers up to `reach` from zero.

    Examples
    --------
    >>> round(discrete_laplace_law(0, 1.0, 3)[0], 3)
    0.462
    """
    ratio = math.exp(-1 / scale)
    base = (1 - ratio) / (1 + ratio)
    return {y: base * math.exp(-abs(y - value) / scale) for y in range(-reach, reach + 1)}


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One line of the enumeration table: what was claimed and what was found."""

    mechanism: str
    adjacency: str
    claimed: float
    found: float

    @property
    def tight(self) -> bool:
        """Whether the claim holds and is attained within one percent."""
        return 0.99 * self.claimed <= self.found <= self.claimed * (1 + 1e-9)


def loss_table(epsilon: float = 1.0) -> list[Loss]:
    """Worst cases of selection, threshold, swap and noise under add/remove and replace, enumerated.

    Selection: 6 items, 3 picks, a unit with items 0, 1 and 2 whose scores carry all the weight. Threshold:
    two cells, one well below the threshold and one well above. Swap: 4 candidates, losses moved by 0 to the
    sensitivity. In each the worst outcome is among those enumerated.

    Examples
    --------
    >>> all(line.tight for line in loss_table())
    True
    """
    return [*_selection_losses(epsilon), *_threshold_losses(epsilon), *_swap_losses(epsilon), *_noise_losses(epsilon)]


def _selection_losses(epsilon: float) -> list[Loss]:
    scale, far = 3 / epsilon, 40 / epsilon
    base = [far, far, far, 0.0, 0.0, 0.0]
    added, other = [far + 1] * 3 + [0.0] * 3, [far] * 3 + [1.0] * 3
    law = [selection_law(scores, scale, 3) for scores in (base, added, other)]
    return [
        _line("selection, 3 of 6", epsilon, 1, privacy_loss(law[0], law[1])),
        _line("selection, 3 of 6", epsilon, 2, privacy_loss(law[1], law[2])),
    ]


def _threshold_losses(epsilon: float) -> list[Loss]:
    scale, threshold = 1 / epsilon, 12
    law = [threshold_law(counts, scale, threshold) for counts in ([3, 21], [4, 21], [3, 22])]
    return [
        _line("threshold, 2 cells", epsilon, 1, privacy_loss(law[0], law[1])),
        _line("threshold, 2 cells", epsilon, 2, privacy_loss(law[1], law[2])),
    ]


def _swap_losses(epsilon: float) -> list[Loss]:
    """Scores are minus losses; one more unit with loss between 0 and 4 to every candidate."""
    sensitivity = 4.0
    scale, far = sensitivity / epsilon, 120 / epsilon
    base = [0.0, -far, -far, -far]
    added = [0.0, -far - sensitivity, -far, -far]
    other = [-sensitivity, -far, -far, -far]
    law = [selection_law(scores, scale, 1) for scores in (base, added, other)]
    return [
        _line("swap, 4 candidates", epsilon, 1, privacy_loss(law[0], law[1])),
        _line("swap, 4 candidates", epsilon, 2, privacy_loss(law[1], law[2])),
    ]


def _noise_losses(epsilon: float) -> list[Loss]:
    law = [discrete_laplace_law(value, 1 / epsilon, 30) for value in (0, 1, -1)]
    return [
        _line("discrete Laplace", epsilon, 1, privacy_loss(law[0], law[1])),
        _line("discrete Laplace", epsilon, 2, privacy_loss(law[1], law[2])),
    ]


def _line(mechanism: str, epsilon: float, factor: int, found: float) -> Loss:
    adjacency = "add or remove" if factor == 1 else "replace"
    return Loss(mechanism=mechanism, adjacency=adjacency, claimed=factor * epsilon, found=found)


def _above(gap: int, scale: float) -> float:
    """P(noise > gap) of discrete Laplace noise."""
    ratio = math.exp(-1 / scale)
    if gap >= 0:
        return math.exp(-(gap + 1) / scale) / (1 + ratio)
    return 1 - math.exp(gap / scale) / (1 + ratio)
