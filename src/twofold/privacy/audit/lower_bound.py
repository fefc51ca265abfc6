"""Lower bounds on ε with a stated confidence: from many runs on two neighbours, or from many canaries in one run.

*Two neighbours.* For any event S, an (ε, δ)-private mechanism has P(S | D) <= e^ε P(S | D') + δ. Runs on both sides
give confidence intervals for the two probabilities (Clopper and Pearson 1934), hence ε >= log((P(S | D) - δ)/P(S | D'))
with that confidence. The event is chosen on one half of the runs and judged on the other, so choosing costs nothing.

*One run* (Steinke, Nasr and Jagielski 2023). Each of m canaries is put in or left out by a fair coin. From the one
release a guess is made for some of them. If the mechanism is (ε, δ)-private, the number of right guesses among r is
stochastically below a Binomial(r, e^ε/(1 + e^ε)), up to a term in δ (theorem 5.2 of the paper). Too many right guesses
contradict ε.

A bound above the claim falsifies the mechanism. A bound below it proves nothing: it is an attempt that failed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadPrivacyParameter
from twofold.privacy.rng import Source, source

__all__ = [
    "LowerBound",
    "OneRun",
    "audit_one_run",
    "clopper_pearson",
    "epsilon_from_guesses",
    "likelihood_ratio",
    "lower_bound",
    "repeat",
]

Floats = NDArray[np.float64]
Batch = Callable[[Any, int, Source], NDArray[Any]]
Statistic = Callable[[NDArray[Any]], NDArray[Any]]
_THRESHOLDS = 400


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What the runs prove: ε is at least `epsilon`, with the stated confidence."""

    epsilon: float
    confidence: float
    runs: int
    event: str


def lower_bound(
    mechanism: Batch,
    data: Any,
    neighbour: Any,
    *,
    runs: int = 20_000,
    delta: float = 0.0,
    confidence: float = 0.95,
    statistic: Statistic | None = None,
    rng: int | Source | None = None,
) -> LowerBound:
    """Try to falsify a mechanism on one pair of neighbours.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, runs, source)`` returns an array of outcomes, one per run along the first axis;
        `repeat` makes one from a callable that runs once.
    data, neighbour : object
        The two data sets, handed through as they are.
    runs : int
        Runs on each side.
    delta, confidence : float
        The δ of the claim, and how sure the bound shall be.
    statistic : callable, optional
        Turns outcomes into numbers to threshold. By default one-dimensional numbers are taken as they are,
        and other outcomes get the log likelihood ratio learnt from the first half.

    Examples
    --------
    >>> def leaky(data, runs, source):
    ...     return np.full(runs, data)
    >>> lower_bound(leaky, 0, 1, runs=2000, rng=0).epsilon > 5
    True
    """
    if runs < 100 or not 0 < confidence < 1:
        raise BadPrivacyParameter("an audit needs at least 100 runs and a confidence between 0 and 1.")
    noise = source(rng)
    one, two = mechanism(data, runs, noise), mechanism(neighbour, runs, noise)
    half = runs // 2
    score = statistic or _default_statistic(one[:half], two[:half])
    first, second = _numbers(score(one)), _numbers(score(two))
    cut, sign, swapped = _choose(first[:half], second[:half], delta, confidence)
    a, b = (second, first) if swapped else (first, second)
    hits = int((sign * a[half:] >= cut).sum()), int((sign * b[half:] >= cut).sum())
    bound = _bound(np.array([hits[0]]), np.array([hits[1]]), runs - half, delta, confidence)[0]
    side = "neighbour" if swapped else "data"
    text = f"statistic {'>=' if sign > 0 else '<='} {sign * cut:.6g}, more likely on {side}"
    return LowerBound(epsilon=max(0.0, float(bound)), confidence=confidence, runs=runs, event=text)


def repeat(single: Callable[[Any, Source], Any]) -> Batch:
    """Make a batch of runs from a callable that runs once.

    Examples
    --------
    >>> repeat(lambda data, noise: data + 1)(3, 2, source(0))
    array([4, 4])
    """

    def batch(data: Any, runs: int, noise: Source) -> NDArray[Any]:
        return np.array([single(data, noise) for _ in range(runs)])

    return batch


