"""Algorithm 1, made sound: noisy sums of each cluster, whole or cut to their largest entries, and noisy sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms._checks import choice, whole_number
from twofold.errors import BadPrivacyParameter, BadShape
from twofold.privacy.budget import ApproxDP, Number, PureDP, Split, positive, read_delta
from twofold.privacy.events import DiscreteLaplaceEvent, Event, ParallelEvent, SequentialEvent
from twofold.privacy.grid import Grid, Integers, whole
from twofold.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, GumbelTop, Released
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["Recovery", "counts_event", "noisy_counts", "recovery_method", "sparse_recovery"]

Method = Literal["noise-all", "select-first"]


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How sums are released: public numbers only, in grid units.

    Parameters
    ----------
    epsilon : number
        Price of all clusters' sums together.
    entry : int
        Largest size of one entry of a row (Λ).
    l1 : int
        Largest l1 norm of a row (B1).
    keep : int, optional
        How many entries of a sum to keep (s'); all when not given.
    signed : bool
        Whether entries may be negative; then the sizes of sums are compared.
    method : {"auto", "noise-all", "select-first", "gaussian"}
        Laplace noise on all entries and then keep the largest; or select entries first and add noise to those; or
        Gaussian noise on all entries. "auto" follows the public rules of `recovery_method` and, with a `delta`, takes
        Gaussian noise where its deviation is smaller.
    delta : number
        The δ of (ε, δ); above 0 for Gaussian noise, otherwise the release is pure ε.
    l2_squared : int, optional
        Largest squared l2 norm of a row, for Gaussian noise.
    unit, grid
        Whose presence is hidden, and what a grid unit is worth.

    Examples
    --------
    >>> Recovery(epsilon=1, entry=1, l1=60, keep=5, unit=Unit.person()).method
    'select-first'
    >>> Recovery(epsilon=1, entry=1, l1=60, keep=50, unit=Unit.person()).method
    'noise-all'
    """

    epsilon: Number
    entry: int
    l1: int
    unit: Unit
    keep: int | None = None
    signed: bool = False
    method: str = "auto"
    delta: Number = 0
    l2_squared: int | None = None
    grid: Grid = field(default_factory=Grid)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))
        whole_number("entry", self.entry)
        whole_number("l1", self.l1)
        choice("method", self.method, ("auto", "noise-all", "select-first", "gaussian"))
        object.__setattr__(self, "delta", read_delta(self.delta))
        if self.keep is not None:
            whole_number("keep", self.keep)
        if self.method == "auto":
            object.__setattr__(self, "method", self._best_method())
        if self.method == "select-first" and self.keep is None:
            raise BadPrivacyParameter("selection needs a number of entries to keep.", fix="keep=...")
        if self.method == "gaussian" and (self.delta == 0 or self.l2_squared is None):
            raise BadPrivacyParameter(
                "Gaussian noise needs a δ and an l2 bound.",
                fix="delta=1e-6, l2_squared=...",
                parameter="delta",
            )

    def _best_method(self) -> str:
        plain = recovery_method(keep=self.keep, entry=self.entry, l1=self.l1)
        if self.delta == 0 or self.l2_squared is None:
            return plain
        laplace, gaussian = (replace(self, method=one).deviation for one in (plain, "gaussian"))
        return "gaussian" if gaussian < laplace else plain

    @property
    def split(self) -> Split[PureDP]:
        """Halves for selection and values when entries are selected first; else all for the values."""
        whole_budget = PureDP(epsilon=self.epsilon)
        return whole_budget.split(select=1, values=1) if self.method == "select-first" else whole_budget.split(values=1)

    @property
    def laplace(self) -> DiscreteLaplace:
        """Noise on the values, at l1 sensitivity B1, or min(B1, s'Λ) on selected entries."""
        most = min(self.l1, (self.keep or 0) * self.entry) if self.method == "select-first" else self.l1
        return DiscreteLaplace(epsilon=self.split["values"].epsilon, sensitivity=most, unit=self.unit, grid=self.grid)

    @property
    def gaussian(self) -> DiscreteGaussian:
        """Noise on the values at l2 sensitivity √`l2_squared`, within (ε, δ)."""
        whole_budget = ApproxDP(epsilon=self.epsilon, delta=self.delta)
        most = whole_number("l2_squared", self.l2_squared)
        return DiscreteGaussian.within(whole_budget, sensitivity_squared=most, unit=self.unit, grid=self.grid)

    @property
    def noise(self) -> DiscreteLaplace | DiscreteGaussian:
        """Noise on the values."""
        return self.gaussian if self.method == "gaussian" else self.laplace

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one entry, in grid units, √2·scale for Laplace noise; public."""
        drawn = self.noise
        variance = drawn.variance if isinstance(drawn, DiscreteGaussian) else 2 * drawn.scale**2
        return math.sqrt(variance)

    def top(self, n_items: int) -> GumbelTop:
        """Selection among that many items: scale s'Λ/ε, twice that for signed entries, whose sizes are compared."""
        return GumbelTop(
            epsilon=self.split["select"].epsilon,
            picks=min(self.keep or n_items, n_items),
            sensitivity=self.entry,
            monotone=not self.signed,
            unit=self.unit,
            grid=self.grid,
        )

    def event(self, n_clusters: int, n_items: int, *, seeded: bool = False) -> Event:
        """Describe a release of that many sums before it is made."""
        if self.method != "select-first":
            return self.noise.event(n_clusters * n_items, seeded=seeded)
        top = self.top(n_items)
        picks = ParallelEvent.of(*[top.event(n_items, seeded=seeded)] * n_clusters)
        return SequentialEvent.of(picks, self.laplace.event(n_clusters * top.picks, seeded=seeded))


