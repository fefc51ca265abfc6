"""Item-item weights of an entity with counts: of own rows, pulled to public features, or to what the others know.

All of them are one ridge regression (`ridge`) on a sum of second moments; what differs is what is added to the own.
Scores are only compared within a person, so rows are damped and never brought to norm 1 for scoring.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy import sparse

from twofold.entity.models.blend import Wide
from twofold.entity.models.factors import POWER
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.others import Others
from twofold.entity.models.ridge import Weights, weights_from_gram, weights_from_rows
from twofold.entity.models.side import Side
from twofold.features import Features

__all__ = ["count_taste", "featured_taste", "own_taste", "shared_taste", "unit_taste"]

#: Ridge for the noise of the others' taste, in parts of its edge.
NOISE_RIDGE: Final = 0.2


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
    return _scorer(_weights(side, side.damped_gram, ridge))


def count_taste(side: Side, ridge: float) -> ItemItemScorer:
    """Weights of own counts as they are; the ridge is in items of average square."""
    rows = side.rows.astype(np.float64)
    ridge = max(ridge * float(rows.data @ rows.data) / rows.shape[1], 1e-6)
    return _of_rows(rows, ridge, power=1.0) if side.few else _scorer(_weights(side, side.gram, ridge), power=1.0)


def unit_taste(side: Side, ridge: float) -> ItemItemScorer:
    """Weights of own unit rows."""
    ridge = ridge * _own_ridge(side)
    return _of_rows(side.unit, ridge) if side.few else _scorer(_weights(side, side.unit_gram, ridge))


def featured_taste(side: Side, ridge: float, features: Features) -> ItemItemScorer:
    """Weights of own unit rows pulled to public features."""
    return _scorer(_weights(side, side.unit_gram + side.public(features), ridge * _own_ridge(side)))


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
    return _scorer(_weights(side, gram, ridge * size))


def _own_ridge(side: Side) -> float:
    return 1.0 + 2.0 * side.users / side.rows.shape[1]


def _of_rows(rows: sparse.csr_array, ridge: float, *, power: float = POWER["counts"]) -> ItemItemScorer:
    weights = weights_from_rows(rows.toarray().astype(np.float64), np.full(rows.shape[1], ridge))
    return _scorer(weights, power=power)


def _weights(side: Side, gram: Wide, ridge: float) -> Weights:
    return weights_from_gram(gram, np.full(len(gram), ridge), rough=side.rough)


def _scorer(weights: Weights, *, power: float = POWER["counts"]) -> ItemItemScorer:
    items = next(iter(weights.arrays().values())).shape[-1]
    return ItemItemScorer(weights, means=np.zeros(items), feedback="counts", power=power)
