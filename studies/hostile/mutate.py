"""Make hostile files from valid ones, with checksums made right where an insider could.

Every form of file has changes of its own beside those of plain bytes: fields of JSON and TOML get values of the wrong
type, huge numbers, deep nesting, control characters and repeated keys; headers of containers lie about sizes; tables
get broken quotes and mixed types. The same seed gives the same file.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from twofold.errors import TwofoldError
from twofold.privacy.ledger.record import START
from twofold.privacy.ledger.record import encode as encode_line
from twofold.privacy.ledger.record import seal as seal_line
from twofold.storage.container import seal
from twofold.storage.signing import SigningKey

__all__ = ["Form", "edit_tree", "mutated", "reseal", "reseal_container"]

#: How a file is built, which decides how it is changed.
Form = Literal["bytes", "json", "lines", "toml", "container", "chain", "table", "gzip", "public gzip", "number"]
Change = Callable[[bytes, bytes, random.Random], bytes]

#: Placeholders that are replaced after the text is written: Python writes neither.
_DEEP, _LONG = "@deep@", "@long@"
STRANGE: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2, 7, 2**31, 2**32, 2**53, 2**63, 10**19, -(10**19), 10**30, 10**400, _LONG, _DEEP),
    *(0.5, -0.5, 1e308, -1e308, 5e-324, -0.0, float("nan"), float("inf"), 1e-300, 1 + 1e-9),
    *("", " ", "\x00", "\ud800", "\u202e", "\x1b[2J", "9" * 400, "1e400", "1e999999999", "-1e-999999999", "1/0", "0/1"),
    *("1/3", "nan", "inf", "x" * 5_000, "../../etc/passwd", "/dev/stdin", "con", "NUL", "a.", "İ", "é", "e\u0301"),
    *("I64", "F32", "F64", "U8", "BOOL", "0" * 64, "f" * 64, "2027-01-31T12:00:00Z", "9999-12-31T23:59:59-23:59"),
    *([], {}, [[]], [0, 8], [8, 0], [-8, 0], [0, 2**63], [7], [1, 7], [2**32, 2**32], [0] * 3_000, ["a", "a"]),
    *({"": 0}, {"a": {"a": {"a": 1}}}, {"kind": "open"}, {"kind": []}, {"file": "/dev/stdin"}, {"file": 5}),
)
_NAMES: Final = ("more", "kind", "schema", "__metadata__", "checksum", "x" * 300, "\x1b", "", "file", "hash", "é")
_PIECES: Final = (
    *('"a":1,', "NaN", "-Infinity", "9" * 400, "9" * 5_000, "1e999", "1e-999", "[" * 3_000, '{"a":' * 3_000, "\\u0000"),
    *(
        '"',
        ",",
        "}",
        "]",
        "\n",
        "\r",
        "\t",
        "\\",
        "\ufeff",
        "\u2028",
        "''",
        '"""',
        "#",
        "a.b.c = 1\n",
        "[x]\n",
        "[[x]]\n",
    ),
    *(
        "0x" + "f" * 5_000,
        "a." * 2_000,
        "= ",
        "true",
        "1979-05-27T07:32:00Z",
        "12:00:00",
        "\ud800",
        "{",
        "[",
        "--",
        "+1",
    ),
)
_LITERALS: Final = (
    *("9" * 30, "9" * 400, "9" * 5_000, "-1", "0", "1", "2", "0.5", "1e400", "-1e308", "1e308", "5e-324", "nan", "inf"),
    *('""', '"x"', '"1e400"', '"1e999999999"', '"1/3"', '"1/0"', '"' + "9" * 3_000 + '"', "[]", "[1]", "[[[[[1]]]]]"),
    *("{}", "{a = 1}", "true", "false", "2027-01-31", "2027-01-31T12:00:00Z", "0001-01-01T00:00:00+23:59", "12:00:00"),
    *('"/dev/stdin"', '"\\u0000"', '"\\u001b[2J"', "0xffffffffffffffffff", "0b1", "1_000", "10000000", "16", "1e-300"),
    *('"gram"', '"sketch"', '"features"', '"popularity"', '"balcan"', '"kmeans"', '"auto"', '"counts"', '"ratings"'),
    *('["con"]', '["a", "A"]', '["a."]', '["st-anna", "st-anna"]', '"../../../../dev/zero"', '"' + "a/" * 300 + '"'),
)
_CELLS: Final = (
    *(b"\n", b",", b'"', b"NaN", b"-inf", b"\x00", b"\xff\xfe", b"1e308", b";", b"\r", b"9" * 20, b"9" * 400, b"''"),
    *(
        b"\t",
        b"|",
        b"null",
        b"\xef\xbb\xbf",
        b"true",
        b"2020-01-01",
        b"-1",
        b"0.5",
        b'""',
        b"\n\n\n",
        b"," * 50,
        b"\xc3",
    ),
    *(
        b"user",
        b"item",
        b"value,",
        b"=cmd()",
        b" 1",
        b"1 ",
        b"+1",
        b"0x10",
        b"1_000",
        b"a|b|c|",
        b"x" * 70_000,
        b"\n,,\n",
    ),
)


