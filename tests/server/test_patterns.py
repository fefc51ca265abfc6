"""Patterns of noisy second moments."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.release.bilinear.records import random_signs
from twofold.server.counts import Patterns, feature_basis, sketch_patterns, symmetric_patterns

ITEMS = 60


def second(rank: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(ITEMS, rank)))[0]
    return (axes * 100.0 * np.arange(rank, 0, -1)) @ axes.T


def noise(scale: float, seed: int = 1) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).normal(scale=scale, size=(ITEMS, ITEMS)))
    return upper + np.triu(upper, 1).T


def matrix(found: Patterns) -> np.ndarray:
    return (found.axes * found.sizes) @ found.axes.T


def test_without_noise_the_exact_eigenvectors_come_back():
    truth = second()
    found = symmetric_patterns(truth, 0.0)
    values, axes = np.linalg.eigh(truth)
    assert found.risen == 4
    np.testing.assert_allclose(found.sizes, values[::-1][:4])
    np.testing.assert_allclose(np.abs(axes[:, ::-1][:, :4].T @ found.axes), np.eye(4), atol=1e-9)
    np.testing.assert_allclose((found.axes**2) @ found.sizes, np.diag(truth), atol=1e-9)


def test_as_the_noise_goes_to_zero_so_does_the_error():
    truth = second()
    errors = [np.linalg.norm(matrix(symmetric_patterns(truth + noise(size), size)) - truth) for size in (3, 0.3, 0.03)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 2


def test_denoised_is_nearer_to_the_truth_and_never_negative():
    truth, noisy = second(), second() + noise(6.0)
    found = symmetric_patterns(noisy, 6.0)
    assert 1 <= found.risen <= 4
    assert np.linalg.norm(matrix(found) - truth) < 0.6 * np.linalg.norm(noisy - truth)
    assert (found.sizes > 0).all()
    np.testing.assert_allclose(found.axes.T @ found.axes, np.eye(found.sizes.size), atol=1e-9)


def test_public_features_show_what_the_whole_matrix_hides():
    """A pattern between two classes, far below the edge of 60 items but above that of 3 classes."""
    features = np.eye(3, dtype=np.int64)[np.arange(ITEMS) % 3]
    basis = feature_basis(np.ones(ITEMS), features)
    axis = basis @ np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    noisy = 7.0 * np.outer(axis, axis) + noise(1.0)
    alone, helped = symmetric_patterns(noisy, 1.0), symmetric_patterns(noisy, 1.0, basis=basis)
    assert (alone.risen, helped.risen) == (0, 0)
    assert helped.helped >= 1
    assert abs(helped.axes[:, 0] @ axis) > 0.9


def test_features_change_nothing_without_noise():
    basis = feature_basis(np.ones(ITEMS), np.eye(3, dtype=np.int64)[np.arange(ITEMS) % 3])
    one, other = symmetric_patterns(second(), 0.0), symmetric_patterns(second(), 0.0, basis=basis)
    np.testing.assert_array_equal(one.axes, other.axes)


def test_directions_have_one_sign_and_one_order():
    found = symmetric_patterns(second(), 0.0)
    largest = found.axes[np.abs(found.axes).argmax(axis=0), np.arange(4)]
    assert (largest > 0).all()
    assert (np.diff(found.sizes) < 0).all()


def test_second_moments_are_read_off_a_sketch():
    """Users along three patterns; s is what a release makes it: a public map of the row, of norm 1."""
    rng = np.random.default_rng(4)
    axes = np.linalg.qr(rng.normal(size=(ITEMS, 3)))[0]
    rows = rng.normal(size=(4_000, 3)) * [3.0, 2.0, 1.0] @ axes.T
    rows *= 5.0 / np.linalg.norm(rows, axis=1, keepdims=True)
    signs = random_signs(n_items=ITEMS, columns=24, seed=0).astype(float)
    mapped = rows @ signs
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    pairs = rows.T @ (mapped / lengths)
    found = sketch_patterns(pairs, 0.0, signs, length=float(lengths.mean()))
    truth = rows.T @ rows
    assert np.linalg.norm(matrix(found) - truth) < 0.15 * np.linalg.norm(truth)
    noisy = sketch_patterns(pairs + rng.normal(scale=20, size=pairs.shape), 20.0, signs, length=float(lengths.mean()))
    assert noisy.risen == 3
    assert np.linalg.norm(matrix(noisy) - truth) < 0.3 * np.linalg.norm(truth)


@pytest.mark.parametrize("width", [5, ITEMS])
def test_nothing_above_the_noise_gives_no_patterns(width):
    rng = np.random.default_rng(5)
    if width == ITEMS:
        found = symmetric_patterns(0.5 * noise(1.0), 1.0)
    else:
        pairs = rng.normal(scale=0.5, size=(ITEMS, width))
        found = sketch_patterns(pairs, 1.0, np.ones((ITEMS, width)), length=1.0)
    assert (found.axes.shape, found.sizes.shape, found.risen) == ((ITEMS, 0), (0,), 0)


def test_classes_nobody_uses_make_no_basis():
    squares = np.array([1.0, 1.0, 0.0])
    assert feature_basis(squares, np.array([[1, 0], [1, 0], [0, 1]])).shape == (3, 1)
