"""Reading the whole file: which bytes are records in an unbroken chain, and what is left over."""

from __future__ import annotations

from dataclasses import dataclass

from twofold.privacy.ledger.record import START, Record, decode, digest

__all__ = ["Chain", "only_lacks_its_end", "read_chain"]


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The records of a file in order, where each one ends, and what could not be read.

    `tail` holds the bytes after the last good record; `problem` says why reading stopped there. Whether a tail is a
    torn write or tampering is decided against the head (`twofold.privacy.ledger.head`), not here.
    """

    records: tuple[Record, ...]
    ends: tuple[int, ...]
    tail: bytes = b""
    problem: str = ""

    @property
    def hash(self) -> str:
        """Hash of the last record, the `previous` of the next one."""
        return self.records[-1].hash if self.records else START

    @property
    def size(self) -> int:
        """Number of bytes that are explained by records."""
        return self.ends[-1] if self.ends else 0


def read_chain(content: bytes, *, known: Chain | None = None) -> Chain:
    """Follow the chain from the first byte as far as it holds.

    Parameters
    ----------
    content : bytes
        The whole file.
    known : Chain, optional
        What was read before from bytes that `content` begins with, so that only the rest needs checking.

    Examples
    --------
    >>> from twofold.privacy.ledger.record import encode, seal
    >>> line = encode(seal(number=0, previous=START, body={"kind": "open"}))
    >>> len(read_chain(line).records), read_chain(line + line).problem
    (1, 'record 0 stands where record 1 belongs')
    """
    records, ends = (list(known.records), list(known.ends)) if known else ([], [])
    position, problem = (known.size if known else 0), ""
    while position < len(content):
        found, problem = _next(content, position, records)
        if found is None:
            break
        record, position = found
        records.append(record)
        ends.append(position)
    return Chain(records=tuple(records), ends=tuple(ends), tail=content[position:], problem=problem)


def only_lacks_its_end(chain: Chain) -> bool:
    """Tell whether the tail is a whole record, or a torn piece with its whole repair record, without the newline.

    Such a tail must be ended and adopted. Called torn, it would become readable the moment a repair ended its line.
    """
    found, _ = _next(chain.tail + b"\n", 0, list(chain.records))
    return found is not None and found[1] == len(chain.tail) + 1


def _next(content: bytes, position: int, records: list[Record]) -> tuple[tuple[Record, int] | None, str]:
    """Give the record that starts at `position`, or the repair record that explains the bytes there."""
    end = content.find(b"\n", position)
    if end < 0:
        return None, "the last line has no end"
    record, problem = _fitting(content[position:end], records)
    if record is not None:
        return (record, end + 1), ""
    repair = _repair_of(content, position, records)
    return (repair, "") if repair else (None, problem)


def _fitting(line: bytes, records: list[Record]) -> tuple[Record | None, str]:
    number, previous = len(records), records[-1].hash if records else START
    try:
        record = decode(line)
    except ValueError as error:
        return None, f"record {number} is damaged: {error}"
    if record.number != number:
        return None, f"record {record.number} stands where record {number} belongs"
    if record.previous != previous:
        return None, f"record {number} does not follow from the record before it"
    return record, ""


def _repair_of(content: bytes, position: int, records: list[Record]) -> tuple[Record, int] | None:
    """Find the repair record that names exactly the bytes from `position` up to itself.

    A torn line is never removed: a repair record behind it states its length and digest, so the file stays
    append-only and the torn bytes stay under the chain.
    """
    start = content.find(b"\n", position) + 1
    while 0 < start < len(content):
        end = content.find(b"\n", start)
        if end < 0:
            return None
        record, _ = _fitting(content[start:end], records)
        if record is not None:
            torn = content[position:start]
            named = record.kind == "repair" and record.body.get("digest") == digest(torn)
            return (record, end + 1) if named and record.body.get("bytes") == len(torn) else None
        start = end + 1
    return None
