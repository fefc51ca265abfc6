"""The same list for everyone: common items at the entity, everywhere, or everywhere by private sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.exchange import Release, exchange
from studies.systems.factorization import item_means
from twofold.data.federation import Federation

__all__ = ["Popularity"]

By = Literal["mean", "mass"]


@dataclass(frozen=True, kw_only=True)
class Popularity:
    """Item means, or for ratings how much was given to an item altogether.

    Parameters
    ----------
    whose : {"own", "pooled", "private"}
        Of the entity's own users, of all users, or of all users by one noisy sum per entity.
    by : {"mean", "mass"}
        "mean" predicts values. "mass" ranks: for ratings the sum over all who rated the item, where the mean would
        put items with one good rating first; for counts both rank alike.
    release : Release
        For "private": ε, δ and bounds; its mechanism is always "popularity".

    Paper
    -----
    Not in it; audit section 5.3 shows that at the paper's ε one noisy sum per item is more than its prototypes give.

    Privacy
    -------
    "private": one release per entity, the whole budget on one prototype. "own": nothing leaves. "pooled": none.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> Popularity(whose="private", release=Release(epsilon=3)).fit(federation, feedback="counts", seed=0).epsilon
    3.0
    """

    whose: Literal["own", "pooled", "private"] = "pooled"
    by: By = "mean"
    release: Release = field(default_factory=lambda: Release(mechanism="popularity"))

    @property
    def name(self) -> str:
        """Name in tables."""
        return {"own": "own popularity", "pooled": "pooled popularity", "private": "DP popularity"}[self.whose]

    @property
    def private(self) -> bool:
        """Only with noise."""
        return self.whose == "private"

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Add up the requested sums."""
        entities = read_as(train, feedback, seed)
        if self.whose == "private":
            return self._private(entities, feedback, seed)
        if self.whose == "own":
            scorers = {label: same_for_all(self._of(one.matrix, feedback)) for label, one in entities.items()}
            return Fitted(scorers=scorers, traffic=Traffic(), note="nothing leaves an entity")
        scores, n_items = self._of(entities.pooled().matrix, feedback), len(entities.catalog)
        tables = 2 if feedback == "ratings" else 1
        return Fitted(
            scorers=dict.fromkeys(entities, same_for_all(scores)),
            # exact sums and counts of ratings as float64, and the number of users; the scores back as float32
            traffic=Traffic(
                rounds=2,
                bytes_up=len(entities) * 8 * (tables * n_items + 1),
                bytes_down=len(entities) * 4 * n_items,
            ),
            note="exact sums of everybody",
        )

    def _of(self, rows: sparse.csr_array, feedback: Feedback) -> NDArray[np.float64]:
        if self.by == "mean":
            return item_means(rows, feedback)
        mass = np.bincount(rows.indices, weights=rows.data.astype(np.float64), minlength=rows.shape[1])
        return np.asarray(mass, dtype=np.float64)

    def _private(self, entities: Federation, feedback: Feedback, seed: int) -> Fitted:
        release = Release(**{**vars(self.release), "mechanism": "popularity"})
        done = exchange(entities, release.plan(entities, feedback=feedback, rank=1), seed=seed)
        shared = done.factors
        scores = shared.means if self.by == "mean" else shared.means * shared.support
        return done.fitted(dict.fromkeys(entities, same_for_all(scores)))


def same_for_all(scores: NDArray[Any]) -> Score:
    """The same scores for every user.

    Examples
    --------
    >>> same_for_all(np.array([1.0, 2.0]))(sparse.csr_array(np.eye(2))).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    line = np.asarray(scores, dtype=np.float32)
    return lambda rows: np.tile(line, (rows.shape[0], 1))
