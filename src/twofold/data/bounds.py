"""Bounds on what one user can contribute, from public numbers only."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.csr import keep_entries, with_data
from twofold.data.catalog import Identifiers
from twofold.data.ratings import Ratings
from twofold.errors import BadBound, DataError

__all__ = ["Bounds", "BoundsReport", "mixed"]

Keep = Literal["random", "largest"]
Norm = Literal["l1", "l2"]
Floats = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]
# Shrinks a scaled row by one part in a billion, more than float64 can lose while summing a row of millions.
SAFETY: Final = 1.0 - 2.0**-30
#: Of a table, below which shares of its mass say nothing.
_LEAST_MASS: Final = 1e-200


@dataclass(frozen=True, kw_only=True)
class BoundsReport:
    """What bounds would cut. Computed from private data: show it only where the data is, never send it.

    `mass` is the sum of absolute values. All fields are fractions of the whole table, or of the users.
    """

    entries_clipped: float
    entries_dropped: float
    users_truncated: float
    users_scaled: float
    mass_clipped: float
    mass_dropped: float
    mass_scaled: float

    @property
    def mass_kept(self) -> float:
        """Share of the mass that remains after all bounds."""
        return 1.0 - self.mass_clipped - self.mass_dropped - self.mass_scaled


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Public limits on one user's row: clip the values, keep few items, cap the norm; in this order.

    Paper
    -----
    `bound` is Λ and `max_items` is s of Algorithm 1. The paper takes both from the data; here they come from the plan.

    Privacy
    -------
    Every step looks at one user's row, that user's id and public numbers, never at another user, so the sensitivity
    of whatever follows is the size of one bounded row.

    Parameters
    ----------
    bound : float
        Largest value; larger values are cut to it.
    lower : float, default 0
        Smallest value; ``-bound`` for signed scores.
    max_items : int, optional
        Most entries a user keeps.
    keep : {"random", "largest"}
        Which ones: a random subset keyed by the public seed and the user's own id, or the largest in absolute
        value (ties: the lower column).
    norm : {"l1", "l2"}, optional
        Norm to cap, with `norm_cap`; longer rows are scaled down.
    norm_cap : float, optional
        Largest norm.
    seed : int, default 0
        Public seed of the random subset.

    Examples
    --------
    >>> from twofold.data.catalog import Catalog
    >>> matrix = sparse.csr_array(np.array([[9.0, 1.0, 2.0]]))
    >>> ratings = Ratings(matrix, Identifiers(["ann"]), Catalog(["x", "y", "z"]), "counts")
    >>> bounded, report = Bounds(bound=5, max_items=2, keep="largest").apply(ratings)
    >>> bounded.of("ann"), round(report.mass_kept, 3)
    ({'x': 5.0, 'z': 2.0}, 0.583)
    """

    bound: float
    lower: float = 0.0
    max_items: int | None = None
    keep: Keep = "random"
    norm: Norm | None = None
    norm_cap: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("bound", "lower", "norm_cap"):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, (int, float, type(None))):
                raise _unusable(name, f"a {type(value).__name__}", "a number")
        if self.bound is None or not (math.isfinite(self.bound) and self.bound > 0):
            raise _unusable("bound", self.bound, "a finite number above 0")
        if self.lower is None or not (math.isfinite(self.lower) and self.lower < self.bound):
            raise _unusable("lower", self.lower, "a finite number below bound")
        whole = isinstance(self.max_items, int) and not isinstance(self.max_items, bool)
        if self.max_items is not None and (not whole or self.max_items < 1):
            raise _unusable("max_items", self.max_items, "a whole number from 1")
        if self.keep not in ("random", "largest"):
            raise _unusable("keep", self.keep, "random or largest")
        if (self.norm is None) != (self.norm_cap is None):
            raise _unusable("norm_cap", "only one of the two", "both norm (l1 or l2) and norm_cap, or neither")
        if self.norm not in (None, "l1", "l2"):
            raise _unusable("norm", self.norm, "l1 or l2")
        if self.norm_cap is not None and not (math.isfinite(self.norm_cap) and self.norm_cap > 0):
            raise _unusable("norm_cap", self.norm_cap, "a finite number above 0")

    def apply(self, ratings: Ratings) -> tuple[Ratings, BoundsReport]:
        """Bound every user's row; also report what was cut (private, local).

        Parameters
        ----------
        ratings : Ratings
            Private.

        Returns
        -------
        bounded : Ratings
            The same users and catalog.
        report : BoundsReport
            Fractions cut.
        """
        if not isinstance(ratings, Ratings):
            raise DataError(
                "bounds apply to Ratings.",
                found=f"a {type(ratings).__name__}",
                fix="read_ratings(...)",
                parameter="ratings",
            )
        matrix = ratings.matrix
        # The limits themselves are rounded inwards: 0.1 as a float32 would be a little more than 0.1.
        low, high = _towards_zero(np.array([self.lower, self.bound]), matrix.dtype)
        clipped = np.clip(matrix.data, low, high)
        chosen = self._chosen(clipped, matrix, ratings.user_ids)
        kept = keep_entries(matrix, chosen, clipped)
        scaled, factors = self._capped(kept)
        steps = (matrix.data, clipped, kept.data, scaled.data)
        report = _report(steps, chosen, np.diff(matrix.indptr), factors)
        return ratings.replace(scaled), report

    def _chosen(self, values: Floats, matrix: sparse.csr_array, ids: Identifiers) -> Mask:
        """True for the entries a user keeps."""
        chosen = np.ones(matrix.nnz, dtype=np.bool_)
        lengths = np.diff(matrix.indptr)
        if self.max_items is None or lengths.max(initial=0) <= self.max_items:
            return chosen
        long = np.flatnonzero(lengths > self.max_items)
        entries = _spans(matrix.indptr[long], lengths[long])
        owners = np.repeat(np.arange(long.size), lengths[long])
        columns = matrix.indices[entries]
        if self.keep == "largest":
            keys = -np.abs(values[entries])
            order = np.lexsort((columns, keys, owners))
        else:
            order = np.lexsort((columns, _priorities(self.seed, ids, long, owners, columns), owners))
        ranks = np.arange(entries.size) - np.repeat(_starts(lengths[long]), lengths[long])
        chosen[entries[order[ranks >= self.max_items]]] = False
        return chosen

    def _capped(self, matrix: sparse.csr_array) -> tuple[sparse.csr_array, npt.NDArray[np.float64]]:
        """Scale rows whose norm is above the cap; also return each row's factor."""
        factors = np.ones(matrix.shape[0])
        if self.norm_cap is None or matrix.nnz == 0:
            return matrix, factors
        # Scaled by the public bound first, so that squaring neither overflows nor vanishes. Not by the largest entry
        # of the table: then the rounding of one user's norm would depend on another user.
        top = max(abs(self.lower), abs(self.bound))
        values = np.abs(matrix.data).astype(np.float64) / top
        sums = _row_sums(values if self.norm == "l1" else values**2, matrix.indptr)
        norms = top * (sums if self.norm == "l1" else np.sqrt(sums))
        above = norms > self.norm_cap
        factors[above] = self.norm_cap / norms[above] * SAFETY
        exact = matrix.data.astype(np.float64) * np.repeat(factors, np.diff(matrix.indptr))
        return with_data(matrix, _towards_zero(exact, matrix.dtype)), factors


