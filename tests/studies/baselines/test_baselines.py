"""Baselines: each against its definition, what it may see, tuning, and noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from studies.baselines.base import TRIALS, Baseline, Everyone, Score, Setting, read_values, tune
from studies.baselines.fedcia import _noisy_sums
from studies.baselines.ials import ials
from studies.baselines.item_item import ease
from studies.baselines.popularity import multiplier, unit_rows
from studies.baselines.ratings import offsets
from studies.baselines.registry import OURS, baselines, find_baseline
from tests.refused import refused
from twofold.errors import BadParameter
from twofold.features import Features

COUNTS = Setting(feedback="counts", bound=5)
FEATURES = Features(matrix=np.repeat(np.eye(2, dtype=np.int64), 6, axis=0), names=("left", "right"))
NAMES = [one.name for one in baselines("counts", features=True)]


def _rows(n_users: int, seed: int) -> sparse.csr_array:
    """People who like one half of twelve items, with counts from 1 to 4."""
    rng = np.random.default_rng(seed)
    side = rng.integers(2, size=n_users)
    likes = np.where(np.arange(12)[None, :] // 6 == side[:, None], 0.7, 0.05)
    return sparse.csr_array(rng.integers(1, 5, likes.shape) * (rng.random(likes.shape) < likes)).astype(np.float32)


def _everyone(**more: Any) -> Everyone:
    setting = Setting(feedback="counts", bound=5, features=FEATURES, **more)
    return Everyone({"small": _rows(9, 1), "large": _rows(60, 2)}, setting)


@pytest.mark.parametrize("name", NAMES)
def test_every_baseline_scores_every_item_and_repeats(name: str) -> None:
    baseline, history = find_baseline(name, "counts"), _rows(4, 3)
    once, again = (
        np.asarray(baseline.fit(everyone.site("small"), baseline.trials(everyone.setting)[0])(history))
        for everyone in (_everyone(), _everyone())
    )
    assert once.shape == (4, 12)
    assert np.isfinite(once).all()
    np.testing.assert_array_equal(once, again)


@pytest.mark.parametrize("name", [one.name for one in baselines("counts", features=True) if one.scope == "alone"])
def test_alone_sees_nobody_else(name: str) -> None:
    baseline, history = find_baseline(name, "counts"), _rows(4, 3)
    options = baseline.trials(COUNTS)[0]
    both, own = _everyone(), Everyone({"small": _rows(9, 1)}, _everyone().setting)
    one, other = (np.asarray(baseline.fit(each.site("small"), options)(history)) for each in (both, own))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", [one.name for one in baselines("counts", features=True) if one.scope != "alone"])
def test_the_others_are_used_where_a_name_says_so(name: str) -> None:
    """All but the control of noise change with the others' rows."""
    baseline, history = find_baseline(name, "counts"), _rows(4, 3)
    options = baseline.trials(COUNTS)[0]
    here, setting = _everyone(), _everyone().setting
    elsewhere = Everyone({"small": _rows(9, 1), "large": _rows(60, 77)}, setting)
    one, other = (np.asarray(baseline.fit(each.site("small"), options)(history)) for each in (here, elsewhere))
    assert np.array_equal(one, other) == (name == "noise only")


