r"""The exact (ε, δ) curve of Gaussian noise, from above, in decimals that are the same on every machine.

For noise of standard deviation σ and l2 sensitivity Δ, with μ = Δ/σ, the least δ at an ε is (Balle and Wang 2018,
theorem 8)

.. math:: \delta = \Phi(-x) - e^{\varepsilon}\, \Phi(-x - \mu), \qquad x = \varepsilon/\mu - \mu/2.

As :math:`e^\varepsilon \varphi(x + \mu) = \varphi(x)`, it is :math:`\varphi(x)\,(M(x) - M(x + \mu))` with the ratio of
Mills :math:`M(x) = \Phi(-x)/\varphi(x)`, in which nothing overflows. M comes from its power series near 0 and from its
continued fraction further out.

Python's decimals have an `exp` and a root that are rounded correctly, so every machine finds the same digits. There
are `_DIGITS` of them, and errors stay below 10⁻⁵⁰ in the range that is allowed. `_MARGIN` is added to every δ. Outside
of the range δ is 1: nothing is promised. Searches return a number only if the δ at it was computed and found small
enough, so one that stops early loses utility, never privacy.

Discrete noise has this curve up to a slack, which is proved to be tiny: docs/reference/gaussian.md.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

__all__ = ["delta_above", "epsilon_above", "holds", "rho_below", "rounded"]

_DIGITS: Final = 64
_MARGIN: Final = Decimal("1e-40")
# The power series loses eight digits to cancellation here; the continued fraction needs some fifty steps.
_SERIES: Final = Decimal(5)
# Beyond it, and where μ is below its third inverse power, the errors of x and μ would come near the margin.
_RANGE: Final = Decimal(10) ** 6
# √(2π), cut off
_ROOT_TWO_PI: Final = Decimal("2.506628274631000502415765284811045253006986740609938316629923576")
# A smaller δ is taken for this one, since fractions of any exponent have no end. Φ(-x) is below it beyond `_FAR`.
_LEAST: Final = Decimal("1e-1000")
_FAR: Final = 70
_NEAR: Final = Decimal("1e-56")
_HALVINGS: Final = 56
_DOUBLINGS: Final = 64


def _context() -> Context:
    return Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)


def delta_above(epsilon: Fraction, mu_squared: Fraction) -> Fraction:
    """Give a δ not below that of Gaussian noise at an ε, with μ² the squared sensitivity over the variance.

    Examples
    --------
    >>> round(float(delta_above(Fraction(1), Fraction("0.05602"))), 8)
    1e-06
    >>> delta_above(Fraction(1), Fraction(10) ** 20)
    Fraction(1, 1)
    """
    with localcontext(_context()):
        return Fraction(_delta(_decimal(epsilon), _decimal(mu_squared)))


def holds(epsilon: Fraction, delta: Fraction, *, mu_squared: Fraction, slack: Fraction = Fraction(0)) -> bool:
    """Whether noise whose law is within e^±slack of a function of Gaussian noise keeps (ε, δ).

    Privacy
    -------
    P <= e^s P' <= e^s (e^ε' Q' + δ') <= e^(ε' + 2s) Q + e^s δ'. So ε' = ε - 2s and δ' = δ(1 - s) <= δe^-s are enough.

    Examples
    --------
    >>> holds(Fraction(1), Fraction(1, 10**6), mu_squared=Fraction("0.056"))
    True
    >>> holds(Fraction(1), Fraction(1, 10**6), mu_squared=Fraction("0.056"), slack=Fraction(1, 100))
    False
    """
    if slack >= 1 or epsilon < 2 * slack:
        return False
    return delta_above(epsilon - 2 * slack, mu_squared) <= delta * (1 - slack)


@lru_cache(maxsize=1024)
def epsilon_above(mu_squared: Fraction, delta: Fraction, slack: Fraction = Fraction(0)) -> Fraction | None:
    """Give the least ε, up to fifteen digits and rounded up, at which `holds` is true; None if there is none.

    Examples
    --------
    >>> round(float(epsilon_above(Fraction(1, 50), Fraction(1, 10**6))), 4)
    0.5751
    >>> epsilon_above(Fraction(1, 50), Fraction(1, 10**6), slack=Fraction(2)) is None
    True
    """
    if slack >= 1:
        return None
    most = delta * (1 - slack)
    found = _last(lambda part: delta_above(1 / part, mu_squared) <= most)
    return None if found is None else rounded(1 / found + 2 * slack, up=True)


@lru_cache(maxsize=256)
def rho_below(epsilon: Fraction, delta: Fraction, slack: Fraction = Fraction(0)) -> Fraction | None:
    """Give the largest ρ = μ²/2, up to ten digits and rounded down, at which `holds` is true; None if there is none.

    It is lowered by one part in 10¹¹, so that the ε that `epsilon_above` gives back, rounded up, is still within.

    Examples
    --------
    >>> round(float(rho_below(Fraction(1), Fraction(1, 10**6))), 6)
    0.028014
    """
    found = _last(lambda rho: holds(epsilon, delta, mu_squared=2 * rho, slack=slack))
    return None if found is None else rounded(found * (1 - Fraction(1, 10**11)), up=False)


def rounded(number: Fraction, *, up: bool) -> Fraction:
    """Round a positive number to fifteen digits, upwards or downwards.

    Examples
    --------
    >>> rounded(Fraction(2, 3), up=True), rounded(Fraction(1, 2), up=False)
    (Fraction(666666666666667, 1000000000000000), Fraction(1, 2))
    """
    cut = Context(prec=15, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return Fraction(cut.divide(Decimal(number.numerator), Decimal(number.denominator)))


def _last(fits: Callable[[Fraction], bool]) -> Fraction | None:
    """Find about the largest number that fits, where smaller ones do; what is returned was tried and fits."""
    low = Fraction(1)
    if fits(low):
        for _ in range(_DOUBLINGS):
            if not fits(2 * low):
                break
            low *= 2
        else:
            return low
    else:
        for _ in range(_DOUBLINGS):
            low /= 2
            if fits(low):
                break
        else:
            return None
    step = low
    for _ in range(_HALVINGS):
        step /= 2
        low = low + step if fits(low + step) else low
    return low


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _delta(epsilon: Decimal, mu_squared: Decimal) -> Decimal:
    mu = mu_squared.sqrt()
    if not 1 / _RANGE**3 < mu < _RANGE:
        return Decimal(1)
    x = epsilon / mu - mu / 2
    if abs(x) > _FAR:
        return _LEAST if x > 0 else Decimal(1)
    near, far = _mills(x), _mills(x + mu)
    # φ(x) from above: the root of 2π is divided by, so it is lowered
    density = (-x * x / 2).exp() / (_ROOT_TWO_PI * (1 - _MARGIN))
    found = density * (near - far + _MARGIN * (1 + near)) * (1 + _MARGIN)
    return min(max(found, _LEAST), Decimal(1))


def _mills(x: Decimal) -> Decimal:
    """Φ(-x)/φ(x), with an error far below `_MARGIN` times one more than itself."""
    if x <= -_SERIES:
        return _ROOT_TWO_PI * (x * x / 2).exp() - _fraction(-x)
    return _fraction(x) if x >= _SERIES else _series(x)


def _series(x: Decimal) -> Decimal:
    """√(π/2) e^(x²/2) - Σ x^(2n+1)/(1·3···(2n+1)); the terms fall like those of an exponential."""
    term, total, square, odd = x, x, x * x, 1
    while abs(term) > _NEAR * abs(total):
        odd += 2
        term = term * square / odd
        total += term
    return _ROOT_TWO_PI / 2 * (square / 2).exp() - total


def _fraction(x: Decimal) -> Decimal:
    """1/(x + 1/(x + 2/(x + 3/(x + ···)))); the true value lies between any two neighbouring convergents."""
    one, other = (Decimal(0), Decimal(1)), (Decimal(1), x)  # numerators and denominators
    before, now, step = Decimal(0), 1 / x, 0
    while abs(now - before) > _NEAR * now:
        step += 1
        one, other = other, (x * other[0] + step * one[0], x * other[1] + step * one[1])
        before, now = now, other[0] / other[1]
    return now
