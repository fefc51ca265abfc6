"""k-means: what is refused, and in which words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.refused import refused
from twofold.algorithms.kmeans import kmeans, lloyd_step
from twofold.errors import BadNumber, BadParameter, BadShape, TwofoldError

BOTH_FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array])


class TestBadInput:
    """Errors that say what to do."""

    @pytest.mark.parametrize(
        ("arguments", "error", "parameter", "fact"),
        [
            ({"n_clusters": 0}, BadParameter, "n_clusters", "0"),
            ({"n_clusters": 2.0}, BadParameter, "n_clusters", "2.0"),
            ({"max_iter": 0}, BadParameter, "max_iter", "0"),
            ({"n_init": 0}, BadParameter, "n_init", "1 or more"),
            ({"tol": -1.0}, BadParameter, "tol", "-1.0"),
            ({"tol": float("nan")}, BadParameter, "tol", "nan"),
            ({"init": "random"}, BadParameter, "init", "k-means++"),
            ({"init": np.ones((3, 2))}, BadShape, "init", "2"),
            ({"init": np.ones((2, 3))}, BadShape, "centers", "(2, 3)"),
            ({"init": np.full((2, 2), np.nan)}, BadNumber, "centers", "finite"),
            ({"init": np.ones((2, 2)), "n_init": 3}, BadParameter, "n_init", "n_init=1"),
            ({"weights": [1.0]}, BadShape, "weights", "1 dimensions"),
            ({"weights": [1.0, -1.0, 1.0]}, BadNumber, "weights", "0 or more"),
            ({"weights": [1.0, np.inf, 1.0]}, BadNumber, "weights", "finite"),
            ({"dtype": np.float16}, BadParameter, "dtype", "float16"),
            ({"threads": 0}, BadParameter, "threads", "0"),
            ({"X": np.ones(3)}, BadShape, "rows", "1 dimensions"),
            ({"X": np.ones((3, 2), complex)}, BadParameter, "rows", "complex128"),
            ({"X": np.full((3, 2), np.nan)}, BadNumber, "rows", "finite numbers"),
            ({"X": sp.csr_array(np.full((3, 2), np.inf))}, BadNumber, "rows", "finite numbers"),
            ({"X": np.zeros((0, 2))}, BadShape, "rows", "init="),
        ],
    )
    def test_says_what_is_wrong(
        self, arguments: dict[str, object], error: type[TwofoldError], parameter: str, fact: str
    ) -> None:
        call: dict[str, object] = {"X": np.eye(3, 2), "n_clusters": 2, "rng": 0, **arguments}
        with refused(error, parameter, fact):
            kmeans(call.pop("X"), call.pop("n_clusters"), **call)

    @BOTH_FORMS
    def test_step_notices_what_is_not_a_number(self, form: type) -> None:
        for bad in (np.nan, np.inf, -np.inf):
            with refused(BadNumber, "rows", expected="finite numbers"):
                lloyd_step(form(np.array([[1.0, 0.0], [bad, 1.0]])), np.eye(2))
        with refused(BadNumber, "rows", found="float32"):
            lloyd_step(form(np.full((2, 2), 3e38, np.float32)), [[3e38, 3e38], [1.0, 0.0]])