def recovery_method(*, keep: int | None, entry: int, l1: int) -> Method:
    """Choose by public numbers: select first only if s' < B1/(2Λ).

    Selecting first spends half the budget on a selection of scale 2s'Λ/ε and half on values of scale 2s'Λ/ε; noise on
    all entries has scale B1/ε with the whole budget, and keeping the largest is then free (audit, 3.5).

    Examples
    --------
    >>> recovery_method(keep=20, entry=1, l1=86), recovery_method(keep=66, entry=1, l1=86)
    ('select-first', 'noise-all')
    """
    return "select-first" if keep is not None and 2 * keep * entry < l1 else "noise-all"


def sparse_recovery(sums: ArrayLike, recovery: Recovery, *, rng: int | Source | None = None) -> Released[Integers]:
    """Release noisy sums of disjoint clusters.

    Parameters
    ----------
    sums : int array of shape (clusters, items)
        Sums of rows that are held to `recovery`'s bounds, in grid units.
    recovery : Recovery
        How; all public.
    rng : int or Source, optional
        Where the noise comes from.

    Returns
    -------
    Released
        Noisy sums in grid units; entries that were not kept are 0.

    Paper
    -----
    Algorithm 1.

    Privacy
    -------
    One row more or less changes one cluster (labels depend on the row alone), there by at most Λ per entry and B1 in
    l1. Selection: s' picks without replacement at ε_sel/s' each, Gumbel scale s'Λ/ε_sel when rows are non-negative
    (scores move one way), 2s'Λ/ε_sel for sizes of signed sums (L5). Values, given the selection: Laplace scale
    min(B1, s'Λ)/ε_val (L6). Clusters side by side: the dearest, and all cost the same. Replace-one costs twice.
    With a δ, Gaussian noise at the l2 norm of a row: zCDP, stated as (ε, δ).
    An empty cluster is a sum of zeros and takes the same path; sizes are never used here.

    Deviations
    ----------
    Sums, not means: the paper divides by the private size, and no pure ε holds then. As typed, line 2's Gumbel scale
    is proportional to ε·|μ|, the wrong way up and zero on zeros; line 4 spends a second ε. "Noise all, then keep the
    largest" is ours and better unless s' < B1/(2Λ).

    Examples
    --------
    >>> how = Recovery(epsilon=1000, entry=1, l1=3, keep=1, unit=Unit.person())
    >>> sparse_recovery([[0, 900, 2], [500, 0, 0]], how).value.tolist()
    [[0, 900, 0], [500, 0, 0]]
    """
    exact, noise = whole(sums), source(rng)
    if exact.ndim != 2 or exact.shape[0] < 1 or exact.shape[1] < 1:
        raise BadShape("sums need one row per cluster.", found=f"{exact.ndim} dimensions", expected="2 dimensions")
    event = recovery.event(*exact.shape, seeded=noise.seeded)
    if recovery.method != "select-first":
        noisy = recovery.noise.release(exact, rng=noise).value
        return Released(value=_largest(noisy, recovery), event=event)
    top = recovery.top(exact.shape[1])
    scores = np.abs(exact) if recovery.signed else exact
    picked = np.array([np.sort(top.release(line, rng=noise).value) for line in scores])
    values = recovery.laplace.release(np.take_along_axis(exact, picked, axis=1), rng=noise).value
    kept = np.zeros_like(exact)
    np.put_along_axis(kept, picked, values, axis=1)
    return Released(value=kept, event=event)


def noisy_counts(
    labels: ArrayLike, n_clusters: int, *, epsilon: Number, unit: Unit, rng: int | Source | None = None
) -> Released[Integers]:
    """Release the number of rows of each cluster; an empty cluster counts zero.

    Privacy
    -------
    One row more or less changes one count by one: Laplace scale 1/ε.

    Examples
    --------
    >>> noisy_counts([0, 0, 2], 3, epsilon=1000, unit=Unit.person()).value
    array([2, 0, 1])
    """
    known = whole(labels)
    if known.ndim != 1 or ((known < 0) | (known >= n_clusters)).any():
        raise BadShape("labels must be one list of cluster numbers.", expected=f"0 to {n_clusters - 1}")
    counts = np.bincount(known, minlength=n_clusters)
    return DiscreteLaplace(epsilon=epsilon, sensitivity=1, unit=unit).release(counts, rng=rng)


def counts_event(n_clusters: int, *, epsilon: Number, unit: Unit, seeded: bool = False) -> DiscreteLaplaceEvent:
    """Describe a release of counts before it is made.

    Examples
    --------
    >>> counts_event(3, epsilon="1/2", unit=Unit.person()).scale
    Fraction(2, 1)
    """
    return DiscreteLaplace(epsilon=epsilon, sensitivity=1, unit=unit).event(n_clusters, seeded=seeded)


def _largest(noisy: Integers, recovery: Recovery) -> Integers:
    """Keep the s' largest of each row, ties to the lower item; post-processing."""
    if recovery.keep is None or recovery.keep >= noisy.shape[1]:
        return noisy
    size: NDArray[np.int64] = np.abs(noisy) if recovery.signed else noisy
    order = np.argsort(-size, axis=1, kind="stable")[:, recovery.keep :]
    kept = noisy.copy()
    np.put_along_axis(kept, order, 0, axis=1)
    return kept
