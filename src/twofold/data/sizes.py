"""How large a table becomes, measured before it is read: a small file from a stranger must not fill the memory.

A gzipped CSV file is unpacked up to a limit. A Parquet file says in the headers of its pages how large each is when
unpacked and how many values it holds; they are added up from the headers themselves, since a summary at the end of the
file may say anything.

Parquet's headers are written in Thrift's compact protocol
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md, fields in
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift).
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from twofold.errors import UnreadableSource
from twofold.storage.files import open_plain

__all__ = ["MOST_BYTES", "MOST_CELLS", "MOST_COLUMNS", "check_cells", "check_parquet", "check_texts", "unpacked"]

#: Bytes of an unpacked public table: ten million ids, or a million with titles.
MOST_BYTES: Final = 128 * 1024**2
#: Cells of a public table; polars takes at most 16 bytes for each, beside the text.
MOST_CELLS: Final = 12_000_000
MOST_COLUMNS: Final = 2_000
_CHUNK: Final = 1 << 20
_LONGEST_HEADER: Final = 1 << 20
#: Of the summary at the end of a Parquet file, and of one page's header.
_LONGEST_FOOTER: Final = 16 * 1024**2
_LONGEST_PAGE_HEADER: Final = 1 << 16
_DEPTH: Final = 12


def unpacked(path: Path, *, gzipped: bool) -> bytes:
    """Give the content of a public CSV file, if it is not too large."""
    with os.fdopen(open_plain(path, links=True), "rb") as file:
        content = b"".join(_chunks(gzip.GzipFile(fileobj=file) if gzipped else file))
    if len(content) > MOST_BYTES:
        raise _too_large(path.name, "bytes", MOST_BYTES)
    return content


def _chunks(file: Any) -> Iterator[bytes]:
    """Read up to one chunk more than is allowed."""
    size = 0
    while size <= MOST_BYTES and (chunk := file.read(_CHUNK)):
        size += len(chunk)
        yield chunk


def check_cells(content: bytes, separator: str, name: str) -> None:
    r"""Refuse a public CSV table of too many columns or cells.

    Examples
    --------
    >>> check_cells(b"item,title\na,b\n", ",", "items.csv")
    >>> check_cells(b"," * 3_000, ",", "items.csv")
    Traceback (most recent call last):
    twofold.errors.UnreadableSource: items.csv is too large for a public table...
    """
    mark = separator.encode()
    if _first_line(content).count(mark) >= MOST_COLUMNS:
        raise _too_large(name, "columns", MOST_COLUMNS)
    if content.count(mark) + content.count(b"\n") > MOST_CELLS:
        raise _too_large(name, "cells", MOST_CELLS)


def _first_line(content: bytes) -> bytes:
    """The header; a line break between quotes does not end it."""
    end = -1
    while (end := content.find(b"\n", end + 1, _LONGEST_HEADER)) >= 0:
        if content.count(b'"', 0, end) % 2 == 0:
            return content[:end]
    return content[:_LONGEST_HEADER]


def check_texts(sizes: dict[str, int], name: str) -> None:
    """Refuse a public table of too much text: pages may name one long text many times."""
    if sum(sizes.values()) > MOST_BYTES:
        raise _too_large(name, "bytes of text", MOST_BYTES)


def check_parquet(path: Path) -> None:
    """Refuse a public Parquet file that unpacks to more than a public table has; a damaged one raises ValueError."""
    with os.fdopen(open_plain(path, links=True), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        footer = _footer(file, size)
        chunks = [chunk for group in _items(footer, 4) for chunk in _items(group, 1)]
        rows, width = _number(footer, 3), max(len(_items(footer, 2)) - 1, 1)
        if width > MOST_COLUMNS:
            raise _too_large(path.name, "columns", MOST_COLUMNS)
        if rows * width > MOST_CELLS or len(chunks) > MOST_CELLS // 100:
            raise _too_large(path.name, "cells", MOST_CELLS)
        cells = unpacked_size = 0
        for chunk in chunks:
            for page in _pages(file, _part(chunk, 3), size):
                cells, unpacked_size = cells + page.values, unpacked_size + page.unpacked
                if unpacked_size > MOST_BYTES:
                    raise _too_large(path.name, "bytes", MOST_BYTES)
                if cells > 2 * MOST_CELLS:  # dictionaries are counted, too
                    raise _too_large(path.name, "cells", MOST_CELLS)


class _Page(NamedTuple):
    unpacked: int
    values: int


def _footer(file: BinaryIO, size: int) -> dict[int, Any]:
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or not 0 < length <= min(size - 12, _LONGEST_FOOTER):
        raise ValueError("no footer")
    file.seek(size - 8 - length)
    return _Reader(file.read(length)).struct()


def _pages(file: BinaryIO, chunk: dict[int, Any], size: int) -> Iterator[_Page]:
    """Walk through the headers of a column's pages."""
    starts = [_number(chunk, field) for field in (9, 11) if chunk.get(field)]
    at = min(starts, default=0)
    end = at + _number(chunk, 7)
    if not 0 < at <= end <= size:
        raise ValueError("a column outside the file")
    while at < end:
        file.seek(at)
        reader = _Reader(file.read(min(_LONGEST_PAGE_HEADER, end - at)))
        header = reader.struct()
        large, packed = _number(header, 2), _number(header, 3)
        values = max((_number(_part(header, kind), 1) for kind in (5, 7, 8) if kind in header), default=0)
        at += reader.at + packed
        if at > end:
            raise ValueError("a page outside its column")
        yield _Page(unpacked=large, values=values)


def _items(record: dict[int, Any], field: int) -> list[Any]:
    found = record.get(field, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("not a list of records")
    return found


def _part(record: dict[int, Any], field: int) -> dict[int, Any]:
    found = record.get(field)
    if not isinstance(found, dict):
        raise ValueError("not a record")
    return found


def _number(record: dict[int, Any], field: int) -> int:
    found = record.get(field)
    if type(found) is not int or found < 0:
        raise ValueError("not a size")
    return found


class _Reader:
    """Thrift's compact protocol as plain tables of numbers, bytes, lists and tables; IndexError beyond the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Read fields by number."""
        if depth > _DEPTH:
            raise ValueError("nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            found[field] = self._value(head & 15, depth, alone=True)
        return found

    def _value(self, kind: int, depth: int, *, alone: bool) -> Any:
        if kind in (1, 2):  # a field alone has its truth in its type, one in a list has a byte
            return kind == 1 if alone else self._byte() == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (9, 10):
            head = self._byte()
            length = head >> 4 if head >> 4 < 15 else self._unsigned()
            if length > len(self.data) - self.at:  # every entry takes a byte at least
                raise ValueError("a list beyond the end")
            return [self._value(head & 15, depth + 1, alone=False) for _ in range(length)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("an unknown type")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, length: int) -> bytes:
        if length > len(self.data) - self.at:
            raise ValueError("bytes beyond the end")
        self.at += length
        return self.data[self.at - length : self.at]

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise ValueError("too long a number")

    def _signed(self) -> int:
        found = self._unsigned()
        return found >> 1 ^ -(found & 1)


def _too_large(name: str, what: str, most: int) -> UnreadableSource:
    return UnreadableSource(
        f"{name} is too large for a public table.",
        found=f"more than {most:,} {what} when unpacked",
        expected="a list of items, as the author of the plan agreed it",
        fix="ask for the file again; keep only the column of ids and what describes the items",
        parameter="source",
    )
