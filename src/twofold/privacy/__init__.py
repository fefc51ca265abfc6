"""Privacy: whose presence is hidden, at what price, by which noise, and how anyone can try to disprove it.

This layer knows nothing of recommendation and imports nothing of ours but the errors. In the order of a
release:

`unit` (who) → `budget` (how much) → `grid` (real numbers to integers) → `mechanisms` (the noise) → `events`
(what was done, completely) → `accountant` (what it costs) → `ledger` and `card` (written down). `audit`
attacks it all.
"""

from twofold.privacy.budget import ZCDP, ApproxDP, Guarantee, NotPrivate, PureDP, Split, exact
from twofold.privacy.events import Event, ParallelEvent, SequentialEvent, event_from_dict
from twofold.privacy.grid import Grid
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Event",
    "Grid",
    "Guarantee",
    "NotPrivate",
    "ParallelEvent",
    "PureDP",
    "SequentialEvent",
    "Source",
    "Split",
    "Unit",
    "event_from_dict",
    "exact",
    "source",
]
