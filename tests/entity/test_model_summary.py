"""A model in plain words: the star stands at the candidate that was taken, whatever the scorer calls itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.explain import chosen_kind
from twofold.entity.model import Model
from twofold.features import Features
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan

MakeModel = Callable[..., Model]
ITEMS, CLASSES = 24, 4
CLASS = np.arange(ITEMS) % CLASSES
TABLE = Features(matrix=np.eye(CLASSES, dtype=np.int64)[CLASS], names=tuple("abcd"))
CATALOG = Catalog([f"item-{at}" for at in range(ITEMS)])


def people(users: int, seed: int) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    of_class = rng.gamma(0.3, 1.0, size=(users, CLASSES))
    return sparse.csr_array(np.minimum(rng.poisson(3 * of_class[:, CLASS]), 5).astype(np.float32))


def shared() -> ItemFactors:
    rows = np.sqrt(people(2_000, 2).toarray().astype(float))
    values, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.zeros((ITEMS, 1), np.float32), moments=np.zeros((1, 1)),
        means=(rows**2).mean(axis=0), support=np.full(ITEMS, 2e3), users=2e3, entities=5, private=False,
        patterns=axes.astype(np.float32), strengths=np.maximum(values, 0.0), squares=(rows**2).mean(axis=0),
    )  # fmt: skip


def model_of(made: Adapted, rows: sparse.csr_array, feedback: str) -> Model:
    names = Identifiers([f"user-{at}" for at in range(rows.shape[0])])
    return Model(
        entity="st-anna",
        catalog=CATALOG,
        history=Ratings(rows, names, CATALOG, feedback),  # type: ignore[arg-type]
        scorer=made.scorer,
        plan=Plan(catalog=CATALOG, feedback=feedback, bound=5, max_items=20, rank=2),
        factors_hash="0" * 64,
        private=False,
        strength=made.strength,
        note=made.note,
        validation=made.table,
    )


def starred(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.lstrip().startswith("*")]


@pytest.fixture(scope="module")
def adapted() -> tuple[Adapted, sparse.csr_array]:
    """One real adaptation with every step of the ladder."""
    rows = people(30, 1)
    options: dict[str, Any] = {"feedback": "counts", "lower": 0, "bound": 5, "rank": 2, "threads": 1}
    return adapt(rows, shared(), features=TABLE, **options), rows


def test_the_star_of_a_real_adaptation_is_at_what_was_taken(adapted: tuple[Adapted, sparse.csr_array]) -> None:
    made, rows = adapted
    model = model_of(made, rows, "counts")
    assert {row["kind"] for row in made.table} >= {"use", "item-item", "features", "shared taste"}
    assert chosen_kind(model) == made.kind
    (line,) = starred(model.summary())
    assert line.lstrip(" *").startswith(f"{made.kind}, ridge ")
    (row,) = [row for row in made.table if row.get("taken")]
    assert f"loss {row['loss']:.4g} ± {row['error']:.4g}, nats {row['nats']:.4g}" in line


STACKED = {
    "item-item": ("own data only", "taste: item-item"),
    "features": ("own data and public features", "pulled to public features"),
    "shared taste": ("shared model as 300 own users", "pulled to the others' taste"),
    "shared taste, own use": ("shared model as 300 own users", "at the own use of each item"),
    "shared taste, own use, features": ("public features, and shared model", "each item and to public features"),
}


@pytest.mark.parametrize("kind", STACKED)
def test_a_stack_says_what_its_taste_knows(make_model: MakeModel, kind: str) -> None:
    strength = 300.0 if "shared" in kind else 0.0
    line = {"kind": kind, "strength": strength, "loss": 0.5, "error": 0.25, "nats": -12.0, "taken": True}
    text = make_model("stack", strength=strength, validation=(line,)).summary()
    drawn_to, known = STACKED[kind]
    assert drawn_to in starred(text)[0]
    assert known in text
    assert "nats say how well" in text
    assert "It does not decide" not in text


KINDS = {"counts": ("item-item", "factors", "features"), "ratings": ("item-item", "factors", "patterns", "features")}


@pytest.mark.parametrize(("feedback", "local"), [(one, kind) for one, kinds in KINDS.items() for kind in kinds])
def test_the_kind_of_every_model_that_is_asked_for(feedback: str, local: str) -> None:
    rows = people(30, 1)
    made = adapt(
        rows, None, feedback=feedback, lower=0, bound=5, rank=2, threads=1, features=TABLE, local=local  # type: ignore[arg-type]
    )  # fmt: skip
    assert chosen_kind(model_of(made, rows, feedback)) == made.kind == local


NOTES = {
    ("item-item", 0.0): "item-item, alone: nothing shared was better on held-out entries",
    ("item-item", 300.0): "item-item, the shared model weighs 300 users: held-out loss smaller",
    ("features", 0.0): "features, public features: nothing shared was better",
    ("mixed", 300.0): "mixed, the shared model weighs 300 users: held-out loss smaller",
    ("factors", np.inf): "factors, the shared model as it came: held-out loss smaller",
}


def rows_of(chosen: tuple[str, float]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"kind": kind, "strength": strength, "loss": 0.5, "error": 0.25}
        | ({"taken": True} if (kind, strength) == chosen else {})
        for kind, strength in NOTES
    )


@pytest.mark.parametrize("chosen", NOTES)
def test_one_star_at_the_kind_and_strength_taken(make_model: MakeModel, chosen: tuple[str, float]) -> None:
    kind, strength = chosen
    scorer = "factors" if kind == "factors" else "item-item"
    model = make_model(scorer, strength=strength, note=NOTES[chosen], validation=rows_of(chosen))
    (line,) = starred(model.summary())
    assert line.split()[1] == kind
    same = replace(model, note="", validation=())
    assert chosen_kind(same) == scorer


def test_a_model_of_patterns_has_its_star(make_model: MakeModel) -> None:
    rows = people(30, 1)
    made = adapt(rows, shared(), feedback="ratings", lower=0, bound=5, rank=2, threads=1)
    (line,) = starred(model_of(made, rows, "ratings").summary())
    assert line.split()[1] == made.kind == "patterns"


def test_an_error_is_said_to_be_that_of_one_loss(make_model: MakeModel) -> None:
    text = make_model(
        "item-item", strength=0.0, note=NOTES["item-item", 0.0], validation=rows_of(("item-item", 0.0))
    ).summary()
    assert "± is the standard error of that one loss. It does not decide" in text
    assert "error 0.25" not in text
    without = make_model(validation=({"kind": "factors", "gain": 0.03},)).summary()
    assert "±" not in without
    assert "gain 0.03" in without


def test_no_row_says_that_its_own_kind_is_not_used(make_model: MakeModel) -> None:
    text = make_model(
        "item-item", strength=300.0, note=NOTES["mixed", 300.0], validation=rows_of(("mixed", 300.0))
    ).summary()
    table = text.partition("Compared")[2]
    assert "not used" not in table
    for words in ("item-item own data only", "features  own data and public features", "as 300 own users"):
        assert words in table
    assert "public features of the items and the shared model" in text
    alone = make_model(
        "item-item", strength=0.0, note=NOTES["features", 0.0], validation=rows_of(("features", 0.0))
    ).summary()
    assert "not used, own data and public features." in alone


def test_no_two_lines_read_the_same_and_users_are_whole(make_model: MakeModel) -> None:
    line = {"kind": "item-item, unit rows", "strength": 0.0, "loss": 0.5, "error": 0.1, "nats": -9.0}
    more = {"kind": "shared taste", "strength": 87.3197, "loss": 0.5, "error": 0.1, "nats": -5.0, "taken": True}
    text = make_model("stack", strength=87.3197, validation=(line, line | {"nats": -8.0}, more)).summary()
    assert text.count("unit rows") == 1
    assert "nats -8" in text
    assert "87 own users" in text
    both = (line | {"ridge": 0.5}, line | {"ridge": 2.0}, more)
    assert make_model("stack", strength=87.3197, validation=both).summary().count("unit rows, ridge") == 2
