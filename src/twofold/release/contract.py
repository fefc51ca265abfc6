"""What every release mechanism is: public numbers in, a price before anything is drawn, one message out.

A mechanism is three things, and whoever adds one writes these three and nothing else:

1. a *record* per user, whole numbers, whose norm is bounded by public numbers whatever the user's row holds
   (`records`);
2. a *noise* on the sum of the records, with its event (`cells`);
3. the *server's way to combine* the messages of all entities, knowing the noise (`combine`).

`ReleaseParameters` describes a release and holds nothing private: two neighbouring data sets have the same ones, so
all that is computed from it (sizes, noise, number of rounds, whether to fall back to one prototype) is the same for
both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, Protocol, runtime_checkable

from twofold.errors import BadParameter, Set
from twofold.features import Features
from twofold.privacy.budget import ZCDP, ApproxDP, Number, PureDP, exact, positive, read_delta
from twofold.privacy.events import Event, Released
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit

__all__ = ["Feedback", "Mechanism", "ReleaseParameters", "check_whole"]

Feedback = Literal["counts", "ratings"]


@dataclass(frozen=True, kw_only=True)
class ReleaseParameters:
    """Everything about a release that may be known to anyone.

    Parameters
    ----------
    n_items : int
        Length of the public catalog.
    n_users : int
        Users an entity promised to have, the nominal N; never counted for this purpose. An entity with fewer loses
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
        Largest norms of a (centred) row; what `max_items` and `bound` imply when not given.
    n_prototypes : int
        How many prototypes an entity releases.
    epsilon, delta : number
        Price of the release per unit. With ``delta=0`` noise is Laplace and the promise is pure ε, else Gaussian.
    unit : Unit
        Whose presence is hidden.
    n_entities : int
        How many entities are expected to answer.
    seed : int
        Public seed of projections and starts. Never a seed of noise.
    honest : int
        Entities that are taken to add their share of one common noise, when only the sum of the messages is seen
        (secure sum); 0: every entity adds the whole noise.
    features : Features, optional
        Public table of what the items are.

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
    features: Features | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))
        object.__setattr__(self, "delta", read_delta(self.delta))
        _check(self)

    @property
    def law(self) -> Literal["laplace", "gaussian"]:
        """Which noise: Laplace for pure ε, Gaussian for (ε, δ)."""
        return "laplace" if self.delta == 0 else "gaussian"

    @property
    def budget(self) -> PureDP | ZCDP:
        """What the whole release may spend, in the terms of its noise."""
        if self.delta == 0:
            return PureDP(epsilon=self.epsilon)
        return _concentrated(ApproxDP(epsilon=self.epsilon, delta=self.delta))

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


@runtime_checkable
class Mechanism(Protocol):
    """One way to release prototypes. All parameters of an instance are public.

    Attributes
    ----------
    name : str
        How a plan names it.
    private : bool
        Whether it has a proof. One that has none says so in its events and never runs in a real federation.
    """

    @property
    def name(self) -> str:
        """How a plan names it."""
        ...

    @property
    def private(self) -> bool:
        """Whether it has a proof."""
        ...

    def size(self, public: ReleaseParameters) -> int | None:
        """How many prototypes a message has, so that it can be checked unseen; None where private data decide."""
        ...

    def price(self, public: ReleaseParameters, *, seeded: bool = False) -> Event:
        """Describe everything that will be drawn, before it is: the event a ledger reserves; marked when seeded."""
        ...

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Any]:
        """Release `Prototypes` or `BilinearSums` of an entity's rows (csr), with exactly the event of `price`."""
        ...

    def combine(self, messages: Iterable[Any], public: ReleaseParameters) -> Any:
        """Turn all entities' messages into `WeightedRows` or `Moments` for the server; in any order the same."""
        ...


@lru_cache(maxsize=64)
def _concentrated(budget: ApproxDP) -> ZCDP:
    """Search of some hundredths of a second that every price and every noise of a release asks for."""
    return ZCDP.within(budget)


def _check(public: ReleaseParameters) -> None:
    for name in ("n_items", "n_users", "max_items", "n_prototypes", "n_entities"):
        check_whole(name, getattr(public, name))
    check_whole("seed", public.seed, least=0)
    check_whole("honest", public.honest, least=0)
    if public.features is not None and public.features.n_items != public.n_items:
        raise BadParameter(
            "the table of features does not fit the catalog.",
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
            "the values have no room.", expected="lower <= centre <= bound, and lower < bound", parameter="centre"
        )
    if public.feedback == "counts" and public.centre != 0:
        raise BadParameter(
            "counts are not centred: absent is zero.",
            found="another centre than 0",
            fix=Set("centre", 0),
            parameter="centre",
        )
    for name in ("l1_cap", "l2_cap"):
        if getattr(public, name) is not None:
            positive(getattr(public, name), name=name)
    if not isinstance(public.unit, Unit):
        raise BadParameter(
            "{parameter} says whose presence is hidden.", expected="Unit.person() or Unit.visit()", parameter="unit"
        )


def check_whole(name: str, value: object, *, least: int = 1) -> None:
    """Refuse what is not a whole number from `least`.

    Examples
    --------
    >>> check_whole("steps", 0)
    Traceback (most recent call last):
    twofold.errors.BadParameter: steps is out of range...
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        expected = f"a whole number from {least}"
        raise BadParameter("{parameter} is out of range.", found=repr(value), expected=expected, parameter=name)
