"""Whether more than one prototype can pay, judged by public numbers before anything is drawn.

A prototype of n users has a mean whose noise has the energy items·σ²/n². What it can win over publishing the mean of
everybody is at most the squared distance of its mean from that one, which rows of l2 norm R keep below R². Where the
noise energy exceeds R² no data whatsoever can make the split pay, and the mechanism releases one prototype instead, and
says so. n is the promised number of users over the number of prototypes, times the entities where messages are added.
"""

from __future__ import annotations

from twofold.prototypes.base import Public
from twofold.prototypes.cells import CellNoise

__all__ = ["fallback_note", "noise_ratio"]


def noise_ratio(noise: CellNoise, *, cells: int, entities: int = 1) -> float:
    """Noise energy of a cell's mean over the most a split can win; above 1 it cannot pay.

    Parameters
    ----------
    noise : CellNoise
        The noise of the release.
    cells : int
        Among how many cells users are taken to be shared out evenly.
    entities : int
        How many messages are added up: σ² grows with them, n² with their square.

    Examples
    --------
    >>> few = Public(n_items=457, n_users=900, max_items=66, bound=1, epsilon="0.1")
    >>> round(noise_ratio(CellNoise(public=few, budget=few.budget, cells=10), cells=10))
    919
    """
    public = noise.public
    users = public.n_users / cells
    energy = public.n_items * noise.noise.values**2 / (users**2 * entities)
    return energy / public.row_l2**2


def fallback_note(ratio: float, public: Public) -> str:
    """Say why one prototype was released instead of several; public numbers only."""
    return (
        f"fell back to one prototype: with {public.n_users:,} promised users, {public.n_items:,} items, "
        f"{public.n_prototypes} prototypes and ε = {float(public.epsilon):g} the noise in a prototype has "
        f"{ratio:.3g} times the energy that the largest possible pattern has"
    )
