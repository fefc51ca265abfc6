"""The secure sum in a plan, of either kind: among the entities (`SecureSum`), or with two operators (`OperatorSum`)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, PlainValidator

from twofold.errors import BadPlan, Set
from twofold.federation.fields import FieldTable, Time, described
from twofold.privacy.budget import positive

__all__ = ["OPERATORS", "OperatorSum", "SecureSum", "usual_floor", "usual_survivors"]

#: Operators of a sum in shares: two, of whom one must be honest.
OPERATORS: Final = 2

_Few = Annotated[int, Field(ge=0, le=10_000)]


def _kept_alone(value: Any) -> Fraction | None:
    return None if value is None else positive(value, name="most_alone")


class _SumTable(FieldTable):
    """What the tables of both kinds have in common."""

    prefix: ClassVar[str] = "secure."

    def with_(self, **changes: Any) -> Self:
        """Return the same with some fields changed."""
        same = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**same, **changes})

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON, as `from_dict` reads it."""
        record: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        alone = record["most_alone"]
        return record | {"most_alone": None if alone is None else str(alone)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))


class SecureSum(_SumTable):
    """The server sees only the sum of the messages, and every entity adds only its share of the noise.

    Each field has its meaning in its declaration; docs/reference/plan.md lists them.

    Examples
    --------
    >>> secure = SecureSum(survivors=185)
    >>> secure.colluders, secure.honest(205), SecureSum.from_dict(secure.as_dict()) == secure
    (1, 181, True)
    """

    survivors: Annotated[int, Field(ge=2, le=10_000)] = described(
        "Fewest entities whose messages are summed; below it nothing is unmasked and nothing is published.",
        default_text="with `plan new`, all but a tenth",
        example=9,
    )
    present: _Few = described(
        "Fewest entities that share their keys before anyone sends a message; 0 for all of them.", default=0
    )
    colluders: _Few = described(
        "Entities that may work together with the server and deviate in any way. One more, who only reads, is always "
        "counted; the noise of the others alone keeps the promise.",
        default=1,
    )
    threshold: _Few = described(
        "Answers needed to remove the masks; 0 for as many as survivors, which is the safest.", default=0
    )
    most_alone: Annotated[Fraction | None, PlainValidator(_kept_alone)] = described(
        "Largest epsilon of one entity's message seen alone, if all others collude with the server.",
        default=None,
        default_text="any",
        expected="a number above 0",
        example=30,
    )
    share_deadline: Time | None = described(
        "Until when the server waits for key shares; without it, until all have shared.",
        default=None,
        expected="a time, as 2027-01-15T12:00:00Z",
        example="2027-01-15T12:00:00Z",
    )

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.colluders >= self.survivors:
            raise BadPlan(
                "all survivors could collude: nobody's noise would be left.",
                found=f"{self.colluders} colluders of {self.survivors} survivors",
                expected="fewer colluders than survivors",
                parameter="secure.colluders",
            )

    @property
    def answers(self) -> int:
        """Number of answers that remove the masks."""
        return self.threshold or self.survivors

    def least_present(self, entities: int) -> int:
        """Number of entities that must have shared their keys."""
        return self.present or entities

    def honest(self, entities: int) -> int:
        """Give the fewest entities whose noise stays secret in any sum that even a dishonest server can reveal.

        Privacy
        -------
        See `twofold.secure_sum.terms.honest_in_any_sum`, which has the proof. Every participant reads what is
        published, on a shared drive every message, and knows its own numbers, its own noise and the shares it
        holds. So one participant more is counted than the plan's colluders. The noise is shared among the rest.
        """
        from twofold.secure_sum.terms import honest_in_any_sum  # loads the library of ciphers

        return honest_in_any_sum(
            entities=entities,
            threshold=self.answers,
            least_survivors=self.survivors,
            least_present=self.least_present(entities),
            colluders=self.colluders + 1,
        )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> SecureSum:
        """Read a record of `as_dict`."""
        if not isinstance(record, Mapping):
            raise BadPlan("the secure-sum part of the plan has the wrong form.", parameter="secure")
        return cls(**record)

    def check(self, entities: int, *, simulation: bool = False) -> None:
        """Refuse numbers that do not fit the number of entities, or that cannot keep the promise."""
        if self.survivors > entities:
            raise BadPlan(
                "the plan asks for more survivors than entities.",
                parameter="secure.survivors",
                found=f"{self.survivors} of {entities}",
                fix=Set("secure.survivors", entities),
            )
        self._check_numbers(entities)
        if self.colluders == 0 and not simulation:
            raise BadPlan(
                "a real plan must withstand at least one dishonest participant.",
                parameter="secure.colluders",
                found="0 colluders",
                expected="at least 1",
                fix=(Set("secure.colluders", 1), Set("simulation", True)),
            )

    def _check_numbers(self, entities: int) -> None:
        from twofold.secure_sum.terms import least_floor, least_threshold

        counted, present = self.colluders + 1, self.least_present(entities)
        floor = least_floor(entities, counted)
        if floor is None:
            raise BadPlan(
                "too few entities: no numbers of a secure sum can keep the promise.",
                parameter="secure.colluders",
                found=f"{self.colluders} colluders of {entities} entities",
                expected=f"at least {counted + 1} entities, or at most {max(0, entities - 2)} colluders",
                fix="more entities, or a plan without a secure sum, in which every entity adds the whole noise",
            )
        least = least_threshold(entities, counted)
        enough = max(floor, min(self.survivors, entities))
        fix = (
            f"survivors = {enough}, and leave threshold and present out"
            if self.threshold or self.present
            else Set("secure.survivors", enough)
        )
        if not least <= self.answers <= self.survivors <= present <= entities:
            raise BadPlan(
                "the numbers of the secure sum are not safe, or cannot be reached.",
                parameter="secure.survivors",
                found=f"threshold {self.answers}, survivors {self.survivors}, present {present}",
                expected=f"{least} <= threshold <= survivors <= present <= {entities}",
                fix=fix,
            )
        if self.honest(entities) < 1:
            raise BadPlan(
                "a dishonest server could reveal sums without noise.",
                parameter="secure.threshold",
                found=f"threshold {self.answers}, survivors {self.survivors}, present {present} of {entities}",
                expected=f"at least {floor} survivors, with threshold and present left out",
                fix=fix,
            )


