"""Item factors: what the server sends back once, never changed afterwards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadNumber, BadShape, FactorsChanged

__all__ = ["ItemFactors"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemFactors:
    """The shared item factors and the few public numbers an entity needs to draw its own model towards them.

    Parameters
    ----------
    plan, catalog : str
        Hashes of the plan and of the catalog they belong to.
    factors : float32 array (items, rank)
        V of the paper, at least 0.
    moments : float64 array (rank, rank)
        Mean of u uᵀ over the users the prototypes stand for: ``factors @ moments @ factors.T`` is what the federation
        knows of how items go together, per user.
    means : float64 array (items,)
        Mean value of each item over all messages: for counts per user, for ratings per observation.
    support : float64 array (items,)
        How much each mean can be trusted: users (counts) or observations (ratings) less what the noise takes away.
    users : float
        How many users the messages speak for, less what the noise takes away.
    entities : int
        How many entities answered; their names are not in here.
    private : bool
        False when any message came from a simulation, from seeded noise, or from a mechanism without a proof.
    note : str
        What the server decided from public numbers, in words.
    patterns : float32 array (items, patterns), optional
        Directions of the users' common second moments that rose above the noise; signed, columns of unit length. None
        where the messages held no second moments (prototypes).
    strengths : float64 array (patterns,), optional
        Mean square along each pattern, per user: ``patterns @ diag(strengths) @ patterns.T`` is the denoised mean of
        x xᵀ, x a user's row as the mechanism measures it (`twofold.prototypes.bilinear`).
    squares : float64 array (items,), optional
        Diagonal of that mean before anything was left out: mean square of each item, at least 0.

    Privacy
    -------
    Post-processing of released messages: costs nothing more.

    Paper
    -----
    V̂ of Algorithm 2, line 4.
    """

    plan: str
    catalog: str
    factors: NDArray[np.float32]
    moments: NDArray[np.float64]
    means: NDArray[np.float64]
    support: NDArray[np.float64]
    users: float
    entities: int
    private: bool
    note: str = ""
    patterns: NDArray[np.float32] | None = None
    strengths: NDArray[np.float64] | None = None
    squares: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        items, rank = self.factors.shape if self.factors.ndim == 2 else (-1, -1)
        shapes = (self.moments.shape, self.means.shape, self.support.shape)
        if shapes != ((rank, rank), (items,), (items,)):
            raise BadShape(
                "the parts of the item factors do not fit together.", found=f"factors of {self.factors.shape}"
            )
        arrays: tuple[NDArray[Any], ...] = (self.factors, self.moments, self.means, self.support, *self._second(items))
        if not all(np.isfinite(part).all() for part in arrays) or not np.isfinite(self.users):
            raise BadNumber("the item factors hold NaN or infinity.", expected="finite numbers")
        for part in arrays:
            part.flags.writeable = False

    def _second(self, items: int) -> tuple[NDArray[Any], ...]:
        """The parts of the second moments: all or none of them."""
        given = (self.patterns, self.strengths, self.squares)
        if all(part is None for part in given):
            return ()
        parts = tuple(np.asarray(part) for part in given if part is not None)
        width = parts[0].shape[1] if len(parts) == 3 and parts[0].ndim == 2 else -1
        if [part.shape for part in parts] != [(items, width), (width,), (items,)]:
            raise BadShape("the second moments of the item factors do not fit together.")
        return parts

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.factors.shape[0])

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.factors.shape[1])

    @property
    def hash(self) -> str:
        """SHA-256 of every number, to show that a local fit left them as they came."""
        state = hashlib.sha256(f"twofold factors 1 {self.plan} {self.catalog}\n".encode())
        for part, kind in (
            (self.factors, "<f4"),
            (self.moments, "<f8"),
            (self.means, "<f8"),
            (self.support, "<f8"),
            (np.array([self.users, self.entities]), "<f8"),
        ):
            state.update(np.ascontiguousarray(part, dtype=kind).tobytes())
        for second in self._second(self.n_items):
            state.update(np.ascontiguousarray(second, dtype=second.dtype.newbyteorder("<")).tobytes())
        return state.hexdigest()

    def check_unchanged(self, before: str) -> None:
        """Refuse to go on when the numbers are not those of `before`, an earlier `hash`."""
        if self.hash != before:
            raise FactorsChanged(
                "the shared item factors were changed by a local fit.",
                found=f"hash {self.hash[:12]}",
                expected=f"hash {before[:12]}",
                fix="copy them before changing them; personalize and adapt never write to them",
            )
