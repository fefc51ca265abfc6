"""NOT PRIVATE: the recorded procedure, in which item factors are refitted to raw rows and handed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from studies.as_published import Recovery
from studies.systems.as_published_mf import published_prototypes
from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.factorization import Factorization, factor_bytes
from studies.systems.plain_server import plain_item_factors, plain_traffic
from studies.systems.pure_noise import noise_prototypes
from twofold.data.federation import Federation

__all__ = ["NotebookMF"]


@dataclass(frozen=True, kw_only=True)
class NotebookMF:
    """NOT PRIVATE: prototypes only start a factorization of raw rows, whose item factors start the next entity's.

    Parameters
    ----------
    prototypes : {"published", "noise"}
        What the first entity starts from: the published variant, or uniform noise. That both give the same figures
        is the finding.
    n_prototypes, epsilon, recovery
        As for `AsPublishedMF`.
    bound : float
        Of the noise.
    factorization : Factorization
        Rank and objective; ``Factorization.as_recorded(rank)`` for the recorded figures.

    Paper
    -----
    Not in the text, and against Algorithm 2: what was run for the figures of section 5.4 (audit section 5.3).

    Privacy
    -------
    None: item factors fitted to the raw rows of one entity reach the next one.

    Deviations
    ----------
    Alternating exact solves from the item factors that came in; the runs used coordinate descent with starts for both
    sides.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> system = NotebookMF(prototypes="noise", n_prototypes=3, factorization=Factorization(rank=2))
    >>> system.fit(federation, feedback="counts", seed=0).rounds
    2
    """

    prototypes: Literal["published", "noise"] = "published"
    n_prototypes: int = 10
    epsilon: float = 0.1
    recovery: Recovery = "dense"
    bound: float = 5.0
    factorization: Factorization = field(default_factory=Factorization)

    @property
    def name(self) -> str:
        """How tables name it."""
        return f"recorded procedure, {self.prototypes} prototypes"

    @property
    def private(self) -> bool:
        """No."""
        return False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Factorize the prototypes, then let every entity refit and hand on."""
        entities = read_as(train, feedback, seed)
        rows = self._prototypes(entities, seed)
        V = plain_item_factors(rows, self.factorization, seed=seed)
        scorers: dict[Any, Score] = {}
        for label, ratings in entities.items():
            V = self.factorization.item_factors(ratings.matrix, feedback=feedback, seed=seed, start=V)
            scorers[label] = self.factorization.score(V, feedback=feedback)
        return Fitted(
            scorers=scorers,
            traffic=self._traffic(rows),
            note="not private: item factors refitted to raw rows and handed from entity to entity",
        )

    def _prototypes(self, entities: Federation, seed: int) -> dict[Any, NDArray[np.float64]]:
        if self.prototypes == "noise":
            return noise_prototypes(entities, n_prototypes=self.n_prototypes, bound=self.bound, seed=seed)
        return published_prototypes(
            entities, n_prototypes=self.n_prototypes, epsilon=self.epsilon, recovery=self.recovery, seed=seed
        )

    def _traffic(self, rows: dict[Any, NDArray[np.float64]]) -> Traffic:
        """Prototypes up, factors down to the first entity, then on from each to the next."""
        up = plain_traffic(rows, self.factorization.rank).bytes_up
        n_items = next(iter(rows.values())).shape[1]
        one, handed = factor_bytes(n_items, self.factorization.rank), len(rows) - 1
        return Traffic(rounds=2 + handed, bytes_up=up + handed * one, bytes_down=one)
