"""What a simulation gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twofold.entity.model import Model
from twofold.entity.recommend import Recommendation
from twofold.errors import DataError
from twofold.protocol.factors import ItemFactors
from twofold.protocol.plan import Plan

__all__ = ["Simulated"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Simulated:
    """Both rounds of a federation, with what they cost in bytes and seconds.

    Attributes
    ----------
    plan : Plan
        The public parameters.
    factors : ItemFactors
        What the server sent back.
    models : mapping
        Label of each entity, as in the federation, to its local model.
    names : mapping
        Label to the name that stood in the messages.
    sent : mapping
        Label to the bytes it sent in round 1; in a secure sum with its key messages.
    received : int
        Bytes every entity got back in round 2; in a secure sum with the lists before it.
    seconds : mapping
        Wall seconds of "round 1", "server" and "round 2"; in a secure sum also of "keys" and "answers".
    """

    plan: Plan
    factors: ItemFactors
    models: Mapping[Any, Model]
    names: Mapping[Any, str]
    sent: Mapping[Any, int]
    received: int
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        promise = "" if self.private else ", not private"
        sent, total = sum(self.sent.values()), sum(self.seconds.values())
        return f"Simulated({len(self.models):,} entities, {sent:,} bytes sent, {total:.1f} s{promise})"

    @property
    def private(self) -> bool:
        """False for a simulation, for seeded noise and for a mechanism without a proof."""
        return self.factors.private

    @property
    def strengths(self) -> Mapping[Any, float]:
        """How far each entity's model was drawn to the shared factors, 0 own only; chosen inside the entity."""
        return {label: model.strength for label, model in self.models.items()}

    def model(self, entity: Any) -> Model:
        """Give the local model of one entity."""
        if entity not in self.models:
            raise DataError(
                "there is no such entity.", found=f"{entity!r:.60}", expected=f"one of {len(self.models):,} labels"
            )
        return self.models[entity]

    def recommend(self, entity: Any, user: Any, n: int = 10, **options: Any) -> list[Recommendation]:
        """Recommend to one user of one entity; `options` as for `Model.recommend`."""
        return self.model(entity).recommend(user, n, **options)
