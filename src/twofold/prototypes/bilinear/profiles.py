r"""The second vector of a pair: a public linear map of the row, brought to one norm in integer arithmetic.

t = zᵀM is exact in 64-bit integers for a public whole matrix M. It is brought *up or down* to the norm S:

* l2: with :math:`f = \lfloor \sqrt{\lfloor S^2 2^{64} / \|t\|_2^2 \rfloor} \rfloor` an entry becomes
  :math:`\lfloor |t_j| f / 2^{32} \rfloor` in size, and the sum of squares is at most
  :math:`\|t\|_2^2 f^2 / 2^{64} \le S^2`;
* l1: with :math:`f = \lfloor S\,2^{32} / \|t\|_1 \rfloor` the sum is at most :math:`\|t\|_1 f / 2^{32} \le S`.

The products fit 64 bits: :math:`|t_j| f \le S\,2^{32}`, and S is below 2^20. A t of zeros stays one. Whatever s is, the
bound holds, so nothing else about it matters for privacy.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

import numpy as np
import scipy.sparse as sp

from twofold.prototypes.base import Public
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.prototypes.message import Integers

__all__ = ["profiles", "public_map", "random_signs"]

_SHIFT: Final = 32
_ROOM_BITS: Final = 30  # ‖t‖ below 2^30, so its square fits with room to spare


def random_signs(*, n_items: int, columns: int, seed: int) -> Integers:
    """Public matrix of +1 and -1, the same on any machine and with any library.

    Examples
    --------
    >>> sorted(set(random_signs(n_items=40, columns=3, seed=0).ravel().tolist()))
    [-1, 1]
    """
    number = n_items * columns
    name = f"twofold signs 1 {n_items} {columns} {seed}".encode()
    stream = np.frombuffer(hashlib.shake_256(name).digest(-(-number // 8)), dtype=np.uint8)
    return 2 * np.unpackbits(stream)[:number].reshape(n_items, columns).astype(np.int64) - 1


def public_map(public: Public, layout: BilinearLayout) -> Integers:
    """Matrix M of the second vectors: random signs for a sketch, the table of features for features.

    Examples
    --------
    >>> public = Public(n_items=5, n_users=9, max_items=2, bound=1, n_prototypes=3)
    >>> public_map(public, BilinearLayout.of(public, "sketch")).shape
    (5, 3)
    """
    if layout.kind == "features" and public.features is not None:
        return public.features.matrix
    return random_signs(n_items=public.n_items, columns=layout.columns, seed=public.seed)


def profiles(rows: sp.csr_array, mapping: Integers, layout: BilinearLayout) -> Integers:
    """Second vectors of whole rows, one per user, of norm at most ``layout.profile_norm``.

    Examples
    --------
    >>> public = Public(n_items=2, n_users=9, max_items=2, bound=1, n_prototypes=2, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "sketch")
    >>> found = profiles(sp.csr_array(np.array([[3, 4], [0, 0]])), np.eye(2, dtype=np.int64), layout)
    >>> found.tolist(), layout.profile_norm
    ([[153, 204], [0, 0]], 256)
    """
    raw = np.asarray(rows @ mapping, dtype=np.int64)
    sizes = np.abs(raw) >> _spare_bits(mapping, layout)
    if layout.l2:
        norms = (sizes * sizes).sum(axis=1)
        factors = np.array([_factor(int(norm), layout.profile_norm) for norm in norms], dtype=np.int64)
    else:
        factors = (layout.profile_norm << _SHIFT) // np.maximum(sizes.sum(axis=1), 1)
    return np.asarray(np.sign(raw) * (sizes * factors[:, None] >> _SHIFT))


def _factor(norm: int, limit: int) -> int:
    return math.isqrt((limit * limit << 2 * _SHIFT) // norm) if norm else 0


def _spare_bits(mapping: Integers, layout: BilinearLayout) -> int:
    """Low bits that no norm has room for, by public numbers: ‖t‖₁ is at most ‖z‖₁ times the largest row of M."""
    row = layout.norm * (math.isqrt(layout.n_items) + 1)
    largest = row * int(np.abs(mapping).sum(axis=1).max(initial=0))
    return max(0, largest.bit_length() - _ROOM_BITS)
