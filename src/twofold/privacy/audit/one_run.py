"""Many canaries in one run: a lower bound on ε from a single release (Steinke, Nasr and Jagielski 2023).

Each of m canaries is put in or left out by a fair coin. From the one release a guess is made for some of
them. If the mechanism is (ε, δ)-private, the number of right guesses among r is stochastically below a
Binomial(r, e^ε/(1 + e^ε)), up to a term in δ (theorem 5.2 of the paper). Too many right guesses contradict ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadPrivacyParameter
from twofold.privacy.rng import Source, source

__all__ = ["OneRun", "audit_one_run", "epsilon_from_guesses"]


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """How many canaries, guesses and right guesses there were, and the ε they prove."""

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
        raise BadPrivacyParameter("guess at least one canary and at most all.", found=f"{guesses} of {canaries}")
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
    """Largest ε that so many right guesses contradict, at that confidence; 0 when they contradict none.

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
