"""Everybody's rows in one factorization: what the entities may not do, and what all others are measured against."""

from __future__ import annotations

from dataclasses import dataclass, field

from studies.systems.base import Feedback, Fitted, Traffic, read_as
from studies.systems.factorization import Factorization, factor_bytes, item_means, rows_bytes
from twofold.data.federation import Federation

__all__ = ["PooledMF"]


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

    @property
    def name(self) -> str:
        """How tables name it."""
        return "pooled MF"

    @property
    def private(self) -> bool:
        """No."""
        return False

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
