"""Tables on disk: CSV (also gzipped) and Parquet, read completely or refused, written completely or not at all.

A CSV file has no types. Ids are read as text and become integers only if that loses nothing, so that ``007`` stays
``007`` and ``17`` is the number 17.

``-`` stands for standard input. Text is UTF-8 unless another encoding is named; an error names the likely one.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from twofold.data.columns import listing, require_columns
from twofold.data.sizes import check_cells, check_parquet, check_texts, unpacked
from twofold.errors import BadValue, DataError, EmptyTable, MissingColumn, Set, TwofoldError, UnreadableSource
from twofold.storage.files import open_plain

__all__ = ["FileFormat", "file_format", "lossless_integers", "our_errors", "read_file", "write_file"]

FileFormat = Literal["csv", "csv.gz", "parquet", "utf-16"]
UTF8: Final = "utf-8"
_HEAD: Final = 512
#: Bytes from which the encoding of a file that cannot be read is told.
_ENOUGH: Final = 16 << 20
#: Usual separators, and the length of a first line in which they are looked for.
_MARKS: Final = ",;\t|"
_LONGEST_HEADER: Final = 1 << 16


class Source(NamedTuple):
    """A CSV file's name, for errors, and where to read it: its path, or its unpacked bytes."""

    name: str
    content: Path | bytes


PARQUET_MAGIC: Final = b"PAR1"
GZIP_MAGIC: Final = b"\x1f\x8b"
ZIP_MAGIC: Final = b"PK\x03\x04"


def read_file(
    path: Path,
    columns: Sequence[str] | None,
    *,
    separator: str = ",",
    text: Sequence[str] = (),
    numbers: Sequence[str] = (),
    public: bool = False,
    encoding: str = UTF8,
    decimal: str = ".",
) -> pl.DataFrame:
    """Read the named columns of a file, all of them if `columns` is None.

    Parameters
    ----------
    path : Path
        CSV, CSV.gz or Parquet; told apart by content, not by name. ``-`` is standard input.
    columns : sequence of str or None
        What to read.
    separator : str
        Field separator of a CSV file. In a public one, another usual one is found by the names of the `text` columns.
    text, numbers : sequence of str
        CSV columns that hold ids, and values.
    public : bool
        Whether others made the file: a small one that unpacks to a huge table is then refused.
    encoding : str
        Encoding of a CSV file; of a public one only if it is not UTF-8.
    decimal : {".", ","}
        Decimal mark of the values in a CSV file.
    """
    _check_text(encoding, decimal)
    piped = sys.stdin.buffer.read() if str(path) == "-" and not public else None
    path = path if piped is None else Path("standard input")
    kind = file_format(path) if piped is None else _format_of(piped[:_HEAD], path.name)
    if kind == "parquet":
        return _read_parquet(path, columns, public=public, piped=piped)
    if kind == "utf-16" and encoding == UTF8:
        raise _other_encoding(path.name, "UTF-16", "utf-16")
    mark = {"tab": "\t", "\\t": "\t"}.get(separator, separator)  # a shell hands on a backslash and a t
    if len(mark.encode()) != 1:
        raise DataError(
            "the separator is wrong.", found=repr(separator), expected="one character, or tab", parameter="separator"
        )
    source = Source(name=path.name, content=path if piped is None else piped)
    if public:
        with our_errors(path.name):
            content = unpacked(path, gzipped=kind == "csv.gz")
            if encoding != UTF8 and not _is_utf8(content):
                content = _decoded(content, encoding, path.name)
            mark = _mark_of(content, mark, text)
            check_cells(content, mark, path.name)
            source = Source(name=path.name, content=content)
    elif encoding != UTF8:
        source = Source(name=path.name, content=_decoded(_whole(source, kind), encoding, path.name))
    if decimal == ",":
        frame = _read_csv(source, columns, separator=mark, text=[*text, *numbers], numbers=(), ids=text)
        return frame.with_columns(_with_points(frame[name]) for name in numbers if name in frame.columns)
    return _read_csv(source, columns, separator=mark, text=text, numbers=numbers, ids=text)


