"""What the server works with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twofold.errors import BadShape
from twofold.release.content import Moments

GOOD: dict[str, Any] = {
    "kind": "gram",
    "users": 3.0,
    "sums": np.zeros(4),
    "pairs": np.zeros((4, 4)),
    "users_noise": 1.0,
    "sums_noise": 1.0,
    "pairs_noise": 1.0,
    "cap": 2.0,
    "entities": 1,
    "seeded": False,
}


def test_parts_that_fit_are_taken() -> None:
    assert Moments(**GOOD).observed is None
    assert Moments(**{**GOOD, "kind": "sketch", "pairs": np.zeros((4, 2)), "observed": np.zeros(4)}).pairs.shape == (
        4,
        2,
    )


@pytest.mark.parametrize(
    "change", [{"pairs": np.zeros((4, 3))}, {"kind": "sketch", "pairs": np.zeros((3, 2))}, {"observed": np.zeros(3)}]
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadShape):
        Moments(**{**GOOD, **change})
