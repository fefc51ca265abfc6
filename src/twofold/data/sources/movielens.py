"""MovieLens 1M: 6,040 users' ratings of movies, cut into entities by ZIP code.

Reads our tables, or the publisher's own layout: Latin-1 text, fields separated by "::", in a folder or inside the zip.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from twofold.data.catalog import Catalog
from twofold.data.features import class_features
from twofold.data.federation import Federation
from twofold.data.files import lossless_integers, read_file
from twofold.data.ratings import Ratings
from twofold.data.read import read_ratings
from twofold.data.sources.published import MOVIELENS, find_folder, need_table
from twofold.errors import CatalogError, DataError, TwofoldError, UnreadableSource
from twofold.features import Features

__all__ = ["Archive", "Entity", "features", "load", "read_movies", "read_numbers", "read_users"]

Entity = Literal["zip1", "zip3"]
DIGITS: Final = {"zip1": 1, "zip3": 3}
STARS: Final = (1.0, 5.0)
ZIP_NAME: Final = "ml-1m.zip"
#: Films of earlier years are few and share one class.
FIRST_DECADE: Final = 1920


def load(folder: str | Path | None = None, *, entity: Entity = "zip1") -> Federation:
    r"""Read MovieLens 1M.

    Paper
    -----
    Section 5.2: the first digit of each user's ZIP code makes "a natural federation of the data".

    Privacy
    -------
    The catalog is the publisher's list of 3,883 movies, not the 3,706 that somebody rated: the second is a fact about
    the users.

    Deviations
    ----------
    The paper says "approximately 3,900 movies"; its recorded runs use the 3,706 rated ones. Time stamps are left out.

    Parameters
    ----------
    folder : str or Path, optional
        A folder with ratings, users and movies as .csv or .csv.gz (columns user, item, rating; user, zip; item, title,
        genres), or with the publisher's .dat files, or with ml-1m.zip; or the zip file itself. By default
        ``$TWOFOLD_DATA/movielens-1m``.
    entity : {"zip1", "zip3"}
        First digit of the ZIP code (10 entities), or its first three digits.

    Returns
    -------
    Federation
        Integer user and item ids; `catalog.features` holds title and genres. Users without a rating are left out.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "ratings.dat").write_text("1::2::5::978300760\n7::1::3::978300760\n")
    ...     _ = Path(folder, "users.dat").write_text("1::F::1::10::48067\n7::M::35::1::02139-1955\n")
    ...     _ = Path(folder, "movies.dat").write_text("1::Toy Story (1995)::Animation\n2::Jumanji (1995)::Fantasy\n")
    ...     federation = load(folder)
    >>> federation
    Federation(2 entities of 1 to 1 users, 2 users, 2 of 2 items rated, 2 entries, ratings)
    >>> list(federation), federation["4"].of(1)
    (['0', '4'], {2: 5.0})
    """
    if entity not in DIGITS:
        raise DataError("{parameter} is unknown.", expected="'zip1' or 'zip3'", parameter="entity")
    path = find_folder(MOVIELENS, folder)
    archive = Archive.find(path)
    ratings, users = _from_tables(path) if archive is None else _from_archive(archive)
    return Federation.cut(ratings, _labels(ratings, users, DIGITS[entity]))


def features(catalog: Catalog, *, decades: bool = True) -> Features:
    """Give the publisher's genres, and the decades in the titles, as public features of the movies.

    Parameters
    ----------
    catalog : Catalog
        As `load` makes it: with columns title and genres.
    decades : bool
        Whether a decade of release is a class too. Titles end in the year; films before 1930 are one class.

    Privacy
    -------
    Public: both stand in the publisher's list of movies.

    Examples
    --------
    >>> titles = ["Toy Story (1995)", "Metropolis (1926)"]
    >>> movies = pl.DataFrame({"title": titles, "genres": ["Comedy", "Drama|Sci-Fi"]})
    >>> features(Catalog([1, 2], movies)).names
    ('Comedy', 'Drama', 'Sci-Fi', 'from 1920', 'from 1990')
    >>> features(Catalog([1, 2], movies), decades=False).n_features
    3
    """
    table = catalog.features
    if table is None or not {"title", "genres"} <= set(table.columns):
        raise CatalogError(
            "the catalog does not say what its items are.",
            expected="columns title and genres",
            fix='movielens.load()["0"].catalog has them; for other tables: read_features(path, catalog)',
            parameter="catalog",
        )
    words = [text.split("|") for text in table["genres"].to_list()]
    if decades:
        words = [own + _decade(title) for own, title in zip(words, table["title"].to_list(), strict=True)]
    return class_features(words)


def _decade(title: str) -> list[str]:
    found = re.search(r"\((\d{4})\)\s*$", title)
    return [f"from {max(FIRST_DECADE, int(found[1]) // 10 * 10)}"] if found else []


def _from_tables(folder: Path) -> tuple[Ratings, pl.DataFrame]:
    users = read_file(need_table(MOVIELENS, folder, "users"), ["user", "zip"], text=["user", "zip"])
    movies, ratings = (need_table(MOVIELENS, folder, name) for name in ("movies", "ratings"))
    catalog = _catalog(read_file(movies, ["item", "title", "genres"], text=["item", "title", "genres"]))
    return read_ratings(ratings, catalog, value="rating", feedback="ratings", value_range=STARS), users


def _from_archive(archive: Archive) -> tuple[Ratings, pl.DataFrame]:
    users, catalog = read_users(archive), _catalog(read_movies(archive))
    table = read_numbers(archive, "ratings.dat", ("user", "item", "rating", "timestamp"))
    return read_ratings(table, catalog, value="rating", feedback="ratings", value_range=STARS), users


def _catalog(movies: pl.DataFrame) -> Catalog:
    return Catalog(movies["item"], movies.select("title", "genres"))


def _labels(ratings: Ratings, users: pl.DataFrame, digits: int) -> npt.NDArray[np.object_]:
    """Leading digits of the ZIP code of every user of `ratings`, in their order."""
    wanted = ratings.user_ids.to_polars().alias("user").to_frame()
    if users["user"].dtype != wanted["user"].dtype or users["user"].is_duplicated().any():
        raise _damaged("user ids that repeat or are of another type")
    # read_file makes the codes integers when none begins with 0; as text they are what the file says either way.
    codes = users.select("user", pl.col("zip").cast(pl.String).str.head(digits))
    found = wanted.join(codes, on="user", how="left", maintain_order="left")["zip"]
    if not found.str.contains(rf"^\d{{{digits}}}$").fill_null(value=False).all():
        raise _damaged(f"users without a ZIP code that begins with {digits} digits")
    return found.to_numpy()


def _damaged(found: str) -> UnreadableSource:
    return UnreadableSource(
        "the table of users does not match the ratings.",
        found=found,
        expected="one line per user who rated, each with a ZIP code",
        fix="fetch the data set again",
        parameter="users",
    )


@dataclass(frozen=True)
class Archive:
    """A folder of .dat files, or the zip that holds them."""

    path: Path

    @classmethod
    def find(cls, path: Path) -> Archive | None:
        """The archive at or in `path`, or None if the layout is not the publisher's."""
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
        raise _damaged_dat(name, "lines with fields missing")
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
        raise _damaged_dat(name, "lines with fields missing")
    return fields


def _integers(fields: list[list[str]], name: str) -> pl.Series:
    column = lossless_integers(pl.Series([field[0] for field in fields]))
    if not column.dtype.is_integer():
        raise _damaged_dat(name, "ids that are not whole numbers")
    return column


@contextmanager
def _our_errors(name: str) -> Iterator[None]:
    """Turn errors of the system, zipfile or polars on damaged bytes into ours, without their text."""
    try:
        yield
    except (TwofoldError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except (IndexError, FileNotFoundError):
        raise _damaged_dat(name, "no such member") from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged_dat(name, f"damaged or cut off ({type(error).__name__})") from None
    except BaseException as error:  # polars' panics are not Exceptions
        raise _damaged_dat(name, f"not the expected fields ({type(error).__name__})") from None


def _damaged_dat(name: str, found: str) -> UnreadableSource:
    return UnreadableSource(
        f"{name} cannot be read.",
        found=found,
        expected="the publisher's file, fields separated by '::'",
        fix=f"fetch {ZIP_NAME} again; nothing was changed",
        parameter=name,
    )
