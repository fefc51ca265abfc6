"""Federated averaging of item factors: some local iterations from the shared V, then a weighted mean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.systems.base import Feedback, Fitted, Traffic, read_as
from studies.systems.factorization import Factorization, factor_bytes
from studies.systems.federated_als import first_factors
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings

__all__ = ["FedAvgMF"]

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class FedAvgMF:
    """Iterative and not private: V down, locally improved V up, averaged.

    Parameters
    ----------
    factorization : Factorization
        Rank and objective.
    iterations : int
        How often V goes down and comes up.
    local_iterations : int
        Alternating iterations at an entity before it sends.

    Paper
    -----
    McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data", with the item
    factors for the model; stands for the generic federated learning of the paper's section 2.2.

    Privacy
    -------
    None: item factors fitted to raw rows leave in every iteration.

    Deviations
    ----------
    Local epochs are alternating exact solves, not stochastic steps. Factors are averaged item by item, by how many
    entries an entity has of the item (absent counts by their weight), not by the size of the entity: a plain mean draws
    the factors of what few entities have to those of entities that know nothing of it. The weights are sent once. For
    ratings, what nobody rated keeps its random start.

    Notes
    -----
    Entities that are alike come to the pooled fit; those that differ much stop short of it (client drift), since a mean
    of local solutions is not the solution of the whole. `FederatedALS` has no such limit, and needs more iterations.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> system = FedAvgMF(factorization=Factorization(rank=2), iterations=3)
    >>> fitted = system.fit(hospitals.load(0.001), feedback="counts", seed=0)
    >>> fitted.rounds, fitted.bytes_up == 3 * 4 * 457 * 2 + 4 * 457, fitted.bytes_down == 4 * 4 * 457 * 2
    (7, True, True)
    """

    factorization: Factorization = field(default_factory=Factorization)
    iterations: int = 20
    local_iterations: int = 1

    @property
    def name(self) -> str:
        """How tables name it."""
        return "FedAvg MF"

    @property
    def private(self) -> bool:
        """No."""
        return False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Iterate; V is last sent after the last mean."""
        entities = read_as(train, feedback, seed)
        shares = self._shares(entities, feedback)
        V = first_factors(entities, self.factorization.rank, seed)
        for _ in range(self.iterations):
            moves = [self._local(one, V, feedback, seed) - V for one in entities.values()]
            V = (V + np.einsum("ei,eir->ir", shares, np.array(moves))).astype(np.float32)
        size = len(entities) * factor_bytes(*V.shape)
        return Fitted(
            scorers=dict.fromkeys(entities, self.factorization.score(V, feedback=feedback)),
            traffic=Traffic(
                rounds=2 * self.iterations + 1,
                bytes_up=self.iterations * size + len(entities) * 4 * len(V),
                bytes_down=(self.iterations + 1) * size,
            ),
            note="not private: locally fitted item factors leave in every iteration",
        )

    def _shares(self, entities: Federation, feedback: Feedback) -> Floats:
        """How much each entity's factors of each item weigh, (entities, items); they add up to one, or are all zero."""
        absent = self.factorization.zero_weight if feedback == "counts" else 0.0
        seen = np.array([np.bincount(one.matrix.indices, minlength=one.n_items) for one in entities.values()])
        known = seen + absent * (entities.sizes[:, None] - seen)
        return np.asarray(known / np.maximum(known.sum(axis=0), 1e-300))

    def _local(self, ratings: Ratings, V: Floats, feedback: Feedback, seed: int) -> Floats:
        """V after some iterations on an entity's own rows."""
        how = replace(self.factorization, max_iterations=self.local_iterations, tolerance=0.0)
        return how.item_factors(ratings.matrix, feedback=feedback, seed=seed, start=V)
