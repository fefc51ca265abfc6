"""k-means: what is refused, and in which words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from twofold.algorithms.kmeans import kmeans, lloyd_step
from twofold.errors import BadNumber, BadParameter, BadShape

BOTH_FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array])


class TestBadInput:
    """Errors that say what to do."""

    @pytest.mark.parametrize(
        ("arguments", "error", "text"),
        [
            ({"n_clusters": 0}, BadParameter, "n_clusters"),
            ({"n_clusters": 2.0}, BadParameter, "n_clusters"),
            ({"max_iter": 0}, BadParameter, "max_iter"),
            ({"n_init": 0}, BadParameter, "n_init"),
            ({"tol": -1.0}, BadParameter, "tol"),
            ({"tol": float("nan")}, BadParameter, "tol"),
            ({"init": "random"}, BadParameter, "init"),
            ({"init": np.ones((3, 2))}, BadShape, "another number of centers"),
            ({"init": np.ones((2, 3))}, BadShape, "do not fit"),
            ({"init": np.full((2, 2), np.nan)}, BadNumber, "centers"),
            ({"init": np.ones((2, 2)), "n_init": 3}, BadParameter, "one run"),
            ({"weights": [1.0]}, BadShape, "weights"),
            ({"weights": [1.0, -1.0, 1.0]}, BadNumber, "weight"),
            ({"weights": [1.0, np.inf, 1.0]}, BadNumber, "weight"),
            ({"dtype": np.float16}, BadParameter, "dtype"),
            ({"threads": 0}, BadParameter, "threads"),
            ({"X": np.ones(3)}, BadShape, "matrix"),
            ({"X": np.ones((3, 2), complex)}, BadParameter, "real"),
            ({"X": np.full((3, 2), np.nan)}, BadNumber, "NaN"),
            ({"X": sp.csr_array(np.full((3, 2), np.inf))}, BadNumber, "infinity"),
            ({"X": np.zeros((0, 2))}, BadShape, "no row"),
        ],
    )
    def test_says_what_is_wrong(self, arguments: dict[str, object], error: type[Exception], text: str) -> None:
        call: dict[str, object] = {"X": np.eye(3, 2), "n_clusters": 2, "rng": 0, **arguments}
        with pytest.raises(error, match=text):
            kmeans(call.pop("X"), call.pop("n_clusters"), **call)

    @BOTH_FORMS
    def test_step_notices_what_is_not_a_number(self, form: type) -> None:
        for bad in (np.nan, np.inf, -np.inf):
            with pytest.raises(BadNumber, match="rows"):
                lloyd_step(form(np.array([[1.0, 0.0], [bad, 1.0]])), np.eye(2))
        with pytest.raises(BadNumber, match="too large"):
            lloyd_step(form(np.full((2, 2), 3e38, np.float32)), [[3e38, 3e38], [1.0, 0.0]])
