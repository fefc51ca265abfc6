"""Noise-aware factorization of weighted rows: what the server does with all messages, as a pure function.

A penalty at the noise edge leaves some factors dead and makes the others too small by a known amount; the dead are
left out and the others get their size back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from twofold.algorithms import masked_nmf
from twofold.algorithms._jit import one_blas_thread
from twofold.csr import csr_rows
from twofold.federation.plan import Plan
from twofold.release.content import Floats, Moments, WeightedRows
from twofold.server.denoise import canonical
from twofold.server.descent import Scaling, Survey, row_equations, scaling, solve, survey

__all__ = ["SharedFactors", "above_noise", "factorize_rows", "unshrunk"]

MOST_ITERATIONS = 200
TOLERANCE = 1e-6
# Of the edge. Alternating solves bring a dead factor down by a factor in every step, never to zero itself.
_DEAD = 0.01


@dataclass(frozen=True, kw_only=True)
class SharedFactors:
    """Numbers of `twofold.federation.factors.ItemFactors`, before they belong to a plan; see there.

    Attributes
    ----------
    factors, moments : arrays (items, rank) and (rank, rank)
        In the form of `twofold.server.denoise`.
    means, support : arrays (items,)
        Mean of each item and how far it can be trusted.
    users : float
        Users less what the noise takes away.
    note : str
        What was decided, in words.
    patterns, strengths, squares : arrays (items, patterns), (patterns,) and (items,), optional
        The denoised second moments, where the messages hold any.
    totals : Moments, optional
        The noisy moments themselves, for counts with a gram.
    """

    factors: Floats = field(repr=False)
    moments: Floats = field(repr=False)
    means: Floats = field(repr=False)
    support: Floats = field(repr=False)
    users: float
    note: str = ""
    patterns: Floats | None = field(default=None, repr=False)
    strengths: Floats | None = field(default=None, repr=False)
    squares: Floats | None = field(default=None, repr=False)
    totals: Moments | None = field(default=None, repr=False)


def factorize_rows(rows: WeightedRows, plan: Plan, *, threads: int | None = None) -> SharedFactors:
    r"""Find item factors in noisy rows, weighted by their precision.

    Parameters
    ----------
    rows : WeightedRows
        What a mechanism's ``combine`` gives.
    plan : Plan
        Rank, regularization, feedback and seed of the start.
    threads : int, optional
        All processors by default; the result does not depend on it.

    Returns
    -------
    SharedFactors

    Notes
    -----
    1. Rows are weighted by inverse variance and never clipped at zero (`Scaling`).
    2. V comes from masked NMF under a penalty raised by the noise edge (`noise_edge`), which takes that much off every
       singular value. The edge is the largest direction of pure noise on average, not in every draw: in
       simulations a quarter to two fifths of draws lay above it, most by a few hundredths of it, the farthest by a
       quarter. Only that excess enters, which is small in size. Without noise it is plain NMF.
    3. The moments are the mean of u uᵀ over rows, each counted by its weight in users, with what the raised penalty
       took off the strong patterns given back (`unshrunk`).

    The rank is lowered to what the rows can hold; factors that did not rise above the noise are left out.

    Paper
    -----
    Algorithm 2, line 4, with Eq. 2.

    Deviations
    ----------
    The paper factorizes prototypes unchanged, all with the same weight and whatever their noise.

    Privacy
    -------
    Post-processing of released rows.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=9, max_items=3, rank=1)
    >>> values, ones = np.array([[1.0, 2.0, 0.0], [3.0, 6.0, 0.0]]), np.ones(2)
    >>> rows = WeightedRows(values=values, row_weights=ones, noise=0 * ones, sizes=ones, seeded=False)
    >>> found = factorize_rows(rows, plan.with_(regularization=0.0))
    >>> (found.factors @ found.moments @ found.factors.T).round(3)
    array([[ 5., 10.,  0.],
           [10., 20.,  0.],
           [ 0.,  0.,  0.]])
    """
    with one_blas_thread():  # sums cut otherwise by another number of threads would be other sums
        seen = survey([rows], plan)
        scale = scaling(seen, plan)
        rank = usable_rank(plan, seen)
        if not seen.rows:
            return finish(None, None, seen, scale, plan)
        scaled = fit_items(rows, scale, rank=rank, seed=plan.seed, threads=threads)
        return finish(scaled, row_moments(scaled, [rows], scale, threads), seen, scale, plan)


def usable_rank(plan: Plan, seen: Survey) -> int:
    """Rank of the plan, or the largest rank that rows and items allow."""
    return max(1, min(plan.rank, seen.rows, seen.n_items))


def fit_items(rows: WeightedRows, scale: Scaling, *, rank: int, seed: int, threads: int | None) -> Floats:
    """Item factors of Y, by masked NMF under the raised penalty."""
    Y, weights, _ = scale.rows(rows)
    found = masked_nmf(
        Y if weights is None else _stored(Y, weights > 0),
        rank,
        weights=None if weights is None else weights[weights > 0],
        regularization=scale.ridge,
        count_scaling=0.0,
        max_iterations=MOST_ITERATIONS,
        tolerance=TOLERANCE,
        dtype=np.float64,
        threads=threads,
        rng=seed,
    )
    return np.asarray(found[1])


def _stored(Y: Floats, observed: NDArray[np.bool_]) -> sp.csr_array:
    """Keep only what was observed: of rated prototypes most cells are empty."""
    starts = np.concatenate(([0], np.cumsum(observed.sum(axis=1))))
    return csr_rows(Y[observed], np.nonzero(observed)[1], starts, Y.shape)


def finish(
    scaled: Floats | None,
    row_sums: tuple[Floats, Floats] | None,
    seen: Survey,
    scale: Scaling,
    plan: Plan,
    *,
    remark: str = "",
) -> SharedFactors:
    """Turn factors of Y and what `row_moments` gives into factors of the values, moments, means and a note."""
    V, moments = np.zeros((seen.n_items, 1)), np.zeros((1, 1))
    if scaled is not None and row_sums is not None and scaled.any():
        own, total = row_sums
        kept = above_noise(scaled, own, scale.edge)
        total = total / seen.weight
        own, total = own[np.ix_(kept, kept)], total[np.ix_(kept, kept)]
        V, moments = canonical(scale.item_factors(scaled[:, kept]), unshrunk(scaled[:, kept], own, total, scale.edge))
    alive = V.shape[1] if V.any() else 0
    return SharedFactors(
        factors=V,
        moments=moments,
        means=_means(seen, plan),
        support=seen.item_weight,
        users=seen.weight,
        note="; ".join(words for words in (_note(plan, seen, scale, alive), remark) if words),
    )


def row_moments(
    scaled: Floats, blocks: Iterable[WeightedRows], scale: Scaling, threads: int | None
) -> tuple[Floats, Floats]:
    """Sums of ũ ũᵀ over the rows of Y, and of u uᵀ over users, at the best fit to the factors of Y."""
    rank = scaled.shape[1]
    own, total = np.zeros((rank, rank)), np.zeros((rank, rank))
    for block in blocks:
        Y, weights, roots = scale.rows(block)
        gram, given, _ = row_equations(Y, weights, scaled)
        U = solve(gram, given, scale.ridge, threads=threads)
        users = np.divide(U, roots[:, None], out=np.zeros_like(U), where=roots[:, None] > 0)
        own += U.T @ U
        total += (users * block.row_weights[:, None]).T @ users
    return own, (total + total.T) / 2


def _means(seen: Survey, plan: Plan) -> Floats:
    """Weighted mean of each item over the rows; the plan's centre for items without data."""
    nothing = np.full(seen.n_items, plan.centre_value)
    return np.asarray(np.divide(seen.item_sum, seen.item_weight, out=nothing, where=seen.item_weight > 0))


