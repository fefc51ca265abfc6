"""From one table with an entity column to a federation."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from twofold.data._encode import factorize
from twofold.data._tables import open_table
from twofold.data.catalog import Catalog
from twofold.data.federation import Federation
from twofold.data.identifiers import check_ids
from twofold.data.ratings import Feedback
from twofold.data.read import DuplicateRule, UnknownRule, read_ratings
from twofold.errors import DataError, EmptyTable

__all__ = ["read_federation"]


def read_federation(
    source: Any,
    catalog: Catalog,
    *,
    entity: str = "entity",
    user: str = "user",
    item: str = "item",
    value: str | None = "value",
    feedback: Feedback = "ratings",
    duplicates: DuplicateRule = "error",
    unknown_items: UnknownRule = "error",
    value_range: tuple[float, float] | None = None,
    query: str | None = None,
    separator: str = ",",
) -> Federation:
    """Read the interactions of several entities from one table, for simulation and evaluation.

    Parameters
    ----------
    source, catalog, user, item, value, feedback, duplicates, unknown_items, value_range, query, separator
        As for `read_ratings`.
    entity : str
        Column that says whose row it is. The same user id at two entities means two people.

    Returns
    -------
    Federation
        Entities sorted by label.

    Examples
    --------
    >>> visits = pl.DataFrame({"hospital": ["b", "a"], "user": [1, 1], "item": ["x", "y"], "value": [2, 3]})
    >>> federation = read_federation(visits, Catalog(["x", "y"]), entity="hospital", feedback="counts")
    >>> {name: ratings.of(1) for name, ratings in federation.items()}
    {'a': {'y': 3.0}, 'b': {'x': 2.0}}
    """
    named = [name for name in (entity, user, item, value) if name is not None]
    if len(set(named)) < len(named):
        raise DataError("one column was named for two purposes.", found=", ".join(named), expected="different columns")
    table = open_table(source, ids=(entity, user, item), value=value, query=query, separator=separator)
    labels = table.pop(entity)
    if len(labels) == 0:
        raise EmptyTable("the table has no rows.", expected="at least one row per user")
    check_ids(labels, entity)
    codes, names = factorize(labels)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
    rules: dict[str, Any] = {"user": user, "item": item, "value": value, "feedback": feedback}
    rules |= {"duplicates": duplicates, "unknown_items": unknown_items, "value_range": value_range}
    return Federation(
        {
            name: read_ratings(_rows(table, rows), catalog, **rules)
            for name, rows in zip(names.to_list(), parts, strict=True)
        }
    )


def _rows(table: dict[str, pl.Series], rows: np.ndarray[Any, np.dtype[np.int64]]) -> pl.DataFrame:
    return pl.DataFrame({name: column.gather(pl.Series(rows)) for name, column in table.items()})
