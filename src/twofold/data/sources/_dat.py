"""The publisher's own MovieLens layout: Latin-1 text, fields separated by "::", in a folder or inside the zip."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from twofold.data._files import lossless_integers
from twofold.errors import TwofoldError, UnreadableSource

__all__ = ["Archive", "read_movies", "read_numbers", "read_users"]

ZIP_NAME: Final = "ml-1m.zip"


@dataclass(frozen=True)
class Archive:
    """A folder of .dat files, or the zip that holds them."""

    path: Path

    @classmethod
    def find(cls, path: Path) -> Archive | None:
        """The archive at or in `path`, or None where there is no publisher's layout."""
        if path.is_file():
            return cls(path)
        if (path / "ratings.dat").is_file():
            return cls(path)
        return cls(path / ZIP_NAME) if (path / ZIP_NAME).is_file() else None

    def read(self, name: str) -> bytes:
        """The bytes of one member, wherever in the zip it is."""
        with _our_errors(name):
            if self.path.is_dir():
                return (self.path / name).read_bytes()
            with zipfile.ZipFile(self.path) as archive:
                members = [entry for entry in archive.namelist() if entry.rsplit("/", 1)[-1] == name]
                return archive.read(members[0])


def read_numbers(archive: Archive, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """A member whose fields are all whole numbers.

    The separator of two characters becomes one that no number contains, so that the fast parser can be used.
    """
    raw = archive.read(name).replace(b"::", b"\t")
    with _our_errors(name):
        table = pl.read_csv(raw, separator="\t", has_header=False, schema=dict.fromkeys(columns, pl.Int64))
    if any(table.null_count().row(0)):
        raise _damaged(name, "lines with fields missing")
    return table


def read_users(archive: Archive) -> pl.DataFrame:
    """User and ZIP code, the first and the fifth field."""
    fields = _fields(archive, "users.dat", 5)
    return pl.DataFrame({"user": _integers(fields, "users.dat"), "zip": [field[4] for field in fields]})


def read_movies(archive: Archive) -> pl.DataFrame:
    """Item, title and genres."""
    fields = _fields(archive, "movies.dat", 3)
    # A title may itself hold "::"; the first field is the id and the last the genres.
    titles, genres = ["::".join(field[1:-1]) for field in fields], [field[-1] for field in fields]
    return pl.DataFrame({"item": _integers(fields, "movies.dat"), "title": titles, "genres": genres})


def _fields(archive: Archive, name: str, least: int) -> list[list[str]]:
    # Split at line feeds only: str.splitlines would also break at control characters inside a Latin-1 title.
    lines = archive.read(name).decode("latin-1").replace("\r\n", "\n").split("\n")
    fields = [line.split("::") for line in lines if line]
    if not fields or any(len(field) < least for field in fields):
        raise _damaged(name, "lines with fields missing")
    return fields


def _integers(fields: list[list[str]], name: str) -> pl.Series:
    column = lossless_integers(pl.Series([field[0] for field in fields]))
    if not column.dtype.is_integer():
        raise _damaged(name, "ids that are not whole numbers")
    return column


@contextmanager
def _our_errors(name: str) -> Iterator[None]:
    """Turn what the system, zipfile or polars throw at damaged bytes into our error, without their text."""
    try:
        yield
    except (TwofoldError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except (IndexError, FileNotFoundError):
        raise _damaged(name, "no such member") from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(name, f"damaged or cut off ({type(error).__name__})") from None
    except BaseException as error:  # polars' panics are not Exceptions
        raise _damaged(name, f"not the expected fields ({type(error).__name__})") from None


def _damaged(name: str, found: str) -> UnreadableSource:
    return UnreadableSource(
        f"{name} cannot be read.",
        found=found,
        expected="the publisher's file, fields separated by '::'",
        fix=f"fetch {ZIP_NAME} again; nothing was changed",
    )
