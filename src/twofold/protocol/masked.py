"""An entity's numbers under their masks: what leaves in a federation whose server sees only sums."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Masked"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Masked:
    """Masked numbers, uniform to whoever has none of the keys.

    Parameters
    ----------
    mechanism : str
        Which statistic is under the masks.
    present : str
        Digest of the terms and of those who shared keys, in hexadecimal; masks of another list do not cancel.
    bits : int
        The modulus is 2^bits.
    packed : uint8 array (numbers, bits / 8)
        The numbers, smallest byte first, with the two check numbers of `twofold.secure_sum`.
    seeded : bool
        True when the noise under the masks came from a seed: not private.
    note : str
        What the mechanism decided from public numbers.
    """

    mechanism: str
    present: str
    bits: int
    packed: NDArray[np.uint8] = field(repr=False)
    seeded: bool
    note: str = ""

    @property
    def n_prototypes(self) -> int:
        """One vector."""
        return 1
