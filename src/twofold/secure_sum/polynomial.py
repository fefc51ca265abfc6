"""Polynomials over a prime field: values, interpolation, and the decoder that finds wrong points.

Plain Python integers; a few hundred coefficients of 257 bits. A polynomial is the list of its coefficients, constant
first, without zeros at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["decode", "evaluate", "weights_at_zero"]

Poly = list[int]


def evaluate(poly: Sequence[int], x: int, prime: int) -> int:
    """Value at a point, by Horner's rule; reduced once at the end, which is faster for the small points used here.

    Examples
    --------
    >>> evaluate([1, 2, 3], 2, 101)
    17
    """
    value = 0
    for coefficient in reversed(poly):
        value = value * x + coefficient
    return value % prime


def weights_at_zero(points: Sequence[int], prime: int) -> list[int]:
    """Lagrange weights: the value at zero is the weighted sum of the values at `points`.

    Examples
    --------
    >>> weights = weights_at_zero([1, 2, 3], 101)
    >>> sum(w * evaluate([42, 5, 6], x, 101) for w, x in zip(weights, [1, 2, 3])) % 101
    42
    """
    weights = []
    for x in points:
        above = below = 1
        for other in points:
            if other != x:
                above = above * other % prime
                below = below * (other - x) % prime
        weights.append(above * pow(below, -1, prime) % prime)
    return weights


def decode(points: Sequence[int], values: Sequence[int], size: int, prime: int) -> Poly | None:
    """Find the polynomial of fewer than `size` coefficients plus wrong values at up to (points - size) / 2 places.

    Shares are a Reed-Solomon code word; this is the decoder of Gao (2003): the extended Euclidean algorithm on the
    polynomial that vanishes at all points and the one through all values, stopped half way. None when nothing fits.

    Examples
    --------
    >>> points = [1, 2, 3, 4, 5]
    >>> values = [evaluate([42, 5], x, 101) for x in points]
    >>> values[1] = 99
    >>> decode(points, values, 2, 101)
    [42, 5]
    """
    older, newer = _through(points, values, prime)
    factor_older: Poly = []
    factor: Poly = [1]
    while newer and 2 * (len(newer) - 1) >= len(points) + size:
        quotient, rest = _divide(older, newer, prime)
        older, newer = newer, rest
        factor_older, factor = factor, _minus(factor_older, _times(quotient, factor, prime), prime)
    found, rest = _divide(newer, factor, prime)
    return found if not rest and len(found) <= size else None


def _through(points: Sequence[int], values: Sequence[int], prime: int) -> tuple[Poly, Poly]:
    """The polynomial that vanishes at all points, and the one through all values (Newton's way)."""
    vanishing: Poly = [1]
    through: Poly = []
    for x, value in zip(points, values, strict=True):
        missing = (value - evaluate(through, x, prime)) * pow(evaluate(vanishing, x, prime), -1, prime) % prime
        through = _minus(through, _times([-missing % prime], vanishing, prime), prime)
        vanishing = _times(vanishing, [-x % prime, 1], prime)
    return vanishing, through


def _trim(poly: Poly) -> Poly:
    while poly and poly[-1] == 0:
        poly.pop()
    return poly


def _minus(left: Poly, right: Poly, prime: int) -> Poly:
    size = max(len(left), len(right))
    left, right = left + [0] * (size - len(left)), right + [0] * (size - len(right))
    return _trim([(a - b) % prime for a, b in zip(left, right, strict=True)])


def _times(left: Poly, right: Poly, prime: int) -> Poly:
    product = [0] * (len(left) + len(right))
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] += a * b
    return _trim([coefficient % prime for coefficient in product])


def _divide(top: Poly, bottom: Poly, prime: int) -> tuple[Poly, Poly]:
    rest = list(top)
    inverse = pow(bottom[-1], -1, prime)
    quotient = [0] * max(0, len(top) - len(bottom) + 1)
    for shift in reversed(range(len(quotient))):
        quotient[shift] = rest[shift + len(bottom) - 1] * inverse % prime
        for j, b in enumerate(bottom):
            rest[shift + j] = (rest[shift + j] - quotient[shift] * b) % prime
    return _trim(quotient), _trim(rest)
