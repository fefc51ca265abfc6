"""Columns that a table must have, and which names of columns an error may show.

The first line of a file without a header is a person's row, and a table turned on its side has people's names in its
header. An error therefore names only what the user typed and a fixed list of plain words; of all other columns it gives
the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twofold.errors import Fix, MissingColumn, Set

__all__ = ["listing", "plain_name", "require_columns"]

_NAME_COLUMNS: Final = (Set("user", "COLUMN"), Set("item", "COLUMN"), Set("value", "COLUMN"))
#: Words that head columns everywhere and are nobody's value.
PLAIN: Final = frozenset(
    """
    user users userid user_id item items itemid item_id value values patient patients patientid patient_id person
    person_id subject subject_id customer customer_id client member account visit visit_id visits stay stay_id encounter
    encounter_id admission admission_id hadm_id patientunitstayid code codes count counts rating ratings score timestamp
    datetime date time year month day movie movieid movie_id title titles genre genres kind kinds class classes category
    categories group type types name names label labels description text tag tags feature features product product_id
    drug drugs medication diagnosis procedure lab test result quantity amount number weight price unit units id key
    index row hospital hospital_id hospitalid entity site ward department n x y z k
    """.split()  # noqa: SIM905 - a list of a hundred quoted words is harder to read
)


def require_columns(present: Sequence[str], wanted: Sequence[str] | None, fix: Fix = _NAME_COLUMNS) -> None:
    """Refuse missing columns.

    Parameters
    ----------
    present : sequence of str
        The columns of the table. Only plain names among them are shown.
    wanted : sequence of str or None
        The columns that the user named.
    fix : str, Set, Run or tuple of these
        What to do.

    Examples
    --------
    >>> require_columns(["Jane Doe", "hiv-test"], ["user"])
    Traceback (most recent call last):
    twofold.errors.MissingColumn: the table does not have this column.
      Found: 2 columns, a first line that looks like data, not like names (not shown)
      Expected: columns user
    ...
    """
    missing = [name for name in wanted or () if name not in present]
    if not missing:
        return
    if len(present) == 1 and (other := next((mark for mark in ";\t|" if mark in present[0]), None)):
        fix = Set("separator", "tab" if other == "\t" else other)
    elif present and present[0].lstrip().startswith(("{", "[")):
        fix = "write the table as CSV or Parquet; this file looks like JSON"
    raise MissingColumn(
        "the table does not have this column.",
        found=listing(present, wanted or ()),
        expected="columns " + ", ".join(missing),
        fix=fix,
        parameter=missing[0],
    )


def listing(columns: Sequence[str], wanted: Sequence[str] = ()) -> str:
    """Describe columns without showing a name that may be a value.

    Examples
    --------
    >>> listing(["code", "Kind"]), listing(["code", "Jane Doe"])
    ('columns code, Kind', '2 columns, among them code (the others are not shown)')
    """
    own = {name.strip().casefold() for name in wanted}
    known = [name for name in columns if plain_name(name) or name.strip().casefold() in own]
    named = ", ".join(name.strip() for name in known[:20])
    more = f" and {len(known) - 20:,} more" if len(known) > 20 else ""
    if known and len(known) == len(columns):
        return f"columns {named}{more}"
    number = f"{len(columns):,} column" + ("" if len(columns) == 1 else "s")
    if known:
        return f"{number}, among them {named}{more} (the others are not shown)"
    return f"{number}, a first line that looks like data, not like names (not shown)"


def plain_name(name: str) -> bool:
    """Whether the name of a column is a plain word that cannot be anyone's value.

    Examples
    --------
    >>> plain_name("Patient"), plain_name("Jane Doe")
    (True, False)
    """
    return name.strip().casefold() in PLAIN
