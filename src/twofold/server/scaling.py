"""From weighted rows to a plain factorization with one penalty, and the noise edge that penalty has to clear."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from twofold.protocol.plan import Plan
from twofold.prototypes.message import Floats, WeightedRows
from twofold.server.survey import Survey, used_weights

__all__ = ["Scaling", "noise_edge", "scaling"]


def noise_edge(seen: Survey) -> float:
    r"""Size that noise alone reaches on average along the best non-negative direction, in weighted rows.

    Notes
    -----
    Let N be the noise of the weighted rows :math:`\sqrt{w_r}\,x_r`, independent, with variance :math:`s_r^2` in row r.
    By Chevet's inequality, for unit vectors u of rows and v of items,

    .. math:: E \max u^T N v \le \max_r s_r \; E|g| + \sqrt{\textstyle\sum_r s_r^2}

    with g a standard normal vector of m items, :math:`E|g| \le \sqrt m`: the σ(√n + √m) of random matrices where all s
    are equal. Our u and v are not negative, so only the positive halves of both vectors count, and both terms shrink
    by √2. Where the variance differs from entry to entry (ratings), largest row and column energies take their place,
    which is the leading term of the bound of Bandeira and van Handel (2016).

    Examples
    --------
    >>> seen = Survey(n_items=4, row_noise=4.0)
    >>> seen.item_noise += 9.0
    >>> round(noise_edge(seen) * 2**0.5, 6)
    5.0
    """
    return (math.sqrt(seen.row_noise) + math.sqrt(float(seen.item_noise.max(initial=0.0)))) / math.sqrt(2)


@dataclass(frozen=True, kw_only=True)
class Scaling:
    r"""How rows become a matrix Y (with weights for ratings) that is factorized under one penalty τ on both sides.

    Notes
    -----
    Counts: Y has rows :math:`\sqrt{w_r/\bar w}\,x_r`, so that a row counts as often as it can be trusted. For any
    factors, :math:`\tau(|U|^2 + |V|^2) \ge 2\tau\,|UV^T|_*`, equal at the best split: the penalty takes τ off every
    singular value of Y. With τ at least the noise edge, directions of noise alone stay below it on average, and of
    those that do not only the excess is left.

    Ratings: with E the weight of an entry, R and C its sums over rows and columns, a row of the sum form
    :math:`\sum E (x - uv)^2 + \lambda(\sum R|u|^2 + \sum C|v|^2)` is divided by R and C, which leaves the same
    penalty for all.

    Attributes
    ----------
    base, edge : float
        The plan's part of τ, and what the noise adds.
    unit : float
        What weights are divided by: their mean.
    items : array (items,) or None
        For ratings: root of the relative weight of each item.
    """

    base: float
    edge: float
    unit: float
    items: Floats | None

    @property
    def ridge(self) -> float:
        """Penalty of both sides."""
        return self.base + self.edge

    def rows(self, block: WeightedRows) -> tuple[Floats, Floats | None, Floats]:
        """Y, its weights (None: all 1), and what user factors are to be divided by."""
        if self.items is None:
            own = np.sqrt(block.row_weights / self.unit)
            return block.values * own[:, None], None, own
        weights = used_weights(block) / self.unit
        own = np.sqrt(weights.mean(axis=1))
        both = own[:, None] * self.items
        relative = np.divide(weights, both**2, out=np.zeros_like(weights), where=both > 0)
        return block.values * both, relative, own

    def item_factors(self, scaled: Floats) -> Floats:
        """V from the factors of Y."""
        if self.items is None:
            return scaled
        shares = np.where(self.items > 0, self.items, 1.0)
        return np.where(self.items[:, None] > 0, scaled / shares[:, None], 0.0)


def scaling(seen: Survey, plan: Plan) -> Scaling:
    """Decide units and penalty from the totals.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=4), feedback="counts", bound=1, max_items=1)
    >>> found = scaling(Survey(n_items=4, rows=2, weight=8.0), plan)
    >>> found.unit, found.ridge == plan.regularization
    (4.0, True)
    """
    if plan.feedback == "counts":
        unit = seen.weight / seen.rows if seen.rows else 1.0
        return Scaling(base=plan.regularization, edge=noise_edge(seen) / math.sqrt(unit), unit=unit, items=None)
    size = max(seen.rows, 1) * seen.n_items
    unit = float(seen.item_weight.sum()) / size or 1.0
    shares = np.sqrt(seen.item_weight / (unit * max(seen.rows, 1)))
    base = plan.regularization * math.sqrt(size)
    return Scaling(base=base, edge=noise_edge(seen) / math.sqrt(unit), unit=unit, items=shares)
