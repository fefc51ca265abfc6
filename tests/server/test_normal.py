"""Normal equations against the solver that is told all the rows."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.algorithms import fold_in
from twofold.algorithms._reference import non_negative_quadratic
from twofold.server import descent as normal
from twofold.server.descent import add_item_equations, row_equations, solve


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_rows_are_fitted_as_fold_in_fits_them(weighted: bool, ridge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal, "_CHUNK", 4)
    rng = np.random.default_rng(0)
    Y, V = rng.normal(size=(7, 11)), rng.random((11, 3))
    weights = rng.random((7, 11)) if weighted else None
    gram, given, squares = row_equations(Y, weights, V)
    found = solve(gram, given, ridge)
    expected = fold_in(Y, V, weights=weights, regularization=ridge, count_scaling=0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert squares == pytest.approx((Y**2 if weights is None else weights * Y**2).sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_items_are_the_same_equations_turned(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal, "_CHUNK", 4)
    rng = np.random.default_rng(1)
    Y, U = rng.normal(size=(9, 11)), rng.random((9, 3))
    weights = rng.random((9, 11)) if weighted else None
    gram, given = np.zeros((11, 3, 3) if weighted else (3, 3)), np.zeros((11, 3))
    for part in (slice(0, 5), slice(5, 9)):
        add_item_equations(Y[part], None if weights is None else weights[part], U[part], gram, given)
    turned = None if weights is None else np.ascontiguousarray(weights.T)
    expected = fold_in(np.ascontiguousarray(Y.T), U, weights=turned, regularization=0.1, count_scaling=0.0)
    np.testing.assert_allclose(solve(gram, given, 0.1), expected, rtol=1e-8, atol=1e-10)


def test_a_singular_gram_matrix_is_no_problem() -> None:
    U = np.ones((4, 2))
    gram, given = U.T @ U, np.array([[8.0, 8.0], [-3.0, -3.0]])
    found = solve(gram, given, 0.0)
    assert (found >= 0).all()
    np.testing.assert_allclose(found @ gram, [[8.0, 8.0], [0.0, 0.0]], atol=1e-9)
    assert not solve(np.zeros((2, 2)), np.zeros((3, 2)), 0.0).any()
    np.testing.assert_allclose(gram @ non_negative_quadratic(gram, given[0]), [8.0, 8.0])
