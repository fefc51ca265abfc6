"""What a release costs, what a ceiling allows: ε and δ as exact fractions, or infinity, added up plainly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import ApproxDP, NotPrivate, PureDP

__all__ = ["Cost", "Guarantee", "cost_of", "words"]

#: What the ledger can charge. zCDP must be converted with `to_approx(delta)` first.
Guarantee = PureDP | ApproxDP | NotPrivate
Amount = Fraction | float  # the only float is infinity


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An amount of ε and δ that may be zero or infinite.

    Privacy
    -------
    Costs are added: sequential composition in its plainest form, valid for any mechanisms in any order. A tighter
    account of the events inside one release belongs to the accountant; between releases the ledger stays simple.
    δ stops at 1, where it promises nothing any more: a probability cannot be larger.

    Examples
    --------
    >>> third = Cost(epsilon=Fraction(1, 3))
    >>> (third + third + third).epsilon
    Fraction(1, 1)
    """

    epsilon: Amount = Fraction(0)
    delta: Amount = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(epsilon=self.epsilon + other.epsilon, delta=min(self.delta + other.delta, Fraction(1)))

    def minus(self, other: Cost) -> Cost:
        """Give what is left, never below zero."""
        return Cost(epsilon=_rest(self.epsilon, other.epsilon), delta=_rest(self.delta, other.delta))

    def fits(self, ceiling: Cost) -> bool:
        """Tell whether both amounts stay within a ceiling."""
        return self.epsilon <= ceiling.epsilon and self.delta <= ceiling.delta

    def as_dict(self) -> dict[str, str]:
        """Give text for a record: "1/10", "0" or "inf"."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, record: Mapping[str, str]) -> Cost:
        """Read what `as_dict` wrote."""
        return cls(epsilon=_amount(record["epsilon"]), delta=_amount(record["delta"]))


def cost_of(guarantee: Guarantee) -> Cost:
    """Turn a guarantee into what the ledger charges for it.

    Examples
    --------
    >>> cost_of(PureDP(epsilon=0.1))
    Cost(epsilon=Fraction(1, 10), delta=Fraction(0, 1))
    >>> cost_of(NotPrivate(reason="seeded")).epsilon
    inf
    """
    if isinstance(guarantee, PureDP):
        return Cost(epsilon=guarantee.epsilon)
    if isinstance(guarantee, ApproxDP):
        return Cost(epsilon=guarantee.epsilon, delta=guarantee.delta)
    if isinstance(guarantee, NotPrivate):
        return Cost(epsilon=math.inf, delta=Fraction(1))
    raise BadPrivacyParameter(
        "the ledger counts in ε and δ.",
        found=type(guarantee).__name__,
        expected="PureDP, ApproxDP or NotPrivate",
        fix="convert with .to_approx(delta)",
    )


def words(cost: Cost) -> str:
    """Print a cost for people.

    Examples
    --------
    >>> words(Cost(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))), words(Cost(epsilon=Fraction(1, 3)))
    ('ε=0.5, δ=1e-06', 'ε=1/3')
    """
    parts = [f"ε={_short(cost.epsilon)}"]
    if cost.delta:
        parts.append(f"δ={_short(cost.delta)}")
    return ", ".join(parts)


def _short(amount: Amount) -> str:
    """Give a decimal if it is exact, else the fraction: a rounded number could seem to fit when it does not."""
    if isinstance(amount, float):
        return "infinite"
    decimal = f"{float(amount):g}"
    if Fraction(Decimal(decimal)) == amount:
        return decimal
    return str(amount) if amount.denominator < 1000 else repr(float(amount))


def _rest(amount: Amount, spent: Amount) -> Amount:
    if amount == math.inf:
        return amount
    return amount - spent if spent < amount else Fraction(0)


def _amount(text: str) -> Amount:
    return math.inf if text == "inf" else Fraction(text)
