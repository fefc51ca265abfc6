"""Numbers below 2^bits as `bits` / 8 bytes each, smallest byte first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadMessage

__all__ = ["pack", "unpack"]


def pack(numbers: NDArray[np.uint64], bits: int) -> bytes:
    r"""Write numbers without the bytes that are always zero.

    Examples
    --------
    >>> pack(np.array([1, 2], dtype=np.uint64), 24)
    b'\x01\x00\x00\x02\x00\x00'
    """
    whole = np.ascontiguousarray(numbers, dtype="<u8").view(np.uint8).reshape(-1, 8)
    return whole[:, : bits // 8].tobytes()


def unpack(data: bytes, bits: int) -> NDArray[np.uint64]:
    r"""Read back what `pack` wrote.

    Examples
    --------
    >>> unpack(b"\x01\x00\x00\x02\x00\x00", 24)
    array([1, 2], dtype=uint64)
    """
    width = bits // 8
    if len(data) % width:
        raise BadMessage("the numbers are cut off.", expected=f"{width} bytes for each")
    whole = np.zeros((len(data) // width, 8), dtype=np.uint8)
    whole[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return whole.view("<u8").reshape(-1).astype(np.uint64, copy=False)