def _note(plan: Plan, seen: Survey, scale: Scaling, alive: int) -> str:
    words = []
    rank = usable_rank(plan, seen)
    if rank < plan.rank:
        words.append(f"rank lowered from {plan.rank} to {rank}: {seen.rows} rows of {seen.n_items} items carry weight")
    if scale.edge > 0:
        words.append(f"noise edge {scale.edge:.3g}, regularization {scale.base:.3g}")
    if alive == 0:
        words.append("nothing rose above the noise and the penalty: all factors are zero")
    elif alive < rank:
        words.append(f"{alive} of {rank} factors are in use" + (", the others are below the noise" * (scale.edge > 0)))
    return "; ".join(words)


def above_noise(V: Floats, gram: Floats, edge: float) -> NDArray[np.int64]:
    """Numbers of the factors that hold more than a hundredth of the noise edge.

    Parameters
    ----------
    V : array (items, rank)
        Item factors of the scaled rows.
    gram : array (rank, rank)
        UᵀU of the scaled rows.
    edge : float
        See `twofold.server.descent.noise_edge`.

    Examples
    --------
    >>> above_noise(np.array([[1.0, 0.1]]), np.diag([4.0, 0.01]), edge=10.0)
    array([0])
    """
    strength = np.sqrt(np.diag(gram) * (V**2).sum(axis=0))
    return np.flatnonzero(strength > _DEAD * edge)


def unshrunk(V: Floats, gram: Floats, moments: Floats, edge: float) -> Floats:
    r"""Give the patterns in `moments` the size they have without the penalty of the noise edge.

    Parameters
    ----------
    V, gram, edge
        As for `above_noise`.
    moments : array (rank, rank)
        Mean of u uᵀ.

    Notes
    -----
    The penalty takes the edge τ off each singular value s of the rows and leaves p = s - τ. The best guess of what was
    there before the noise is :math:`\sqrt{s^2 - \tau^2} = \sqrt{p(p + 2\tau)}` (Gavish and Donoho 2017, for square
    matrices; other shapes differ little): almost nothing at the edge, almost s far above it. The p are the singular
    values of UVᵀ. Without noise nothing changes.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> unshrunk(3 * one, one, one, edge=0.0), unshrunk(3 * one, one, one, edge=1.5)
    (array([[1.]]), array([[2.]]))
    """
    if edge == 0 or not len(gram):
        return moments
    R: Floats = np.asarray(np.linalg.qr(V, mode="r"))
    squares, axes = np.linalg.eigh(R @ gram @ R.T)
    sizes = np.sqrt(np.maximum(squares, 0.0))
    known = sizes > 1e-9 * sizes.max(initial=0.0)
    gain = np.sqrt(1 + 2 * edge / np.where(known, sizes, np.inf))
    change = np.linalg.pinv(R) @ (axes * gain) @ axes.T @ R
    return np.asarray(change @ moments @ change.T)
