"""A local model between items for long catalogs: a few weights into each item, in memory that grows with the entries.

The item-item model takes ``B_ji = -K_ji / K_ii`` from the inverse K of the Gram matrix plus a ridge. That matrix is
dense, even where the Gram matrix is nearly empty. To first order in what is off the diagonal it is
``G_ji / (G_jj + ridge)``: a sparse matrix, found item by item from the people who had the item. Of these weights each
item keeps its largest. The ridge is far above the average item's squares, so the first order is close and weights from
items that one or two people had stay small.

What lost, on 400 homes of Complete Journey (68,509 products, nDCG@10, popularity .165) and on a generated catalog of
340,000 items (recall@20, popularity .032), where this model had .199 and .088 with a ridge of ten average items and 100
neighbours:

* dividing by the target's size, too: to the power 1/4 .197 and .082, to the power 1/2 (the cosine) .192 and .078;
* walks of the RP3β kind without a ridge: below .03 on the first, rare products on top of every list;
* ridge regression of each item on its 50 nearest: .181 on the first, and slower. Co-occurrences known for the nearest
  pairs only are no positive definite matrix where histories are long;
* a second step over the weights: .067 in place of .076 on another split of the second;
* a ridge in average items: the best number was 3 to 8 on the homes and 20 to 40 on the catalog. In entries it was
  about 50 on both, for 400 homes and for all 2,469.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms import _checks
from twofold.algorithms.neighbours import add_product, strongest
from twofold.csr import csr_rows
from twofold.entity.models.blend import Columns, Floats, Wide
from twofold.entity.models.factors import POWER, damped, damped_rows
from twofold.errors import BadModel, BadNumber, BadParameter, BadShape

__all__ = ["SparseItemFit", "SparseItemScorer"]

ARRAYS = ("ends", "sources", "weights", "squares", "means")
SETTINGS = ("ridge", "power")
#: In entries of size 1.
RIDGE = 50.0
#: Weights into an item times entries of an average history, and the limits of the former. Long histories need fewer:
#: 50 was best for 280 entries (.171 against .169 with 100 and .152 with 300), 300 for 9 (.086 against .082 with 100).
REACH = 3_000
FEWEST, MOST = 50, 300
#: Share of an item's mean in its score: it orders items that no entry of a history speaks for.
POPULARITY = 1e-3


class SparseItemScorer:
    """Scores ``Σ_j x_j B_ji`` with few weights into each item, and a trace of popularity for what nothing speaks for.

    Parameters
    ----------
    ends, sources, weights : arrays
        Weights into each item, one item after another: where an item ends, and for each weight the item it comes from,
        ascending within an item.
    squares : array (items,)
        Sum of squares of each item, at least 0.
    means : array (items,)
        Mean of each item over all people.
    ridge : float
        What the weights were shrunk by; above 0.
    power : float
        Values are raised to it before anything else, keeping their sign; 0.5 damps counts.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 1]], np.float32))
    >>> scorer = SparseItemFit(rows).scorer(ridge=0.5)
    >>> int(scorer.one(np.array([3]), np.array([1.0])).argmax())
    2
    """

    def __init__(
        self,
        *,
        ends: NDArray[Any],
        sources: NDArray[Any],
        weights: Floats,
        squares: Floats,
        means: Floats,
        ridge: float,
        power: float = 1.0,
    ) -> None:
        self.means, self.squares = np.array(means, np.float32), np.array(squares, np.float32)
        self.ridge, self.power = float(ridge), float(power)
        if not 0 < self.ridge < np.inf:
            raise BadParameter("{parameter} must be above 0.", found=repr(ridge), parameter="ridge")
        starts, columns, values = _sound(ends, sources, weights, self.means, self.squares)
        shape = (self.means.size, self.means.size)
        self._into = csr_rows(values, columns, starts, shape)
        self._into.has_canonical_format = True
        self._from = sparse.csr_array(self._into.T)
        self._constant = self.means * np.float32(POPULARITY)

    @property
    def kind(self) -> str:
        """Name in an artefact."""
        return "sparse-item-item"

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.means.size)

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history; see `Scorer`."""
        made = np.repeat(self._constant[None, :], rows.shape[0], axis=0)
        add_product(damped_rows(rows, self.power), self._from, made)
        return made

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        starts = np.array([0, len(columns)])
        row = csr_rows(np.asarray(values, dtype=np.float32), np.asarray(columns), starts, (1, self.n_items))
        return np.asarray(self.scores(row)[0])

    def reasons(self, columns: Columns, values: Floats, item: int) -> Wide:
        """How much each entry added to the score of one item, above its trace of popularity."""
        return np.asarray(self._column(item)[columns] * damped(values, self.power))

    def constant(self, item: int) -> float:
        """The part of the score that no entry explains: the score less its `reasons`."""
        return float(self._constant[item])

    def similar(self, item: int) -> Wide:
        """Cosine of two items, shrunk by the ridge; 0 where neither kept a weight from the other."""
        whole = np.sqrt(self.squares.astype(np.float64) + self.ridge)
        together = np.maximum(
            self._column(item) * whole**2, self._from[[item]].toarray()[0].astype(np.float64) * whole[item] ** 2
        )
        likeness = np.minimum(together / (whole * whole[item]), 1.0)
        likeness[item] = -np.inf
        return np.asarray(likeness)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Weights into each item, squares and means."""
        return {
            "ends": self._into.indptr[1:].astype(np.int64),
            "sources": self._into.indices.astype(np.int64),
            "weights": self._into.data,
            "squares": self.squares,
            "means": self.means,
        }

    def settings(self) -> dict[str, Any]:
        """What the numbers mean."""
        return {"ridge": self.ridge, "power": self.power}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> SparseItemScorer:
        """Rebuild it from `arrays` and `settings`."""
        if set(arrays) != set(ARRAYS) or set(settings) != set(SETTINGS):
            raise BadModel("the parts of a sparse item-item model are incomplete.", expected=", ".join(ARRAYS))
        parts: dict[str, Any] = {**arrays, **settings}
        return cls(**parts)

    def _column(self, item: int) -> Wide:
        made = np.zeros(self.n_items)
        span = slice(self._into.indptr[item], self._into.indptr[item + 1])
        made[self._into.indices[span]] = self._into.data[span]
        return made


def _sound(
    ends: NDArray[Any], sources: NDArray[Any], weights: Floats, means: Floats, squares: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Look through compressed arrays before SciPy trusts them."""
    n_items = means.size
    vectors = all(part.ndim == 1 for part in (ends, sources, weights, means, squares))
    if not vectors or ends.dtype.kind != "i" or sources.dtype.kind != "i":
        raise BadShape("the weights of a sparse item-item model have the wrong form.", parameter="weights")
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    fits = ends.size == squares.size == n_items and starts[-1] == sources.size == weights.size
    if not fits or (np.diff(starts) < 0).any():
        raise BadShape("the weights do not match the items.", parameter="ends")
    known = not sources.size or (sources.min() >= 0 and sources.max() < n_items)
    targets = np.repeat(np.arange(n_items), np.diff(starts))
    falls = np.flatnonzero(np.diff(sources) <= 0) + 1
    if not known or not np.isin(falls, starts).all() or (sources == targets).any():
        raise BadShape("the weights come from items that cannot be.", parameter="sources")
    for name, part in (("weights", weights), ("squares", squares), ("means", means)):
        _checks.finite(name, np.asarray(part))
    if (squares < 0).any():
        raise BadNumber("{parameter} holds negative numbers.", expected="0 or more", parameter="squares")
    return starts, sources.astype(np.int32), np.asarray(weights, np.float32)


