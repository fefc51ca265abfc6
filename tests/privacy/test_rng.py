"""Noise comes from the operating system, or is marked."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter, PrivacyError
from twofold.privacy.mechanisms import DiscreteLaplace
from twofold.privacy.rng import Keyed, OperatingSystem, Seeded, source
from twofold.privacy.unit import Unit

KEY = hashlib.sha256(b"a key for tests").digest()


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


@pytest.mark.parametrize("make", [lambda: source(), lambda: source(5), lambda: Keyed(KEY)])
@pytest.mark.parametrize("count", [1, 7, 8, 63, 64, 65, 130])
def test_bits_have_the_asked_length_and_reach_both_ends(make, count):
    noise = make()
    drawn = [noise.bits(count) for _ in range(64)]
    assert all(0 <= value < 2**count for value in drawn)
    assert any(value >> (count - 1) for value in drawn)
    assert any(value & 1 for value in drawn)


@pytest.mark.parametrize("noise", [Seeded(11), Keyed(KEY)])
def test_every_bit_of_a_word_is_fair(noise):
    words = noise.words(40_000)
    for bit in range(64):
        share = ((words >> np.uint64(bit)) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 0.0125  # five standard deviations


def test_a_key_repeats_and_its_words_are_private_ones():
    one, two = Keyed(KEY), Keyed(KEY)
    np.testing.assert_array_equal(one.words(20_000), two.words(20_000))  # over the end of a block
    assert one.bits(70) == two.bits(70)
    assert source(one) is one
    assert not one.seeded
    assert (Keyed(KEY).words(4) != Keyed(os.urandom(32)).words(4)).all()


@pytest.mark.parametrize("sizes", [[30_000], [1] * 50, [7, 8192, 3, 8193, 1]])
def test_a_keyed_stream_does_not_depend_on_how_it_is_asked_for(sizes):
    noise = Keyed(KEY)
    taken = np.concatenate([noise.words(size) for size in sizes])
    np.testing.assert_array_equal(taken, Keyed(KEY).words(sum(sizes)))
    assert np.unique(taken).size == taken.size  # no block comes twice


def test_a_keyed_stream_is_the_one_that_is_stated():
    """Bytes on disk may wait for a restart: what a key means must not move from version to version."""
    expected = hashlib.shake_256(b"twofold keyed noise 1\0" + KEY + bytes(8)).digest(1 << 16)
    second = hashlib.shake_256(b"twofold keyed noise 1\0" + KEY + b"\1" + bytes(7)).digest(1 << 16)
    assert Keyed(KEY).words(1 << 14).astype("<u8").tobytes() == expected + second


def test_neighbouring_words_of_a_key_are_not_correlated():
    uniform = Keyed(KEY).words(60_000) / 2.0**64
    for lag in (1, 2, 8192):
        assert abs(np.corrcoef(uniform[:-lag], uniform[lag:])[0, 1]) < 5 / np.sqrt(uniform.size - lag)
    counts = np.histogram(uniform, bins=64, range=(0, 1))[0]
    chi = ((counts - uniform.size / 64) ** 2 / (uniform.size / 64)).sum()
    assert 63 - 5 * np.sqrt(126) < chi < 63 + 5 * np.sqrt(126)


def test_noise_from_a_key_has_the_law_of_the_mechanism():
    noise = DiscreteLaplace(epsilon=1, sensitivity=3, unit=Unit.person())
    drawn = noise.release(np.zeros(40_000, dtype=np.int64), rng=Keyed(KEY))
    again = noise.release(np.zeros(40_000, dtype=np.int64), rng=Keyed(KEY))
    np.testing.assert_array_equal(drawn.value, again.value)
    assert not drawn.event.seeded
    decay = np.exp(-1 / 3)
    for k in range(-4, 5):
        share = (1 - decay) / (1 + decay) * decay ** abs(k)
        found = (drawn.value == k).mean()
        assert abs(found - share) < 5 * np.sqrt(share * (1 - share) / 40_000)


def test_a_key_is_not_shown_copied_or_kept():
    noise = Keyed(KEY)
    assert repr(noise) == str(noise) == "Keyed(secret)"
    assert not hasattr(noise, "__dict__")
    for taken in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied or pickled"):
            taken(noise)
    assert noise != Keyed(KEY)
    noise.close()
    for ask in (noise.words, noise.bits):
        with refused(PrivacyError, "rng"):
            ask(1)


@pytest.mark.parametrize("bad", [b"", b"short", bytes(33), bytearray(32), "k" * 32, 7, None])
def test_what_is_no_key_is_refused_without_being_shown(bad):
    with pytest.raises(BadPrivacyParameter) as caught:
        Keyed(bad)
    assert "kkk" not in str(caught.value)
