"""Caps hold exactly, keep what fits, and treat every record on its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import BadPrivacyParameter
from twofold.privacy.caps import cap_l1, cap_l2

records = st.lists(st.lists(st.integers(-(10**6), 10**6), max_size=8), max_size=8)


def laid_out(rows):
    values = np.array([value for row in rows for value in row], dtype=np.int64)
    return values, np.cumsum([0, *map(len, rows)])


def split(values, starts):
    return [values[a:b].tolist() for a, b in pairwise(starts)]


@given(records, st.integers(1, 10**7))
def test_l1_holds_and_changes_only_what_is_too_large(rows, limit):
    capped = split(cap_l1(*laid_out(rows), limit=limit), laid_out(rows)[1])
    for before, after in zip(rows, capped, strict=True):
        norm = sum(map(abs, before))
        assert sum(map(abs, after)) <= limit
        if norm <= limit:
            assert after == before
        else:
            assert all(abs(b * limit - a * norm) < norm for a, b in zip(after, before, strict=True))
            assert all(a * b >= 0 for a, b in zip(after, before, strict=True))


@given(records, st.integers(1, 10**13))
def test_l2_holds_and_changes_only_what_is_too_large(rows, limit):
    capped = split(cap_l2(*laid_out(rows), limit_squared=limit), laid_out(rows)[1])
    for before, after in zip(rows, capped, strict=True):
        assert sum(value**2 for value in after) <= limit
        if sum(value**2 for value in before) <= limit:
            assert after == before


@given(records, st.integers(1, 1000))
def test_removing_a_record_leaves_the_others_alone(rows, limit):
    if not rows:
        return
    every = split(cap_l1(*laid_out(rows), limit=limit), laid_out(rows)[1])
    rest = split(cap_l1(*laid_out(rows[1:]), limit=limit), laid_out(rows[1:])[1])
    assert every[1:] == rest


def test_most_of_a_large_record_is_kept():
    values = np.random.default_rng(0).integers(-1000, 1000, 500)
    assert np.abs(cap_l1(values, [0, 500], limit=100_000)).sum() > 99_400
    squared = (cap_l2(values, [0, 500], limit_squared=10**7) ** 2).sum()
    assert 0.98e7 < squared <= 1e7


@pytest.mark.parametrize("starts", [[], [0, 1], [1, 3], [0, 2, 1, 3], [0, 4]])
def test_starts_must_fit(starts):
    for cap in (lambda: cap_l1([1, 2, 3], starts, limit=1), lambda: cap_l2([1, 2, 3], starts, limit_squared=1)):
        with pytest.raises(BadPrivacyParameter):
            cap()


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_limit_is_a_whole_number_from_one(limit):
    with pytest.raises(BadPrivacyParameter):
        cap_l1([1], [0, 1], limit=limit)
    with pytest.raises(BadPrivacyParameter):
        cap_l2([1], [0, 1], limit_squared=limit)


def test_what_would_overflow_is_refused():
    with pytest.raises(BadPrivacyParameter, match="too large"):
        cap_l1([2**40], [0, 1], limit=2**30)
    with pytest.raises(BadPrivacyParameter, match="too large"):
        cap_l2([2**40], [0, 1], limit_squared=2**30)
