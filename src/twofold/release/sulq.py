"""SuLQ, also called DP-Lloyd: a few noisy Lloyd steps from a public start (Blum, Dwork, McSherry and Nissim 2005)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from twofold.privacy.budget import ZCDP, PureDP, Split
from twofold.privacy.events import Released, SequentialEvent
from twofold.privacy.rng import Source, source
from twofold.release.buckets import Buckets, bucket_of
from twofold.release.cells import CellNoise, centres, padded, spec_usefulness
from twofold.release.combine import stacked
from twofold.release.content import Floats, Integers, Prototypes, WeightedRows
from twofold.release.contract import Adding, ReleaseParameters, ReleaseSpec, check_rows, check_whole
from twofold.release.records import Block, RecordPlan, directions, statistic
from twofold.release.usefulness import Usefulness, noise_ratio

__all__ = ["SuLQ", "halved_cell", "nearest_cell", "noisy_step"]

# A Lloyd step is taken while the noise stays this far below the largest pattern possible.
_QUIET = 0.25


@dataclass(frozen=True, kw_only=True)
class SuLQ:
    """Noisy sums and counts of public cells, merged into centres, then of the users nearest to each centre.

    Parameters
    ----------
    steps : int
        Most Lloyd steps after the start. Fewer are taken when public numbers say that the noise of all steps
        would hide the largest pattern possible. When that is so for one step, it falls back to `Buckets`, which in
        turn falls back to one prototype. All steps but the last halve every cluster along a public direction.
    start_cells : int
        Public cells of the start for each prototype.

    Paper
    -----
    SuLQ k-means is in its related work. The start is ours: Blum et al. leave it open, and a random start in many
    dimensions ends in poor local minima. Cells by public directions (`Buckets`) part users before any budget is
    spent, and merging them by weighted k-means is post-processing. Two clusters in one public cell are a minimum that
    no Lloyd step leaves; halving along another direction parts them.

    Privacy
    -------
    A user's cell depends on the user's own record, on public directions and on centres computed from what was released
    before, in whole numbers. So each step is one `CellNoise`, and steps compose one after the other. The number of
    steps is a function of public numbers. The centres need not be released, but they could be.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=3, n_users=10**6, max_items=2, bound=1, n_prototypes=2, epsilon=10)
    >>> released = SuLQ().release(np.array([[1, 0, 1], [0, 1, 0]]), public)
    >>> released.value.sums.shape, len(released.event.events)
    ((2, 3), 3)
    """

    steps: int = 2
    start_cells: int = 12

    def __post_init__(self) -> None:
        for name in ("steps", "start_cells"):
            check_whole(name, getattr(self, name))

    @property
    def name(self) -> str:
        """Name in a plan."""
        return "sulq"

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """The plan's number of prototypes, one event for the start and one for each step; or those of the fallback."""
        fallback = self._fallback(public)
        if fallback is not None:
            return fallback.spec(public)
        noises = self._noises(public)
        return noises[-1].spec(
            mechanism=self.name, stacks=True, event=SequentialEvent.of(*(noise.event() for noise in noises))
        )

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Judge the noise of the last step."""
        return spec_usefulness(self.spec(public), public)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release sums and counts of the last step; earlier steps only steer it."""
        fallback = self._fallback(public)
        if fallback is not None:
            return fallback.release(rows, public, rng=rng)
        matrix, words, (first, *later) = check_rows(rows, public), source(rng), self._noises(public)
        lines = directions(count=first.cells, n_items=public.n_items, seed=public.seed)
        exact = statistic(matrix, public, first.plan, lambda block: bucket_of(block, lines), cells=first.cells)
        done = [first.release(exact, name=self.name, rng=words)]
        for noise in later:
            middle = padded(centres(done[-1].value, public), public, count=public.n_prototypes)
            done.append(noisy_step(matrix, middle, noise, words, name=self.name))
        return Released(value=done[-1].value, event=SequentialEvent.of(*(one.event for one in done)))

    def adding(self, public: ReleaseParameters) -> Adding | None:
        """Only after a fallback: every Lloyd step looks at all rows again, with noise in between."""
        fallback = self._fallback(public)
        return None if fallback is None else fallback.adding(public)

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Stack the rows: every entity has its own clusters. After a fallback, combine as the fallback does."""
        fallback = self._fallback(public)
        return stacked(messages, public) if fallback is None else fallback.combine(messages, public)

    def _noises(self, public: ReleaseParameters, steps: int | None = None) -> list[CellNoise]:
        """The start and the steps; the last costs twice as much as the others, since it is the one that leaves."""
        number = self._steps(public) if steps is None else steps
        weights = {f"step{step}": 1 + (step == number) for step in range(number + 1)}
        budget = public.budget
        parts: Split[Any] = budget.split(**weights)
        return [self._noise(public, parts[f"step{step}"], step, step == number) for step in range(number + 1)]

    def _noise(self, public: ReleaseParameters, budget: PureDP | ZCDP, step: int, last: bool) -> CellNoise:
        cells = public.n_prototypes * (1 if last else 2 if step else self.start_cells)
        return CellNoise(public=public, budget=budget, cells=cells, observed=None if last else False)

    def _steps(self, public: ReleaseParameters) -> int:
        for steps in range(self.steps, 1, -1):
            if self._ratio(public, steps) <= _QUIET:
                return steps
        return 1

    def noise_ratio(self, public: ReleaseParameters) -> float:
        """Noise energy in a prototype of one step over that of the largest possible pattern; public."""
        return self._ratio(public, 1)

    def _ratio(self, public: ReleaseParameters, steps: int) -> float:
        noises = self._noises(public, steps)
        return max(noise_ratio(public, noise=noise.noise.values, cells=public.n_prototypes) for noise in noises)

    def _fallback(self, public: ReleaseParameters) -> Buckets | None:
        ratio = self._ratio(public, 1)
        if ratio <= 1 or public.n_prototypes == 1:
            return None
        note = f"no Lloyd step: its noise would have {ratio:.3g} times the energy of the largest possible pattern"
        return Buckets(name=self.name, note=note, cells_per_prototype=self.start_cells)


def nearest_cell(block: Block, points: Floats, plan: RecordPlan) -> Integers:
    """Number of the nearest point of every user, in whole numbers; ties go to the lower number.

    Notes
    -----
    |x - c|² is smallest where 2 x·c - |c|² is largest. Points are put on the grid of the values and everything is
    exact, so that a user's cell cannot depend on the layout of other users in memory.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=2, max_items=2, bound=1)
    >>> block = Block(
    ...     values=np.array([5, 700]), observed=None, columns=np.array([0, 0]), starts=np.array([0, 1, 2]), n_items=2
    ... )
    >>> nearest_cell(block, np.array([[0.5, 0.0], [0.0, 0.0]]), RecordPlan.of(public))
    array([1, 0])
    """
    whole = plan.grid.put(points)
    scores = 2 * block.products(whole) - (whole**2).sum(axis=1)
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def halved_cell(block: Block, points: Floats, lines: Integers, plan: RecordPlan) -> Integers:
    """Twice the number of the nearest point, plus one for users on the far side of it along that point's direction.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=1, n_users=2, max_items=1, bound=1)
    >>> block = Block(
    ...     values=np.array([5, 700]), observed=None, columns=np.array([0, 0]), starts=np.array([0, 1, 2]), n_items=1
    ... )
    >>> halved_cell(block, np.array([[0.1]]), np.array([[1]]), RecordPlan.of(public))
    array([0, 1])
    """
    near = nearest_cell(block, points, plan)
    along = np.take_along_axis(block.products(lines), near[:, None], axis=1)[:, 0]
    return np.asarray(2 * near + (along > (lines * plan.grid.put(points)).sum(axis=1)[near]), dtype=np.int64)


def noisy_step(
    rows: sp.csr_array, points: Floats, noise: CellNoise, words: Source, *, name: str
) -> Released[Prototypes]:
    """Noisy sums and counts of the users nearest to each point; the points must be public or released.

    With twice as many cells as points, the users of each point are halved along a public direction.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=9, max_items=1, bound=1, epsilon=10**6)
    >>> noise = CellNoise(public=public, budget=public.budget, cells=2)
    >>> rows = sp.csr_array(np.eye(2))
    >>> noisy_step(rows, np.eye(2), noise, source(), name="sulq").value.value_sums()
    array([[1., 0.],
           [0., 1.]])
    """
    public, plan = noise.public, noise.plan
    lines = directions(count=len(points), n_items=public.n_items, seed=public.seed)
    halved = noise.cells == 2 * len(points)

    def cell_of(block: Block) -> Integers:
        return halved_cell(block, points, lines, plan) if halved else nearest_cell(block, points, plan)

    exact = statistic(rows, public, plan, cell_of, cells=noise.cells)
    return noise.release(exact, name=name, rng=words)
