"""What a plan would release, and whether it can be useful: from public numbers only.

Formulas
--------
A user has at most ``s = max_items`` items, each of value at most ``B = bound``; users are shared out over ``k``
prototypes, about ``n_users/k`` each. What leaves is, per prototype, one noisy sum per item and one noisy count.
One person moves the sums by at most ``s·B`` in l1 and ``√s·B`` in l2 distance. With a share ``f`` of the budget on the
sums, the noise on one sum has the standard deviation

* Laplace (pure ε):     ``√2·s·B/(f·ε)``
* Gaussian (ε, δ):      ``σ(ε, δ)·√s·B/√f``, σ the smallest multiplier of the analytic Gaussian mechanism
  (Balle and Wang 2018, as computed by dp-accounting).

The signal in one sum, root mean square over ``m`` items, lies between two extremes that use the bounds fully:
users of a prototype spread evenly over all items, ``(n/k)·B·s/m``, and users of a prototype exactly alike,
``(n/k)·B·√(s/m)``. Real data lies between, or below when people stay under the bounds. On simulated hospital visits
(900 users, 457 items, 66 items each, k=10, ε=0.1) a signal-to-noise ratio of 0.025 was measured; these formulas
give 0.013 to 0.033.

From the ratio ``r`` of one number follow two more for ``H`` entities whose people follow the same ``k`` patterns:

* patterns: ``r·√(H·m)/(√(k·H)+√m)``, how far the k patterns rise above the largest direction that noise alone
  makes in the stacked kH x m table (its edge is σ(√(kH)+√m));
* profile: ``r·√(k·H)``, everything added up into one profile, that is: which items are frequent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import best_guess

__all__ = ["EPSILONS", "Explanation", "PublicNumbers", "Range", "Row", "explain", "gaussian_multiplier"]

#: Shown by default: strict, usual, loose, very loose.
EPSILONS = (0.1, 1.0, 3.0, 10.0)
#: Share of the budget for the sums, the rest is for the counts (about 9:1 minimises the error of their ratio).
VALUE_SHARE = 0.9
#: A released number is a whole number of grid units, eight bytes.
BYTES = 8


@dataclass(frozen=True, kw_only=True)
class PublicNumbers:
    """What may be said about a plan without looking at data.

    Parameters
    ----------
    n_items : int
        Length of the public catalog.
    n_users : int
        Users per entity, as promised by the entities; never counted for this purpose.
    bound : float
        Largest value of one entry.
    max_items : int
        Most items one user may have.
    n_prototypes : int
        Prototypes per entity.
    n_entities : int
        How many entities take part.
    delta : float
        The δ of the Gaussian rows.

    Examples
    --------
    >>> PublicNumbers(n_items=457, n_users=900, bound=1, max_items=66, n_prototypes=10).numbers
    4580
    """

    n_items: int
    n_users: int
    bound: float
    max_items: int
    n_prototypes: int
    n_entities: int = 1
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), whole=field.name.startswith(("n_", "max_")))
        if self.delta >= 1:
            raise BadPrivacyParameter(
                "{parameter} is a probability.",
                found=f"{self.delta}",
                expected="between 0 and 1",
                parameter="delta",
            )

    @property
    def numbers(self) -> int:
        """How many numbers leave an entity: a sum per item and a count, for each prototype."""
        return self.n_prototypes * (self.n_items + 1)

    @property
    def items_per_user(self) -> int:
        """Most items of one user; no more than there are."""
        return min(self.max_items, self.n_items)

    @property
    def signal(self) -> Range:
        """Root mean square of one true sum: users spread evenly, and users exactly alike."""
        users, share = self.n_users / self.n_prototypes, self.items_per_user / self.n_items
        return Range(low=users * self.bound * share, high=users * self.bound * math.sqrt(share))

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> PublicNumbers:
        """Take the known names out of a plan or a record; says which are missing.

        Examples
        --------
        >>> PublicNumbers.from_mapping({"n_items": 5})
        Traceback (most recent call last):
        twofold.errors.BadPrivacyParameter: the public numbers are not complete...
        """
        known = {field.name: given[field.name] for field in fields(cls) if given.get(field.name) is not None}
        missing = [name for name in ("n_items", "n_users", "bound", "max_items", "n_prototypes") if name not in known]
        if missing:
            raise BadPrivacyParameter(
                "the public numbers are not complete.",
                found=f"missing {', '.join(missing)}",
                expected="n_items, n_users, bound, max_items, n_prototypes",
                fix="add them to the file, or give them as options",
                parameter=missing[0],
            )
        return cls(**known)


@dataclass(frozen=True, kw_only=True)
class Range:
    """A figure for users spread evenly over the items (low) and users of a prototype exactly alike (high)."""

    low: float
    high: float

    def times(self, factor: float) -> Range:
        """Scale both ends."""
        return Range(low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One ε with one kind of noise.

    `noise` is the standard deviation on one released sum, `noise_on_mean` the same after division by the users of a
    prototype; the three ratios are signal over noise.
    """

    epsilon: float
    delta: float
    mechanism: str
    guess: float
    noise: float
    noise_on_mean: float
    number: Range
    patterns: Range
    profile: Range
    verdict: str
    reason: str
    users_needed: int


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What would leave, and what it would be worth."""

    public: PublicNumbers
    rows: tuple[Row, ...]

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON."""
        size = {"numbers": self.public.numbers, "bytes": self.public.numbers * BYTES}
        return {"public": asdict(self.public), "leaves": size, "rows": [asdict(row) for row in self.rows]}


