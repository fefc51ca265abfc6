"""Splits: nothing lost, nothing shared, never a user's last entry, repeatable."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from twofold import Catalog, Federation, Ratings, holdout, leave_n_out, recorded_holdout
from twofold.data.catalog import Identifiers
from twofold.errors import DataError

RULES: dict[str, Callable[..., Any]] = {
    "holdout": partial(holdout, users=0.5, entries=3),
    "recorded": partial(recorded_holdout, users=0.7, probability=0.6),
    "leave out": partial(leave_n_out, n=2),
}


def table(lengths: list[int], n_items: int = 9) -> Ratings:
    dense = np.array([[item < length for item in range(n_items)] for length in lengths], dtype=float)
    return Ratings(sparse.csr_array(dense), Identifiers(range(len(lengths))), Catalog(range(n_items)), "ratings")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.sampled_from(sorted(RULES)), st.integers(0, 5))
def test_train_and_test_make_up_the_whole(lengths: list[int], rule: str, seed: int) -> None:
    ratings = table(lengths)
    split = RULES[rule](ratings, rng=seed)
    together = split.train.matrix + split.test.matrix
    assert (together != ratings.matrix).nnz == 0
    assert split.train.n_entries + split.test.n_entries == ratings.n_entries
    assert (split.train.entries_per_user >= np.minimum(lengths, 1)).all()
    assert split.train.user_ids == split.test.user_ids == ratings.user_ids


@pytest.mark.parametrize("rule", RULES)
def test_a_seed_repeats_and_another_differs(rule: str) -> None:
    ratings = table([9] * 40)
    one, same, other = (RULES[rule](ratings, rng=seed).test.digest() for seed in (1, 1, 2))
    assert one == same != other


def test_the_papers_holdout_takes_five_entries_of_a_fifth_of_the_users() -> None:
    taken = holdout(table([9] * 50), rng=0).test.entries_per_user
    assert sorted(taken.tolist()) == [0] * 40 + [5] * 10


def test_users_with_few_entries_keep_one() -> None:
    taken = holdout(table([0, 1, 2, 5, 6]), users=1.0, rng=0).test.entries_per_user
    assert taken.tolist() == [0, 0, 1, 4, 5]


def test_every_entry_is_as_likely_as_any_other() -> None:
    test = holdout(table([9] * 4000), users=1.0, entries=2, rng=0).test
    shares = np.bincount(test.matrix.indices, minlength=9) / 4000
    assert np.abs(shares - 2 / 9).max() < 5 * np.sqrt(2 / 9 * 7 / 9 / 4000)


def test_the_recorded_variant_takes_a_fifth_of_the_ratings_of_a_tenth_of_the_users() -> None:
    taken = recorded_holdout(table([9] * 5000), rng=0).test.entries_per_user
    assert np.count_nonzero(taken) <= 500
    expected = 500 * 9 * 0.2
    assert abs(taken.sum() - expected) < 5 * np.sqrt(500 * 9 * 0.16)


def test_entities_are_split_alone() -> None:
    """An entity's split depends on the seed and its name, not on who else takes part."""
    ratings = table([9] * 30)
    labels = np.array(["north", "south", "west"])[np.arange(30) % 3]
    whole = Federation.cut(ratings, labels)
    fewer = Federation({name: whole[name] for name in ("south", "north")})
    split, again = holdout(whole, rng=4), holdout(fewer, rng=4)
    assert split.test["north"].digest() == again.test["north"].digest()
    assert split.test["north"].entries_per_user.tolist() != split.test["south"].entries_per_user.tolist()
    assert list(split.train) == ["north", "south", "west"]


@pytest.mark.parametrize(
    ("rule", "keywords"),
    [
        (holdout, {"users": 1.5}),
        (holdout, {"entries": 0}),
        (recorded_holdout, {"probability": -1}),
        (leave_n_out, {"n": 0}),
    ],
)
def test_impossible_shares_are_refused(rule: Any, keywords: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        rule(table([3]), rng=0, **keywords)
