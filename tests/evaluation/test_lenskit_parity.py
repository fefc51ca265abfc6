"""List metrics and RMSE equal LensKit's: live where it is installed, and against values it printed.

``python tests/evaluation/test_lenskit_parity.py`` prints the recorded values again; it needs LensKit
(``pip install "twofold[bench-lenskit]"``).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

from twofold.evaluation import ranking
from twofold.evaluation.measure import measure, measure_lists
from twofold.evaluation.ranking import Matches, match

Floats = npt.NDArray[np.float64]
TOLERANCE = 1e-9
OURS: dict[str, Callable[[Matches], Floats]] = {
    "ndcg": ranking.ndcg,
    "ndcg_graded": lambda matches: ranking.ndcg(matches, gain="value"),
    "recall": ranking.recall,
    "precision": ranking.precision,
    "average_precision": ranking.average_precision,
    "reciprocal_rank": ranking.reciprocal_rank,
    "hit": ranking.hit,
}
nan = float("nan")

# Printed by LensKit 2025.8.1 for the lists of these parameters, cut at 5.
RECORDED_FOR = {"seed": 20, "n_users": 16, "n_items": 30, "width": 8}
RECORDED: dict[str, list[float]] = {
    "ndcg": [
        1.0,
        0.17714752793103522,
        nan,
        0.0,
        0.4211582832992167,
        0.45791971679717963,
        0.6806060567602009,
        0.3800937667159343,
        0.0,
        0.0,
        0.28077218886614447,
        0.28077218886614447,
        0.0,
        0.0,
        0.26130809433667596,
        nan,
    ],
    "ndcg_graded": [
        1.0,
        0.09615477119554544,
        nan,
        0.0,
        0.42685054024725416,
        0.39927635164033715,
        0.5659454743636976,
        0.5191606758574726,
        0.0,
        0.0,
        0.3314479397673532,
        0.057546157052745864,
        0.0,
        0.0,
        0.12605825528609682,
        nan,
    ],
    "recall": [1.0, 0.2, nan, 0.0, 0.4, 0.4, 0.75, 0.3333333333333333, 0.0, 0.0, 0.2, 0.2, 0.0, 0.0, 0.4, nan],
    "precision": [0.4, 0.2, 0.0, nan, 0.4, 0.4, 0.6, 1.0, 0.0, nan, 1.0, 1.0, 0.0, nan, 0.4, nan],
    "average_precision": [
        1.0,
        0.06666666666666667,
        nan,
        nan,
        0.3,
        0.3333333333333333,
        0.47916666666666663,
        1.0,
        0.0,
        nan,
        1.0,
        1.0,
        0.0,
        nan,
        0.13,
        nan,
    ],
    "reciprocal_rank": [1.0, 0.3333333333333333, nan, 0.0, 1.0, 1.0, 0.5, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.25, nan],
    "hit": [1.0, 1.0, nan, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, nan],
}
RECORDED_RMSE = [
    3.01459799549738,
    1.5713743735397847,
    1.9961775266228587,
    1.4702636203404318,
    1.5086735723299656,
    2.152548665851741,
    1.2726664136520418,
    0.42117367388449783,
    2.1309034178382102,
    2.3230475898414347,
    2.026238120189103,
    1.7416114694626939,
    0.644007682800293,
    1.6806423808132964,
]
RECORDED_RMSE_POOLED = 1.8434713177581283

needs_lenskit = pytest.mark.skipif(
    importlib.util.find_spec("lenskit") is None,
    reason="LensKit is not installed (it brings torch); recorded values are tested instead",
)


class Drawn(NamedTuple):
    """Lists with -1 where they have ended, held-out entries, and a score for every pair."""

    lists: npt.NDArray[np.int64]
    test: sparse.csr_array
    scores: Floats


def drawn(*, seed: int, n_users: int, n_items: int, width: int) -> Drawn:
    """Lists of 0 to `width` items, and 0 to `width` held-out items per user, often ones with high scores.

    LensKit keeps scores in single precision, so these fit into it.
    """
    rng = np.random.default_rng(seed)
    scores = (rng.random((n_users, n_items), dtype=np.float32) * 5).astype(np.float64)
    lists = np.argsort(-scores, axis=1)[:, :width].astype(np.int64)
    lists[np.arange(width) >= rng.integers(0, width + 1, n_users)[:, None]] = -1
    held = np.zeros((n_users, n_items))
    for user, count in enumerate(rng.integers(0, width + 1, n_users)):
        order = np.argsort(-scores[user] - 2 * rng.normal(size=n_items))
        held[user, order[:count]] = rng.integers(1, 6, count)
    return Drawn(lists, sparse.csr_array(held), scores)


def held_out(test: sparse.csr_array, user: int) -> tuple[npt.NDArray[Any], Floats]:
    span = slice(test.indptr[user], test.indptr[user + 1])
    return test.indices[span], test.data[span]


class LensKit:
    """The same numbers from LensKit, list by list."""

    def __init__(self, data: Drawn, n: int | None) -> None:
        from lenskit.data import ItemList
        from lenskit.metrics import ranking as metrics

        self.metrics = {
            "ndcg": metrics.NDCG(n),
            "ndcg_graded": metrics.NDCG(n, gain="rating"),
            "recall": metrics.Recall(n),
            "precision": metrics.Precision(n),
            "average_precision": metrics.AveragePrecision(n),
            "reciprocal_rank": metrics.RecipRank(n),
            "hit": metrics.Hit(n),
        }
        self.recommended = [ItemList(item_ids=line[line >= 0], ordered=True) for line in data.lists]
        pairs = [held_out(data.test, user) for user in range(len(data.lists))]
        self.truth = [ItemList(item_ids=items, rating=values) for items, values in pairs]
        self.predicted = [
            ItemList(item_ids=items, scores=data.scores[user, items]) for user, (items, _) in enumerate(pairs)
        ]

    def per_user(self, name: str) -> Floats:
        lists = zip(self.recommended, self.truth, strict=True)
        return np.array([self._one(name, *pair) for pair in lists])

    def _one(self, name: str, recommended: Any, truth: Any) -> float:
        try:
            with np.errstate(invalid="ignore"):  # recall divides 0 by 0 without held-out items
                return float(self.metrics[name].measure_list(recommended, truth))
        except ZeroDivisionError:  # average precision without held-out items
            return nan

    def rmse(self) -> tuple[Floats, float]:
        """Per user, and pooled over all entries."""
        from lenskit.metrics import RMSE

        pairs = [pair for pair in zip(self.predicted, self.truth, strict=True) if len(pair[1])]
        metric = RMSE()
        parts = [metric.compute_list_data(*pair) for pair in pairs]
        return np.array([metric.measure_list(*pair) for pair in pairs]), float(metric.global_aggregate(parts))

    def means(self) -> dict[str, float]:
        """Means over users with held-out items, the way LensKit's own analysis takes them."""
        from lenskit.data import ItemListCollection
        from lenskit.metrics import RunAnalysis

        chosen = [user for user, truth in enumerate(self.truth) if len(truth)]
        run = ItemListCollection.from_dict({user: self.recommended[user] for user in chosen}, "user_id")
        test = ItemListCollection.from_dict({user: self.truth[user] for user in chosen}, "user_id")
        analysis = RunAnalysis()
        for name, metric in self.metrics.items():
            analysis.add_metric(metric, label=name)
        means = analysis.measure(run, test).list_summary()["mean"]
        return {name: float(means[name]) for name in self.metrics}


