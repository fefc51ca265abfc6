"""One entity's own rows and their sums, as every rung of the ladder reads them. Private."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import sparse

from twofold.algorithms.neighbours import add_product
from twofold.csr import with_data
from twofold.entity.models.blend import Wide
from twofold.entity.models.factors import POWER, damped_rows
from twofold.entity.models.ridge import feature_prior
from twofold.features import Features

if TYPE_CHECKING:
    from twofold.entity.models.others import Others

__all__ = ["Rest", "Side", "gram_of", "unit_rows"]

#: People that public features weigh as much as.
FEATURE_USERS: Final = 300.0
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
    rough : bool
        Whether weights are only compared: fitted in single precision.
    """

    def __init__(self, rows: sparse.csr_array, rest: Rest | None = None, *, rough: bool = False) -> None:
        self.rows, self.rest, self.rough = rows, rest, rough
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


def unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Damp counts and bring every history to norm 1; an empty one stays empty.

    Examples
    --------
    >>> unit_rows(sparse.csr_array(np.array([[9.0, 16.0], [0.0, 0.0]]))).toarray().round(2).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    values = damped_rows(rows, POWER["counts"]).astype(np.float64)
    owners = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
    norms = np.sqrt(np.bincount(owners, values.data**2, values.shape[0]))
    return with_data(values, values.data / np.where(norms > 0, norms, 1.0)[owners])
