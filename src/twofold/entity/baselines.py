"""Systems of an evaluation by name: the model itself and what it is compared with, all fitted to the same entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.data.ratings import Ratings
from twofold.entity.adapt import Local, Strength
from twofold.entity.model import Model, UserHistories
from twofold.entity.models.blend import rating_means
from twofold.entity.models.item_item import MAX_ITEMS
from twofold.entity.personalize import fit_alone, fitted_model
from twofold.errors import BadParameter
from twofold.evaluation.measure import Scorer, Scores
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan

__all__ = ["BASELINES", "SHARED", "Fits", "baseline_names", "system_of"]

#: What every baseline is, in words; for counts, and for ratings where that differs.
BASELINES: Final = {
    "alone": ("the entity's own model, with nothing shared",),
    "popularity": (
        "the same for everyone: how many of the entity's people have an item",
        "the same for everyone: the mean rating of an item here",
    ),
    "item-item": ("item-item weights of the entity's own entries",),
    "shared": ("the shared model as it came: people fitted to the shared item factors",),
    "shared-popularity": (
        "the same for everyone: how often an item is had, by what the server sent",
        "the same for everyone: the mean rating of an item, by what the server sent",
    ),
    "random": ("a random order", "random ratings"),
}
#: Those that need the shared item factors.
SHARED: Final = ("shared", "shared-popularity")


def baseline_names(against: Iterable[str], *, shared: bool) -> tuple[str, ...]:
    """Check the names of baselines; each counts once, in the order given.

    Parameters
    ----------
    against : iterable of str
        Some of `BASELINES`.
    shared : bool
        Whether the shared item factors are at hand.

    Examples
    --------
    >>> baseline_names(["popularity", "alone", "alone"], shared=False)
    ('popularity', 'alone')
    """
    asked = tuple(dict.fromkeys([against] if isinstance(against, str) else against))
    unknown = [name for name in asked if name not in BASELINES]
    if unknown:
        raise BadParameter(
            "these are not baselines.",
            found=", ".join(f"{name!r:.40}" for name in unknown[:3]),
            expected="some of " + ", ".join(BASELINES),
            parameter="against",
        )
    if not shared and (needs := [name for name in asked if name in SHARED]):
        raise BadParameter(
            "a baseline needs the shared item factors.",
            found=", ".join(needs),
            fix="give the factors that the server sent, or leave these out",
            parameter="factors",
        )
    return asked


@dataclass(frozen=True, kw_only=True, eq=False)
class Fits:
    """What every system is fitted with: the same entries, plan and settings.

    Parameters
    ----------
    entity : str
        Name of the models.
    rest : Ratings
        Private: the entries that systems may know.
    plan : Plan or None
        The plan; without one, models are those of `fit_alone`.
    shared : ItemFactors or None
        What the server sent.
    lower, bound : float
        Range of the values.
    local, strength
        As for `Entity.personalize`.
    seed : int
        Seed of what is random in a baseline.
    threads : int, optional
        All processors by default.
    """

    entity: str
    rest: Ratings
    plan: Plan | None
    shared: ItemFactors | None
    lower: float
    bound: float
    local: Local = "auto"
    strength: Strength = "auto"
    seed: int = 0
    threads: int | None = None

    def model(self) -> Model:
        """Fit the entity's model as `Entity.personalize` does, or `fit_alone` where there is no plan."""
        if self.plan is None or self.shared is None:
            return self._own(self.local)
        return self._drawn(self.local, self.strength)

    def baseline(self, name: str) -> Scorer:
        """Fit a baseline; give its scores of any training rows."""
        if name in ("alone", "item-item"):
            return system_of(self._own("item-item" if name == "item-item" else self.local))
        if name == "shared":
            return system_of(self._drawn("factors", "shared"))
        if name == "random":
            return self._random()
        return _same_for_all(self._popularity() if name == "popularity" else self._shared_popularity())

    def _own(self, local: Local) -> Model:
        if local == "item-item" and self.rest.n_items > MAX_ITEMS:
            raise BadParameter(
                "the catalog is too long for item-item weights.",
                found=f"{self.rest.n_items:,} items",
                expected=f"at most {MAX_ITEMS:,}",
                fix="leave item-item out",
                parameter="against",
            )
        if self.plan is None:
            return fit_alone(self.rest, local=local, threads=self.threads, name=self.entity)
        return fitted_model(self.entity, self.rest, self.plan, None, local=local, threads=self.threads)

    def _drawn(self, local: Local, strength: Strength) -> Model:
        assert self.plan is not None
        assert self.shared is not None
        return fitted_model(
            self.entity, self.rest, self.plan, self.shared, local=local, strength=strength, threads=self.threads
        )

    def _popularity(self) -> NDArray[Any]:
        matrix = self.rest.matrix
        if self.rest.feedback == "ratings":
            return rating_means(matrix, None, 0.0)
        return np.bincount(matrix.indices, weights=matrix.data > 0, minlength=self.rest.n_items)

    def _shared_popularity(self) -> NDArray[Any]:
        assert self.shared is not None
        if self.rest.feedback == "ratings":
            return rating_means(self.rest.matrix, self.shared, np.inf)
        return self.shared.means

    def _random(self) -> Scorer:
        rng = np.random.default_rng([self.seed, 7])
        return lambda rows: self.lower + (self.bound - self.lower) * rng.random(rows.shape)


def _same_for_all(scores: NDArray[Any]) -> Scorer:
    return lambda rows: np.tile(scores, (rows.shape[0], 1))


def system_of(model: Model) -> Scorer:
    """Score rows as `Model.recommend` does: a history that tells the model nothing gets the cold-start scores.

    Examples
    --------
    >>> from twofold.data.catalog import Catalog, Identifiers
    >>> counts = sparse.csr_array(np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 2.0]]))
    >>> model = fit_alone(Ratings(counts, Identifiers(["a", "b"]), Catalog(["x", "y", "z"]), "counts"))
    >>> system_of(model)(sparse.csr_array((1, 3))).argmax()
    np.int64(1)
    """
    cold = UserHistories(
        history=model.history, items=model.catalog.items, scorer=model.scorer, lower=model.lower, bound=model.bound
    ).cold_start

    def score(rows: sparse.csr_array) -> Scores:
        scores = np.array(model.scorer.scores(rows), dtype=np.float32)
        scores[~scores.any(axis=1) | (np.diff(rows.indptr) == 0)] = cold
        return scores

    return score