def _priorities(
    seed: int,
    ids: Identifiers,
    long: npt.NDArray[np.int64],
    owners: npt.NDArray[np.int64],
    columns: npt.NDArray[Any],
) -> npt.NDArray[np.uint64]:
    """A pseudo-random priority per entry that depends on the seed, the user's own id and the column only."""
    texts = ids.take(long).texts()
    prefix = f"twofold keep {seed} ".encode()
    keys = (hashlib.blake2b(prefix + text.encode(), digest_size=8).digest() for text in texts)
    users = np.frombuffer(b"".join(keys), dtype="<u8")
    return mixed(users[owners] ^ mixed(columns.astype(np.uint64)))


def mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every input bit reaches every output bit."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _starts(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.asarray(np.cumsum(lengths) - lengths, dtype=np.int64)


def _spans(starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Positions of the entries of some rows, row after row."""
    offsets = np.repeat(starts.astype(np.int64) - _starts(lengths), lengths)
    return np.asarray(offsets + np.arange(offsets.size), dtype=np.int64)


def _row_sums(values: npt.NDArray[np.float64], indptr: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    sums = np.zeros(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if filled.size:
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


def _unusable(parameter: str, found: object, expected: str) -> BadBound:
    return BadBound("{parameter} is not valid.", found=f"{found!s:.40}", expected=expected, parameter=parameter)


def _towards_zero(exact: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> Floats:
    """Round to `dtype` without increasing any value, so that a cap still holds after rounding."""
    rounded = exact.astype(dtype)
    grown = np.abs(rounded.astype(np.float64)) > np.abs(exact)
    rounded[grown] = np.nextafter(rounded[grown], np.zeros(1, dtype=dtype))
    return rounded


def _report(
    steps: tuple[Floats, Floats, Floats, Floats], chosen: Mask, lengths: npt.NDArray[Any], factors: Floats
) -> BoundsReport:
    raw, clipped, kept, scaled = steps
    masses = [float(np.abs(values).sum(dtype=np.float64)) for values in (raw, clipped, kept, scaled)]
    # Without mass the parts are taken of 1: a division that overflows would warn, for these data and not for others.
    whole, entries, users = masses[0] if masses[0] >= _LEAST_MASS else 1.0, max(raw.size, 1), max(lengths.size, 1)
    rows = np.repeat(np.arange(lengths.size), lengths)
    return BoundsReport(
        entries_clipped=int(np.count_nonzero(raw != clipped)) / entries,
        entries_dropped=int(np.count_nonzero(~chosen)) / entries,
        users_truncated=np.unique(rows[~chosen]).size / users,
        users_scaled=int(np.count_nonzero(factors < 1)) / users,
        mass_clipped=(masses[0] - masses[1]) / whole,
        mass_dropped=(masses[1] - masses[2]) / whole,
        mass_scaled=(masses[2] - masses[3]) / whole,
    )
