"""Factor counts or 0/1 data with a small weight on everything absent: implicit ALS, factors of either sign."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms import _checks, _ials_kernels, _reference
from twofold.algorithms._jit import Workers, numba_enabled, one_blas_thread
from twofold.algorithms._lanes import LANES
from twofold.algorithms._nmf_alternate import near_one
from twofold.algorithms._nmf_sides import Entries, observed
from twofold.progress import tell

__all__ = ["EPOCHS", "REGULARIZATION", "UNOBSERVED", "implicit_als"]

Array = NDArray[Any]
Factors = NDArray[np.float32]

#: Settings of the literature [1]_ for MovieLens 20M.
UNOBSERVED = 0.1
REGULARIZATION = 0.003
EPOCHS = 16
#: Steps per row and epoch. One more changed nDCG@10 on MovieLens 1M by less than .001.
STEPS = 2
#: Standard deviation of a predicted entry at the start.
START = 0.1
#: Entries that one thread takes at a time; a row without any counts as much as this many.
ENTRIES_PER_BLOCK = 32_768
EMPTY_ROW = 8


def implicit_als(
    X: Any,
    rank: int,
    *,
    unobserved: float = UNOBSERVED,
    regularization: float = REGULARIZATION,
    count_scaling: float = 1.0,
    epochs: int = EPOCHS,
    steps: int = STEPS,
    stop: Callable[[int, Factors], bool] | None = None,
    threads: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> tuple[Factors, Factors]:
    """Factor a matrix whose absent entries are weak zeros.

    Minimises ``Σ_observed (x - u·v)² + α Σ_all (u·v)² + λ (Σ (n_u + α items)^a |u|² + Σ (n_i + α users)^a |v|²)``.
    An epoch takes some preconditioned conjugate gradient steps for every user, then for every item, from where the
    last epoch ended. They start cold once, so few steps are enough.

    Parameters
    ----------
    X : SciPy sparse matrix or array (users, items)
        Stored entries are observed; of an array, those that are not zero.
    rank : int
        Number of factors.
    unobserved : float
        α.
    regularization, count_scaling : float
        λ and the exponent a.
    epochs, steps : int
        How often both sides are visited, and how many steps a row takes each time.
    stop : function, optional
        Asked after every epoch with the number of epochs so far and V; true ends the fit there.
    threads : int, optional
        All processors by default. The result does not depend on it.
    rng : numpy.random.Generator, int or None
        Source of the random start; a fixed seed by default.

    Returns
    -------
    U, V : arrays (users, rank) and (items, rank), float32
        A user or an item without entries has zeros.

    References
    ----------
    .. [1] S. Rendle, W. Krichene, L. Zhang and Y. Koren, Revisiting the Performance of iALS on Item Recommendation
       Benchmarks, RecSys 2022.

    Examples
    --------
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> U, V = implicit_als(X, rank=2)
    >>> scores = U @ V.T
    >>> bool(scores[3, 2] > scores[3, 0])
    True
    """
    rank = _checks.whole_number("rank", rank)
    epochs, steps = _checks.whole_number("epochs", epochs, least=0), _checks.whole_number("steps", steps)
    alpha = _checks.non_negative_number("unobserved", unobserved)
    penalty = _checks.non_negative_number("regularization", regularization)
    power = _checks.non_negative_number("count_scaling", count_scaling)
    entries, _ = observed(X, None, "counts")
    assert entries is not None  # counts are never read as a matrix without absent cells
    scale = near_one(entries.values)
    settings = _Settings(alpha, penalty / scale, power, steps)
    users = _Side(replace(entries, values=(entries.values / scale).astype(np.float32)), settings)
    items = _Side(users.entries.transposed(), settings)
    random = np.random.default_rng(rng)
    width = -(-rank // LANES) * LANES
    U, V = (np.zeros((len(side.ridge), width), np.float32) for side in (users, items))
    V[:, :rank] = random.standard_normal((len(V), rank), np.float32) * np.float32(START / np.sqrt(rank))
    V[items.entries.counts() == 0] = 0
    root = np.float32(np.sqrt(scale))
    with Workers(threads) as workers, one_blas_thread():
        for epoch in range(epochs):
            U = users.improved(U, V, workers)
            V = items.improved(V, U, workers)
            tell("implicit ALS", epoch + 1, epochs)
            if stop is not None and stop(epoch + 1, V[:, :rank] * root):
                break
    return U[:, :rank] * root, V[:, :rank] * root


class _Settings(NamedTuple):
    unobserved: float
    penalty: float
    power: float
    steps: int


class _Side:
    """The entries of one side and what they are penalised with."""

    def __init__(self, entries: Entries, settings: _Settings) -> None:
        self.entries, self.settings = entries, settings
        weight = entries.counts() + settings.unobserved * entries.shape[1]
        self.ridge = settings.penalty * weight**settings.power
        self._typical = float(np.median(self.ridge)) if self.ridge.size else 0.0
        cost = entries.starts + EMPTY_ROW * np.arange(entries.shape[0] + 1)
        marks = np.arange(0, cost[-1], ENTRIES_PER_BLOCK)
        self._edges = np.unique(np.append(np.searchsorted(cost, marks), entries.shape[0]))

    def improved(self, own: Factors, other: Factors, workers: Workers) -> Factors:
        """Take some steps from `own`, given the factors of the other side."""
        values, vectors = np.linalg.eigh((other.T @ other).astype(np.float64))
        base = self.settings.unobserved * np.maximum(values, 0.0)
        # The floor keeps directions that nothing holds finite; no entry reaches them either.
        usual = np.maximum(base + self._typical, 1e-6 * max(float(base.max(initial=0.0)), 1e-6))
        basis = (vectors / np.sqrt(usual)).astype(np.float32)
        back = (vectors * np.sqrt(usual)).astype(np.float32)
        out = own @ back
        tail = (
            np.ascontiguousarray(other @ basis).reshape(-1),
            own.shape[1],
            (base / usual).astype(np.float32),
            (1.0 / usual).astype(np.float32),
            self.ridge.astype(np.float32),
            self.settings.steps,
            out.reshape(-1),
        )
        head = (self.entries.starts, self.entries.columns, self.entries.values)
        run: Any = _ials_kernels.descend_rows if numba_enabled() else _reference.descend_rows

        def improve(block: int) -> None:
            run(self._edges[block], self._edges[block + 1], *head, *tail)

        workers.run(improve, self._edges.size - 1)
        return np.asarray(out @ basis.T)
