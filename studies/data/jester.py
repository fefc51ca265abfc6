"""Jester: ratings of 100 jokes, dense and with both signs; users cut into entities at random."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from twofold.csr import csr_rows
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.columns import require_columns
from twofold.data.federation import Federation
from twofold.data.files import read_file
from twofold.data.ratings import Ratings
from twofold.data.sources.published import Published, find_folder, need_table
from twofold.data.split import Seed
from twofold.errors import BadValue, DataError, EmptyTable, UnreadableSource

__all__ = ["JESTER", "JOKES", "load"]

JESTER: Final = Published(
    title="Jester, data set 1, first part",
    page="https://eigentaste.berkeley.edu/dataset/",
    licence="free for research when cited",
    citation="Goldberg, Roeder, Gupta and Perkins, Information Retrieval 4(2), 2001",
    folder="jester-1",
    files=("ratings_wide.csv (columns n_ratings, joke1, ..., joke100)",),
)
N_JOKES: Final = 100
JOKES: Final = tuple(f"joke{number}" for number in range(1, N_JOKES + 1))
BOUND: Final = 10.0
NOT_RATED: Final = 99.0


def load(folder: str | Path | None = None, *, n_entities: int = 50, rng: Seed = None) -> Federation:
    r"""Read the first part of Jester 1 and cut its users into entities at random.

    Paper
    -----
    Not used there. It is here because it is what the paper's data is not: few items, most of them rated by most users,
    and ratings below zero.

    Privacy
    -------
    The catalog is the list of all 100 jokes, the same for every user.

    Parameters
    ----------
    folder : str or Path, optional
        Folder with ratings_wide.csv or ratings_wide.csv.gz (columns n_ratings, joke1, ..., joke100; 99 = not rated).
        By default ``$TWOFOLD_DATA/jester-1``.
    n_entities : int, default 50
        Number of entities; their sizes differ by at most one user.
    rng : int, Generator, SeedSequence or None
        Seed of the cut (SPEC 7); None draws a fresh one.

    Returns
    -------
    Federation
        Entities 0, 1, ...; user ids are line numbers from 1, items are "joke1" to "joke100". A rating of 0 is kept
        as a rating.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = [",".join(["n_ratings", *JOKES]), "2,-7.82,0" + ",99" * 98, "1,4.5" + ",99" * 99]
    ...     _ = Path(folder, "ratings_wide.csv").write_text("\n".join(lines))
    ...     federation = load(folder, n_entities=2, rng=0)
    >>> federation
    Federation(2 entities of 1 to 1 users, 2 users, 2 of 100 items rated, 3 entries, ratings)
    """
    path = find_folder(JESTER, folder)
    table = path if path.is_file() else need_table(JESTER, path, "ratings_wide")
    grid = _grid(read_file(table, None))
    if not isinstance(n_entities, (int, np.integer)) or not 1 <= n_entities <= len(grid):
        raise DataError(
            "n_entities is not usable.", found=f"n_entities={n_entities}", expected="from 1 to the number of users"
        )
    users = Identifiers(pl.Series(np.arange(1, len(grid) + 1)))
    ratings = Ratings(_sparse(grid), users, Catalog(JOKES), "ratings")
    return Federation.cut(ratings, _labels(len(grid), n_entities, np.random.default_rng(rng)))


def _grid(frame: pl.DataFrame) -> npt.NDArray[np.float64]:
    """Users by jokes with 99 for "not rated", checked."""
    require_columns(frame.columns, ["n_ratings", *JOKES])
    if frame.height == 0:
        raise EmptyTable("the table of ratings has no rows.")
    frame = frame.select("n_ratings", *JOKES)
    if not all(kind.is_numeric() for kind in frame.dtypes) or any(frame.null_count().row(0)):
        raise BadValue("the ratings hold text or empty cells.", expected="a number in every cell, 99 for not rated")
    stated, grid = frame["n_ratings"].to_numpy(), frame.select(JOKES).cast(pl.Float64).to_numpy()
    rated = grid != NOT_RATED
    if not (np.abs(grid[rated]) <= BOUND).all():  # NaN fails too
        raise BadValue("a rating is outside its range.", expected="values from -10 to 10, or 99 for not rated")
    if not np.array_equal(rated.sum(axis=1), stated):
        raise UnreadableSource(
            "the table of ratings contradicts itself.",
            found="lines whose n_ratings is not the number of their ratings",
            expected="the publisher's table",
            fix="fetch the data set again",
        )
    return grid


def _sparse(grid: npt.NDArray[np.float64]) -> sparse.csr_array:
    """Built from the mask, not from the values: a rating of 0 is an entry."""
    rated = grid != NOT_RATED
    indptr = np.concatenate([[0], np.cumsum(rated.sum(axis=1))]).astype(np.int32)
    columns = np.nonzero(rated)[1].astype(np.int32)
    matrix = csr_rows(grid[rated].astype(np.float32), columns, indptr, grid.shape)
    matrix.has_canonical_format = True
    return matrix


def _labels(n_users: int, n_entities: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return rng.permutation(np.arange(n_users) % n_entities)
