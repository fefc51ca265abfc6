"""The decoder against brute force, over a small prime."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from twofold.secure_sum.shamir import decode, evaluate, weights_at_zero

PRIME = 13
numbers = st.integers(0, PRIME - 1)


@given(poly=st.lists(numbers, max_size=8), x=numbers)
def test_horner_equals_the_sum_of_powers(poly, x) -> None:
    assert evaluate(poly, x, PRIME) == sum(c * x**k for k, c in enumerate(poly)) % PRIME


@given(poly=st.lists(numbers, min_size=1, max_size=6), points=st.permutations(range(1, PRIME)))
def test_weights_give_the_value_at_zero(poly, points) -> None:
    points = points[: len(poly)]
    weights = weights_at_zero(points, PRIME)
    assert sum(w * evaluate(poly, x, PRIME) for w, x in zip(weights, points, strict=True)) % PRIME == poly[0]


@given(data=st.data(), size=st.integers(1, 3), count=st.integers(3, 7))
def test_decoding_agrees_with_trying_every_polynomial(data, size, count) -> None:
    points = data.draw(st.permutations(range(1, PRIME)))[:count]
    values = data.draw(st.lists(numbers, min_size=count, max_size=count))
    allowed = (count - size) // 2 if count >= size else 0
    close = [
        poly
        for poly in itertools.product(range(PRIME), repeat=size)
        if sum(evaluate(poly, x, PRIME) != y for x, y in zip(points, values, strict=True)) <= allowed
    ]
    found = decode(points, values, size, PRIME)
    assert len(close) <= 1
    if close:
        assert found is not None
        assert tuple(found + [0] * (size - len(found))) == close[0]
    else:
        assert found is None