def _check_text(encoding: str, decimal: str) -> None:
    try:
        codecs.lookup(encoding)
    except (LookupError, ValueError):
        raise DataError(
            "{parameter} is unknown.",
            found=f"{encoding:.20}",
            expected="utf-8, latin-1, cp1252, utf-16 or another that Python knows",
            parameter="encoding",
        ) from None
    if decimal not in (".", ","):
        raise DataError("{parameter} is wrong.", found=f"{decimal:.5}", expected=". or ,", parameter="decimal")


def _whole(source: Source, kind: str) -> bytes:
    """All bytes of a CSV file, unpacked."""
    with our_errors(source.name):
        data = source.content if isinstance(source.content, bytes) else source.content.read_bytes()
        return gzip.decompress(data) if kind == "csv.gz" else data


def _decoded(data: bytes, encoding: str, name: str) -> bytes:
    try:
        return data.decode(encoding).encode()
    except (UnicodeError, LookupError, TypeError):  # some codecs of Python are none of text
        raise UnreadableSource(
            f"{name} is not in this encoding.", found="bytes that it does not have", parameter="encoding"
        ) from None


def _mark_of(content: bytes, mark: str, wanted: Sequence[str]) -> str:
    """Find the separator of a public table: the first that makes the wanted columns names of its first line."""
    lines = content[:_LONGEST_HEADER].decode("utf-8-sig", errors="replace").splitlines()[:1]
    marks: list[str] = [mark, *_MARKS] if wanted else []
    for one in marks:
        with suppress(csv.Error, TypeError):  # what is wrong with the line is said when the file is read
            if set(wanted) <= {name for row in csv.reader(lines, delimiter=one) for name in row}:
                return one
    return mark


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _other_encoding(name: str, words: str, encoding: str) -> UnreadableSource:
    return UnreadableSource(
        f"{name} is not UTF-8.",
        found=f"probably {words}",
        expected="text in UTF-8, or the name of its encoding",
        fix=Set("encoding", encoding),
        parameter="encoding",
    )


def _with_points(column: pl.Series) -> pl.Series:
    """Numbers with a decimal comma as numbers; anything else is refused."""
    numbers = column.str.strip_chars().str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    if numbers.null_count() > column.null_count():
        raise text_in_values(column.name)
    return numbers


