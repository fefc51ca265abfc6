"""Clamping changes no release of ordinary data: the messages are those of the code before it, bit for bit.

The digests were made with the code that had no clamp (audit M1), from the same seeds. Unit rows of counts and the way
sulq shrinks its start are younger than the clamp; unit rows are released with and without it, and the digests of sulq
were made with `held` replaced by nothing. Gaussian noise was found by zCDP then, and is here.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from twofold.features import Features
from twofold.privacy.budget import ZCDP
from twofold.release import contract
from twofold.release.bilinear import mechanism as bilinear
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.release.choose import mechanism
from twofold.release.contract import ReleaseParameters

STARS = {"feedback": "ratings", "lower": 1, "centre": 3}
GOLDEN = {
    "gram gaussian ratings 0": "e1a985485b517546",
    "gram gaussian ratings 4": "cf0868703d5ac64a",
    "gram laplace ratings 0": "cad45a70ec04f181",
    "gram laplace ratings 4": "8dce5e3a8bcf93d3",
    "sketch gaussian ratings 0": "d00b6316169ecfce",
    "sketch gaussian ratings 4": "709143e4ec9deafb",
    "sketch laplace ratings 0": "1be59f336c58d81c",
    "sketch laplace ratings 4": "e8035f3c188dc5ba",
    "features gaussian ratings 0": "4096002ee54a59c3",
    "features gaussian ratings 4": "6e545df0aad9dc4a",
    "features laplace ratings 0": "eac25367892032c6",
    "features laplace ratings 4": "0535ddbd735d0198",
    "popularity gaussian counts 0": "50e2d7176117079a",
    "popularity gaussian ratings 0": "d2197deae4b3d17c",
    "popularity laplace counts 0": "b86c2dc7ffee81c7",
    "popularity laplace ratings 0": "aea305da0fd34e19",
    "buckets gaussian counts 0": "2c680ffb427fb5ec",
    "buckets gaussian ratings 0": "e9014c5a5c6d4877",
    "buckets laplace counts 0": "aaba81723de13fbf",
    "buckets laplace ratings 0": "53f0b1143e42b3e8",
    "sulq gaussian counts 0": "ce7c08e964a70f7d",
    "sulq gaussian ratings 0": "8998ec12ae579cb0",
    "sulq laplace counts 0": "b1117d57ddc8948b",
    "sulq laplace ratings 0": "b35eedee2d0739dd",
    "balcan gaussian counts 0": "dba588737d70749b",
    "balcan gaussian ratings 0": "dd067ed2683dcad9",
    "balcan laplace counts 0": "dba588737d70749b",
    "balcan laplace ratings 0": "dd067ed2683dcad9",
}


def release(case: str) -> str:
    """Digest of a seeded release on 300 users."""
    name, law, feedback, honest = case.split()
    table = Features(matrix=1 + np.arange(24 * 3).reshape(24, 3) % 5, names=("a", "b", "c"))
    public = ReleaseParameters(
        n_items=24,
        n_users=300,
        max_items=6,
        bound=5,
        n_prototypes=3,
        epsilon=20,
        delta=1e-6 if law == "gaussian" else 0,
        honest=int(honest),
        features=table if name == "features" else None,
        **(STARS if feedback == "ratings" else {}),
    )
    draws = np.random.default_rng(1)
    rows = draws.integers(1, 6, (300, 24)) * (draws.random((300, 24)) < 0.2)
    made = mechanism(name).release(rows.astype(np.float64), public, rng=7).value
    state = hashlib.sha256()
    for key, part in sorted(made.arrays().items()):
        state.update(key.encode() + np.ascontiguousarray(part, dtype="<i8").tobytes())
    return state.hexdigest()[:16]


@pytest.mark.parametrize("case", GOLDEN)
def test_a_release_of_ordinary_data_is_bit_for_bit_what_it_was_without_a_clamp(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "_concentrated", lambda budget, _least: ZCDP.within(budget))
    assert release(case) == GOLDEN[case]


@pytest.mark.parametrize("honest", [0, 4])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", ["gram", "sketch", "features"])
def test_the_clamp_changes_no_release_of_counts(
    name: str, law: str, honest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = f"{name} {law} counts {honest}"
    clamped = release(case)
    monkeypatch.setattr(bilinear, "held", lambda numbers: numbers)
    monkeypatch.setattr(BilinearNoise, "limit", property(lambda _: 2**60))
    assert release(case) == clamped
    monkeypatch.setattr(BilinearNoise, "limit", property(lambda _: 1))
    assert release(case) != clamped  # the limit is what the release looks at
