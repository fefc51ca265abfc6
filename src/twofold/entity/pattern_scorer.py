"""A local model of ratings: item means, a user's offset, and where a user lies along common patterns."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.entity._pattern_solve import packed_squares, unpacked
from twofold.errors import BadModel, BadShape

__all__ = ["PatternScorer"]

Floats = NDArray[np.floating[Any]]
Columns = NDArray[np.integer[Any]]
NAMES = ("patterns", "features")


class PatternScorer:
    """Predicted ratings ``mean_i + o + loading_i · p``, with offset o and place p of a user from the history.

    (p, o) is the posterior mean of a normal model: p standard normal, o of variance `offset`, a rating of variance
    `noise` around the prediction, and loadings that are themselves uncertain by `doubts`: histories of items about
    which little is known move a user less. It is a weighted sum of what was given above the items' means, so that every
    prediction can be taken apart; without a history it is the items' means.

    Parameters
    ----------
    loadings : array (items, patterns)
        What a unit along each pattern adds to an item's rating.
    means : array (items,)
        What an item gets without knowing anything of the user.
    doubts : array (items,)
        Variance of each of an item's loadings.
    noise, offset : float
        Variance of a rating around the model, and of users' offsets.
    kind : {"patterns", "features"}
        Where the loadings come from: the federation or own data; or own data and public features.

    Examples
    --------
    >>> loadings, nothing = np.array([[1.0], [1.0], [-1.0]]), np.zeros(3)
    >>> scorer = PatternScorer(loadings, means=np.full(3, 3.0), doubts=nothing, noise=1.0, offset=0.5)
    >>> scorer.one(np.array([0]), np.array([5.0])).round(2).tolist()
    [4.199999809265137, 4.199999809265137, 2.5999999046325684]
    >>> scorer.reasons(np.array([0]), np.array([5.0]), 2).round(2).tolist()
    [-0.4]
    """

    def __init__(
        self, loadings: Floats, *, means: Floats, doubts: Floats, noise: float, offset: float, kind: str = "patterns"
    ) -> None:
        self.loadings = np.array(loadings, dtype=np.float32, order="C", ndmin=2)
        self.means, self.doubts = (np.array(part, dtype=np.float32) for part in (means, doubts))
        if not self.loadings.shape[:1] == self.means.shape == self.doubts.shape:
            raise BadShape("loadings, means and doubts do not have the same items.")
        if kind not in NAMES or not (noise > 0 and offset > 0) or (self.doubts < 0).any():
            raise BadModel("the settings of a model of patterns are not sound.", expected="variances above 0")
        self.noise, self.offset, self._kind = float(noise), float(offset), kind
        for part in (self.loadings, self.means, self.doubts):
            part.flags.writeable = False

    @property
    def kind(self) -> str:
        """How an artefact names it."""
        return self._kind

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.means.size)

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history; see `Scorer`."""
        return np.asarray(self.means + self.places(rows) @ self._sides(slice(None)).T, dtype=np.float32)

    def places(self, rows: sparse.csr_array) -> NDArray[np.float64]:
        """Places along the patterns and offset of every history: (users, patterns + 1)."""
        used, at = np.unique(rows.indices, return_inverse=True)
        sides, shape = self._sides(used), (rows.shape[0], used.size)
        above = (rows.data - self.means[rows.indices]).astype(np.float64)
        given, marks = (
            sparse.csr_array(cast(Any, (part, at.ravel(), rows.indptr)), shape=shape)
            for part in (above, np.ones_like(above))
        )
        matrices = unpacked(marks @ packed_squares(sides), sides.shape[1])
        matrices += (marks @ self.doubts[used].astype(np.float64))[:, None, None] * self._patterns + self._prior
        return np.asarray(np.linalg.solve(matrices, (given @ sides)[:, :, None])[:, :, 0])

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        above = np.asarray(values, np.float64) - self.means[columns]
        place = np.linalg.solve(self._matrix(columns), self._sides(columns).T @ above)
        return np.asarray(self.means + self._sides(slice(None)) @ place, dtype=np.float32)

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry added to the score of one item, above the item's own mean."""
        pull = np.linalg.solve(self._matrix(columns), self._sides(np.array([item]))[0])
        above = np.asarray(values, np.float64) - self.means[columns]
        return np.asarray((self._sides(columns) @ pull) * above)

    def similar(self, item: int) -> NDArray[np.float64]:
        """Correlation of the two items' ratings under the model, beyond users' offsets."""
        wide = self.loadings.astype(np.float64)
        lengths = np.sqrt((wide**2).sum(axis=1) + self.noise)
        likeness = np.clip(wide @ wide[item] / (lengths * lengths[item]), -1.0, 1.0)
        likeness[item] = -np.inf
        return np.asarray(likeness)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Loadings, means and doubts."""
        return {"loadings": self.loadings, "means": self.means, "doubts": self.doubts}

    def settings(self) -> dict[str, Any]:
        """Variances, and where the loadings come from."""
        return {"noise": self.noise, "offset": self.offset, "kind": self._kind}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> PatternScorer:
        """Make it again from `arrays` and `settings`."""
        if set(arrays) != {"loadings", "means", "doubts"} or set(settings) != {"noise", "offset", "kind"}:
            raise BadModel(
                "the parts of a model of patterns are not complete.", expected="loadings, means, doubts and settings"
            )
        parts: dict[str, Any] = {**arrays, **settings}
        return cls(**parts)

    @property
    def _patterns(self) -> NDArray[np.float64]:
        """Ones on the diagonal for the patterns, and none for the offset."""
        return np.diag(np.concatenate([np.ones(self.loadings.shape[1]), [0.0]]))

    @property
    def _prior(self) -> NDArray[np.float64]:
        return np.diag(np.concatenate([np.full(self.loadings.shape[1], self.noise), [self.noise / self.offset]]))

    def _sides(self, items: Any) -> NDArray[np.float64]:
        """Loadings of some items, and a one for the offset."""
        wide = self.loadings[items].astype(np.float64)
        return np.hstack([wide, np.ones((len(wide), 1))])

    def _matrix(self, columns: Columns) -> NDArray[np.float64]:
        sides, doubt = self._sides(columns), float(self.doubts[columns].sum(dtype=np.float64))
        return np.asarray(sides.T @ sides + doubt * self._patterns + self._prior)