def mutated(
    samples: Sequence[bytes],
    form: Form,
    chance: random.Random,
    *,
    insider: Callable[[bytes], bytes] | None = None,
    changes: Sequence[Callable[[bytes, random.Random], bytes]] = (),
) -> tuple[str, bytes]:
    """Change a valid file; give the name of the change and the bytes.

    Parameters
    ----------
    samples : sequence of bytes
        Valid files of one kind.
    form : str
        How they are built.
    chance : random.Random
        Decides everything.
    insider : callable, optional
        Makes checksums and signatures right; `reseal` by default. Used for most of the changes.
    changes : sequence of callable
        Further changes, of this kind of file alone.

    Examples
    --------
    >>> mutated([b'{"a": 1}'], "json", random.Random(5)) == mutated([b'{"a": 1}'], "json", random.Random(5))
    True
    """
    one, two = chance.choice(samples), chance.choice(samples)
    if changes and (form == "number" or chance.random() < 0.4):
        special = chance.choice(changes)
        return special.__name__.lstrip("_"), special(one, chance)
    own = _OWN[form]
    change = chance.choice(own if own and chance.random() < 0.7 else _BYTES)
    data = change(one, two, chance)
    if chance.random() < 0.7:
        data = (insider or reseal)(data)
    return change.__name__.lstrip("_"), data


def reseal(data: bytes) -> bytes:
    """Make the checksum of a container right again, as anybody could; other bytes stay as they are.

    `studies.hostile.insider` does the same with the signatures of those who made the samples.
    """
    return reseal_container(data, None)


def reseal_container(data: bytes, signer: SigningKey | None) -> bytes:
    """Write the checksum and, with a key, the signature of a container anew."""
    blank = data
    for name, digits in ((b"checksum", 64), (b"signature", 128))[: 1 if signer is None else 2]:
        found = re.search(rb'\\"%b\\":\\"([0-9a-f]{%d})' % (name, digits), blank[: 2**16])
        if found is None:
            return blank
        blank = blank[: found.start(1)] + b"0" * digits + blank[found.end(1) :]
    with suppress(TwofoldError):
        return seal(blank, signer=signer)
    return blank


