"""What every transport checks before it carries anything."""

from __future__ import annotations

from twofold.errors import BadMessage
from twofold.protocol.messages import read_header
from twofold.protocol.plain_checks import check_entity_name

__all__ = ["as_bytes", "check_sender"]


def as_bytes(data: object) -> bytes:
    """Refuse what is not bytes.

    Examples
    --------
    >>> as_bytes("text")
    Traceback (most recent call last):
    twofold.errors.BadMessage: a transport carries bytes...
    """
    if not isinstance(data, bytes):
        raise BadMessage("a transport carries bytes.", found=f"a {type(data).__name__}", fix="message.data")
    return data


def check_sender(data: bytes, entity: str) -> None:
    """Refuse a message under another name than the one in its header, or one that is not whole."""
    header = read_header(data)
    if header.entity != check_entity_name(entity):
        raise BadMessage("the message carries another name.", found=header.entity or "none", expected=entity)
    if header.size != len(data):
        raise BadMessage("the message is not whole.", found=f"{len(data):,} bytes", expected=f"{header.size:,}")
