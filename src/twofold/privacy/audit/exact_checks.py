"""Three checks that need no statistics: exact privacy losses, equal parameters, and the floating-point attack.

*Exact losses.* A law is a mapping from outcome to probability. The loss between two laws is the largest |log ratio|
over all outcomes, infinite where one can happen and the other cannot. The laws here are written from the definitions,
not from the samplers, so that the two can be held against each other.

*Equal parameters.* Neighbouring data sets must give identical parameters: a noise scale, a size or a number of rounds
that depends on the data is a leak that no ε in the event accounts for. The events of two runs on neighbours, and the
shapes of what was released, are compared field by field. Only names of differing fields are reported, never their
values, which may be private.

*The floating-point attack* of Mironov 2012 reads the data off the last bits of a naive Laplace noise. ``value + scale *
log(u)`` with u on a grid of 2^-53 does not reach every floating-point number: many numbers that the sampler can produce
around 1 it can never produce around 0. Seeing one proves the value was not 0, so ε is infinite whatever the scale.
`reachable` decides it by inverting the sampler. Our noise is added to integers and has every integer as its support,
whatever the value; the same attack on it finds nothing. `naive_laplace` exists for this demonstration only and is not
private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from twofold.privacy.audit.lower_bound import Batch, LowerBound, lower_bound
from twofold.privacy.events import Released
from twofold.privacy.rng import Source, source

__all__ = [
    "Loss",
    "differing_parameters",
    "discrete_laplace_law",
    "hockey_stick",
    "loss_table",
    "naive_laplace",
    "precision_attack",
    "privacy_loss",
    "reachable",
    "selection_law",
    "threshold_law",
]

Floats = NDArray[np.float64]
Outcome = TypeVar("Outcome", bound=Hashable)
_STEP = 2.0**-53


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


def differing_parameters(
    mechanism: Callable[[Any, Source], Released[Any]],
    data: Any,
    neighbour: Any,
    *,
    fixed_shape: bool = True,
    seed: int = 0,
) -> tuple[str, ...]:
    """Names of event fields (and "shape") that differ between runs on two neighbours; empty if none differ.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, source)`` returns a `Released`.
    data, neighbour : object
        The two data sets.
    fixed_shape : bool
        Whether the released value must have the same shape on both. False for mechanisms whose result is a
        random list, such as open cells.
    seed : int
        Both runs use it.

    Examples
    --------
    >>> from twofold.privacy.mechanisms.laplace import DiscreteLaplace
    >>> from twofold.privacy.unit import Unit
    >>> def seen_items_only(data, noise):
    ...     laplace = DiscreteLaplace(epsilon=1, sensitivity=1, unit=Unit.person())
    ...     return laplace.release(data[data > 0], rng=noise)
    >>> differing_parameters(seen_items_only, np.array([3, 0]), np.array([3, 1]))
    ('coordinates', 'shape')
    """
    one, two = mechanism(data, source(seed)), mechanism(neighbour, source(seed))
    names = list(_differences(one.event.as_dict(), two.event.as_dict(), ""))
    if fixed_shape and np.shape(one.value) != np.shape(two.value):
        names.append("shape")
    return tuple(names)


def _differences(one: object, two: object, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(set(one) | set(two)):
            yield from _differences(one.get(key), two.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for index, pair in enumerate(zip(one, two, strict=True)):
            yield from _differences(*pair, f"{path}[{index}]")
    elif one != two:
        yield path


def naive_laplace(value: float, runs: int, noise: Source, *, scale: float = 1.0) -> Floats:
    """Textbook Laplace noise in floating point. NOT PRIVATE: a subject for `precision_attack`.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> naive_laplace(0.0, 3, source(0)).shape
    (3,)
    """
    words = noise.words(runs)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 1.0) * _STEP
    sign = np.where((words & np.uint64(1)).astype(bool), -1.0, 1.0)
    return np.asarray(value + sign * (-scale * np.log(uniform)), dtype=np.float64)


def reachable(outcomes: Floats, *, value: float, scale: float = 1.0) -> NDArray[np.bool_]:
    """Whether the naive sampler could have produced each outcome from this value.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> bool(reachable(naive_laplace(0.0, 1000, source(0)), value=0.0).all())
    True
    """
    guess = np.rint(np.exp(-np.abs(outcomes - value) / scale) / _STEP)
    found = np.zeros(outcomes.shape, dtype=bool)
    for offset in range(-4, 5):  # exp and log may each be off by a few steps
        uniform = np.clip(guess + offset, 1.0, 1 / _STEP) * _STEP
        noise = -scale * np.log(uniform)
        found |= (value + noise == outcomes) | (value - noise == outcomes)
    return found


def precision_attack(
    mechanism: Batch,
    value: float,
    neighbour: float,
    *,
    scale: float = 1.0,
    runs: int = 20_000,
    confidence: float = 0.95,
    rng: int | Source | None = None,
) -> LowerBound:
    """Lower bound on ε from the event "the naive sampler could not have produced this from `value`".

    Examples
    --------
    >>> precision_attack(naive_laplace, 0.0, 1.0, runs=2000, rng=0).epsilon > 4  # claimed: 1
    True
    """
    return lower_bound(
        mechanism,
        value,
        neighbour,
        runs=runs,
        confidence=confidence,
        statistic=lambda outcomes: ~reachable(outcomes.astype(np.float64), value=value, scale=scale),
        rng=rng,
    )
