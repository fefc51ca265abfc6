"""Round 1: what fits the plan comes through, everything else is refused and says why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refused import refused
from twofold.errors import BadMessage, BadPlan, NotForRealUse, PlanMismatch
from twofold.federation.messages import RELEASE, decode_release, encode_release, message_limit, read_header
from twofold.federation.plan import LARGEST_NUMBER, CatalogKey, Plan
from twofold.release.content import Prototypes
from twofold.storage.container import open_container, pack_sealed, unpack

CATALOG = CatalogKey(hash="a" * 64, n_items=5)
PLAN = Plan(catalog=CATALOG, feedback="counts", bound=5, max_items=2, n_prototypes=3, mechanism="popularity")
RATINGS = PLAN.with_(feedback="ratings", lower=1.0)
PRETEND = PLAN.with_(simulation=True)


def content_of(plan: Plan, rng: int | None = None) -> Prototypes:
    return plan.release_mechanism.release(np.ones((4, plan.n_items)), plan.parameters, rng=rng).value


def message_of(plan: Plan, rng: int | None = None) -> bytes:
    return encode_release(content_of(plan, rng), entity="st-anna", plan=plan)


def edited(
    data: bytes, arrays: dict[str, object] | None = None, drop: tuple[str, ...] = (), **changes: object
) -> bytes:
    """The message with fields of its record or its arrays changed."""
    container = open_container(data)
    kept = unpack(data, container, container.layouts) | (arrays or {})
    record = {name: value for name, value in (container.record | changes).items() if name not in drop}
    return pack_sealed(record, {name: array for name, array in kept.items() if array is not None})


@pytest.mark.parametrize("plan", [PLAN, RATINGS, PLAN.with_(mechanism="auto"), PLAN.with_(delta=0)])
def test_content_comes_through_whole(plan):
    content = content_of(plan)
    found = decode_release(encode_release(content, entity="st-anna", plan=plan), plan)
    assert (found.entity, found.plan_hash, found.catalog_hash) == ("st-anna", plan.hash, CATALOG.hash)
    assert found.content.digest() == content.digest()
    assert found.content.note == content.note
    assert len(found.receipt) == 64


def test_equal_content_gives_equal_bytes():
    assert message_of(PRETEND, rng=3) == message_of(PRETEND, rng=3)
    assert message_of(PRETEND, rng=3) != message_of(PRETEND, rng=4)


def test_only_public_text_is_in_the_header():
    record = open_container(message_of(PLAN)).record
    assert set(record) == {
        *("schema", "entity", "plan", "plan_hash", "catalog_hash", "mechanism", "units", "noise", "seeded", "note"),
        *("software", "checksum"),
    }


def test_a_message_saved_is_the_message_loaded(tmp_path):
    message = decode_release(message_of(PLAN), PLAN)
    message.save(tmp_path / "st-anna.round1")
    assert decode_release((tmp_path / "st-anna.round1").read_bytes(), PLAN).receipt == message.receipt
    with pytest.raises(BadMessage):
        decode_release(bytes(message_limit(PLAN) + 1), PLAN)


def test_the_header_can_be_read_before_the_rest_is_there():
    data = message_of(PLAN)
    header = read_header(data[:-10])
    assert (header.entity, header.plan_hash, header.size) == ("st-anna", PLAN.hash, len(data))


def test_another_plan_is_named_by_its_fields():
    other = PLAN.with_(rank=4, epsilon=2)
    with refused(PlanMismatch, "plan", found="epsilon is 2, here 1; rank is 4, here 5"):
        decode_release(message_of(other), PLAN)


def test_another_catalog_is_said_to_be_one():
    other = PLAN.with_(catalog=CatalogKey(hash="b" * 64, n_items=5))
    with refused(PlanMismatch, "catalog", found="b" * 12, expected="a" * 12):
        decode_release(message_of(other), PLAN)


@pytest.mark.parametrize(
    ("schema", "found", "fact"),
    [
        ("twofold.prototypes/2", "version 2", "pip install --upgrade twofold"),
        ("twofold.factors/1", "item factors", "release"),
        ("twofold.dreams/1", "twofold.dreams/1", RELEASE),
        ("\x1b[2J", "?[2J", RELEASE),
    ],
)
def test_another_version_round_or_kind(schema, found, fact):
    with refused(BadMessage, "schema", fact, found=found):
        decode_release(edited(message_of(PLAN), schema=schema), PLAN)


def test_unknown_fields_are_ignored_and_unknown_arrays_refused():
    assert decode_release(edited(message_of(PLAN), later="x", also={"a": [1]}), PLAN).entity == "st-anna"
    with refused(BadMessage, "arrays", found="counts, more, sums", expected="counts, sums"):
        decode_release(edited(message_of(PLAN), {"more": np.ones(2)}), PLAN)


@pytest.mark.parametrize(
    "changes",
    [
        {"entity": "../etc"},
        {"entity": "a/b"},
        {"entity": ""},
        {"entity": None},
        {"entity": ["a"]},
        {"plan": None},
        {"plan": []},
        {"plan_hash": "0" * 64},
        {"plan_hash": "x"},
        {"catalog_hash": 5},
        {"mechanism": "sulq"},
        {"mechanism": 1},
        {"units": {"values": 1.0, "observed": 1.0, "counts": 1.0}},
        {"units": {}},
        {"units": None},
        {"noise": {"law": "none", "values": 0, "observed": 0, "counts": 0}},
        {"noise": {"law": "gaussian", "values": 0.1, "observed": 0.0, "counts": 0.1}},
        {"noise": {"law": ["gaussian"], "values": 1, "observed": 1, "counts": 1}},
        {"noise": {"law": "gaussian", "values": True, "observed": 1, "counts": 1}},
        {"seeded": 0},
        {"seeded": None},
        {"note": "x" * 2001},
        {"note": "\x1b[2J"},
        {"note": "\ud800"},
        {"note": 3},
    ],
)
def test_fields_that_are_not_sound(changes):
    with pytest.raises(BadMessage):
        decode_release(edited(message_of(PLAN), **changes), PLAN)


@pytest.mark.parametrize(
    "name",
    ["schema", "entity", "plan", "plan_hash", "catalog_hash", "mechanism", "units", "noise", "seeded", "note"],
)
def test_fields_that_are_missing(name):
    with pytest.raises(BadMessage):
        decode_release(edited(message_of(PLAN), drop=(name,)), PLAN)


@pytest.mark.parametrize(
    "arrays",
    [
        {"sums": np.zeros((1, 4), dtype=np.int64)},
        {"sums": np.zeros((2, 5), dtype=np.int64), "counts": np.zeros(2, dtype=np.int64)},
        {"sums": np.zeros((1, 5))},
        {"counts": np.zeros(2, dtype=np.int64)},
        {"observed": np.zeros((1, 5), dtype=np.int64)},
        {"counts": None},
        {"sums": np.full((1, 5), LARGEST_NUMBER + 1)},
        {"sums": np.full((1, 5), -(2**63))},
        {"counts": np.array([2**63 - 1])},
    ],
)
def test_arrays_that_do_not_fit(arrays):
    with pytest.raises(BadMessage):
        decode_release(edited(message_of(PLAN), arrays), PLAN)


def test_ten_thousand_of_the_largest_numbers_add_up():
    assert 10_000 * LARGEST_NUMBER < 2**63


def test_ratings_need_their_observation_counts():
    with refused(BadMessage, "arrays", found="counts, sums", expected="counts, observed, sums"):
        decode_release(edited(message_of(RATINGS), {"observed": None}), RATINGS)


def test_only_named_entities_may_send():
    closed = PLAN.with_(entities=("st-bern", "st-anna"), n_entities=2)
    assert decode_release(message_of(closed), closed).entity == "st-anna"
    with refused(PlanMismatch, "entity", found="st-claire"):
        encode_release(content_of(closed), entity="st-claire", plan=closed)


def test_seeded_or_noiseless_messages_are_for_simulations():
    seeded = content_of(PLAN, rng=1)
    with refused(NotForRealUse, "seeded"):
        encode_release(seeded, entity="st-anna", plan=PLAN)
    with refused(NotForRealUse, "mechanism", found="exact"):
        decode_release(edited(message_of(PLAN), mechanism="exact"), PLAN)
    assert decode_release(message_of(PRETEND, rng=1), PRETEND).content.seeded
    honest = encode_release(replace(content_of(PRETEND)), entity="st-anna", plan=PRETEND)
    assert not decode_release(honest, PRETEND).content.seeded


def test_private_data_decide_the_rows_of_an_exact_message_within_bounds():
    plan = PRETEND.with_(mechanism="exact")
    assert decode_release(message_of(plan), plan).content.n_prototypes == 4
    assert plan.spec.rows is None
    none = {"sums": np.zeros((0, 5), dtype=np.int64), "counts": np.zeros(0, dtype=np.int64)}
    with refused(BadMessage, "counts", expected="1 to 1,000,000"):
        decode_release(edited(message_of(plan), none), plan)


def test_what_is_too_large_is_refused_before_it_is_parsed():
    with refused(BadMessage, "size", expected=f"at most {message_limit(PLAN):,}"):
        decode_release(message_of(PLAN) + bytes(message_limit(PLAN)), PLAN)
    with refused(BadMessage, "data", found="str"):
        decode_release("text", PLAN)  # type: ignore[arg-type]


def test_a_plan_with_many_names_still_fits_the_header():
    names = tuple(f"hospital-{number:04}" for number in range(2_000))
    plan = PLAN.with_(entities=names, n_entities=2_000)
    content = content_of(plan)
    assert decode_release(encode_release(content, entity=names[5], plan=plan), plan).entity == names[5]
    with refused(BadPlan, "entities", expected="40,000"):
        PLAN.with_(entities=tuple(f"{'x' * 58}{number:04}" for number in range(1_000)))


numbers = st.integers(-LARGEST_NUMBER, LARGEST_NUMBER)


@settings(max_examples=60)
@given(
    data=st.data(),
    ratings=st.booleans(),
    entity=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}[A-Za-z0-9_-]", fullmatch=True),
)
def test_any_sound_content_comes_through(data, ratings, entity):
    plan = (RATINGS if ratings else PLAN).with_(simulation=True)
    wanted = plan.spec
    parts = [np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)), dtype=np.int64) for n in (5, 1, 5)]
    content = Prototypes(
        mechanism="popularity",
        sums=parts[0].reshape(1, 5),
        counts=parts[1],
        observed=parts[2].reshape(1, 5) if ratings else None,
        units=wanted.units,
        noise=wanted.noise,
        seeded=data.draw(st.booleans()),
        note=data.draw(st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.just("ε"), max_size=2_000)),
    )
    bytes_ = encode_release(content, entity=entity, plan=plan)
    found = decode_release(bytes_, plan)
    assert found.content.digest() == content.digest()
    assert (found.entity, found.content.note, found.content.seeded) == (entity, content.note, content.seeded)
    assert encode_release(found.content, entity=found.entity, plan=plan) == bytes_