class OperatorSum(_SumTable):
    """Two operators hold every entity's numbers in shares; together they learn the sum, and each adds a whole noise.

    Each field has its meaning in its declaration; docs/reference/plan.md lists them.

    Privacy
    -------
    ε holds as long as one operator is honest, however many entities work with the other one. The proof, and the ε
    under every coalition, are in docs/reference/operators.md.

    Examples
    --------
    >>> secure = OperatorSum(floor=100)
    >>> secure.noise, secure.honest, OperatorSum.from_dict(secure.as_dict()) == secure
    ('operators', 0, True)
    >>> OperatorSum(floor=100, noise="both", colluders=4).honest
    95
    """

    floor: Annotated[int, Field(ge=2, le=10_000_000)] = described(
        "Fewest entities in the sum; below it the operators publish nothing.",
        default_text="with `plan new`, half of the entities, and at least 3",
        example=100,
    )
    noise: Literal["operators", "entities", "both"] = described(
        'Who adds noise. "operators": each a whole one. "entities": every entity its share of one. "both".',
        default="operators",
    )
    colluders: _Few = described(
        "Entities in the sum whose noise does not count, since they may work together with an operator. One more, who "
        "only reads, is always counted. Without effect if operators alone add noise.",
        default=1,
    )
    people: bool = described(
        "Every entity is one person, known by a key that serves once. The entities that the plan names vouch for them.",
        default=False,
    )
    most_alone: Annotated[Fraction | None, PlainValidator(_kept_alone)] = described(
        "Largest epsilon of one entity's message if both operators collude; needs noise by entities.",
        default=None,
        default_text="any",
        expected="a number above 0",
        example=30,
    )

    @property
    def honest(self) -> int:
        """Entities in any sum whose shares of the noise stay secret; 0 if entities add none.

        Privacy
        -------
        An honest operator publishes no sum of fewer than `floor` entities. At most `colluders` of these tell their
        noise to an adversary, and one more reads what is published.
        """
        return 0 if self.noise == "operators" else self.floor - self.colluders - 1

    @property
    def whole_noises(self) -> int:
        """How many operators add a whole noise."""
        return 0 if self.noise == "entities" else OPERATORS

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON, as `from_dict` reads it."""
        return super().as_dict() | {"kind": "operators"}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> OperatorSum:
        """Read a record of `as_dict`."""
        return cls(**{name: value for name, value in record.items() if name != "kind"})

    def check(self, entities: int, *, simulation: bool = False) -> None:
        """Refuse numbers that do not fit the number of entities, or that cannot keep the promise."""
        if self.floor > entities:
            raise BadPlan(
                "the plan asks for more entities in the sum than there are.",
                parameter="secure.floor",
                found=f"{self.floor} of {entities}",
                fix=Set("secure.floor", entities),
            )
        if self.noise != "operators" and self.honest < 1:
            raise BadPlan(
                "all entities of a sum could collude: nobody's noise would be left.",
                found=f"{self.colluders} colluders, and one who reads, of {self.floor} entities",
                expected="a floor above that",
                fix=Set("secure.floor", self.colluders + 2),
                parameter="secure.floor",
            )
        if self.noise == "operators" and self.most_alone is not None:
            raise BadPlan(
                "entities add no noise, so nothing limits what both operators together learn from one message.",
                found=f"most_alone {float(self.most_alone):g}",
                expected="noise by entities",
                fix=(Set("secure.noise", "both"), "leave most_alone out"),
                parameter="secure.most_alone",
            )
        if self.noise == "entities" and self.colluders == 0 and not simulation:
            raise BadPlan(
                "a real plan must withstand at least one dishonest participant.",
                parameter="secure.colluders",
                found="0 colluders",
                expected="at least 1",
                fix=(Set("secure.colluders", 1), Set("simulation", True)),
            )


def usual_floor(entities: int) -> int:
    """Half of the entities, and at least three if there are: what `twofold plan new --secure operators` writes.

    In a sum of two, each knows the other's totals, under noise that is sized for one person.

    Examples
    --------
    >>> [usual_floor(entities) for entities in (2, 3, 205, 100_000)]
    [2, 3, 103, 50000]
    """
    return max(2, min(3, entities), -(-entities // 2))


def usual_survivors(entities: int) -> int:
    """All but a tenth of the entities: what `twofold plan new` writes.

    Examples
    --------
    >>> [usual_survivors(entities) for entities in (3, 10, 205)]
    [3, 9, 185]
    """
    return entities - entities // 10
