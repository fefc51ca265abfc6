"""Events of people at entities, counted and filtered the way a study wants its federation."""

from __future__ import annotations

from numbers import Integral

import polars as pl

from twofold.checks import whole
from twofold.data.catalog import Catalog
from twofold.data.federation import Federation, read_federation
from twofold.errors import DataError, EmptyTable

__all__ = ["counted"]


def counted(
    events: pl.DataFrame, catalog: Catalog, *, least_people: int, least_items: int, least_times: int
) -> Federation:
    """Count each person's events item by item, and keep people and entities that a study can measure.

    Parameters
    ----------
    events : polars.DataFrame
        One row per event: entity, user, item.
    catalog : Catalog
        The public item list.
    least_people : int
        Entities of fewer people are left out.
    least_items : int
        People with fewer items are left out.
    least_times : int
        An item with fewer events of a person is none of that person's.

    Privacy
    -------
    The limits look at the data. They are a study's choice of whom to measure, not a release: an entity in a real
    federation filters nobody, because who is left would tell something about its people.

    Examples
    --------
    >>> events = pl.DataFrame({"entity": ["a", "a", "a", "b"], "user": [1, 1, 2, 3], "item": ["x", "x", "y", "x"]})
    >>> made = counted(events, Catalog(["x", "y"]), least_people=2, least_items=1, least_times=1)
    >>> list(made), made["a"].of(1)
    (['a'], {'x': 2.0})
    """
    for name, number in (("least_people", least_people), ("least_items", least_items), ("least_times", least_times)):
        whole(name, number, kind=Integral, error=DataError)
    entries = events.group_by("entity", "user", "item").len("count").filter(pl.col("count") >= least_times)
    people = entries.group_by("entity", "user").len("items").filter(pl.col("items") >= least_items)
    entities = people.group_by("entity").len("people").filter(pl.col("people") >= least_people)
    kept = entries.join(people, on=["entity", "user"], how="semi").join(entities, on="entity", how="semi")
    if kept.height == 0:
        raise EmptyTable(
            "no entity is left.",
            found=f"limits of {least_people} people, {least_items} items and {least_times} times",
            expected="at least one entity with so many people",
            fix="lower the limits",
            parameter="least_people",
        )
    return read_federation(kept, catalog, value="count", feedback="counts")
