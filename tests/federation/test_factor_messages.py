"""Round 2: item factors as bytes and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refused import refused
from tests.totals import totals_of
from twofold.errors import BadMessage, BadNumber, BadShape, FactorsChanged, NotForRealUse, PlanMismatch
from twofold.federation.factors import (
    ItemFactors,
    decode_factors,
    encode_factors,
    factors_limit,
    load_factors,
    save_factors,
)
from twofold.federation.messages import read_header
from twofold.federation.plan import CatalogKey, Plan
from twofold.storage.container import open_container, pack_sealed, unpack

PLAN = Plan(catalog=CatalogKey(hash="a" * 64, n_items=5), feedback="counts", bound=5, max_items=2, rank=4)

GRAM = PLAN.with_(mechanism="gram")


def factors_of(plan: Plan = PLAN, rank: int = 3, seed: int = 0, **changes: object) -> ItemFactors:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(rank, rank))
    made = ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        factors=rng.random((5, rank), dtype=np.float32),
        moments=half @ half.T,
        means=rng.normal(size=5),
        support=rng.random(5),
        users=12.5,
        entities=3,
        private=not plan.simulation,
        note="rank lowered to 3: ε is small",
    )
    return replace(made, **changes)


def edited(data: bytes, arrays: dict[str, object] | None = None, **changes: object) -> bytes:
    container = open_container(data)
    kept = unpack(data, container, container.layouts) | (arrays or {})
    return pack_sealed(container.record | changes, {name: array for name, array in kept.items() if array is not None})


def test_factors_come_through_whole():
    made = factors_of()
    data = encode_factors(made, PLAN)
    found = decode_factors(data, PLAN)
    assert found.hash == made.hash
    assert (found.users, found.entities, found.private, found.note) == (12.5, 3, True, made.note)
    assert encode_factors(found, PLAN) == data
    assert len(data) <= factors_limit(PLAN)
    assert read_header(data).entity is None


def test_no_name_of_an_entity_is_in_it():
    plan = PLAN.with_(entities=())
    assert b"entity" not in encode_factors(factors_of(plan), plan).replace(b"n_entities", b"")


def test_files(tmp_path):
    save_factors(factors_of(), tmp_path / "items.round2", PLAN)
    assert load_factors(tmp_path / "items.round2", PLAN).hash == factors_of().hash


def test_factors_of_another_plan_are_named():
    other = PLAN.with_(n_prototypes=2)
    with refused(PlanMismatch, "plan", found=f"n_prototypes is 2, here {PLAN.n_prototypes}"):
        decode_factors(encode_factors(factors_of(other), other), PLAN)
    with refused(PlanMismatch, "plan", found=other.hash[:12], expected=PLAN.hash[:12]):
        encode_factors(factors_of(other), PLAN)


def test_what_is_not_private_is_for_simulations_only():
    with pytest.raises(NotForRealUse):
        encode_factors(factors_of(private=False), PLAN)
    pretend = PLAN.with_(simulation=True)
    assert not decode_factors(encode_factors(factors_of(pretend), pretend), pretend).private
    with refused(BadMessage, "private"):
        encode_factors(factors_of(pretend, private=True), pretend)


@pytest.mark.parametrize(
    ("arrays", "changes"),
    [
        ({"factors": np.full((5, 3), -1, dtype=np.float32)}, {}),
        ({"factors": np.ones((5, 3))}, {}),
        ({"factors": np.ones((4, 3), dtype=np.float32)}, {}),
        ({"factors": np.ones((5, 5), dtype=np.float32), "moments": np.eye(5)}, {}),
        ({"factors": np.ones((5, 0), dtype=np.float32), "moments": np.ones((0, 0))}, {}),
        ({"factors": np.ones(5, dtype=np.float32)}, {}),
        ({"factors": None}, {}),
        ({"factors": np.full((5, 3), np.nan, dtype=np.float32)}, {}),
        ({"moments": np.array([[1.0, 2, 3], [0, 1, 0], [0, 0, 1]])}, {}),
        ({"moments": np.full((3, 3), np.inf)}, {}),
        ({"means": np.full(5, np.nan)}, {}),
        ({"moments": -np.eye(3)}, {}),
        ({"moments": np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]])}, {}),
        ({"moments": np.eye(3) * 1e21}, {}),
        ({"moments": np.full((3, 3), 1.7e308)}, {}),
        ({"factors": np.full((5, 3), 1e10, dtype=np.float32)}, {}),
        ({"means": np.full(5, -1e10)}, {}),
        ({"means": np.full(5, 1.7e308)}, {}),
        ({"support": np.full(5, 1.1e15)}, {}),
        ({}, {"users": 1.1e15}),
        ({"support": -np.ones(5)}, {}),
        ({"support": np.ones(6)}, {}),
        ({"extra": np.ones(6)}, {}),
        ({}, {"users": -1}),
        ({}, {"users": "many"}),
        ({}, {"users": True}),
        ({}, {"entities": -1}),
        ({}, {"entities": 1.5}),
        ({}, {"entities": 10**12}),
        ({}, {"private": 1}),
        ({}, {"note": None}),
        ({}, {"schema": "twofold.prototypes/1"}),
        ({}, {"schema": "twofold.factors/9"}),
    ],
)
def test_what_is_not_sound_is_refused(arrays, changes):
    with pytest.raises(BadMessage):
        decode_factors(edited(encode_factors(factors_of(), PLAN), arrays, **changes), PLAN)


def test_large_numbers_within_the_limits_come_through():
    """Noise takes honest means far outside the bounds; the limits grow with the plan's values."""
    large = factors_of(
        means=np.full(5, -4e9),
        factors=np.full((5, 3), 4e9, dtype=np.float32),
        moments=np.full((3, 3), 1e19),
        support=np.full(5, 1e15),
        users=1e15,
    )
    assert decode_factors(encode_factors(large, PLAN), PLAN).hash == large.hash
    wide = PLAN.with_(lower=-1e6)
    assert encode_factors(factors_of(wide, means=np.full(5, 1e14)), wide)
    with refused(BadMessage, "means", expected="5e+09"):
        encode_factors(factors_of(means=np.full(5, 1e14)), PLAN)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e18])
