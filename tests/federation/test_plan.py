"""The plan: checked when made, one hash for one meaning."""

from __future__ import annotations

import math
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refused import refused
from twofold.data.bounds import Bounds
from twofold.errors import BadPlan, TwofoldError
from twofold.features import Features
from twofold.federation.fields import reference
from twofold.federation.plan import SCHEMA, CatalogKey, Plan
from twofold.federation.plan_file import parse_plan, plan_text
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.federation.tables import FeaturesKey, RosterKey
from twofold.identity.keys import Role, Secrets
from twofold.identity.roster import Roster
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.unit import Unit
from twofold.release.bilinear.layout import MOST_NUMBERS, MOST_PAIRED
from twofold.storage.container import parse_json

CATALOG = CatalogKey(hash="0" * 64, n_items=40)
PLAN = Plan(catalog=CATALOG, feedback="counts", bound=5, max_items=6)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans with every field drawn from its range."""
    n_items = draw(st.integers(1, 10**6))
    lower = draw(st.floats(-100, 0))
    bound = draw(st.floats(0.5, 1e6))
    names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}[A-Za-z0-9_-]", fullmatch=True)
    entities = draw(st.lists(names, unique=True, max_size=5))
    n_entities = draw(st.integers(1, 1000))
    feedback = draw(st.sampled_from(["counts", "ratings"]))
    optional = st.none() | st.floats(1e-3, 1e6)
    return Plan(
        catalog=CatalogKey(hash=draw(st.text("0123456789abcdef", min_size=64, max_size=64)), n_items=n_items),
        feedback=feedback,
        lower=lower,
        bound=bound,
        centre=draw(st.none() | st.floats(lower, bound)) if feedback == "ratings" else None,
        max_items=draw(st.integers(1, n_items)),
        n_prototypes=draw(st.integers(1, 500)),
        rank=draw(st.integers(1, 500)),
        epsilon=draw(st.fractions(Fraction(1, 1000), 100)),
        delta=draw(st.just(0) | st.floats(1e-12, 0.1)),
        mechanism=draw(st.sampled_from(["auto", "balcan", "sulq", "buckets", "popularity"])),
        l1_cap=draw(optional),
        l2_cap=draw(optional),
        n_users=draw(st.integers(1, 10**9)),
        n_entities=n_entities,
        unit=Unit(holder=draw(st.sampled_from(["person", "visit"])), entities=draw(st.integers(1, 9))),
        quorum=draw(st.integers(1, len(entities) or n_entities)),
        deadline=draw(st.none() | st.datetimes(timezones=st.timezones()).map(lambda when: when.isoformat())),
        entities=entities,
        name=draw(names),
        regularization=draw(st.floats(0, 100)),
        seed=draw(st.integers(0, 10**15)),
        simulation=draw(st.booleans()),
    )


@settings(max_examples=100)
@given(plans())
def test_a_plan_survives_its_record(plan):
    record = parse_json(plan.canonical())
    assert Plan.from_dict(record) == plan
    assert Plan.from_dict(record).hash == plan.hash
    assert plan.differences(record) == ()


@settings(max_examples=100)
@given(plans())
def test_a_plan_survives_its_file(plan):
    text = plan_text(plan)
    assert parse_plan(tomllib.loads(text)) == plan
    assert parse_plan(tomllib.loads(text)).hash == plan.hash


def test_equal_meaning_has_an_equal_hash():
    same = [
        PLAN.with_(bound=5.0, epsilon="1", delta="1/1000000"),
        PLAN.with_(lower=-0.0),
        PLAN.with_(epsilon=Fraction(1), delta=1e-6),
    ]
    assert {one.hash for one in same} == {PLAN.hash}
    named = PLAN.with_(entities=("a", "b"), deadline="2027-01-31T12:00:00Z")
    assert PLAN.with_(entities=["b", "a"], deadline="2027-01-31T13:00:00+01:00").hash == named.hash


def test_every_field_is_in_the_hash():
    others = {
        "catalog": CatalogKey(hash="1" * 64, n_items=40),
        "feedback": "ratings",
        "mechanism": "sulq",
        "centre": 0.0,
        "l1_cap": 3,
        "l2_cap": 3,
        "unit": Unit.visit(),
        "deadline": "2027-01-31T12:00:00Z",
        "entities": ("a",),
        "name": "other",
        "simulation": True,
        "delta": 0,
        "lower": -1,
        "regularization": 1,
        "features": FeaturesKey(hash="1" * 64, n_features=3),
        "secure": SecureSum(survivors=3),
        "roster": Roster.new(["a"])[0],
        "writer": "a",
    }
    for name in Plan.model_fields:
        base = PLAN.with_(roster=others["roster"]) if name == "writer" else PLAN
        value = others.get(name)
        if value is None:
            value = getattr(PLAN, name) + 1
        changes = {name: value} | ({"n_entities": 3} if name in ("quorum", "secure") else {})
        changed = base.with_(**changes)
        assert changed.hash != base.hash, name
        assert name in base.differences(changed)


def test_the_hash_of_a_plan_never_changes():
    assert PLAN.hash == "7e54c90be32972c9b3b8c2f4c8fc82e233dcc616cbc3924711a45cdbd263659b"


@pytest.mark.parametrize(
    "changes",
    [
        {"catalog": "items.csv"},
        {"feedback": "stars"},
        {"feedback": 1},
        {"bound": "5"},
        {"bound": math.inf},
        {"bound": 1e200},
        {"bound": 0},
        {"feedback": "ratings", "lower": -5, "bound": 0, "centre": -3},
        {"feedback": "ratings", "lower": -5, "bound": -1, "centre": -3},
        {"bound": True},
        {"lower": math.nan},
        {"lower": 6},
        {"centre": 1.0},
        {"l1_cap": 0},
        {"max_items": 0},
        {"max_items": 41},
        {"max_items": 6.0},
        {"max_items": True},
        {"n_prototypes": -1},
        {"rank": None},
        {"n_users": 10**16},
        {"seed": -1},
        {"seed": 10**16},
        {"epsilon": 0},
        {"epsilon": "much"},
        {"epsilon": math.nan},
        {"epsilon": "1/" + "7" * 300},
        {"delta": 1},
        {"delta": -1},
        {"mechanism": "magic"},
        {"mechanism": "exact"},
        {"mechanism": ["auto"]},
        {"unit": "person"},
        {"quorum": 2},
        {"quorum": 3, "entities": ("a", "b"), "n_entities": 9},
        {"deadline": "tomorrow"},
        {"deadline": "2027-01-31T12:00:00"},
        {"deadline": "0001-01-01T00:00:00+14:00"},
        {"deadline": 5},
        {"entities": "st-anna"},
        {"entities": 5},
        {"entities": ("a", "a")},
        {"entities": ("../a",)},
        {"name": "a b"},
        {"name": ""},
        {"regularization": -1},
        {"simulation": 1},
    ],
)
def test_what_is_out_of_range_is_refused(changes):
    with pytest.raises(TwofoldError):
        PLAN.with_(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "twofold.plan/1"},
        {"schema": "twofold.plan/2"},
        {"schema": "twofold.plan/4"},
        {"schema": None},
        {"max_itmes": 3},
        {"catalog": None},
        {"catalog": {"hash": "0" * 64}},
        {"catalog": {"hash": 5, "n_items": 40}},
        {"catalog": {"hash": "0" * 64, "n_items": 10**12}},
        {"unit": None},
        {"unit": {"holder": "person"}},
        {"unit": {"holder": "person", "entities": 1, "adjacency": "replace-one"}},
        {"entities": None},
        {"epsilon": None},
        {"epsilon": []},
    ],
)
def test_a_record_that_is_not_one(changes):
    with pytest.raises(BadPlan):
        Plan.from_dict(PLAN.as_dict() | changes)


NEWER = ("features", "secure", "roster", "writer")  # than the format: left out when absent


@pytest.mark.parametrize("name", [name for name in Plan.model_fields if name not in NEWER])
def test_a_record_must_be_complete(name):
    record = PLAN.as_dict()
    del record[name]
    with refused(BadPlan, name, found=f"missing {name}"):
        Plan.from_dict(record)


def test_budget_and_public_numbers_follow():
    assert PLAN.budget == ApproxDP(epsilon=1, delta=Fraction(1, 10**6))
    assert PLAN.with_(delta=0).budget == PureDP(epsilon=1)
    ratings = PLAN.with_(feedback="ratings", lower=1)
    assert (ratings.centre_value, ratings.parameters.centre, ratings.parameters.value_cap) == (3.0, 3.0, 2.0)
    assert ratings.with_(centre=4).parameters.value_cap == 3.0


@settings(max_examples=200)
@given(st.floats(-1e3, 1e3) | st.sampled_from([0.0, -0.0, 5e-324]), st.floats(-1e3, 1e3), st.integers(0, 40))
def test_bounds_take_whatever_a_plan_takes(bound, lower, max_items):
    """They are met inside the draw, when the price is paid already."""
    try:
        plan = PLAN.with_(feedback="ratings", bound=bound, lower=lower, max_items=max_items)
    except BadPlan:
        return
    Bounds(bound=plan.bound, lower=plan.lower, max_items=plan.max_items, seed=plan.seed)


def test_a_mechanism_without_a_proof_needs_a_simulation():
    assert PLAN.with_(mechanism="exact", simulation=True).release_mechanism.name == "exact"


def test_python_and_shell_have_the_same_defaults():
    """Fields that depend on the catalog and the feedback are suggested in one place."""
    counts = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457))
    stars = Plan(catalog=CatalogKey(hash="0" * 64, n_items=9), feedback="ratings")
    assert (counts.feedback, counts.lower, counts.bound, counts.max_items) == ("counts", 0, 5, 64)
    assert (counts.n_prototypes, counts.rank) == (10, 20)
    assert (stars.lower, stars.bound, stars.max_items, stars.n_prototypes, stars.rank) == (1, 5, 9, 9, 9)


def test_the_table_says_everything_about_every_field():
    for note in (*Plan.notes(), *SecureSum.notes()):
        assert note.meaning.endswith(".")
        assert note.expected
        assert note.optional <= (note.example is not None or note.name in ("features", "secure", "roster"))


def test_a_plan_takes_names_and_writer_from_its_roster():
    roster, _ = Roster.new(["st-bern", "st-anna"])
    made = PLAN.with_(roster=roster)
    assert (made.entities, made.writer, made.members) == (("st-anna", "st-bern"), "coordinator", roster)
    assert made.with_(writer="st-anna").writer == "st-anna"
    again = Plan.from_dict(made.as_dict())
    assert (again, again.hash, again.members) == (made, made.hash, None)
    assert again.roster == RosterKey(hash=roster.hash, n_entities=2)
    assert "roster" not in PLAN.as_dict()


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"writer": "st-anna"}, "writer"),
        ({"roster": Roster.new(["a"])[0], "writer": "stranger"}, "writer"),
        ({"roster": Roster.new(["a"])[0], "writer": "../a"}, "entity"),
        ({"roster": Roster.new(["a"])[0], "entities": ("a", "b")}, "roster"),
        ({"roster": Roster.new(["a"])[0], "entities": ("b",)}, "entities"),
        ({"roster": Roster([Secrets.new("a").identity])}, "roster"),
        ({"roster": Roster(Secrets.new(name, Role.OPERATOR).identity for name in ("x", "y"))}, "roster"),
        (
            {
                "roster": Roster(
                    [Secrets.new("a").identity, *(Secrets.new(name, Role.OPERATOR).identity for name in ("x", "y"))]
                )
            },
            "roster",
        ),
        ({"roster": RosterKey(hash="1" * 64, n_entities=2)}, "roster"),
        ({"roster": RosterKey(hash="1" * 64, n_entities=1, n_operators=0), "entities": ("a",)}, "roster"),
        ({"roster": "1" * 64}, "roster"),
        ({"roster": 5}, "roster"),
        ({"roster": PLAN}, "roster"),
    ],
)
def test_a_roster_that_does_not_fit_the_plan(changes, parameter):
    with refused(BadPlan, parameter):
        PLAN.with_(**changes)


@pytest.mark.parametrize(
    "record",
    [
        {"hash": "1" * 64},
        {"hash": "1" * 63, "n_entities": 1},
        {"hash": "1" * 64, "n_entities": -1},
        {"hash": "1" * 64, "n_entities": 10**9},
        {"hash": "1" * 64, "n_entities": 1, "n_operators": 3},
        {"hash": "1" * 64, "n_entities": True},
        {"hash": "1" * 64, "n_entities": 1, "members": []},
        [],
        "1" * 64,
    ],
)
def test_a_record_of_a_roster_that_is_not_one(record):
    with pytest.raises(BadPlan):
        Plan.from_dict(PLAN.as_dict() | {"entities": ["a"], "roster": record})


def test_what_is_refused_is_named():
    for name in ("max_items", "rank", "epsilon", "delta", "bound", "feedback", "entities", "unit", "deadline", "name"):
        with pytest.raises(BadPlan) as caught:
            PLAN.with_(**{name: object()})
        assert caught.value.parameter == name
    with pytest.raises(BadPlan) as caught:
        SecureSum(survivors=1)
    assert (caught.value.parameter, caught.value.found) == ("secure.survivors", "1")
    with pytest.raises(BadPlan) as caught:
        PLAN.with_(max_item=3)
    assert (caught.value.found, caught.value.expected) == ("max_item", "perhaps max_items")


def test_hash_parameters_and_spec_are_computed_once():
    plan = PLAN.with_(mechanism="popularity")
    assert plan.spec is plan.spec
    assert plan.parameters is plan.parameters
    assert plan.hash is plan.hash


def test_the_schema_has_a_version():
    assert SCHEMA == "twofold.plan/3"
    assert PLAN.as_dict()["schema"] == SCHEMA


def test_the_reference_page_is_made_from_the_table():
    """Print it anew: python -c "from twofold.federation.plan import *; print(reference(Plan))", and of both sums."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "plan.md").read_text(encoding="utf-8")
    assert reference(Plan) in page
    assert reference(SecureSum) in page
    assert reference(OperatorSum) in page


