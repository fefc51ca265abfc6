"""Random bits are compared with probabilities without error, on the fast path and on the slow one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from twofold.privacy.mechanisms.lazy import BAND, RELATIVE, LazyTable, bernoulli, decide, exp_filter, exp_minus, resolve
from twofold.privacy.rng import source


@dataclass
class Scripted:
    """A source whose extra bits are written down beforehand, and counted."""

    answers: list[int]
    seeded: bool = True
    asked: list[int] = field(default_factory=list)

    def words(self, count):
        raise AssertionError(f"not expected: {count} words")

    def bits(self, count):
        self.asked.append(count)
        return self.answers.pop(0)


def thirds(bits):
    """Bounds of 1/3, 2/3, 1."""
    full = 1 << bits
    return [full // 3, 2 * full // 3, full], [-(-full // 3), -(-2 * full // 3), full]


def test_every_prefix_is_decided_right_or_left_open():
    """Exhaustive: a sure answer contains the whole interval of numbers that begin with the prefix."""
    table = LazyTable(thirds, word=8)
    for prefix in range(256):
        silent = Scripted([])
        try:
            index = int(table.draw(np.array([prefix], dtype=np.uint64), silent)[0])
        except IndexError:  # asked for more bits
            assert Fraction(prefix, 256) < Fraction(1, 3) < Fraction(prefix + 1, 256) or (
                Fraction(prefix, 256) < Fraction(2, 3) < Fraction(prefix + 1, 256)
            )
            continue
        assert Fraction(index, 3) <= Fraction(prefix, 256)
        assert Fraction(prefix + 1, 256) <= Fraction(index + 1, 3)


def test_an_open_prefix_is_settled_by_the_bits_that_follow():
    """85/256 < 1/3 < 86/256: the following bits decide, 0x55... being the expansion of 1/3 itself."""
    table = LazyTable(thirds, word=8)
    third = int("55" * 8, 16)
    for more, index in (([0], 0), ([2**64 - 1], 1), ([third, 0], 0), ([third, third, 2**64 - 1], 1)):
        script = Scripted(list(more))
        assert table.draw(np.array([85], dtype=np.uint64), script)[0] == index
        assert len(script.asked) == len(more)


def test_resolve_needs_no_more_bits_when_sure():
    script = Scripted([])
    assert resolve(thirds, 0, 8, script) == 0
    assert resolve(thirds, 255, 8, script) == 2
    assert script.asked == []


def test_the_slow_path_has_the_same_law():
    """With four-bit words a fifth of all draws is settled by more bits; frequencies stay one third each."""
    noise = source(0)
    words = noise.words(9000) >> np.uint64(60)
    counts = Counter(LazyTable(thirds, word=4).draw(words, noise).tolist())
    assert all(abs(counts[index] - 3000) < 5 * 45 for index in range(3))


@pytest.mark.parametrize("exponent", [Fraction(1, 10**6), Fraction(1, 7), Fraction(1), Fraction(20)])
@pytest.mark.parametrize("bits", [40, 64])
def test_words_next_to_the_probability_are_decided_right(exponent, bits):
    """The floats alone could not tell these words apart; the integers must."""
    with localcontext() as context:
        context.prec = 200
        edge = int((-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * Decimal(2) ** bits)
    words = np.array([edge - 1, edge, edge, edge + 1], dtype=np.uint64)
    # at the edge itself the following bits decide: all zero is below, all one above
    script = Scripted([0, 2**64 - 1])
    probability = exp_filter(np.full(4, float(exponent)))
    taken = bernoulli(probability, words, bits, lambda _, more: exp_minus(exponent, more), script)
    assert taken.tolist() == [True, True, False, False]


def test_decide_ends_with_few_bits():
    script = Scripted([5])
    assert decide(lambda bits: exp_minus(Fraction(1), bits), 1, 2, script)  # [1/4, 1/2) holds e^-1 = 0.3679
    assert script.asked == [64]


def test_the_filter_is_as_close_as_it_says():
    points = np.concatenate([np.linspace(0, 0.25, 500), np.linspace(0.25, 70, 1500), [1e-300, 63.99999, 64.0, 1e9]])
    for batch in (points, points[:500]):
        found = exp_filter(batch)
        for point, value in zip(batch, found, strict=True):
            with localcontext() as context:
                context.prec = 60
                truth = (-Decimal(float(point))).exp()
                error = abs(Decimal(float(value)) - truth)
                assert error <= Decimal(BAND) / 4
                if point <= 64:
                    assert error <= Decimal(RELATIVE) * truth


def test_the_filter_takes_an_empty_batch():
    assert exp_filter(np.empty(0)).size == 0
