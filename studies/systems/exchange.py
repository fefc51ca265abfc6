"""Both rounds of the protocol up to the item factors, with every byte counted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from studies.systems.base import Feedback, Fitted, Promise, Score, Traffic
from twofold.data.federation import Federation
from twofold.entity.agent import Entity
from twofold.federation.factors import ItemFactors, encode_factors
from twofold.federation.plan import CatalogKey, Plan
from twofold.privacy.budget import Number
from twofold.privacy.events import Event
from twofold.release.choose import NOT_PRIVATE
from twofold.server.factorize import Server
from twofold.simulation.run import plan_names

__all__ = ["Exchanged", "Release", "entity_seed", "exchange"]


@dataclass(frozen=True, kw_only=True)
class Release:
    """Public numbers of an entity's release; None means the default of a new plan for the catalog.

    Parameters
    ----------
    mechanism : str
        One of the registry of prototypes.
    epsilon, delta : number
        Price per person; ignored by mechanisms without a proof. Pure ε, as in the paper, unless a δ is given.
    n_prototypes, bound, lower, max_items, n_users
        As in `Plan`. `n_users` is promised: an experiment may take it from what is published about its entities,
        never from their rows.
    options : mapping
        Further fields of the plan.

    Examples
    --------
    >>> Release(mechanism="sulq").private, Release(mechanism="kmeans").private
    (True, False)
    """

    mechanism: str = "auto"
    epsilon: Number = 1
    delta: Number = 0
    n_prototypes: int | None = None
    bound: float | None = None
    lower: float | None = None
    max_items: int | None = None
    n_users: int | None = None
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def private(self) -> bool:
        """Whether the mechanism has a proof."""
        return self.mechanism not in NOT_PRIVATE

    def plan(self, train: Federation, *, feedback: Feedback, rank: int) -> Plan:
        """Write the plan that all entities and the server use."""
        given = {name: getattr(self, name) for name in ("n_prototypes", "bound", "lower", "max_items", "n_users")}
        if self.max_items is not None:
            given["max_items"] = min(self.max_items, len(train.catalog))
        return Plan(
            catalog=CatalogKey.of(train.catalog),
            feedback=feedback,
            rank=min(rank, len(train.catalog)),
            mechanism=self.mechanism,
            epsilon=self.epsilon,
            delta=self.delta,
            n_entities=len(train),
            simulation=True,
            **{name: value for name, value in given.items() if value is not None},
            **self.options,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Exchanged:
    """The result of both rounds: the plan, the shared factors, and the cost in bytes and in privacy."""

    plan: Plan
    factors: ItemFactors
    traffic: Traffic
    event: Event | None

    @property
    def promise(self) -> Promise | None:
        """The guarantee for every person."""
        return self.plan.budget if self.event is not None else None

    def fitted(self, scorers: dict[Any, Score], note: str = "") -> Fitted:
        """Combine the entities' models with the cost."""
        words = "; ".join(part for part in (note, self.factors.note) if part)
        return Fitted(scorers=scorers, traffic=self.traffic, promise=self.promise, event=self.event, note=words)


def exchange(train: Federation, plan: Plan, *, seed: int) -> Exchanged:
    """Let every entity release once and the server factorize once; bytes are those of the real messages.

    Privacy
    -------
    The plan is a simulation and its noise is seeded, so nothing here is private as it stands; the event says what the
    same release costs with the operating system's randomness. Every entity draws from its own stream.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> plan = Release(mechanism="popularity", epsilon=1).plan(federation, feedback="counts", rank=1)
    >>> done = exchange(federation, plan, seed=0)
    >>> done.traffic.rounds, done.event.seeded, done.promise
    (2, True, PureDP(epsilon=Fraction(1, 1)))
    """
    names = plan_names(train)
    sent = [
        Entity(names[label], ratings, plan, rng=entity_seed(seed, names[label])).release()
        for label, ratings in train.items()
    ]
    factors = Server(plan).factorize(sent)
    priced = plan.spec.private
    return Exchanged(
        plan=plan,
        factors=factors,
        traffic=Traffic(
            rounds=2,
            bytes_up=sum(len(message.data) for message in sent),
            bytes_down=len(train) * len(encode_factors(factors, plan)),
        ),
        event=plan.spec.event_for(seeded=True) if priced else None,
    )


def entity_seed(seed: int, name: object) -> int:
    """Seed of one entity's own draws: independent of the others and of their order.

    Examples
    --------
    >>> entity_seed(0, "north") == entity_seed(0, "north"), entity_seed(0, "north") == entity_seed(1, "north")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(f"twofold systems 1 {seed} {name}".encode()).digest()[:7], "big")