def file_format(path: Path) -> FileFormat:
    """Check the first bytes; refuse a path that is missing, a folder, empty, or not Parquet despite its name."""
    try:
        with os.fdopen(open_plain(path, links=True), "rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError) as error:  # a name that no file can have
        raise UnreadableSource(
            f"cannot open {path.name}.",
            found="Is a directory" if path.is_dir() else getattr(error, "strerror", None) or type(error).__name__,
            expected="a readable file",
            parameter="source",
        ) from None
    if head and not head.startswith(PARQUET_MAGIC) and path.suffix in (".parquet", ".pq"):
        raise UnreadableSource(f"{path.name} is not a Parquet file.", expected="PAR1 at its start", parameter="source")
    return _format_of(head, path.name)


def _format_of(head: bytes, name: str) -> FileFormat:
    if not head:
        raise EmptyTable(f"{name} is empty.", found="0 bytes", expected="a header and rows", parameter="source")
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    if head.startswith(GZIP_MAGIC):
        return "csv.gz"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\x00" in head or head.startswith(ZIP_MAGIC):
        raise UnreadableSource(
            f"{name} is not a table of text.",
            found="a binary file (a workbook, an archive, a database?)",
            expected="CSV, CSV.gz or Parquet",
            fix="export the sheet as CSV; for a database pass its URL and query=",
            parameter="source",
        )
    return "csv"


def write_file(frame: pl.DataFrame, path: Path) -> None:
    """Write CSV or Parquet by the ending of the name, through a temporary file beside it."""
    if path.suffix not in (".csv", ".parquet", ".pq"):
        raise UnreadableSource(
            f"cannot tell the format of {path.name}.",
            expected="a name that ends in .csv or .parquet",
            parameter="source",
        )
    writer: Callable[[str], None] = frame.write_csv if path.suffix == ".csv" else frame.write_parquet
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        writer(name)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def lossless_integers(column: pl.Series) -> pl.Series:
    """Make a text column integers if every entry is a plain integer and none would change its text.

    >>> lossless_integers(pl.Series(["17", "4"])).dtype, lossless_integers(pl.Series(["017", "4"])).dtype
    (Int64, String)
    """
    if column.dtype != pl.String or len(column) == 0:
        return column
    numbers = column.cast(pl.Int64, strict=False)
    there = numbers.drop_nulls()
    if numbers.null_count() != column.null_count() or not len(there):  # an empty cell says nothing of the others
        return column
    # No text is shorter than its number, so equal sums of lengths mean that every length is equal.
    return numbers if column.str.len_bytes().sum() == _text_length(there.to_numpy()) else column


def _text_length(numbers: npt.NDArray[np.int64]) -> int:
    """Characters of all these integers written plainly, in one pass per decimal digit of the largest."""
    lowest, highest = int(numbers.min()), int(numbers.max())
    length, power = numbers.size, 10
    while power <= highest:
        length += int(np.count_nonzero(numbers >= power))
        power *= 10
    power = 1  # a negative number has its sign, and its digits
    while power <= -lowest:
        length += int(np.count_nonzero(numbers <= -power))
        power *= 10
    return length


def _read_parquet(
    path: Path, columns: Sequence[str] | None, *, public: bool, piped: bytes | None = None
) -> pl.DataFrame:
    with our_errors(path.name):
        if public:
            check_parquet(path)
        content = path if piped is None else io.BytesIO(piped)
        present = list(pl.read_parquet_schema(content))
        require_columns(present, columns)
        frame = pl.read_parquet(content, columns=None if columns is None else list(dict.fromkeys(columns)))
        if public:
            texts = [name for name, kind in frame.schema.items() if kind == pl.String]
            check_texts({name: int(frame[name].str.len_bytes().sum() or 0) for name in texts}, path.name)
        return frame


def _read_csv(
    source: Source,
    columns: Sequence[str] | None,
    *,
    separator: str,
    text: Sequence[str],
    numbers: Sequence[str],
    ids: Sequence[str],
) -> pl.DataFrame:
    overrides: dict[str, type[pl.DataType]] = dict.fromkeys(text, pl.String)
    try:
        frame = _scan(source, separator, overrides, columns)  # polars guesses, and reads whole numbers faster
    except UnreadableSource:
        frame = _read_floats(source, columns, separator, overrides, numbers)
    named = [frame[name] for name in dict.fromkeys(ids) if name in frame.columns]
    with ThreadPoolExecutor(max_workers=2) as pool:  # the casts release the interpreter's lock
        return frame.with_columns(pool.map(lossless_integers, named))


def _read_floats(
    source: Source,
    columns: Sequence[str] | None,
    separator: str,
    overrides: Mapping[str, type[pl.DataType]],
    numbers: Sequence[str],
) -> pl.DataFrame:
    """Handle a failed type guess: fractions below whole numbers, text among the values, or real damage."""
    try:
        return _scan(source, separator, {**overrides, **dict.fromkeys(numbers, pl.Float64)}, columns)
    except UnreadableSource:
        _explain_csv(source, separator, columns, numbers)
        raise


def _scan(
    source: Source, separator: str, overrides: Mapping[str, type[pl.DataType]], columns: Sequence[str] | None
) -> pl.DataFrame:
    with our_errors(source.name):
        # The header is checked by hand: asked for a missing column, polars reads the whole file first.
        present = _header(source, separator)
        require_columns(present, columns)
        _refuse_twins(present, columns)
        known = {name: kind for name, kind in overrides.items() if name in present}
        chosen = None if columns is None else list(dict.fromkeys(columns))
        return pl.read_csv(source.content, separator=separator, schema_overrides=known, columns=chosen)


def _refuse_twins(present: Sequence[str], columns: Sequence[str] | None) -> None:
    """Refuse a header that names a column twice: nobody can tell which one is meant."""
    for name in columns or present:
        if f"{name}_duplicated_0" in present:  # how polars renames the second
            raise MissingColumn(
                "the header names a column twice.",
                found=f"{listing([name], columns or ())}, twice",
                expected="every column once",
                fix="rename or remove one of them",
                parameter=name if columns else "source",
            )


def _header(source: Source, separator: str) -> list[str]:
    return pl.read_csv(source.content, separator=separator, n_rows=0, infer_schema=False).columns


def _explain_csv(source: Source, separator: str, columns: Sequence[str] | None, numbers: Sequence[str]) -> None:
    """After a failed parse, check whether the reason is another encoding, or text in a column of numbers."""
    with suppress(OSError, EOFError, zlib.error):
        data = _beginning(source)
        if not _is_utf8(data) and b"\x00" not in data:
            windows = re.search(rb"[\x80-\x9f]", data) is not None  # control characters in Latin-1, letters there
            raise _other_encoding(
                source.name, "Windows-1252" if windows else "Latin-1", "cp1252" if windows else "latin-1"
            )
    try:
        frame = pl.read_csv(
            source.content, separator=separator, infer_schema=False, columns=None if columns is None else list(columns)
        )
    except Exception:
        return
    for name in numbers:
        if name in frame.columns:
            column = frame[name]
            if column.cast(pl.Float64, strict=False).null_count() > column.null_count():
                raise text_in_values(name, column) from None


def _beginning(source: Source) -> bytes:
    """Whole lines from the start of a CSV file, unpacked: enough to tell its encoding, however large it is."""
    with io.BytesIO(source.content) if isinstance(source.content, bytes) else source.content.open("rb") as file:
        packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        file.seek(0)
        data: bytes = gzip.GzipFile(fileobj=file).read(_ENOUGH) if packed else file.read(_ENOUGH)
    return data if len(data) < _ENOUGH else data[: data.rfind(b"\n") + 1]


def text_in_values(name: str, column: pl.Series | None = None) -> BadValue:
    """The error for a value column that holds text; says so if all of it are numbers with a decimal comma."""
    if column is not None and column.dtype == pl.String and len(column):
        numbers = column.drop_nulls().str.strip_chars()
        if numbers.str.contains(r"^[+-]?\d*(,\d+)?$").all() and numbers.str.contains(",", literal=True).any():
            return BadValue(
                f"the value column {name!r} has a decimal comma.",
                expected="a decimal point, or the name of the mark",
                fix=Set("decimal", ","),
                parameter="decimal",
            )
    return BadValue(
        f"the value column {name!r} holds text.",
        found="entries that are not numbers",
        expected="a number in every row",
        fix="check that this is the right column, and the decimal mark (a point)",
        parameter="value",
    )


@contextmanager
def our_errors(name: str) -> Iterator[None]:
    """Turn a parser's error on damaged bytes into ours, without its text, which may quote the data."""
    try:
        yield
    except (TwofoldError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except pl.exceptions.NoDataError:
        raise EmptyTable(
            f"{name} holds no table.", found="no header", expected="a header and rows", parameter="source"
        ) from None
    except BaseException as error:  # polars' panics are not Exceptions
        raise UnreadableSource(
            f"{name} cannot be read.",
            found=f"damaged, cut off, not UTF-8, or rows of unequal length ({type(error).__name__})",
            expected="a complete CSV, CSV.gz or Parquet file in UTF-8",
            fix="fetch or export the file again; nothing was changed",
            parameter="source",
        ) from None