LONG = CatalogKey(hash="0" * 64, n_items=340_556)


@pytest.mark.parametrize(
    "fields",
    [{"mechanism": "gram"}, {"mechanism": "gram", "feedback": "ratings"}, {"mechanism": "sketch", "n_prototypes": 99}],
)
def test_a_message_too_large_to_send_is_refused_with_what_can_be_sent_instead(fields: dict[str, Any]) -> None:
    with pytest.raises(BadPlan) as caught:
        Plan(catalog=LONG, **fields)
    assert caught.value.parameter == "mechanism"
    assert "340,556" in str(caught.value.found)
    # The sizes in the refusal are those of plans that are then accepted.
    smaller = {name: value for name, value in fields.items() if name == "feedback"} | {"n_prototypes": 98}
    named = "n_prototypes" in fields
    sketch = Plan(catalog=LONG, mechanism="sketch", **smaller | ({} if named else {"n_prototypes": 10}))
    for possible in (sketch, Plan(catalog=LONG, mechanism="popularity", **smaller)):
        said = f"{possible.spec.mechanism} {8 * (possible.spec.numbers or 0):,} bytes"
        assert said in str(caught.value.expected)


def test_pairs_of_counts_that_no_entity_can_use_are_refused_with_what_can_be_sent_instead() -> None:
    catalog = CatalogKey(hash="0" * 64, n_items=MOST_PAIRED + 1)
    with pytest.raises(BadPlan) as caught:
        Plan(catalog=catalog, mechanism="gram")
    assert caught.value.parameter == "mechanism"
    assert f"{MOST_PAIRED:,} items" in str(caught.value.expected)
    for name in ("sketch", "popularity"):
        possible = Plan(catalog=catalog, mechanism=name, n_prototypes=10)
        assert f"{name} {8 * (possible.spec.numbers or 0):,} bytes" in str(caught.value.expected)
    assert Plan(catalog=CatalogKey(hash="0" * 64, n_items=MOST_PAIRED), mechanism="gram").spec.mechanism == "gram"
    assert Plan(catalog=catalog, mechanism="gram", feedback="ratings").spec.mechanism == "gram"


