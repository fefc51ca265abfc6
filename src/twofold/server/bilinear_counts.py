r"""Shared factors from noisy second moments of counts.

A user's row is x, the roots of the counts, shortened to a public length. The mean of x xᵀ over users says how items go
together, and its diagonal the mean of the counts themselves, since x² is the count. Rows longer than the cap were
shortened, which weighs users of many counts less: directions stay as they are, but all mean squares and means are too
small by the same unknown factor for such users. An entity that uses them brings them to the scale of its own items.
"""

from __future__ import annotations

import math

import numpy as np

from twofold.algorithms._blas_threads import one_blas_thread
from twofold.protocol.factor_messages import MOST_PATTERNS
from twofold.protocol.plan import Plan
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.prototypes.bilinear.moments import Moments
from twofold.prototypes.bilinear.profiles import public_map
from twofold.prototypes.message import Floats
from twofold.server.canonical import canonical
from twofold.server.nonnegative import nonnegative_factors
from twofold.server.patterns import Patterns, feature_basis, sketch_patterns, symmetric_patterns
from twofold.server.positive import positive_means
from twofold.server.rows import SharedFactors

__all__ = ["factorize_counts"]


def factorize_counts(moments: Moments, plan: Plan) -> SharedFactors:
    """Denoise the second moments of counts and factorize what is left.

    Parameters
    ----------
    moments : Moments
        What a bilinear mechanism's ``combine`` gives, of counts.
    plan : Plan
        Rank, and what is public: features of items, the map of a sketch.

    Returns
    -------
    SharedFactors
        With patterns, strengths and squares in units of x. Means are the squares: mean counts, too small where rows
        were shortened. Factors and moments are in units of counts, as for prototypes.

    Notes
    -----
    1. Patterns above the known edge of the noise are kept, each with the size of least squared error, none below 0
       (`twofold.server.denoise`, `twofold.server.patterns`), at most the strongest 256, which a message has room for.
       With public features (a Gram matrix only), patterns among mixtures of features are looked for once more in what
       is left, where the edge is lower.
    2. Mean squares are positive numbers in noise: posterior means (`twofold.server.positive`). A sketch has no
       diagonal; they are taken proportional to the sums there.
    3. Non-negative factors of the denoised matrix, without any chance (`twofold.server.nonnegative`).

    Paper
    -----
    Takes the place of Algorithm 2, line 4.

    Deviations
    ----------
    The paper factorizes prototypes. Here V comes from second moments, and the moments themselves are sent along.

    Privacy
    -------
    Post-processing of released numbers.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=2), feedback="counts", bound=9, max_items=2, epsilon=1)
    >>> exact = {"users_noise": 0.0, "sums_noise": 0.0, "pairs_noise": 0.0, "cap": 9.0, "entities": 2, "seeded": False}
    >>> sums, pairs = np.array([10.0, 20.0]), np.array([[10.0, 20.0], [20.0, 40.0]])
    >>> moments = Moments(kind="gram", users=10.0, sums=sums, pairs=pairs, **exact)
    >>> found = factorize_counts(moments, plan)
    >>> found.means.tolist(), found.strengths.round(6).tolist(), found.patterns.round(3).tolist()
    ([1.0, 4.0], [5.0], [[0.447], [0.894]])
    """
    with one_blas_thread():  # the same sums on any machine
        users = max(moments.users, moments.users_noise, 1.0)
        means = positive_means(moments.sums, moments.sums_noise) / users
        squares, doubt = _squares(moments, plan, users, means)
        patterns = _patterns(moments, plan, users, means).strongest(MOST_PATTERNS)
        strengths = patterns.sizes / users
        factors, inner = nonnegative_factors(patterns.axes, strengths, plan.rank)
        if factors.any():
            factors, inner = canonical(factors * _undamped(squares, means, plan)[:, None], inner)
    return SharedFactors(
        factors=factors,
        moments=inner,
        means=squares,
        support=users * squares**2 / np.maximum(squares**2 + doubt**2, 1e-300),
        users=users,
        note=_note(moments, patterns),
        patterns=patterns.axes,
        strengths=strengths,
        squares=squares,
    )


def _squares(moments: Moments, plan: Plan, users: float, means: Floats) -> tuple[Floats, float]:
    """Mean square of each item, and the size of its noise before shrinkage."""
    if moments.kind == "gram":
        doubt = moments.pairs_noise
        return positive_means(np.diag(moments.pairs), doubt) / users, doubt / users
    usual = _usual_entry(moments, plan, means)
    return usual * means, usual * moments.sums_noise / users


def _usual_entry(moments: Moments, plan: Plan, means: Floats) -> float:
    """Typical size of an entry of x: between 1 and the root of the largest count, less where rows are shortened."""
    return min(moments.cap**2 / max(float(means.sum()), 1e-300), math.pow(max(plan.bound, 1.0), 0.25))


def _patterns(moments: Moments, plan: Plan, users: float, means: Floats) -> Patterns:
    public = plan.public
    if moments.kind == "gram":
        # Weights come from the sums: their noise has nothing to do with that of the pairs.
        basis = None if public.features is None else feature_basis(means, public.features.matrix)
        return symmetric_patterns(moments.pairs, moments.pairs_noise, basis=basis)
    mapping = public_map(public, BilinearLayout.of(public, moments.kind)).astype(np.float64)
    # s is xᵀM over its norm, so that the trace of Mᵀ x sᵀ is that norm: what all rows were divided by, on average.
    length = max(float(np.einsum("ij,ij->", mapping, moments.pairs)) / users, 0.0)
    return sketch_patterns(moments.pairs, moments.pairs_noise, mapping, length=length)


def _undamped(squares: Floats, means: Floats, plan: Plan) -> Floats:
    """By how much counts are larger than their roots, item by item: from 1 to the root of the largest count."""
    ratio = np.divide(squares, means, out=np.ones_like(squares), where=means > 0)
    return np.asarray(np.clip(ratio, 1.0, math.sqrt(max(plan.bound, 1.0))))


def _note(moments: Moments, patterns: Patterns) -> str:
    width = moments.pairs.shape[1]
    if not patterns.sizes.size:
        return f"no direction of {width} rose above the noise: only means are shared"
    helped = f", and {patterns.helped} more among public features" if patterns.helped else ""
    sent = f"; the strongest {MOST_PATTERNS} are sent" if patterns.risen + patterns.helped > MOST_PATTERNS else ""
    return f"{patterns.risen} of {width} directions rose above the noise{helped}{sent}"
