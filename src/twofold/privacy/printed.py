"""Costs and probabilities as they are printed: always rounded so that a card may overstate and never understate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from twofold.privacy.ledger import Cost, Raise

__all__ = ["brief", "percent", "printable", "raises_in_words", "rounded_up"]

#: Most characters of one reason on a card, and of all of them.
_REASON: Final = 300
_REASONS: Final = 3_000


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


def printable(text: str) -> str:
    r"""Replace control characters: words in a ledger may be a stranger's.

    Examples
    --------
    >>> printable("a\nb")
    'a?b'
    """
    return "".join(one if one.isprintable() else "?" for one in text)


def raises_in_words(raises: Sequence[Raise]) -> str:
    """Say how often a ceiling was raised, and of each raise its date, what it allowed and the reason.

    Examples
    --------
    >>> raises_in_words([])
    '0 so far'
    >>> ceiling = Cost(epsilon=Fraction(2))
    >>> raises_in_words([Raise(number=3, at="2027-05-03T10:00:00Z", ceiling=ceiling, reason="minutes of 3 May")])
    '1 so far: 2027-05-03 to ε = 2, reason: "minutes of 3 May"'
    """
    told: list[str] = []
    for one in reversed(raises):  # where there are too many, the latest are told
        said = printable(one.reason)
        said = said if len(said) <= _REASON else said[: _REASON - 1] + "…"
        line = f'{one.at[:10] or "no date"} to {brief(one.ceiling)}, reason: "{said}"'
        if sum(map(len, told)) + len(line) > _REASONS:
            told.append(f"{len(raises) - len(told):,} before that, in the ledger")
            break
        told.append(line)
    return f"{len(raises):,} so far" + (f": {'; '.join(reversed(told))}" if told else "")
