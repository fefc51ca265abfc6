"""Federation: several entities' ratings in one process, for simulation and evaluation only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers, check_ids, factorize, same_catalog
from twofold.data.ratings import Feedback, Ratings
from twofold.data.read import DuplicateRule, MissingRule, UnknownRule, read_ratings
from twofold.data.tables import open_table
from twofold.errors import DataError, EmptyTable

__all__ = ["Federation", "federation_of_matrix", "read_federation"]


@final
class Federation(Mapping[Any, Ratings]):
    """Entity name to Ratings, all over one catalog. In practice, nobody holds this object.

    Parameters
    ----------
    entities : mapping
        Ratings of each entity, in order.

    Examples
    --------
    >>> catalog = Catalog(["x", "y"])
    >>> ratings = Ratings(sparse.csr_array(np.eye(2)), Identifiers([1, 2]), catalog, "ratings")
    >>> Federation.cut(ratings, ["north", "south"])
    Federation(2 entities of 1 to 1 users, 2 users, 2 of 2 items rated, 2 entries, ratings)
    """

    __slots__ = ("_entities",)

    def __init__(self, entities: Mapping[Any, Ratings]) -> None:
        if not entities:
            raise EmptyTable("a federation needs at least one entity.", parameter="entities")
        if not all(isinstance(ratings, Ratings) for ratings in entities.values()):
            raise DataError("an entity holds Ratings.", fix="read_ratings(...) for each entity", parameter="entities")
        first = next(iter(entities.values()))
        for ratings in entities.values():
            same_catalog(first.catalog, ratings.catalog)
            if ratings.feedback != first.feedback:
                raise DataError(
                    "entities mix ratings and counts.", expected="one kind of feedback", parameter="feedback"
                )
        self._entities: Final = MappingProxyType(dict(entities))

    @classmethod
    def cut(cls, ratings: Ratings, labels: npt.ArrayLike) -> Federation:
        """Cut one table of users into entities by a label per user; entities sorted by label."""
        column = pl.Series(np.asarray(labels))
        if len(column) != ratings.n_users:
            raise DataError("the labels do not match the users.", expected="one label per user", parameter="labels")
        return cls({name: ratings.take(rows) for name, rows in _groups(column)})

    def __getitem__(self, name: Any) -> Ratings:
        found: Ratings = self._entities[name]
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entities)

    def __len__(self) -> int:
        return len(self._entities)

    def __repr__(self) -> str:
        sizes = self.sizes
        return (
            f"Federation({len(self):,} entities of {sizes.min():,} to {sizes.max():,} users, {self.n_users:,} users, "
            f"{self.n_rated_items:,} of {len(self.catalog):,} items rated, {self.n_entries:,} entries, {self.feedback})"
        )

    @property
    def catalog(self) -> Catalog:
        """The one item list of all entities."""
        return next(iter(self.values())).catalog

    @property
    def feedback(self) -> Feedback:
        """The one kind of feedback of all entities."""
        return next(iter(self.values())).feedback

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Users of every entity, in order."""
        return np.array([ratings.n_users for ratings in self.values()], dtype=np.int64)

    @property
    def n_users(self) -> int:
        """Users over all entities."""
        return int(self.sizes.sum())

    @property
    def n_entries(self) -> int:
        """Entries over all entities."""
        return sum(ratings.n_entries for ratings in self.values())

    @property
    def n_rated_items(self) -> int:
        """Items with an entry anywhere."""
        seen = np.zeros(len(self.catalog), dtype=np.bool_)
        for ratings in self.values():
            seen[ratings.matrix.indices] = True
        return int(seen.sum())

    def pooled(self) -> Ratings:
        """All users in one table: forbidden to real entities, needed for comparisons.

        User ids stay as they are if they differ between entities; else they become (entity, id) pairs.
        """
        stacked = sparse.csr_array(sparse.vstack([ratings.matrix for ratings in self.values()], format="csr"))
        stacked.has_canonical_format = True
        ids = [user for ratings in self.values() for user in ratings.user_ids]
        if len(set(ids)) < len(ids):
            ids = [(name, user) for name, ratings in self.items() for user in ratings.user_ids]
        return Ratings(stacked, Identifiers(ids), self.catalog, self.feedback)


def read_federation(
    source: Any,
    catalog: Catalog,
    *,
    entity: str = "entity",
    user: str = "user",
    item: str = "item",
    value: str | None = "value",
    feedback: Feedback = "counts",
    duplicates: DuplicateRule = "error",
    unknown_items: UnknownRule = "error",
    missing: MissingRule = "error",
    value_range: tuple[float, float] | None = None,
    query: str | None = None,
    separator: str = ",",
    encoding: str = "utf-8",
    decimal: str = ".",
) -> Federation:
    """Read the interactions of several entities from one table, for simulation and evaluation.

    Parameters
    ----------
    source, catalog, user, item, value, feedback, duplicates, unknown_items, missing, value_range, query
        As for `read_ratings`.
    separator, encoding, decimal
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
        raise DataError(
            "one column was named for two purposes.",
            found=", ".join(named),
            expected="different columns",
            parameter="entity",
        )
    written = {"separator": separator, "encoding": encoding, "decimal": decimal}
    table = open_table(source, ids=(entity, user, item), value=value, query=query, **written)
    labels = table.pop(entity)
    if len(labels) == 0:
        raise EmptyTable("the table has no rows.", expected="at least one row per user", parameter="source")
    check_ids(labels, entity)
    rules: dict[str, Any] = {"user": user, "item": item, "value": value, "feedback": feedback}
    rules |= {"duplicates": duplicates, "unknown_items": unknown_items, "missing": missing, "value_range": value_range}
    return Federation({name: read_ratings(_rows(table, rows), catalog, **rules) for name, rows in _groups(labels)})


def federation_of_matrix(matrix: Any, labels: Any, catalog: Catalog, *, feedback: Feedback) -> Federation:
    """Cut a matrix of users by items into entities; user ids are the numbers of the rows.

    Parameters
    ----------
    matrix : SciPy sparse matrix of shape (n_users, n_items)
        Columns in the order of the catalog.
    labels : sequence
        Whose user each row is.
    catalog, feedback
        As for `Ratings`.

    Examples
    --------
    >>> made = federation_of_matrix(sparse.eye_array(3), ["b", "a", "b"], Catalog(["x", "y", "z"]), feedback="counts")
    >>> {name: list(ratings.user_ids) for name, ratings in made.items()}
    {'a': [1], 'b': [0, 2]}
    """
    whole = Ratings.from_matrix(matrix, catalog=catalog, feedback=feedback)
    given = [] if isinstance(labels, str) else list(labels)
    if len(given) != whole.n_users:
        raise DataError(
            "a matrix needs the entity of every row.",
            found="a name" if isinstance(labels, str) else "another number of labels than rows",
            expected="one label per row",
            parameter="entity",
        )
    column = pl.Series("entity", given)
    check_ids(column, "entity")
    return Federation({name: whole.take(rows) for name, rows in _groups(column)})


def _rows(table: dict[str, pl.Series], rows: npt.NDArray[np.int64]) -> pl.DataFrame:
    return pl.DataFrame({name: column.gather(pl.Series(rows)) for name, column in table.items()})


def _groups(labels: pl.Series) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
    """Each label, sorted, with the positions that have it."""
    codes, names = factorize(labels)
    cuts = np.cumsum(np.bincount(codes, minlength=len(names)))[:-1]
    return zip(names.to_list(), np.split(np.argsort(codes, kind="stable"), cuts), strict=True)
