"""What events did, in words and single numbers: the noise and its size, the picks, how many must add their share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    DiscreteLaplaceEvent,
    DiscreteLaplaceShareEvent,
    Event,
    NonPrivateEvent,
    OperatorSumEvent,
    SelectionEvent,
    ThresholdEvent,
    flatten,
)

__all__ = ["describe", "main_noise", "operator_sum", "own_shares", "parties", "spread"]


def spread(event: Event) -> float | None:
    """Give the standard deviation of the noise on one released number, in its own unit; None if there is none."""
    if isinstance(event, DiscreteLaplaceEvent | DiscreteLaplaceShareEvent):
        q = math.exp(-1 / float(event.scale))
        return math.sqrt(2 * q) / (1 - q) * float(event.grid)
    if isinstance(event, DiscreteGaussianEvent):
        return math.sqrt(event.variance) * float(event.grid)
    if isinstance(event, DiscreteGaussianShareEvent):
        return math.sqrt(event.variance * event.parties) * float(event.grid)
    if isinstance(event, OperatorSumEvent):  # the price is that of one noise, and so is the size
        return spread(event.noise)
    return None


def main_noise(events: Sequence[Event]) -> float | None:
    """Standard deviation on one number of the largest noisy part of the release."""
    noisy = [one for event in events for one in flatten(event) if spread(one) is not None]
    return spread(max(noisy, key=_coordinates)) if noisy else None


def _coordinates(event: Event) -> int:
    return int(getattr(event.noise if isinstance(event, OperatorSumEvent) else event, "coordinates", 0))


def describe(event: Event) -> list[str]:
    """Describe what was done, one line per single event; equal lines once, with their number.

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> describe(ThresholdEvent(unit=Unit.person(), scale=10, threshold=50))
    ['A cell opens if its count plus discrete Laplace noise of scale 10 exceeds 50.']
    """
    lines: dict[str, int] = {}
    for one in flatten(event):
        text = _sentence(one)
        lines[text] = lines.get(text, 0) + 1
    return [text if count == 1 else f"{count} times: {text}" for text, count in lines.items()]


def _sentence(event: Event) -> str:
    if isinstance(event, OperatorSumEvent):
        return _operators_sentence(event)
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
    shared = f" in the sum over {event.parties} honest parties, this one included" if hasattr(event, "parties") else ""
    most = reach * float(event.grid)
    times = f"; the noise on each is {noise / most:.3g} times that" if most else ""
    return (
        f"{event.coordinates:,} numbers with discrete {name} noise of standard deviation {noise:.4g} each{shared}; one "
        f"{event.unit.holder} moves them by at most {most:.4g} in {distance} distance{times}. {_unit_of(event.grid)}"
    )


def _operators_sentence(event: OperatorSumEvent) -> str:
    noise = spread(event.noise)
    assert noise is not None
    own = " This entity adds no noise."
    if event.shares:
        share = event.shares[0]
        own = f" This entity adds its share of a further one, whole with {getattr(share, 'parties', 1):,} shares."
    return (
        f"Each of {event.operators} operators adds a whole noise to the sum; the price counts one of them. That one: "
        f"{_noise_sentence(event.noise, noise)}{own}"
    )


def _unit_of(grid: Fraction) -> str:
    if grid == 1:
        return "Unit: one step of the whole numbers in the message; twofold plan explain gives the table's own unit."
    return f"Unit: that of the released values, in steps of {grid}."


def parties(events: Sequence[Event]) -> int:
    """Give how many honest entities must add their shares before the guarantee holds; 1 if it asks for no others.

    Where operators add whole noises the guarantee rests on one of them, and on no entity (`operator_sum`).

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> parties([ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)])
    1
    """
    return max(int(getattr(one, "parties", 1)) for event in events for one in flatten(event))


def operator_sum(events: Sequence[Event]) -> OperatorSumEvent | None:
    """Give the sum whose noise operators add; None if the entities add all of it.

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> operator_sum([ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)]) is None
    True
    """
    return next((one for event in events for one in flatten(event) if isinstance(one, OperatorSumEvent)), None)


def own_shares(events: Sequence[Event]) -> list[Event]:
    """Give the shares of a common noise that this entity adds itself.

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> own_shares([ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)])
    []
    """
    found = list[Event]()
    for event in events:
        for one in flatten(event):
            found += one.shares if isinstance(one, OperatorSumEvent) else [one] if hasattr(one, "parties") else []
    return found
