"""MEDS, the Medical Event Data Standard: a folder of Parquet shards with subject_id, time and code.

The standard asks for all events of a subject in one shard. Readers must not depend on it: a subject whose events are in
several shards is one person here.

Schemas: https://github.com/Medical-Event-Data-Standard/meds (version 0.4 at the time of writing).
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from twofold.data.catalog import Catalog
from twofold.data.columns import require_columns
from twofold.data.files import file_format, our_errors, read_file
from twofold.data.formats.counts import EVENTS, ITEM, PERSON, Day, Window, count_ratings, require_public
from twofold.data.ratings import Ratings
from twofold.errors import BadIdentifier, CatalogError, UnreadableSource

__all__ = ["SubjectWarning", "batches", "meds_catalog", "read_meds"]

#: Words in the name of a data set whose subjects may be admissions. eICU is the standard's own example.
ADMISSIONS: Final = ("eicu",)
_HOME: Final = "home"
_FIX: Final = "make the shards with a converter for MEDS 0.3 or later"
_LARGEST_JSON: Final = 1 << 20


class SubjectWarning(UserWarning):
    """A subject of this data set may be an admission: the promise would then cover admissions, not people."""


def read_meds(
    folder: str | Path,
    catalog: Catalog,
    *,
    codes: Sequence[str] = (),
    since: Day | None = None,
    before: Day | None = None,
) -> Ratings:
    """Read a MEDS folder: how often each subject has each code of the catalog.

    Privacy
    -------
    Nothing leaves. A person is a ``subject_id`` with at least one event that `codes` and the window choose, in whatever
    shard. Somebody without one adds nothing to any release, so leaving them out changes none. If a subject is an
    admission, the promise covers admissions; a `SubjectWarning` says so where the name of the data set tells it.

    Parameters
    ----------
    folder : str or Path
        The root of the data set, its ``data`` folder, or a folder of shards.
    catalog : Catalog
        The agreed item list of codes. An item stands for its own code and for all codes below it that are no items
        themselves: ``LAB//50912`` counts ``LAB//50912//mg/dL``. It also stands for codes whose ``parent_codes`` in
        ``metadata/codes.parquet`` name it, as ``LOINC/2160-0``. Other events are left out; ``notes`` has their number.
    codes : sequence of str
        Count only events whose code begins with one of these, such as ``LAB//``. All by default.
    since, before : date or str, optional
        Count only events from the first day on, and before the second. Static events have no time: they are then left
        out.

    Returns
    -------
    Ratings
        Counts.

    Raises
    ------
    UnreadableSource
        A folder without shards, or a shard that is damaged or cut off.
    MissingColumn, BadIdentifier
        A shard without one of the three columns, or with another type in it.

    Examples
    --------
    >>> import tempfile
    >>> events = {"subject_id": [7, 7], "code": ["LAB//50912//mg/dL", "GENDER//F"]}
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SubjectWarning)
    ...     pl.DataFrame(events).write_parquet(Path(folder, "0.parquet"))
    ...     read_meds(folder, Catalog(["LAB//50912"])).of(7)
    {'LAB//50912': 1.0}
    """
    ratings = count_ratings(batches(folder, catalog, codes=codes, since=since, before=before), catalog)
    _warn_of_admissions(Path(folder))
    return ratings


def batches(
    folder: str | Path,
    catalog: Catalog,
    *,
    codes: Sequence[str] = (),
    since: Day | None = None,
    before: Day | None = None,
) -> Iterator[pl.DataFrame]:
    """Give one frame per shard with the columns person, item and events; see `read_meds`.

    Items are of the type Enum, so that millions of rows hold numbers and no text. Its last category is for all events
    that belong to no item.
    """
    window = Window.of(since, before)
    root = Path(folder)
    items = catalog.items.texts()
    known, other = frozenset(items), max(items, key=len) + "+"
    kind = pl.Enum([*items, other])
    shards, parents = _shards(root), _parents(root)
    for path in shards:
        counts = _counts(path, path.relative_to(root).as_posix(), _prefixes(codes), window)
        names = counts[ITEM].unique().drop_nulls().to_list()
        pairs = [(code, item) for code in names for item in _items_of(code, known, parents)]
        homes = pl.DataFrame(pairs, schema={ITEM: pl.String, _HOME: pl.String}, orient="row")
        counted = counts.join(homes.cast({_HOME: kind}), on=ITEM, how="left")
        yield counted.select(PERSON, pl.col(_HOME).fill_null(other).alias(ITEM), EVENTS)


def _prefixes(codes: Sequence[str]) -> tuple[str, ...]:
    return (codes,) if isinstance(codes, str) else tuple(codes)


def _shards(root: Path) -> list[Path]:
    """The shards below a folder, in order of name; other Parquet files of the standard are in ``metadata``."""
    home = root / "data" if (root / "data").is_dir() else root
    found: list[Path] = []
    seen = set()
    for folder, below, names in os.walk(home, onerror=_closed, followlinks=True):
        below[:] = [name for name in below if name != "metadata"]
        if (place := os.path.realpath(folder)) in seen:  # links in a circle, or two to the same shards
            below.clear()
            continue
        seen.add(place)
        found += [Path(folder, name) for name in names if name.endswith(".parquet") and not name.startswith(".")]
    if not found:
        raise UnreadableSource(
            "there are no MEDS shards.",
            found="a folder without Parquet files" if home.is_dir() else "no such folder",
            expected="the root of a MEDS data set, with data/*.parquet or data/*/*.parquet",
            fix="name the folder that holds data and metadata",
            parameter="folder",
        )
    return sorted(found)


def _closed(error: OSError) -> None:
    """Refuse a folder that cannot be listed: people in it would be left out silently."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise UnreadableSource(
            "a folder of the MEDS data set cannot be read.",
            found=error.strerror or type(error).__name__,
            fix="ask for the right to read all of it",
            parameter="folder",
        ) from None


