"""A model answers in ids, for users it knows and people it has never seen, by every kind of scorer."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.entity.adapt import adapt
from twofold.entity.artefact import decode_model, encode_model
from twofold.entity.model import Model
from twofold.entity.models.factors import FactorScorer
from twofold.errors import BadParameter, BadValue, CatalogError, PlanMismatch, UnknownUser

MakeModel = Callable[..., Model]


def items(found: list) -> list:
    return [one.item for one in found]


def by_hand(model: Model, history: dict, n: int, allowed: set | None = None, *, exclude: bool = True) -> list:
    """Score everything, then sort in plain Python."""
    columns = sorted(model.catalog.column(item) for item in history)
    values = [min(5.0, float(history[model.catalog.items[at]])) for at in columns]
    scores = model.scorer.one(np.array(columns), np.array(values, np.float32))
    open_ = [at for at in range(scores.size) if not (exclude and at in columns)]
    open_ = [at for at in open_ if allowed is None or model.catalog.items[at] in allowed]
    return [model.catalog.items[at] for at in sorted(open_, key=lambda at: (-scores[at], at))[:n]]


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_a_user_gets_the_best_unseen_items(kind: str, feedback: str, make_model: MakeModel) -> None:
    model = make_model(kind, feedback=feedback)
    for user in ("user-0", "user-9", "user-31"):
        history = model.history.of(user)
        found = model.recommend(user, n=6)
        assert items(found) == by_hand(model, history, 6)
        assert not set(items(found)) & set(history)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_dict_equal_to_a_users_history_gets_the_same_list(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    assert model.recommend(model.history.of("user-9")) == model.recommend("user-9")


def test_values_above_the_bound_count_as_the_bound(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    assert model.recommend({"item-3": 5, "item-4": 1}) == model.recommend({"item-3": 500, "item-4": 1})


def test_seen_items_come_back_when_asked_for(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    history = model.history.of("user-0")
    found = items(model.recommend("user-0", n=30, exclude_seen=False))
    assert found == by_hand(model, history, 30, exclude=False)
    assert set(history) < set(found)


def test_a_filter_leaves_only_its_items(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    allowed = {"item-1", "item-2", "item-20"}
    assert items(model.recommend({"item-2": 1}, items=allowed)) == by_hand(model, {"item-2": 1}, 10, allowed)
    assert model.recommend({"item-2": 1}, items=[]) == []


def test_n_beyond_what_is_left_gives_what_is_left(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    assert len(model.recommend("user-0", n=1000)) == 30 - len(model.history.of("user-0"))
    assert model.recommend("user-8") == []


def test_equal_scores_come_in_the_order_of_the_catalog(make_model: MakeModel) -> None:
    factors = np.ones((30, 4))
    model = make_model(scorer=FactorScorer(factors, feedback="counts"))
    assert items(model.recommend({"item-1": 2}, n=4)) == ["item-0", "item-2", "item-3", "item-4"]


@pytest.mark.parametrize("asked", ["user-7", {}])
def test_nobody_knows_anything_of_a_person_without_history(kind: str, asked: object, make_model: MakeModel) -> None:
    model = make_model(kind)
    usual = model.scorer.one(np.zeros(0, np.int64), np.zeros(0, np.float32))
    found = model.recommend(asked, n=30)
    assert items(found) == [f"item-{at}" for at in np.argsort(-usual, kind="stable")]


@pytest.mark.parametrize("asked", ["user-7", {}])
def test_without_usual_scores_popular_items_stand_in(asked: object, make_model: MakeModel) -> None:
    model = make_model(scorer=FactorScorer(np.ones((30, 4)), feedback="counts"))
    owners = np.bincount(model.history.matrix.indices, minlength=30)
    first = model.recommend(asked, n=1)[0]
    assert first.item == f"item-{owners.argmax()}"
    assert first.score == pytest.approx(owners.max() / 40)


def test_a_history_the_model_says_nothing_about_gets_popular_items(make_model: MakeModel) -> None:
    factors = np.ones((30, 4))
    factors[3] = 0
    model = make_model(scorer=FactorScorer(factors, feedback="ratings"), feedback="ratings")
    assert (
        items(model.recommend({"item-3": 5}, n=5))
        == [item for item in items(model.recommend({}, n=6)) if item != "item-3"][:5]
    )
    assert model.explain({"item-3": 5}, "item-1").reasons == []


def test_an_unknown_user_is_told_so_without_the_id(make_model: MakeModel) -> None:
    model = make_model()
    for asked in ("mr-secret", 17, ["mr-secret"], None):
        kind = "str" if isinstance(asked, list) else type(asked).__name__
        with refused(UnknownUser, "user", "{item id: value}", found=kind) as caught:
            model.recommend(asked)
        assert "secret" not in str(caught.value)


def test_bad_questions_are_refused(make_model: MakeModel) -> None:
    model = make_model()
    with pytest.raises(CatalogError):
        model.recommend({"item-99": 1})
    with pytest.raises(BadValue):
        model.recommend({"item-1": float("nan")})
    with pytest.raises(BadValue):
        model.recommend({"item-1": -1})
    with pytest.raises(BadParameter):
        model.recommend("user-0", n=0)
    with pytest.raises(BadParameter):
        model.recommend("user-0", items="item-1")
    with pytest.raises(CatalogError):
        model.similar_items("item-99")
    with pytest.raises(CatalogError):
        model.explain("user-0", "item-99")


def test_ids_of_numbers_stay_numbers(make_model: MakeModel) -> None:
    model = make_model(catalog=Catalog(range(100, 130)), users=list(range(40)))
    found = model.recommend(3, n=2)
    assert all(type(one.item) is int for one in found)
    assert model.recommend(np.int64(3), n=2) == found
    with pytest.raises(UnknownUser):
        model.recommend("3")


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_reasons_and_rest_add_up_to_the_score(kind: str, feedback: str, make_model: MakeModel) -> None:
    model = make_model(kind, feedback=feedback)
    scores = dict(model.recommend("user-0", n=30, exclude_seen=False))
    for item in ("item-0", "item-5"):
        told = model.explain("user-0", item, n=3)
        assert told.score == pytest.approx(scores[item], abs=1e-5)
        assert sum(one.contribution for one in told.reasons) + told.rest == pytest.approx(told.score)
        sizes = [abs(one.contribution) for one in told.reasons]
        assert sizes == sorted(sizes, reverse=True)
        history = model.history.of("user-0")
        assert all(history[one.item] == one.value for one in told.reasons)


@pytest.mark.parametrize("kind", ["factors", "item-item"])
def test_an_explained_score_is_that_of_the_list(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    for item, score in model.recommend("user-1", 3):
        assert model.explain("user-1", item).score == score


def test_an_explanation_of_everything_leaves_what_an_empty_history_gets(make_model: MakeModel) -> None:
    model = make_model("item-item")
    told = model.explain("user-0", "item-5", n=30)
    assert told.rest == pytest.approx(model.explain({}, "item-5").score, abs=1e-5)


def test_an_explanation_speaks_plainly(make_model: MakeModel) -> None:
    model = make_model()
    text = str(model.explain({"item-1": 2}, "item-5"))
    assert "because of item-1 (2)" in text
    assert "everything else" in text
    assert "nothing is known" in str(model.explain({}, "item-5"))


def test_similar_items_are_not_the_item_itself(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    found = model.similar_items("item-4", n=100)
    assert len(found) == 29
    assert "item-4" not in items(found)
    likeness = model.scorer.similar(4)
    assert found[0].score == pytest.approx(np.sort(likeness)[-1])
    assert found[0].score <= 1


def test_user_factors_are_those_of_one_by_one(make_model: MakeModel) -> None:
    model = make_model()
    assert isinstance(model.scorer, FactorScorer)
    history = model._inside.entries("user-9")
    assert model.user_factors[9] == pytest.approx(model.scorer.ready.one(*history), rel=1e-4)
    assert not model.user_factors[7].any()
    with pytest.raises(BadParameter):
        _ = make_model("item-item").user_factors


def test_the_repr_is_public_and_the_summary_says_what_was_chosen(make_model: MakeModel) -> None:
    table = tuple({"kind": "factors", "strength": one, "loss": 0.5, "error": 0.25} for one in (0.0, 300.0, np.inf))
    table[1]["taken"] = True
    model = make_model(strength=300.0, validation=table)
    assert repr(model) == "Model('st-anna', 30 items, factors, from protected messages)"
    text = model.summary()
    for words in (
        "st-anna",
        "30 items",
        "weigh as much as 300 own users.",
        "What left was protected",
        "3% better",
        "as it came",
    ):
        assert words in text
    starred = [line for line in text.splitlines() if line.lstrip().startswith("*")]
    assert len(starred) == 1
    assert "300 own users" in starred[0]
    assert "loss 0.5 ± 0.25" in starred[0]


def test_the_summary_of_other_models(make_model: MakeModel) -> None:
    assert "NOT private" in make_model(private=False).summary()
    assert "own data alone" in make_model(strength=0.0).summary()
    nothing_compared = make_model(validation=({"kind": "factors", "strength": 0.0, "loss": np.nan, "error": np.nan},))
    assert "Compared" not in nothing_compared.summary()


def test_parts_that_do_not_belong_together_are_refused(make_model: MakeModel) -> None:
    with pytest.raises(PlanMismatch):
        make_model(scorer=FactorScorer(np.ones((29, 4)), feedback="counts"))
    other = make_model(catalog=Catalog(range(30)))
    with pytest.raises(PlanMismatch):
        make_model(plan=other.plan)
    with pytest.raises(PlanMismatch):
        make_model(plan=make_model(feedback="ratings").plan)


def test_a_model_of_nobody_still_serves_new_people(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind, matrix=sparse.csr_array((0, 30)), users=[])
    assert items(model.recommend({"item-2": 1}, n=3)) == by_hand(model, {"item-2": 1}, 3)
    assert len(model.recommend({}, n=3)) == 3
    assert model.recommend_all().height == 0


def test_a_model_crosses_process_borders(kind: str, make_model: MakeModel) -> None:
    model = make_model(kind)
    model.recommend("user-0")
    copy = pickle.loads(pickle.dumps(model))
    assert copy.recommend("user-0") == model.recommend("user-0")


def test_the_python_of_the_how_to_runs_as_written(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "recommend.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)).replace("import twofold as tw\n", "")
    names = ["creatinine", "heparin", "lactate", *(f"item-{at}" for at in range(27))]
    model = make_model(catalog=Catalog(names), users=[f"patient-{at}" for at in range(40)])
    monkeypatch.chdir(tmp_path)
    model.save("st-anna.model")
    scope: dict[str, Any] = {"tw": SimpleNamespace(Model=Model)}
    exec(code, scope)
    assert scope["frame"]["user"].unique(maintain_order=True).to_list() == ["patient-17", "patient-4"]
    made = scope["explanation"]
    assert made.score - sum(one.contribution for one in made.reasons) - made.rest == pytest.approx(0)
    written = {"st-anna.model", "recommendations.parquet", "items.npz", "items.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == written


@pytest.mark.parametrize("local", ["factors", "item-item"])
def test_an_adapted_model_serves_and_comes_back(local: str, make_model: MakeModel) -> None:
    rows = make_model().history.matrix
    made = adapt(rows, None, feedback="counts", lower=0, bound=5, local=local, rank=3)  # type: ignore[arg-type]
    model = make_model(scorer=made.scorer, strength=made.strength, note=made.note, validation=made.table)
    back = decode_model(encode_model(model))
    assert back.recommend_all(n=5).equals(model.recommend_all(n=5))
    assert back.summary() == model.summary()


@pytest.mark.parametrize("private", [True, False])
def test_a_file_of_histories_is_never_called_private(private: bool, make_model: MakeModel) -> None:
    """Audit L3: "Private: every message ..." was said of a file that holds raw histories."""
    model = make_model(private=private)
    told = model.summary() + repr(model)
    assert "Private" not in told
    assert private == ("private" not in told.replace("NOT private", "private"))
    assert "histories as they are" in told
    assert ("was protected" in told) is private
