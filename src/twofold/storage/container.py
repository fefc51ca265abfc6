"""Arrays and one record as bytes with a checksum, read back without trust.

Layout (safetensors): eight bytes with the length of the header; the header, JSON with dtype, shape and place of each
array; the arrays without gaps. Our record is canonical JSON under the metadata key ``twofold``. With one key the
library writes equal bytes for equal content; with two it would write them in random order.

A sealed record has a field ``checksum``: the SHA-256 of all bytes of the container with zeros in its own place. If
any byte changes, header included, it does not match. It detects damage, not malice: anyone can seal changed bytes
again. A signed record also has a field ``signature``: its maker's signature over that SHA-256, for which its own
place is zeros, too.

Reading does not use the library, because everything must be checked against the plan before it is used: lengths
first, then the header, then names, dtypes, shapes and places. Only then are arrays *viewed* (nothing is copied or
allocated for them) and looked through for NaN and infinity. Nothing in a message is ever executed.

JSON from strangers has one reading only (`parse_json`: small numbers, little nesting), and is written in one way
(`canonical_json`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from twofold.errors import BadMessage

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = [
    "COSIGNATURE",
    "LARGEST_HEADER",
    "Container",
    "Layout",
    "as_bytes",
    "canonical_json",
    "check_seal",
    "check_signature",
    "cosign",
    "field",
    "finite",
    "is_cut",
    "is_sealed",
    "open_container",
    "pack",
    "pack_sealed",
    "parse_json",
    "printable",
    "receipt",
    "seal",
    "unpack",
]

_DEPTH = 8
_DIGITS = 20


def canonical_json(record: object) -> str:
    r"""Write a record in canonical form: sorted keys, no spaces, ASCII, no NaN.

    Examples
    --------
    >>> canonical_json({"b": 1.5, "a": "ε"})
    '{"a":"\\u03b5","b":1.5}'
    """
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def parse_json(text: str) -> dict[str, Any]:
    """Read an object; refuse ambiguous text and text that is made to be costly.

    Examples
    --------
    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    twofold.errors.BadMessage: the header is not valid JSON...
    """
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise _unsound("a text that is not JSON, repeats a key, or holds a number out of range") from None
    if not isinstance(found, dict):
        raise _unsound("no object")
    if _depth(found) > _DEPTH:
        raise _unsound("nested too deeply")
    return found


def printable(value: object, most: int = 80) -> str:
    r"""Make foreign text safe to show: one short line of ASCII.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a?[2Jb'
    """
    return re.sub(r"[^ -~]", "?", str(value)[: most + 1])[:most]


def _depth(found: object) -> int:
    """Levels of objects and lists, counted without recursion: level by level."""
    level, depth = [found], 0
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("too many digits")
    return int(text)


def _number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError("not finite")
    return found


def _constant(text: str) -> float:
    raise ValueError(text)


#: Made once: that takes longer than reading a short text.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)


def _unsound(found: str) -> BadMessage:
    return BadMessage(
        "the header is not valid JSON.", found=found, expected="one object, as twofold writes it", parameter="header"
    )


#: Bytes; ours are a few thousand.
LARGEST_HEADER: Final = 64 * 1024
_KEY: Final = "twofold"
#: What stands where the checksum belongs while it is computed.
BLANK: Final = "0" * 64
_FIELD: Final = "checksum"
_SIGNATURE: Final = "signature"
#: Field of a second signature.
COSIGNATURE: Final = "cosigned"
_UNSIGNED: Final = "0" * 128
_HEX: Final = frozenset("0123456789abcdef")
_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "U8": np.dtype("u1"),
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Dtype (as safetensors names it) and shape of an array."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * _TYPES[self.dtype].itemsize


@dataclass(frozen=True, kw_only=True)
class Container:
    """A valid header; no array was read.

    Parameters
    ----------
    record : dict
        What stands under our metadata key.
    layouts : dict
        Layout of each array.
    places : dict
        Byte of the message at which each array begins.
    size : int
        Bytes the whole message must have.
    """

    record: dict[str, Any]
    layouts: dict[str, Layout]
    places: dict[str, int]
    size: int


def pack(record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a record and arrays; equal content gives equal bytes, in every process and whatever the order.

    Examples
    --------
    >>> one = pack({"a": 1, "b": 2}, {"x": np.arange(3), "y": np.ones(2)})
    >>> one == pack({"b": 2, "a": 1}, {"y": np.ones(2), "x": np.arange(3)})
    True
    """
    # The library reads memory by pointer and takes no notice of strides, hence the contiguous copies.
    plain = {name: np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<")) for name in arrays}
    data = save(plain, metadata={_KEY: canonical_json(record)})
    if int.from_bytes(data[:8], "little") > LARGEST_HEADER:
        raise BadMessage(
            "the header would be too long.",
            expected=f"at most {LARGEST_HEADER:,} bytes",
            fix="name fewer entities in the plan, or give them shorter names",
            parameter="header",
        )
    return data


def pack_sealed(
    record: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    signer: SigningKey | None = None,
    cosigned: bool = False,
) -> bytes:
    """Write a record and arrays with a checksum over every byte, and a signature if there is a key to sign with.

    Equal content under the same key gives equal bytes.

    Examples
    --------
    >>> data = pack_sealed({"schema": "x/1"}, {"a": np.arange(3)})
    >>> is_sealed(data, open_container(data).record), is_sealed(data[:-1] + b"!", open_container(data).record)
    (True, False)
    """
    blank = {_FIELD: BLANK} if signer is None else {_FIELD: BLANK, _SIGNATURE: _UNSIGNED}
    if cosigned:  # a place for a second signature, see `cosign`
        blank[COSIGNATURE] = _UNSIGNED
    return seal(pack({**record, **blank}, arrays), signer=signer)


def seal(data: bytes, *, signer: SigningKey | None = None) -> bytes:
    """Write the checksum, and the signature if there is a key, over their placeholders of zeros."""
    digest, head = hashlib.sha256(data), _head(data)
    made = _written(data[:head], _FIELD, BLANK, digest.hexdigest())
    if made is not None and signer is not None:
        from twofold.storage.signing import Purpose  # loads the library of ciphers, which unsigned data do without

        made = _written(made, _SIGNATURE, _UNSIGNED, signer.sign(Purpose.MESSAGE, digest.digest()).hex())
    if made is None:
        raise BadMessage("the record has no place for a checksum.", parameter="checksum")
    return b"".join((made, memoryview(data)[head:]))


def cosign(data: bytes, signer: SigningKey) -> bytes:
    """Write a second signature over the same checksum; the first one stays valid.

    Raises
    ------
    BadMessage
        The message has no empty place for one.
    """
    from twofold.storage.signing import Purpose  # loads the library of ciphers

    record, head = open_container(data).record, _head(data)
    check_seal(data, record)
    signature = signer.sign(Purpose.MESSAGE, bytes.fromhex(record[_FIELD])).hex()
    made = _written(data[:head], COSIGNATURE, _UNSIGNED, signature)
    if made is None:
        raise BadMessage("the message has no place for a second signature.", parameter=COSIGNATURE)
    return made + data[head:]


def open_container(data: bytes) -> Container:
    """Read the header of a message, or of the beginning of one; reads at most 64 kB.

    Examples
    --------
    >>> found = open_container(pack({"a": 1}, {"x": np.arange(3)}))
    >>> found.record, found.layouts["x"]
    ({'a': 1}, Layout(dtype='I64', shape=(3,)))
    >>> open_container(b"PK" + bytes(100))
    Traceback (most recent call last):
    twofold.errors.BadMessage: this is not a twofold message...
    """
    start = _header_end(data)
    if len(data) < start:
        raise BadMessage(
            "the message is truncated.",
            found=f"{len(data):,} bytes",
            expected=f"more than {start:,}",
            fix="copy it again",
        )
    try:
        text = data[8:start].decode("utf-8")
    except UnicodeDecodeError:
        raise _foreign("a header that is not text") from None
    header = parse_json(text)
    record = _record(header.pop("__metadata__", None))
    spans = {name: _span(name, given) for name, given in header.items()}
    _check_cover(spans)
    return Container(
        record=record,
        layouts={name: layout for name, (layout, _) in spans.items()},
        places={name: start + first for name, (_, first) in spans.items()},
        size=start + sum(layout.size for layout, _ in spans.values()),
    )


def unpack(data: bytes, container: Container, expected: Mapping[str, Layout]) -> dict[str, NDArray[Any]]:
    """View the arrays of a message, if they are exactly those expected and the message is complete.

    Examples
    --------
    >>> data = pack({}, {"x": np.arange(3)})
    >>> unpack(data, open_container(data), {"x": Layout(dtype="I64", shape=(3,))})["x"]
    array([0, 1, 2])
    """
    if set(container.layouts) != set(expected):
        names = ", ".join(sorted(printable(name, 20) for name in container.layouts)[:6])
        raise BadMessage(
            "the message holds other arrays.",
            found=names or "none",
            expected=", ".join(sorted(expected)),
            parameter="arrays",
        )
    for name, layout in expected.items():
        if container.layouts[name] != layout:
            raise BadMessage(
                f"the array {name} does not match the plan.",
                found=_text(container.layouts[name]),
                expected=_text(layout),
                parameter=name,
            )
    if len(data) != container.size:
        problem = "is cut off" if len(data) < container.size else "has bytes after its end"
        raise BadMessage(
            f"the message {problem}.",
            found=f"{len(data):,} bytes",
            expected=f"{container.size:,}",
            fix="copy it again",
            parameter="size",
        )
    return {name: _view(data, container.places[name], layout) for name, layout in expected.items()}


def is_sealed(data: bytes, record: Mapping[str, Any]) -> bool:
    """Whether the checksum in a container's record matches its bytes."""
    checksum, signature = record.get(_FIELD), record.get(_SIGNATURE)
    if not _is_hex(checksum, 64) or not (signature is None or _is_hex(signature, 128)):
        return False
    head = _head(data)
    blank = _written(data[:head], _FIELD, str(checksum), BLANK)
    if blank is not None and signature is not None:
        blank = _written(blank, _SIGNATURE, str(signature), _UNSIGNED)
    if blank is not None and (second := record.get(COSIGNATURE)) is not None:
        blank = _written(blank, COSIGNATURE, str(second), _UNSIGNED) if _is_hex(second, 128) else None
    if blank is None:
        return False
    state = hashlib.sha256(blank)
    state.update(memoryview(data)[head:])
    return state.hexdigest() == checksum


def check_signature(record: Mapping[str, Any], public: bytes, *, maker: str, name: str = "signature") -> None:
    """Refuse a sealed message that the owner of a public key did not sign; call it after `check_seal`.

    Examples
    --------
    >>> check_signature({"checksum": "0" * 64}, bytes(32), maker="st-anna")
    Traceback (most recent call last):
    twofold.errors.BadMessage: the message is not signed by its maker...
    """
    from twofold.storage.signing import Purpose, verify  # loads the library of ciphers

    signature = record.get(name)
    if not _is_hex(signature, 128) or not verify(
        public, Purpose.MESSAGE, bytes.fromhex(record[_FIELD]), bytes.fromhex(str(signature))
    ):
        raise BadMessage(
            "the message is not signed by its maker.",
            found="no signature" if signature is None else "a signature by another key, or of other bytes",
            expected=f"the signature of {maker}, whose key is in the plan's roster",
            fix=f"ignore the file, and ask {maker} for theirs",
            parameter="signature",
        )


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
            found="a checksum that does not match: at least one byte was changed",
            fix="copy it again from its source; its receipt shows whether it arrived complete",
            parameter="checksum",
        )


def field(record: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    """Give a field of a record, if present and of the right type.

    Examples
    --------
    >>> field({"a": "b"}, "a", str)
    'b'
    >>> field({"a": 1}, "a", bool)
    Traceback (most recent call last):
    twofold.errors.BadMessage: a field of the message is missing or of the wrong type...
    """
    found = record.get(name)
    if type(found) is not kind:
        raise BadMessage(
            "a field of the message is missing or of the wrong type.",
            found=name,
            expected=f"{name} as {kind.__name__}",
            parameter=name,
        )
    return found


def finite(record: Mapping[str, Any], name: str) -> float:
    """Give a field that is a finite number.

    Examples
    --------
    >>> finite({"users": 3}, "users")
    3.0
    """
    found = record.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool) or not math.isfinite(found):
        raise BadMessage(
            "a field of the message is missing or of the wrong type.", found=name, expected="a number", parameter=name
        )
    return float(found)


def as_bytes(data: object, limit: int) -> bytes:
    """Take bytes, if they are not more than a message can have.

    Examples
    --------
    >>> as_bytes(bytearray(b"abc"), 3)
    b'abc'
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BadMessage("a message must be bytes.", found=type(data).__name__, parameter="data")
    size = memoryview(data).nbytes
    if size > limit:
        raise BadMessage(
            "the message is too large.",
            found=f"{size:,} bytes",
            expected=f"at most {limit:,}",
            parameter="size",
        )
    return bytes(data)


def is_cut(data: bytes) -> bool:
    """Whether bytes are the beginning of a message whose rest has not arrived yet.

    Examples
    --------
    >>> data = pack({}, {"x": np.arange(3)})
    >>> is_cut(data), is_cut(data[:-1]), is_cut(data[:5]), is_cut(b"PK" + bytes(100))
    (False, True, True, False)
    """
    try:
        if len(data) < 9:
            return len(data) < 8 or _header_end(data) > 0
        return len(data) < _header_end(data) or len(data) < open_container(data).size
    except BadMessage:
        return False


def receipt(data: bytes) -> str:
    """SHA-256 of the whole message, in hexadecimal, for both sides to compare.

    Examples
    --------
    >>> receipt(b"")[:12]
    'e3b0c44298fc'
    """
    return hashlib.sha256(data).hexdigest()


def _header_end(data: bytes) -> int:
    """Byte at which the arrays begin, if these can be the first bytes of a message."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8:
        raise BadMessage("the message is truncated.", found=f"{len(data)} bytes", fix="copy it again")
    # Safetensors pads its header to eight bytes and begins it with a brace.
    if not 2 <= length <= LARGEST_HEADER or length % 8 or data[8:9] not in (b"", b"{"):
        raise _foreign("bytes that do not begin like one")
    return 8 + length


def _record(metadata: object) -> dict[str, Any]:
    if not isinstance(metadata, dict) or set(metadata) != {_KEY} or not isinstance(metadata[_KEY], str):
        raise _foreign("a file without a twofold record")
    return parse_json(metadata[_KEY])


def _span(name: str, given: object) -> tuple[Layout, int]:
    """Layout and first byte of an array, from its entry in the header."""
    if not isinstance(given, dict) or set(given) != {"dtype", "shape", "data_offsets"}:
        raise _entry(name)
    dtype, shape, ends = given["dtype"], given["shape"], given["data_offsets"]
    if not _whole_numbers(shape, 2) or not _whole_numbers(ends, 2) or len(ends) != 2:
        raise _entry(name)
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise BadMessage("an array has an unknown type.", found=printable(dtype, 20), expected=", ".join(_TYPES))
    layout = Layout(dtype=dtype, shape=tuple(shape))
    if ends[1] - ends[0] != layout.size or ends[0] % _TYPES[dtype].itemsize:
        raise _entry(name)
    return layout, ends[0]


def _whole_numbers(given: object, most: int) -> bool:
    return isinstance(given, list) and 1 <= len(given) <= most and all(type(one) is int and one >= 0 for one in given)


def _check_cover(spans: Mapping[str, tuple[Layout, int]]) -> None:
    """Refuse gaps and overlaps: bytes that are never read, or read twice."""
    end = 0
    for layout, first in sorted(spans.values(), key=lambda span: (span[1], span[0].size)):
        if first != end:
            raise BadMessage("the arrays of the message overlap or leave gaps.")
        end += layout.size


def _view(data: bytes, place: int, layout: Layout) -> NDArray[Any]:
    kind = _TYPES[layout.dtype]
    flat = np.frombuffer(data, dtype=kind, count=math.prod(layout.shape), offset=place)
    array: NDArray[Any] = flat.reshape(layout.shape).astype(kind.newbyteorder("="), copy=False)
    if kind.kind == "f" and not np.isfinite(array).all():
        raise BadMessage("the message holds NaN or infinity.", expected="finite numbers", parameter="arrays")
    return array


def _text(layout: Layout) -> str:
    return f"{layout.dtype} of shape {tuple(printable(one, 20) for one in layout.shape)}".replace("'", "")


def _entry(name: str) -> BadMessage:
    return BadMessage("the header entry of an array is not valid.", found=f"array {printable(name, 20)}")


def _foreign(found: str) -> BadMessage:
    return BadMessage(
        "this is not a twofold message.", found=found, expected="a file that twofold release or factorize wrote"
    )


def _is_hex(text: object, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and not set(text) - _HEX


def _head(data: bytes) -> int:
    """Byte at which the header ends."""
    return 8 + int.from_bytes(data[:8], "little")


def _written(head: bytes, name: str, before: str, after: str) -> bytes | None:
    """Write other digits over those of a field in the header; None unless they occur there once."""
    start = rf"\"{name}\":\"".encode()  # as it stands in the header, where the record is a text within JSON
    wanted = start + before.encode()
    return head.replace(wanted, start + after.encode()) if head.count(wanted) == 1 else None