def _metadata(folder: Path, name: str) -> Path | None:
    """A file of the metadata, of the root or of the root above a folder of shards."""
    homes = (folder, *folder.absolute().parents[:2])
    return next((path for home in homes if (path := home / "metadata" / name).is_file()), None)


def _parents(folder: Path) -> Mapping[str, list[str]]:
    """Codes to the codes of public vocabularies above them, which converters write into codes.parquet."""
    path = _metadata(folder, "codes.parquet")
    if path is None:
        return {}
    frame = read_file(path, None)
    if frame.schema.get("code") != pl.String or frame.schema.get("parent_codes") != pl.List(pl.String):
        return {}
    listed = frame.select("code", pl.col("parent_codes").list.drop_nulls()).drop_nulls()
    found: dict[str, list[str]] = {}
    for code, above in listed.iter_rows():
        found.setdefault(code, []).extend(above)
    return found


def _counts(path: Path, name: str, codes: tuple[str, ...], window: Window) -> pl.DataFrame:
    """Count the chosen events of one shard; only the columns that are needed are read."""
    if file_format(path) != "parquet":
        raise UnreadableSource(f"{name} is not a Parquet file.", expected="PAR1 at its start", parameter="folder")
    with our_errors(name):
        schema = pl.read_parquet_schema(path)
    _check_shard(schema, name, timed=not window.open)
    events = pl.scan_parquet(path)
    if codes:
        chosen = [pl.col("code").cast(pl.String).str.starts_with(prefix) for prefix in codes]
        events = events.filter(pl.any_horizontal(chosen))
    day = pl.col("time").dt.date()
    if window.since is not None:
        events = events.filter(day >= window.since)
    if window.before is not None:
        events = events.filter(day < window.before)
    who, what = pl.col("subject_id").cast(pl.Int64).alias(PERSON), pl.col("code").cast(pl.String).alias(ITEM)
    with our_errors(name):
        return events.group_by(who, what).agg(pl.len().cast(pl.Int64).alias(EVENTS)).collect(engine="streaming")


def _check_shard(schema: Mapping[str, pl.DataType], name: str, *, timed: bool) -> None:
    wanted = ["subject_id", "code", *(["time"] if timed else [])]
    require_columns(list(schema), wanted, _FIX)
    texts = (pl.String, pl.Categorical, pl.Enum)
    sound = {
        "subject_id": (schema["subject_id"].is_integer(), "whole numbers"),
        "code": (schema["code"] in texts, "text"),
        "time": (not timed or schema["time"] in (pl.Datetime, pl.Date), "times"),
    }
    for column, (fits, expected) in sound.items():
        if not fits:
            raise BadIdentifier(
                f"the column {column} of {name} has another type than MEDS gives it.",
                found=f"type {schema[column].base_type().__name__}",
                expected=expected,
                fix=_FIX,
                parameter=column,
            )


