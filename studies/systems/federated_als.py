"""Federated collaborative filtering: users solved at the entities, item factors moved by the sum of their gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems._adam import Adam
from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.factorization import Factorization, factor_bytes
from twofold.algorithms.fold_in import FoldIn
from twofold.csr import with_data
from twofold.data.federation import Federation

__all__ = ["FederatedALS", "item_gradient"]

Floats = NDArray[Any]
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

    @property
    def name(self) -> str:
        """How tables name it."""
        return "federated ALS"

    @property
    def private(self) -> bool:
        """No."""
        return False

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
