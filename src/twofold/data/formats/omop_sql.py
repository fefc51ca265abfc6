"""The SQL that is sent to an OMOP database: only SELECT, in words that all common databases know.

Tables and columns: https://ohdsi.github.io/CommonDataModel/cdm54.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

from twofold.data.formats.counts import EVENTS, ITEM, PERSON, Window
from twofold.errors import DataError

__all__ = ["TABLES", "Question", "classes_of"]


class EventTable(NamedTuple):
    """A table of events: its columns of concepts and days, the domain of its concepts, and their class by default."""

    concept: str
    day: str
    domain: str
    level: str | None


TABLES: Final = {
    "drug_exposure": EventTable("drug_concept_id", "drug_exposure_start_date", "Drug", "Ingredient"),
    "measurement": EventTable("measurement_concept_id", "measurement_date", "Measurement", None),
    "procedure_occurrence": EventTable("procedure_concept_id", "procedure_date", "Procedure", None),
    "condition_occurrence": EventTable("condition_concept_id", "condition_start_date", "Condition", None),
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_CLASS: Final = re.compile(r"[\w .,/+&()-]{1,40}")


def classes_of(tables: Sequence[str] | Mapping[str, str | None]) -> dict[str, str | None]:
    """Tables to the class of concept that their items have; None takes concepts as they are recorded.

    Examples
    --------
    >>> classes_of(["drug_exposure", "measurement"])
    {'drug_exposure': 'Ingredient', 'measurement': None}
    >>> classes_of({"drug_exposure": "ATC 3rd"})
    {'drug_exposure': 'ATC 3rd'}
    """
    names = [tables] if isinstance(tables, str) else list(tables)
    unknown = [name for name in names if name not in TABLES]
    if unknown or not names:
        raise DataError(
            "{parameter} names no table of events.",
            found=f"{str(unknown[0])[:30]}" if unknown else "nothing",
            expected=", ".join(TABLES),
            parameter="tables",
        )
    levels = dict(tables) if isinstance(tables, Mapping) else {name: TABLES[name].level for name in names}
    for level in levels.values():
        if level is not None:
            for one in _split(level):
                _check(_CLASS, one, "tables", "a concept_class_id, such as Ingredient or ATC 3rd")
    return levels


def _split(level: str) -> list[str]:
    return [one.strip() for one in level.split("|")]


def _limit(level: str, prefix: str = "") -> str:
    """The condition for concepts of one or several classes, standard or for classification."""
    named = ", ".join(f"'{one}'" for one in _split(level))
    return f"{prefix}concept_class_id IN ({named}) AND {prefix}standard_concept IN ('S', 'C')"


def _check(pattern: re.Pattern[str], text: object, parameter: str, expected: str) -> None:
    if not isinstance(text, str) or pattern.fullmatch(text) is None:
        raise DataError("{parameter} cannot be used.", expected=expected, parameter=parameter)


@dataclass(frozen=True, kw_only=True)
class Question:
    """Everything that shapes the SQL; checked, so that no part can end a statement and begin another.

    Parameters
    ----------
    tables : mapping
        Table to the class its concepts are rolled up to, or None.
    window : Window
        Days that count.
    care_site : int, optional
        Only events of visits at this site.
    people : str, optional
        A SELECT that gives the person_id of the people who count.
    schema, vocabulary : str, optional
        Schemas of the tables of events and of the vocabulary; the latter is the former by default.
    dialect : str
        SQLite has no dates: they may be text, or seconds since 1970.

    Examples
    --------
    >>> print(Question(tables={"measurement": None}).counts("measurement"))
    SELECT e.person_id AS person, COALESCE(e.measurement_concept_id, 0) AS item, COUNT(*) AS events
    FROM measurement e
    GROUP BY e.person_id, COALESCE(e.measurement_concept_id, 0)
    """

    tables: Mapping[str, str | None]
    window: Window = field(default_factory=Window)
    care_site: int | None = None
    people: str | None = None
    schema: str | None = None
    vocabulary: str | None = None
    dialect: str = "other"

    def __post_init__(self) -> None:
        for parameter, name in (("schema", self.schema), ("vocabulary", self.vocabulary)):
            if name is not None:
                _check(_NAME, name, parameter, "the plain name of a schema, such as cdm")
        if self.care_site is not None and (not isinstance(self.care_site, int) or isinstance(self.care_site, bool)):
            raise DataError("{parameter} is not a whole number.", expected="a care_site_id", parameter="care_site")
        if self.people is not None and (";" in self.people or not re.match(r"\s*(select|with)\s", self.people, re.I)):
            raise DataError(
                "{parameter} is not one SELECT.",
                expected="SELECT person_id FROM ... WHERE ..., without a semicolon",
                parameter="people",
            )

    def statements(self) -> list[str]:
        """All statements that `read_omop` sends for counts, in order."""
        return [self.counts(table) for table in self.tables]

    def needed(self) -> list[str]:
        """Tables that the statements read, with their schemas."""
        names = [self._own(table) for table in self.tables]
        names += [self._own("visit_occurrence")] if self.care_site is not None else []
        rolled = any(level is not None for level in self.tables.values())
        return names + (self.needed_vocabulary() if rolled else [])

    def classes(self) -> list[str]:
        """All classes that tables are rolled up to."""
        return list(dict.fromkeys(one for level in self.tables.values() if level is not None for one in _split(level)))

    def needed_vocabulary(self) -> list[str]:
        """Tables of the vocabulary, with their schema."""
        return [self._public("concept"), self._public("concept_ancestor")]

    def counts(self, table: str) -> str:
        """How often each person has each item of one table."""
        source, level = TABLES[table], self.tables[table]
        held = f"e.{source.concept}"
        item = f"COALESCE({held}, 0)" if level is None else f"COALESCE(a.item, {held}, 0)"
        columns = f"e.person_id AS {PERSON}, {item} AS {ITEM}, COUNT(*) AS {EVENTS}"
        lines = [f"SELECT {columns}", f"FROM {self._own(table)} e"]
        if level is not None:
            lines += [
                f"LEFT JOIN (SELECT t.descendant_concept_id AS concept, c.concept_id AS item "
                f"FROM {self._public('concept_ancestor')} t",
                f"  JOIN {self._public('concept')} c ON c.concept_id = t.ancestor_concept_id",
                f"  WHERE {_limit(level, 'c.')}) a ON a.concept = {held}",
            ]
        if self.care_site is not None:
            visits = f"JOIN {self._own('visit_occurrence')} v ON v.visit_occurrence_id = e.visit_occurrence_id"
            lines.append(f"{visits} AND v.care_site_id = {self.care_site}")
        if limits := [*self._days(f"e.{source.day}"), *self._people()]:
            lines.append(f"WHERE {' AND '.join(limits)}")
        return "\n".join([*lines, f"GROUP BY e.person_id, {item}"])

    def concepts(self, table: str) -> str:
        """All standard concepts that are items of one table."""
        level = self.tables[table]
        limit = f"domain_id = '{TABLES[table].domain}' AND standard_concept = 'S'"
        if level is not None:
            limit = _limit(level)
        return "\n".join(
            [
                "SELECT concept_id AS item, concept_name AS title, vocabulary_id AS vocabulary, concept_code AS code, "
                "concept_class_id AS kind",
                f"FROM {self._public('concept')}",
                f"WHERE {limit} AND concept_id <> 0 AND (invalid_reason IS NULL OR invalid_reason = '')",
            ]
        )

    def known(self, level: str) -> str:
        """How many concepts of a class the vocabulary has."""
        _check(_CLASS, level, "classes", "a concept_class_id, such as ATC 3rd")
        return f"SELECT COUNT(*) AS concepts\nFROM {self._public('concept')}\nWHERE {_limit(level)}"

    def ancestors(self, items: Sequence[Any], classes: Sequence[str]) -> str:
        """The classes above some items."""
        listed = ", ".join(str(int(item)) for item in items)
        return "\n".join(
            [
                "SELECT t.descendant_concept_id AS item, c.concept_code AS code, c.concept_name AS name",
                f"FROM {self._public('concept_ancestor')} t",
                f"JOIN {self._public('concept')} c ON c.concept_id = t.ancestor_concept_id",
                f"WHERE {_limit('|'.join(classes), 'c.')}",
                f"  AND t.ancestor_concept_id <> t.descendant_concept_id AND t.descendant_concept_id IN ({listed})",
            ]
        )

    def _own(self, table: str) -> str:
        return table if self.schema is None else f"{self.schema}.{table}"

    def _public(self, table: str) -> str:
        schema = self.vocabulary or self.schema
        return table if schema is None else f"{schema}.{table}"

    def _days(self, column: str) -> list[str]:
        marks = ((">=", self.window.since), ("<", self.window.before))
        return [f"{self._day(column)} {mark} {self._literal(day)}" for mark, day in marks if day is not None]

    def _day(self, column: str) -> str:
        if self.dialect != "sqlite":
            return column
        seconds = f"typeof({column}) IN ('integer', 'real')"  # as the R packages of OHDSI write dates
        return f"CASE WHEN {seconds} THEN date({column}, 'unixepoch') ELSE date({column}) END"

    def _literal(self, day: date) -> str:
        return f"'{day}'" if self.dialect == "sqlite" else f"CAST('{day}' AS DATE)"

    def _people(self) -> list[str]:
        return [] if self.people is None else [f"e.person_id IN ({self.people.strip()})"]
