"""Sharing: any threshold of shares gives the secret, fewer tell nothing, wrong ones are found."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.secure_sum.derive import stream
from twofold.secure_sum.shamir import PRIME, SHARE_BYTES, recover, split, split_over, weights_at_zero

secrets = st.binary(min_size=32, max_size=32)


def fits(secret):
    wanted = hashlib.sha256(secret).digest()
    return lambda found: hashlib.sha256(found).digest() == wanted


@st.composite
def sharings(draw):
    holders = draw(st.integers(1, 12))
    threshold = draw(st.integers(1, holders))
    secret, key = draw(secrets), draw(secrets)
    shares = split(secret, key=key, threshold=threshold, points=range(1, holders + 1))
    return secret, threshold, dict(enumerate(shares, start=1))


@given(sharing=sharings(), data=st.data())
def test_any_threshold_of_shares_gives_the_secret(sharing, data) -> None:
    secret, threshold, shares = sharing
    chosen = data.draw(st.permutations(list(shares)))[:threshold]
    found, wrong = recover({point: shares[point] for point in chosen}, threshold=threshold, fits=fits(secret))
    assert (found, wrong) == (secret, [])
    assert all(len(share) == SHARE_BYTES for share in shares.values())


@given(sharing=sharings(), data=st.data())
def test_wrong_shares_are_found_when_two_are_to_spare_for_each_or_one_for_one(sharing, data) -> None:
    secret, threshold, shares = sharing
    spare = len(shares) - threshold
    most = spare // 2 or min(spare, 1)
    liars = data.draw(st.permutations(list(shares)))[: data.draw(st.integers(0, most))]
    for point in liars:
        number = int.from_bytes(shares[point], "little") + data.draw(st.integers(1, PRIME - 1))
        shares[point] = (number % PRIME).to_bytes(SHARE_BYTES, "little")
    found, wrong = recover(shares, threshold=threshold, fits=fits(secret))
    assert found == secret
    used = set(list(shares)[:threshold])
    assert sorted(wrong) == (sorted(liars) if used & set(liars) else [])


@given(sharing=sharings())
def test_with_fewer_right_shares_than_the_threshold_nothing_is_found(sharing) -> None:
    secret, threshold, shares = sharing
    garbage = {point: hashlib.sha256(share).digest() + b"\0" for point, share in shares.items()}
    garbage |= dict(list(shares.items())[: threshold - 1])
    assert recover(garbage, threshold=threshold, fits=fits(secret)) == (None, [])


def test_a_share_longer_than_the_field_does_not_crash() -> None:
    shares = dict(enumerate(split(bytes(32), key=b"k" * 32, threshold=2, points=[1, 2, 3]), start=1))
    shares[2] = b"\xff" * SHARE_BYTES
    assert recover(shares, threshold=2, fits=fits(bytes(32))) == (bytes(32), [2])


def test_a_number_of_the_field_that_is_no_secret_is_not_taken_for_one() -> None:
    shares = split_over(2**256 + 5, [7], [1, 2], PRIME)
    named = {point: share.to_bytes(SHARE_BYTES, "little") for point, share in zip([1, 2], shares, strict=True)}
    assert recover(named, threshold=2, fits=lambda _: True) == (None, [])


@pytest.mark.parametrize(("threshold", "holders", "prime"), [(2, 3, 7), (3, 4, 7), (3, 3, 5), (4, 4, 5)])
def test_one_share_too_few_tells_nothing_at_all(threshold: int, holders: int, prime: int) -> None:
    """Exact: over all polynomials, the law of any threshold - 1 shares is uniform, whatever the secret."""
    for known in itertools.combinations(range(1, holders + 1), threshold - 1):
        for secret in range(prime):
            seen = Counter(
                tuple(split_over(secret, coefficients, known, prime))
                for coefficients in itertools.product(range(prime), repeat=threshold - 1)
            )
            assert len(seen) == prime ** (threshold - 1)
            assert set(seen.values()) == {1}


def test_the_enumeration_would_catch_a_polynomial_of_too_small_degree() -> None:
    seen = Counter(tuple(split_over(3, [c, 0], (1, 2), 7)) for c in range(7))
    assert len(seen) < 7**2


def test_the_prime_is_the_smallest_above_every_secret() -> None:
    """Fermat and Miller-Rabin for the prime and for everything between 2^256 and it."""
    assert probably_prime(PRIME)
    assert not any(probably_prime(number) for number in range(2**256 + 1, PRIME))


def probably_prime(number: int) -> bool:
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        power = pow(base, odd, number)
        if power not in (1, number - 1) and all(pow(base, odd << s, number) != number - 1 for s in range(twos)):
            return False
    return True


def test_coefficients_follow_from_the_key_and_differ_between_keys() -> None:
    one = split(bytes(32), key=b"a" * 32, threshold=3, points=[1, 2, 3])
    assert one == split(bytes(32), key=b"a" * 32, threshold=3, points=[1, 2, 3])
    assert one != split(bytes(32), key=b"b" * 32, threshold=3, points=[1, 2, 3])
    drawn = stream(b"a" * 32, 96)
    first, second = int.from_bytes(drawn[:48], "little"), int.from_bytes(drawn[48:], "little")
    assert int.from_bytes(one[1], "little") == (2 * first + 4 * second) % PRIME


def test_weights_sum_to_one_because_constants_come_back() -> None:
    assert sum(weights_at_zero([2, 5, 9, 11], PRIME)) % PRIME == 1
