"""MovieLens 1M as in the recorded runs: their columns and the entries that they held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import keep_entries
from twofold.data.catalog import Catalog
from twofold.data.federation import Federation
from twofold.data.files import read_file
from twofold.data.ratings import Ratings
from twofold.data.sources import movielens
from twofold.data.sources.movielens import Archive, read_numbers
from twofold.data.sources.published import MOVIELENS, find_folder, need_table
from twofold.data.split import Split

__all__ = ["rated_columns", "recorded_draw", "recorded_movielens"]

SEED: Final = 7
_SHIFT: Final = 1 << 32  # ids are far below


def recorded_movielens(folder: str | Path | None = None) -> Split[Federation]:
    """Load MovieLens 1M with the recorded split; the recorded figures differ from other splits by up to a tenth.

    Parameters
    ----------
    folder : str or Path, optional
        As for `twofold.data.sources.movielens.load`.

    Paper
    -----
    Not in the text, which says 20% of the users and five entries each. The notebooks take every user with probability
    0.1 and each of their ratings with probability 0.2, by NumPy's old generator with seed 7, in the order of the file.

    Privacy
    -------
    For repeating recorded figures only; see `rated_columns`.
    """
    lines = _lines(find_folder(MOVIELENS, folder))
    held = lines.filter(pl.Series(recorded_draw(lines["user"].to_numpy())))
    marks = _codes(held["user"].to_numpy(), held["item"].to_numpy())
    parts = {label: _cut(one, marks) for label, one in rated_columns(movielens.load(folder)).items()}
    train, test = (Federation({label: pair[side] for label, pair in parts.items()}) for side in (0, 1))
    return Split(train=train, test=test)


def recorded_draw(users: NDArray[Any], *, seed: int = SEED) -> NDArray[np.bool_]:
    """Draw the held-out lines of a table of ratings as the recorded runs did.

    Parameters
    ----------
    users : array (lines,)
        Who made each rating, in the order of the file, which lists one user after the other by number from 1.
    seed : int
        Of NumPy's old generator.

    Examples
    --------
    >>> drawn = recorded_draw(np.repeat(np.arange(1, 1001), 20))
    >>> round(drawn.mean(), 2), len(np.unique(np.flatnonzero(drawn) // 20))
    (np.float64(0.02), 97)
    """
    old = np.random.RandomState(seed)  # the old stream, and no other, gives the recorded entries
    _, lengths = np.unique(users, return_counts=True)
    trains = old.binomial(1, 0.9, size=lengths.size).astype(np.bool_)
    drawn = np.zeros(len(users), dtype=np.bool_)
    ends = np.cumsum(lengths)
    for user in np.flatnonzero(~trains):
        drawn[ends[user] - lengths[user] : ends[user]] = old.binomial(1, 0.2, size=lengths[user])
    return drawn


def rated_columns(federation: Federation) -> Federation:
    """Leave out the items without an entry in the federation.

    Paper
    -----
    Not in the text: the recorded MovieLens runs have the 3,706 rated movies of 3,883. Mean rank is a share of the
    columns, so that figures can be compared on these columns only.

    Privacy
    -------
    Not private: which items anybody has is a fact about the users.

    Examples
    --------
    >>> from twofold.data.catalog import Identifiers
    >>> rows = sparse.csr_array(np.array([[1.0, 0.0, 2.0]]))
    >>> one = Ratings(rows, Identifiers(["ann"]), Catalog(["x", "y", "z"]), "counts")
    >>> rated_columns(Federation({"north": one}))["north"].of("ann")
    {'x': 1.0, 'z': 2.0}
    """
    seen = np.zeros(len(federation.catalog), dtype=np.bool_)
    for ratings in federation.values():
        seen[ratings.matrix.indices] = True
    kept = np.flatnonzero(seen)
    catalog = Catalog([federation.catalog.items[column] for column in kept.tolist()])
    return Federation({label: _only(one, kept, catalog) for label, one in federation.items()})


def _only(ratings: Ratings, kept: NDArray[np.intp], catalog: Catalog) -> Ratings:
    matrix = sparse.csr_array(ratings.matrix[:, kept])
    matrix.sum_duplicates()
    return Ratings(matrix, ratings.user_ids, catalog, ratings.feedback)


def _lines(path: Path) -> pl.DataFrame:
    """User and item of every rating in the order of the file."""
    archive = Archive.find(path)
    if archive is not None:
        return read_numbers(archive, "ratings.dat", ("user", "item", "rating", "timestamp")).select("user", "item")
    return read_file(need_table(MOVIELENS, path, "ratings"), ["user", "item"], text=["user", "item"])


def _cut(ratings: Ratings, marks: NDArray[np.int64]) -> tuple[Ratings, Ratings]:
    owners = np.repeat(np.array(list(ratings.user_ids)), ratings.entries_per_user)
    items = np.array(list(ratings.catalog.items))[ratings.matrix.indices]
    held = np.isin(_codes(owners, items), marks)
    return tuple(ratings.replace(keep_entries(ratings.matrix, chosen)) for chosen in (~held, held))  # type: ignore[return-value]


def _codes(users: NDArray[Any], items: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(users.astype(np.int64) * _SHIFT + items.astype(np.int64))