def _unseen_side(score: Score, seen: list[int]) -> bool:
    """Whether an item of the seen side comes before all of the other."""
    history = np.zeros((1, 12))
    history[0, seen] = 1
    scores = np.asarray(score(sparse.csr_array(history)))[0]
    here = [item for item in range(12) if item // 6 == seen[0] // 6 and item not in seen]
    there = [item for item in range(12) if item // 6 != seen[0] // 6]
    return bool(scores[here].max() > scores[there].max())


@pytest.mark.parametrize("name", [name for name in NAMES if "popularity" not in name and name != "noise only"])
def test_models_of_items_find_the_side(name: str) -> None:
    everyone, baseline = _everyone(epsilon=100.0), find_baseline(name, "counts")
    score = baseline.fit(everyone.site("large"), baseline.trials(everyone.setting)[0])
    assert _unseen_side(score, [0, 1, 2])
    assert _unseen_side(score, [8, 9, 10])


@pytest.mark.parametrize("n_users", [5, 40])
def test_ease_is_its_closed_form_whichever_inverse_is_smaller(n_users: int) -> None:
    rows, history = _rows(n_users, 4), _rows(3, 5)
    dense = read_values(rows, "root").toarray()
    penalty = 2.0 * (dense**2).sum() / 12
    inverse = np.linalg.inv(dense.T @ dense + penalty * np.eye(12))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    wanted = read_values(history, "root").toarray() @ weights
    unseen = history.toarray() == 0
    found = np.asarray(ease(rows, ridge=2.0, values="root")(history))
    np.testing.assert_allclose(found[unseen], wanted[unseen], atol=1e-9)


def test_adapted_is_ease_on_both_grams() -> None:
    everyone, history = _everyone(), _rows(3, 5)
    options = {"ridge": 1.0, "own": 0.5, "values": "count"}
    found = np.asarray(
        find_baseline("EASE pooled, then adapted", "counts").fit(everyone.site("small"), options)(history)
    )
    pooled, own = (rows.toarray().astype(float) for rows in (everyone.pooled, everyone.rows["small"]))
    gram = pooled.T @ pooled + 0.5 * len(pooled) / len(own) * own.T @ own
    inverse = np.linalg.inv(gram + (pooled**2).sum() / 12 * np.eye(12))
    unseen = history.toarray() == 0
    wanted = -(history.toarray() @ inverse) / np.diag(inverse)
    np.testing.assert_allclose(found[unseen], wanted[unseen], atol=1e-9)


def test_rp3beta_is_its_definition_by_either_way() -> None:
    history = _rows(3, 5)
    for n_users in (9, 100):
        rows = _rows(n_users, 6)
        ones = (rows.toarray() > 0).astype(float)
        items, people = np.maximum(ones.sum(axis=0), 1), np.maximum(ones.sum(axis=1), 1)
        walk = ((ones / items) ** 1.5).T @ ((ones / people[:, None]) ** 1.5) / items**0.3
        baseline = find_baseline("RP3beta alone", "counts")
        site = Everyone({"a": rows}, COUNTS).site("a")
        found = np.asarray(baseline.fit(site, {"alpha": 1.5, "beta": 0.3})(history))
        np.testing.assert_allclose(found, (history.toarray() > 0) @ walk, atol=1e-12)


def test_ials_scores_a_history_whatever_else_is_in_the_batch() -> None:
    rows, history = _rows(30, 7), _rows(5, 8)
    score = ials(rows, rank=3, unobserved=0.2, penalty=0.01, seed=0)
    together = np.asarray(score(history))
    for user in range(5):
        np.testing.assert_allclose(np.asarray(score(history[[user]]))[0], together[user], atol=1e-9)
    empty = np.asarray(score(sparse.csr_array((2, 12))))
    assert not empty.any()


def test_offsets_learn_items_and_users() -> None:
    rows = sparse.csr_array(np.array([[5.0, 3.0, 0.0], [4.0, 2.0, 3.0], [0.0, 2.0, 3.0]]))
    found = np.asarray(offsets(rows, items=0.0, users=0.0)(rows))
    assert found[0, 2] > found[2, 2]
    assert found[2, 0] > found[2, 1]


def test_noise_is_that_of_the_epsilon() -> None:
    assert multiplier(1.0, 1e-5) == pytest.approx(3.73, abs=0.005)
    assert multiplier(0.1, 1e-6) > multiplier(1.0, 1e-6) > multiplier(1.0, 1e-3)


def test_a_person_changes_the_products_by_no_more_than_their_noise_counts_on() -> None:
    """Upper triangle with its diagonal over √2: norm √½ for every row, short or long, and noise of that scale."""
    for row in unit_rows(_rows(20, 9)).toarray():
        product = np.outer(row, row)
        record = np.concatenate([product[np.triu_indices(12, 1)], np.diag(product) / np.sqrt(2)])
        assert np.linalg.norm(record) == pytest.approx(np.sqrt(0.5) if row.any() else 0.0)
    wide = Everyone({"a": sparse.csr_array(np.ones((1, 400), np.float32))}, COUNTS)
    noise = _noisy_sums(wide, data=False)
    wanted = multiplier(COUNTS.epsilon, COUNTS.delta)
    assert np.std(noise[np.triu_indices(400, 1)]) == pytest.approx(wanted * np.sqrt(0.5), rel=0.02)
    assert np.std(np.diag(noise)) == pytest.approx(wanted, rel=0.15)
    np.testing.assert_array_equal(noise, noise.T)


@pytest.mark.parametrize("bound", [1.0, 5.0])
def test_everyone_has_the_same_budget(bound: float) -> None:
    setting = Setting(feedback="counts", bound=bound)
    numbers = {one.name: len(one.trials(setting)) for one in baselines("counts", features=True)}
    free = {"own popularity", "pooled popularity", OURS, "twofold with public features"}
    assert {name for name, number in numbers.items() if number != TRIALS} <= free
    for one in baselines("counts", features=True):
        said = [str(sorted(options.items())) for options in one.trials(setting)]
        assert len(set(said)) == len(said), "no trial twice"


def _made_up(figures: list[float]) -> tuple[Baseline, Callable[[str, Any], float]]:
    trials = [{"place": float(place)} for place in range(len(figures))]
    baseline = Baseline(name="x", scope="alone", fit=lambda _, how: how, trials=lambda _: trials)  # type: ignore[arg-type, return-value]
    return baseline, lambda _, how: figures[int(how["place"])]


def test_tuning_takes_the_best_and_keeps_the_rest() -> None:
    baseline, judge = _made_up([1.0, float("nan"), 3.0, 3.0])
    tuned = tune(baseline, _everyone(), judge, ["small", "large"])
    assert tuned.options == {"place": 2.0}
    assert tuned.words == "place 2"
    assert tuned.trials[0][1] == 2.0, "summed over entities"


def test_too_many_trials_are_refused() -> None:
    baseline, judge = _made_up([1.0] * (TRIALS + 1))
    with refused(BadParameter, None):
        tune(baseline, _everyone(), judge, ["small"])


def test_unknown_names_are_refused() -> None:
    with refused(BadParameter, None, found="'magic'"):
        find_baseline("magic", "counts")
