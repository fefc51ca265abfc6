"""Every private mechanism end to end, as `twofold audit` attacks it: tiny data, two neighbours, and the claim.

The neighbour has one user more, at the bounds and all in one item. Public numbers promise many users, so that nothing
falls back. The score of an outcome adds up the released numbers of that item and the counts over the prototypes, each
held to what the extra user can move it by: past that, Laplace noise has nothing more to tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.privacy.audit.lower_bound import repeat
from twofold.privacy.audit.subjects import Subject
from twofold.privacy.budget import ApproxDP
from twofold.privacy.rng import Source
from twofold.prototypes.base import Feedback, Mechanism, Public
from twofold.prototypes.bilinear.audit import bilinear_subjects
from twofold.prototypes.registry import PRIVATE, mechanism

__all__ = ["prototype_subjects"]

_RUNS = {"popularity": 2000, "buckets": 1500, "sulq": 500, "balcan": 150}
_OPTIONS: dict[str, dict[str, Any]] = {"buckets": {"cells_per_prototype": 1}, "sulq": {"start_cells": 1}}
_DELTA = 1e-5


def prototype_subjects(*, runs: int | None = None) -> list[Subject]:
    """Subjects for the audit: every mechanism, both feedbacks, pure and with δ where it makes a difference.

    Parameters
    ----------
    runs : int, optional
        Runs on each side; more for the cheaper mechanisms by default. A run of the bilinear mechanism is one canary.

    Examples
    --------
    >>> [subject.name for subject in prototype_subjects()][:2]
    ['balcan, counts', 'balcan, ratings']
    """
    made = []
    for name in PRIVATE:
        for feedback in ("counts", "ratings"):
            made.append(_subject(name, feedback, 0.0, runs or _RUNS[name]))
        if name != "balcan":  # always pure
            made.append(_subject(name, "counts", _DELTA, runs or _RUNS[name]))
    return [*made, *(bilinear_subjects(canaries=runs) if runs else bilinear_subjects())]


def _subject(name: str, feedback: Feedback, delta: float, runs: int) -> Subject:
    public = _public(feedback, delta)
    law = ", with δ" if delta else ""
    return Subject(
        name=f"{name}, {feedback}{law}",
        claimed=ApproxDP(epsilon=public.epsilon, delta=public.delta),
        batch=repeat(_Run(mechanism(name, **_OPTIONS.get(name, {})), public)),
        data=_rows(extra=False),
        neighbour=_rows(extra=True),
        runs=runs,
        statistic=lambda outcomes: outcomes,
    )


def _public(feedback: Feedback, delta: float) -> Public:
    centre = 2.0 if feedback == "ratings" else 0.0
    return Public(
        n_items=3,
        n_users=100_000,
        max_items=1,
        bound=4,
        feedback=feedback,
        centre=centre,
        n_prototypes=2,
        epsilon=1,
        delta=delta,
    )


def _rows(*, extra: bool) -> NDArray[Any]:
    few = np.array([[0, 4, 0], [0, 0, 4]])
    return np.concatenate([few, [[4, 0, 0]]]) if extra else few


class _Run:
    """One release, reduced to a number."""

    def __init__(self, chosen: Mechanism, public: Public) -> None:
        self.chosen, self.public = chosen, public

    def __call__(self, rows: NDArray[Any], noise: Source) -> float:
        message = self.chosen.release(rows, self.public, rng=noise).value
        units, noise_of = message.units, message.noise
        sums = np.clip(message.value_sums()[:, 0], 0, self.public.value_cap) / max(noise_of.values, 1e-9)
        counts = np.clip(message.counts * units.counts, 0, 3) / max(noise_of.counts, 1e-9)
        score = sums.sum() + counts.sum()
        if message.observed is not None:
            score += (np.clip(message.observation_counts()[:, 0], 0, 1) / max(noise_of.observed, 1e-9)).sum()
        return float(score)
