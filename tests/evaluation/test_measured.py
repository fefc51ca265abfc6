"""Totals over weights, and several parts as one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadParameter, BadShape
from twofold.evaluation.measure import Measured


def part(hits: list[float], squares: list[float], entries: list[float], **other: object) -> Measured:
    n_users = len(hits)
    fields = {
        "totals": {"hit": np.array(hits), "rmse": np.array(squares)},
        "weights": {"hit": np.ones(n_users), "rmse": np.array(entries)},
        "lists": np.zeros((n_users, 3), dtype=np.intp),
        "n_items": 7,
    }
    return Measured(**(fields | other))  # type: ignore[arg-type]


def test_means_and_roots() -> None:
    measured = part([1, 0, 0], [8, 0, 1], [2, 0, 1])
    assert measured.per_user("rmse").tolist() == pytest.approx([2, np.nan, 1], nan_ok=True)
    assert measured.overall("rmse") == pytest.approx(np.sqrt(9 / 3))
    assert measured.overall("hit") == pytest.approx(1 / 3)
    assert measured.overall("coverage") == 1 / 7
    assert measured.metrics == ("hit", "coverage", "rmse")


def test_parts_together() -> None:
    one, other = part([1], [8], [2]), part([0, 0], [0, 1], [0, 1])
    whole, pooled = part([1, 0, 0], [8, 0, 1], [2, 0, 1]), Measured.pool([one, other])
    assert pooled.n_users == 3
    for name in whole.metrics:
        assert pooled.overall(name) == whole.overall(name)


def test_unlike_parts_are_refused() -> None:
    with pytest.raises(BadShape):
        Measured.pool([part([1], [8], [2]), part([1], [8], [2], n_items=8)])
    with pytest.raises(BadShape):
        Measured.pool([])


def test_metrics_that_were_not_measured() -> None:
    measured = part([1], [8], [2], covers=False)
    for name in ("ndcg", "coverage"):
        with refused(BadParameter, "metric", expected="hit, rmse"):
            measured.overall(name)
    with refused(BadParameter, "metric", expected="hit, rmse"):
        part([1], [8], [2]).per_user("coverage")


def test_the_repr_shows_no_number() -> None:
    assert repr(part([1], [8], [2])) == "Measured(hit, coverage, rmse)"
