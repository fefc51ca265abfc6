"""What the server works with: noisy totals over users, in real numbers, and how large their noise is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from twofold.errors import BadShape
from twofold.prototypes.message import Floats

__all__ = ["Kind", "Moments"]

Kind = Literal["gram", "sketch", "features"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Noisy first and second moments of all users together. Totals, not means; in units of x.

    Parameters
    ----------
    kind : {"gram", "sketch", "features"}
        What the pairs are.
    users : float
        Noisy number of users, weighted where messages are; may be negative.
    sums : array (items,)
        Totals of x.
    pairs : array (items, items) or (items, columns)
        Totals of x xᵀ (gram, symmetric) or of x sᵀ (s of norm at most 1: a public map, or a public profile).
    users_noise, sums_noise, pairs_noise : float
        Standard deviation of the noise in each number of these.
    cap : float
        Largest norm of a row x; longer ones were shortened to it.
    entities : int
        How many answered.
    seeded : bool
        True when any noise came from a seed: not private.
    observed, observed_noise
        For ratings: how many observed each item.
    """

    kind: Kind
    users: float
    sums: Floats = field(repr=False)
    pairs: Floats = field(repr=False)
    users_noise: float
    sums_noise: float
    pairs_noise: float
    cap: float
    entities: int
    seeded: bool
    observed: Floats | None = field(default=None, repr=False)
    observed_noise: float = 0.0

    def __post_init__(self) -> None:
        items = len(self.sums)
        square = self.pairs.shape == (items, items) if self.kind == "gram" else self.pairs.shape[:1] == (items,)
        if not square or (self.observed is not None and self.observed.shape != (items,)):
            raise BadShape("the parts of the moments do not fit together.", found=f"pairs of {self.pairs.shape}")
