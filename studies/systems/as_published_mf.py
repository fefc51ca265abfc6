"""NOT PRIVATE: the published variant of the prototypes, with the item factors frozen as Algorithm 2 says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.as_published import Recovery, prototypes_as_recorded
from studies.systems.base import Feedback, Fitted, read_as
from studies.systems.exchange import entity_seed
from studies.systems.factorization import Factorization
from studies.systems.plain_server import plain_item_factors, plain_traffic
from twofold.data.federation import Federation

__all__ = ["AsPublishedMF", "published_prototypes"]


@dataclass(frozen=True, kw_only=True)
class AsPublishedMF:
    """NOT PRIVATE: prototypes as the recorded runs made them, V frozen, users folded in.

    Parameters
    ----------
    n_prototypes : int
        k of the paper.
    epsilon : float
        The ε that the runs were told. They spend more; no ε is promised here.
    recovery : {"dense", "sparse"}
        "dense" in the eICU and synthetic logs, "sparse" in the MovieLens ones.
    factorization : Factorization
        Rank and objective.

    Paper
    -----
    MF + ε-private prototypes of sections 5.3 and 5.4, with Algorithm 2 taken at its word.

    Privacy
    -------
    None; see `studies.as_published`.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> fitted = AsPublishedMF(n_prototypes=3, factorization=Factorization(rank=2)).fit(
    ...     federation, feedback="counts", seed=0
    ... )
    >>> fitted.epsilon, fitted.note
    (None, 'not private: the published variant told to spend ε = 0.1')
    """

    n_prototypes: int = 10
    epsilon: float = 0.1
    recovery: Recovery = "dense"
    factorization: Factorization = field(default_factory=Factorization)

    @property
    def name(self) -> str:
        """How tables name it."""
        return "MF + prototypes as published"

    @property
    def private(self) -> bool:
        """No."""
        return False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Release as published, factorize, fold users in."""
        entities = read_as(train, feedback, seed)
        rows = published_prototypes(
            entities, n_prototypes=self.n_prototypes, epsilon=self.epsilon, recovery=self.recovery, seed=seed
        )
        V = plain_item_factors(rows, self.factorization, seed=seed)
        return Fitted(
            scorers=dict.fromkeys(entities, self.factorization.score(V, feedback=feedback)),
            traffic=plain_traffic(rows, self.factorization.rank),
            note=f"not private: the published variant told to spend ε = {self.epsilon:g}",
        )


def published_prototypes(
    train: Federation, *, n_prototypes: int, epsilon: float, recovery: Recovery, seed: int
) -> dict[Any, NDArray[np.float64]]:
    """NOT PRIVATE: every entity's prototypes as the recorded runs made them.

    Deviations
    ----------
    An entity with fewer than two users, with which the runs would have stopped, sends no prototype.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> rows = published_prototypes(hospitals.load(0.001), n_prototypes=2, epsilon=1.0, recovery="dense", seed=0)
    >>> rows["hospital-001"].shape
    (2, 457)
    """
    made = {}
    for label, ratings in train.items():
        if ratings.n_users < 2:
            made[label] = np.zeros((0, ratings.n_items))
            continue
        found = prototypes_as_recorded(
            ratings.matrix, n_prototypes, epsilon, recovery=recovery, rng=entity_seed(seed, label)
        )
        made[label] = found.value.centers
    return made
