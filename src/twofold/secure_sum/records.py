"""Reading plain records strictly: exact fields, lower-case hexadecimal, names, nothing else."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping, Sequence

from twofold.errors import BadMessage

__all__ = ["base64_bytes", "exact_fields", "hex_bytes", "hex_table", "name_of", "table_record"]

#: Longest name of an entity, in bytes of UTF-8.
_LONGEST_NAME = 200


def exact_fields(record: object, names: Sequence[str], *, what: str) -> Mapping[str, object]:
    """Check that a record has exactly the named fields.

    Examples
    --------
    >>> exact_fields({"a": 1}, ["a"], what="an example")
    {'a': 1}
    """
    if not isinstance(record, Mapping) or set(record) != set(names):
        raise BadMessage(f"this is not {what}.", expected="the fields " + ", ".join(sorted(names)))
    return record


def name_of(name: object) -> str:
    """Check the name of an entity.

    Examples
    --------
    >>> name_of("st-anna")
    'st-anna'
    """
    if not isinstance(name, str) or not name or not name.isprintable() or len(name.encode()) > _LONGEST_NAME:
        raise BadMessage("this is no name of an entity.", expected=f"printable text of 1 to {_LONGEST_NAME} bytes")
    return name


def hex_bytes(record: Mapping[str, object], name: str, size: int) -> bytes:
    r"""Read a field of `size` bytes in lower-case hexadecimal.

    Examples
    --------
    >>> hex_bytes({"tag": "00ff"}, "tag", 2)
    b'\x00\xff'
    """
    text = record[name]
    digits = set("0123456789abcdef")
    if not isinstance(text, str) or len(text) != 2 * size or not set(text) <= digits:
        raise BadMessage(f"the field {name!r:.60} is damaged.", expected=f"{size} bytes in lower-case hexadecimal")
    return bytes.fromhex(text)


def hex_table(record: Mapping[str, object], name: str, size: int) -> dict[str, bytes]:
    r"""Read a field that gives each of some names `size` bytes.

    Examples
    --------
    >>> hex_table({"tags": {"a": "01"}}, "tags", 1)
    {'a': b'\x01'}
    """
    table = record[name]
    if not isinstance(table, Mapping):
        raise BadMessage(f"the field {name!r} is damaged.", expected="a table from names to bytes")
    return {name_of(key): hex_bytes(table, key, size) for key in sorted(table, key=name_of)}


def table_record(table: Mapping[str, bytes]) -> dict[str, str]:
    r"""Write what `hex_table` reads.

    Examples
    --------
    >>> table_record({"a": b"\x01"})
    {'a': '01'}
    """
    return {name: value.hex() for name, value in sorted(table.items())}


def base64_bytes(record: Mapping[str, object], name: str) -> bytes:
    r"""Read a field of bytes in base64.

    Examples
    --------
    >>> base64_bytes({"numbers": "AAE="}, "numbers")
    b'\x00\x01'
    """
    text = record[name]
    try:
        return b64decode(text, validate=True) if isinstance(text, str) else _damaged(name)
    except (binascii.Error, ValueError):
        return _damaged(name)


def _damaged(name: str) -> bytes:
    raise BadMessage(f"the field {name!r} is damaged.", expected="bytes in base64") from None
