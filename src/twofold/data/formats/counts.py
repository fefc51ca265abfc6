"""What formats of events share: a window of time, a statement that a list is public, and counts that become Ratings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

import polars as pl

from twofold.data.catalog import Catalog
from twofold.data.ratings import Notes, Ratings
from twofold.data.read import SANE_RANGE, matched, read_ratings
from twofold.errors import CatalogError, DataError, Set

__all__ = ["EVENTS", "ITEM", "PERSON", "Day", "Window", "count_ratings", "require_public"]

#: Columns of every batch: who, what, and how often.
PERSON: Final = "person"
ITEM: Final = "item"
EVENTS: Final = "events"
Day = str | date


@dataclass(frozen=True)
class Window:
    """Days from `since` to the day before `before`; either may be open. An event without a time is in an open one only.

    Examples
    --------
    >>> Window.of("2025-01-01", "2026-01-01")
    Window(since=datetime.date(2025, 1, 1), before=datetime.date(2026, 1, 1))
    >>> Window.of("2025-01-01", "2024-01-01")
    Traceback (most recent call last):
    twofold.errors.DataError: the window of time is empty...
    """

    since: date | None = None
    before: date | None = None

    @classmethod
    def of(cls, since: Day | None, before: Day | None) -> Window:
        """Read two days, as dates or as YYYY-MM-DD."""
        window = cls(_day(since, "since"), _day(before, "before"))
        if window.since is not None and window.before is not None and window.since >= window.before:
            raise DataError(
                "the window of time is empty.",
                found=f"since {window.since}, before {window.before}",
                expected="since a day that is earlier than the day it ends before",
                parameter="before",
            )
        return window

    @property
    def open(self) -> bool:
        """Whether every event is in it."""
        return self.since is None and self.before is None


def _day(given: Day | None, parameter: str) -> date | None:
    if given is None or (isinstance(given, date) and not isinstance(given, datetime)):
        return given
    try:
        return date.fromisoformat(str(given)[:10] if isinstance(given, datetime) else given)
    except (TypeError, ValueError):
        raise DataError(
            "{parameter} is not a day.",
            expected="a day of the calendar, as 2026-01-31",
            fix=Set(parameter, "2026-01-31"),
            parameter=parameter,
        ) from None


def require_public(public: bool, what: str) -> None:
    """Refuse to make a catalog of a list unless somebody says that the list is public.

    Privacy
    -------
    A list that came with the data may name only what its people have, and then tells which rare disease one of them
    has. No program can see that in the list. Somebody has to know it.
    """
    if not public:
        raise CatalogError(
            f"nobody has said that {what} is public.",
            found="a list that may have been made from people's data: it can then tell what they have",
            expected="a published vocabulary, or the list of a published data set",
            fix=Set("public", True),
            parameter="public",
        )


def count_ratings(batches: Iterable[pl.DataFrame], catalog: Catalog) -> Ratings:
    """Add up batches of counts; what one person has in several batches is that person's.

    Parameters
    ----------
    batches : iterable of polars.DataFrame
        Columns person, item and events.
    catalog : Catalog
        The agreed item list. Events of other items are left out; ``notes`` has their number.

    Privacy
    -------
    Everybody with an event is a user, even if none of their items is in the catalog. Counts beyond ten million are cut
    and not refused.

    Examples
    --------
    >>> batch = pl.DataFrame({"person": [7, 7], "item": ["a", "b"], "events": [2, 1]})
    >>> ratings = count_ratings([batch, batch], Catalog(["a"]))
    >>> ratings.of(7), ratings.notes.rows, ratings.notes.unknown_items_dropped
    ({'a': 4.0}, 6, 2)
    """
    parts = []
    rows = outside = 0
    for batch in batches:
        unknown = pl.Series(matched(batch[ITEM], catalog) < 0)
        rows, outside = rows + int(batch[EVENTS].sum()), outside + int(batch[EVENTS].filter(unknown).sum())
        parts.append(batch.select(PERSON, ITEM, pl.col(EVENTS).clip(upper_bound=int(SANE_RANGE)).cast(pl.Int32)))
    table = pl.concat(parts) if parts else pl.DataFrame(schema=[PERSON, ITEM, EVENTS])
    ratings = read_ratings(
        table, catalog, user=PERSON, item=ITEM, value=EVENTS, feedback="counts", duplicates="sum", unknown_items="drop"
    )
    notes = Notes(rows=rows, unknown_items_dropped=outside)
    return Ratings(ratings.matrix, ratings.user_ids, catalog, "counts", notes)
