"""A checksum inside a container: one changed byte anywhere, header included, and it does not fit.

The record has a field ``checksum``. Its value is the SHA-256 of all bytes of the container as they are with 64 zeros in
its place. It tells damage, not malice: whoever changes bytes on purpose can seal them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

from twofold.errors import BadMessage
from twofold.protocol.codec import pack

__all__ = ["check_seal", "is_sealed", "pack_sealed", "seal"]

BLANK: Final = "0" * 64
_FIELD: Final = "checksum"
_BEFORE: Final = rb"\"checksum\":\""  # as it stands in the header, where the record is a text within JSON
_HEX: Final = frozenset("0123456789abcdef")


def pack_sealed(record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a record and arrays with a checksum over every byte; equal content gives equal bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from twofold.protocol.codec import open_container
    >>> data = pack_sealed({"schema": "x/1"}, {"a": np.arange(3)})
    >>> is_sealed(data, open_container(data).record), is_sealed(data[:-1] + b"!", open_container(data).record)
    (True, False)
    """
    return seal(pack({**record, _FIELD: BLANK}, arrays))


def seal(data: bytes) -> bytes:
    """Put the checksum in its place, where zeros are."""
    at = _place(data, BLANK)
    if at is None:
        raise BadMessage("the record has no place for a checksum.")
    return b"".join((data[:at], hashlib.sha256(data).hexdigest().encode(), memoryview(data)[at + 64 :]))


def is_sealed(data: bytes, record: Mapping[str, Any]) -> bool:
    """Say whether the checksum in a container's record is that of its bytes."""
    checksum = record.get(_FIELD)
    if not isinstance(checksum, str) or len(checksum) != 64 or set(checksum) - _HEX:
        return False
    at = _place(data, checksum)
    if at is None:
        return False
    state = hashlib.sha256(data[:at] + BLANK.encode())
    state.update(memoryview(data)[at + 64 :])
    return state.hexdigest() == checksum


def check_seal(data: bytes, record: Mapping[str, Any]) -> None:
    """Refuse a message with a changed byte.

    Examples
    --------
    >>> check_seal(b"", {})
    Traceback (most recent call last):
    twofold.errors.BadMessage: the message was damaged on the way...
    """
    if not is_sealed(data, record):
        raise BadMessage(
            "the message was damaged on the way.",
            found="a checksum that does not fit: at least one byte was changed",
            fix="copy it again from where it was made; its receipt tells whether it arrived whole",
        )


def _place(data: bytes, checksum: str) -> int | None:
    """First byte of the checksum in the header, if it stands there once."""
    header = data[: 8 + int.from_bytes(data[:8], "little")]
    wanted = _BEFORE + checksum.encode()
    return header.index(wanted) + len(_BEFORE) if header.count(wanted) == 1 else None
