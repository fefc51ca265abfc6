"""Factorizations that release nothing private: everybody's rows, each entity alone, a public slice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.exchange import entity_seed
from studies.systems.factorization import Factorization, factor_bytes, item_means, rows_bytes
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.errors import BadParameter

__all__ = ["IndividualMF", "PooledMF", "PublicFactors"]


@dataclass(frozen=True, kw_only=True)
class PooledMF:
    """Masked NMF of all rows; every history is folded in.

    Parameters
    ----------
    factorization : Factorization
        Rank and objective. ``Factorization.as_recorded(rank)`` with ``feedback="counts"`` is the paper's centralised
        matrix factorization as it was run.

    Paper
    -----
    "Matrix factorization" of section 5.3 and the centralised model of section 5.4.

    Privacy
    -------
    None: raw rows leave every entity.

    Deviations
    ----------
    Users are folded in to the final item factors, which is the last half step of the factorization itself. For
    ratings, an item that nobody rated is predicted at the mean rating.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> fitted = PooledMF(factorization=Factorization(rank=2)).fit(federation, feedback="counts", seed=0)
    >>> fitted.rounds, fitted.bytes_down == 4 * 457 * 2
    (2, True)
    """

    factorization: Factorization = field(default_factory=Factorization)

    name: ClassVar[str] = "pooled MF"
    private: ClassVar[bool] = False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Factorize all rows together."""
        entities = read_as(train, feedback, seed)
        rows = entities.pooled().matrix
        V = self.factorization.item_factors(rows, feedback=feedback, seed=seed)
        score = self.factorization.score(V, feedback=feedback, means=item_means(rows, feedback))
        return Fitted(
            scorers=dict.fromkeys(entities, score),
            traffic=Traffic(
                rounds=2,
                bytes_up=sum(rows_bytes(one.matrix) for one in entities.values()),
                bytes_down=len(entities) * factor_bytes(*V.shape),
            ),
            note="raw rows of everybody in one place",
        )


@dataclass(frozen=True, kw_only=True)
class IndividualMF:
    """Masked NMF of each entity's own rows.

    Parameters
    ----------
    factorization : Factorization
        Rank and objective.

    Paper
    -----
    The individual models of section 5.4.

    Privacy
    -------
    Nothing leaves an entity. Not called private, since it makes no release that could have a price.

    Deviations
    ----------
    For ratings, an item that nobody at the entity rated is predicted at the entity's mean rating.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> IndividualMF(factorization=Factorization(rank=2)).fit(federation, feedback="counts", seed=0).traffic
    Traffic(rounds=0, bytes_up=0, bytes_down=0)
    """

    factorization: Factorization = field(default_factory=Factorization)

    name: ClassVar[str] = "individual MF"
    private: ClassVar[bool] = False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Factorize each entity's rows."""
        entities = read_as(train, feedback, seed)
        scorers = {label: self._score(one, feedback, seed) for label, one in entities.items()}
        return Fitted(scorers=scorers, traffic=Traffic(), note="nothing leaves an entity")

    def _score(self, ratings: Ratings, feedback: Feedback, seed: int) -> Score:
        V = self.factorization.item_factors(ratings.matrix, feedback=feedback, seed=seed)
        return self.factorization.score(V, feedback=feedback, means=item_means(ratings.matrix, feedback))


@dataclass(frozen=True, kw_only=True)
class PublicFactors:
    """Masked NMF of a public slice, V frozen.

    Parameters
    ----------
    share : float
        Share of one entity's users who are taken to be public, at least one of them.
    entity : hashable, optional
        Whose users; the entity with the most users when not given.
    factorization : Factorization
        Rank and objective.

    Paper
    -----
    Section 3, "Exploiting public data": Xin and Jaakkola 2014, "Controlling privacy in recommender systems".

    Privacy
    -------
    The public users have none, and say so. Nothing about anyone else is sent. Not called private, since there is no
    release that could have a price.

    Deviations
    ----------
    The item matrix is fitted to whole public rows. The public users are drawn at random; real ones choose themselves.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> fitted = PublicFactors(share=0.2, factorization=Factorization(rank=2)).fit(
    ...     hospitals.load(0.001), feedback="counts", seed=0
    ... )
    >>> fitted.traffic, fitted.note
    (Traffic(rounds=1, bytes_up=0, bytes_down=3656), 'item factors of 38 public users')
    """

    share: float = 0.1
    entity: Any = None
    factorization: Factorization = field(default_factory=Factorization)

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadParameter("share is out of range.", found=f"{self.share}", expected="above 0, at most 1")

    name: ClassVar[str] = "public item factors"
    private: ClassVar[bool] = False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Factorize the public rows."""
        entities = read_as(train, feedback, seed)
        label = max(entities, key=lambda name: entities[name].n_users) if self.entity is None else self.entity
        if label not in entities:
            raise BadParameter("the entity does not exist.", expected=f"one of {len(entities):,} labels")
        everyone = entities[label]
        count = max(1, round(self.share * everyone.n_users))
        chosen = np.random.default_rng(entity_seed(seed, label)).permutation(everyone.n_users)[:count]
        rows = everyone.take(np.sort(chosen)).matrix
        V = self.factorization.item_factors(rows, feedback=feedback, seed=seed)
        score = self.factorization.score(V, feedback=feedback, means=item_means(rows, feedback))
        return Fitted(
            scorers=dict.fromkeys(entities, score),
            traffic=Traffic(rounds=1, bytes_down=len(entities) * factor_bytes(*V.shape)),
            note=f"item factors of {count:,} public users",
        )
