"""K-means by sample and aggregate: clusters of small blocks, their middle with noise by smooth sensitivity, then sums.

The noise of the first part has a scale that the data decide, in floating point. That is sound on paper (Nissim,
Raskhodnikova and Smith 2007) and it breaks the rule of the package that neighbours share every parameter, which is why
it is here and not there: its event prices at infinity, and only `SampleAggregate.price` says what the theorem gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from twofold.algorithms.kmeans import kmeans
from twofold.errors import BadPrivacyParameter, Set
from twofold.privacy.budget import ApproxDP
from twofold.privacy.events import NonPrivateEvent, Released
from twofold.privacy.rng import Source, source
from twofold.release.buckets import Popularity
from twofold.release.cells import CellNoise
from twofold.release.content import Prototypes
from twofold.release.contract import ReleaseParameters, check_rows, check_whole
from twofold.release.records import Block, blocks, directions, statistic
from twofold.release.usefulness import fallback_note, noise_ratio

__all__ = ["SampleAggregate", "admissible", "aggregate", "noisy_middle", "smooth_bound"]

Floats = NDArray[np.float64]
_HALF: Final = Fraction(1, 2)
_FEWEST: Final = 3
#: The proof in `admissible` holds up to this many times ln(2/δ).
_PROVEN: Final = 6


@dataclass(frozen=True, kw_only=True)
class SampleAggregate:
    """Middle of the centres of many blocks, with noise by smooth sensitivity; then noisy sums around it.

    Parameters
    ----------
    dimension : int
        Length of the public projection in which blocks are clustered.
    per_block : int
        Users of a block for each prototype, by the promised number of users.

    Paper
    -----
    Named in section 2.3.1: Nissim et al. 2007 and Wang, Wang and Singh 2015 "calibrate the noise by local sensitivity".

    Privacy
    -------
    (ε, δ) for one person added or removed, half for each part.

    * Blocks. Users go to one of b blocks by a coin of their own, so a person is in one block, whatever the others do.
      Each block's k centres in p dimensions are a point z in a ball; one person moves one of the b points.
    * Middle. `aggregate` returns the point with the smallest ball that holds more than half of all points;
      `smooth_bound` is a β-smooth upper bound S on how far it can move (proof there). Gaussian noise of deviation S/α
      in d = k·p dimensions is (ε₁, δ₁)-private with the α and β of `admissible` (proof there). They are those of a
      smaller ε₁ where the promise is too large for the proof: more ε then buys better sums, and no better middle.
    * Sums. Users go to the nearest released centre; one `CellNoise`.

    Since β falls with d, centres of all m items could never be released this way: d = 5,000 needs more blocks than
    there are people. Hence the projection.

    Deviations
    ----------
    Nissim et al. give a general aggregation by the centre of attention; this is its form for disjoint blocks with a
    bound that can be checked by hand. Wang et al. aggregate subspaces, not means.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=3, n_users=9000, max_items=1, bound=1, n_prototypes=2, epsilon=9, delta=1e-6)
    >>> how = SampleAggregate(dimension=2)
    >>> how.price(public)
    ApproxDP(epsilon=Fraction(9, 1), delta=Fraction(1, 1000000))
    >>> how.release(np.repeat(np.eye(3), 3000, axis=0), public, rng=0).not_private
    True
    """

    dimension: int = 8
    per_block: int = 5

    def __post_init__(self) -> None:
        for name in ("dimension", "per_block"):
            check_whole(name, getattr(self, name))

    @property
    def name(self) -> str:
        """Name in tables."""
        return "sample-aggregate"

    def price(self, public: ReleaseParameters) -> ApproxDP:
        """What the theorem gives for the whole; refuses a promise without a δ, which it cannot keep."""
        self._checked(public)
        return ApproxDP(epsilon=public.epsilon, delta=public.delta)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release sums and counts around the noisy middle; marked as not private, as no ledger can check the price."""
        self._checked(public)
        words, matrix = source(rng), check_rows(rows, public)
        event = NonPrivateEvent(unit=public.unit, seeded=words.seeded, reason=_REASON)
        last = self._last(public)
        ratio = noise_ratio(public, noise=last.noise.values, cells=public.n_prototypes)
        if ratio > 1 and public.n_prototypes > 1:
            single = Popularity(name=self.name, note=fallback_note(ratio, public)).release(matrix, public, rng=words)
            return Released(value=single.value, event=event)
        coins = np.random.default_rng(words.bits(128))
        lines = directions(count=self.dimension, n_items=public.n_items, seed=public.seed)
        length = np.sqrt((lines.astype(np.float64) ** 2).sum(axis=1))
        step = last.plan.units.values

        def project(block: Block) -> Floats:
            """Own row only; inside the ball of the row bound in every direction."""
            seen = block.products(lines) * (step / length)
            return np.asarray(np.clip(seen, -public.row_l2, public.row_l2))

        points = [project(block) for block in blocks(matrix, public, last.plan)]
        points_of_all = np.concatenate(points) if points else np.zeros((0, self.dimension))
        centers = self._middle(points_of_all, public, coins)

        def nearest(block: Block) -> NDArray[np.int64]:
            seen = project(block)
            return np.asarray(((centers**2).sum(axis=1) - 2 * seen @ centers.T).argmin(axis=1), dtype=np.int64)

        exact = statistic(matrix, public, last.plan, nearest, cells=last.cells)
        return Released(value=last.release(exact, name=self.name, rng=words).value, event=event)

    def n_blocks(self, public: ReleaseParameters) -> int:
        """Blocks, by the promised number of users; public."""
        return max(_FEWEST, public.n_users // (self.per_block * public.n_prototypes))

    def diameter(self, public: ReleaseParameters) -> float:
        """Largest distance between the centres of two blocks: all k·p coordinates in ± the row bound."""
        return 2 * public.row_l2 * math.sqrt(public.n_prototypes * self.dimension)

    def _middle(self, points: Floats, public: ReleaseParameters, coins: np.random.Generator) -> Floats:
        number = self.n_blocks(public)
        block_of = coins.integers(number, size=len(points))
        z = self._centres_of(points, public, block_of=block_of, seeds=coins.integers(2**32, size=number))
        noisy = noisy_middle(z, self._half(public), diameter=self.diameter(public), coins=coins)
        return np.clip(noisy, -public.row_l2, public.row_l2).reshape(public.n_prototypes, self.dimension)

    def _centres_of(
        self, points: Floats, public: ReleaseParameters, *, block_of: NDArray[np.int64], seeds: NDArray[np.int64]
    ) -> Floats:
        """All centres of a block in one row, from the points and the seed of this block alone."""
        k, number = public.n_prototypes, len(seeds)
        order = np.argsort(block_of, kind="stable")
        parts = np.split(points[order], np.cumsum(np.bincount(block_of, minlength=number))[:-1])
        spread = np.random.default_rng(public.seed).normal(size=(k, self.dimension))  # public order of centres
        z = [_centres(part, k, spread, int(seed)) for part, seed in zip(parts, seeds, strict=True)]
        return np.stack(z).reshape(number, -1)

    def _half(self, public: ReleaseParameters) -> ApproxDP:
        return ApproxDP(epsilon=Fraction(public.epsilon) * _HALF, delta=Fraction(public.delta) * _HALF)

    def _last(self, public: ReleaseParameters) -> CellNoise:
        half = self._half(public)
        rest = public.with_(epsilon=half.epsilon, delta=half.delta)
        return CellNoise(public=rest, budget=rest.budget, cells=public.n_prototypes)

    def _checked(self, public: ReleaseParameters) -> None:
        if not public.delta:
            raise BadPrivacyParameter(
                "sample and aggregate by Gaussian noise has no pure promise.",
                found="delta=0",
                expected="a delta above 0",
                fix=Set("delta", "1e-6"),
                parameter="delta",
            )


_REASON: Final = "noise whose scale the data decide, in floating point: an experiment, not private in a ledger's terms"


def admissible(promise: ApproxDP, dimension: int) -> tuple[float, float]:
    """α and β of Gaussian noise by smooth sensitivity in some dimensions.

    Privacy
    -------
    Gaussian noise of deviation S/α, with a β-smooth bound S, is (ε, δ)-private for α = ε/(5 √(2l)) and
    β = ε/(4 (d + l)), where l = ln(2/δ). Nissim et al. state this for ε below 1. For large ε it is false: with
    δ = 5e-7, one dimension fails at ε = 50 and 80 dimensions fail at 300. The notes prove it up to the smaller of d + l
    and 6l, and above that this value takes the place of ε: noise that keeps a smaller ε keeps every larger one.

    Notes
    -----
    Let neighbours have middles f, f' and deviations σ, σ', and let σ ≥ σ' first: σ = e^b σ' with 0 ≤ b ≤ β ≤ 1/4. Both
    bounds S cover the move, so u = (f - f')/σ' has norm at most α. At f + σg, with standard normal g, the privacy loss
    is w|g|² + e^b⟨g, u⟩ + |u|²/2 - db, with w = (e^{2b} - 1)/2. For x = 2λw < 1, the log of the mean of e^{λ loss} is

        λd(w - b) + (d/2)(-ln(1 - x) - x) + λ² e^{2b} |u|²/(2(1 - x)) + λ|u|²/2,

    and, less λε, it bounds ln P(loss > ε) (Chernoff). Take λ = 5l/(4ε) and write s = d/(d + l). As b ≤ 1/4,
    w ≤ 1.3 b and w - b ≤ 1.19 b², so 1 - x ≥ 0.1875 + 0.8125 s. The four terms, divided by l, are at most

        0.093 s,   0.1651 s(1 - s)/(1 - x),   0.0258/(1 - x),   ε/(80l) ≤ 0.075:

    the first from ε ≤ d + l, the second from -ln(1 - x) - x ≤ x²/(2(1 - x)), the last from ε ≤ 6l. The first three add
    up to at most 0.17, since 0.006 - 0.0445 s + 0.0895 s² > 0 for all s. With λε = 1.25 l in all
    ln P(loss > ε) ≤ (0.17 + 0.075 - 1.25) l < -l, so P(loss > ε) < δ/2, which is more than (ε, δ) asks.
    If σ = e^{-b} σ', then |u| ≤ e^{-b} α, and the loss is db - w'|g|² + e^{-b}⟨g, u⟩ + |u|²/2 with
    b - b² ≤ w' = (1 - e^{-2b})/2 ≤ b: every term is at most the one above.

    Examples
    --------
    >>> alpha, beta = admissible(ApproxDP(epsilon=1, delta="1e-6"), 40)
    >>> round(alpha, 4), round(beta, 5)
    (0.0371, 0.00459)
    >>> admissible(ApproxDP(epsilon=100, delta="1e-6"), 40) == admissible(ApproxDP(epsilon=1000, delta="1e-6"), 40)
    True
    """
    log = math.log(2 / float(promise.delta))
    epsilon = min(float(promise.epsilon), dimension + log, _PROVEN * log)
    return epsilon / (5 * math.sqrt(2 * log)), epsilon / (4 * (dimension + log))


def noisy_middle(points: Floats, promise: ApproxDP, *, diameter: float, coins: np.random.Generator) -> Floats:
    """Middle of some points with noise by smooth sensitivity.

    Examples
    --------
    >>> same = np.ones((99, 2))
    >>> promise = ApproxDP(epsilon=10**4, delta="1e-6")
    >>> noisy_middle(same, promise, diameter=2.0, coins=np.random.default_rng(0)).round(3).tolist()
    [1.0, 1.0]
    """
    alpha, beta = admissible(promise, points.shape[1])
    middle, moves = aggregate(points, beta=beta, diameter=diameter)
    return np.asarray(middle + coins.normal(size=middle.shape) * (moves / alpha))


def aggregate(points: Floats, *, beta: float, diameter: float) -> tuple[Floats, float]:
    """Middle of some points, and a β-smooth bound on how far it moves if one point does.

    Examples
    --------
    >>> middle, moves = aggregate(np.array([[0.0], [0.1], [0.2], [9.0]]), beta=1.0, diameter=10.0)
    >>> middle.tolist(), round(moves, 2)
    ([0.1], 17.8)
    """
    radii = _radii(points)
    middle = points[int(radii[:, _more_than_half(len(points)) - 1].argmin())]
    return middle, smooth_bound(radii, beta=beta, diameter=diameter)


def smooth_bound(radii: Floats, *, beta: float, diameter: float) -> float:
    """A β-smooth upper bound on the local sensitivity of the middle.

    Parameters
    ----------
    radii : array of shape (b, b)
        Row i: distances from point i to all points, ascending.
    beta, diameter : float
        Smoothness, and the largest distance there can be; public.

    Notes
    -----
    Let r_i(t) be the radius of the ball around point i that holds t points, t₀ more than half of b, and q_j(t) the j-th
    smallest of all r_i(t); the middle g has r(t₀) = q_1(t₀). If z' differs from z in one point, j of the j + 1 best
    centres for t + 1 points are still there and hold t points of z', so q'_j(t) ≤ q_{j+1}(t + 1). The balls of g and g'
    hold t₀ - 1 and t₀ points of z', together more than b, so they meet: ‖g - g'‖ ≤ q_1(t₀) + q'_1(t₀) ≤ 2 q_2(t₀ + 1).
    With A_j(z) = 2 q_{j+2}(t₀ + j + 1), and twice the diameter where an index exceeds b, A_0 bounds the local
    sensitivity and A_j(z') ≤ A_{j+1}(z). So S = max_j e^{-βj} A_j is at least A_0 and changes by at most e^β.
    """
    number, start = len(radii), _more_than_half(len(radii))
    worst = 0.0
    for away in range(number + 1):
        place, held = away + 2, start + away + 1
        if place > number or held > number:
            return max(worst, 2 * diameter * math.exp(-beta * away))
        bound = 2 * float(np.partition(radii[:, held - 1], place - 1)[place - 1])
        worst = max(worst, bound * math.exp(-beta * away))
    return worst


def _more_than_half(number: int) -> int:
    """t₀ with 2 t₀ - 1 > b."""
    return (number + 1) // 2 + 1


def _radii(points: Floats) -> Floats:
    squares = (points**2).sum(axis=1)
    found = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * points @ points.T, 0.0))
    np.fill_diagonal(found, 0.0)
    return np.sort(found, axis=1)


def _centres(part: Floats, k: int, spread: Floats, seed: int) -> Floats:
    """K centres of a block in the public order; an empty block has zeros, a small one repeats its points."""
    if not len(part):
        return np.zeros_like(spread)
    found = np.asarray(kmeans(part, min(k, len(part)), rng=seed, threads=1).centers, dtype=np.float64)
    found = found[np.arange(k) % len(found)]
    _, order = linear_sum_assignment(-spread @ found.T)
    return found[order]
