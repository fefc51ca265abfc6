"""A statement of a ledger: what auditors and archives may have. Nothing can be spent from it.

The file has lines of canonical JSON: its schema; the head of the ledger, as signed; the records; a signature over all
lines before it, empty if the ledger has no signer.

Privacy
-------
Only the fields in `SHOWN` are in a statement. Left out, because of what they would tell:

* ``data`` and ``nonce`` of a reservation: equal digests in two statements, or a digest beside a guess at the data, tell
  whether data changed;
* ``draw``: name and check value of the key of the noise;
* ``digest`` of a repair: the torn piece it names may hold the digest of the data without a nonce;
* ``reason`` of a lost reservation: it may say that the data had changed;
* ``at`` of a commit, and whether it was recovered or resumed: how long a draw took may depend on the number of people.

The hash of a reservation covers its nonce, so it tells nothing. For the same reason no ledger can be made from a
statement: without nonces no line fits its hash, and a chain that is hashed anew does not fit the signed head.

A statement still shows that a reservation was lost and paid for again. That is so after a failed draw, a kill, or a
change of data between a kill and the restart; the total that was spent shows it too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import is_hash
from twofold.errors import LedgerBroken
from twofold.privacy.ledger.audit import Verdict, check_account, check_head, time_notes
from twofold.privacy.ledger.files import read_book
from twofold.privacy.ledger.head import Head, check_signature, head_from_dict, refuse_unknown_kinds, signer_of
from twofold.privacy.ledger.record import START, Record, canonical, digest, parse_line, seal
from twofold.privacy.ledger.state import LedgerState, fold
from twofold.storage import files as disk

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = ["SCHEMA", "SHOWN", "Statement", "is_statement", "refuse_statement", "write_statement"]

SCHEMA: Final = "twofold.ledger-statement/1"
_FIRST: Final = canonical({"schema": SCHEMA}) + b"\n"
_ANY: Final = b'{"schema":"twofold.ledger-statement/'
#: What a statement shows of each kind of record.
SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "open": ("format", "at", "dataset", "unit", "epsilon", "delta", "software", "signer"),
    "reserve": (
        *("at", "plan", "version", "unit", "guarantee", "epsilon", "delta"),
        *("events", "about", "seeded", "software"),
    ),
    "commit": ("reserve", "digest", "bytes"),
    "lost": ("reserve",),
    "raise": ("at", "epsilon", "delta", "reason", "signature"),
    "repair": (),
    "signer": ("at", "public", "reason"),
}
#: Kinds that are shown with every field, so that their hash can be checked.
_WHOLE: Final = ("open", "raise", "signer")


class Statement:
    """A statement, read from its file.

    Parameters
    ----------
    path : path-like
        Written by ``twofold ledger export`` or `Ledger.statement`.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.privacy.budget import PureDP
    >>> from twofold.privacy.ledger import Ledger
    >>> from twofold.privacy.unit import Unit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asked = dict(dataset="visits", ceiling=PureDP(epsilon=1), unit=Unit.person())
    ...     ledger = Ledger.create(Path(folder, "x.ledger"), **asked)
    ...     _ = Path(folder, "x.statement").write_bytes(ledger.statement())
    ...     Statement(Path(folder, "x.statement")).state().remaining.epsilon
    Fraction(1, 1)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        try:
            content = read_book(self.path)
        except OSError as error:
            raise _unsound(f"{self.path.name}: {error.strerror or type(error).__name__}") from None
        self._content = content
        self._head, self._records, self._signer, self._signature = _parse(content)
        self._state = fold(self._records, statement=True)
        _check_links(self._records, self._head)
        due = signer_of(self._records)
        if due or self._head.signature:
            check_signature(self._head, self._state.dataset, due or self._head.signer)

    def state(self) -> LedgerState:
        """Give the account as of the statement."""
        return self._state

    def owns(self, path: Path) -> bool:
        """Whether a path is the statement itself."""
        return path.resolve() == self.path.resolve()

    def verify(self, *, head: str | None = None, key: bytes | None = None) -> Verdict:
        """Check hashes as far as they are shown, prices, totals and, if a key is given, that it signed the statement.

        Parameters
        ----------
        head : str, optional
            A hash kept elsewhere, as on a card.
        key : bytes, optional
            The public key of the entity.
        """
        check_account(self._records, self._state)
        check_head(self._records, head)
        self._check_signature(None if key is None else key.hex())
        released = sum(entry.status == "released" for entry in self._state.entries)
        notes = ["a statement: nothing can be released from it, and stored releases were not checked"]
        if not self._signature:
            notes.append(
                "the entity's key has not signed the statement, so anybody may have rewritten it: trust it as far as "
                "the way it came, or ask for one exported with --keys"
            )
        return Verdict(
            records=len(self._records),
            releases=released,
            head=self._head.hash,
            notes=(*notes, *time_notes(self._records)),
            signer=self._signer,
        )

    def _check_signature(self, key: str | None) -> None:
        if key is None and not self._signature:
            return
        due = key or signer_of(self._records)
        if not self._signature or self._signer != due or signer_of(self._records) != due:
            raise _unsound("no signature of that key" if self._signature else "no signature", parameter="signature")
        from twofold.storage.signing import Purpose, verify

        said = _signed(self._content[: self._content.rindex(b"\n", 0, -1) + 1])
        if not verify(bytes.fromhex(due), Purpose.LEDGER, said, bytes.fromhex(self._signature)):
            raise _unsound("a signature that does not fit", parameter="signature")


