"""The contract of a release mechanism: parameters in, a spec before anything is drawn, one message out.

To add a mechanism, write three things:

1. a *record* per user, whole numbers, whose norm is bounded by public numbers whatever the user's row holds
   (`records`);
2. a *noise* on the sum of the records, with its event (`cells`), and the `ReleaseSpec` that states both;
3. the *server's way to combine* the messages of all entities, knowing the noise (`combine`).

`ReleaseParameters` holds nothing private: two neighbouring data sets share them, and the same numbers computed
from them: sizes, noise, number of rounds, whether to fall back to one prototype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
import scipy.sparse as sp

from twofold.csr import summed, with_data
from twofold.errors import BadNumber, BadParameter, BadShape, Set
from twofold.features import Features
from twofold.privacy.budget import ZCDP, ApproxDP, Number, PureDP, exact, positive, read_delta
from twofold.privacy.events import Event, ParallelEvent, Released, SequentialEvent
from twofold.privacy.mechanisms.gaussian import rho_within
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit
from twofold.release.clamp import Sums
from twofold.release.content import Noise, Units
from twofold.release.usefulness import Usefulness

__all__ = [
    "Adding",
    "ArraySpec",
    "Feedback",
    "Mechanism",
    "ReleaseParameters",
    "ReleaseSpec",
    "SumSpec",
    "adding",
    "check_rows",
    "check_whole",
]

Feedback = Literal["counts", "ratings"]


@dataclass(frozen=True, kw_only=True)
class ReleaseParameters:
    """Everything about a release that is public.

    Parameters
    ----------
    n_items : int
        Length of the public catalog.
    n_users : int
        Users that an entity promised to have, the nominal N; never counted for this purpose. An entity with fewer loses
        accuracy, not privacy.
    max_items : int
        Most items one user keeps, the paper's s.
    bound, lower : float
        Largest and smallest value of an entry, the paper's Λ; ``lower=-bound`` for signed values.
    feedback : {"counts", "ratings"}
        Absent is zero, or absent is unknown. Ratings are released as sums of *centred* values with observation counts.
    centre : float
        Public value that ratings are centred at, between `lower` and `bound`; 0 for counts.
    l1_cap, l2_cap : float, optional
        Largest norms of a (centred) row; by default those that `max_items` and `bound` imply. Without effect on counts
        in the bilinear mechanisms, whose rows all get norm 1.
    n_prototypes : int
        Number of prototypes of an entity.
    epsilon, delta : number
        Price of the release per unit. With ``delta=0`` noise is Laplace and the promise is pure ε, else Gaussian.
    unit : Unit
        Whose presence is hidden.
    n_entities : int
        Number of entities expected to answer.
    seed : int
        Public seed of projections and starts. Never a seed of noise.
    honest : int
        Entities assumed to add their share of one common noise, if only the sum of the messages is seen (secure sum);
        0: every entity adds the whole noise, or the operators do.
    operators : int
        Operators who each add one whole noise to the sum that they hold in shares; 0: none do. Entities then add
        nothing, or their share of one more noise if `honest` is above 0.
    features : Features, optional
        Public table that describes the items.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5, epsilon=1)
    >>> public.row_l1, round(public.row_l2, 1), public.law
    (330.0, 40.6, 'laplace')
    >>> ReleaseParameters(n_items=0, n_users=900, max_items=66, bound=5)
    Traceback (most recent call last):
    twofold.errors.BadParameter: n_items is out of range...
    """

    n_items: int
    n_users: int
    max_items: int
    bound: float
    lower: float = 0.0
    feedback: Feedback = "counts"
    centre: float = 0.0
    l1_cap: float | None = None
    l2_cap: float | None = None
    n_prototypes: int = 10
    epsilon: Number = 1
    delta: Number = 0
    unit: Unit = field(default_factory=Unit.person)
    n_entities: int = 1
    seed: int = 0
    honest: int = 0
    operators: int = 0
    features: Features | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))
        object.__setattr__(self, "delta", read_delta(self.delta))
        _check(self)

    @property
    def law(self) -> Literal["laplace", "gaussian"]:
        """Distribution of the noise: Laplace for pure ε, Gaussian for (ε, δ)."""
        return "laplace" if self.delta == 0 else "gaussian"

    @property
    def budget(self) -> PureDP | ZCDP:
        """Budget of the whole release, in the terms of its noise; `rho_within` has the proof for Gaussian noise."""
        if self.delta == 0:
            return PureDP(epsilon=self.epsilon)
        return _concentrated(ApproxDP(epsilon=self.epsilon, delta=self.delta), self.least_sensitivity)

    @property
    def least_sensitivity(self) -> int:
        """A squared l2 sensitivity, in grid units, that no Gaussian noise of a release is below.

        Records of values have a grid of at most 1/2048 of the largest entry, and a norm of `row_l2`. Bilinear records
        have a norm of at least 128 on each side of a product.
        """
        steps = 2048 * exact(self.row_l2) / Fraction(self.value_cap)
        return min(1 << 27, max(1, math.floor(steps**2)))

    @property
    def summed(self) -> bool:
        """Whether nobody but their sender sees single messages, so that a message alone need not be private."""
        return bool(self.honest or self.operators)

    @property
    def value_cap(self) -> float:
        """Largest size of a centred entry."""
        return max(abs(self.lower - self.centre), abs(self.bound - self.centre))

    @property
    def row_items(self) -> int:
        """Most entries of a bounded row."""
        return min(self.max_items, self.n_items)

    @property
    def row_l1(self) -> float:
        """Largest l1 norm of a bounded, centred row."""
        implied = min(self.row_items * self.value_cap, math.sqrt(self.row_items) * (self.l2_cap or math.inf))
        return min(implied, self.l1_cap or math.inf)

    @property
    def row_l2(self) -> float:
        """Largest l2 norm of a bounded, centred row."""
        implied = min(math.sqrt(self.row_items) * self.value_cap, self.l1_cap or math.inf)
        return min(implied, self.l2_cap or math.inf)

    def with_(self, **changes: Any) -> ReleaseParameters:
        """Return the same description with some numbers changed.

        Examples
        --------
        >>> ReleaseParameters(n_items=9, n_users=9, max_items=3, bound=1).with_(n_prototypes=1).n_prototypes
        1
        """
        return replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """Name and shape of one array of whole numbers; None for rows whose number private data decide (studies only)."""

    name: str
    shape: tuple[int | None, ...]

    def sized(self, rows: int) -> tuple[int, ...]:
        """Give the shape with a number in place of None."""
        return tuple(rows if one is None else one for one in self.shape)


@dataclass(frozen=True, kw_only=True)
class SumSpec:
    """Facts that a secure sum needs about a release of one row of whole numbers.

    Parameters
    ----------
    length : int
        How many numbers.
    largest : int
        Largest size of one number in one user's record.
    limit : int
        Size at which a number is cut before the noise is added, from public numbers.
    deviation : float
        Standard deviation of one entity's noise in each number; 0 if operators alone add noise.
    farthest_noise : int
        Size that one entity's noise never reaches in practice.
    alone_epsilon : float
        ε of one entity's message seen alone, if all others collude with the server; infinite without a guarantee.
    operators : int
        How many operators add a whole noise of their own to the sum.
    operator_deviation : float
        Standard deviation of each of these noises.
    operator_farthest : int
        Size that one of them never reaches in practice.
    """

    length: int
    largest: int
    limit: int
    deviation: float
    farthest_noise: int
    alone_epsilon: float
    operators: int = 0
    operator_deviation: float = 0.0
    operator_farthest: int = 0

    def total_deviation(self, entities: int) -> float:
        """Standard deviation of all noise in a sum over some entities.

        Examples
        --------
        >>> sizes = {"length": 1, "largest": 1, "limit": 9, "farthest_noise": 0, "alone_epsilon": math.inf}
        >>> round(SumSpec(deviation=0.0, operators=2, operator_deviation=5.0, **sizes).total_deviation(100), 3)
        7.071
        """
        return math.sqrt(entities * self.deviation**2 + self.operators * self.operator_deviation**2)


@dataclass(frozen=True, kw_only=True)
class ReleaseSpec:
    """Everything that public numbers decide about a release, for ledger, messages, server, card and `plan explain`.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism in messages; after a fallback still the requested one.
    what : str
        What leaves, in words.
    private : bool
        Whether the mechanism has a proof.
    arrays : tuple of ArraySpec
        The arrays of a message.
    most_rows : int
        Most rows of an array whose number of rows is None.
    units, noise : Units, Noise
        Value of one whole number, and the standard deviation of its noise.
    event : Event
        What is drawn, with noise from the operating system.
    stacks : bool
        True if the server stacks the rows of all entities, False if it adds messages up.
    sum : SumSpec, optional
        For a release that is one row of numbers, which can be summed securely.
    note : str
        What the mechanism decided from public numbers, such as a fallback.
    reason : str
        Why this mechanism, if "auto" chose it.
    """

    mechanism: str
    what: str
    private: bool
    arrays: tuple[ArraySpec, ...]
    most_rows: int = 1
    units: Units
    noise: Noise
    event: Event
    stacks: bool
    sum: SumSpec | None = None
    note: str = ""
    reason: str = ""

    @property
    def rows(self) -> int | None:
        """Number of prototypes in a message; 1 for one row of numbers, None if private data decide."""
        return 1 if self.sum is not None else self.arrays[0].shape[0]

    @property
    def numbers(self) -> int | None:
        """Number of whole numbers in a message; None if private data decide."""
        return None if self.rows is None else self.most_numbers

    @property
    def most_numbers(self) -> int:
        """Most whole numbers a message can hold."""
        return sum(math.prod(one.sized(self.most_rows)) for one in self.arrays)

    def event_for(self, *, seeded: bool) -> Event:
        """Give the event, marked if the noise comes from a seed."""
        return _as_seeded(self.event) if seeded else self.event


class Mechanism(Protocol):
    """A release mechanism. All parameters of an instance are public.

    A new mechanism states its `spec` before anything is drawn, releases arrays that fit it, and says how the server
    combines messages. Nothing else in the package asks which mechanism it is.
    """

    @property
    def name(self) -> str:
        """Name in a plan."""
        ...

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """State everything that public numbers decide."""
        ...

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Judge how far the release can rise above its noise."""
        ...

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Any]:
        """Release `Prototypes` or `BilinearSums` of an entity's rows (csr), with exactly the event of `spec`."""
        ...

    def combine(self, messages: Iterable[Any], public: ReleaseParameters) -> Any:
        """Turn all entities' messages into `WeightedRows` or `Moments` for the server, in any order.

        A sequence may load its messages whenever one is asked for: a mechanism that adds up takes them one at a time,
        as often as it needs, and holds none.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Adding:
    """A release of one plan as a sum over users: what an engine runs on parts of them, and the noise on the total.

    Parameters
    ----------
    part : function of rows
        Exact sums of these users' records (`twofold.release.clamp.joined` adds them up). Pure: no noise, no state.
    draw : function of sums and a source of noise
        The release, from the sums over all users. Once, where the ledger is.
    """

    part: Callable[[Any], Sums]
    draw: Callable[[Sums, Source], Released[Any]]


def adding(mechanism: Mechanism, public: ReleaseParameters) -> Adding | None:
    """Give a mechanism's release as a sum over users; None if it has to see all rows at once.

    Examples
    --------
    >>> from twofold.release import mechanism
    >>> public = ReleaseParameters(n_items=3, n_users=9000, max_items=1, bound=1, n_prototypes=3, epsilon=20)
    >>> adding(mechanism("balcan"), public) is None, adding(mechanism("popularity"), public) is None
    (True, False)
    """
    made: Callable[[ReleaseParameters], Adding | None] | None = getattr(mechanism, "adding", None)
    return None if made is None else made(public)


def _as_seeded(event: Event) -> Event:
    if isinstance(event, SequentialEvent | ParallelEvent):
        return type(event).of(*map(_as_seeded, event.events))
    return replace(event, seeded=True)


@lru_cache(maxsize=64)
def _concentrated(budget: ApproxDP, least: int) -> ZCDP:
    """Cache a search of some hundredths of a second that every price and noise of a release needs."""
    return rho_within(budget, sensitivity_squared=least)


def _check(public: ReleaseParameters) -> None:
    for name in ("n_items", "n_users", "max_items", "n_prototypes", "n_entities"):
        check_whole(name, getattr(public, name))
    check_whole("seed", public.seed, least=0)
    check_whole("honest", public.honest, least=0)
    check_whole("operators", public.operators, least=0)
    if public.features is not None and public.features.n_items != public.n_items:
        raise BadParameter(
            "the table of features does not match the catalog.",
            found=f"{public.features.n_items:,} items",
            expected=f"{public.n_items:,} items",
            parameter="features",
        )
    if public.feedback not in ("counts", "ratings"):
        raise BadParameter(
            "{parameter} is unknown.",
            found=repr(public.feedback),
            expected="'counts' or 'ratings'",
            parameter="feedback",
        )
    for name in ("bound", "lower", "centre"):
        exact(getattr(public, name), name=name)  # NaN and infinity are refused
    if not public.lower <= public.centre <= public.bound or public.lower == public.bound:
        raise BadParameter(
            "the range of values is empty.", expected="lower <= centre <= bound, and lower < bound", parameter="centre"
        )
    if public.feedback == "counts" and public.centre != 0:
        raise BadParameter(
            "counts are not centred: absent is zero.",
            found="a centre other than 0",
            fix=Set("centre", 0),
            parameter="centre",
        )
    for name in ("l1_cap", "l2_cap"):
        if getattr(public, name) is not None:
            positive(getattr(public, name), name=name)
    if not isinstance(public.unit, Unit):
        raise BadParameter(
            "{parameter} must say whose presence is hidden.", expected="Unit.person() or Unit.visit()", parameter="unit"
        )


def check_whole(name: str, value: object, *, least: int = 1) -> None:
    """Refuse anything but a whole number of at least `least`.

    Examples
    --------
    >>> check_whole("steps", 0)
    Traceback (most recent call last):
    twofold.errors.BadParameter: steps is out of range...
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        expected = f"a whole number from {least}"
        raise BadParameter("{parameter} is out of range.", found=repr(value), expected=expected, parameter=name)


