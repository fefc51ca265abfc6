"""Costs and probabilities as they are printed: always rounded so that a card may overstate and never understate."""

from __future__ import annotations

import math
from fractions import Fraction

from twofold.privacy.ledger import Cost

__all__ = ["brief", "percent", "rounded_up"]


def brief(cost: Cost) -> str:
    """Print a cost with three digits, rounded up: a card may overstate what was spent but never understate it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> brief(Cost(epsilon=Fraction(2, 3), delta=Fraction(1, 10**6)))
    'ε = 0.667, δ = 1e-6'
    """
    return f"ε = {rounded_up(cost.epsilon)}" + (f", δ = {rounded_up(cost.delta)}" if cost.delta else "")


def rounded_up(amount: Fraction | float) -> str:
    """Round up to three digits: the guarantee may be better than stated, never worse.

    Examples
    --------
    >>> rounded_up(Fraction("2.111")), rounded_up(Fraction(1, 10)), rounded_up(math.inf)
    ('2.12', '0.1', 'infinite')
    """
    if isinstance(amount, float):
        return "infinite"
    if not amount:
        return "0"
    exponent = math.floor(math.log10(amount)) - 2
    step = Fraction(10) ** exponent
    mantissa, _, power = f"{float(math.ceil(amount / step) * step):.3g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def percent(share: float) -> str:
    """Print a probability, rounded up; with as many digits as it takes never to print 100% if it is less.

    Examples
    --------
    >>> percent(0.7311), percent(0.99995), percent(1.0)
    ('73.2%', '99.995%', '100%')
    """
    if share == 1.0:
        return "100%"
    for digits in range(1, 16):
        shown = math.ceil(round(share * 10 ** (digits + 2), 9))  # 9: what a product of floats adds is no digit
        if shown < 10 ** (digits + 2):
            return f"{shown / 10**digits:.{digits}f}%"
    return "100%"
