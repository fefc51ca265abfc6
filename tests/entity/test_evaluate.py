"""Evaluate a model: figures of the same people, intervals, differences, and one honest sentence."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import twofold as tw
from tests.entity.evaluated import CATALOG, ITEMS, federation, people
from tests.refused import refused
from twofold.csr import with_data
from twofold.data.catalog import Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.split import Split, leave_n_out, recorded_holdout
from twofold.entity.baselines import Fits, system_of
from twofold.entity.evaluate import METRICS, Evaluation, _history_groups, evaluate
from twofold.entity.explain import chosen_kind
from twofold.entity.held_out import held_out_entries
from twofold.entity.model import Model
from twofold.entity.personalize import fit_alone, fitted_model
from twofold.errors import BadParameter, DataError
from twofold.evaluation.measure import measure
from twofold.progress import heard
from twofold.simulation.run import simulate


@pytest.fixture(scope="module")
def found() -> Evaluation:
    made = federation(60, 300)
    every = ["alone", "popularity", "item-item", "shared", "shared-popularity", "random"]
    return evaluate(made.models["e0"], factors=made.factors, against=every, seed=1)


def test_the_function_is_public_though_metrics_were_imported() -> None:
    assert tw.evaluate is evaluate


def test_figures_are_those_of_models_fitted_to_the_rest_by_hand() -> None:
    made = federation(60, 300)
    split = leave_n_out(made.federation["e0"], n=1, rng=5)
    found = evaluate(made.models["e0"], split=split, factors=made.factors, n=5, resamples=50)
    alone = fitted_model("e0", split.train, made.plan, None)
    measured = measure(alone.scorer.scores, split.train.matrix, split.test.matrix, feedback="counts", n=5)
    for metric in METRICS["counts"]:
        row = found.of("alone", metric)
        assert row["value"] == pytest.approx(measured.overall(metric), abs=1e-12)
        assert row["people"] == 60
        assert row["n"] == 5
        assert (row["low"] is None) == (metric == "coverage")
        assert metric == "coverage" or row["low"] <= row["value"] <= row["high"]


def test_differences_are_paired(found: Evaluation) -> None:
    for row in found.differences.iter_rows(named=True):
        one, other = (found.of(name, row["metric"], row["history"])["value"] for name in ("model", row["against"]))
        assert row["value"] == pytest.approx(one - other)
        if row["metric"] == "coverage":
            assert row["clear"] is None
        else:
            assert row["clear"] == (row["low"] > 0 or row["high"] < 0)
    row = found.differences.row(
        by_predicate=(pl.col("against") == "alone") & (pl.col("metric") == "ndcg") & (pl.col("history") == "all"),
        named=True,
    )
    single = found.of("model", "ndcg")
    assert row["high"] - row["low"] < 2 * (single["high"] - single["low"])
    assert row["error"] == pytest.approx((row["high"] - row["low"]) / 3.92, rel=0.25)


def test_the_worst_is_random_and_tables_are_complete(found: Evaluation) -> None:
    scores = {name: found.of(name, "ndcg")["value"] for name in found.systems}
    assert min(scores, key=lambda name: scores[name]) == "random"
    groups = {"all", *found.histories}
    assert found.table.height == len(found.systems) * len(groups) * len(found.metrics)
    assert found.differences.height == (len(found.systems) - 1) * len(groups) * len(found.metrics)
    everyone = found.of("model", "ndcg")["people"]
    assert sum(found.of("model", "ndcg", history)["people"] for history in found.histories) == everyone


def test_the_same_seed_gives_the_same_evaluation() -> None:
    made = federation(60, 300)
    one, again = (evaluate(made.models["e0"], factors=made.factors, seed=3, resamples=20) for _ in range(2))
    assert one.as_dict() == again.as_dict()
    other = evaluate(made.models["e0"], factors=made.factors, seed=4, resamples=20)
    assert not other.table.equals(one.table)


def test_an_entity_that_is_the_whole_federation_gains_nothing_by_its_own_held_out_entries() -> None:
    made = federation(150, epsilon=1000.0)
    found = evaluate(made.models["e0"], factors=made.factors)
    assert found.joining in ("changed nothing", "unclear")


def test_held_out_figures_are_those_of_a_federation_that_never_saw_the_entries() -> None:
    """With hardly any noise: the same model comes out, and leaving the own part in would flatter it.

    The others are few, so that the own part is most of the sum.
    """
    made = federation(150, 100, epsilon=1000.0)
    model, whole = made.models["e0"], made.federation["e0"]
    told, true, naive = [], [], []
    for seed in range(3):
        split = recorded_holdout(whole, users=1.0, probability=0.2, rng=seed)
        never = simulate(Federation({"e0": split.train, "e1": made.federation["e1"]}), made.plan, rng=0)
        true.append(evaluate(never.models["e0"], test=split.test, resamples=2).of("model", "ndcg")["value"])
        told.append(evaluate(model, split=split, factors=made.factors, resamples=2).of("model", "ndcg")["value"])
        left = held_out_entries(model, split, made.factors, seed=0, climbs=False)  # what was shared, as it came
        fits = Fits(entity="e0", rest=left.rest, plan=made.plan, shared=left.shared, lower=0.0, bound=5.0)
        found = left.measured(system_of(fits.model()), n=10, metrics=("ndcg",), limits=(0.0, 5.0))
        naive.append(found.overall("ndcg"))
    assert np.abs(np.subtract(told, true)).max() < 0.004
    assert np.mean(naive) > np.mean(true) + 0.004


def test_a_small_entity_among_many_gains() -> None:
    made = federation(30, 2000, epsilon=1000.0)
    history = made.models["e0"].history
    found = evaluate(made.models["e0"], split=leave_n_out(history, n=1, rng=0), factors=made.factors)
    assert found.joining == "paid"
    gain = found.of("model", "ndcg")["value"] - found.of("alone", "ndcg")["value"]
    assert f"{gain:+.4f}" in found.verdict


def test_a_figure_that_falls_is_good_where_less_is_better() -> None:
    """The same two models, judged by an error and by a gain: both words fit their numbers."""
    made = federation(60, 300, feedback="ratings")
    model = made.models["e0"]
    found = evaluate(model, factors=made.factors, metrics=["rmse", "ndcg"], strength="shared", local="factors")
    row = found.differences.row(
        by_predicate=(pl.col("history") == "all") & (pl.col("metric") == "rmse") & (pl.col("against") == "alone"),
        named=True,
    )
    if row["clear"]:
        assert found.joining == ("paid" if row["value"] < 0 else "harmed")
    else:
        assert found.joining == "unclear"
    assert "less is better" in found.verdict
    assert found.metrics == ("rmse", "ndcg")  # the deciding one first


def test_a_harmful_model_is_called_so() -> None:
    """A model that lists the least wanted first, judged as it is."""
    made = federation(60, 300)
    whole = people(200, 1)
    split = leave_n_out(whole, n=1, rng=0)
    good = fitted_model("e0", split.train, made.plan, made.factors, strength="own")

    class Upside:
        kind = "factors"
        n_items = ITEMS

        def scores(self, rows: sparse.csr_array) -> np.ndarray:
            return -good.scorer.scores(rows)

        def one(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
            return -good.scorer.one(columns, values)

    bad = replace(good, scorer=Upside(), strength=30.0)  # type: ignore[arg-type]
    found = evaluate(bad, test=split.test)
    assert found.joining == "harmed"
    assert "HARM" in found.verdict
    same = evaluate(good, test=split.test)
    assert same.joining == "changed nothing"


def test_a_model_that_took_nothing_cannot_have_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its validation may have hidden other entries than that of the model alone: clearly better is still luck."""
    made = federation(60, 300)
    fit = Fits.model

    def luckier(fits: Fits) -> Model:
        taken = ({"kind": "item-item", "strength": 0.0, "taken": True},)
        return replace(fit(fits), strength=0.0, validation=taken)  # the lists of a model that did take something

    monkeypatch.setattr(Fits, "model", luckier)
    found = evaluate(made.models["e0"], factors=made.factors, against=["alone"], local="factors", strength="shared")
    assert found.of("model", "ndcg")["value"] != found.of("alone", "ndcg")["value"]
    assert found.joining == "changed nothing"