class SparseItemFit:
    """One entity's rows, prepared for sparse weights of any ridge.

    Parameters
    ----------
    rows : csr array (users, items)
        Counts, or zeros and ones. Private.
    threads : int, optional
        All processors by default. Results do not depend on it.
    """

    def __init__(self, rows: sparse.csr_array, *, threads: int | None = None) -> None:
        self.rows, self.threads = rows, threads
        self._values = damped_rows(rows, POWER["counts"])
        items = rows.shape[1]
        squares = np.bincount(rows.indices, self._values.data.astype(np.float64) ** 2, items)
        self._squares = np.asarray(squares, np.float64)
        self._means = np.bincount(rows.indices, self._values.data, items) / max(rows.shape[0], 1)

    def scorer(self, *, ridge: float = RIDGE, neighbours: int | None = None) -> SparseItemScorer:
        """Weights of one ridge.

        Parameters
        ----------
        ridge : float
            In entries of size 1; above 0.
        neighbours : int, optional
            Most weights into an item; 50 to 300 by the length of histories when not given.
        """
        shrink = _checks.non_negative_number("ridge", ridge)
        if neighbours is None:
            length = max(self.rows.nnz, 1) / max(self.rows.shape[0], 1)
            neighbours = int(np.clip(REACH / length, FEWEST, MOST))
        found = strongest(
            self._values,
            neighbours,
            source_scale=1.0 / np.maximum(self._squares + shrink, 1e-30),
            target_scale=np.ones(self._squares.size),
            threads=self.threads,
        )
        return SparseItemScorer(
            ends=found.ends,
            sources=found.sources,
            weights=found.values,
            squares=self._squares,
            means=self._means,
            ridge=shrink,
            power=POWER["counts"],
        )
