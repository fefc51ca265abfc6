"""Caps hold exactly, keep what fits, and treat every record on its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import BadPrivacyParameter
from twofold.privacy import grid as caps
from twofold.privacy.grid import cap_l1, cap_l2

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


HUGE = [[2**60] * 16, [-(2**60)] * 8 + [2**60] * 8, [2**50] * 16384, [2**61 - 1], [2**60, 5], [2**31] * 3, [2**40]]


@pytest.mark.parametrize("record", HUGE, ids=lambda record: f"{len(record)} of {record[0]}")
@pytest.mark.parametrize("limit", [10, 2**30, 2**45, 2**59])
def test_a_record_whose_sum_wraps_64_bits_is_capped_and_leaves_the_others_alone(record, limit):
    rows = [[3, -4], record, [], [6, 8]]
    values, starts = laid_out(rows)
    one = split(cap_l1(values, starts, limit=limit), starts)
    two = split(cap_l2(values, starts, limit_squared=limit), starts)
    assert sum(map(abs, one[1])) <= limit
    assert sum(value**2 for value in two[1]) <= limit
    assert [one[0], *one[2:]] == split(cap_l1([3, -4, 6, 8], [0, 2, 2, 4], limit=limit), [0, 2, 2, 4])
    assert [two[0], *two[2:]] == split(cap_l2([3, -4, 6, 8], [0, 2, 2, 4], limit_squared=limit), [0, 2, 2, 4])


@given(records, st.integers(1, 10**7))
def test_both_ways_to_cap_agree(rows, limit):
    values, starts = laid_out(rows)
    fast = cap_l1(values, starts, limit=limit), cap_l2(values, starts, limit_squared=limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caps, "_ROOM", 16)  # hardly anything fits
        slow = cap_l1(values, starts, limit=limit), cap_l2(values, starts, limit_squared=limit)
    assert [one.tolist() for one in fast] == [one.tolist() for one in slow]
