"""What leaves an entity, and what the server makes from it.

No private value is in here without noise, unless the mechanism says that it is not private. An entity sends
`Prototypes` or `BilinearSums`, in a secure sum `Masked`; the server works with `WeightedRows` or `Moments`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = [
    "DIAGONAL",
    "BilinearSums",
    "Floats",
    "Integers",
    "Kind",
    "Masked",
    "Moments",
    "Noise",
    "Prototypes",
    "Units",
    "WeightedRows",
    "plain_sum",
    "symmetric",
    "upper_triangle",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Units:
    """Value of one whole number of a message: in values, in observations and in users."""

    values: float
    observed: float
    counts: float


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Public noise of a message: its law and the standard deviation of a sum, an observation count and a count."""

    law: Literal["laplace", "gaussian", "none"]
    values: float
    observed: float
    counts: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Prototypes:
    """One entity's message of round 1: noisy sums and counts in whole numbers, and their units.

    Parameters
    ----------
    mechanism : str
        The mechanism (after a fallback, still the requested one).
    sums : int64 array of shape (prototypes, items)
        Sums of values, for ratings of centred values, in steps of ``units.values``.
    counts : int64 array of shape (prototypes,)
        Users, in steps of ``units.counts``.
    observed : int64 array of shape (prototypes, items), optional
        For ratings: how many observed each item, in steps of ``units.observed``.
    units, noise : Units, Noise
        Public.
    seeded : bool
        True when the noise came from a seed: the message is then *not private*. There is no default, so that
        callers must decide.
    note : str
        What the mechanism decided from public numbers, in words; empty if there was nothing to decide.

    Examples
    --------
    >>> units = Units(values=0.5, observed=1.0, counts=1.0)
    >>> quiet = Noise(law="none", values=0.0, observed=0.0, counts=0.0)
    >>> one = Prototypes(
    ...     mechanism="exact", sums=np.array([[4, 2]]), counts=np.array([3]), units=units, noise=quiet, seeded=False
    ... )
    >>> one.value_sums()
    array([[2., 1.]])
    """

    mechanism: str
    sums: Integers
    counts: Integers
    units: Units
    noise: Noise
    seeded: bool
    observed: Integers | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if type(self.seeded) is not bool:
            raise BadParameter(
                "a message must say whether its noise was seeded.", found=type(self.seeded).__name__, parameter="seeded"
            )
        arrays = [self.sums, self.counts] + ([] if self.observed is None else [self.observed])
        if any(one.dtype != np.int64 for one in arrays):
            raise BadNumber("a message must hold whole numbers.", expected="int64 arrays")
        fits = self.sums.ndim == 2 and self.counts.shape == self.sums.shape[:1]
        if not fits or (self.observed is not None and self.observed.shape != self.sums.shape):
            raise BadShape("the parts of a message do not match.", found=f"sums of shape {self.sums.shape}")

    @property
    def n_prototypes(self) -> int:
        """Number of released prototypes; one after a fallback."""
        return len(self.counts)

    def value_sums(self) -> Floats:
        """Noisy sums in the units of the values."""
        return np.asarray(self.sums * self.units.values, dtype=np.float64)

    def user_counts(self) -> Floats:
        """Noisy numbers of users; may be negative."""
        return np.asarray(self.counts * self.units.counts, dtype=np.float64)

    def observation_counts(self) -> Floats:
        """Noisy numbers of observations per item; may be negative."""
        if self.observed is None:
            raise BadParameter("counts take no observation counts: absent is zero.", fix="feedback='ratings'")
        return np.asarray(self.observed * self.units.observed, dtype=np.float64)

    def arrays(self) -> dict[str, Integers]:
        """Kind of message."""
        arrays = {"sums": self.sums, "counts": self.counts}
        return arrays if self.observed is None else arrays | {"observed": self.observed}

    def digest(self) -> str:
        """SHA-256 of the content, by which the server orders messages."""
        state = hashlib.sha256(repr((self.mechanism, self.sums.shape, self.units, self.noise, self.seeded)).encode())
        for part in (self.sums, self.counts, self.observed):
            state.update(b"-" if part is None else np.ascontiguousarray(part, dtype="<i8").ravel().data)
        return state.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRows:
    """Rows for the factorization, with the weight of each.

    Parameters
    ----------
    values : array of shape (rows, items)
        Mean value of each item in each prototype, noise included, never clipped at zero.
    row_weights : array of shape (rows,)
        Inverse variance of a row in users: the number of users where there is no noise, less with noise.
    entry_weights : array of shape (rows, items), optional
        For ratings: the same per entry, in observations.
    noise : array of shape (rows,)
        Standard deviation of the noise in each entry of a row (for ratings: of an entry that all users observed).
    sizes : array of shape (rows,)
        Noisy number of users of each row, at least 0.
    seeded : bool
        True when any of the messages had noise from a seed: anything made from the rows is then *not private*.
    """

    values: Floats
    row_weights: Floats
    noise: Floats
    sizes: Floats
    seeded: bool
    entry_weights: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)