def test_a_model_in_use_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = federation(60, 300)
    model = made.models["e0"]
    rest = recorded_holdout(model.history, users=1.0, probability=0.2, rng=0)
    same = fitted_model("e0", rest.train, made.plan, made.factors)
    other = replace(same, strength=0.0, validation=({"kind": "item-item", "strength": 0.0, "taken": True},))
    monkeypatch.setattr(Fits, "model", lambda _: other)
    found = evaluate(model, factors=made.factors, split=rest, resamples=20)
    assert chosen_kind(model) in found.another
    assert "item-item (own data only)" in found.another
    assert found.first == (found.verdict, found.how, found.another)
    assert found.as_dict()["another"] == found.another
    monkeypatch.setattr(Fits, "model", lambda _: model)
    assert not evaluate(model, factors=made.factors, split=rest, resamples=20).another


def test_a_model_alone_is_the_bar() -> None:
    found = evaluate(fit_alone(people(40, 1)), against=["alone", "popularity"])
    assert found.joining == "alone"
    assert list(found.systems) == ["model", "popularity"]
    made = federation(60, 300)
    asked = evaluate(made.models["e0"], factors=made.factors, against=["popularity"])
    assert asked.joining == "not asked"


def test_too_few_people_are_not_judged() -> None:
    made = federation(60, 300)
    few = made.models["e0"].history.take(range(6))
    found = evaluate(
        made.models["e0"], split=leave_n_out(few, rng=0), factors=made.factors, local="factors", strength="shared"
    )
    assert found.joining == "too few"


