"""The paper's system: prototypes up, item factors down and frozen; users folded in, or a local model adapted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems.base import Feedback, Fitted, Score, read_as
from studies.systems.exchange import Release, exchange
from studies.systems.factorization import Factorization
from twofold.data.bounds import Bounds
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.entity.adapt import adapt
from twofold.entity.models.blend import Scorer
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan

__all__ = ["Adapted", "PrototypesMF", "in_values"]


@dataclass(frozen=True, kw_only=True)
class PrototypesMF:
    """Algorithm 2 with any release mechanism.

    Parameters
    ----------
    release : Release
        Mechanism and its public numbers. "kmeans" and "random" give MF + k-means and MF + k-random.
    factorization : Factorization
        Rank at the server, and the objective by which users are folded in.

    Paper
    -----
    Algorithm 2: MF + k-means, MF + k-random and MF + ε-private prototypes of section 5.3, the federated model of 5.4.

    Privacy
    -------
    One release per entity, with the event of its mechanism; the item factors are post-processing. V is frozen: users
    are folded in to a copy that cannot be written to, and its hash is checked.

    Deviations
    ----------
    The server weighs prototypes by what they can be trusted with and is told the noise. For ratings, an item of which
    no message said anything is predicted at the mean that the messages give it; so is everything for a user without
    entries.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> system = PrototypesMF(release=Release(mechanism="kmeans"), factorization=Factorization(rank=2))
    >>> fitted = system.fit(federation, feedback="counts", seed=0)
    >>> system.name, fitted.rounds, fitted.epsilon
    ('MF + kmeans', 2, None)
    """

    release: Release = field(default_factory=Release)
    factorization: Factorization = field(default_factory=Factorization)

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"MF + {self.release.mechanism}"

    @property
    def private(self) -> bool:
        """As the mechanism."""
        return self.release.private

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Run both rounds; every entity folds its users in."""
        entities = read_as(train, feedback, seed)
        plan = self.release.plan(entities, feedback=feedback, rank=self.factorization.rank)
        done = exchange(entities, plan, seed=seed)
        before = done.factors.hash
        score = self.factorization.score(done.factors.factors, feedback=feedback, means=done.factors.means)
        done.factors.check_unchanged(before)
        return done.fitted(dict.fromkeys(entities, score))


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """Prototypes and shared item factors, then a local model pulled towards them by the entity's own validation.

    Parameters
    ----------
    release : Release
        Mechanism and its public numbers.
    rank : int
        Most factors, at the server and at an entity.
    local, strength
        As for `twofold.entity.adapt.adapt`.

    Paper
    -----
    "Local adaptation of the global model" of the abstract; the text stops at users folded in (`PrototypesMF`).

    Privacy
    -------
    As `PrototypesMF`: the local model never leaves, so adapting costs nothing.

    Deviations
    ----------
    Local models of counts work on damped counts; their scores are brought back to counts by the inverse power, which
    changes no ranking.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> system = Adapted(release=Release(mechanism="kmeans"), rank=2, local="factors", strength="shared")
    >>> system.name, system.fit(federation, feedback="counts", seed=0).rounds
    ('MF + kmeans, adapted', 2)
    """

    release: Release = field(default_factory=Release)
    rank: int = 20
    local: Literal["auto", "factors", "item-item"] = "auto"
    strength: float | Literal["auto", "own", "shared"] = "auto"

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"MF + {self.release.mechanism}, adapted"

    @property
    def private(self) -> bool:
        """As the mechanism."""
        return self.release.private

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Run both rounds; every entity adapts."""
        entities = read_as(train, feedback, seed)
        plan = self.release.plan(entities, feedback=feedback, rank=self.rank)
        done = exchange(entities, plan, seed=seed)
        scorers = {label: self._score(one, done.factors, plan, seed) for label, one in entities.items()}
        return done.fitted(scorers)

    def _score(self, ratings: Ratings, shared: ItemFactors, plan: Plan, seed: int) -> Score:
        found = adapt(
            Bounds(bound=plan.bound, lower=plan.lower).apply(ratings)[0].matrix,
            shared,
            feedback=plan.feedback,
            lower=plan.lower,
            bound=plan.bound,
            local=self.local,
            strength=self.strength,
            rank=plan.rank,
            seed=seed,
        )
        return in_values(found.scorer)


def in_values(scorer: Scorer) -> Score:
    """Scores of a local model as predicted values: what was damped by a power is raised back.

    Examples
    --------
    >>> from twofold.entity.models.factors import FactorScorer
    >>> scorer = FactorScorer(np.eye(2), feedback="ratings", regularization=0.0, power=0.5)
    >>> in_values(scorer)(sparse.csr_array(np.array([[9.0, 4.0]]))).round(3).tolist()
    [[9.0, 4.0]]
    """
    power: Any = getattr(scorer, "power", 1.0)
    if power == 1:
        return scorer.scores

    def raised(rows: sparse.csr_array) -> NDArray[np.float32]:
        found = scorer.scores(rows)
        return np.asarray(np.sign(found) * np.abs(found) ** np.float32(1 / power), dtype=np.float32)

    return raised
