"""Every joint outcome of a coarse release on a tiny domain: what an attacker who sees all numbers at once can learn.

Records come from the code, the noise's variance from the code, the law of the noise from its definition. The layout is
the same with far fewer units, so that all outcomes can be listed.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from twofold.privacy.mechanisms.gaussian import DiscreteGaussian, DiscreteGaussianShare
from twofold.release import ReleaseParameters
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.release.bilinear.records import exact_sums
from twofold.release.contract import check_rows

PUBLIC = ReleaseParameters(n_items=1, n_users=4, max_items=1, bound=2, epsilon=2, delta=1e-3)
VALUES = (0.0, 1.0, 2.0, 900.0)
DEVIATIONS = 7

Law = NDArray[np.float64]


def coarse() -> BilinearLayout:
    """One item in three units, where the real layout has 4,096: a record of one sum, one count and one square."""
    sizes = {"cap": 1.0, "norm": 3, "entry_limit": 3, "row_limit": 3, "profile_norm": 1}
    weights = {"mark": 0, "base_limit": 9, "base_weight": 1, "count_weight": 1}
    return BilinearLayout(kind="gram", l2=True, n_items=1, columns=1, **sizes, **weights)  # type: ignore[arg-type]


def record(value: float) -> list[int]:
    rows = check_rows(np.array([[value]]), PUBLIC)
    found: list[int] = exact_sums(rows, PUBLIC, coarse()).tolist()
    return found


def law(honest: int, *, shrunk: float = 1.0) -> Law:
    """Probabilities of the noise of one number of the sum, from the most negative on."""
    sampler = BilinearNoise(public=PUBLIC.with_(honest=honest), layout=coarse()).mechanism
    if isinstance(sampler, DiscreteGaussian):
        return _gaussian(float(sampler.variance) * shrunk)
    assert isinstance(sampler, DiscreteGaussianShare)
    whole = one = _gaussian(float(sampler.share_variance) * shrunk)
    for _ in range(honest - 1):
        whole = np.convolve(whole, one)
    return whole


def _gaussian(variance: float) -> Law:
    reach = math.ceil(DEVIATIONS * math.sqrt(variance))
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def delta(moved: list[int], noise: Law, epsilon: float) -> float:
    """Largest over both directions: the sum over all joint outcomes of what exceeds e^ε times the other probability."""
    pairs = []
    for shift in moved:
        room = abs(shift)
        here = np.pad(noise, room)
        pairs.append((here, np.roll(here, shift)))
    without, having = (np.einsum("i,j,k->ijk", *side) for side in zip(*pairs, strict=True))
    bound = math.exp(epsilon)
    return max(
        float(np.maximum(one - bound * other, 0.0).sum()) for one, other in ((without, having), (having, without))
    )


def test_records_of_the_coarse_layout_are_within_its_bound():
    assert [record(value) for value in VALUES] == [[0, 1, 0], [3, 1, 6], [3, 1, 6], [3, 1, 6]]
    # 70/99 of a square of 9 is rounded down to 6, where √½ would be 6.4; the real layout is that much finer.
    assert max(sum(number**2 for number in record(value)) for value in VALUES) == 46
    assert coarse().sensitivity == 50


@pytest.mark.parametrize("honest", [0, 3])
def test_no_set_of_joint_outcomes_breaks_the_promise(honest):
    noise = law(honest)
    found = [delta(record(value), noise, PUBLIC.epsilon) for value in VALUES]
    assert max(found) <= PUBLIC.delta
    # The user who fills the bound comes near it, so that the check would see a smaller noise; see the next test.
    assert max(found) > PUBLIC.delta / 20
    assert found == sorted(found)


@pytest.mark.parametrize("honest", [0, 3])
def test_less_noise_would_be_seen(honest):
    """Half of the variance, as a halved sensitivity would give at least."""
    assert delta(record(2.0), law(honest, shrunk=0.5), PUBLIC.epsilon) > PUBLIC.delta


def test_a_wrong_record_would_be_seen():
    """A value without its clip."""
    assert delta([90, 1, 20], law(0), PUBLIC.epsilon) > 0.9


def test_the_loss_of_one_number_is_that_of_its_law():
    """Two outcomes by hand: the loss at y is (2 y s - s²) / (2 variance)."""
    noise = _gaussian(4.0)
    middle = noise.size // 2
    for shift, outcome in product((1, 3), (0, 2)):
        loss = math.log(noise[middle + outcome - shift] / noise[middle + outcome])
        assert loss == pytest.approx((2 * outcome * shift - shift**2) / 8.0)
