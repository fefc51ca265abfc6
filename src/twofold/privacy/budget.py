"""Budgets: ε and δ as exact fractions, and splits whose parts add up.

Three ways to state a guarantee, and one way to state that there is none:

=============  ===========================  =====================================================
type           promise                      used for
=============  ===========================  =====================================================
`PureDP`       ε                            Laplace, selection, threshold
`ApproxDP`     (ε, δ)                       what a plan asks for and a ledger counts
`ZCDP`         ρ (zero-concentrated)        Gaussian noise and its composition
`NotPrivate`   none: ε is infinite          a step that was not private; recorded, never hidden
=============  ===========================  =====================================================

Numbers are `fractions.Fraction`. A float is taken by its shortest decimal text, so that ``0.1`` means exactly
1/10 and ten parts of ``0.1`` make exactly one. ``delta`` is always the δ of (ε, δ)-differential privacy; the
failure probability that the paper also calls δ has no place in this layer.

Serialised form: ``as_dict()`` gives strings, ``{"kind": "approx-dp", "epsilon": "1/10", "delta": "0"}``.
Kinds and field names never change their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypeVar

from twofold.checks import Number, exact, positive, read_delta, shown, whole
from twofold.errors import BadPrivacyParameter

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Guarantee",
    "NotPrivate",
    "Number",
    "PureDP",
    "Split",
    "exact",
    "guarantee_from_dict",
    "positive",
    "read_delta",
    "weak_promise",
]

#: Above it, a guess about one person is right all but twice in a billion times.
LARGEST_EPSILON = 20

_ALMOST_ONE = 1 - Fraction(1, 2**64)


class _Serialised:
    """Plain-text form shared by the guarantees."""

    kind: ClassVar[str]

    def as_dict(self) -> dict[str, str]:
        """Give kind and fields as text; fractions as "1/10"."""
        named = {field.name: str(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind, **named}

    @classmethod
    def from_dict(cls, record: Mapping[str, str]) -> Self:
        """Read a record of `as_dict`; anything else is refused."""
        expected = {"kind", *(field.name for field in fields(cls))}  # type: ignore[arg-type]
        if not isinstance(record, Mapping) or set(record) != expected or record["kind"] != cls.kind:
            raise BadPrivacyParameter(
                f"this is not a {cls.kind} record.",
                found=f"fields {shown(sorted(map(str, record)), 80)}" if isinstance(record, Mapping) else "no record",
                expected=f"kind {cls.kind!r} with fields {sorted(expected)}",
            )
        return cls(**{key: value for key, value in record.items() if key != "kind"})


@dataclass(frozen=True, kw_only=True)
class ApproxDP(_Serialised):
    """(ε, δ)-differential privacy for the unit under add-or-remove-one.

    Examples
    --------
    >>> budget = ApproxDP(epsilon=1.0, delta=1e-6)
    >>> budget.epsilon, budget.delta
    (Fraction(1, 1), Fraction(1, 1000000))
    >>> (budget + budget).as_dict()
    {'kind': 'approx-dp', 'epsilon': '2', 'delta': '1/500000'}
    >>> ApproxDP(epsilon=float("nan"))
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: epsilon is not a finite number...
    """

    kind: ClassVar[str] = "approx-dp"
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __init__(self, *, epsilon: Number, delta: Number = 0) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "delta", read_delta(delta))

    def __add__(self, other: ApproxDP) -> ApproxDP:
        """Sequential composition, in its plainest form."""
        return ApproxDP(epsilon=self.epsilon + other.epsilon, delta=self.delta + other.delta)

    def to_approx(self, delta: Number = 0) -> ApproxDP:
        """Return itself; a larger δ may be stated, never a smaller one."""
        return ApproxDP(epsilon=self.epsilon, delta=max(self.delta, read_delta(delta)))

    def replace_one(self) -> ApproxDP:
        """Guarantee when one unit is replaced by another: one removed, one added.

        Privacy: two neighbouring steps in a row give ``P <= e^ε (e^ε Q + δ) + δ``.

        Examples
        --------
        >>> ApproxDP(epsilon=1).replace_one().epsilon
        Fraction(2, 1)
        """
        grown = Fraction(0) if self.delta == 0 else self.delta * (1 + _exp_above(self.epsilon))
        return ApproxDP(epsilon=2 * self.epsilon, delta=min(grown, _ALMOST_ONE))

    def split(self, **weights: Number) -> Split[ApproxDP]:
        """Share the budget in the given proportions; the parts add up exactly.

        Examples
        --------
        >>> parts = ApproxDP(epsilon=1).split(tree=1, values=2)
        >>> parts["values"].epsilon
        Fraction(2, 3)
        """
        return Split(total=self, parts=_proportions(self, weights))


@dataclass(frozen=True, kw_only=True)
class PureDP(_Serialised):
    """ε-differential privacy, no δ.

    Examples
    --------
    >>> PureDP(epsilon=0.1).replace_one()
    PureDP(epsilon=Fraction(1, 5))
    """

    kind: ClassVar[str] = "pure-dp"
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))

    def __add__(self, other: PureDP) -> PureDP:
        """Sequential composition: the ε add up."""
        return PureDP(epsilon=self.epsilon + other.epsilon)

    def to_approx(self, delta: Number = 0) -> ApproxDP:
        """State the same promise with any δ."""
        return ApproxDP(epsilon=self.epsilon, delta=delta)

    def replace_one(self) -> PureDP:
        """Guarantee when one unit is replaced by another: twice."""
        return PureDP(epsilon=2 * self.epsilon)

    def split(self, **weights: Number) -> Split[PureDP]:
        """Share the budget in the given proportions; the parts add up exactly.

        Examples
        --------
        >>> [part.epsilon for _, part in PureDP(epsilon=1).split(a=1, b=3).parts]
        [Fraction(1, 4), Fraction(3, 4)]
        """
        return Split(total=self, parts=_proportions(self, weights))


@dataclass(frozen=True, kw_only=True)
class ZCDP(_Serialised):
    """ρ-zero-concentrated differential privacy (Bun and Steinke 2016).

    Examples
    --------
    >>> round(float(ZCDP(rho="1/100").to_approx(1e-6).epsilon), 3)
    0.622
    >>> ZCDP(rho="1/100").replace_one()
    ZCDP(rho=Fraction(1, 25))
    """

    kind: ClassVar[str] = "zcdp"
    rho: Fraction

    def __init__(self, *, rho: Number) -> None:
        object.__setattr__(self, "rho", positive(rho, name="rho"))

    def __add__(self, other: ZCDP) -> ZCDP:
        """Sequential composition: the ρ add up."""
        return ZCDP(rho=self.rho + other.rho)

    def to_approx(self, delta: Number) -> ApproxDP:
        """Convert to (ε, δ).

        Privacy
        -------
        Canonne, Kamath and Steinke 2020, proposition 12: for every α > 1 the conversion with that α holds, so
        a search that misses the best α loses utility and never privacy. The floating-point result is raised
        by one part in 10⁹, far above its rounding error, before it becomes a fraction.
        """
        level = read_delta(delta)
        if level == 0:
            raise BadPrivacyParameter(
                "zCDP has no pure ε.", found="delta = 0", fix="give a delta above 0, e.g. 1e-6", parameter="delta"
            )
        return ApproxDP(epsilon=_above(_rdp_epsilon(float(self.rho), _log(level))), delta=level)

    def replace_one(self) -> ZCDP:
        """Guarantee when one unit is replaced: k² = 4 for a group of two (Bun, Steinke, proposition 1.9)."""
        return ZCDP(rho=4 * self.rho)

    def split(self, **weights: Number) -> Split[ZCDP]:
        """Share the budget in the given proportions; the parts add up exactly.

        Examples
        --------
        >>> ZCDP(rho=1).split(a=1, b=1)["a"].rho
        Fraction(1, 2)
        """
        return Split(total=self, parts=_proportions(self, weights))

    @classmethod
    def within(cls, budget: ApproxDP) -> ZCDP:
        """Largest ρ (to ten digits) whose (ε, δ) conversion stays within a budget.

        Examples
        --------
        >>> budget = ApproxDP(epsilon=1, delta=1e-6)
        >>> ZCDP.within(budget).to_approx(1e-6).epsilon <= 1
        True
        """
        if budget.delta == 0:
            raise BadPrivacyParameter(
                "zCDP needs a δ above zero.", found="delta = 0", fix="give a delta, e.g. 1e-6", parameter="delta"
            )
        low, high = 0.0, float(budget.epsilon)
        log_delta = _log(budget.delta)
        for _ in range(64):
            middle = (low + high) / 2
            fits = middle > 0 and _above(_rdp_epsilon(middle, log_delta)) <= budget.epsilon
            low, high = (middle, high) if fits else (low, middle)
        # down to twelve significant digits: a shorter fraction and never a larger ρ
        return cls(rho=Fraction(f"{low * (1 - 1e-11):.12e}"))


@dataclass(frozen=True, kw_only=True)
class NotPrivate(_Serialised):
    """No guarantee at all: ε is infinite.

    Examples
    --------
    >>> NotPrivate(reason="exact counts were printed").epsilon
    inf
    """

    kind: ClassVar[str] = "not-private"
    reason: str

    @property
    def epsilon(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def delta(self) -> float:
        """One: anything may leak."""
        return 1.0

    def replace_one(self) -> NotPrivate:
        """Return itself: twice infinity."""
        return self


Guarantee = PureDP | ApproxDP | ZCDP | NotPrivate
G = TypeVar("G", PureDP, ApproxDP, ZCDP)


def guarantee_from_dict(record: Mapping[str, str]) -> Guarantee:
    """Read any guarantee from a record of `as_dict`.

    Examples
    --------
    >>> guarantee_from_dict({"kind": "pure-dp", "epsilon": "1/10"})
    PureDP(epsilon=Fraction(1, 10))
    """
    kinds: dict[str, type[PureDP] | type[ApproxDP] | type[ZCDP] | type[NotPrivate]] = {
        cls.kind: cls for cls in (PureDP, ApproxDP, ZCDP, NotPrivate)
    }
    found = record.get("kind") if isinstance(record, Mapping) else None
    if not isinstance(found, str) or found not in kinds:
        raise BadPrivacyParameter(
            "unknown kind of guarantee.", found=shown(found), expected=", ".join(kinds), parameter="kind"
        )
    return kinds[found].from_dict(record)


@dataclass(frozen=True, kw_only=True)
class Split(Generic[G]):
    """A budget and its named parts, which add up to it exactly.

    Examples
    --------
    >>> half = PureDP(epsilon="1/2")
    >>> Split(total=PureDP(epsilon=1), parts=(("tree", half), ("values", half)))["tree"]
    PureDP(epsilon=Fraction(1, 2))
    >>> Split(total=PureDP(epsilon=1), parts=(("tree", half),))
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: the parts of a budget do not add up to it...
    """

    total: G
    parts: tuple[tuple[str, G], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.parts]
        if not names or len(set(names)) != len(names):
            raise BadPrivacyParameter("a split needs named parts, each name once.", found=str(names), parameter="parts")
        added = self.parts[0][1]
        for _, part in self.parts[1:]:
            added = added + part
        if added != self.total:
            raise BadPrivacyParameter(
                "the parts of a budget do not add up to it.",
                found=str(added.as_dict()),
                expected=str(self.total.as_dict()),
                parameter="total",
            )

    def __getitem__(self, name: str) -> G:
        """Part of that name."""
        found = dict(self.parts).get(name)
        if found is None:
            raise BadPrivacyParameter(
                "the split does not have this part.",
                found=name,
                expected=", ".join(key for key, _ in self.parts),
                parameter="name",
            )
        return found


def _proportions(total: G, weights: Mapping[str, Number]) -> tuple[tuple[str, G], ...]:
    shares = {name: positive(weight, name=f"weight of {name}") for name, weight in weights.items()}
    added = sum(shares.values(), Fraction(0))
    numbers: dict[str, Any] = {field.name: getattr(total, field.name) for field in fields(total)}
    return tuple(
        (name, type(total)(**{key: value * share / added for key, value in numbers.items()}))
        for name, share in shares.items()
    )


def _above(number: float) -> Fraction:
    """Fraction slightly above a float: past its rounding error, and short enough to read."""
    return Fraction(f"{number * (1 + 1e-9):.12e}")


def _exp_above(exponent: Fraction) -> Fraction:
    """Fraction not below e^exponent; beyond 700 nothing useful is left and δ is capped by the caller."""
    return _above(math.exp(float(exponent))) if exponent < 700 else Fraction(10) ** 305


def _log(number: Fraction) -> float:
    return math.log(number.numerator) - math.log(number.denominator)


def _rdp_epsilon(rho: float, log_delta: float) -> float:
    """Smallest ε over a ladder of α of ρα + log(1 - 1/α) - log(δα)/(α - 1)."""

    def at(log_excess: float) -> float:
        excess = math.exp(log_excess)  # α - 1
        alpha = 1 + excess
        return rho * alpha + math.log(excess / alpha) - (log_delta + math.log(alpha)) / excess

    # unimodal in log(α - 1) in practice; where it is not, the minimum of the ladder is still a valid ε
    low, high = -12.0, 45.0
    ladder = [low + (high - low) * step / 600 for step in range(601)]
    best = min(ladder, key=at)
    width = (high - low) / 600
    fine = [best + width * (step / 100 - 1) for step in range(201)]
    return max(min(at(point) for point in fine), 1e-12)


def best_guess(epsilon: float, delta: float = 0.0) -> float:
    r"""Give how often an attacker who guesses whether one person took part can be right, from even odds.

    Privacy
    -------
    Every test between two neighbouring data sets under (ε, δ)-DP has error rates α, β with α + e^ε β ≥ 1-δ and
    e^ε α + β ≥ 1-δ (Kairouz, Oh and Viswanath 2015). The mean of the two errors is then at least (1-δ)/(1+e^ε).

    Examples
    --------
    >>> [f"{best_guess(epsilon):.1%}" for epsilon in (0.1, 1, 3)]
    ['52.5%', '73.1%', '95.3%']
    >>> best_guess(math.inf), best_guess(0, 1)
    (1.0, 1.0)
    """
    if math.isnan(epsilon) or epsilon < 0 or not 0 <= delta <= 1:
        raise BadPrivacyParameter(
            "these numbers imply no guess.", expected="epsilon >= 0 and delta in [0, 1]", parameter="epsilon"
        )
    return 1.0 - (1.0 - delta) * math.exp(-epsilon) / (1.0 + math.exp(-epsilon))


def weak_promise(epsilon: Number, delta: Number, n_users: int | None) -> tuple[str, ...]:
    """Say in plain words why a promise protects hardly anybody; nothing for a promise of the usual size.

    Parameters
    ----------
    epsilon, delta : number
        The promise; ε may be infinite.
    n_users : int, optional
        Users that an entity promises to have: a public number, never a count. Without it, only a δ of one half is weak.

    Returns
    -------
    tuple of str
        One sentence for each reason.

    Privacy
    -------
    Above δ = 1/n, handing out the whole row of a random person keeps the promise (Dwork and Roth 2014, section 2.3).
    From δ = 1/2, doing so for every other person does. At ε = 20 the odds of a guess may change by a factor of e²⁰.

    Examples
    --------
    >>> weak_promise(1, 1e-6, 1_000)
    ()
    >>> for reason in weak_promise(25, "1/100", 1_000):
    ...     print(reason)
    ε = 25 is above 20: a guess about one person may be right almost always.
    δ = 0.01 is above 1/1,000: the whole row of one person in 1,000 may come out.
    """
    price = math.inf if epsilon == math.inf else positive(epsilon, name="epsilon")
    failure = read_delta(delta)
    people = 0 if n_users is None else whole("n_users", n_users, error=BadPrivacyParameter)
    reasons = []
    if price > LARGEST_EPSILON:
        reasons.append(
            f"ε = {float(price):g} is above {LARGEST_EPSILON}: a guess about one person may be right almost always."
        )
    if failure >= Fraction(1, 2):
        reasons.append(f"δ = {float(failure):g}: the whole row of every other person may come out.")
    elif failure * people > 1:
        reasons.append(
            f"δ = {float(failure):g} is above 1/{people:,}: the whole row of one person in {people:,} may come out."
        )
    return tuple(reasons)
