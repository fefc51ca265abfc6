r"""What the federation knows of ratings, from one noisy bilinear statistic: item offsets, and common patterns.

A user's row x is what they gave above their own mean, s a short public profile of it (of norm 1). Released are, over
all users, totals of x, of observations, and of x sᵀ. With :math:`x_i = b_i + \ell_i^T t + e`, t the profile less its
mean and made white, item i's totals are :math:`n_i (b_i, \ell_i)` plus noise of known size: one half-step of
alternating least squares. The second moments of the profile come from the same numbers, because the public map turns
the totals of x sᵀ into those of s sᵀ.

Offsets and loadings of all items are then estimated together (`twofold.server.empirical_bayes`): an item is what its
public features and the number of its ratings say, as far as its own totals do not say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from twofold.algorithms._blas_threads import one_blas_thread
from twofold.features import Features
from twofold.protocol.plan import Plan
from twofold.prototypes.bilinear.moments import Moments
from twofold.prototypes.bilinear.profiles import random_signs
from twofold.prototypes.message import Floats
from twofold.server.denoise import keep_symmetric
from twofold.server.empirical_bayes import Hierarchy, fit_hierarchy, sizes_of_items
from twofold.server.rating_factors import non_negative_factors
from twofold.server.rows import SharedFactors

__all__ = ["factorize_ratings"]

#: Scatter of a single rating around offset and patterns, in quarters of the range of values.
RESIDUAL: Final = 0.85
#: Where the variance of offsets starts, and of all loadings together, in squared quarters of the range.
OFFSET_SPREAD, LOADING_SPREAD = 0.1, 0.1
#: Smallest variance of a direction of the profile, of what it would be were all the same.
THIN: Final = 0.01
#: Most patterns that are sent; weaker ones than this part of the strongest are left out.
MOST_PATTERNS: Final = 64
FAINT: Final = 1e-4
#: Smallest mean rating above the lowest possible one, as a part of the range: factors of zeros say nothing.
LEAST_MEAN: Final = 0.01


def factorize_ratings(moments: Moments, plan: Plan) -> SharedFactors:
    """Find item offsets, loadings and patterns in noisy moments of ratings.

    Parameters
    ----------
    moments : Moments
        Of any kind.
    plan : Plan
        Range of values, rank, seed of the sketch, and public features, which help any kind.

    Returns
    -------
    SharedFactors
        Means are the plan's centre plus offsets, shrunk already: what users give on the whole was never released.
        ``patterns @ diag(strengths) @ patterns.T`` is the covariance of users' ratings around means and own offset.

    Privacy
    -------
    Post-processing of released numbers and of public ones.

    Paper
    -----
    Algorithm 2, line 4, for a statistic the paper does not have.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="ratings", bound=5, lower=1, max_items=3)
    >>> moments = Moments(
    ...     kind="sketch", users=100.0, sums=np.array([50.0, -50.0, 0.0]), pairs=np.zeros((3, 2)), users_noise=1.0,
    ...     sums_noise=1.0, pairs_noise=1.0, cap=3.0, entities=4, seeded=False, observed=np.full(3, 90.0),
    ...     observed_noise=1.0,
    ... )
    >>> found = factorize_ratings(moments, plan)
    >>> found.means.round(1), bool((found.factors >= 0).all())
    (array([3.5, 2.5, 3. ]), True)
    """
    with one_blas_thread():  # sums cut otherwise by another number of threads would be other sums
        return _factorized(moments, plan)


def _factorized(moments: Moments, plan: Plan) -> SharedFactors:
    unit = (plan.bound - plan.lower) / 4
    profile = _profile(moments, plan)
    observed = np.zeros(plan.n_items) if moments.observed is None else moments.observed
    sizes = sizes_of_items(observed, moments.observed_noise, most=_users(moments, plan))
    found = fit_hierarchy(
        np.hstack([moments.sums[:, None], profile.totals(moments)]),
        sizes,
        profile.noise(moments),
        _design(sizes, plan.public.features),
        residual=RESIDUAL * unit,
        spread=unit**2
        * np.concatenate([[OFFSET_SPREAD], np.full(profile.width, LOADING_SPREAD / max(profile.width, 1))]),
    )
    return _shared(found, sizes, moments, plan, unit)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Profile:
    """How to make the profile white: t = (s - mean) @ white, of items' totals that are pairs @ basis."""

    basis: Floats | None = field(repr=False)
    mean: Floats = field(repr=False)
    white: Floats = field(repr=False)

    @property
    def width(self) -> int:
        return int(self.white.shape[1])

    def totals(self, moments: Moments) -> Floats:
        """Totals of x tᵀ."""
        pairs = moments.pairs if self.basis is None else moments.pairs @ self.basis
        return np.asarray((pairs - np.outer(moments.sums, self.mean)) @ self.white)

    def noise(self, moments: Moments) -> Floats:
        """Covariance of the noise in the totals of x and of x tᵀ of an item."""
        change = np.zeros((1 + self.width, 1 + len(self.mean)))
        change[0, 0], change[1:, 0], change[1:, 1:] = 1.0, -self.white.T @ self.mean, self.white.T
        own = np.concatenate([[moments.sums_noise**2], np.full(len(self.mean), moments.pairs_noise**2)])
        return np.asarray((change * own) @ change.T)


