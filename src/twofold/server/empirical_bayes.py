r"""Empirical Bayes for many items at once: how large a quantity is, from noisy numbers whose noise is known.

Item i has unknown numbers :math:`z_i` (an offset and some loadings), drawn around what public facts predict,
:math:`z_i \sim N(B^T d_i, T)`. What was released is :math:`y_i = n_i z_i + e_i` with
:math:`\mathrm{Cov}\,e_i = n_i \tau^2 I + N`: what single ratings scatter, and the known noise. B and T are estimated
from all items together; noise that drowns everything makes both vanish, and every item gets 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from twofold.prototypes.message import Floats

__all__ = ["Hierarchy", "fit_hierarchy", "sizes_of_items"]

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


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """What is believed of every item, and the common prior.

    Attributes
    ----------
    values : array (items, numbers)
        Posterior means.
    spreads : array (items, numbers)
        Posterior variances.
    expected : array (items, numbers)
        What the public facts alone predict.
    covariance : array (numbers, numbers)
        T: how far items lie from what is predicted.
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
    for _ in range(ROUNDS):
        expected, slopes = _expected(totals, sizes, variances, design, np.diag(covariance), slopes)
        precision = np.linalg.inv(covariance)
        posterior = np.linalg.inv(information + precision)
        values = np.einsum("nij,nj->ni", posterior, given + expected @ precision)
        apart = values - expected
        seen = apart.T @ apart + posterior.sum(axis=0)
        covariance = (seen + PRIOR_ITEMS * np.diag(spread)) / (len(totals) + PRIOR_ITEMS) + floor
    return Hierarchy(values=values, spreads=np.einsum("nii->ni", posterior), expected=expected, covariance=covariance)


def _spread(totals: Floats, sizes: Floats, variances: Floats, design: Floats, spread: Floats) -> Floats:
    """First variances of T by the method of moments: what the totals scatter beyond their own variance."""
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
