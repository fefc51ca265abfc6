"""Derive keys from keys, and long streams from a key: HKDF-SHA256, SHA-256 and ChaCha20 of `cryptography`.

Nothing here is a primitive of ours. Every derivation names its purpose, and every part goes in with its length, so that
no two purposes and no two lists of parts give the same input.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

__all__ = ["SECRET_BYTES", "add_stream", "derive", "digest", "stream"]

#: Length of every key, seed, salt and digest here.
SECRET_BYTES = 32
_DOMAIN = b"twofold secure sum 1\0"
#: Numbers per block of a stream: 64 Ki numbers of at most 8 bytes keep a block within half a megabyte.
_BLOCK = 1 << 16
#: `update_into` wants room beyond the data, and the last number is read as a whole 64-bit word.
_SLACK = 64
#: Each key makes one stream, so the nonce and the counter may always start at zero.
_NONCE = bytes(16)


def derive(secret: bytes, label: str, *parts: bytes) -> bytes:
    """Derive 32 bytes from a secret, for one purpose.

    Examples
    --------
    >>> derive(bytes(32), "mask") != derive(bytes(32), "seal"), len(derive(bytes(32), "mask", b"a", b"b"))
    (True, 32)
    """
    info = _DOMAIN + _packed(label.encode(), *parts)
    return HKDF(algorithm=hashes.SHA256(), length=SECRET_BYTES, salt=None, info=info).derive(secret)


def digest(label: str, *parts: bytes) -> bytes:
    """SHA-256 of a purpose and parts, each with its length.

    Examples
    --------
    >>> digest("names", b"ab", b"c") == digest("names", b"a", b"bc")
    False
    """
    return hashlib.sha256(_DOMAIN + _packed(label.encode(), *parts)).digest()


def stream(key: bytes, size: int) -> bytes:
    """Give the first `size` bytes of the ChaCha20 key stream of a single-use key.

    Examples
    --------
    >>> stream(bytes(32), 100)[:7] == stream(bytes(32), 7)
    True
    """
    return Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor().update(bytes(size))


def add_stream(total: NDArray[np.uint64], key: bytes, *, bits: int, subtract: bool = False) -> None:
    """Add the stream of a key to numbers, in place, `bits` / 8 bytes for each; only the low `bits` bits mean anything.

    The bits above are left over from reading whole words. 2^bits divides 2^64, so they never reach the low ones; the
    caller cuts them off once at the end. Memory beside `total` is one block.

    Examples
    --------
    >>> total = np.zeros(2, dtype=np.uint64)
    >>> add_stream(total, bytes(32), bits=16)
    >>> [int(number) % 2**16 for number in total] == [*np.frombuffer(stream(bytes(32), 4), dtype="<u2")]
    True
    """
    width = bits // 8
    encryptor = Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor()
    zeros = memoryview(bytes(width * min(_BLOCK, total.size)))
    buffer = bytearray(len(zeros) + _SLACK)
    change = np.subtract if subtract else np.add
    for start in range(0, total.size, _BLOCK):
        part = total[start : start + _BLOCK]
        encryptor.update_into(zeros[: width * part.size], buffer)
        # Words that overlap: each begins where the number of its stream begins. numpy copies unaligned words safely.
        words: NDArray[np.uint64] = np.ndarray((part.size,), dtype="<u8", buffer=buffer, strides=(width,))
        change(part, words, out=part)


def _packed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)