def test_moments_without_full_rank_come_through_at_any_size(size):
    moments = size * np.outer([1.0, 2, 3], [1.0, 2, 3])
    assert encode_factors(factors_of(moments=moments), PLAN)


def test_moments_may_differ_by_rounding():
    moments = np.array(factors_of().moments)
    moments[0, 1] *= 1 + 1e-12
    assert decode_factors(edited(encode_factors(factors_of(), PLAN), {"moments": moments}), PLAN).rank == 3


def with_totals(**changes: object) -> ItemFactors:
    second = {"patterns": np.eye(5, 2, dtype=np.float32), "strengths": np.ones(2), "squares": np.ones(5)}
    return factors_of(GRAM, **(second | {"totals": totals_of(5)} | changes))


def test_totals_come_through_in_single_precision_and_are_part_of_the_hash():
    made = with_totals()
    data = encode_factors(made, GRAM)
    found = decode_factors(data, GRAM)
    assert found.hash == made.hash
    assert encode_factors(found, GRAM) == data
    assert len(data) <= factors_limit(GRAM)
    np.testing.assert_array_equal(found.totals.sums, totals_of(5).sums)
    np.testing.assert_array_equal(found.totals.pairs, totals_of(5).pairs.astype(np.float32))
    np.testing.assert_array_equal(found.totals.pairs, found.totals.pairs.T)
    for name in (
        "kind",
        "users",
        "users_noise",
        "sums_noise",
        "pairs_noise",
        "cap",
        "weight_per_user",
        "entities",
        "seeded",
    ):
        assert getattr(found.totals, name) == getattr(totals_of(5), name)
    for name in ("users", "users_noise", "sums_noise", "pairs_noise", "weight_per_user", "entities", "sums", "pairs"):
        other = replace(made.totals, **{name: getattr(made.totals, name) + 1})
        with pytest.raises(FactorsChanged):
            with_totals(totals=other).check_unchanged(made.hash)
    with pytest.raises(FactorsChanged):
        with_totals(totals=None).check_unchanged(made.hash)


def test_totals_cannot_be_written_to_and_the_given_ones_stay_free():
    given = totals_of(5)
    made = with_totals(totals=given)
    for part in (made.totals.sums, made.totals.pairs):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1
    given.sums[0], given.pairs[0, 0] = 7, 7
    made.check_unchanged(with_totals().hash)