def clopper_pearson(hits: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided confidence interval of a probability.

    Examples
    --------
    >>> tuple(round(end, 4) for end in clopper_pearson(5, 10))
    (0.1871, 0.8129)
    """
    low, high = _interval(np.array([hits]), trials, (1 - confidence) / 2)
    return float(low[0]), float(high[0])


def likelihood_ratio(one: NDArray[Any], two: NDArray[Any]) -> Statistic:
    """Score outcomes by the log ratio of how often two samples hold them, with one added to each count.

    Examples
    --------
    >>> score = likelihood_ratio(np.array([[1, 2]] * 3), np.array([[0, 2]] * 3))
    >>> score(np.array([[1, 2], [0, 2], [9, 9]])).round(2)
    array([ 1.39, -1.39,  0.  ])
    """
    counts = Counter(_keys(one)), Counter(_keys(two))

    def score(outcomes: NDArray[Any]) -> Floats:
        ratios = [math.log((counts[0][key] + 1) / (counts[1][key] + 1)) for key in _keys(outcomes)]
        return np.array(ratios)

    return score


def _default_statistic(one: NDArray[Any], two: NDArray[Any]) -> Statistic:
    if one.ndim == 1 and one.dtype.kind in "iufb":
        return lambda outcomes: outcomes
    return likelihood_ratio(one, two)


def _keys(outcomes: NDArray[Any]) -> list[Any]:
    if outcomes.dtype == object or outcomes.ndim == 1:
        return outcomes.tolist()  # type: ignore[no-any-return]
    return [row.tobytes() for row in outcomes]


def _numbers(scores: NDArray[Any]) -> Floats:
    return np.asarray(scores, dtype=np.float64)


def _choose(first: Floats, second: Floats, delta: float, confidence: float) -> tuple[float, int, bool]:
    """Event with the best bound on these runs: a cut, a side of it, and which data set makes it likelier."""
    best, choice = -math.inf, (0.0, 1, False)
    for sign in (1, -1):
        pool = np.unique(sign * np.concatenate([first, second]))
        cuts = pool if pool.size <= _THRESHOLDS else np.quantile(pool, np.linspace(0, 1, _THRESHOLDS))
        counts = [_at_least(sign * sample, cuts) for sample in (first, second)]
        for swapped in (False, True):
            a, b = reversed(counts) if swapped else counts
            bounds = _bound(a, b, first.size, delta, confidence)
            place = int(np.argmax(bounds))
            if bounds[place] > best:
                best, choice = bounds[place], (float(cuts[place]), sign, swapped)
    return choice


def _at_least(sample: Floats, cuts: Floats) -> NDArray[np.int64]:
    return sample.size - np.searchsorted(np.sort(sample), cuts, side="left")


def _bound(
    likelier: NDArray[np.int64], other: NDArray[np.int64], trials: int, delta: float, confidence: float
) -> Floats:
    tail = (1 - confidence) / 2  # one end of each of two intervals
    low, _ = _interval(likelier, trials, tail)
    _, high = _interval(other, trials, tail)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 0.0)) - np.log(high), -np.inf)


def _interval(hits: NDArray[np.int64], trials: int, tail: float) -> tuple[Floats, Floats]:
    from scipy.stats import beta

    low = np.where(hits > 0, beta.ppf(tail, np.maximum(hits, 1), trials - hits + 1), 0.0)
    high = np.where(hits < trials, beta.ppf(1 - tail, hits + 1, np.maximum(trials - hits, 1)), 1.0)
    return low, high


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """Number of canaries, guesses and right guesses, and the ε they prove."""

    epsilon: float
    confidence: float
    canaries: int
    guesses: int
    right: int


def audit_one_run(
    release: Callable[[NDArray[np.bool_], Source], NDArray[np.float64]],
    *,
    canaries: int,
    guesses: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    rng: int | Source | None = None,
) -> OneRun:
    """Audit one release that carries many canaries.

    Parameters
    ----------
    release : callable
        ``release(present, source)`` runs the mechanism once on data in which canary i is present where
        ``present[i]``, and returns one score per canary, larger when it seems present, centred on zero.
    canaries, guesses : int
        How many canaries there are, and how many of the clearest (by size of the score) are guessed.
    delta, confidence : float
        The δ of the claim, and how sure the bound shall be.

    Examples
    --------
    >>> def leaky(present, noise):
    ...     return np.where(present, 1.0, -1.0)
    >>> audit_one_run(leaky, canaries=1000, guesses=1000, rng=0).epsilon > 5
    True
    """
    if not 1 <= guesses <= canaries:
        raise BadPrivacyParameter(
            "guess at least one canary and at most all.", found=f"{guesses} of {canaries}", parameter="guesses"
        )
    noise = source(rng)
    present = (noise.words(canaries) & np.uint64(1)).astype(bool)
    scores = release(present, noise)
    # ties in clearness are broken by position, which says nothing about presence
    clearest = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    right = int(((scores[clearest] > 0) == present[clearest]).sum())
    epsilon = epsilon_from_guesses(canaries, guesses, right, delta=delta, confidence=confidence)
    return OneRun(epsilon=epsilon, confidence=confidence, canaries=canaries, guesses=guesses, right=right)


def epsilon_from_guesses(
    canaries: int, guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Largest ε that this many right guesses contradict, at that confidence; 0 if they contradict none.

    Examples
    --------
    >>> round(epsilon_from_guesses(1000, 1000, 750), 2)
    0.98
    >>> epsilon_from_guesses(1000, 1000, 500)
    0.0
    """
    low, high = 0.0, 50.0
    if _chance(canaries, guesses, right, low, delta) > 1 - confidence:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        impossible = _chance(canaries, guesses, right, middle, delta) <= 1 - confidence
        low, high = (middle, high) if impossible else (low, middle)
    return low


def _chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Bound on the probability of at least `right` right guesses under (ε, δ)-privacy."""
    from scipy.stats import binom

    share = 1 / (1 + math.exp(-epsilon))
    plain = float(binom.sf(right - 1, guesses, share))
    if delta == 0:
        return plain
    below = binom.pmf(np.arange(right - 1, -1, -1), guesses, share)
    slope = float((np.cumsum(below) / np.arange(1, right + 1)).max(initial=0.0))
    return min(1.0, plain + 2 * canaries * delta * slope)
