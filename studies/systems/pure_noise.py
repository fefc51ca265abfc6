"""The noise control: prototypes that know nothing of anyone. With frozen item factors they must rank like chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.systems.base import Feedback, Fitted, read_as
from studies.systems.exchange import entity_seed
from studies.systems.factorization import Factorization
from studies.systems.plain_server import plain_item_factors, plain_traffic
from twofold.data.federation import Federation

__all__ = ["PureNoise", "noise_prototypes"]


@dataclass(frozen=True, kw_only=True)
class PureNoise:
    """Uniform noise for prototypes, item factors frozen, users folded in.

    Parameters
    ----------
    n_prototypes : int
        Rows of noise per entity.
    bound : float
        Noise is uniform from 0 to this.
    factorization : Factorization
        Rank and objective.

    Paper
    -----
    Not in it. Audit section 5.3: the recorded procedure gives the recorded figures with this noise for prototypes.

    Privacy
    -------
    Nothing about anyone is sent. Not called private, for there is no release that could have a price.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> fitted = PureNoise(factorization=Factorization(rank=2)).fit(federation, feedback="counts", seed=0)
    >>> fitted.bytes_up == 4 * 10 * 457
    True
    """

    n_prototypes: int = 10
    bound: float = 5.0
    factorization: Factorization = field(default_factory=Factorization)

    @property
    def name(self) -> str:
        """How tables name it."""
        return "MF + pure noise"

    @property
    def private(self) -> bool:
        """No: nothing is released at all."""
        return False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Factorize noise, fold users in."""
        entities = read_as(train, feedback, seed)
        rows = noise_prototypes(entities, n_prototypes=self.n_prototypes, bound=self.bound, seed=seed)
        V = plain_item_factors(rows, self.factorization, seed=seed)
        return Fitted(
            scorers=dict.fromkeys(entities, self.factorization.score(V, feedback=feedback)),
            traffic=plain_traffic(rows, self.factorization.rank),
            note="noise control: the prototypes hold no data",
        )


def noise_prototypes(
    train: Federation, *, n_prototypes: int, bound: float, seed: int
) -> dict[Any, NDArray[np.float64]]:
    """Uniform noise of each entity's own stream.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> noise_prototypes(hospitals.load(0.001), n_prototypes=2, bound=1.0, seed=0)["hospital-001"].shape
    (2, 457)
    """
    shape = (n_prototypes, len(train.catalog))
    return {label: np.random.default_rng(entity_seed(seed, label)).uniform(0, bound, shape) for label in train}
