"""Alternating exact solves when a look at the rows is dear: lengthened steps, and an end when little changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from twofold.prototypes.message import Floats
from twofold.server.normal import add_item_equations, row_equations, solve

__all__ = ["Look", "descend"]

LONGEST = 0.8  # of the last change, as `masked_nmf` lengthens steps


@dataclass(kw_only=True)
class Look:
    """What one look at all rows leaves behind: the objective at V, and the normal equations of the next V.

    Parameters
    ----------
    V : array (items, rank)
        Item factors the rows are fitted to.
    ridge : float
        Penalty of both sides.
    per_item : bool
        Whether entries have weights, so that every item has a Gram matrix of its own.
    threads : int or None
        As everywhere.

    Examples
    --------
    >>> look = Look(V=np.ones((2, 1)), ridge=0.0, per_item=False, threads=1)
    >>> look.add(np.array([[1.0, 3.0]]), None)
    >>> round(look.objective, 9), look.next_items().ravel()
    (2.0, array([0.5, 1.5]))
    """

    V: Floats
    ridge: float
    per_item: bool
    threads: int | None
    objective: float = field(init=False)
    gram: Floats = field(init=False)
    given: Floats = field(init=False)
    square: Floats | None = field(init=False)

    def __post_init__(self) -> None:
        items, rank = self.V.shape
        self.gram = np.zeros((items, rank, rank) if self.per_item else (rank, rank))
        self.given = np.zeros((items, rank))
        self.objective = self.ridge * float(np.vdot(self.V, self.V))
        self.square = None if self.per_item else self.V.T @ self.V

    def add(self, Y: Floats, weights: Floats | None) -> None:
        """Fit the rows of one block to V, exactly, and add what they say."""
        gram, given, squares = row_equations(Y, weights, self.V, self.square)
        U = self.fit(gram, given, squares)
        add_item_equations(Y, weights, U, self.gram, self.given)

    def fit(self, gram: Floats, given: Floats, squares: float) -> Floats:
        """Fit rows from their normal equations, and count what is left of them."""
        U = solve(gram, given, self.ridge, threads=self.threads)
        self.objective += squares - float(np.vdot(U, given))  # at the minimum the penalty is in it
        return U

    def next_items(self) -> Floats:
        """Best non-negative V for these users."""
        return solve(self.gram, self.given, self.ridge, threads=self.threads)


def descend(look: Callable[[Floats], Look], V: Floats, *, most: int, tolerance: float) -> Floats:
    """Alternate until a look changes the objective by little.

    Parameters
    ----------
    look : callable
        Fits all rows to given factors.
    V : array (items, rank)
        Where to begin.
    most : int
        Most steps; a step that was lengthened too far costs two looks.
    tolerance : float
        Relative change of the objective that ends it.

    Examples
    --------
    >>> def look(V):
    ...     found = Look(V=V, ridge=0.0, per_item=False, threads=1)
    ...     found.add(np.array([[1.0, 3.0]]), None)
    ...     return found
    >>> V = descend(look, np.ones((2, 1)), most=5, tolerance=1e-9)
    >>> (V[1] / V[0]).round(6)
    array([3.])
    """
    best, before = look(V), None
    for number in range(1, most):
        plain = best.next_items()
        found = None
        if before is not None:
            momentum = min(LONGEST, (number - 1) / (number + 2))
            found = look(np.maximum(plain + momentum * (plain - before), 0.0))
        if found is None or found.objective >= best.objective:
            found = look(plain)
        before, gain = plain, best.objective - found.objective
        if gain > 0:
            best = found
        if gain <= tolerance * abs(best.objective):
            break
    return best.V
