"""Messages to weighted rows: one at a time as well as all at once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadParameter, BadShape
from twofold.release import Prototypes, ReleaseParameters, mechanism
from twofold.release import combine as combine_module
from twofold.release.combine import added_up, joined, stacked, weighted_rows
from twofold.release.content import WeightedRows

PUBLIC = ReleaseParameters(n_items=6, n_users=1000, max_items=3, bound=5, n_prototypes=3, epsilon=9, n_entities=4)
RATED = PUBLIC.with_(feedback="ratings", lower=1, centre=3)


def messages(name: str, public: ReleaseParameters) -> list[Prototypes]:
    rows = [np.random.default_rng(seed).integers(0, 6, (40, 6)) for seed in range(4)]
    return [mechanism(name).release(one, public, rng=seed).value for seed, one in enumerate(rows)]


def same(one: WeightedRows, two: WeightedRows) -> bool:
    names = ("values", "row_weights", "noise", "sizes", "entry_weights")
    pairs = [(getattr(one, name), getattr(two, name)) for name in names]
    return all(a is b is None or np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("public", [PUBLIC, RATED], ids=["counts", "ratings"])
def test_rows_of_one_message_at_a_time_are_those_of_all(public: ReleaseParameters) -> None:
    parts = messages("sulq", public)
    whole = weighted_rows(parts, public)
    assert same(joined([weighted_rows([one], public) for one in parts]), whole)
    assert same(joined([whole]), whole)


@pytest.mark.parametrize("public", [PUBLIC, RATED], ids=["counts", "ratings"])
@pytest.mark.parametrize("combine", [stacked, added_up])
def test_any_order_gives_identical_rows_and_an_iterator_will_do(combine: object, public: ReleaseParameters) -> None:
    parts = messages("buckets", public)
    expected = combine(parts, public)  # type: ignore[operator]
    for order in itertools.islice(itertools.permutations(parts), 0, None, 5):
        assert same(combine(iter(order), public), expected)  # type: ignore[operator]


@pytest.mark.parametrize("columns", [1, 4, 6, 100])
@pytest.mark.parametrize("l2", [True, False])
def test_norms_are_the_same_however_many_columns_are_taken_at_a_time(
    columns: int, l2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combine_module, "_COLUMNS", columns)
    table = np.random.default_rng(0).integers(-(2**50), 2**50, (3, 6))
    expected = np.linalg.norm(table.astype(np.float64), ord=2 if l2 else 1, axis=1)
    np.testing.assert_allclose(combine_module._norms(table, l2=l2), expected, rtol=1e-14)


def test_nothing_to_combine_is_refused() -> None:
    for combine in (stacked, added_up):
        with refused(BadParameter, "messages"):
            combine([], PUBLIC)


def test_other_items_or_another_kind_of_feedback_are_refused() -> None:
    one = messages("kmeans", PUBLIC)[0]
    with pytest.raises(BadShape):
        stacked([one], PUBLIC.with_(n_items=7))
    with refused(BadParameter, "feedback", expected="ratings"):
        added_up([one], RATED)


@pytest.mark.parametrize("public", [PUBLIC, RATED], ids=["counts", "ratings"])
@pytest.mark.parametrize("combine", [stacked, added_up])
def test_a_liar_among_them_changes_nothing_about_the_order(combine: object, public: ReleaseParameters) -> None:
    parts = messages("buckets", public)
    parts[2] = replace(parts[2], sums=parts[2].sums * 10**9, counts=parts[2].counts * 10**7)
    expected = combine(parts, public)  # type: ignore[operator]
    assert same(combine(parts[::-1], public), expected)  # type: ignore[operator]


def test_one_liar_does_not_decide_how_many_users_there_are() -> None:
    parts = messages("popularity", PUBLIC)
    liar = replace(parts[0], counts=np.full_like(parts[0].counts, 10**14), sums=np.full_like(parts[0].sums, 10**14))
    room = 21 * parts[0].noise.counts
    for combine in (stacked, added_up):
        assert combine([*parts, liar], PUBLIC).sizes.sum() < 100 * PUBLIC.n_users + 160 + 5 * room


def test_more_messages_than_add_up_are_refused() -> None:
    one = messages("popularity", PUBLIC)[0]
    assert added_up([one] * 50, PUBLIC).n_rows == 1
    with refused(BadParameter, "messages", expected="at most 10,000"):
        added_up(itertools.repeat(one, 10_001), PUBLIC)