def check_rows(rows: Any, public: ReleaseParameters) -> sp.csr_array:
    """Refuse anything but a users x items matrix of real numbers, before anything is drawn; accept any values.

    Privacy
    -------
    Only shape and type are refused, which are public. A refusal for one user's values would reveal them, so there is
    none here: an entry that is NaN or infinite becomes the public centre (0 for counts), whose record is 0, and nothing
    else changes. Bad values are refused where data is loaded (`Ratings`, `Bounds`), before any plan is run.

    Examples
    --------
    >>> check_rows(np.eye(2), ReleaseParameters(n_items=3, n_users=2, max_items=1, bound=1))
    Traceback (most recent call last):
    twofold.errors.BadShape: the rows do not match the catalog...
    """
    if getattr(rows, "ndim", 0) != 2 or rows.shape[1] != public.n_items:
        raise BadShape("the rows do not match the catalog.", expected=f"a matrix of {public.n_items} columns")
    if np.dtype(rows.dtype).kind not in "biuf":
        raise BadNumber("the rows are not real numbers.", found=f"dtype {rows.dtype}")
    matrix = summed(sp.csr_array(rows))
    sound = np.isfinite(matrix.data)
    if sound.all():
        return matrix
    return with_data(matrix, np.where(sound, matrix.data, public.centre))
