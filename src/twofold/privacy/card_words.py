"""The sentences of the privacy card: what a figure means, in words that need no mathematics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    DiscreteLaplaceEvent,
    DiscreteLaplaceShareEvent,
    Event,
    NonPrivateEvent,
    SelectionEvent,
    ThresholdEvent,
    flatten,
)
from twofold.privacy.ledger import Cost
from twofold.privacy.unit import Unit

__all__ = ["against", "brief", "describe", "not_promised", "parties", "percent", "protects", "spread"]

_AGAINST = (
    "the server, every other participant, and anybody who ever sees the release, whatever else they know and however "
    "long they compute"
)


def against(parties: int = 1) -> str:
    """Say who may look, and in a secure sum under which condition.

    Examples
    --------
    >>> against(205).split(", ")[-1][:39], against() in against(205)
    ('as long as at least 205 entities in the', True)
    """
    if parties == 1:
        return _AGAINST
    return (
        f"{_AGAINST}, as long as at least {parties} entities in the sum draw their share of the noise as agreed and "
        "keep it from whoever looks; the masks hold while X25519 does"
    )


def brief(cost: Cost) -> str:
    """Print a cost with three digits, rounded up: a card may overstate what was spent and never understate it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> brief(Cost(epsilon=Fraction(2, 3), delta=Fraction(1, 10**6)))
    'ε = 0.667, δ = 1e-6'
    """
    return f"ε = {_up(cost.epsilon)}" + (f", δ = {_up(cost.delta)}" if cost.delta else "")


def _up(amount: Fraction | float) -> str:
    if isinstance(amount, float):
        return "infinite"
    if not amount:
        return "0"
    exponent = math.floor(math.log10(amount)) - 2
    step = Fraction(10) ** exponent
    mantissa, _, power = f"{float(math.ceil(amount / step) * step):.3g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def percent(share: float) -> str:
    """Print a probability; never as 100% when it is less.

    Examples
    --------
    >>> percent(0.7311), percent(0.99995), percent(1.0)
    ('73.1%', '99.99%', '100%')
    """
    if share == 1.0:
        return "100%"
    if share > 0.999:
        return f"{math.floor(share * 1e4) / 1e2:.2f}%"
    return f"{share:.1%}"


def protects(unit: Unit) -> str:
    """Say whom a release protects.

    Examples
    --------
    >>> protects(Unit.person())
    'each person, with everything recorded about them'
    """
    whom = {"person": "each person, with everything recorded about them", "visit": "each single visit"}[unit.holder]
    return whom if unit.entities == 1 else f"{whom}, in up to {unit.entities} of the participating entities"


def spread(event: Event) -> float | None:
    """Give the standard deviation of the noise on one released number, in its own unit; None if there is none."""
    if isinstance(event, DiscreteLaplaceEvent | DiscreteLaplaceShareEvent):
        q = math.exp(-1 / float(event.scale))
        return math.sqrt(2 * q) / (1 - q) * float(event.grid)
    if isinstance(event, DiscreteGaussianEvent):
        return math.sqrt(event.variance) * float(event.grid)
    if isinstance(event, DiscreteGaussianShareEvent):
        return math.sqrt(event.variance * event.parties) * float(event.grid)
    return None


def describe(event: Event) -> list[str]:
    """Say what was done, one line per single event; equal lines once, with their number.

    Examples
    --------
    >>> event = ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)
    >>> describe(event)
    ['A cell opens if its count plus discrete Laplace noise of scale 10 exceeds 50.']
    """
    lines: dict[str, int] = {}
    for one in flatten(event):
        text = _sentence(one)
        lines[text] = lines.get(text, 0) + 1
    return [text if count == 1 else f"{count} times: {text}" for text, count in lines.items()]


def _sentence(event: Event) -> str:
    noise = spread(event)
    if noise is not None:
        return _noise_sentence(event, noise)
    if isinstance(event, SelectionEvent):
        return f"{event.picks} of {event.candidates} candidates were picked by the exponential mechanism."
    if isinstance(event, ThresholdEvent):
        scale = f"{float(event.scale):g}"
        return f"A cell opens if its count plus discrete Laplace noise of scale {scale} exceeds {event.threshold}."
    if isinstance(event, NonPrivateEvent):
        return f"NOT PRIVATE: {event.reason}."
    return f"An event of kind {event.kind}."


def _noise_sentence(event: Any, noise: float) -> str:
    gaussian = isinstance(event, DiscreteGaussianEvent | DiscreteGaussianShareEvent)
    reach = math.sqrt(event.sensitivity_squared) if gaussian else float(event.sensitivity)
    name, distance = ("Gaussian", "l2") if gaussian else ("Laplace", "l1")
    shared = f" in the sum over {event.parties} honest parties" if hasattr(event, "parties") else ""
    return (
        f"{event.coordinates:,} numbers with discrete {name} noise of standard deviation {noise:.4g} each{shared}; one "
        f"{event.unit.holder} moves them by at most {reach * float(event.grid):.4g} in {distance} distance."
    )


def parties(events: Sequence[Event]) -> int:
    """Give how many honest parties must add their shares before the guarantee holds; 1 if this release stands alone.

    Examples
    --------
    >>> parties([ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)])
    1
    """
    return max(int(getattr(one, "parties", 1)) for event in events for one in flatten(event))


def not_promised(
    unit: Unit, *, seeded: bool, parties: int = 1, alone: bool = False, about: Mapping[str, Any]
) -> Sequence[str]:
    """List what nobody should read into the guarantee; `alone` where a share of the noise has a price of its own.

    Examples
    --------
    >>> not_promised(Unit.visit(), seeded=False, about={})[0]
    'A person with several visits is protected less: v visits cost v times the ε, and more where there is a δ.'
    """
    lines = []
    if seeded:
        lines.append("NOTHING is promised: the noise was made from a seed and can be removed by anybody who knows it.")
    if parties > 1:
        what = "More about this message alone than the larger ε above" if alone else "Anything about this message alone"
        lines.append(f"{what}: it carries a share of the noise, whole with {parties} shares.")
    if unit.holder == "visit":
        lines.append(
            "A person with several visits is protected less: v visits cost v times the ε, and more where there is a δ."
        )
    return [
        *lines,
        "That nothing can be learned about groups: what is true of many people is what the release is for.",
        "Anything against those who hold the raw records: staff, administrators, or somebody who breaks in there.",
        f"Anything about a {unit.holder} found in more than {_times(unit.entities)}, or in data outside this ledger.",
        "That later releases are free: each adds to the total above.",
        "Equal accuracy for all: rare items and small groups drown in the noise first.",
        *(str(line) for line in about.get("not_promised", ())),
    ]


def _times(entities: int) -> str:
    return "one participating entity" if entities == 1 else f"{entities} participating entities"