def _flip(one: bytes, _: bytes, chance: random.Random) -> bytes:
    data = bytearray(one or b"?")
    for __ in range(chance.choice((1, 1, 1, 2, 8, 64))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _overwrite(one: bytes, _: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(one) + 1)
    piece = chance.choice((b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7, chance.randbytes(chance.randrange(1, 32))))
    return one[:place] + piece + one[place + len(piece) :]


def _truncate(one: bytes, _: bytes, chance: random.Random) -> bytes:
    return one[: chance.randrange(len(one) + 1)]


def _insert(one: bytes, _: bytes, chance: random.Random) -> bytes:
    place = chance.choice((0, 7, 8, chance.randrange(len(one) + 1), len(one)))
    return one[:place] + chance.randbytes(chance.choice((1, 8, 300))) + one[place:]


def _delete(one: bytes, _: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(one) + 1)
    return one[:place] + one[place + chance.choice((1, 4, 8, 100)) :]


def _repeat(one: bytes, _: bytes, chance: random.Random) -> bytes:
    place, size = chance.randrange(len(one) + 1), chance.choice((1, 20, 300))
    return one[:place] + one[place : place + size] * chance.choice((2, 3, 200)) + one[place:]


def _splice(one: bytes, two: bytes, chance: random.Random) -> bytes:
    return one[: chance.randrange(len(one) + 1)] + two[chance.randrange(len(two) + 1) :]


def _noise(_: bytes, __: bytes, chance: random.Random) -> bytes:
    body = chance.randbytes(chance.randrange(3_000))
    starts = (b"", struct.pack("<Q", 8 * chance.randrange(1, 300)) + b"{", b"PAR1", b"\x1f\x8b\x08\x00", b"PK\x03\x04")
    return chance.choice(starts) + body


_BYTES: Final[tuple[Change, ...]] = (_flip, _overwrite, _truncate, _insert, _delete, _repeat, _splice, _noise)


def edit_tree(tree: Any, chance: random.Random) -> None:
    """Change fields of plain JSON, wherever they are."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        spots = list(_spots(tree))
        if not spots:
            return
        holder, key = chance.choice(spots)
        action = chance.random()
        if action < 0.55:
            holder[key] = _strange(chance)
        elif action < 0.65 and isinstance(holder[key], str):
            holder[key] = _other_text(holder[key], chance)
        elif action < 0.75 and isinstance(holder, dict):
            holder[chance.choice(_NAMES)] = _strange(chance)
        elif action < 0.85 and isinstance(holder, dict):
            holder.pop(key)
        elif action < 0.92:  # the value of another field
            other, name = chance.choice(spots)
            with suppress(KeyError, IndexError):
                holder[key] = json.loads(json.dumps(other[name]))
        elif isinstance(holder[key], int | float):
            with suppress(OverflowError):
                holder[key] = holder[key] * chance.choice((-1, 2, 0.5, 10**6, 10**18, 1 + 1e-6))
        elif isinstance(holder[key], list):
            holder[key] = holder[key] * chance.choice((0, 2, 50))


def _strange(chance: random.Random) -> Any:
    """A hostile value of its own: lists and tables are changed further."""
    return copy.deepcopy(chance.choice(STRANGE))


def _other_text(text: str, chance: random.Random) -> str:
    return chance.choice((text.upper(), text + " ", text + "\u200b", text[:-1], text * 20, text[::-1], text + "\x00"))


def _spots(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    for key in keys[:500]:
        yield tree, key
        yield from _spots(tree[key])


def _written(tree: Any, chance: random.Random) -> str:
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    depth = chance.choice((9, 60, 3_000, 100_000))
    return text.replace(f'"{_DEEP}"', "[" * depth + "]" * depth).replace(f'"{_LONG}"', "9" * 5_000)


def _edit_text(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Put a piece of text anywhere: repeated keys, NaN, huge numbers, brackets."""
    place, piece = chance.randrange(len(one) + 1), chance.choice(_PIECES).encode("utf-8", "surrogatepass")
    return one[:place] + piece + one[place + chance.choice((0, 1, 5)) :]


def _edit_json(one: bytes, _: bytes, chance: random.Random) -> bytes:
    tree = json.loads(one)
    edit_tree(tree, chance)
    text = _written(tree, chance)
    if chance.random() < 0.1:  # a key twice
        text = text.replace("{", '{"schema":"x",', 1)
    return text.encode("utf-8", "surrogatepass")


def _edit_json_line(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Change the JSON in one line, or remove, repeat or move the line."""
    lines = one.splitlines(keepends=True)
    at, action = chance.randrange(len(lines)), chance.random()
    if action < 0.8:
        try:
            lines[at] = _edit_json(lines[at], b"", chance) + b"\n"
        except ValueError:  # a line that a crash tore
            lines[at] = _edit_text(lines[at], b"", chance)
    elif action < 0.87:
        del lines[at]
    elif action < 0.94:
        lines.insert(at, chance.choice(lines))
    else:
        chance.shuffle(lines)
    return b"".join(lines)


def _edit_line(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Change, remove, repeat or move a line of TOML."""
    lines = one.decode().splitlines()
    at = chance.choice([k for k, line in enumerate(lines) if " = " in line])
    name = lines[at].lstrip("# ").partition(" = ")[0]
    action = chance.random()
    if action < 0.7:
        lines[at] = f"{name} = {chance.choice(_LITERALS)}"
    elif action < 0.78:
        del lines[at]
    elif action < 0.86:
        lines.insert(at, lines[at].lstrip("# "))
    elif action < 0.93:
        lines.insert(chance.randrange(len(lines)), f"{chance.choice(_NAMES)!r} = {chance.choice(_LITERALS)}")
    else:
        lines.insert(chance.randrange(len(lines)), lines.pop(at))
    if chance.random() < 0.4:
        return _edit_line("\n".join(lines).encode(), b"", chance)
    return "\n".join(lines).encode()


def _edit_header(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Change the container's own JSON: names, dtypes, shapes, offsets, metadata."""
    header, body = _opened(one)
    edit_tree(header, chance)
    return _closed(_written(header, chance), body, chance)


def _edit_record(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Change our record inside the header: fields of the message, the plan and the model."""
    header, body = _opened(one)
    record = json.loads(header["__metadata__"]["twofold"])
    edit_tree(record, chance)
    header["__metadata__"]["twofold"] = _written(record, chance)
    return _closed(json.dumps(header), body, chance)


def _edit_header_text(one: bytes, two: bytes, chance: random.Random) -> bytes:
    end = 8 + int.from_bytes(one[:8], "little")
    text = _edit_text(one[8:end].rstrip(), two, chance)
    return _closed(text.decode("utf-8", "surrogateescape"), one[end:], chance)


def _edit_arrays(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Change numbers or, in a body of JSON, fields of an array; offsets and lengths follow."""
    header, body = _opened(one)
    names = sorted(name for name in header if name != "__metadata__")
    if not names:
        return _flip(one, b"", chance)
    name = chance.choice(names)
    first, last = header[name]["data_offsets"]
    part = body[first:last]
    if header[name]["dtype"] == "U8" and part[:1] == b"{":
        part = _edit_json(part, b"", chance) if chance.random() < 0.8 else _edit_text(part, b"", chance)
    elif part:
        width = {"F32": 4, "U8": 1}.get(header[name]["dtype"], 8)
        numbers = {4: "<f", 8: "<d" if header[name]["dtype"] == "F64" else "<q", 1: "B"}[width]
        value = chance.choice((0, -1, 1, 2**63 - 1, -(2**63), 3)) if numbers == "<q" else chance.choice(_FLOATS)
        piece = bytes([chance.randrange(256)]) if width == 1 else struct.pack(numbers, value)
        place = width * chance.randrange(len(part) // width)
        times = chance.choice((1, 1, 3, len(part) // width))
        part = (part[:place] + piece * times + part[place + len(piece) * times :])[: len(part)]
    grown = len(part) - (last - first)
    if grown:
        if len(names) > 1:
            return one
        header[name]["shape"], header[name]["data_offsets"] = [len(part)], [first, first + len(part)]
    return _closed(json.dumps(header), body[:first] + part + body[last:], chance)


_FLOATS: Final = (0.0, -1.0, 1.0, float("nan"), float("inf"), 3e38, -3e38, 1e-38, 1e30)


def _resize_arrays(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Give an array another shape of the same bytes, or exchange two arrays."""
    header, body = _opened(one)
    names = sorted(name for name in header if name != "__metadata__")
    if not names:
        return _flip(one, b"", chance)
    first, second = chance.choice(names), chance.choice(names)
    if chance.random() < 0.5:
        header[first], header[second] = header[second], header[first]
    else:
        shape = header[first]["shape"]
        cells = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[first]["shape"] = chance.choice(([cells], [cells, 1], [1, cells], [0, cells], shape[::-1], []))
    return _closed(json.dumps(header), body, chance)


def _edit_length(one: bytes, _: bytes, chance: random.Random) -> bytes:
    said = chance.choice((0, 1, 8, 16, 2**16, 2**16 + 8, 2**31, 2**32, 2**63, 2**64 - 1, chance.randrange(5_000)))
    return struct.pack("<Q", said) + one[8:]


def _opened(data: bytes) -> tuple[dict[str, Any], bytes]:
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def _closed(text: str, body: bytes, chance: random.Random) -> bytes:
    raw = text.encode("utf-8", "surrogatepass" if "\udc80" not in text else "replace")
    raw += b" " * (-len(raw) % 8) if chance.random() < 0.97 else b""
    return len(raw).to_bytes(8, "little") + raw + body


def _edit_chain(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """Change bodies of hash-chained lines, remove, repeat or reorder lines; hash the whole chain again."""
    bodies = [json.loads(line)["body"] for line in one.splitlines()]
    action = chance.random()
    if action < 0.8:
        edit_tree(bodies[chance.randrange(len(bodies))], chance)
    elif action < 0.87:
        del bodies[chance.randrange(len(bodies))]
    elif action < 0.94:
        bodies.insert(chance.randrange(len(bodies) + 1), chance.choice(bodies))
    else:
        chance.shuffle(bodies)
    lines: list[bytes] = []
    previous = START
    for number, body in enumerate(bodies):
        try:
            record = seal_line(number=number, previous=previous, body=json.loads(_written(body, chance)))
        except (TwofoldError, ValueError, RecursionError):
            return one + b"\n".join(lines)
        lines.append(encode_line(record))
        previous = record.hash
    return b"".join(lines)


def _edit_cell(one: bytes, _: bytes, chance: random.Random) -> bytes:
    data = one
    for __ in range(chance.choice((1, 1, 2, 5))):
        place = chance.randrange(len(data) + 1)
        data = data[:place] + chance.choice(_CELLS) + data[place + chance.choice((0, 0, 1, 4)) :]
    return data


def _edit_rows(one: bytes, two: bytes, chance: random.Random) -> bytes:
    lines = one.splitlines(keepends=True) or [b""]
    at = chance.randrange(len(lines))
    action = chance.choice(("delete", "repeat", "swap", "join", "encode", "separate"))
    if action == "delete":
        del lines[at]
    elif action == "repeat":
        lines[at:at] = [lines[at]] * chance.choice((1, 3, 2_000))
    elif action == "swap":
        chance.shuffle(lines)
    elif action == "join":
        lines.insert(at, two)
    elif action == "encode":
        return one.decode("utf-8", "replace").encode(chance.choice(("utf-16", "utf-32", "utf-8-sig", "utf-16-be")))
    else:
        return one.replace(b",", chance.choice((b";", b"\t", b"|", b", ", b"::")))
    return b"".join(lines)


def _packed(one: bytes, two: bytes, chance: random.Random) -> bytes:
    """Change what a gzip file holds."""
    change = chance.choice((_edit_cell, _edit_rows, _flip, _truncate))
    return gzip.compress(change(gzip.decompress(one), gzip.decompress(two), chance), 1, mtime=0)


def _bomb(one: bytes, _: bytes, chance: random.Random) -> bytes:
    """A small file of many members that unpacks to a large one."""
    block = gzip.compress(chance.choice((b"0", b"\n", b",", b"1\n", b'"', b"a,1\n")) * (1 << 16), mtime=0)
    return one + block * chance.choice((1, 16, 150, 2_100))


_OWN: Final[dict[Form, tuple[Change, ...]]] = {
    "bytes": (),
    "number": (),
    "json": (_edit_json, _edit_json, _edit_text),
    "lines": (_edit_json_line, _edit_json_line, _edit_text),
    "toml": (_edit_line, _edit_line, _edit_text),
    "container": (
        *(_edit_header, _edit_record, _edit_record, _edit_header_text, _edit_arrays, _edit_arrays, _resize_arrays),
        _edit_length,
    ),
    "chain": (_edit_chain,),
    "table": (_edit_cell, _edit_cell, _edit_rows),
    "gzip": (_packed,),
    "public gzip": (_packed, _packed, _packed, _bomb),
}
