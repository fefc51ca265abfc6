"""Federated systems that send item factors or their gradients in every iteration. None is private."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.factorization import Factorization, factor_bytes
from twofold.algorithms.fold_in import FoldIn
from twofold.csr import with_data
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings

__all__ = ["Adam", "FedAvgMF", "FederatedALS", "item_gradient"]

Floats = NDArray[Any]


@dataclass(kw_only=True)
class Adam:
    """Steps by the mean gradient over the root of the mean square, both with forgetting and without bias.

    Examples
    --------
    >>> Adam(step=0.5).moved(np.zeros(2), np.array([3.0, -7.0])).round(6).tolist()
    [-0.5, 0.5]
    """

    step: float = 0.1
    decay: float = 0.9
    decay_squares: float = 0.99
    _count: int = field(default=0, init=False, repr=False)
    _mean: Floats | None = field(default=None, init=False, repr=False)
    _square: Floats | None = field(default=None, init=False, repr=False)

    def moved(self, values: Floats, gradient: Floats) -> Floats:
        """Values after one step against the gradient, in their own precision."""
        self._count += 1
        zero = np.zeros_like(gradient)
        mean = self._mean if self._mean is not None else zero
        square = self._square if self._square is not None else zero
        self._mean = self.decay * mean + (1 - self.decay) * gradient
        self._square = self.decay_squares * square + (1 - self.decay_squares) * gradient**2
        even = self._mean / (1 - self.decay**self._count)
        size = np.sqrt(self._square / (1 - self.decay_squares**self._count))
        return np.asarray(values - self.step * even / (size + 1e-8), dtype=values.dtype)


_BLOCK = 1 << 18


@dataclass(frozen=True, kw_only=True)
class FederatedALS:
    """Iterative and not private: V down, gradients of V up, in every iteration.

    Parameters
    ----------
    factorization : Factorization
        Rank and objective; its iterations and tolerance are not used.
    iterations : int
        How often V goes down and gradients come up.
    step, decay, decay_squares : float
        Of the server's Adam steps.

    Paper
    -----
    Ammad-ud-din et al. 2019, "Federated Collaborative Filtering for Privacy-Preserving Personalized Recommendation
    System" (arXiv 1901.09888), named in the paper's section 3 as needing much communication and having no privacy
    guarantee.

    Privacy
    -------
    None: sums of gradients are exact functions of raw rows.

    Deviations
    ----------
    A client is an entity, which adds up its users' gradients before it sends them: as many times fewer bytes as an
    entity has users. The loss is that of the other systems here (predicted values over observed entries, or counts
    with absent zeros), not preference with confidence, so that figures compare. A penalty that grows with the entries
    is added by each entity for its own, one that does not by the server, so that the sum is the pooled gradient. For
    ratings, what nobody rated keeps its random start.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> system = FederatedALS(factorization=Factorization(rank=2), iterations=3)
    >>> fitted = system.fit(hospitals.load(0.001), feedback="counts", seed=0)
    >>> fitted.rounds, fitted.bytes_up == 3 * 4 * 457 * 2, fitted.bytes_down == 4 * 4 * 457 * 2
    (7, True, True)
    """

    factorization: Factorization = field(default_factory=Factorization)
    iterations: int = 50
    step: float = 0.1
    decay: float = 0.9
    decay_squares: float = 0.99

    name: ClassVar[str] = "federated ALS"
    private: ClassVar[bool] = False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Iterate; V is last sent after the last step."""
        entities = read_as(train, feedback, seed)
        V = first_factors(entities, self.factorization.rank, seed)
        adam = Adam(step=self.step, decay=self.decay, decay_squares=self.decay_squares)
        for _ in range(self.iterations):
            sent = [item_gradient(one.matrix, V, self.factorization, feedback=feedback) for one in entities.values()]
            own = 0.0 if self.factorization.count_scaling else self.factorization.regularization
            V = adam.moved(V, np.sum(sent, axis=0, dtype=np.float64) + own * V)
        size = len(entities) * factor_bytes(*V.shape)
        return Fitted(
            scorers=dict.fromkeys(entities, signed_score(V, self.factorization, feedback)),
            traffic=Traffic(
                rounds=2 * self.iterations + 1,
                bytes_up=self.iterations * size,
                bytes_down=(self.iterations + 1) * size,
            ),
            note="not private: exact gradients leave in every iteration",
        )


def first_factors(train: Federation, rank: int, seed: int) -> NDArray[np.float32]:
    """Small positive random factors, drawn by the server before it knows anything.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> first_factors(hospitals.load(0.001), 3, 0).shape
    (457, 3)
    """
    drawn = np.random.default_rng(seed).uniform(0.0, 1.0, (len(train.catalog), rank))
    return np.asarray(drawn / np.sqrt(rank), dtype=np.float32)


def item_gradient(
    rows: sparse.csr_array, V: Floats, factorization: Factorization, *, feedback: Feedback
) -> NDArray[np.float32]:
    """Half the gradient of the objective in V at an entity, its users solved exactly first; what it sends.

    Parameters
    ----------
    rows : csr array (users, items)
        Private.
    V : array (items, rank)
        What the server sent.
    factorization, feedback
        The objective.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[2.0, 4.0]]))
    >>> how = Factorization(rank=1, regularization=0.0)
    >>> item_gradient(rows, np.array([[1.0], [2.0]]), how, feedback="ratings").round(5).tolist()
    [[0.0], [0.0]]
    """
    absent = factorization.zero_weight if feedback == "counts" else 0.0
    U = _folding(V, factorization, feedback).rows(rows) if rows.shape[0] else np.zeros((0, V.shape[1]), np.float32)
    errors = _weighted_errors(rows, U, V, absent)
    seen = np.bincount(rows.indices, minlength=rows.shape[1])
    pull = errors.T @ U + absent * (V @ (U.T @ U))
    if factorization.count_scaling:
        ridge = (seen + absent * (rows.shape[0] - seen)) ** factorization.count_scaling
        pull += factorization.regularization * ridge[:, None] * V
    return np.asarray(pull, dtype=np.float32)


def _weighted_errors(rows: sparse.csr_array, U: Floats, V: Floats, absent: float) -> sparse.csr_array:
    """``(1 - a) u·v - x`` at the stored entries; with ``a V UᵀU`` that makes the weighted errors of all entries."""
    owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    fitted = np.empty(rows.nnz, np.float32)
    for start in range(0, rows.nnz, _BLOCK):
        own = slice(start, start + _BLOCK)
        fitted[own] = np.einsum("er,er->e", U[owners[own]], V[rows.indices[own]])
    return with_data(rows, (1 - absent) * fitted - rows.data)


def _folding(V: Floats, factorization: Factorization, feedback: Feedback) -> FoldIn:
    return FoldIn(
        V,
        feedback=feedback,
        zero_weight=factorization.zero_weight,
        regularization=factorization.regularization,
        count_scaling=factorization.count_scaling,
        nonnegative=False,
    )


def signed_score(V: Floats, factorization: Factorization, feedback: Feedback) -> Score:
    """Fold histories in without signs and predict ``u·v``.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[-1.0, 2.0]]))
    >>> signed_score(np.eye(2), Factorization(rank=2, regularization=0.0), "ratings")(rows).tolist()
    [[-1.0, 2.0]]
    """
    ready = _folding(V, factorization, feedback)

    def scores(rows: sparse.csr_array) -> Floats:
        return np.asarray(ready.rows(rows) @ V.T) if rows.shape[0] else np.zeros(rows.shape)

    return scores


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

    name: ClassVar[str] = "FedAvg MF"
    private: ClassVar[bool] = False

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
