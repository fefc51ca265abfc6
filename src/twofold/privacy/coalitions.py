r"""The ε that is left when participants work together: one row for every coalition that sees something different.

A row is computed from the event, which the plan states before anything is drawn and the ledger keeps. So the plan, the
card and the study print the same numbers. Proofs: docs/reference/operators.md for two operators, and
docs/reference/secure_sum.md for a sum among the entities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from twofold.errors import BadPrivacyParameter
from twofold.privacy.accountant import price, spent
from twofold.privacy.budget import NotPrivate, PureDP
from twofold.privacy.event_words import operator_sum, own_shares
from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    Event,
    OperatorSumEvent,
    flatten,
    is_seeded,
)

__all__ = ["ALL_OTHERS", "BOTH", "EVERYBODY", "ONE", "PUBLIC", "SERVER", "Coalition", "coalitions_of"]

#: What a coalition is called in JSON.
PUBLIC: Final = "public"
ONE: Final = "one operator"
BOTH: Final = "both operators"
SERVER: Final = "server"
ALL_OTHERS: Final = "all others"
EVERYBODY: Final = "everybody"


@dataclass(frozen=True, kw_only=True)
class Coalition:
    """Participants who show each other all they have, and the ε that one holder in one entity keeps against them.

    Parameters
    ----------
    kind : str
        "public", "one operator", "both operators", "server", "all others" or "everybody".
    who : str
        The same in words.
    epsilon : Fraction
        At the plan's δ, never below what is proved; infinity if nothing hides the exact numbers.
    why : str
        Which noise is left.

    Examples
    --------
    >>> Coalition(kind=BOTH, who="both operators", epsilon=math.inf, why="no noise").kept
    False
    """

    kind: str
    who: str
    epsilon: Fraction | float
    why: str

    @property
    def kept(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.epsilon)


def coalitions_of(
    event: Event, *, sharing: str, delta: Fraction, colluders: int | None = None
) -> tuple[Coalition, ...]:
    """List the coalitions of a release with the ε of each.

    Parameters
    ----------
    event : Event
        What a release is charged as.
    sharing : {"plain", "peers", "operators"}
        How messages are protected beside their noise.
    delta : Fraction
        The δ that ε is stated at; 0 for Laplace noise.
    colluders : int, optional
        Entities whose noise does not count; None if it is not recorded.

    Privacy
    -------
    Every row is a proved upper bound for one holder in one entity. More noise never costs: adding it is
    post-processing. So the two noises of two operators cost at most what one costs.

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> noise = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=50, coordinates=9)
    >>> event = OperatorSumEvent(unit=Unit.person(), noise=noise)
    >>> rows = coalitions_of(event, sharing="operators", delta=Fraction(1, 10**6))
    >>> [(row.kind, round(float(row.epsilon), 2)) for row in rows]
    [('public', 0.4), ('one operator', 0.58), ('both operators', inf)]
    """
    whole = _epsilon(event, delta)
    if sharing == "plain":
        return (Coalition(kind=EVERYBODY, who="everybody together", epsilon=whole, why="the entity's own noise"),)
    alone = _alone(event, delta)
    some = _entities(colluders)
    if sharing == "peers":
        return (
            Coalition(kind=SERVER, who=f"the server and {some}", epsilon=whole, why="the other entities' shares"),
            Coalition(
                kind=ALL_OTHERS,
                who="the server and all other entities",
                epsilon=alone,
                why="the share of this entity",
            ),
        )
    both = Coalition(kind=BOTH, who="both operators", epsilon=alone, why=_left_of(event))
    joined = operator_sum([event])
    if joined is None:
        left = "the other entities' shares"
        return (
            Coalition(kind=PUBLIC, who=f"readers of the sum and {some}", epsilon=whole, why=left),
            Coalition(kind=ONE, who=f"one operator and {some}", epsilon=whole, why=left),
            Coalition(
                kind=ALL_OTHERS,
                who="readers or one operator, and all other entities",
                epsilon=alone,
                why=_left_of(event),
            ),
            both,
        )
    any_number = "any number of entities"
    left, public = "both operators' noises", whole
    if _is_single(event):
        public = min(whole, _two_noises(joined, delta))
    return (
        Coalition(kind=PUBLIC, who=f"readers of the sum and {any_number}", epsilon=public, why=left),
        Coalition(kind=ONE, who=f"one operator and {any_number}", epsilon=whole, why="the other operator's noise"),
        both,
    )


def _entities(colluders: int | None) -> str:
    if colluders is None:
        return "as many entities as the plan allows"
    return f"up to {colluders:,} {'entity' if colluders == 1 else 'entities'}"


def _is_single(event: Event) -> bool:
    """Whether there is one event only; nothing more than the sum of their prices is proved of several."""
    return len(list(flatten(event))) == 1


def _left_of(event: Event) -> str:
    return "the share of this entity" if own_shares([event]) else "no noise"


def _epsilon(event: Event, delta: Fraction) -> Fraction | float:
    """ε of an event at δ; infinity if it is not private."""
    try:
        found = price(event)
        cost = found.to_approx(delta) if isinstance(found, PureDP) else spent(event, delta=delta)
    except BadPrivacyParameter:  # Laplace and Gaussian parts together
        cost = spent(event, delta=delta)
    return math.inf if isinstance(cost, NotPrivate) else cost.epsilon


def _two_noises(event: OperatorSumEvent, delta: Fraction) -> Fraction | float:
    """ε of the sum of all operators' noises.

    A sum of two Laplace noises has the tail of one, so pure ε stays. The sum of two Gaussians is priced as two shares.
    """
    noise = event.noise
    if is_seeded(event) or not isinstance(noise, DiscreteGaussianEvent) or noise.variance < Fraction(1, 4):
        return math.inf  # nothing better than one noise is proved
    shares = DiscreteGaussianShareEvent(
        unit=noise.unit,
        sensitivity_squared=noise.sensitivity_squared,
        variance=noise.variance,
        parties=event.operators,
        coordinates=noise.coordinates,
        grid=noise.grid,
    )
    return _epsilon(shares, delta)


def _alone(event: Event, delta: Fraction) -> Fraction | float:
    """ε of one message if its shares are joined, or its masks are known: only the entity's own noise is left.

    A share of a Gaussian alone is a discrete Gaussian of its own variance. A share of a Laplace has no useful bound.
    """
    shares = own_shares([event])
    share = shares[0] if _is_single(event) and len(shares) == 1 else None
    if is_seeded(event) or not isinstance(share, DiscreteGaussianShareEvent):
        return math.inf
    own = DiscreteGaussianEvent(
        unit=share.unit,
        sensitivity_squared=share.sensitivity_squared,
        variance=share.variance,
        coordinates=share.coordinates,
        grid=share.grid,
    )
    return _epsilon(own, delta)