def test_words_and_forms(found: Evaluation) -> None:
    record = json.loads(json.dumps(found.as_dict()))
    assert record["verdict"] == found.verdict
    assert found.verdict in str(found)
    assert len(repr(found)) < 200
    html = found._repr_html_()
    assert "nDCG@10" in html
    assert "<script" not in html
    for user in list(people(60, 1).user_ids)[:60]:
        assert str(user) not in html + json.dumps(record)


def test_groups_of_histories() -> None:
    assert [name for name, _ in _history_groups(np.full(9, 4))] == ["all"]
    named = _history_groups(np.repeat([1, 2, 5, 1000], [50, 1, 3, 6]))
    assert sum(rows.size for _, rows in named[1:]) == 60
    assert named[1][0] == "1 entry"
    assert len({name for name, _ in named}) == len(named)


def test_refusals() -> None:
    model = fit_alone(people(40, 1))
    split = leave_n_out(model.history, rng=0)
    with refused(BadParameter, "test"):
        evaluate(model, split=split, test=split.test)
    with refused(BadParameter, "metrics"):
        evaluate(model, metrics=["coverage"])
    with refused(BadParameter, "metrics"):
        evaluate(model, metrics=["auc"])
    with refused(BadParameter, "factors"):
        evaluate(model, against=["shared"])
    with refused(DataError, "model"):
        evaluate("st-anna.model")  # type: ignore[arg-type]
    with refused(BadParameter, "level"):
        evaluate(model, level=2)


def test_few_resamples_and_long_lists() -> None:
    made = federation(60, 300)
    for resamples in (0, 1):
        found = evaluate(made.models["e0"], factors=made.factors, resamples=resamples, n=1_000)
        assert found.joining in ("too few", "changed nothing")
        assert found.of("model", "recall")["value"] == 1.0


def test_what_was_not_measured_is_said(found: Evaluation) -> None:
    with refused(BadParameter, "metric", found="'rmse'", expected="ndcg"):
        found.of("model", "rmse")
    with refused(BadParameter, "system", expected="shared-popularity"):
        found.of("pooled", "ndcg")


def test_held_out_zeros_of_counts_are_nothing_to_find() -> None:
    matrix = people(40, 1).matrix
    zeros = Ratings(with_data(matrix, np.zeros(matrix.nnz, np.float32)), people(40, 1).user_ids, CATALOG, "counts")
    split = leave_n_out(people(40, 1), rng=0)
    hidden = leave_n_out(zeros, rng=0)
    found = evaluate(fit_alone(split.train), split=Split(train=split.train, test=hidden.test), against=["popularity"])
    assert found.of("model", "ndcg")["value"] is None
    assert "–" in found._repr_html_()


def test_progress_counts_systems() -> None:
    seen: list[tuple[str, int, int]] = []
    with heard(lambda *one: seen.append(one)):
        evaluate(fit_alone(people(40, 1)), against=["popularity", "random"])
    systems = [one for one in seen if one[0] == "systems compared"]
    assert systems == [("systems compared", done, 3) for done in range(4)]
    assert {"models tried"} <= {phase for phase, _, _ in seen}


def test_ids_of_any_type_are_found_in_a_later_table() -> None:
    values = people(40, 1)
    numbered = Ratings(values.matrix, Identifiers(range(100, 140)), CATALOG, "counts")
    split = leave_n_out(numbered, rng=0)
    found = evaluate(fit_alone(split.train), test=split.test.take(np.arange(39, -1, -1)))
    assert found.of("model", "ndcg")["people"] == 40
    assert not found.left_out
