"""Ratings: one entity's matrix of users by items, with the observed entries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers
from twofold.errors import BadValue, DataError, Set
from twofold.html import block, facts_of

__all__ = ["Feedback", "Notes", "Ratings"]

Feedback = Literal["ratings", "counts"]
FEEDBACKS: Final = ("ratings", "counts")


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What reading changed in the table. Private: shown only where the data is."""

    rows: int = 0
    duplicates_merged: int = 0
    unknown_items_dropped: int = 0
    missing_dropped: int = 0


@final
@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """Users by items, immutable; a stored 0 is an observed 0, everything not stored is absent.

    Paper
    -----
    One entity's X_h.

    Privacy
    -------
    Everything is private. The repr shows the shape and nothing else.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array of shape (n_users, n_items)
        Observed values. Not copied, and frozen; rows sorted by column, no entry twice.
    user_ids : Identifiers
        One id per row.
    catalog : Catalog
        The public item list; one item per column.
    feedback : {"ratings", "counts"}
        Whether an absent entry is unknown, or a zero of smaller weight.
    notes : Notes
        What reading did to the table.

    Examples
    --------
    >>> matrix = sparse.csr_array(np.array([[5.0, 0.0], [0.0, 3.0]]))
    >>> ratings = Ratings(matrix, Identifiers(["ann", "bo"]), Catalog(["x", "y"]), "ratings")
    >>> ratings
    Ratings(2 users x 2 items, ratings)
    >>> ratings.of("bo")
    {'y': 3.0}
    """

    matrix: sparse.csr_array
    user_ids: Identifiers
    catalog: Catalog
    feedback: Feedback = "ratings"
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        if self.feedback not in FEEDBACKS:
            near = {"r": "ratings", "c": "counts"}.get(str(self.feedback)[:1].casefold())
            raise DataError(
                "{parameter} is unknown.",
                expected="ratings or counts",
                fix=None if near is None else Set("feedback", near),
                parameter="feedback",
            )
        shape = (len(self.user_ids), len(self.catalog))
        if self.matrix.shape != shape:
            raise DataError(
                "the matrix does not match its labels.",
                found=f"{self.matrix.shape[1]:,} columns",
                expected=f"one row per user id and {shape[1]:,} columns, one per catalog item",
                parameter="matrix",
            )
        if not self.matrix.has_canonical_format:
            raise DataError("the matrix repeats or misorders cells.", fix="matrix.sum_duplicates()", parameter="matrix")
        check_values(self.matrix.data, self.feedback)
        for part in (self.matrix.data, self.matrix.indices, self.matrix.indptr):
            part.flags.writeable = False

    def __repr__(self) -> str:
        return f"Ratings({self.n_users:,} users x {self.n_items:,} items, {self.feedback})"

    def _repr_html_(self) -> str:
        facts = {"users": f"{self.n_users:,}", "items": f"{self.n_items:,}", "feedback": self.feedback}
        return block("Ratings", [], facts_of(facts | {"keep": "private: rows of people; keep them where they are"}))

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        *,
        catalog: Catalog | None = None,
        users: Iterable[Any] | None = None,
        feedback: Feedback = "counts",
    ) -> Ratings:
        """Take a matrix of users by items, sparse (any format of SciPy) or dense; it is copied.

        Parameters
        ----------
        matrix : sparse matrix or array of shape (n_users, n_items)
            Stored entries are observed. Of a dense array, those are that are not 0; duplicates are summed.
        catalog : Catalog, optional
            The public item list in the order of the columns; the numbers of the columns by default.
        users : iterable of ids, optional
            One per row; the numbers of the rows by default.
        feedback : {"counts", "ratings"}
            Whether an absent entry is a zero of smaller weight, or unknown.

        Examples
        --------
        >>> Ratings.from_matrix(sparse.coo_array(np.array([[5, 0], [0, 3]]))).of(1)
        {1: 3.0}
        """
        try:
            rows: Any = sparse.csr_array(matrix, copy=True)
            rows = rows.astype(rows.dtype if rows.dtype in (np.float32, np.float64) else np.float32)
        except (TypeError, ValueError):
            rows = None
        if rows is None or rows.ndim != 2:
            raise DataError(
                "not a matrix of users by items.",
                found=f"a {type(matrix).__name__}",
                expected="a SciPy sparse matrix, or an array of numbers with two dimensions",
                fix="of a table or a dictionary, make a table of rows and read it: read_ratings(table, catalog)",
                parameter="matrix",
            )
        rows.sum_duplicates()
        items = Catalog(range(rows.shape[1])) if catalog is None else catalog
        return cls(rows, Identifiers(range(rows.shape[0]) if users is None else users), items, feedback)

    @property
    def n_users(self) -> int:
        """Number of users, including those without an entry."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items in the catalog."""
        return len(self.catalog)

    @property
    def n_entries(self) -> int:
        """Number of observed entries."""
        return int(self.matrix.nnz)

    @property
    def n_rated_items(self) -> int:
        """Number of items with at least one entry."""
        return int(np.count_nonzero(np.bincount(self.matrix.indices, minlength=self.n_items)))

    @property
    def entries_per_user(self) -> npt.NDArray[np.int64]:
        """Number of observed entries of every user."""
        return np.diff(self.matrix.indptr).astype(np.int64)

    def of(self, user: object) -> dict[Any, float]:
        """One user's observed entries, item id to value."""
        row = self.user_ids.position(user)
        span = slice(self.matrix.indptr[row], self.matrix.indptr[row + 1])
        items = self.catalog.items
        columns, values = self.matrix.indices[span].tolist(), self.matrix.data[span].tolist()
        return {items[column]: value for column, value in zip(columns, values, strict=True)}

    def take(self, rows: npt.ArrayLike) -> Ratings:
        """The users in these rows, in this order."""
        chosen = np.asarray(rows, dtype=np.int64)
        return Ratings(self.matrix[chosen], self.user_ids.take(chosen), self.catalog, self.feedback)

    def replace(self, matrix: sparse.csr_array) -> Ratings:
        """The same users and items with other entries."""
        return Ratings(matrix, self.user_ids, self.catalog, self.feedback, self.notes)

    def as_feedback(self, feedback: Feedback) -> Ratings:
        """The same entries read as the other kind; negative counts are refused.

        Examples
        --------
        >>> ratings = Ratings(sparse.csr_array(np.eye(2)), Identifiers([1, 2]), Catalog(["x", "y"]))
        >>> ratings.as_feedback("counts").feedback
        'counts'
        """
        if feedback == self.feedback:
            return self
        return Ratings(self.matrix, self.user_ids, self.catalog, feedback, self.notes)

    def digest(self) -> str:
        """SHA-256 of users, entries, catalog and feedback; independent of the order of the rows."""
        state = hashlib.sha256(f"twofold ratings 1 {self.feedback} {self.catalog.hash}\n".encode())
        state.update(self.user_ids.digest().encode())
        for part, kind in ((self.matrix.indptr, "<i8"), (self.matrix.indices, "<i8"), (self.matrix.data, "<f8")):
            state.update(np.ascontiguousarray(part, dtype=kind).data)
        return state.hexdigest()


def check_values(values: npt.NDArray[np.floating[Any]], feedback: Feedback) -> None:
    """Refuse NaN, infinity and negative counts; the error gives neither place nor value."""
    if values.size == 0:
        return
    low, high = values.min(), values.max()  # NaN and infinity survive min and max
    if not (np.isfinite(low) and np.isfinite(high)):
        raise BadValue(
            "the value column holds NaN or infinity.",
            expected="a finite number in every row",
            fix="remove those rows, or correct the computation that made them",
            parameter="value",
        )
    if feedback == "counts" and low < 0:
        raise BadValue(
            "the value column holds a negative count.",
            expected="counts of 0 or more",
            fix=Set("feedback", "ratings"),
            parameter="value",
        )
