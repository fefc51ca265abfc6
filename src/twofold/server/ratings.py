r"""Item offsets and common patterns of ratings, from one noisy bilinear statistic.

A user's row x is what they gave above their own mean, s a short public profile of it (of norm 1). Released are, over
all users, totals of x, of observations, and of x sᵀ. With :math:`x_i = b_i + \ell_i^T t + e`, t the profile less its
mean and made white, item i's totals are :math:`n_i (b_i, \ell_i)` plus noise of known size: one half-step of
alternating least squares. The second moments of the profile come from the same numbers, because the public map turns
the totals of x sᵀ into those of s sᵀ.

Offsets and loadings of all items are then estimated together, by empirical Bayes: item i has unknown numbers
:math:`z_i`, its offset and loadings, drawn around what its public features and the number of its ratings predict,
:math:`z_i \sim N(B^T d_i, T)`. What was released is :math:`y_i = n_i z_i + e_i` with
:math:`\mathrm{Cov}\,e_i = n_i \tau^2 I + N`: what single ratings scatter, and the known noise. B and T are estimated
from all items; noise that hides everything makes both vanish, and every item gets 0.

Means and signed patterns are finally put into non-negative factors that say the same: the form the paper asks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from twofold.algorithms._jit import one_blas_thread
from twofold.features import Features
from twofold.federation.plan import Plan
from twofold.progress import tell
from twofold.release.bilinear.records import random_signs
from twofold.release.content import Floats, Moments
from twofold.server.denoise import canonical, keep_symmetric, upright
from twofold.server.rows import SharedFactors

__all__ = ["Hierarchy", "factorize_ratings", "fit_hierarchy", "nonnegative_mixtures", "sizes_of_items"]

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
#: Rounds of estimation: B given T, then T given all items. Twice as many changed the error on MovieLens by below 0.1%.
ROUNDS: Final = 20
#: Grid of possible sizes, and rounds of estimating how often each occurs.
GRID, GRID_ROUNDS = 80, 60
#: Items that what is thought of T beforehand weighs as much as: it decides where noise lets nothing be seen.
PRIOR_ITEMS: Final = 10
#: Rounds of the method of moments, and how far it may lead from what was thought beforehand.
MOMENT_ROUNDS, NEAR = 3, 4.0
#: Parts of the largest variance below which one counts as nothing.
TINY: Final = 1e-8


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
    >>> from twofold.federation.plan import CatalogKey
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
        _design(sizes, plan.parameters.features),
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
    features = plan.parameters.features
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
    """Take a row's place along the directions of the Gram matrix above the noise as its profile."""
    values, axes = np.linalg.eigh(moments.pairs)
    kept = np.flatnonzero(values > keep_symmetric(moments.pairs_noise, plan.n_items))[::-1][: plan.rank]
    users = _users(moments, plan)
    basis = axes[:, kept]
    if not kept.size:
        return _nothing(0, basis)
    return _whitened(np.diag(values[kept]) / users, basis.T @ moments.sums / users, basis)


def _users(moments: Moments, plan: Plan) -> float:
    """Number of users: as released or, if noise hides it, as promised."""
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
    axes, lengths = upright(axes[:, kept]), lengths[kept]
    if not kept.any():
        axes, lengths = np.zeros((plan.n_items, 1)), np.zeros(1)
    low = plan.lower + LEAST_MEAN * (plan.bound - plan.lower)
    means = np.clip(plan.centre_value + found.values[:, 0], low, plan.bound)
    factors, second = nonnegative_mixtures(np.maximum(means, LEAST_MEAN * unit), axes * lengths, plan.rank)
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


def _note(moments: Moments, found: Hierarchy, patterns: int, plan: Plan) -> str:
    own = np.abs(found.values[:, 0] - found.expected[:, 0]).mean()
    word = "public features and numbers of ratings" if plan.parameters.features is not None else "numbers of ratings"
    return (
        f"{moments.kind}: {patterns} patterns; items lie {own:.2f} from what {word} predict of their offsets, "
        f"as far as the noise lets it be seen"
    )


