"""The interface of every compared system: fit a federation, score histories, report the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.data.federation import Federation
from twofold.errors import BadParameter, BadShape, DataError, PrivacyError
from twofold.privacy.accountant import fits
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.events import Event

__all__ = ["Feedback", "Fitted", "Score", "System", "Traffic", "read_as"]

Feedback = Literal["counts", "ratings"]
Score = Callable[[sparse.csr_array], NDArray[Any]]
Promise = PureDP | ApproxDP


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Traffic between entities and server, over all entities.

    Attributes
    ----------
    rounds : int
        Waves of messages that went one way, one after the other: a message up and an answer down are two.
    bytes_up, bytes_down : int
        Bytes from entities to the server, and back; every entity gets its own copy.

    Examples
    --------
    >>> Traffic(rounds=2, bytes_up=800, bytes_down=400) == Traffic(rounds=2, bytes_up=800, bytes_down=400)
    True
    """

    rounds: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A fitted system: how it scores the users of each entity, and what it cost.

    Parameters
    ----------
    scorers : mapping
        Entity to a function from rows (csr, one per user) to scores (users, items).
    traffic : Traffic
        What travelled.
    promise : PureDP or ApproxDP, optional
        What every person was promised; None where nothing was.
    event : Event, optional
        What the system drew about the people of one entity. A promise without an event that keeps it is refused.
    note : str
        What has to be known to read the figures.

    Privacy
    -------
    The promise is per entity: it is each person's whole price only if nobody is in two entities. Experiments draw
    seeded noise, so what a fit releases is marked and priced *as if* its noise had come from the operating system.

    Examples
    --------
    >>> fitted = Fitted(scorers={"north": lambda rows: np.zeros(rows.shape)}, traffic=Traffic())
    >>> fitted.scores("north", sparse.csr_array(np.eye(2))).shape, fitted.epsilon
    ((2, 2), None)
    """

    scorers: Mapping[Any, Score] = field(repr=False)
    traffic: Traffic
    promise: Promise | None = None
    event: Event | None = field(default=None, repr=False)
    note: str = ""

    def __post_init__(self) -> None:
        if self.promise is not None and (self.event is None or not keeps(self.event, self.promise)):
            raise PrivacyError("a system promises more than its events cost.", expected="an event within the promise")

    @property
    def private(self) -> bool:
        """Whether it gives a guarantee."""
        return self.promise is not None

    @property
    def epsilon(self) -> float | None:
        """Price per person; None if not private."""
        return None if self.promise is None else float(self.promise.epsilon)

    @property
    def delta(self) -> float | None:
        """The δ of the guarantee: 0 if pure, None if not private."""
        return None if self.promise is None else float(getattr(self.promise, "delta", 0))

    @property
    def rounds(self) -> int:
        """As `Traffic.rounds`."""
        return self.traffic.rounds

    @property
    def bytes_up(self) -> int:
        """As `Traffic.bytes_up`."""
        return self.traffic.bytes_up

    @property
    def bytes_down(self) -> int:
        """As `Traffic.bytes_down`."""
        return self.traffic.bytes_down

    def scores(self, entity: Any, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Predicted value of every item for each history, (users, items); the users need not have been in the fit.

        Parameters
        ----------
        entity
            Whose users they are, by its label in the federation.
        rows : csr array (users, items)
            A block of histories that fits in memory.
        """
        if entity not in self.scorers:
            raise DataError("the entity does not exist.", expected=f"one of {len(self.scorers):,} labels")
        found = np.asarray(self.scorers[entity](rows), dtype=np.float32)
        if found.shape != rows.shape:
            raise BadShape("the scores do not match the rows.", found=f"{found.shape}", expected=f"{rows.shape}")
        return found


@runtime_checkable
class System(Protocol):
    """A recommender over a federation. All fields of an instance are public numbers.

    Attributes
    ----------
    name : str
        Name in tables.
    private : bool
        Whether what leaves an entity is protected by a proof, with an event that costs what is promised.
    """

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    @property
    def private(self) -> bool:
        """Whether it has a proof."""
        ...

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Fit all entities and the server; the same seed gives the same result."""
        ...


def keeps(event: Event, promise: Promise) -> bool:
    """Whether an event costs no more than a promise, with seeded noise priced as if it were not.

    Examples
    --------
    >>> from twofold.privacy.events import DiscreteLaplaceEvent
    >>> from twofold.privacy.unit import Unit
    >>> event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=2, scale=4, coordinates=3)
    >>> keeps(event, PureDP(epsilon="1/2")), keeps(event, PureDP(epsilon="1/4"))
    (True, False)
    """
    return fits(event, promise.to_approx(), as_if_private=True)


def read_as(train: Federation, feedback: Feedback, seed: int) -> Federation:
    """Check the input of a fit, and read absent entries as requested.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> read_as(hospitals.load(0.001), "ratings", 0).feedback
    'ratings'
    """
    if not isinstance(train, Federation):
        raise DataError("a system is fitted to a Federation.", found=f"a {type(train).__name__}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadParameter("a seed must be a whole number of at least 0.", found=f"a {type(seed).__name__}")
    if train.feedback == feedback:
        return train
    return Federation({label: ratings.as_feedback(feedback) for label, ratings in train.items()})
