"""Adam steps at a server (Kingma and Ba 2015)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Adam"]

Floats = NDArray[Any]


@dataclass(kw_only=True)
class Adam:
    """Steps by the mean gradient over the root of the mean square, both with forgetting and without bias.

    Examples
    --------
    >>> Adam(step=0.5).moved(np.zeros(2), np.array([3.0, -7.0])).round(6).tolist()
    [-0.5, 0.5]
    """

    step: float = 0.1
    decay: float = 0.9
    decay_squares: float = 0.99
    _count: int = field(default=0, init=False, repr=False)
    _mean: Floats | None = field(default=None, init=False, repr=False)
    _square: Floats | None = field(default=None, init=False, repr=False)

    def moved(self, values: Floats, gradient: Floats) -> Floats:
        """Values after one step against the gradient, in their own precision."""
        self._count += 1
        zero = np.zeros_like(gradient)
        mean = self._mean if self._mean is not None else zero
        square = self._square if self._square is not None else zero
        self._mean = self.decay * mean + (1 - self.decay) * gradient
        self._square = self.decay_squares * square + (1 - self.decay_squares) * gradient**2
        even = self._mean / (1 - self.decay**self._count)
        size = np.sqrt(self._square / (1 - self.decay_squares**self._count))
        return np.asarray(values - self.step * even / (size + 1e-8), dtype=values.dtype)
