"""What a plan says about the secure sum: how many must stay, how many may collude, and under which keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from twofold.errors import BadPlan
from twofold.privacy.budget import Number, positive

if TYPE_CHECKING:
    from twofold.protocol.roster import Roster

__all__ = ["SecureSum", "least_threshold"]


def least_threshold(entities: int, colluders: int) -> int:
    """Fewest answers with which a mask may be taken off.

    Privacy
    -------
    An honest entity answers one list of survivors, once. A server that shows two lists, in one of which an entity is a
    survivor and in the other not, needs this many answers to each; colluding entities answer both. With more than half
    of all of them and the colluders together it cannot have both, so it never gets both secrets of one entity.

    Examples
    --------
    >>> least_threshold(205, 0), least_threshold(10, 3)
    (103, 7)
    """
    return (entities + colluders) // 2 + 1


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """The server sees only the sum of the messages, and every entity adds only its share of the noise.

    Parameters
    ----------
    survivors : int
        Fewest entities whose messages are summed. Below it nothing is unmasked and nothing is published.
    colluders : int
        Entities that may work together with the server. The noise of the others alone keeps the promise.
    threshold : int
        Answers needed to take the masks off; the least safe number when 0.
    most_alone : number, optional
        Largest ε of one entity's message seen alone, should all others collude with the server; any by default. The
        plan is refused when its own is larger.
    share_deadline : str, optional
        Until when key shares are waited for, as ``2027-01-31T12:00:00Z``; without one, until all have shared.
    roster : Roster or str
        Everybody's public keys, or the hash of that list. Empty until keys are enrolled: such a plan can be explained
        and simulated, not run.

    Examples
    --------
    >>> secure = SecureSum(survivors=185, colluders=5)
    >>> secure.honest, SecureSum.from_dict(secure.as_dict()) == secure
    (180, True)
    """

    survivors: int
    colluders: int = 0
    threshold: int = 0
    most_alone: Number | None = None
    share_deadline: str | None = None
    roster: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            survivors: int,
            colluders: int = 0,
            threshold: int = 0,
            most_alone: Number | None = None,
            share_deadline: str | None = None,
            roster: str | Roster = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        from twofold.protocol.plan_checks import check_time, is_hash, whole

        given: Any = self.roster
        keys = None if isinstance(given, str) else given
        object.__setattr__(self, "_keys", keys)
        object.__setattr__(self, "roster", given if keys is None else keys.hash)
        for name, least in (("survivors", 2), ("colluders", 0), ("threshold", 0)):
            whole(f"secure.{name}", getattr(self, name), least=least, most=10_000)
        if self.colluders >= self.survivors:
            raise BadPlan(
                "all survivors could collude: nobody's noise would be left.",
                found=f"{self.colluders} colluders of {self.survivors} survivors",
                expected="fewer colluders than survivors",
            )
        if self.most_alone is not None:
            object.__setattr__(self, "most_alone", positive(self.most_alone, name="secure.most_alone"))
        if self.share_deadline is not None:
            object.__setattr__(self, "share_deadline", check_time(self.share_deadline))
        if self.roster and not is_hash(self.roster):
            raise BadPlan("secure.roster is the hash of the list of keys.", expected="64 hexadecimal digits")

    @property
    def honest(self) -> int:
        """Entities whose noise the promise rests on."""
        return self.survivors - self.colluders

    @property
    def keys(self) -> Roster | None:
        """The list of keys, when this was made with it; only its hash is part of the plan."""
        return getattr(self, "_keys", None)

    def answers(self, entities: int) -> int:
        """How many answers take the masks off, among so many entities."""
        return self.threshold or least_threshold(entities, self.colluders)

    def with_(self, **changes: Any) -> SecureSum:
        """Return the same with some fields changed; keeps the list of keys unless another is given."""
        same: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        return type(self)(**{**same, "roster": self.keys or self.roster, **changes})

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON; what `from_dict` reads."""
        record = {one.name: getattr(self, one.name) for one in fields(self)}
        return record | {"most_alone": None if self.most_alone is None else str(self.most_alone)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> SecureSum:
        """Read what `as_dict` wrote."""
        try:
            return cls(**record)
        except TypeError:
            raise BadPlan("the part of the plan about the secure sum has another form.") from None

    def check(self, entities: int) -> None:
        """Refuse numbers that do not fit the number of entities."""
        if self.survivors > entities:
            raise BadPlan(
                "more survivors are asked for than there are entities.",
                found=f"{self.survivors} of {entities}",
                fix="lower secure.survivors",
            )
        if self.keys is not None and len(self.keys) != entities:
            raise BadPlan("the list of keys is not that of the entities.", found=f"{len(self.keys)} keys")
        least, asked = least_threshold(entities, self.colluders), self.answers(entities)
        if not least <= asked <= self.survivors:
            raise BadPlan(
                "the number of answers that take the masks off is not safe, or cannot be reached.",
                found=f"{asked} answers of {entities} entities, {self.survivors} survivors",
                expected=f"{least} to {self.survivors}",
                fix=f"secure.survivors of at least {least}, fewer colluders, or secure.threshold = 0 for the least",
            )
