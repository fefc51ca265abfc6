"""A window of time, a statement that a list is public, and counts that become Ratings."""

from __future__ import annotations

from datetime import date, datetime

import polars as pl
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.data.formats.counts import Window, count_ratings, require_public
from twofold.errors import BadIdentifier, CatalogError, DataError


def batch(person: list[int | None], item: list[object], events: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"person": person, "item": item, "events": events})


def test_a_window_takes_days_in_any_form() -> None:
    assert (
        Window.of("2025-02-03", None) == Window.of(date(2025, 2, 3), None) == Window.of(datetime(2025, 2, 3, 9), None)
    )
    assert Window.of(None, None).open
    assert not Window.of(None, "2025-01-01").open


@pytest.mark.parametrize("day", ["2025-13-01", "2025-02-30", "yesterday", "", 20250101])
def test_a_day_that_is_not_in_the_calendar_is_refused(day: str) -> None:
    with refused(DataError, "since"):
        Window.of(day, None)


@pytest.mark.parametrize("before", ["2025-01-01", "2024-12-31"])
def test_an_empty_window_is_refused(before: str) -> None:
    with refused(DataError, "before", found="2025-01-01"):
        Window.of("2025-01-01", before)


def test_a_list_is_public_only_if_somebody_says_so() -> None:
    require_public(True, "the list")
    with refused(CatalogError, "public"):
        require_public(False, "the list")


def test_a_person_in_several_batches_is_one() -> None:
    ratings = count_ratings([batch([7], ["a"], [2]), batch([8, 7], ["a", "a"], [1, 3])], Catalog(["a", "b"]))
    assert list(ratings.user_ids) == [7, 8]
    assert ratings.of(7) == {"a": 5.0}


def test_somebody_with_other_items_only_is_a_user_without_entries() -> None:
    ratings = count_ratings([batch([7, 8], ["a", "z"], [2, 5])], Catalog(["a"]))
    assert ratings.of(8) == {}
    assert (ratings.notes.rows, ratings.notes.unknown_items_dropped) == (7, 5)


def test_nobody_at_all_is_an_entity_like_any_other() -> None:
    empty = batch([], [], []).cast({"person": pl.Int64, "item": pl.String, "events": pl.Int64})
    for batches in ([], [empty], [empty, empty]):
        ratings = count_ratings(batches, Catalog(["a"]))
        assert (ratings.n_users, ratings.feedback) == (0, "counts")


def test_a_huge_count_is_cut_and_not_refused() -> None:
    assert count_ratings([batch([7], ["a"], [10**12])], Catalog(["a"])).of(7) == {"a": 1e7}


def test_a_row_without_a_person_is_refused() -> None:
    with refused(BadIdentifier, "person"):
        count_ratings([batch([None, 7], ["a", "a"], [1, 1])], Catalog(["a"]))


@pytest.mark.parametrize("catalog", [Catalog(["b", "a"]), Catalog([17, 4])])
def test_items_of_the_type_enum_are_looked_up_by_name(catalog: Catalog) -> None:
    names = [*catalog.items.texts(), "other"]
    kind = pl.Enum(names[::-1])
    counts = batch([7, 7, 8], names, [1, 2, 3]).cast({"item": kind})
    ratings = count_ratings([counts, counts], catalog)
    assert ratings.of(7) == {catalog.items[0]: 2.0, catalog.items[1]: 4.0}
    assert ratings.of(8) == {}


def test_text_and_whole_numbers_of_items_match_by_their_text() -> None:
    assert count_ratings([batch([7], ["17"], [1])], Catalog([17])).of(7) == {17: 1.0}
