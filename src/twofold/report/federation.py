"""What the report of a federation is made of: numbers and words only, so that a report needs no data and no models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from twofold.errors import BadParameter, BadShape
from twofold.protocol.plan import Plan

__all__ = ["BASE", "PRIVATE", "EntityLine", "Example", "FederationRun", "Nouns", "System"]

#: Keys of the two systems that the verdict compares.
BASE: Final = "alone"
PRIVATE: Final = "private"


@dataclass(frozen=True, kw_only=True)
class Nouns:
    """What the page calls entities, their users and what is recommended."""

    entity: str = "entity"
    entities: str = "entities"
    user: str = "user"
    users: str = "users"
    items: str = "items"


@dataclass(frozen=True, kw_only=True)
class System:
    """One way to recommend, measured at every entity on the same held-out entries.

    Parameters
    ----------
    key, name : str
        A short key ("alone", "private", ...) and how the page calls it.
    about : str
        What it is, in a sentence.
    leaves : str
        What leaves an entity for it.
    ndcg, mean_rank : tuple of float
        One number per entity, in the order of the entities; NaN where nothing was held out.
    """

    key: str
    name: str
    about: str
    leaves: str
    ndcg: tuple[float, ...]
    mean_rank: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class EntityLine:
    """What is told of one entity.

    Parameters
    ----------
    name : str
        Its public name.
    users : int
        How many it has; private in real life.
    numbers, bytes : int
        What left it in round 1.
    spent : str
        What its ledger says was spent.
    noise, signal : float
        Standard deviation of the noise on one released sum, and root mean square of the sums beneath it as far as the
        message tells.
    model : str
        Which kind of local model was chosen.
    strength : str
        How far it is drawn towards the shared factors, in words.
    gain : float
        What the shared factors added to nDCG@10 in the entity's own validation.
    """

    name: str
    users: int
    numbers: int
    bytes: int
    spent: str
    noise: float
    signal: float
    model: str
    strength: str
    gain: float


@dataclass(frozen=True, kw_only=True)
class Example:
    """One person's recommendations and why; the person is simulated, or the page must stay inside."""

    entity: str
    user: str
    history: tuple[tuple[str, float], ...]
    recommended: tuple[tuple[str, float], ...]
    reasons: tuple[tuple[str, float], ...]
    held_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FederationRun:
    """A federation that was run in one process, with what came out.

    Parameters
    ----------
    plan : Plan
        What was agreed.
    private : bool
        Whether everything that left had real noise from a mechanism with a proof.
    entities : tuple of EntityLine
        In the order of the numbers of each system.
    systems : tuple of System
        In the order of the page; one has the key "alone", one "private".
    received : int
        Bytes that every entity got back in round 2.
    together : (float, float), optional
        Noise and signal of one released sum when all messages are added up, for mechanisms that add them up.
    choice : str
        Why this mechanism, in words and public numbers.
    timings : tuple of (str, float)
        Steps and their seconds.
    example : Example, optional
        One recommendation.
    held_out : str
        How the entries to predict were chosen, in a sentence.
    remarks : tuple of str
        What else a reader must know.
    """

    plan: Plan
    private: bool
    entities: tuple[EntityLine, ...]
    systems: tuple[System, ...]
    received: int
    together: tuple[float, float] | None = None
    choice: str = ""
    timings: tuple[tuple[str, float], ...] = ()
    example: Example | None = None
    held_out: str = ""
    remarks: tuple[str, ...] = ()
    nouns: Nouns = field(default_factory=Nouns)

    def __post_init__(self) -> None:
        keys = [system.key for system in self.systems]
        if len(set(keys)) < len(keys) or not {BASE, PRIVATE} <= set(keys):
            raise BadParameter("a report compares systems.", found=", ".join(keys), expected="alone and private, once")
        for system in self.systems:
            if {len(system.ndcg), len(system.mean_rank)} != {len(self.entities)}:
                raise BadShape("a system was not measured at every entity.", found=system.key)

    def system(self, key: str) -> System:
        """Find a system by its key."""
        return next(system for system in self.systems if system.key == key)

    @property
    def everyone(self) -> tuple[int, ...]:
        """The places of all entities."""
        return tuple(range(len(self.entities)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Users of every entity."""
        return tuple(entity.users for entity in self.entities)
