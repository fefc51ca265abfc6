"""Ratings that are never wholly in memory: Parquet files through DuckDB, or the frame of a cluster.

An engine has to do one thing: bring all rows of a user together. DuckDB sorts by user, on disk where memory ends; Dask
and Spark deal users out to partitions. What comes out is cut into batches of whole users, and each batch is read by the
rules of `read_ratings`. Whatever is computed user by user therefore comes out as it does in memory.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, final

import numpy as np
import polars as pl

from twofold.data.catalog import Catalog, check_ids
from twofold.data.columns import require_columns
from twofold.data.files import file_format
from twofold.data.ratings import Feedback, Ratings
from twofold.data.read import DuplicateRule, MissingRule, Reading, UnknownRule
from twofold.errors import (
    BadIdentifier,
    DataError,
    MissingExtra,
    Set,
    TwofoldError,
    UnknownUser,
    UnreadableSource,
    install,
)
from twofold.progress import Listener, heard, listening, nobody

__all__ = ["Engine", "PartFunction", "Scan", "coalesced", "scan", "whole_users"]

Result = TypeVar("Result")
#: What an engine runs on every part of the users: batches of whole users in, anything out.
PartFunction = Callable[[Iterator[Ratings]], Result]

#: Rows of a batch, about: a few tens of megabytes.
BATCH_ROWS: Final = 1 << 20
_TAIL: Final = b"PAR1"
_INTEGERS: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_GLOB: Final = re.compile(r"[*?\[]")
_SIZE: Final = re.compile(r"\d+(\.\d+)? ?[KMGT]i?B")


class Engine(Protocol):
    """Something that brings the rows of every user together."""

    def run(self, reading: Reading, function: PartFunction[Result]) -> Iterator[Result]:
        """Run a function on the batches of every part of the users, and give each result once, in any order."""
        ...


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scan:
    """One entity's ratings, read from where they are each time they are needed.

    Privacy
    -------
    Nothing leaves. DuckDB's temporary files hold rows of people: they are in a folder that only its owner can read,
    removed at the end of every pass.

    Examples
    --------
    >>> import tempfile
    >>> catalog = Catalog(["creatinine", "heparin"])
    >>> visits = pl.DataFrame({"user": [7, 2, 7], "item": ["heparin", "heparin", "creatinine"], "value": [1, 2, 3]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     visits.write_parquet(Path(folder, "visits.parquet"))
    ...     found = scan(folder, catalog)
    ...     found, [list(batch.user_ids) for batch in found.batches()], found.of(7)
    (Scan(2 items, counts), [[2], [7]], {'creatinine': 3.0, 'heparin': 1.0})
    """

    reading: Reading
    engine: Engine

    def __repr__(self) -> str:
        return f"Scan({len(self.catalog):,} items, {self.feedback})"  # how many users there are is private

    @property
    def catalog(self) -> Catalog:
        """The public item list."""
        return self.reading.catalog

    @property
    def feedback(self) -> Feedback:
        """Whether an absent entry is unknown, or a zero of smaller weight."""
        return self.reading.feedback

    def as_feedback(self, feedback: Feedback) -> Scan:
        """The same rows read as the other kind."""
        return replace(self, reading=replace(self.reading, feedback=feedback))

    def parts(self, function: PartFunction[Result]) -> Iterator[Result]:
        """Run a function on every part of the users, where the engine likes; each result comes once, in any order.

        Parameters
        ----------
        function : function of an iterator of Ratings
            Pure, and for a cluster picklable: a part may be computed twice, and only one of the results is used.
        """
        return self.engine.run(self.reading, function)

    def batches(self) -> Iterator[Ratings]:
        """Give all users in the order of their ids, in batches of whole users; at least one batch."""
        return self._files("batches in the order of the users").batches(self.reading)

    def of(self, user: object) -> dict[Any, float]:
        """One user's observed entries, item id to value."""
        return self._files("looking up one user").of(self.reading, user)

    def read(self) -> Ratings:
        """Read everything into memory, as `read_ratings` does."""
        return self._files("reading into memory").read(self.reading)

    def nobody(self) -> Ratings:
        """Ratings of the same catalog without users."""
        return self.reading.nobody()

    def _files(self, what: str) -> Files:
        if not isinstance(self.engine, Files):
            raise DataError(
                f"{what} needs files, not the frame of a cluster.",
                found=type(self.engine).__name__,
                fix='tw.scan("visits/*.parquet", ...)',
                parameter="source",
            )
        return self.engine


def scan(
    source: Any,
    catalog: Catalog,
    *,
    user: str = "user",
    item: str = "item",
    value: str | None = "value",
    feedback: Feedback = "counts",
    duplicates: DuplicateRule = "error",
    unknown_items: UnknownRule = "error",
    missing: MissingRule = "error",
    value_range: tuple[float, float] | None = None,
    ordered: bool = False,
    memory: str = "1GB",
    spill: str | PathLike[str] | None = None,
    most_spill: str | None = None,
    batch_rows: int = BATCH_ROWS,
    parts: int | None = None,
) -> Scan:
    """Describe an entity's interactions without reading them: for more rows than memory holds.

    Parameters
    ----------
    source : path, pattern, list of paths, Dask DataFrame or Spark DataFrame
        A Parquet file, a folder of them, or a pattern such as ``"visits/*.parquet"``. Rows may be in any order, and a
        user's rows in several files.
    catalog, user, item, value, feedback, duplicates, unknown_items, missing, value_range
        As for `read_ratings`. Ids of users are integers or text. "last" goes by the names of the files, then by row.
    ordered : bool
        Promise that the rows come sorted by user, file after file: nothing is sorted then. A broken promise is an
        error.
    memory : str
        What DuckDB may hold, such as "500MB".
    spill : path, optional
        Folder for DuckDB's temporary files; by default that of the system.
    most_spill : str, optional
        Most that it may write there.
    batch_rows : int
        Rows of a batch, about. It changes no result.
    parts : int, optional
        For a frame of a cluster: into how many parts the users are dealt; by default as many as it has partitions.

    Returns
    -------
    Scan
        For `Entity`, and for `Model.recommend_all`.

    Raises
    ------
    UnreadableSource
        No file, or one that is damaged, cut off or of other columns; later, one that has changed since.

    Privacy
    -------
    Nothing leaves. Errors name files and columns, never a value.

    Examples
    --------
    >>> scan("no/such/*.parquet", Catalog(["heparin"]))
    Traceback (most recent call last):
    twofold.errors.UnreadableSource: no file matches the pattern...
    """
    reading = Reading(
        catalog=catalog,
        user=user,
        item=item,
        value=value,
        feedback=feedback,
        duplicates=duplicates,
        unknown_items=unknown_items,
        missing=missing,
        value_range=value_range,
        dtype=np.dtype(np.float32),
    )
    for name, size in (("memory", memory), ("most_spill", most_spill)):
        if size is not None and not (isinstance(size, str) and _SIZE.fullmatch(size)):
            raise DataError(
                "{parameter} is not a size.", found=f"{size!s:.20}", expected="500MB or 2GB", parameter=name
            )
    library = type(source).__module__.partition(".")[0]
    if library in ("dask", "dask_expr", "pyspark"):
        from twofold.data.clusters import DaskFrame, SparkFrame

        require_columns(list(source.columns), reading.columns)
        made: type[DaskFrame | SparkFrame] = SparkFrame if library == "pyspark" else DaskFrame
        return Scan(reading=reading, engine=made(frame=source, parts=parts, batch_rows=batch_rows))
    paths = _found(source)
    engine = Files(
        files=tuple(_File.at(path) for path in paths),
        ordered=ordered,
        memory=memory,
        spill=None if spill is None else Path(spill),
        most_spill=most_spill,
        batch_rows=batch_rows,
    )
    types = engine.check_columns(reading)
    whole = reading.value is None or _INTEGERS.fullmatch(types[reading.value]) is not None
    # Of whole numbers a sum does not depend on any order; else rows keep theirs, which takes a longer key to sort by.
    placed = duplicates == "last" or (duplicates != "error" and not whole)
    return Scan(reading=reading, engine=replace(engine, placed=placed))


def whole_users(frames: Iterable[pl.DataFrame], user: str) -> Iterator[pl.DataFrame]:
    """Cut rows that are sorted by user into frames of whole users; refuse rows that are not.

    Examples
    --------
    >>> frames = [pl.DataFrame({"u": [1, 1, 2]}), pl.DataFrame({"u": [2, 3]})]
    >>> [frame["u"].to_list() for frame in whole_users(frames, "u")]
    [[1, 1], [2, 2], [3]]
    """
    held: list[pl.DataFrame] = []
    for frame in frames:
        ids = frame[user]
        if len(ids) == 0:
            continue
        check_ids(ids, user)
        before = held[-1][user][-1] if held else None
        if not ids.is_sorted() or (before is not None and ids[0] < before):
            raise DataError(
                "the rows are not sorted by user, as was promised.", fix=Set("ordered", False), parameter="ordered"
            )
        first = int(ids.search_sorted(ids[-1], side="left"))  # of the last user, who may go on in the next frame
        if before is not None and ids[0] != before:
            yield pl.concat(held)
            held = []
        if first:
            yield pl.concat([*held, frame[:first]])
            held = []
        held.append(frame[first:])
    if held:
        yield pl.concat(held)


def coalesced(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Put small frames together until they have so many rows.

    Examples
    --------
    >>> [frame.height for frame in coalesced([pl.DataFrame({"u": [1]})] * 5, 2)]
    [2, 2, 1]
    """
    held: list[pl.DataFrame] = []
    for frame in frames:
        held.append(frame)
        if sum(one.height for one in held) >= rows:
            yield pl.concat(held)
            held = []
    if held:
        yield pl.concat(held)


@dataclass(frozen=True, kw_only=True)
class _File:
    """A file as it was when the scan was made."""

    path: Path
    size: int
    changed: int

    @classmethod
    def at(cls, path: Path) -> _File:
        """Look at a file, and refuse one that is no whole Parquet file."""
        kind = file_format(path)
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - len(_TAIL), 0))
            whole = kind == "parquet" and size > 2 * len(_TAIL) and file.read() == _TAIL
        if not whole:
            raise UnreadableSource(
                f"{path.name} is not a whole Parquet file.",
                found="a file that is cut off" if kind == "parquet" else f"a {kind} file",
                expected="Parquet, with its footer",
                fix="write the file again" if kind == "parquet" else "read_ratings(...), or write it as Parquet",
                parameter="source",
            )
        about = path.stat()
        return cls(path=path, size=about.st_size, changed=about.st_mtime_ns)

    def rows(self) -> int:
        """Count the rows, from the footer alone; 0 where that fails: it is for a bar of progress only."""
        try:
            return int(pl.scan_parquet(self.path, glob=False).select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError):
            return 0

    def check(self) -> None:
        """Refuse a file that has changed: a pass over old and new rows would be of no data set at all."""
        try:
            about = self.path.stat()
        except OSError:
            about = None
        if about is None or (about.st_size, about.st_mtime_ns) != (self.size, self.changed):
            raise UnreadableSource(
                f"{self.path.name} changed while it was in use; nothing was drawn.",
                found="no such file" if about is None else "another size or time",
                expected="files that stay as they are until the pass is over",
                fix="copy the files first, then scan the copy",
                parameter="source",
            )


@dataclass(frozen=True, kw_only=True)
class Files:
    """Parquet files through DuckDB, sorted by user outside memory."""

    files: tuple[_File, ...] = field(repr=False)
    ordered: bool
    memory: str
    spill: Path | None
    most_spill: str | None
    batch_rows: int
    placed: bool = False

    def run(self, reading: Reading, function: PartFunction[Result]) -> Iterator[Result]:
        """All users are one part."""
        listener = listening()
        with heard(nobody):
            result = function(self.batches(reading, listener))
        yield result

    def batches(self, reading: Reading, listener: Listener = nobody) -> Iterator[Ratings]:
        """Whole users in the order of their ids; the listener hears how many rows were read."""
        done = 0
        with self._reader(reading) as frames, ThreadPoolExecutor(max_workers=1) as pool:
            rows = 0 if listener is nobody else sum(file.rows() for file in self.files)
            if reading.missing == "drop":  # before users are told apart: a row without one belongs to nobody
                frames = (frame.fill_nan(None).drop_nulls(reading.columns) for frame in frames)
            cut = whole_users(frames, reading.user)
            ahead = pool.submit(next, cut, None)  # the next batch is fetched while this one is worked on
            empty = True
            while (frame := ahead.result()) is not None:
                ahead = pool.submit(next, cut, None)
                empty = False
                listener("rows", done := done + frame.height, rows)
                yield reading.ratings({name: frame[name] for name in reading.columns})
            if empty:
                yield reading.nobody()
        self._check()

    def of(self, reading: Reading, user: object) -> dict[Any, float]:
        """Look one user up."""
        with self._reader(reading, user=user) as frames:
            rows = list(frames)
        if not any(frame.height for frame in rows):
            raise UnknownUser("no such user in these files.", found=f"an id of type {type(user).__name__}")
        frame = pl.concat(rows)
        return reading.ratings({name: frame[name] for name in reading.columns}).of(user)

    def read(self, reading: Reading) -> Ratings:
        """Everything, in memory."""
        with self._reader(reading) as frames:
            rows = list(frames)
        if not rows:
            return reading.nobody()
        frame = pl.concat(rows)
        return reading.ratings({name: frame[name] for name in reading.columns})

    def check_columns(self, reading: Reading) -> dict[str, str]:
        """Give the types of the columns; refuse files without them, or of other types than the first file has."""
        with self._connected() as connection:
            types: dict[str, str] = {}
            for file in self.files:
                with self._our_errors():
                    told = connection.execute(f"DESCRIBE SELECT * FROM {_table([file])}").fetchall()
                kinds = {name: kind for name, kind, *_ in told}
                require_columns(list(kinds), reading.columns)
                for name in reading.columns:
                    if types.setdefault(name, kinds[name]) != kinds[name]:
                        raise UnreadableSource(
                            f"two files have different types in the column {name!r}.",
                            found=f"{types[name]} and, in {file.path.name}, {kinds[name]}",
                            fix="write the column with one type",
                            parameter=name,
                        )
        if types[reading.user] != "VARCHAR" and not _INTEGERS.fullmatch(types[reading.user]):
            raise BadIdentifier(
                f"a scan needs user ids that have an order in every program; the {reading.user} column has none.",
                found=f"type {types[reading.user]}",
                expected="integers or text",
                fix=f"write the {reading.user} column as text",
                parameter="user",
            )
        return types

    @contextmanager
    def _reader(self, reading: Reading, *, user: object = None) -> Iterator[Iterator[pl.DataFrame]]:
        names = ", ".join(map(_quoted, reading.columns))
        key = [_quoted(reading.user)] + ["filename", "file_row_number"] * self.placed
        order = "" if self.ordered else f" ORDER BY {', '.join(key)}"
        where = "" if user is None else f" WHERE {_quoted(reading.user)} = $user"
        query = f"SELECT {names} FROM {_table(self.files, placed=self.placed)}{where}{order}"
        self._check()
        with self._connected() as connection:
            with self._our_errors():
                found = connection.sql(query, params=None if user is None else {"user": user})
                stream = (getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader)(self.batch_rows)
            yield self._frames(stream)

    def _frames(self, stream: Any) -> Iterator[pl.DataFrame]:
        with self._our_errors():
            yield from coalesced((pl.DataFrame(pl.from_arrow(batch)) for batch in stream), self.batch_rows)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            import duckdb
            import pyarrow  # noqa: F401 - batches come as Arrow
        except ModuleNotFoundError:
            raise MissingExtra("a scan needs an optional package.", fix=install("duckdb"), parameter="duckdb") from None
        with self._folder() as folder:
            config: dict[str, Any] = {"memory_limit": self.memory, "temp_directory": folder}
            config["autoinstall_known_extensions"] = "false"  # it would ask the network
            connection = duckdb.connect(config=config)
            try:
                if self.most_spill is not None:  # in the configuration, beside a folder, it would have no effect
                    connection.execute(f"SET max_temp_directory_size = '{self.most_spill}'")
                connection.execute(f"SET preserve_insertion_order = {str(self.ordered).lower()}")
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _folder(self) -> Iterator[str]:
        try:
            folder = tempfile.TemporaryDirectory(prefix="twofold-scan-", dir=self.spill)
        except OSError as error:
            raise DataError(
                "there is no folder for temporary files.",
                found=error.strerror or type(error).__name__,
                fix=Set("spill", "FOLDER"),
                parameter="spill",
            ) from None
        with folder as name:
            yield name

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        """Turn an error of DuckDB into ours, without its text, which may quote rows."""
        try:
            yield
        except (TwofoldError, GeneratorExit, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            self._check()
            said = str(error).casefold()  # an error that comes through Arrow has lost its type
            full = os.strerror(errno.ENOSPC).casefold() in said or "max_temp_directory_size" in said
            if full or "out of memory" in said:
                raise DataError(
                    "there is not enough room to sort the rows; nothing was drawn.",
                    found="a disk, or the limit for temporary files, that is full" if full else "too little memory",
                    expected="room for about the size of the named columns, unpacked",
                    fix=(Set("spill", "FOLDER"), Set("memory", "4GB")),
                    parameter="spill" if full else "memory",
                ) from None
            raise UnreadableSource(
                "the files cannot be read.",
                found=f"damaged, or of unequal columns ({type(error).__name__})",
                expected="whole Parquet files with the same columns",
                fix="write the files again; nothing was changed",
                parameter="source",
            ) from None

    def _check(self) -> None:
        for file in self.files:
            file.check()


def _found(source: Any) -> list[Path]:
    """Files of a source, each once, by name: the order of a folder differs from machine to machine."""
    if isinstance(source, (str, PathLike)):
        given: Sequence[Any] = [source]
    elif isinstance(source, Sequence) and source and all(isinstance(one, (str, PathLike)) for one in source):
        given = source
    else:
        raise UnreadableSource(
            "the source of a scan is of an unknown kind.",
            found=f"a {type(source).__name__}",
            expected="a Parquet file, a folder, a pattern or a list of them; a Dask or a Spark DataFrame",
            fix="read_ratings(...) for what fits into memory",
            parameter="source",
        )
    paths = sorted({path.resolve(): None for path in chain.from_iterable(map(_paths, given))}, key=str)
    if not paths:
        raise UnreadableSource("no file matches the pattern.", expected="at least one Parquet file", parameter="source")
    return paths


def _paths(one: str | PathLike[str]) -> Iterable[Path]:
    path = Path(one)
    if path.is_dir():
        return (at for at in path.rglob("*.parquet") if at.is_file())
    if _GLOB.search(str(one)) and not path.exists():
        return map(Path, glob.glob(str(one), recursive=True))  # noqa: PTH207 - of a pattern that may be absolute
    return [path]


def _table(files: Iterable[_File], *, placed: bool = False) -> str:
    names = ", ".join("'" + str(file.path).replace("'", "''") + "'" for file in files)
    more = ", filename = true, file_row_number = true" if placed else ""
    return f"read_parquet([{names}], hive_partitioning = false{more})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