def test_the_limit_has_room_for_the_totals_and_no_more_than_that():
    ratings = GRAM.with_(feedback="ratings", lower=1, centre=3)
    assert factors_limit(GRAM) - factors_limit(ratings) == 8 * 5 + 4 * 15


def test_totals_are_there_for_a_gram_of_counts_and_for_nothing_else():
    with pytest.raises(BadMessage):
        encode_factors(with_totals(totals=None), GRAM)
    with pytest.raises(BadMessage):
        encode_factors(factors_of(totals=totals_of(5)), PLAN)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "sketch"},
        {"observed": np.zeros(5)},
        {"sums": np.zeros(4), "pairs": np.zeros((4, 4))},
        {"sums": np.full(5, np.nan)},
        {"pairs": np.full((5, 5), 1e39)},
        {"users": np.inf},
    ],
)
def test_totals_that_do_not_fit_are_refused(changes):
    with pytest.raises((BadShape, BadNumber)):
        with_totals(totals=totals_of(5, **changes))


NUMBERS = ("users", "users_noise", "sums_noise", "pairs_noise", "weight_per_user")
SAID = dict.fromkeys(NUMBERS, 1.0) | {"entities": 3, "seeded": False}


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"total_sums": None}, {}),
        ({"total_pairs": None}, {}),
        ({"total_sums": np.ones(4)}, {}),
        ({"total_sums": np.ones(5, dtype=np.float32)}, {}),
        ({"total_sums": np.full(5, np.inf)}, {}),
        ({"total_sums": np.full(5, 1e25)}, {}),
        ({"total_pairs": np.ones(15)}, {}),
        ({"total_pairs": np.ones(14, dtype=np.float32)}, {}),
        ({"total_pairs": np.ones((5, 5), dtype=np.float32)}, {}),
        ({"total_pairs": np.full(15, np.nan, dtype=np.float32)}, {}),
        ({"total_pairs": np.full(15, -2e24, dtype=np.float32)}, {}),
        ({}, {"users": 1e25}),
        ({}, {"users": "many"}),
        *(
            ({}, {name: bad})
            for name in ("users_noise", "sums_noise", "pairs_noise")
            for bad in (0.0, -1.0, 1e25, None)
        ),
        *(({}, {"weight_per_user": bad}) for bad in (-1.0, 1e16, None)),
        ({}, {"entities": 0}),
        ({}, {"entities": 1.5}),
        ({}, {"entities": 10**12}),
        ({}, {"seeded": True}),
        ({}, {"seeded": 0}),
    ],
)
def test_totals_that_are_not_sound_are_refused(arrays, said):
    data = encode_factors(with_totals(), GRAM)
    assert decode_factors(edited(data, totals=SAID), GRAM).totals.users == 1
    with pytest.raises(BadMessage):
        decode_factors(edited(data, arrays, totals=SAID | said), GRAM)


@pytest.mark.parametrize("totals", [None, 5, [], {}])
def test_a_message_that_says_nothing_of_its_totals_is_refused(totals):
    with pytest.raises(BadMessage):
        decode_factors(edited(encode_factors(with_totals(), GRAM), totals=totals), GRAM)


def test_factors_cannot_be_written_to_and_a_change_is_seen():
    found = decode_factors(encode_factors(factors_of(), PLAN), PLAN)
    with pytest.raises(ValueError, match="read-only"):
        found.factors[0, 0] = 1
    found.check_unchanged(factors_of().hash)
    with pytest.raises(FactorsChanged):
        found.check_unchanged(factors_of(seed=1).hash)


def test_parts_that_do_not_fit_together():
    with pytest.raises(BadShape):
        factors_of(means=np.ones(4))
    with pytest.raises(BadNumber):
        factors_of(users=float("nan"))


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(0, 10**6), st.floats(0, 1e12), st.integers(0, 10**6))
def test_any_sound_factors_come_through(rank, seed, users, entities):
    made = factors_of(rank=rank, seed=seed, users=users, entities=entities)
    data = encode_factors(made, PLAN)
    assert decode_factors(data, PLAN).hash == made.hash
    assert encode_factors(decode_factors(data, PLAN), PLAN) == data


def test_a_plan_of_any_numbers_does_not_allow_a_message_of_any_size():
    """The limit grew with the rank and length that a stranger's plan says."""
    wide = Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=10_000_000), feedback="counts", bound=5, max_items=2, rank=10**12
    )
    assert factors_limit(wide) <= 1024**3