def _items_of(code: str, known: frozenset[str], parents: Mapping[str, list[str]]) -> list[str]:
    """The item a code belongs to, by itself or else by the codes above it, each item once.

    >>> parents = {"LAB//50912": ["LOINC/2160-0"]}
    >>> _items_of("LAB//50912", frozenset({"LAB", "LOINC/2160-0"}), parents)
    ['LAB']
    >>> _items_of("LAB//50912", frozenset({"LOINC/2160-0"}), parents)
    ['LOINC/2160-0']
    """
    own = _beginning(code, known)
    if own is not None:
        return [own]
    above = (_beginning(parent, known) for parent in parents.get(code, ()))
    return list(dict.fromkeys(item for item in above if item is not None))


def _beginning(code: str, known: frozenset[str]) -> str | None:
    """The longest beginning of a code that is an item.

    >>> _beginning("LAB//50912//mg/dL", frozenset({"LAB//50912"})), _beginning("ICD10CM/I95.1", frozenset({"ICD10CM"}))
    ('LAB//50912', 'ICD10CM')
    """
    mark = "//" if "//" in code else "/"  # units such as mg/dL are one part
    part = code
    while part not in known:
        part, cut, _ = part.rpartition(mark)
        if not cut:
            return None
    return part


def _warn_of_admissions(folder: Path) -> None:
    name = _dataset_name(folder)
    if name is None:
        reason = "there is no metadata/dataset.json with a dataset_name"
    elif any(word in name.casefold() for word in ADMISSIONS):
        reason = "in data sets of this name a subject is often one admission"
    else:
        return
    warnings.warn(
        f"a subject may be an admission, not a person: {reason}. The promise covers subjects; make sure that each is "
        "one person, or say in the plan that the unit is a visit",
        SubjectWarning,
        stacklevel=3,
    )


def _dataset_name(folder: Path) -> str | None:
    path = _metadata(folder, "dataset.json")
    try:
        if path is None or path.stat().st_size > _LARGEST_JSON:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    name = found.get("dataset_name") if isinstance(found, dict) else None
    return name if isinstance(name, str) and name else None


def meds_catalog(path: str | Path, *, codes: Sequence[str] = (), public: bool = False) -> Catalog:
    r"""Make a catalog from a public list of codes, with their descriptions as titles.

    Privacy
    -------
    The ``metadata/codes.parquet`` of a data set is **not** public because MEDS has it: from version 0.4 on it lists
    every code that occurs in the data set, so it tells which rare code somebody has. It is public only if the data set
    is published, or if the list was made without looking at people (a vocabulary's own list, one that all agreed on).
    Only you can know; `public` is where you say so.

    Parameters
    ----------
    path : str or Path
        A Parquet or CSV file with the columns ``code`` and, if there is one, ``description``; or a MEDS folder, whose
        ``metadata/codes.parquet`` is then taken.
    codes : sequence of str
        Take only codes that begin with one of these. All by default.
    public : bool
        That the list is public. Without it there is an error.

    Returns
    -------
    Catalog
        Items in the order of their codes, each once; the title is the first description, or the code.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "codes.csv").write_text("code,description\nLAB//2,Sodium\nLAB//1,Lactate\nGENDER//F,\n")
    ...     catalog = meds_catalog(Path(folder, "codes.csv"), codes=["LAB//"], public=True)
    >>> list(catalog.items), catalog.features["title"].to_list()
    (['LAB//1', 'LAB//2'], ['Lactate', 'Sodium'])
    """
    require_public(public, "this list of codes")
    file = Path(path)
    if file.is_dir():
        file = file / "metadata" / "codes.parquet"
    frame = read_file(file, None, public=True)
    require_columns(frame.columns, ["code"], "call the column of the codes code, and that of their titles description")
    code = frame["code"]
    if code.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise BadIdentifier(
            "the column code is not text.", found=f"type {code.dtype.base_type().__name__}", parameter="code"
        )
    titles = frame["description"] if "description" in frame.columns else pl.Series([None] * frame.height)
    listed = pl.DataFrame({"item": code.cast(pl.String), "title": titles.cast(pl.String)})
    if prefixes := _prefixes(codes):
        listed = listed.filter(pl.any_horizontal([pl.col("item").str.starts_with(prefix) for prefix in prefixes]))
    if listed.height == 0:
        raise CatalogError(
            "no code of the list is chosen.",
            found=f"{frame.height:,} codes, of which none begins so",
            expected="the beginning of at least one code, as LAB//",
            parameter="codes",
        )
    listed = listed.group_by("item").agg(pl.col("title").drop_nulls().first()).sort("item")
    return Catalog(listed["item"], listed.select(pl.col("title").fill_null(pl.col("item"))))
