"""Public parameters of the paper's chain: nothing here may be computed from private data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from twofold.checks import exact, positive, read_delta
from twofold.errors import BadParameter, BadPrivacyParameter
from twofold.privacy.budget import Number, PureDP, Split
from twofold.privacy.grid import Grid
from twofold.privacy.mechanisms import least_threshold
from twofold.privacy.unit import Unit
from twofold.release.balcan.projection import RowBounds
from twofold.release.balcan.recovery import Recovery

__all__ = ["Mode", "PrivateKMeansConfig", "Shares", "choose_mode", "noise_energy"]

Mode = Literal["chain", "buckets", "single"]
_GRID_BITS = 10
_LEAST_SHARE_OF_A_CLUSTER = 12


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Proportions in which the budget is shared; `choice` counts only when there is more than one trial.

    Examples
    --------
    >>> Shares(candidate=1, swap=1, values=5, counts=1).values
    5
    """

    candidate: Number = "1/4"
    swap: Number = "3/20"
    values: Number = "27/50"
    counts: Number = "3/50"
    choice: Number = "1/10"


@dataclass(frozen=True, kw_only=True)
class PrivateKMeansConfig:
    """Everything that shapes a release of `private_kmeans`. All of it is public.

    Parameters
    ----------
    n_clusters : int
        The paper's k.
    epsilon : number
        Price of the whole release, pure ε, add or remove one row.
    promised_users : int
        The promised size N. It replaces the paper's private n everywhere.
    bound : float
        The paper's Λ: entries are clipped to [0, Λ], or to [-Λ, Λ] with `signed`.
    delta : number
        With a δ above 0 the sums may get Gaussian noise, and the release is (ε, δ); 0, the default, is pure ε.
    max_items : int, optional
        Most non-zero entries of a row (the paper's s); only used for the defaults of the next two.
    l1_bound, l2_bound : float, optional
        Caps of a row's norms, which are enforced by shrinking the row. By default Λs and Λ√s.
    signed : bool
        Whether entries may be negative.
    keep : int, optional
        Number of entries of a center to keep (the s' of `sparse_recovery`); all by default.
    dimension, depth, trees, swaps, trials : int
        Projected dimension p, levels D of a tree, shifted trees, swaps T_s, and trials T.
    radius : float
        Radius of the ball the projected points are clipped to, in units of `l2_bound`.
    most_candidates : int
        The tree stops growing and the list is cut when there are more.
    shares : Shares
        How the budget is shared.
    seed : int
        Seed of the public coins: projection, shifts of the grids, padding, buckets.
    fallback : bool
        Whether to release less detail when public numbers say that the noise would hide it.
    shrink : bool
        Whether centers are pulled towards their common mean, as far as the public noise suggests.
    unit : Unit
        Whose presence is hidden: one row.

    Examples
    --------
    >>> config = PrivateKMeansConfig(n_clusters=10, epsilon=1, promised_users=20_000, bound=1, max_items=16)
    >>> float(config.l1), float(config.l2), config.grid.step
    (16.0, 4.0, Fraction(1, 1024))
    >>> config.split()["candidate"].epsilon
    Fraction(1, 4)
    """

    n_clusters: int
    epsilon: Number
    promised_users: int
    bound: float
    max_items: int | None = None
    l1_bound: float | None = None
    l2_bound: float | None = None
    signed: bool = False
    keep: int | None = None
    delta: Number = 0
    dimension: int = 6
    depth: int = 5
    trees: int = 1
    swaps: int = 3
    trials: int = 1
    radius: float = 1.0
    most_candidates: int = 1024
    shares: Shares = field(default_factory=Shares)
    seed: int = 0
    fallback: bool = True
    shrink: bool = True
    unit: Unit = field(default_factory=Unit.person)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))
        object.__setattr__(self, "delta", read_delta(self.delta))
        for name in ("n_clusters", "promised_users", "dimension", "depth", "trees", "swaps", "trials"):
            _whole(name, getattr(self, name))
        for name in ("max_items", "keep"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name))
        _whole("seed", self.seed, least=0)
        _whole("most_candidates", self.most_candidates, least=self.n_clusters)
        for name in ("bound", "radius", "l1_bound", "l2_bound"):
            if getattr(self, name) is not None:
                positive(getattr(self, name), name=name)
        if self.dimension > 20 or self.depth > 8 or self.most_candidates > 4096:
            raise BadParameter(
                "the tree would be too wide or too deep.",
                found=f"dimension={self.dimension}, depth={self.depth}, most_candidates={self.most_candidates}",
                expected="dimension up to 20, depth up to 8, most_candidates up to 4096",
            )
        if self.l1_bound is None and self.max_items is None:
            raise BadPrivacyParameter(
                "the size of a row is not bounded.",
                fix="give max_items, or l1_bound",
                parameter="max_items",
            )
        if self.delta and self.trials > 1:
            raise BadPrivacyParameter(
                "a δ allows one trial only.", found=f"trials={self.trials}", fix="trials=1", parameter="trials"
            )

    @property
    def budget(self) -> PureDP:
        """Price of the whole release."""
        return PureDP(epsilon=self.epsilon)

    @property
    def l2(self) -> Fraction:
        """Cap of a row's l2 norm: as given, else Λ√s, else the cap of the l1 norm."""
        if self.l2_bound is not None:
            return exact(self.l2_bound)
        if self.max_items is None:
            return self.l1
        return exact(self.bound) * _root(self.max_items)

    @property
    def l1(self) -> Fraction:
        """Cap of a row's l1 norm: as given, else Λs."""
        if self.l1_bound is not None:
            return exact(self.l1_bound)
        assert self.max_items is not None  # checked when made
        return exact(self.bound) * self.max_items

    @property
    def grid(self) -> Grid:
        """Grid of the entries: Λ is 1,024 to 2,048 steps."""
        return Grid(exponent=math.frexp(float(self.bound))[1] - 1 - _GRID_BITS)

    @property
    def bounds(self) -> RowBounds:
        """The limits of each row."""
        return RowBounds(bound=self.bound, l1=self.l1, l2=self.l2, signed=self.signed, grid=self.grid)

    def recovery(self, epsilon: Number) -> Recovery:
        """How sums are released at a price of `epsilon`."""
        bounds = self.bounds
        return Recovery(
            epsilon=epsilon,
            entry=bounds.entry_steps,
            l1=bounds.l1_steps,
            keep=self.keep,
            signed=self.signed,
            delta=self.delta,
            l2_squared=bounds.l2_steps_squared,
            unit=self.unit,
            grid=self.grid,
        )

    @property
    def threshold(self) -> int:
        """The γ of a tree: no lower than sub-critical, and no finer than a twelfth of an average cluster."""
        epsilon = self.split()["candidate"].epsilon / (self.trials * self.trees * self.depth)
        sound = least_threshold(cells=2**self.dimension, epsilon=epsilon)
        return max(sound, self.promised_users // (_LEAST_SHARE_OF_A_CLUSTER * self.n_clusters))

    def split(self, mode: Mode = "chain") -> Split[PureDP]:
        """Share the budget; the parts add up exactly. Without a chain, values and counts get all of it."""
        shares = self.shares
        if mode != "chain":
            return self.budget.split(values=shares.values, counts=shares.counts)
        parts = {name: getattr(shares, name) for name in ("candidate", "swap", "values", "counts")}
        if self.trials > 1:
            parts["choice"] = shares.choice
        return self.budget.split(**parts)


def noise_energy(config: PrivateKMeansConfig, n_items: int, n_clusters: int, epsilon: Fraction) -> float:
    """Squared length of the noise on the center of a cluster of average size, from public numbers.

    Examples
    --------
    >>> config = PrivateKMeansConfig(n_clusters=10, epsilon=1, promised_users=1000, bound=1, max_items=10)
    >>> round(noise_energy(config, 50, 10, Fraction(1)), 6)
    1.0
    """
    deviation = config.recovery(epsilon).deviation * float(config.grid.step) * n_clusters / config.promised_users
    return min(n_items, config.keep or n_items) * deviation**2


def choose_mode(config: PrivateKMeansConfig, n_items: int) -> tuple[Mode, str]:
    """Say from public numbers whether the chain can help, and why.

    Clustering can lower the loss per row by at most the squared cap of a row's norm. If the noise on the centers
    of average clusters is larger than that, compared with the noise on one mean, more than one center cannot pay:
    "single". Else, if an average cluster is not larger than the tree's threshold, the tree cannot see it, and
    users go to public buckets: "buckets".

    Examples
    --------
    >>> config = PrivateKMeansConfig(n_clusters=10, epsilon=1, promised_users=900, bound=1, max_items=66)
    >>> choose_mode(config, 457)[0]
    'single'
    """
    if config.n_clusters == 1:
        return "single", "one cluster was asked for"
    if not config.fallback:
        return "chain", "fallback is off"
    chain, whole = config.split(), config.split("single")
    share = chain["values"].epsilon / config.trials
    single = noise_energy(config, n_items, 1, whole["values"].epsilon)
    gain = float(config.l2) ** 2
    if noise_energy(config, n_items, config.n_clusters, whole["values"].epsilon) - single >= gain:
        return "single", "the noise on the centers of average clusters exceeds all that clustering could gain"
    seen = config.threshold < config.promised_users / config.n_clusters
    if seen and noise_energy(config, n_items, config.n_clusters, share) - single < gain:
        return "chain", "average clusters are larger than the tree's threshold and the noise on their centers"
    return "buckets", "the tree's threshold exceeds an average cluster; users are assigned by public projections"


def _whole(name: str, value: object, *, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadParameter(f"{name} must be a whole number, {least} or more.", found=repr(value), fix=f"{name}={least}")


def _root(number: int) -> Fraction:
    """Root of a whole number, exact for squares and otherwise a little above."""
    whole = math.isqrt(number)
    return Fraction(whole) if whole**2 == number else Fraction(math.isqrt(number << 40) + 1, 1 << 20)