def write_statement(records: Sequence[Record], head: Head, *, signer: SigningKey | None) -> bytes:
    """Write the statement of a chain."""
    lines = [_FIRST, canonical({"head": head.as_dict()}) + b"\n"]
    lines += [canonical(_shown(record)) + b"\n" for record in records]
    content = b"".join(lines)
    end = {"signature": "", "signer": ""}
    if signer is not None:
        from twofold.storage.signing import Purpose

        end = {"signature": signer.sign(Purpose.LEDGER, _signed(content)).hex(), "signer": signer.public.hex()}
    return content + canonical(end) + b"\n"


def is_statement(path: Path) -> bool:
    """Whether a plain file begins like a statement; `LedgerBroken` if it is a link, a pipe or a folder."""
    try:
        descriptor = disk.open_plain(path)
    except OSError as error:
        raise LedgerBroken(
            "the ledger could not be read.",
            found=f"{path.name}: {error.strerror or type(error).__name__}",
            expected="a plain, readable file",
            parameter="ledger",
        ) from error
    try:
        return os.read(descriptor, len(_ANY)) == _ANY
    finally:
        os.close(descriptor)


def refuse_statement(path: Path) -> None:
    """Refuse a statement where a ledger is needed."""
    if is_statement(path):
        raise LedgerBroken(
            "this is a statement of a ledger; nothing can be released from it.",
            found=path.name,
            expected="the ledger itself, at the entity",
            fix="name the ledger. A statement can be read and compared: ledger show, verify and card, and card verify "
            "--ledger; if the ledger was lost, count its whole ceiling as spent: a new one for the same people "
            "would spend their budget twice",
            parameter="statement",
        )


def _shown(record: Record) -> dict[str, Any]:
    body = {name: record.body[name] for name in SHOWN[record.kind] if name in record.body}
    return {
        "body": {"kind": record.kind, **body},
        "hash": record.hash,
        "number": record.number,
        "previous": record.previous,
    }


def _signed(content: bytes) -> bytes:
    """Give what is signed; its form differs from that of a head and of a raise."""
    return canonical({"statement": digest(content)})


def _parse(content: bytes) -> tuple[Head, tuple[Record, ...], str, str]:
    """Read the lines; every one must be in the form that `write_statement` gives it."""
    lines = content.split(b"\n")
    if lines[0] + b"\n" != _FIRST or len(lines) < 5 or lines[-1]:
        raise _unsound("another schema" if content.startswith(_ANY) else "not a whole statement")
    try:
        head = head_from_dict(_exact(lines[1], ("head",))["head"])
        records = tuple(_record(line) for line in lines[2:-2])
        end = _exact(lines[-2], ("signature", "signer"))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _unsound("a line that is not one of a statement") from None
    refuse_unknown_kinds(records)
    for record in records:
        if set(record.body) - {"kind", *SHOWN[record.kind]}:
            raise _unsound(f"record {record.number} with a field that no statement has")
    signer, signature = end["signer"], end["signature"]
    if (signer, signature) != ("", "") and not (is_hash(signer) and _is_hex(signature, 128)):
        raise _unsound("a damaged signature")
    return head, records, signer, signature


def _record(line: bytes) -> Record:
    found = _exact(line, ("body", "hash", "number", "previous"))
    if not is_hash(found["hash"]) or not is_hash(found["previous"]) or type(found["number"]) is not int:
        raise ValueError
    if not isinstance(found["body"], dict) or not isinstance(found["body"].get("kind"), str):
        raise ValueError
    return Record(number=found["number"], previous=found["previous"], body=found["body"], hash=found["hash"])


def _exact(line: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    found = parse_line(line)
    if not isinstance(found, dict) or set(found) != set(names) or canonical(found) != line:
        raise ValueError
    return found


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and not set(value) - set("0123456789abcdef")


def _check_links(records: Sequence[Record], head: Head) -> None:
    previous = START
    for number, record in enumerate(records):
        if record.number != number or record.previous != previous:
            raise _unsound(f"record {number} does not follow from the record before it")
        if record.kind in _WHOLE and seal(number=number, previous=previous, body=record.body).hash != record.hash:
            raise _unsound(f"record {number} was changed")
        previous = record.hash
    if head.length != len(records) or head.hash != previous:
        raise _unsound("records that its head does not name")


def _unsound(found: str, *, parameter: str = "statement") -> LedgerBroken:
    return LedgerBroken(
        "the statement of a ledger is damaged or was changed.",
        found=found,
        expected=f"a file of {SCHEMA}, as it was exported",
        fix="have it exported again: twofold ledger export LEDGER -o FILE",
        parameter=parameter,
    )
