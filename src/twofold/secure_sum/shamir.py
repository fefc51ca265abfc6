"""Shamir's secret sharing (1979) of 32-byte secrets, over the smallest prime above 2^256.

By hand, and small: no vetted package with wheels offers it alone. It is not a cipher, and its secrecy does not rest on
anything unproven: below the threshold, shares of every secret are alike in law (checked by enumeration over a small
prime in the tests). The arithmetic of Python integers is not of constant time; a share is computed on the entity's own
machine, which is trusted here.

A polynomial is the list of its coefficients, constant first, without zeros at the end: a few hundred integers of 257
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from twofold.secure_sum.derive import SECRET_BYTES, stream

__all__ = ["PRIME", "SHARE_BYTES", "decode", "evaluate", "recover", "split", "split_over", "weights_at_zero"]

#: The smallest prime above 2^256, so that every 32-byte secret is a number of the field.
PRIME = 2**256 + 297
SHARE_BYTES = 33
#: Bytes drawn per coefficient: reducing 384 bits modulo 257 bits is uniform to within 2^-127.
_DRAWN = 48
Poly = list[int]


def split(secret: bytes, *, key: bytes, threshold: int, points: Sequence[int]) -> list[bytes]:
    """Split a secret into one share per point, any `threshold` of which give it back.

    Parameters
    ----------
    secret : bytes
        32 bytes.
    key : bytes
        32 secret bytes that the coefficients are stretched from; they serve this secret alone. The same key gives the
        same shares.
    threshold : int
        How many shares make the secret.
    points : sequence of int
        Where the holders stand, from 1.

    Examples
    --------
    >>> shares = split(bytes(range(32)), key=bytes(32), threshold=2, points=[1, 3])
    >>> recover({1: shares[0], 3: shares[1]}, threshold=2, fits=lambda secret: True)[0] == bytes(range(32))
    True
    """
    drawn = stream(key, _DRAWN * (threshold - 1))
    numbers = [int.from_bytes(drawn[at : at + _DRAWN], "little") % PRIME for at in range(0, len(drawn), _DRAWN)]
    shares = split_over(int.from_bytes(secret, "little"), numbers, points, PRIME)
    return [share.to_bytes(SHARE_BYTES, "little") for share in shares]


def split_over(secret: int, coefficients: Sequence[int], points: Sequence[int], prime: int) -> list[int]:
    """Values of the polynomial secret + c₁ x + c₂ x² + ... at the points.

    Examples
    --------
    >>> split_over(5, [2], [1, 2, 3], 7)
    [0, 2, 4]
    """
    return [evaluate([secret, *coefficients], point, prime) for point in points]


def recover(
    shares: Mapping[int, bytes], *, threshold: int, fits: Callable[[bytes], bool]
) -> tuple[bytes | None, list[int]]:
    """Recover a secret, and find the points whose shares are wrong.

    Parameters
    ----------
    shares : mapping of int to bytes
        Shares by point, at least `threshold`, the ones most trusted first.
    threshold : int
        How many make the secret.
    fits : callable
        Says whether 32 bytes are the secret (a public key or a commitment is known).

    Returns
    -------
    secret : bytes or None
        None when nothing that fits could be found.
    wrong : list of int
        Points whose shares were found to be wrong. Shares beyond the first `threshold` are only looked at when those do
        not fit.

    Notes
    -----
    Up to (shares - threshold) / 2 wrong shares are always found (`decode`), and one when there is one to spare.

    Examples
    --------
    >>> shares = dict(enumerate(split(bytes(32), key=b"k" * 32, threshold=2, points=[1, 2, 3]), start=1))
    >>> shares[1] = bytes(33)
    >>> recover(shares, threshold=2, fits=lambda secret: secret == bytes(32))[1]
    [1]
    """
    numbers = {point: int.from_bytes(share, "little") % PRIME for point, share in shares.items()}
    secret = _at_zero(numbers, list(numbers)[:threshold], fits)
    if secret is not None:
        return secret, []
    poly = decode(list(numbers), list(numbers.values()), threshold, PRIME)
    if poly is not None and (secret := _fitting(poly[0] if poly else 0, fits)) is not None:
        return secret, [point for point, number in numbers.items() if evaluate(poly, point, PRIME) != number]
    return _without_one(numbers, threshold, fits)


def _without_one(
    numbers: Mapping[int, int], threshold: int, fits: Callable[[bytes], bool]
) -> tuple[bytes | None, list[int]]:
    """With one spare share, leave out each in turn."""
    if len(numbers) == threshold + 1:
        for left_out in numbers:
            secret = _at_zero(numbers, [point for point in numbers if point != left_out], fits)
            if secret is not None:
                return secret, [left_out]
    return None, []


def _at_zero(numbers: Mapping[int, int], points: Sequence[int], fits: Callable[[bytes], bool]) -> bytes | None:
    weights = _weights(tuple(points))
    value = sum(weight * numbers[point] for weight, point in zip(weights, points, strict=True)) % PRIME
    return _fitting(value, fits)


def _fitting(value: int, fits: Callable[[bytes], bool]) -> bytes | None:
    if value >= 2 ** (8 * SECRET_BYTES):
        return None
    secret = value.to_bytes(SECRET_BYTES, "little")
    return secret if fits(secret) else None


@lru_cache(maxsize=8)
def _weights(points: tuple[int, ...]) -> list[int]:
    return weights_at_zero(points, PRIME)  # the same for every secret that the same holders open


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