@needs_lenskit
@pytest.mark.parametrize("n", [None, 1, 5, 10, 50])
@pytest.mark.parametrize("seed", [0, 1])
def test_live_per_user(seed: int, n: int | None) -> None:
    data = drawn(seed=seed, n_users=200, n_items=60, width=20)
    theirs, matches = LensKit(data, n), match(data.lists, data.test, n=n)
    assert (matches.relevant == 0).any()
    assert (matches.lengths == 0).any()
    for name, ours in OURS.items():
        np.testing.assert_allclose(ours(matches), theirs.per_user(name), rtol=0, atol=TOLERANCE, err_msg=name)


@needs_lenskit
def test_live_means() -> None:
    data = drawn(seed=3, n_users=200, n_items=60, width=20)
    measured = measure_lists(data.lists, data.test, feedback="ratings", n=10)
    for name, mean in LensKit(data, 10).means().items():
        assert measured.overall(name) == pytest.approx(mean, abs=TOLERANCE), name


@needs_lenskit
def test_live_rmse() -> None:
    data = drawn(seed=4, n_users=200, n_items=60, width=20)
    per_user, pooled = LensKit(data, 10).rmse()
    _same_rmse(data, per_user, pooled)


def test_recorded_per_user() -> None:
    data = drawn(**RECORDED_FOR)
    matches = match(data.lists, data.test, n=5)
    assert set(RECORDED) == set(OURS)
    assert ((matches.relevant == 0) & (matches.lengths > 0)).any()
    assert ((matches.relevant > 0) & (matches.lengths == 0)).any()
    for name, ours in OURS.items():
        np.testing.assert_allclose(ours(matches), RECORDED[name], rtol=0, atol=TOLERANCE, err_msg=name)


def test_recorded_rmse() -> None:
    data = drawn(**RECORDED_FOR)
    _same_rmse(data, np.array(RECORDED_RMSE), RECORDED_RMSE_POOLED)


def _same_rmse(data: Drawn, per_user: Floats, pooled: float) -> None:
    train = sparse.csr_array(data.test.shape)
    measured = measure(data.scores, train, data.test, feedback="ratings", metrics=["rmse"])
    ours = measured.per_user("rmse")
    np.testing.assert_allclose(ours[~np.isnan(ours)], per_user, rtol=0, atol=TOLERANCE)
    assert measured.overall("rmse") == pytest.approx(pooled, abs=TOLERANCE)


def _print_again() -> None:
    import lenskit

    theirs = LensKit(drawn(**RECORDED_FOR), 5)
    per_user, pooled = theirs.rmse()
    print(f"# LensKit {lenskit.__version__}")
    print("RECORDED = {")
    for name in OURS:
        print(f'    "{name}": {theirs.per_user(name).tolist()},')
    print("}")
    print("RECORDED_RMSE =", per_user.tolist())
    print("RECORDED_RMSE_POOLED =", pooled)


if __name__ == "__main__":
    _print_again()
