"""Random sparse rows for tests, with every SciPy that twofold allows: its own function changed a name in 1.15."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse


def random_rows(
    shape: tuple[int, int], density: float, rng: np.random.Generator, dtype: DTypeLike = np.float64
) -> sparse.csr_array:
    """Give values between 0 and 1 in a share of all cells."""
    cells = shape[0] * shape[1]
    places = rng.choice(cells, round(density * cells), replace=False) if cells else np.zeros(0, np.int64)
    values: Any = (rng.random(places.size).astype(dtype), np.divmod(places, max(shape[1], 1)))
    return sparse.csr_array(values, shape=shape)
