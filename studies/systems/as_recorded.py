"""NOT PRIVATE: the published variant, the recorded procedure, and pure noise in place of prototypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from studies.as_published import Recovery, prototypes_as_recorded
from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.exchange import entity_seed
from studies.systems.factorization import Factorization, factor_bytes
from twofold.data.federation import Federation

__all__ = [
    "AsPublishedMF",
    "NotebookMF",
    "PureNoise",
    "noise_prototypes",
    "plain_item_factors",
    "plain_traffic",
    "published_prototypes",
]

Floats = NDArray[Any]


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

    name: ClassVar[str] = "MF + prototypes as published"
    private: ClassVar[bool] = False

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
        """Name in tables."""
        return f"recorded procedure, {self.prototypes} prototypes"

    private: ClassVar[bool] = False

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
    Nothing about anyone is sent. Not called private, since there is no release that could have a price.

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

    name: ClassVar[str] = "MF + pure noise"
    private: ClassVar[bool] = False

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
    """Uniform noise from each entity's own stream.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> noise_prototypes(hospitals.load(0.001), n_prototypes=2, bound=1.0, seed=0)["hospital-001"].shape
    (2, 457)
    """
    shape = (n_prototypes, len(train.catalog))
    return {label: np.random.default_rng(entity_seed(seed, label)).uniform(0, bound, shape) for label in train}


def plain_item_factors(prototypes: Mapping[Any, Floats], factorization: Factorization, *, seed: int) -> Floats:
    """V of all prototypes under one another, all weighing the same, negative numbers read as zero.

    Paper
    -----
    Algorithm 2, line 4, as the recorded runs did it.

    Deviations
    ----------
    None that is known; the clipping is theirs and adds a constant to noisy rows, which is why our server does not clip.

    Examples
    --------
    >>> rows = {"north": np.array([[1.0, 2.0], [2.0, 4.0]])}
    >>> V = plain_item_factors(rows, Factorization(rank=1, regularization=0.0), seed=0)
    >>> round(float(V[1, 0] / V[0, 0]), 3)
    2.0
    """
    rows = np.maximum(np.concatenate(list(prototypes.values())), 0.0)
    return factorization.item_factors(rows, feedback="ratings", seed=seed)  # a dense array: every entry is observed


def plain_traffic(prototypes: Mapping[Any, Floats], rank: int) -> Traffic:
    """Prototypes up and item factors down, all as float32.

    Examples
    --------
    >>> plain_traffic({"north": np.zeros((3, 5)), "south": np.zeros((3, 5))}, 2)
    Traffic(rounds=2, bytes_up=120, bytes_down=80)
    """
    n_items = next(iter(prototypes.values())).shape[1]
    return Traffic(
        rounds=2,
        bytes_up=sum(4 * rows.size for rows in prototypes.values()),
        bytes_down=len(prototypes) * factor_bytes(n_items, rank),
    )
