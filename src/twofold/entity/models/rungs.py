"""Item-item weights of an entity with counts: of own rows, pulled to public features, or to what the others know.

All of them are one ridge regression (`ridge`) on a sum of second moments; what differs is what is added to the own.
Scores are only compared within a person, so rows are damped and never brought to norm 1 for scoring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from scipy import sparse

from twofold.algorithms.neighbours import add_product
from twofold.entity.models.blend import Wide
from twofold.entity.models.factors import POWER, damped_rows
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.others import Others, unit_rows
from twofold.entity.models.ridge import Weights, feature_prior, weights_from_gram, weights_from_rows
from twofold.features import Features

__all__ = ["Rest", "Side", "count_taste", "featured_taste", "gram_of", "own_taste", "shared_taste", "unit_taste"]

#: People that public features weigh as much as.
FEATURE_USERS: Final = 300.0
#: Ridge for the noise of the others' taste, in parts of its edge.
NOISE_RIDGE: Final = 0.2
#: Share of pairs of entries from which a dense product is faster than a sparse one, and people in one of its blocks.
_DENSE: Final = 0.03
_BLOCK: Final = 2_048


@dataclass(frozen=True, kw_only=True, eq=False)
class Rest:
    """Sums over people whose rows are not in memory (`twofold.entity.own`). Private.

    Attributes
    ----------
    users, entries : int
        How many people, and entries of theirs.
    use : array (items,)
        Total of each item over their unit rows.
    unit_gram, damped_gram : arrays (items, items) or None
        Products of their unit rows, and of their damped rows; None for a long catalog.
    squares : float
        Sum of the squares of their damped entries.
    """

    users: int
    entries: int
    use: Wide = field(repr=False)
    unit_gram: Wide | None = field(repr=False)
    damped_gram: Wide | None = field(repr=False)
    squares: float


class Side:
    """One entity's rows and their sums, each made when first asked for and once.

    Parameters
    ----------
    rows : csr array (users, items)
        Private: bounded counts.
    rest : Rest, optional
        Sums over everybody else, if the rows are those of some people only.
    """

    def __init__(self, rows: sparse.csr_array, rest: Rest | None = None) -> None:
        self.rows, self.rest = rows, rest
        self._kept: dict[object, Wide] = {}

    @property
    def users(self) -> int:
        """Number of people."""
        return int(self.rows.shape[0]) + (0 if self.rest is None else self.rest.users)

    @cached_property
    def unit(self) -> sparse.csr_array:
        """Damped rows of norm 1."""
        return unit_rows(self.rows)

    @cached_property
    def damped(self) -> sparse.csr_array:
        """Damped rows."""
        return damped_rows(self.rows, POWER["counts"])

    @cached_property
    def use(self) -> Wide:
        """Total of each item over the unit rows."""
        own = np.asarray(np.bincount(self.unit.indices, self.unit.data, self.rows.shape[1]), np.float64)
        return own if self.rest is None else own + self.rest.use

    @cached_property
    def unit_gram(self) -> Wide:
        """Products of the unit rows."""
        own = gram_of(self.unit)
        return own if self.rest is None or self.rest.unit_gram is None else own + self.rest.unit_gram

    @cached_property
    def damped_gram(self) -> Wide:
        """Products of the damped rows."""
        own = gram_of(self.damped)
        return own if self.rest is None or self.rest.damped_gram is None else own + self.rest.damped_gram

    @property
    def mean_square(self) -> float:
        """Mean square of the damped entries; 1 if there are none."""
        if self.rest is not None and self.rest.entries:
            own = float(np.sum(self.damped.data.astype(np.float64) ** 2))
            return (own + self.rest.squares) / (self.damped.nnz + self.rest.entries)
        return float(np.mean(self.damped.data.astype(np.float64) ** 2)) if self.damped.nnz else 1.0

    @cached_property
    def gram(self) -> Wide:
        """Products of the rows as they are; of these people only."""
        return gram_of(self.rows)

    @property
    def few(self) -> bool:
        """Whether there are so few people that a matrix of all items is not needed."""
        return bool(self.users < self.rows.shape[1] // 2)

    def public(self, features: Features) -> Wide:
        """What public features say of items, as the sum of `FEATURE_USERS` people."""
        if "public" not in self._kept:
            known, rest = feature_prior(self.unit, features.matrix)
            self._kept["public"] = FEATURE_USERS * (known.T @ known + np.diag(rest))
        return self._kept["public"]

    def scaled(self, others: Others, people: float) -> Wide:
        """The others' sum, each item brought to its use here; `people` of theirs count in that."""
        key = ("scaled", people)
        if key not in self._kept:
            assert others.gram is not None
            own = (self.use + people * others.shares) / (self.users + people)
            scale = np.sqrt(own / others.shares)
            self._kept[key] = others.gram * scale[:, None] * scale
        return self._kept[key]


