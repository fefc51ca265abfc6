"""Shamir's secret sharing (1979) of 32-byte secrets, over the smallest prime above 2^256.

By hand, and small: no vetted package with wheels offers it alone. It is not a cipher, and its secrecy does not rest on
anything unproven: below the threshold, shares of every secret are alike in law (checked by enumeration over a small
prime in the tests). The arithmetic of Python integers is not of constant time; a share is computed on the entity's own
machine, which is trusted here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from twofold.secure_sum.derive import SECRET_BYTES, stream
from twofold.secure_sum.polynomial import decode, evaluate, weights_at_zero

__all__ = ["PRIME", "SHARE_BYTES", "recover", "split", "split_over"]

#: The smallest prime above 2^256, so that every 32-byte secret is a number of the field.
PRIME = 2**256 + 297
SHARE_BYTES = 33
#: Bytes drawn per coefficient: reducing 384 bits modulo 257 bits is uniform to within 2^-127.
_DRAWN = 48


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
    """Put a secret together again, and find the points whose shares are wrong.

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
    """With one share to spare, leave each out in turn."""
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