@dataclass(frozen=True, kw_only=True, eq=False)
class BilinearSums:
    """Noisy totals of the records of all users of one entity, or of several.

    Parameters
    ----------
    mechanism : str
        "gram", "sketch" or "features".
    numbers : int64 array (length,)
        At the positions that `BilinearLayout` gives.
    deviation : float
        Standard deviation of the noise in each number, in whole-number units.
    law : {"laplace", "gaussian", "none"}
        Law of the noise.
    seeded : bool
        True when the noise came from a seed: the message is then *not private*. No default, as for `Prototypes`.
    note : str
        What was decided from public numbers, in words.
    entities : int
        Number of entities in the sum.

    Examples
    --------
    >>> one = BilinearSums(mechanism="gram", numbers=np.arange(3), deviation=2.0, law="gaussian", seeded=False)
    >>> plain_sum([one, one, one, one]).deviation
    4.0
    """

    mechanism: str
    numbers: Integers = field(repr=False)
    deviation: float
    law: Literal["laplace", "gaussian", "none"]
    seeded: bool
    note: str = ""
    entities: int = 1

    def __post_init__(self) -> None:
        if type(self.seeded) is not bool:
            raise BadParameter(
                "a message must say whether its noise was seeded.", found=type(self.seeded).__name__, parameter="seeded"
            )
        if not isinstance(self.numbers, np.ndarray) or self.numbers.dtype != np.int64:
            raise BadNumber("a message must hold whole numbers.", expected="an int64 array")
        if self.numbers.ndim != 1 or self.numbers.size == 0:
            raise BadShape("a message must be one row of numbers.", found=f"shape {self.numbers.shape}")
        if self.law not in ("laplace", "gaussian", "none"):
            raise BadParameter("the noise distribution is unknown.", found=repr(self.law))
        if not math.isfinite(self.deviation) or self.deviation < 0:
            raise BadNumber("the noise of a message must be finite and at least 0.", found=repr(self.deviation))
        if isinstance(self.entities, bool) or not isinstance(self.entities, int) or self.entities < 1:
            raise BadParameter("a message needs at least one entity.", found=repr(self.entities))

    def arrays(self) -> dict[str, Integers]:
        """Kind of message."""
        return {"numbers": self.numbers}

    def digest(self) -> str:
        """SHA-256 of the content, by which the server orders messages."""
        said = (self.mechanism, self.numbers.size, self.deviation, self.law, self.seeded, self.entities)
        state = hashlib.sha256(repr(said).encode())
        state.update(np.ascontiguousarray(self.numbers, dtype="<i8").data)
        return state.hexdigest()


def plain_sum(messages: Iterable[BilinearSums]) -> BilinearSums:
    """Add messages up in whole numbers, as a secure sum over the same entities does.

    Examples
    --------
    >>> one = BilinearSums(mechanism="gram", numbers=np.arange(3), deviation=0.0, law="none", seeded=False)
    >>> plain_sum([one, one]).numbers, plain_sum([one, one]).entities
    (array([0, 2, 4]), 2)
    """
    total: BilinearSums | None = None
    for message in messages:
        total = message if total is None else _added(total, message)
    if total is None:
        raise BadParameter("no message arrived.", fix="wait for at least one entity", parameter="messages")
    return total


def _added(one: BilinearSums, two: BilinearSums) -> BilinearSums:
    if (one.mechanism, one.law, one.numbers.shape) != (two.mechanism, two.law, two.numbers.shape):
        raise BadShape("two messages were made with different public numbers.", fix="use the same plan on both sides")
    return replace(
        one,
        numbers=one.numbers + two.numbers,
        deviation=math.hypot(one.deviation, two.deviation),
        seeded=one.seeded or two.seeded,
        entities=one.entities + two.entities,
    )