def explain(public: PublicNumbers, *, epsilons: Sequence[float] = EPSILONS) -> Explanation:
    """Say what a plan would release and how its noise compares with the signal.

    Privacy
    -------
    Touches no data: every figure follows from numbers that are public already.

    Examples
    --------
    >>> public = PublicNumbers(n_items=457, n_users=900, bound=1, max_items=66, n_prototypes=10)
    >>> row = explain(public, epsilons=[0.1]).rows[0]
    >>> row.mechanism, round(row.noise_on_mean, 1), round(row.number.low, 3), round(row.number.high, 3), row.verdict
    ('Laplace', 11.5, 0.013, 0.033, 'no')
    """
    rows = (_row(public, epsilon, kind) for epsilon in epsilons for kind in ("Laplace", "Gaussian"))
    return Explanation(public=public, rows=tuple(rows))


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Give the smallest σ per unit of l2 sensitivity for one Gaussian release.

    Examples
    --------
    >>> round(gaussian_multiplier(1.0, 1e-6), 3)
    4.225
    """
    # Loaded here: dp-accounting takes a second, and a card or a Laplace plan does not need it.
    from dp_accounting.pld import common, privacy_loss_mechanism

    target = common.DifferentialPrivacyParameters(epsilon, delta)
    mechanism = privacy_loss_mechanism.GaussianPrivacyLoss.from_privacy_guarantee(target)
    return float(mechanism.standard_deviation)


def _row(public: PublicNumbers, epsilon: float, mechanism: str) -> Row:
    _check("epsilon", epsilon, whole=False)
    noise, delta = _noise(public, epsilon, mechanism)
    number = public.signal.times(1 / noise)
    k, H, m = public.n_prototypes, public.n_entities, public.n_items
    patterns = number.times(math.sqrt(H * m) / (math.sqrt(k * H) + math.sqrt(m)))
    profile = number.times(math.sqrt(k * H))
    verdict, reason = _verdict(number, patterns, profile)
    return Row(
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        guess=best_guess(epsilon, delta),
        noise=noise,
        noise_on_mean=noise * k / public.n_users,
        number=number,
        patterns=patterns,
        profile=profile,
        verdict=verdict,
        reason=reason,
        users_needed=math.ceil(public.n_users / patterns.high),
    )


def _noise(public: PublicNumbers, epsilon: float, mechanism: str) -> tuple[float, float]:
    s, B = public.items_per_user, public.bound
    if mechanism == "Laplace":
        return math.sqrt(2) * s * B / (VALUE_SHARE * epsilon), 0.0
    return gaussian_multiplier(epsilon, public.delta) * math.sqrt(s) * B / math.sqrt(VALUE_SHARE), public.delta


def _verdict(number: Range, patterns: Range, profile: Range) -> tuple[str, str]:
    """Judge by the best case first; only a noise below the average entry itself is called useful outright."""
    if number.low >= 1:
        return "yes", "even a single released number stands above its noise"
    if patterns.high >= 1:
        return (
            "perhaps",
            "single numbers drown; patterns may rise above the noise, the more alike the users of a prototype are",
        )
    if profile.high >= 1:
        return "one profile", "the prototypes drown; at best, which items are frequent everywhere can be learned"
    return "no", "even everything added up drowns in the noise; this buys privacy and no use"


def _check(name: str, value: object, *, whole: bool) -> None:
    fits = isinstance(value, int) if whole else isinstance(value, int | float)
    if not fits or isinstance(value, bool) or not 0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise BadPrivacyParameter(
            "{parameter} is not usable.",
            found=f"{value!r:.40}",
            expected=f"a {'whole ' if whole else ''}number above 0",
            parameter=name,
        )
