"""Whose presence is hidden.

A guarantee protects one *unit*. By default that is a person with all their visits; a plan may choose one
visit instead, and the card then says so too. Two data sets are neighbours when one unit was added to or
removed from one of them (add-or-remove-one). What follows for other questions is derived here:

* replace-one (a unit is swapped for another): twice the ε, because it is one removal and one addition;
* a person found in up to m entities: the m releases compose, so m times the ε (and m times the δ);
* the same where all entities share one noise (a secure sum): the person moves that one release m times as far, a group
  of m units, so m² times the ρ.

Serialised form: ``{"holder": "person", "entities": 1, "adjacency": "add-or-remove-one"}``. The meaning of a
value never changes; new values may be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, overload

from twofold import checks
from twofold.errors import BadPrivacyParameter, UnitMissing
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP

__all__ = ["ADJACENCY", "Unit"]

ADJACENCY = "add-or-remove-one"
Holder = Literal["person", "visit"]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Whose presence a release hides, under add-or-remove-one.

    Parameters
    ----------
    holder : {"person", "visit"}
        A person with everything recorded about them, or a single visit.
    entities : int
        Number of entities in which the same holder may be found (1 if entities are disjoint).

    Privacy
    -------
    A visit-level guarantee says nothing about a person with many visits: v visits in one release are a group, which
    costs v times a pure ε, and more than that where there is a δ (`across_one_noise`).

    Examples
    --------
    >>> from twofold.privacy.budget import PureDP
    >>> Unit.person(entities=3).across(PureDP(epsilon=1))
    PureDP(epsilon=Fraction(3, 1))
    >>> Unit.person().as_dict()
    {'holder': 'person', 'entities': 1, 'adjacency': 'add-or-remove-one'}
    """

    holder: Holder
    entities: int = 1

    def __post_init__(self) -> None:
        if self.holder not in ("person", "visit"):
            raise UnitMissing(
                "the unit is missing: whose presence is hidden.",
                found=repr(self.holder),
                expected="'person' or 'visit'",
                parameter="unit",
            )
        checks.whole("unit.entities", self.entities, error=BadPrivacyParameter)

    @classmethod
    def person(cls, *, entities: int = 1) -> Unit:
        """Hide a person: all their visits at once.

        Examples
        --------
        >>> Unit.person().holder
        'person'
        """
        return cls(holder="person", entities=entities)

    @classmethod
    def visit(cls, *, entities: int = 1) -> Unit:
        """Hide one visit only.

        Examples
        --------
        >>> Unit.visit().holder
        'visit'
        """
        return cls(holder="visit", entities=entities)

    @property
    def adjacency(self) -> str:
        """Always add-or-remove-one; `replace_one` of a guarantee derives the other figure."""
        return ADJACENCY

    @overload
    def across(self, guarantee: PureDP) -> PureDP: ...
    @overload
    def across(self, guarantee: ApproxDP) -> ApproxDP: ...
    @overload
    def across(self, guarantee: ZCDP) -> ZCDP: ...
    @overload
    def across(self, guarantee: NotPrivate) -> NotPrivate: ...
    def across(self, guarantee: PureDP | ApproxDP | ZCDP | NotPrivate) -> PureDP | ApproxDP | ZCDP | NotPrivate:
        """Guarantee for a holder found in `entities` entities, each of which spends `guarantee`.

        Privacy
        -------
        Not group privacy: the m releases come from m separate mechanisms, so they compose sequentially, and
        ε, δ and ρ are each multiplied by m.

        Examples
        --------
        >>> from twofold.privacy.budget import ApproxDP
        >>> Unit.person(entities=2).across(ApproxDP(epsilon=1, delta=1e-6)).delta
        Fraction(1, 500000)
        """
        if isinstance(guarantee, PureDP):
            return PureDP(epsilon=self.entities * guarantee.epsilon)
        if isinstance(guarantee, ZCDP):
            return ZCDP(rho=self.entities * guarantee.rho)
        if isinstance(guarantee, ApproxDP):
            return ApproxDP(epsilon=self.entities * guarantee.epsilon, delta=self.entities * guarantee.delta)
        return guarantee

    def across_one_noise(self, guarantee: PureDP | ZCDP) -> PureDP | ZCDP:
        """Guarantee for a holder found in `entities` entities whose numbers go into one sum with one noise.

        Privacy
        -------
        Group privacy of m units in one mechanism: m times a pure ε, m² times ρ (Bun and Steinke 2016, proposition 1.9).
        There is no such useful rule for (ε, δ) alone, whose δ would grow with e^(m ε).

        Examples
        --------
        >>> Unit.person(entities=3).across_one_noise(ZCDP(rho=1))
        ZCDP(rho=Fraction(9, 1))
        """
        if isinstance(guarantee, PureDP):
            return PureDP(epsilon=self.entities * guarantee.epsilon)
        return ZCDP(rho=self.entities**2 * guarantee.rho)

    def as_dict(self) -> dict[str, str | int]:
        """Give the plain record."""
        return {"holder": self.holder, "entities": self.entities, "adjacency": self.adjacency}

    @classmethod
    def from_dict(cls, record: Mapping[str, object]) -> Unit:
        """Read a record of `as_dict`; another adjacency or an unknown field is refused.

        Examples
        --------
        >>> Unit.from_dict(Unit.visit(entities=2).as_dict())
        Unit(holder='visit', entities=2)
        """
        named = isinstance(record, Mapping) and set(record) == {"holder", "entities", "adjacency"}
        if not named or record["adjacency"] != ADJACENCY:
            raise UnitMissing(
                "the record does not say whose presence is hidden, and how.",
                found=f"fields {checks.shown(sorted(map(str, record)), 80)}"
                if isinstance(record, Mapping)
                else "no record",
                expected=f"holder, entities and adjacency {ADJACENCY!r}",
            )
        return cls(holder=record["holder"], entities=record["entities"])  # type: ignore[arg-type]
