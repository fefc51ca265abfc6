"""Public features of items: genres of films, classes of drugs and labs. Nothing in them is private."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadNumber, BadShape

__all__ = ["LARGEST_FEATURE", "MOST_FEATURES", "Features"]

#: Size of one entry; larger ones would leave no room in exact sums.
LARGEST_FEATURE = 1_000
#: Columns of a table.
MOST_FEATURES = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """A public table: one row of whole numbers per item, in the order of the catalog.

    Parameters
    ----------
    matrix : int64 array (items, features)
        Whole numbers from -1,000 to 1,000; 0 and 1 for membership in classes. An item without any has a row of zeros.
    names : tuple of str
        One per column.

    Privacy
    -------
    Public by definition. A table computed from the entities' people would be a release and has no place here.

    Examples
    --------
    >>> genres = Features(matrix=np.array([[1, 0], [1, 1], [0, 0]]), names=("comedy", "drama"))
    >>> genres.n_items, genres.n_features, genres.described
    (3, 2, 2)
    """

    matrix: NDArray[np.int64] = field(repr=False)
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        given = np.asarray(self.matrix)
        if given.ndim != 2 or given.shape[1] != len(self.names) or not 1 <= len(self.names) <= MOST_FEATURES:
            raise BadShape(
                "the table of features has the wrong form.",
                found=f"shape {given.shape}, {len(self.names)} names",
                expected=f"a row per item and a column per name, 1 to {MOST_FEATURES} columns",
                parameter="matrix",
            )
        if given.dtype.kind not in "biu" or (np.abs(given.astype(np.int64)) > LARGEST_FEATURE).any():
            raise BadNumber(
                "features must be whole numbers.",
                expected=f"from -{LARGEST_FEATURE} to {LARGEST_FEATURE}",
                parameter="matrix",
            )
        if len(set(self.names)) != len(self.names):
            raise BadShape("two features have the same name.", expected="each name once", parameter="names")
        whole = np.ascontiguousarray(given, dtype=np.int64).copy()
        whole.flags.writeable = False
        object.__setattr__(self, "matrix", whole)

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.matrix.shape[0])

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.matrix.shape[1])

    @property
    def described(self) -> int:
        """Items with any feature."""
        return int((self.matrix != 0).any(axis=1).sum())

    @cached_property
    def hash(self) -> str:
        """SHA-256 of names and numbers."""
        state = hashlib.sha256(f"twofold features 1 {self.matrix.shape} {self.names!r}\n".encode())
        state.update(self.matrix.astype("<i8").tobytes())
        return state.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)
