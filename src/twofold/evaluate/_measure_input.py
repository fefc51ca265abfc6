"""What `measure` is given, checked: a system of any kind, its scores, the names of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = ["Scores", "check_weights", "chosen_metrics", "own_scores", "scorer_of_users", "whole_number"]

Scores = npt.NDArray[Any]


def scorer_of_users(system: Any, train: sparse.csr_array) -> Callable[[npt.NDArray[np.intp]], Scores]:
    """Turn a callable, all scores, or two factors into a function from row numbers to scores."""
    if callable(system):
        return lambda users: system(train[users])
    if isinstance(system, tuple):
        U, V = (np.asarray(part) for part in system)
        if (len(U), len(V)) != train.shape:
            lines = f"one line per user and {train.shape[1]:,} lines of items"
            raise BadShape("factors and entries do not fit.", expected=lines)
        return lambda users: U[users] @ V.T
    scores = np.asarray(system)
    if scores.shape != train.shape:
        raise BadShape("scores and entries do not fit.", expected=f"one line per user and {train.shape[1]:,} columns")
    return lambda users: scores[users]


def own_scores(scores: Any, shape: tuple[int, int]) -> Scores:
    """A copy we may write to, checked."""
    given = np.asarray(scores)
    if given.shape != shape:
        raise BadShape("the system returned another shape.", expected=f"one line per row and {shape[1]:,} columns")
    own: npt.NDArray[np.floating[Any]] = np.array(
        given, dtype=np.float32 if given.dtype == np.float32 else np.float64, order="C"
    )
    if not (own < np.inf).all():  # NaN is not below anything
        raise BadNumber("a score is NaN or infinite.", fix="-inf for an item that is not to be recommended")
    return own


def check_weights(test: sparse.csr_array, chosen: tuple[str, ...]) -> None:
    """Refuse negative held-out values where they are weights."""
    if {"mean_rank", "mean_rank_unseen"} & set(chosen) and (test.data < 0).any():
        raise BadNumber("mean rank weighs by held-out values, and one is negative.", expected="0 or more")


def chosen_metrics(metrics: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of metrics."""
    asked = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        found = ", ".join(map(repr, unknown)) or "no metric"
        raise BadParameter("these are not metrics to measure.", found=found, expected="some of " + ", ".join(known))
    return asked


def whole_number(n: int, name: str) -> int:
    """Check a length or a size."""
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise BadParameter(f"{name} is out of range.", found=repr(n), expected="a whole number, 1 or more")
    return int(n)
