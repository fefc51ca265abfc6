"""Public directions."""

from __future__ import annotations

import numpy as np

from twofold.release.records import directions


def test_directions_are_the_same_everywhere_and_for_ever() -> None:
    """Entities of other versions must agree on the cells, so the first numbers are written down."""
    assert directions(count=2, n_items=3, seed=0).tolist() == FIRST
    assert not (directions(count=2, n_items=3, seed=1) == FIRST).all()


def test_directions_look_random_and_are_balanced() -> None:
    lines = directions(count=40, n_items=500, seed=5)
    assert np.abs(lines.sum(axis=1)).max() < 500
    scaled = lines / np.linalg.norm(lines, axis=1, keepdims=True)
    between = scaled @ scaled.T - np.eye(40)
    assert np.abs(between).max() < 5 / np.sqrt(500)


FIRST = [[-2485, -3413, 5899], [416, -2144, 1728]]
