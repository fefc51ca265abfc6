r"""Exact weighted picks without replacement: the engine of the exponential mechanism and of Gumbel top-s.

Scores are integers q_j and a pick falls on j with probability proportional to exp(q_j/scale); the picked one
is taken out and the next pick is made among the rest. Durfee and Rogers 2019: this is exactly the law of
adding Gumbel(scale) noise to every score once and reading off the s largest in order. So the one-shot
mechanism can be had without a single Gumbel variable, and without the floating-point question of how finely
one is rounded.

Why it is exact
---------------
A pick is inverse-cdf sampling with one uniform number u. Weights relative to the largest score are computed
in log space, exp(-(max q - q_j)/scale), by `exp_filter`, each to a part of 2^-41; their running sum adds a
part of n·2^-53. If u·W stays on the same index when moved by these errors, the index is proven; otherwise
all weights are bounded in integer arithmetic and as many bits of u are drawn as it takes
(`twofold.privacy.mechanisms.lazy`). Weights too small for floating point are covered by the absolute part of
the margin.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from twofold.errors import BadPrivacyParameter
from twofold.privacy.grid import Integers
from twofold.privacy.mechanisms.certified import exp_minus
from twofold.privacy.mechanisms.lazy import RELATIVE, exp_filter, resolve
from twofold.privacy.rng import Source

__all__ = ["pick"]


def pick(scores: Integers, scale: Fraction, picks: int, source: Source) -> Integers:
    """Pick `picks` different indices, each next one with probability ∝ exp(score/scale) among those left.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> pick(np.array([0, 1000, 2000]), Fraction(1), 2, source())
    array([2, 1])
    """
    left = np.arange(scores.size)
    picked = np.empty(picks, dtype=np.int64)
    for turn in range(picks):
        gaps = scores[left].max() - scores[left]
        place = _one(gaps, scale, source)
        picked[turn] = left[place]
        left = np.delete(left, place)
    return picked


def check_scores(scores: Integers, picks: int) -> None:
    """Refuse scores that are not one list of at least `picks` candidates; only public sizes are named.

    Examples
    --------
    >>> check_scores(np.array([1, 2]), 3)
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: there are fewer candidates than picks...
    """
    if scores.ndim != 1:
        raise BadPrivacyParameter("scores are one list.", found=f"an array of {scores.ndim} dimensions")
    if scores.size < picks:
        raise BadPrivacyParameter(
            "there are fewer candidates than picks.", found=f"{scores.size} candidates, {picks} picks"
        )


def _one(gaps: Integers, scale: Fraction, source: Source) -> int:
    word = int(source.words(1)[0])
    running = np.cumsum(exp_filter(gaps.astype(np.float64) * float(1 / scale)))
    total = float(running[-1])
    aim = (word >> 11) * 2.0**-53 * total
    margin = total * (2 * RELATIVE + (gaps.size + 4) * 2.0**-52) + gaps.size * 2.0**-90
    first, last = np.searchsorted(running, [aim - margin, aim + margin], side="right")
    if first == last and first < gaps.size:
        return int(first)
    return resolve(lambda bits: _cumulative(gaps, scale, bits), word, 64, source)


def _cumulative(gaps: Integers, scale: Fraction, bits: int) -> tuple[list[int], list[int]]:
    """Integer bounds of 2^bits · P(index <= j)."""
    precision = bits + gaps.size.bit_length() + 8
    known = {gap: exp_minus(gap / scale, precision) for gap in map(int, np.unique(gaps))}
    lows, highs, low, high = [], [], 0, 0
    for gap in gaps.tolist():
        low, high = low + known[gap][0], high + known[gap][1]
        lows.append(low)
        highs.append(high)
    full = 1 << bits
    at_least = [(one << bits) // high for one in lows[:-1]]
    at_most = [min(full, -((-one << bits) // low)) for one in highs[:-1]]
    return [*at_least, full], [*at_most, full]
