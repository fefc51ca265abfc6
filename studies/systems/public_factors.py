"""Item factors from users who agreed to be public; everyone else is folded in and sends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from studies.systems.base import Feedback, Fitted, Traffic, read_as
from studies.systems.exchange import entity_seed
from studies.systems.factorization import Factorization, factor_bytes, item_means
from twofold.data.federation import Federation
from twofold.errors import BadParameter

__all__ = ["PublicFactors"]


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
    The public users have none, and say so. Nothing about anyone else is sent. Not called private, for there is no
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

    @property
    def name(self) -> str:
        """How tables name it."""
        return "public item factors"

    @property
    def private(self) -> bool:
        """No: nothing is released at all."""
        return False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Factorize the public rows."""
        entities = read_as(train, feedback, seed)
        label = max(entities, key=lambda name: entities[name].n_users) if self.entity is None else self.entity
        if label not in entities:
            raise BadParameter("there is no such entity.", expected=f"one of {len(entities):,} labels")
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