def test_what_is_refused_offers_public_features_only_where_they_fit() -> None:
    table = Features(matrix=np.ones((340_556, 99), dtype=np.int8), names=tuple(map(str, range(99))))
    few = Features(matrix=table.matrix[:, :5], names=table.names[:5])
    with pytest.raises(BadPlan) as caught:
        Plan(catalog=LONG, mechanism="features", features=table)
    assert "features" not in str(caught.value.expected)
    with pytest.raises(BadPlan) as caught:
        Plan(catalog=LONG, mechanism="gram", features=few)
    made = Plan(catalog=LONG, mechanism="features", features=few)
    assert f"features {8 * (made.spec.numbers or 0):,} bytes" in str(caught.value.expected)
    with pytest.raises(BadPlan) as caught:  # prototypes cannot be added up
        Plan(catalog=LONG, mechanism="gram", n_entities=3, secure=SecureSum(survivors=3))
    assert "popularity" not in str(caught.value.expected)
    with refused(BadPlan, "features"):
        Plan(catalog=LONG, mechanism="features")


@pytest.mark.parametrize("items", [40, 6_001, 340_556])
@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_auto_chooses_what_can_be_sent(items: int, feedback: Any) -> None:
    wide = Features(matrix=np.ones((items, 99), dtype=np.int8), names=tuple(map(str, range(99))))
    for features in (None, wide):
        for users in (1, 10**6):
            catalog = CatalogKey(hash="0" * 64, n_items=items)
            made = Plan(catalog=catalog, feedback=feedback, n_users=users, features=features, n_entities=9)
            assert (made.spec.numbers or 0) <= MOST_NUMBERS