def _profile(moments: Moments, plan: Plan) -> _Profile:
    if moments.kind == "gram":
        return _gram_profile(moments, plan)
    features = plan.public.features
    if moments.kind == "features" and features is not None:
        mapping = features.matrix.astype(np.float64)
    else:
        mapping = random_signs(n_items=plan.n_items, columns=moments.pairs.shape[1], seed=plan.seed).astype(np.float64)
    # Σ h sᵀ, h = x @ mapping of any length and s = h of length 1: the second moments of s, users weighted by |h|.
    second = mapping.T @ moments.pairs
    values, axes = np.linalg.eigh((second + second.T) / 2)
    total = float(np.maximum(values, 0.0).sum())
    if total <= 0:
        return _nothing(moments.pairs.shape[1])
    second = (axes * np.maximum(values, 0.0)) @ axes.T / total
    return _whitened(second, mapping.T @ moments.sums / total, None)


def _gram_profile(moments: Moments, plan: Plan) -> _Profile:
    """Take as a profile where a row lies along the directions of the Gram matrix that rose above the noise."""
    values, axes = np.linalg.eigh(moments.pairs)
    kept = np.flatnonzero(values > keep_symmetric(moments.pairs_noise, plan.n_items))[::-1][: plan.rank]
    users = _users(moments, plan)
    basis = axes[:, kept]
    if not kept.size:
        return _nothing(0, basis)
    return _whitened(np.diag(values[kept]) / users, basis.T @ moments.sums / users, basis)


def _users(moments: Moments, plan: Plan) -> float:
    """How many users there are: as released or, where noise drowns that, as promised."""
    if moments.users > 2 * moments.users_noise:
        return max(moments.users, 1.0)
    promised = float(plan.n_users * plan.n_entities)
    return max(min(promised, moments.users + 2 * moments.users_noise), 1.0)


def _nothing(columns: int, basis: Floats | None = None) -> _Profile:
    return _Profile(basis=basis, mean=np.zeros(columns), white=np.zeros((columns, 0)))


def _whitened(second: Floats, mean: Floats, basis: Floats | None) -> _Profile:
    spread, axes = np.linalg.eigh(second - np.outer(mean, mean))
    least = THIN * float(np.trace(second)) / len(mean)
    return _Profile(basis=basis, mean=mean, white=axes / np.sqrt(np.maximum(spread, least)))


def _design(sizes: Floats, features: Features | None) -> Floats:
    """Public facts of every item: how often it was rated, as far as was released, and its features."""
    logs = np.log1p(sizes)
    parts = [np.ones((len(sizes), 1)), ((logs - logs.mean()) / max(float(logs.std()), 1e-9))[:, None]]
    if features is not None:
        table = features.matrix.astype(np.float64)
        apart = table - table.mean(axis=0)
        parts.append(apart / max(float(np.abs(table).max(initial=0.0)), 1.0))
    return np.hstack(parts)


def _shared(found: Hierarchy, sizes: Floats, moments: Moments, plan: Plan, unit: float) -> SharedFactors:
    loadings = found.values[:, 1:]
    axes, lengths, _ = np.linalg.svd(loadings, full_matrices=False)
    kept = (lengths > max(FAINT * float(lengths.max(initial=0.0)), 1e-9)) & (np.arange(lengths.size) < MOST_PATTERNS)
    axes, lengths = _signed(axes[:, kept]), lengths[kept]
    if not kept.any():
        axes, lengths = np.zeros((plan.n_items, 1)), np.zeros(1)
    low = plan.lower + LEAST_MEAN * (plan.bound - plan.lower)
    means = np.clip(plan.centre_value + found.values[:, 0], low, plan.bound)
    factors, second = non_negative_factors(np.maximum(means, LEAST_MEAN * unit), axes * lengths, plan.rank)
    scatter = (RESIDUAL * unit) ** 2
    return SharedFactors(
        factors=factors,
        moments=second,
        means=means,
        support=sizes**2 * scatter / (sizes * scatter + moments.sums_noise**2 + 1e-12),
        users=max(moments.users, 0.0),
        note=_note(moments, found, int(np.count_nonzero(lengths)), plan),
        patterns=axes,
        strengths=lengths**2,
        squares=(loadings**2).sum(axis=1) + found.spreads[:, 1:].sum(axis=1),
    )


def _signed(axes: Floats) -> Floats:
    """The largest entry of each direction positive, so that equal input gives equal bytes."""
    if not axes.size:
        return axes
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0))


def _note(moments: Moments, found: Hierarchy, patterns: int, plan: Plan) -> str:
    own = np.abs(found.values[:, 0] - found.expected[:, 0]).mean()
    word = "public features and numbers of ratings" if plan.public.features is not None else "numbers of ratings"
    return (
        f"{moments.kind}: {patterns} patterns; items lie {own:.2f} from what {word} predict of their offsets, "
        f"as far as the noise lets it be seen"
    )
