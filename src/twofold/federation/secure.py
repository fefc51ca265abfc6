"""What a plan says about the secure sum: how many must stay, how many may collude, and under which keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from twofold.errors import BadPlan
from twofold.privacy.budget import Number, positive

if TYPE_CHECKING:
    from twofold.identity.roster import Roster

__all__ = ["SecureSum"]


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """The server sees only the sum of the messages, and every entity adds only its share of the noise.

    Parameters
    ----------
    survivors : int
        Fewest entities whose messages are summed. Below it nothing is unmasked and nothing is published.
    present : int
        Fewest entities that have shared their keys before anyone sends a message; 0: all of them.
    colluders : int
        Entities that may work together with the server. The noise of the others alone keeps the promise.
    threshold : int
        Answers needed to take the masks off; 0: as many as survivors, which is the safest.
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
    >>> secure = SecureSum(survivors=185)
    >>> secure.honest(205), SecureSum.from_dict(secure.as_dict()) == secure
    (183, True)
    """

    survivors: int
    present: int = 0
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
            present: int = 0,
            colluders: int = 0,
            threshold: int = 0,
            most_alone: Number | None = None,
            share_deadline: str | None = None,
            roster: str | Roster = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        from twofold.checks import is_hash, whole
        from twofold.federation.fields import check_time

        given: Any = self.roster
        if not isinstance(given, str) and not hasattr(given, "hash"):
            raise BadPlan(
                "secure.roster is a list of keys, or its hash.",
                found=f"a {type(given).__name__}",
                expected="Roster.joined(...), or 64 hexadecimal digits",
            )
        keys = None if isinstance(given, str) else given
        object.__setattr__(self, "_keys", keys)
        object.__setattr__(self, "roster", given if keys is None else keys.hash)
        for name, least in (("survivors", 2), ("present", 0), ("colluders", 0), ("threshold", 0)):
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
    def keys(self) -> Roster | None:
        """The list of keys, when this was made with it; only its hash is part of the plan."""
        return getattr(self, "_keys", None)

    @property
    def answers(self) -> int:
        """How many answers take the masks off."""
        return self.threshold or self.survivors

    def least_present(self, entities: int) -> int:
        """How many of so many entities must have shared their keys."""
        return self.present or entities

    def honest(self, entities: int) -> int:
        """Give the fewest entities whose noise no reader knows, in any sum that even a lying server can lay open.

        Privacy
        -------
        See `twofold.secure_sum.terms.honest_in_any_sum`, which has the proof. What is published goes to every
        participant, and each knows its own numbers and noise: so even where nobody colludes with the server, one of the
        survivors does not count. The noise is shared among so many.
        """
        from twofold.secure_sum.terms import honest_in_any_sum  # loads the library of ciphers

        before_the_server = honest_in_any_sum(
            entities=entities,
            threshold=self.answers,
            least_survivors=self.survivors,
            least_present=self.least_present(entities),
            colluders=self.colluders,
        )
        return min(before_the_server, self.survivors - max(self.colluders, 1))

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
        self._check_numbers(entities)

    def _check_numbers(self, entities: int) -> None:
        from twofold.secure_sum.terms import least_threshold

        if self.colluders > entities - 2:
            raise BadPlan(
                "nobody would be left to hide among.",
                found=f"{self.colluders} colluders of {entities} entities",
                expected=f"at most {max(0, entities - 2)} colluders, and at least two entities",
            )
        least, present = least_threshold(entities, self.colluders), self.least_present(entities)
        if not least <= self.answers <= self.survivors <= present <= entities:
            raise BadPlan(
                "the numbers of the secure sum are not safe, or cannot be reached.",
                found=f"threshold {self.answers}, survivors {self.survivors}, present {present}",
                expected=f"{least} <= threshold <= survivors <= present <= {entities}",
                fix=f"secure.survivors of at least {least}, or fewer colluders",
            )
        if self.honest(entities) < 1:
            raise BadPlan(
                "a lying server could lay open sums with nobody's noise in them.",
                found=f"threshold {self.answers}, survivors {self.survivors}, present {present} of {entities}",
                expected="numbers closer to all entities",
                fix="threshold = 0 and present = 0, and more survivors",
            )
