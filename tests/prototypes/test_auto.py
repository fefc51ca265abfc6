"""The automatic choice."""

from __future__ import annotations

import pytest

from twofold.prototypes import Public
from twofold.prototypes.auto import choose

HOSPITAL = Public(n_items=457, n_users=900, max_items=66, bound=1, epsilon=1, n_entities=205)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epsilon": "0.1"}, "popularity"),
        ({"epsilon": 1}, "buckets"),
        ({"epsilon": 100}, "balcan"),
        ({"epsilon": 100, "delta": 1e-6}, "sulq"),
        ({"epsilon": 1, "n_entities": 1}, "popularity"),
        ({"epsilon": 1, "n_prototypes": 1}, "popularity"),
    ],
)
def test_the_choice_follows_public_numbers(changes: dict[str, object], name: str) -> None:
    choice = choose(HOSPITAL.with_(**changes))
    assert choice.mechanism.name == name
    assert choice.reason.startswith(f"{name}: ")


def test_what_is_chosen_does_not_fall_back_further() -> None:
    for epsilon in ("0.03", "0.1", "0.3", 1, 3, 10, 30, 100):
        for delta in (0, 1e-6):
            public = HOSPITAL.with_(epsilon=epsilon, delta=delta)
            chosen = choose(public).mechanism
            size = chosen.size(public)
            expected = {"popularity": 1, "buckets": 120, "sulq": 10, "balcan": 10}
            assert size == expected[chosen.name]
