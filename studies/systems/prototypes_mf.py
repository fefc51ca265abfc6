"""The paper's system: prototypes to the server, item factors back and frozen, users folded in."""

from __future__ import annotations

from dataclasses import dataclass, field

from studies.systems.base import Feedback, Fitted, read_as
from studies.systems.exchange import Release, exchange
from studies.systems.factorization import Factorization
from twofold.data.federation import Federation

__all__ = ["PrototypesMF"]


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
        """How tables name it."""
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
