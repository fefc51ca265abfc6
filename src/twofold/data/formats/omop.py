"""OMOP, the common data model of OHDSI (5.3 and 5.4): counts of drugs, measurements, procedures and conditions.

The database counts, by person and concept, and sends its answer in batches. It is asked to read only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import polars as pl

from twofold.data.catalog import Catalog
from twofold.data.features import class_features
from twofold.data.formats.counts import EVENTS, ITEM, PERSON, Day, Window, count_ratings, require_public
from twofold.data.formats.database import Database, dialect_of, open_database
from twofold.data.formats.omop_sql import Question, classes_of
from twofold.data.ratings import Ratings
from twofold.errors import BadIdentifier, CatalogError, DataError, Set, TwofoldError, UnreadableSource
from twofold.features import Features

__all__ = ["batches", "omop_catalog", "omop_features", "omop_sql", "read_omop"]

Tables = Sequence[str] | Mapping[str, str | None]
DRUGS: Final = ("drug_exposure",)
#: Items of one statement: databases limit the length of a list.
_ABREAST: Final = 500
#: Whole numbers up to this are exact as floating-point numbers.
_LARGEST: Final = 2**53


def read_omop(
    source: Any,
    catalog: Catalog,
    *,
    tables: Tables = DRUGS,
    since: Day | None = None,
    before: Day | None = None,
    care_site: int | None = None,
    people: str | None = None,
    schema: str | None = None,
    vocabulary: str | None = None,
) -> Ratings:
    """Read an OMOP database: how often each person has each concept of the catalog.

    Privacy
    -------
    Nothing leaves. A person is a ``person_id`` with at least one row in the chosen tables and the window; rows without
    a visit count like others, unless a care site is chosen. Somebody in the table ``person`` without such a row adds
    nothing to any release, so leaving them out changes none. Errors hold no URL and no text of a driver.

    Parameters
    ----------
    source : str, Path, engine or connection
        A SQLite or DuckDB file, a URL for SQLAlchemy, an engine or connection of SQLAlchemy, or a connection of sqlite3
        or DuckDB. Files are opened for reading only; nothing is ever committed.
    catalog : Catalog
        The agreed list of concept ids; `omop_catalog` makes one. Rows of other concepts are left out; ``notes`` has
        their number.
    tables : sequence or mapping
        Among drug_exposure, measurement, procedure_occurrence and condition_occurrence. A mapping says to which class
        of concepts each is rolled up by ``concept_ancestor``: ``{"drug_exposure": "ATC 3rd", "measurement": None}``.
        Without one, drugs are rolled up to ``Ingredient`` and all others counted as recorded. ``Ingredient|CVX`` names
        two classes. A drug with two ingredients counts for both; a concept with no ancestor of the class counts as
        recorded.
    since, before : date or str, optional
        Count only rows from the first day on, and before the second. Rows without a date are then left out.
    care_site : int, optional
        The entity is this care site: only rows of visits there.
    people : str, optional
        The entity is these people: a SELECT that gives their person_id.
    schema, vocabulary : str, optional
        Schemas of the tables of events and of the vocabulary, if they are not the default ones.

    Returns
    -------
    Ratings
        Counts.

    Raises
    ------
    UnreadableSource
        A wrong URL, or a table that is not there or not for this account.
    CatalogError
        The vocabulary has no concepts of a class, or the catalog does not hold concept ids.

    Examples
    --------
    >>> import sqlite3
    >>> cdm = sqlite3.connect(":memory:")
    >>> _ = cdm.execute("CREATE TABLE measurement (person_id INTEGER, measurement_concept_id INTEGER)")
    >>> _ = cdm.executemany("INSERT INTO measurement VALUES (?, ?)", [(7, 3016723), (7, 3016723), (8, 3004249)])
    >>> read_omop(cdm, Catalog([3016723]), tables=["measurement"]).of(7)
    {3016723: 2.0}
    """
    if catalog.items.kind != "integer":
        raise CatalogError(
            "the catalog does not hold OMOP concepts.",
            found=f"ids of type {catalog.items.kind}",
            expected="concept ids, which are whole numbers",
            parameter="catalog",
        )
    given = {"care_site": care_site, "people": people, "schema": schema, "vocabulary": vocabulary}
    return count_ratings(batches(source, tables=tables, since=since, before=before, **given), catalog)


def batches(
    source: Any, *, tables: Tables = DRUGS, since: Day | None = None, before: Day | None = None, **given: Any
) -> Iterator[pl.DataFrame]:
    """Give frames with the columns person, item and events; a person may be in several. See `read_omop`."""
    question = _question(source, tables, since, before, given)
    with open_database(source) as database:
        _probe(database, question.needed())
        for level in question.classes():
            _require_class(database, question, level)
        for table in question.tables:
            for batch in _asked(database, question.counts(table), table):
                yield pl.DataFrame([_whole(batch[PERSON]), _whole(batch[ITEM]), batch[EVENTS].cast(pl.Int64)])


def omop_sql(
    source: Any, *, tables: Tables = DRUGS, since: Day | None = None, before: Day | None = None, **given: Any
) -> list[str]:
    """Give the statements that `read_omop` would send for its counts, without sending one.

    Parameters
    ----------
    source : str, Path, engine or connection
        As for `read_omop`; it tells the dialect.
    tables, since, before
        As for `read_omop`.
    **given
        The other settings of `read_omop`.

    Examples
    --------
    >>> print(*omop_sql("postgresql://cdm", tables=["condition_occurrence"], since="2025-01-01", schema="cdm"))
    SELECT e.person_id AS person, COALESCE(e.condition_concept_id, 0) AS item, COUNT(*) AS events
    FROM cdm.condition_occurrence e
    WHERE e.condition_start_date >= CAST('2025-01-01' AS DATE)
    GROUP BY e.person_id, COALESCE(e.condition_concept_id, 0)
    """
    return _question(source, tables, since, before, given).statements()


def omop_catalog(
    source: Any,
    *,
    tables: Tables = DRUGS,
    schema: str | None = None,
    vocabulary: str | None = None,
    public: bool = False,
) -> Catalog:
    """Make a catalog from the vocabulary: the concepts of a class, or all standard concepts of a table's domain.

    Privacy
    -------
    Reads the table ``concept`` and no table of people. The vocabulary that OHDSI distributes is public. A database may
    hold only the part of it that its people need, as GiBleed does, and that part is made from their data: say `public`
    of a whole vocabulary, or of a published database.

    Parameters
    ----------
    source, tables, schema, vocabulary
        As for `read_omop`: a catalog made with the same `tables` holds the items that it counts.
    public : bool
        That the vocabulary in this database is public. Without it there is an error.

    Returns
    -------
    Catalog
        Concept ids in order, with title, vocabulary, code and kind.
    """
    require_public(public, "the vocabulary in this database")
    question = _question(source, tables, None, None, {"schema": schema, "vocabulary": vocabulary})
    with open_database(source) as database:
        _probe(database, question.needed_vocabulary()[:1])
        parts = [
            batch.with_columns(_whole(batch[ITEM]), pl.col("title", "vocabulary", "code", "kind").cast(pl.String))
            for table in question.tables
            for batch in _asked(database, question.concepts(table), "concept")
        ]
    if not any(part.height for part in parts):
        raise _no_concepts("concepts of these tables and classes")
    listed = pl.concat(parts).unique(ITEM, keep="any").sort(ITEM)
    return Catalog(listed[ITEM], listed.drop(ITEM))


def omop_features(
    source: Any,
    catalog: Catalog,
    classes: Sequence[str],
    *,
    schema: str | None = None,
    vocabulary: str | None = None,
) -> Features:
    """Make a public table of features from the vocabulary: the classes above every item.

    Privacy
    -------
    Reads ``concept`` and ``concept_ancestor``, no table of people. The catalog is public, and what the vocabulary says
    of its items is.

    Parameters
    ----------
    source, schema, vocabulary
        As for `read_omop`.
    catalog : Catalog
        Concept ids.
    classes : sequence of str
        Classes of concepts (``concept_class_id``): ``ATC 1st`` to ``ATC 5th`` for drugs, ``LOINC Class`` or
        ``LOINC Hierarchy`` for laboratory tests, ``Disorder`` or ``Clinical Finding`` for conditions.

    Returns
    -------
    Features
        A column for every class that any item has, called by its code and name. At most 512.

    Raises
    ------
    CatalogError
        The vocabulary has no concept of a class, or none above an item.
    """
    named = [classes] if isinstance(classes, str) else list(classes)
    question = _question(source, DRUGS, None, None, {"schema": schema, "vocabulary": vocabulary})
    if not named or catalog.items.kind != "integer":
        raise DataError(
            "features need classes, and a catalog of concept ids.",
            found=f"{len(named)} classes, ids of type {catalog.items.kind}",
            fix=Set("classes", "ATC 3rd"),
            parameter="classes",
        )
    items = list(catalog.items)
    words: list[list[str]] = [[] for _ in items]
    with open_database(source) as database:
        _probe(database, question.needed_vocabulary())
        for level in named:
            _require_class(database, question, level)
        for start in range(0, len(items), _ABREAST):
            for batch in _asked(database, question.ancestors(items[start : start + _ABREAST], named), "concept"):
                places = catalog.items.encode(_whole(batch[ITEM])).tolist()
                for place, code, name in zip(places, batch["code"], batch["name"], strict=True):
                    words[place].append(f"{code} {name}".replace("|", "/"))
    if not any(words):
        raise _no_concepts(f"ancestors of the items among {', '.join(named)}")
    return class_features(words)


def _question(source: Any, tables: Tables, since: Day | None, before: Day | None, given: dict[str, Any]) -> Question:
    return Question(tables=classes_of(tables), window=Window.of(since, before), dialect=dialect_of(source), **given)


def _whole(column: pl.Series) -> pl.Series:
    """Ids as whole numbers: SQLite and some exports keep them as 573.0. Two ids never become one."""
    if column.dtype.is_integer() or column.dtype == pl.Null:
        return column.cast(pl.Int64)
    if column.dtype.is_float() or column.dtype.is_decimal():
        numbers = column.cast(pl.Float64)
        if ((numbers == numbers.round()) & (numbers.abs() <= _LARGEST)).all():
            return numbers.cast(pl.Int64)
    raise BadIdentifier(
        f"the {column.name} ids of this database are not whole numbers.",
        found=f"type {column.dtype.base_type().__name__}",
        expected="integers, as OMOP has them",
        parameter=column.name,
    )


def _probe(database: Database, tables: Sequence[str]) -> None:
    """Find out whether tables can be read, before anything is counted."""
    for name in tables:
        for _ in _asked(database, f"SELECT COUNT(*) AS tried FROM {name} WHERE 1 = 0", name):
            pass


def _require_class(database: Database, question: Question, level: str) -> None:
    found = sum(int(batch["concepts"].sum()) for batch in _asked(database, question.known(level), "concept"))
    if not found:
        raise _no_concepts(f"concepts of class {level}")


def _no_concepts(what: str) -> CatalogError:
    return CatalogError(
        f"the vocabulary of this database has no {what}.",
        expected="the vocabularies of OHDSI in the tables concept and concept_ancestor",
        fix=("load them (athena.ohdsi.org)", "choose another class, or none: then concepts count as recorded"),
        parameter="tables",
    )


@contextmanager
def _our_errors(table: str) -> Iterator[None]:
    try:
        yield
    except (TwofoldError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:  # polars' panics, too; a driver's text may quote rows, or the password of a URL
        raise UnreadableSource(
            f"the database did not answer for the table {table}.",
            found=type(error).__name__,
            expected=f"a table or view {table} of OMOP 5.3 or 5.4 that this account may read",
            fix=("ask for the right to read it", Set("schema", "cdm"), Set("show_sql", True)),
            parameter="source",
        ) from None


def _asked(database: Database, sql: str, table: str) -> Iterator[pl.DataFrame]:
    answer = database.stream(sql)
    while True:
        with _our_errors(table):
            batch = next(answer, None)
        if batch is None:
            return
        yield batch.rename(str.lower)