Kind = Literal["gram", "sketch", "features"]
#: What an item's own square counts in a gram of counts, in whole numbers: next below √½, so that one user's pairs have
#: the same norm however the row is spread over items (`twofold.release.bilinear.layout`).
DIAGONAL: Final = Fraction(70, 99)


def symmetric(upper: NDArray[Any], items: int) -> Floats:
    """Give the square whose upper triangle, with the diagonal and row by row, is `upper`.

    Examples
    --------
    >>> symmetric(np.array([1, 2, 3]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    square, first = np.zeros((items, items)), 0
    for row, line in enumerate(square):  # row by row: indices of all entries would take as much room as the square
        line[row:] += upper[first : first + items - row]
        square[row:, row] = line[row:]
        first += items - row
    return square


def upper_triangle(square: NDArray[Any]) -> NDArray[Any]:
    """Give the upper triangle of a square with the diagonal, row by row: what `symmetric` takes.

    Examples
    --------
    >>> upper_triangle(np.array([[1, 2], [2, 3]])).tolist()
    [1, 2, 3]
    """
    return np.concatenate([line[row:] for row, line in enumerate(square)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Noisy first and second moments of all users together. Totals, not means; in units of x.

    Parameters
    ----------
    kind : {"gram", "sketch", "features"}
        What the pairs are.
    users : float
        Noisy number of users, weighted where messages are; may be negative.
    sums : array (items,)
        Totals of x.
    pairs : array (items, items) or (items, columns)
        Totals of x xᵀ (gram, symmetric) or of x sᵀ (s of norm at most 1: a public map, or a public profile).
    users_noise, sums_noise, pairs_noise : float
        Standard deviation of the noise in each number of these; on the diagonal of a gram it is `diagonal_noise`.
    cap : float
        Largest norm of a row x; longer ones were shortened to it. 1 for counts: every row that is not empty has it.
    entities : int
        Number of entities that answered.
    seeded : bool
        True when any noise came from a seed: not private.
    observed, observed_noise
        For ratings: how many observed each item.
    weight_per_user : float
        Where messages have noise of their own, the weight of each is this times its released number of users. 0: every
        message counts once, as in a secure sum. See `weight`.
    """

    kind: Kind
    users: float
    sums: Floats = field(repr=False)
    pairs: Floats = field(repr=False)
    users_noise: float
    sums_noise: float
    pairs_noise: float
    cap: float
    entities: int
    seeded: bool
    observed: Floats | None = field(default=None, repr=False)
    observed_noise: float = 0.0
    weight_per_user: float = 0.0

    def __post_init__(self) -> None:
        items = len(self.sums)
        square = self.pairs.shape == (items, items) if self.kind == "gram" else self.pairs.shape[:1] == (items,)
        if not square or (self.observed is not None and self.observed.shape != (items,)):
            raise BadShape("the parts of the moments do not match.", found=f"pairs of {self.pairs.shape}")

    def weight(self, users: float) -> float:
        """How often a message of so many users (as released, with noise) is in the totals, to take it out again."""
        return self.weight_per_user * max(users, 1.0) if self.weight_per_user else 1.0

    @property
    def diagonal_noise(self) -> float:
        """Standard deviation of the noise on the diagonal of a gram: for counts 99/70 of that beside it."""
        return self.pairs_noise if self.observed is not None else self.pairs_noise / float(DIAGONAL)


@dataclass(frozen=True, kw_only=True, eq=False)
class Masked:
    """Masked numbers, uniform to anyone without the keys.

    Parameters
    ----------
    mechanism : str
        Which statistic is under the masks.
    present : str
        Digest of the terms and of those who shared keys, in hexadecimal; masks of another list do not cancel.
    bits : int
        The modulus is 2^bits.
    packed : uint8 array (numbers, bits / 8)
        The numbers, smallest byte first, with the two check numbers of `twofold.secure_sum`.
    seeded : bool
        True when the noise under the masks came from a seed: not private.
    note : str
        What the mechanism decided from public numbers.
    """

    mechanism: str
    present: str
    bits: int
    packed: NDArray[np.uint8] = field(repr=False)
    seeded: bool
    note: str = ""

    def arrays(self) -> dict[str, NDArray[np.uint8]]:
        """Kind of message."""
        return {"masked": self.packed}
