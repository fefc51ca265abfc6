"""Every entity alone: the model that a federation has to beat."""

from __future__ import annotations

from dataclasses import dataclass, field

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.factorization import Factorization, item_means
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings

__all__ = ["IndividualMF"]


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
    Nothing leaves an entity. Not called private, for it makes no release that could have a price.

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

    @property
    def name(self) -> str:
        """How tables name it."""
        return "individual MF"

    @property
    def private(self) -> bool:
        """No: nothing is released at all."""
        return False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Factorize each entity's rows."""
        entities = read_as(train, feedback, seed)
        scorers = {label: self._score(one, feedback, seed) for label, one in entities.items()}
        return Fitted(scorers=scorers, traffic=Traffic(), note="nothing leaves an entity")

    def _score(self, ratings: Ratings, feedback: Feedback, seed: int) -> Score:
        V = self.factorization.item_factors(ratings.matrix, feedback=feedback, seed=seed)
        return self.factorization.score(V, feedback=feedback, means=item_means(ratings.matrix, feedback))
