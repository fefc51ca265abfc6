"""Shared factors from noisy second moments of counts.

A user's row is x, the roots of the counts, brought to norm 1: x² is an item's share of all that the user has. The mean
of x xᵀ over users says how items go together, its diagonal is the mean share of each item, and every user weighs the
same however much is in the row. How many counts a user has is not known here; an entity that uses the moments brings
them to the scale of its own items.

Patterns that rose above the noise come first, then non-negative factors of what they say: the paper's V, as
post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from twofold.algorithms._jit import one_blas_thread
from twofold.federation.factors import MOST_PATTERNS
from twofold.federation.plan import Plan
from twofold.progress import tell
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.records import public_map
from twofold.release.content import Floats, Moments
from twofold.server.denoise import canonical, shrink_sketch, shrink_symmetric, upright
from twofold.server.rows import SharedFactors

__all__ = [
    "Patterns",
    "factorize_counts",
    "feature_basis",
    "nonnegative_factors",
    "positive_means",
    "sketch_patterns",
    "symmetric_patterns",
]

#: Of the largest: what a direction without noise may have by rounding alone.
_ROUNDING: Final = 1e-12
#: Of the largest: directions of a sketch that its public map hardly sees are not solved for.
_BLIND: Final = 0.05
#: Steps of the non-negative factorization.
_ROUNDS: Final = 300
#: Exponent of the multiplicative step for a symmetric product; a whole step would swing.
_STEP: Final = 0.25


def factorize_counts(moments: Moments, plan: Plan) -> SharedFactors:
    """Denoise the second moments of counts and factorize the result.

    Parameters
    ----------
    moments : Moments
        What a bilinear mechanism's ``combine`` gives, of counts.
    plan : Plan
        Rank, and what is public: features of items, the map of a sketch.

    Returns
    -------
    SharedFactors
        In units of unit rows. Means are the squares: mean shares, which add up to about 1. With a gram, the moments
        themselves go along as totals.

    Notes
    -----
    1. Patterns above the known edge of the noise are kept, each with the size of least squared error, none below 0
       (`twofold.server.denoise`), at most the strongest 256, which a message has room for.
       With public features (a Gram matrix only), patterns among mixtures of features are looked for once more in what
       is left, where the edge is lower.
    2. Mean squares are positive numbers in noise: posterior means (`positive_means`). A sketch has no
       diagonal; they are taken proportional to the sums there.
    3. Non-negative factors of the denoised matrix, without any chance (`nonnegative_factors`).

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
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=2), feedback="counts", bound=9, max_items=2, epsilon=1)
    >>> exact = {"users_noise": 0.0, "sums_noise": 0.0, "pairs_noise": 0.0, "cap": 1.0, "entities": 2, "seeded": False}
    >>> sums, pairs = np.array([6.0, 8.0]), np.array([[3.6, 4.8], [4.8, 6.4]])
    >>> moments = Moments(kind="gram", users=10.0, sums=sums, pairs=pairs, **exact)
    >>> found = factorize_counts(moments, plan)
    >>> found.means.tolist(), found.strengths.round(6).tolist(), found.patterns.round(3).tolist()
    ([0.36, 0.64], [1.0], [[0.6], [0.8]])
    """
    with one_blas_thread():  # the same sums on any machine
        users = max(moments.users, moments.users_noise, 1.0)
        means = positive_means(moments.sums, moments.sums_noise) / users
        squares, doubt = _squares(moments, users, means)
        patterns = _patterns(moments, plan, users, means).strongest(MOST_PATTERNS)
        strengths = patterns.sizes / users
        factors, inner = nonnegative_factors(patterns.axes, strengths, plan.rank)
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
        totals=moments if moments.kind == "gram" else None,
    )


def _squares(moments: Moments, users: float, means: Floats) -> tuple[Floats, float]:
    """Mean square of each item, and the size of its noise before shrinkage."""
    if moments.kind == "gram":
        doubt = moments.diagonal_noise
        return positive_means(np.diag(moments.pairs), doubt) / users, doubt / users
    # The squares of a unit row add up to 1, so this is the typical size of an entry.
    usual = min(1 / max(float(means.sum()), 1e-300), 1.0)
    return usual * means, usual * moments.sums_noise / users


def _patterns(moments: Moments, plan: Plan, users: float, means: Floats) -> Patterns:
    public = plan.parameters
    if moments.kind == "gram":
        # Weights come from the sums: their noise has nothing to do with that of the pairs.
        basis = None if public.features is None else feature_basis(means, public.features.matrix)
        return symmetric_patterns(moments.pairs, moments.pairs_noise, basis=basis)
    mapping = public_map(public, BilinearLayout.of(public, moments.kind)).astype(np.float64)
    # s is xᵀM over its norm, so that the trace of Mᵀ x sᵀ is that norm: what all rows were divided by, on average.
    length = max(float(np.einsum("ij,ij->", mapping, moments.pairs)) / users, 0.0)
    return sketch_patterns(moments.pairs, moments.pairs_noise, mapping, length=length)


def _note(moments: Moments, patterns: Patterns) -> str:
    width = moments.pairs.shape[1]
    if not patterns.sizes.size:
        return f"no direction of {width} rose above the noise: only means are shared"
    helped = f", and {patterns.helped} more among public features" if patterns.helped else ""
    sent = f"; the strongest {MOST_PATTERNS} are sent" if patterns.risen + patterns.helped > MOST_PATTERNS else ""
    return f"{patterns.risen} of {width} directions rose above the noise{helped}{sent}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Patterns:
    """Orthonormal directions, the strongest first, and their sizes.

    Attributes
    ----------
    axes : array (items, patterns)
        Directions; the largest entry of each is positive.
    sizes : array (patterns,)
        Above 0: ``axes @ diag(sizes) @ axes.T`` is the denoised matrix, positive semi-definite.
    risen : int
        How many rose above the noise by themselves.
    helped : int
        How many more did among mixtures of public features.
    """

    axes: Floats = field(repr=False)
    sizes: Floats = field(repr=False)
    risen: int
    helped: int = 0

    def strongest(self, most: int) -> Patterns:
        """Keep at most `most` directions, the strongest."""
        return replace(self, axes=self.axes[:, :most], sizes=self.sizes[:most])


def symmetric_patterns(pairs: Floats, noise: float, *, basis: Floats | None = None) -> Patterns:
    """Denoise a symmetric matrix of second moments.

    Parameters
    ----------
    pairs : array (items, items)
        Noisy totals of x xᵀ; symmetric to the last bit, as `combine` gives them.
    noise : float
        Standard deviation of a number off the diagonal.
    basis : array (items, features), optional
        Orthonormal mixtures of public features (`feature_basis`). What the whole matrix could not show is looked for
        among these: noise reaches only as far there as for so few items.

    Returns
    -------
    Patterns
        Negative directions are noise: second moments have none.

    Examples
    --------
    >>> found = symmetric_patterns(np.diag([4.0, 9.0, 0.0]), 0.0)
    >>> found.sizes.tolist(), found.axes.T.tolist(), found.risen
    ([9.0, 4.0], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], 2)
    """
    axes, sizes = _shrunk(pairs, noise)
    if basis is None or not basis.shape[1]:
        return _in_order(axes, sizes, risen=sizes.size)
    inner, more = _shrunk(_even(basis.T @ (pairs - (axes * sizes) @ axes.T) @ basis), noise)
    if not more.size or noise == 0:
        return _in_order(axes, sizes, risen=sizes.size)
    found = _orthonormal(np.hstack([axes * np.sqrt(sizes), (basis @ inner) * np.sqrt(more)]))
    return _in_order(*found, risen=sizes.size, helped=more.size)


def sketch_patterns(pairs: Floats, noise: float, mapping: NDArray[Any], *, length: float) -> Patterns:
    """Denoise a sketch and read the second moments off it.

    Parameters
    ----------
    pairs : array (items, columns)
        Noisy totals of x sᵀ, s = xᵀM brought to norm 1.
    noise : float
        Standard deviation of a number.
    mapping : array (items, columns)
        M, public.
    length : float
        Mean norm of xᵀM: what s was divided by.

    Notes
    -----
    With N the mean of x xᵀ over the norm of xᵀM, the sketch is N M. Its left directions Q are those of N, and
    ``S = QᵀNQ`` solves ``S (QᵀM) = QᵀNM``. Directions that the map hardly sees are left at zero.

    Examples
    --------
    >>> found = sketch_patterns(np.diag([4.0, 9.0, 0.0])[:, :2], 0.0, np.eye(3)[:, :2], length=2.0)
    >>> found.sizes.round(9).tolist()
    [18.0, 8.0]
    """
    left, values, right = np.linalg.svd(pairs, full_matrices=False)
    sizes = shrink_sketch(values, noise, *pairs.shape) * (values > _ROUNDING * values.max(initial=0.0))
    kept = sizes > 0
    Q = left[:, kept]
    if not kept.any():
        return _in_order(Q, sizes[kept], risen=0)
    square = length * (sizes[kept, None] * right[kept]) @ np.linalg.pinv(Q.T @ mapping, rcond=_BLIND)
    inner, amounts = _shrunk(_even(square), 0.0)
    return _in_order(Q @ inner, amounts, risen=int(kept.sum()))


def feature_basis(use: Floats, features: NDArray[Any]) -> Floats:
    """Mixtures of items that public features name, each item by the root of its use; orthonormal.

    The use should come from elsewhere than the matrix that is to be denoised, so that both noises are independent.

    Examples
    --------
    >>> feature_basis(np.array([1.0, 4.0, 0.0]), np.array([[1], [1], [1]])).round(3).ravel().tolist()
    [0.447, 0.894, 0.0]
    """
    left, values, _ = np.linalg.svd(np.sqrt(np.maximum(use, 0.0))[:, None] * features, full_matrices=False)
    return upright(left[:, values > 1e-9 * values.max(initial=0.0)]) + 0.0


def _shrunk(matrix: Floats, noise: float) -> tuple[Floats, Floats]:
    """Directions above the noise of a symmetric matrix, and their sizes; only its lower half is looked at."""
    values, axes = np.linalg.eigh(matrix)
    sizes = shrink_symmetric(values, noise, len(matrix)) * (values > _ROUNDING * np.abs(values).max(initial=0.0))
    return axes[:, sizes > 0], sizes[sizes > 0]


def _even(matrix: Floats) -> Floats:
    """Make a product symmetric that is so up to rounding."""
    return (matrix + matrix.T) / 2


def _orthonormal(columns: Floats) -> tuple[Floats, Floats]:
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    kept = values > 1e-9 * values.max(initial=0.0)
    return left[:, kept], values[kept] ** 2


def _in_order(axes: Floats, sizes: Floats, *, risen: int, helped: int = 0) -> Patterns:
    """The strongest first, each upright; adding 0 turns -0 into 0."""
    order = np.argsort(-sizes, kind="stable")
    return Patterns(axes=upright(axes[:, order]) + 0.0, sizes=sizes[order], risen=risen, helped=helped)


def nonnegative_factors(axes: Floats, sizes: Floats, rank: int) -> tuple[Floats, Floats]:
    """Find V at least 0 and moments with ``V @ moments @ V.T`` near a positive semi-definite matrix.

    Parameters
    ----------
    axes, sizes : arrays (items, patterns) and (patterns,)
        The matrix: ``axes @ diag(sizes) @ axes.T``.
    rank : int
        Most factors.

    Returns
    -------
    V, moments : arrays (items, factors) and (factors, factors)
        In the form of `twofold.server.denoise`; one factor of zeros when there are no patterns.

    Notes
    -----
    Symmetric non-negative factorization W Wᵀ by multiplicative steps from the positive and negative halves of the
    strongest patterns, without any chance; then the moments that fit the matrix best with these factors, by least
    squares, which takes up what a product W Wᵀ cannot say.

    Examples
    --------
    >>> V, moments = nonnegative_factors(np.eye(3)[:, :2], np.array([4.0, 1.0]), 2)
    >>> np.abs(V @ moments @ V.T).round(3).tolist()
    [[4.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    items = len(axes)
    if not sizes.size:
        return np.zeros((items, 1)), np.zeros((1, 1))
    W = _start(axes, sizes, rank)
    for number in range(_ROUNDS):
        tell("factorization", number + 1, _ROUNDS)
        wanted = np.maximum((axes * sizes) @ (axes.T @ W), 0.0)
        W = W * (wanted / np.maximum(W @ (W.T @ W), 1e-300)) ** _STEP
    W = W[:, (W**2).sum(axis=0) > 0]
    if not W.size:
        return np.zeros((items, 1)), np.zeros((1, 1))
    solved = np.linalg.pinv(W, rcond=1e-9) @ axes
    moments = (solved * sizes) @ solved.T
    return canonical(W, (moments + moments.T) / 2)


def _start(axes: Floats, sizes: Floats, rank: int) -> Floats:
    """Halves of the patterns, the largest first; a little of the average item, so that nothing stays at zero."""
    halves = np.hstack([np.maximum(axes, 0.0), np.maximum(-axes, 0.0)]) * np.sqrt(np.tile(sizes, 2))
    amount = (halves**2).sum(axis=0)
    # The other half of a pattern of one sign is rounding.
    order = [at for at in np.argsort(-amount, kind="stable") if amount[at] > 1e-6 * amount.max()][:rank]
    usual = np.sqrt((axes**2) @ sizes)
    return np.asarray(halves[:, order] + 1e-3 * usual[:, None])


def positive_means(values: Floats, noise: float) -> Floats:
    r"""Posterior means of positive numbers under an exponential prior with the mean of all of them.

    Parameters
    ----------
    values : array
        Each true number plus normal noise.
    noise : float
        Standard deviation of the noise; 0 gives the values back, negative ones as 0.

    Notes
    -----
    Few items are common and many are rare, as under an exponential law. With mean μ the posterior of one number is a
    normal one around :math:`y - \sigma^2/\mu`, cut off below 0; its mean is positive whatever y is. μ is the mean of
    all values, not less than its own noise: empirical Bayes.

    Examples
    --------
    >>> positive_means(np.array([2.0, -1.0]), 0.0).tolist()
    [2.0, 0.0]
    >>> positive_means(np.array([9.0, 0.5, -1.0]), 1.0).round(2).tolist()
    [8.65, 0.85, 0.46]
    """
    if noise == 0 or not values.size:
        return np.maximum(values, 0.0)
    usual = max(float(values.mean()), noise / np.sqrt(values.size))
    centre = values - noise**2 / usual
    z = centre / noise
    # φ(z)/Φ(z), in logarithms: both vanish far below 0. There the sum itself cancels, and its limit is used instead.
    hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - special.log_ndtr(z))
    return np.asarray(np.where(z < -50, noise / np.maximum(-z, 50.0), centre + noise * hazard))
