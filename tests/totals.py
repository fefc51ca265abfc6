"""Totals of a few people, for item factors that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.release.content import Moments


def totals_of(items: int, seed: int = 0, **changes: Any) -> Moments:
    """Unit rows with noise, as a gram of counts releases them."""
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(items, items))
    said: dict[str, Any] = {
        "kind": "gram",
        "users": 12.25,
        "sums": rng.normal(size=items),
        "pairs": pairs + pairs.T,
        "users_noise": 0.5,
        "sums_noise": 0.75,
        "pairs_noise": 1.5,
        "weight_per_user": 0.25,
        "cap": 1.0,
        "entities": 3,
        "seeded": False,
    }
    return Moments(**(said | changes))
