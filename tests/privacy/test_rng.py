"""Noise comes from the operating system, or is marked."""

from __future__ import annotations

import os

import numpy as np
import pytest

from twofold.errors import BadPrivacyParameter
from twofold.privacy.rng import OperatingSystem, Seeded, source


def test_the_default_is_the_operating_system(monkeypatch):
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or real(count))
    noise = source()
    words = noise.words(1000)
    assert isinstance(noise, OperatingSystem)
    assert not noise.seeded
    assert asked == [8000]  # one request for the whole block
    assert words.dtype == np.uint64


def test_two_blocks_differ():
    assert (source().words(4) != source().words(4)).any()


def test_a_seed_repeats_and_is_marked():
    assert source(3).seeded
    np.testing.assert_array_equal(source(3).words(10), source(3).words(10))
    assert (source(3).words(10) != source(4).words(10)).any()


def test_a_source_is_handed_through():
    noise = Seeded(1)
    assert source(noise) is noise


@pytest.mark.parametrize("bad", [np.random.default_rng(0), np.random, True, "0", 1.0, -1, object()])
def test_other_generators_are_refused(bad):
    with pytest.raises(BadPrivacyParameter):
        source(bad)


@pytest.mark.parametrize("make", [lambda: source(), lambda: source(5)])
@pytest.mark.parametrize("count", [1, 7, 8, 63, 64, 65, 130])
def test_bits_have_the_asked_length_and_reach_both_ends(make, count):
    noise = make()
    drawn = [noise.bits(count) for _ in range(64)]
    assert all(0 <= value < 2**count for value in drawn)
    assert any(value >> (count - 1) for value in drawn)
    assert any(value & 1 for value in drawn)


def test_every_bit_of_a_word_is_fair():
    words = source(11).words(40_000)
    for bit in range(64):
        share = ((words >> np.uint64(bit)) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 0.0125  # five standard deviations
