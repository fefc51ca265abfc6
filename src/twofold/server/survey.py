"""One look at all rows: the few totals that scaling, noise edge and means are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from twofold.protocol.expected import expected
from twofold.protocol.plan import Plan
from twofold.prototypes.message import Floats, WeightedRows

__all__ = ["Blocks", "Survey", "survey"]

#: Gives the rows in blocks, the same ones in the same order each time it is called.
Blocks = Callable[[], Iterable[WeightedRows]]


@dataclass(kw_only=True)
class Survey:
    """Totals over all rows; sums run in the order of the blocks, so equal blocks give equal bits.

    Attributes
    ----------
    rows, cells : int
        Rows that carry any weight, and rows in all.
    weight : float
        Sum of the row weights: users, less what the noise takes away.
    item_weight, item_sum : arrays (items,)
        Weight behind each item's mean (users, for ratings observations), and weight times value.
    row_noise : float
        Largest noise energy of a weighted row.
    item_noise : array (items,)
        Noise energy of each weighted column.
    """

    n_items: int
    rows: int = 0
    cells: int = 0
    weight: float = 0.0
    row_noise: float = 0.0
    seeded: bool = False
    item_weight: Floats = field(init=False)
    item_sum: Floats = field(init=False)
    item_noise: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.item_weight, self.item_sum, self.item_noise = (np.zeros(self.n_items) for _ in range(3))

    def add(self, block: WeightedRows, plan: Plan) -> None:
        """Count one more block."""
        self.rows += int(np.count_nonzero(block.row_weights))
        self.cells += block.n_rows
        self.weight += float(block.row_weights.sum())
        self.seeded |= block.seeded
        if block.entry_weights is None:
            self._add_counts(block)
        else:
            self._add_ratings(block, plan)

    def _add_counts(self, block: WeightedRows) -> None:
        energy = block.row_weights * block.noise**2
        self.item_weight += block.row_weights.sum()
        self.item_sum += (block.values * block.row_weights[:, None]).sum(axis=0)
        self.row_noise = max(self.row_noise, self.n_items * float(energy.max(initial=0.0)))
        self.item_noise += energy.sum()

    def _add_ratings(self, block: WeightedRows, plan: Plan) -> None:
        assert block.entry_weights is not None
        weights = used_weights(block)
        energy = entry_noise(block, plan)
        self.item_weight += weights.sum(axis=0)
        self.item_sum += (weights * block.values).sum(axis=0)
        self.row_noise = max(self.row_noise, float(energy.sum(axis=1).max(initial=0.0)))
        self.item_noise += energy.sum(axis=0)


def survey(blocks: Iterable[WeightedRows], plan: Plan) -> Survey:
    """Look at every block once.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=2), feedback="counts", bound=1, max_items=1)
    >>> one = np.ones(1)
    >>> rows = WeightedRows(values=np.array([[1.0, 0.5]]), row_weights=4 * one, noise=one, sizes=9 * one, seeded=False)
    >>> found = survey([rows, rows], plan)
    >>> found.rows, found.weight, found.item_sum / found.item_weight, found.row_noise
    (2, 8.0, array([1. , 0.5]), 8.0)
    """
    found = Survey(n_items=plan.n_items)
    for block in blocks:
        found.add(block, plan)
    return found


def used_weights(block: WeightedRows) -> Floats:
    """Entry weights, without those of rows that nobody is in."""
    assert block.entry_weights is not None
    return np.where(block.row_weights[:, None] > 0, block.entry_weights, 0.0)


def entry_noise(block: WeightedRows, plan: Plan) -> Floats:
    """Noise variance of each rated entry times its weight.

    Notes
    -----
    `twofold.prototypes.combine` gives an entry of O observations the weight E = O²/(O + q) with q = s²/V, where V is
    the largest variance of a rating and s² the noise of its sum plus the mean's share of that of its count. Backwards,
    O = (E + √(E² + 4Eq))/2. The mean of O has noise s/O, drawn in by O²/(O² + σ²) where few observed.
    """
    weights, public = used_weights(block), plan.public
    planned = expected(plan).noise
    of_sum = (block.noise * np.maximum(block.sizes, 1.0))[:, None] ** 2
    of_count = of_sum * (planned.observed / planned.values if planned.values else 0.0) ** 2
    variance = of_sum + of_count * (block.values - public.centre) ** 2
    q = variance / public.value_cap**2
    observed = (weights + np.sqrt(weights**2 + 4 * weights * q)) / 2
    drawn_in = observed**2 / np.maximum(observed**2 + of_count, 1e-300)
    return np.where(weights > 0, drawn_in**2 * variance / np.maximum(observed + q, 1e-300), 0.0)
