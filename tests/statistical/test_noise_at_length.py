"""Twenty million draws: what ten thousand cannot see, down to a scale half a percent off."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from twofold.privacy.mechanisms.lazy import SymmetricNoise
from twofold.privacy.rng import source

SIZE = 20_000_000


@pytest.mark.slow
@pytest.mark.parametrize(("law", "scale"), [("laplace", 3), ("laplace", 5000), ("gaussian", 3), ("gaussian", 5000)])
def test_the_law_holds_to_half_a_percent(law, scale, cdfs, in_bins, fit):
    if law == "laplace":
        noise = SymmetricNoise(linear=Fraction(1, scale))
    else:
        noise = SymmetricNoise(quadratic=Fraction(1, 2 * scale**2))
    drawn = noise.draw(SIZE, source(scale))

    def verdict(factor: float) -> float:
        edges, expected = in_bins(cdfs[law](factor * scale), scale, bins=2000)
        found = np.bincount(np.searchsorted(edges, drawn, side="left"), minlength=len(expected))
        return fit(Counter(dict(enumerate(found.tolist()))), expected)

    assert verdict(1.0) > 1e-3
    assert verdict(0.995) < 1e-6
    assert verdict(1.005) < 1e-6


@pytest.mark.slow
def test_the_low_bits_of_wide_noise_are_flat():
    """At scale 2^20 each residue modulo 256 is equally likely to one part in 10^8."""
    drawn = SymmetricNoise(quadratic=Fraction(1, 2**41)).draw(SIZE, source(1))
    found = np.bincount(drawn % 256, minlength=256)
    assert ((found - SIZE / 256) ** 2 / (SIZE / 256)).sum() < 255 + 4 * np.sqrt(2 * 255)