def gram_of(rows: sparse.csr_array) -> Wide:
    """Products of the columns; exact where all values are whole numbers and the sums below 2^53."""
    users, items = rows.shape
    rows, total = rows.astype(np.float64), np.zeros((items, items))
    if float(np.sum(np.diff(rows.indptr).astype(np.float64) ** 2)) < _DENSE * users * items**2:
        add_product(sparse.csr_array(rows.T), rows, total)
        return total
    for start in range(0, users, _BLOCK):
        dense = rows[start : start + _BLOCK].toarray()
        total += dense.T @ dense
    return total


def own_taste(side: Side, ridge: float) -> ItemItemScorer:
    """Weights of own damped rows; the ridge is in entries of average size.

    Examples
    --------
    >>> side = Side(sparse.csr_array(np.kron(np.eye(2), np.ones((9, 4)))))
    >>> own_taste(side, 10.0).one(np.array([0]), np.array([1.0])).argmax() < 4
    np.True_
    """
    ridge = ridge * max(side.mean_square, 1e-6)
    if side.few:
        return _of_rows(side.damped, ridge)
    return _scorer(_weights(side.damped_gram, ridge))


def count_taste(side: Side, ridge: float) -> ItemItemScorer:
    """Weights of own counts as they are; the ridge is in items of average square."""
    rows = side.rows.astype(np.float64)
    ridge = max(ridge * float(rows.data @ rows.data) / rows.shape[1], 1e-6)
    return _of_rows(rows, ridge, power=1.0) if side.few else _scorer(_weights(side.gram, ridge), power=1.0)


def unit_taste(side: Side, ridge: float) -> ItemItemScorer:
    """Weights of own unit rows."""
    ridge = ridge * _own_ridge(side)
    return _of_rows(side.unit, ridge) if side.few else _scorer(_weights(side.unit_gram, ridge))


def featured_taste(side: Side, ridge: float, features: Features) -> ItemItemScorer:
    """Weights of own unit rows pulled to public features."""
    return _scorer(_weights(side.unit_gram + side.public(features), ridge * _own_ridge(side)))


def shared_taste(
    side: Side,
    ridge: float,
    others: Others,
    *,
    strength: float,
    people: float | None = None,
    features: Features | None = None,
) -> ItemItemScorer:
    """Weights of own unit rows pulled to the others' second moments.

    Parameters
    ----------
    side : Side
        Own rows.
    ridge : float
        In multiples of the default, which knows the sizes and the noise.
    others : Others
        With a Gram matrix.
    strength : float
        How many people the others count as.
    people : float, optional
        Bring each item to its own use first, in which so many of the others count.
    features : Features, optional
        Pull to these as well.
    """
    assert others.gram is not None
    users, items = side.users, side.rows.shape[1]
    share = strength / others.users
    gram = side.unit_gram + share * (others.gram if people is None else side.scaled(others, people))
    if features is not None:
        gram += side.public(features)
    size = 2.0 * (users + strength) / items + NOISE_RIDGE * share * others.noise * math.sqrt(items)
    return _scorer(_weights(gram, ridge * size))


def _own_ridge(side: Side) -> float:
    return 1.0 + 2.0 * side.users / side.rows.shape[1]


def _of_rows(rows: sparse.csr_array, ridge: float, *, power: float = POWER["counts"]) -> ItemItemScorer:
    weights = weights_from_rows(rows.toarray().astype(np.float64), np.full(rows.shape[1], ridge))
    return _scorer(weights, power=power)


def _weights(gram: Wide, ridge: float) -> Weights:
    return weights_from_gram(gram, np.full(len(gram), ridge))


def _scorer(weights: Weights, *, power: float = POWER["counts"]) -> ItemItemScorer:
    items = next(iter(weights.arrays().values())).shape[-1]
    return ItemItemScorer(weights, means=np.zeros(items), feedback="counts", power=power)