def nonnegative_mixtures(means: Floats, loadings: Floats, rank: int) -> tuple[Floats, Floats]:
    """Factors of at least 0 and moments with ``V moments Vᵀ = means meansᵀ + loadings loadingsᵀ``.

    A user who differs from the mean by c along a pattern p (c of variance 1) is a non-negative mixture: of the means,
    and of a multiple of the means plus or minus p that is nowhere negative. Patterns beyond the rank are left out.

    Parameters
    ----------
    means : array (items,)
        Above 0.
    loadings : array (items, patterns)
        Strongest first.
    rank : int
        Most factors; two for each pattern and one for the means.

    Examples
    --------
    >>> V, moments = nonnegative_mixtures(np.array([3.0, 4.0]), np.array([[1.0], [-1.0]]), 3)
    >>> bool((V >= 0).all()), (V @ moments @ V.T).round(6).tolist()
    (True, [[10.0, 11.0], [11.0, 17.0]])
    """
    kept = loadings[:, : max(0, (rank - 1) // 2)]
    kept = kept[:, np.abs(kept).max(axis=0, initial=0.0) > 0]
    multiples = (np.abs(kept) / means[:, None]).max(axis=0, initial=0.0)
    shifted = means[:, None] * multiples
    # Rounding alone could leave an entry below 0.
    factors = np.maximum(np.hstack([means[:, None], shifted + kept, shifted - kept]), 0.0)
    change = np.eye(factors.shape[1])
    change[0, 1:] = -np.tile(multiples, 2)
    return canonical(factors, change @ _half_moments(kept.shape[1]) @ change.T)


def _half_moments(patterns: int) -> Floats:
    """Second moments of 1 and of the positive and negative parts of independent standard normal numbers."""
    first = np.concatenate([[1.0], np.full(2 * patterns, 1 / math.sqrt(2 * math.pi))])
    second = np.outer(first, first)
    for at in range(patterns):
        one, other = 1 + at, 1 + patterns + at
        second[one, one] = second[other, other] = 0.5
        second[one, other] = second[other, one] = 0.0
    return np.asarray(second)


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The estimates of every item, and the common prior.

    Attributes
    ----------
    values : array (items, numbers)
        Posterior means.
    spreads : array (items, numbers)
        Posterior variances.
    expected : array (items, numbers)
        What the public facts alone predict.
    covariance : array (numbers, numbers)
        T: how far items are from what is predicted.
    """

    values: Floats = field(repr=False)
    spreads: Floats = field(repr=False)
    expected: Floats = field(repr=False)
    covariance: Floats = field(repr=False)


def sizes_of_items(noisy: Floats, noise: float, *, most: float = np.inf) -> Floats:
    """Posterior means of sizes that cannot be negative, given noisy ones; the sizes' own law is estimated first.

    The law is a non-parametric maximum likelihood estimate on a grid (Kiefer and Wolfowitz), by expectation
    maximisation. Without noise the sizes come back.

    Parameters
    ----------
    noisy : array (items,)
        Sizes plus noise.
    noise : float
        Its standard deviation.
    most : float
        No size is larger.

    Examples
    --------
    >>> sizes_of_items(np.array([100.0, 100.0, -3.0, 4.0]), 0.1).round(1)
    array([100. , 100. ,   0. ,   3.9])
    """
    if noise <= 0:
        return np.asarray(np.clip(noisy, 0.0, most))
    high = max(min(1.2 * float(noisy.max(initial=0.0)), most), TINY)
    grid = np.concatenate([[0.0], np.geomspace(min(noise, high) / 10, high, GRID)])
    # Between two points of the grid a size is smeared by a third of their distance.
    width = noise**2 + (np.gradient(grid) / 3) ** 2
    likely = -0.5 * (noisy[:, None] - grid) ** 2 / width - 0.5 * np.log(width)
    likely = np.exp(likely - likely.max(axis=1, keepdims=True))
    share = np.full(grid.size, 1 / grid.size)
    for _ in range(GRID_ROUNDS):
        odds = likely * share
        odds /= odds.sum(axis=1, keepdims=True)
        share = odds.mean(axis=0)
    # Inside a grid cell the noisy number still speaks for itself.
    within = grid + (1 - noise**2 / width) * (noisy[:, None] - grid)
    return np.asarray(np.clip((odds * within).sum(axis=1), 0.0, most))


def fit_hierarchy(
    totals: Floats, sizes: Floats, noise: Floats, design: Floats, *, residual: float, spread: Floats
) -> Hierarchy:
    """Estimate the common prior and all items.

    Parameters
    ----------
    totals : array (items, numbers)
        y.
    sizes : array (items,)
        n, at least 0.
    noise : array (numbers, numbers)
        N.
    design : array (items, facts)
        d; the first column ones.
    residual : float
        τ.
    spread : array (numbers,)
        What the variances of T are thought to be beforehand; they start within a factor of it.

    Examples
    --------
    >>> design = np.tile([[1.0, 1.0], [1.0, -1.0]], (50, 1))
    >>> sizes = np.where(np.arange(100) == 98, 1e-6, 100.0)  # hardly anything was released of one item
    >>> totals = sizes[:, None] * design[:, 1:]
    >>> found = fit_hierarchy(totals, sizes, np.eye(1), design, residual=0.1, spread=np.full(1, 0.1))
    >>> found.values[-3:].round(1).ravel()
    array([-1.,  1., -1.])
    """
    numbers = totals.shape[1]
    covariances = sizes[:, None, None] * residual**2 * np.eye(numbers) + noise
    inverse = np.linalg.inv(covariances)
    information = (sizes**2)[:, None, None] * inverse
    given = sizes[:, None] * np.einsum("nij,nj->ni", inverse, totals)
    variances = np.einsum("nii->ni", covariances)
    slopes = np.array(spread)
    covariance = np.diag(_spread(totals, sizes, variances, design, spread))
    floor = TINY * float(spread.max()) * np.eye(numbers)
    for number in range(ROUNDS):
        tell("items estimated", number, ROUNDS)
        expected, slopes = _expected(totals, sizes, variances, design, np.diag(covariance), slopes)
        precision = np.linalg.inv(covariance)
        posterior = np.linalg.inv(information + precision)
        values = np.einsum("nij,nj->ni", posterior, given + expected @ precision)
        apart = values - expected
        seen = apart.T @ apart + posterior.sum(axis=0)
        covariance = (seen + PRIOR_ITEMS * np.diag(spread)) / (len(totals) + PRIOR_ITEMS) + floor
    return Hierarchy(values=values, spreads=np.einsum("nii->ni", posterior), expected=expected, covariance=covariance)


def _spread(totals: Floats, sizes: Floats, variances: Floats, design: Floats, spread: Floats) -> Floats:
    """First variances of T by the method of moments: the scatter of the totals beyond their own variance."""
    found, slopes = np.array(spread), np.array(spread)
    for _ in range(MOMENT_ROUNDS):
        expected, slopes = _expected(totals, sizes, variances, design, found, slopes)
        weight = 1.0 / (variances + (sizes**2)[:, None] * found) ** 2
        beyond = (totals - sizes[:, None] * expected) ** 2 - variances
        total = (weight * (sizes**4)[:, None]).sum(axis=0)
        moment = (weight * (sizes**2)[:, None] * beyond).sum(axis=0) / np.maximum(total, 1e-300)
        found = np.clip(moment, spread / NEAR, spread * NEAR)
    return found


def _expected(
    totals: Floats, sizes: Floats, variances: Floats, design: Floats, spread: Floats, slopes: Floats
) -> tuple[Floats, Floats]:
    """Predict every number from the public facts, by ridge regression with the items themselves integrated out.

    Weights are those of the totals' whole variance. The ridge is that of slopes of variance `slopes`, which is
    estimated too: slopes that are nothing but noise shrink to 0 round by round.
    """
    expected, updated = np.empty_like(totals), np.array(slopes)
    for number in range(totals.shape[1]):
        weight = 1.0 / (variances[:, number] + sizes**2 * spread[number])
        weighted = design * (sizes * weight)[:, None]
        inverse = np.linalg.inv((weighted * sizes[:, None]).T @ design + np.eye(design.shape[1]) / slopes[number])
        slope = inverse @ (weighted.T @ totals[:, number])
        updated[number] = max(float((slope**2 + np.diag(inverse)).mean()), TINY)
        expected[:, number] = design @ slope
    return expected, updated
