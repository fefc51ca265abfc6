"""Selection and threshold draw the laws that enumeration writes down, and not those ten percent away."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from twofold.privacy.audit.exact_checks import selection_law, threshold_law
from twofold.privacy.mechanisms import ExponentialMechanism, GumbelTop, PrivateThreshold
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit

ACCEPT, REJECT = 1e-3, 1e-6
PERSON = Unit.person()
RUNS = 12_000


def test_exponential_mechanism(fit):
    scores = np.array([0, 12, 24, -30])
    mechanism = ExponentialMechanism(epsilon=1, sensitivity=10, monotone=True, unit=PERSON)
    noise = source(1)
    drawn = [(mechanism.release(scores, rng=noise).value,) for _ in range(RUNS)]
    verdicts = [fit(drawn, selection_law(scores.tolist(), factor * 10.0, 1)) for factor in (1.0, 0.9, 1.1)]
    assert verdicts[0] > ACCEPT
    assert max(verdicts[1:]) < REJECT


def test_gumbel_top_in_order(fit):
    scores = np.array([0, 30, 60, 15, 5])
    mechanism = GumbelTop(epsilon=1, picks=2, sensitivity=5, monotone=True, unit=PERSON)
    noise = source(2)
    drawn = [tuple(mechanism.release(scores, rng=noise).value.tolist()) for _ in range(RUNS)]
    verdicts = [fit(drawn, selection_law(scores.tolist(), factor * 10.0, 2)) for factor in (1.0, 0.9, 1.1)]
    assert verdicts[0] > ACCEPT
    assert max(verdicts[1:]) < REJECT


def test_gumbel_top_is_the_law_of_gumbel_noise(fit):
    """Durfee and Rogers 2019, by simulation: scores plus Gumbel(scale), the two largest in order."""
    scores = np.array([0, 30, 60, 15, 5])
    noisy = scores + np.random.default_rng(3).gumbel(scale=10.0, size=(60_000, 5))
    drawn = map(tuple, np.argsort(-noisy, axis=1)[:, :2].tolist())
    assert fit(drawn, selection_law(scores.tolist(), 10.0, 2)) > ACCEPT


@pytest.mark.parametrize("occupied", [[(1, 3), (2, 6)], []])
def test_threshold_decides_every_cell_by_the_same_law(fit, occupied):
    """Four cells, some of them empty: the joint law of all sixteen outcomes is the enumerated one."""
    counts = [dict(occupied).get(cell, 0) for cell in range(4)]
    mechanism = PrivateThreshold(epsilon=Fraction(1, 3), threshold=2, unit=PERSON)
    noise = source(4)
    codes, held = [code for code, _ in occupied], [count for _, count in occupied]
    drawn = []
    for _ in range(RUNS):
        opened = mechanism.release(
            codes=np.array(codes, dtype=np.int64), counts=np.array(held, dtype=np.int64), cells=4, rng=noise
        ).value
        drawn.append(tuple(np.isin(np.arange(4), opened).tolist()))
    verdicts = [fit(drawn, threshold_law(counts, factor * 3.0, 2)) for factor in (1.0, 0.9, 1.1)]
    assert verdicts[0] > ACCEPT
    assert max(verdicts[1:]) < REJECT


def test_empty_cells_of_a_large_partition_open_at_the_stated_rate():
    """2^40 empty cells at an expected 2 openings: mean and variance of a binomial, codes spread evenly."""
    cells = 2**40
    mechanism = PrivateThreshold(epsilon=1, threshold=26, unit=PERSON)
    rate = cells * threshold_law([0], 1.0, 26)[(True,)]
    noise = source(5)
    none = np.empty(0, dtype=np.int64)
    opened = [mechanism.release(codes=none, counts=none, cells=cells, rng=noise).value for _ in range(4000)]
    sizes = np.array([codes.size for codes in opened])
    assert 1 < rate < 3
    assert abs(sizes.mean() - rate) < 5 * np.sqrt(rate / 4000)
    assert abs(sizes.var() / rate - 1) < 0.15
    halves = np.concatenate(opened) >= cells // 2
    assert abs(halves.mean() - 0.5) < 5 * 0.5 / np.sqrt(halves.size)
