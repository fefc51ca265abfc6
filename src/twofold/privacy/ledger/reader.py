"""Reading a ledger without a lock, and remembering what was checked already."""

from __future__ import annotations

from dataclasses import dataclass

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.chain import Chain, read_chain
from twofold.privacy.ledger.files import Files
from twofold.privacy.ledger.head import RESTORE, Standing, read_head, standing
from twofold.privacy.ledger.state import LedgerState, fold

__all__ = ["Reader"]


@dataclass(frozen=True)
class _Checked:
    """Bytes that were checked, with what they say."""

    content: bytes
    chain: Chain
    state: LedgerState | None = None


class Reader:
    """Reads the whole file every time and checks only what it has not seen byte for byte before."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._seen = _Checked(b"", Chain(records=(), ends=()))

    def load(self) -> tuple[Chain, Standing]:
        """Read file and head without a lock, again if a writer moved the head meanwhile."""
        try:
            head = read_head(self.files.head)
            while True:
                chain = self._chain()
                after = read_head(self.files.head)
                if after == head:
                    return chain, standing(chain, head)
                head = after
        except OSError as error:
            found = f"{self.files.book.name}: {error.strerror or error}"
            raise LedgerBroken("the ledger could not be read.", found=found, expected="a readable file") from error

    def state(self, chain: Chain) -> LedgerState:
        """Replay a chain that was just loaded, starting from the last account."""
        seen = self._seen
        try:
            state = fold(chain.records, known=seen.state)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise LedgerBroken(
                "a record does not say what its kind must say.", found=repr(error), fix=RESTORE
            ) from None
        self._seen = _Checked(seen.content, seen.chain, state)
        return state

    def _chain(self) -> Chain:
        try:
            content = self.files.book.read_bytes()
        except FileNotFoundError:
            raise LedgerBroken("the ledger file is missing.", expected=self.files.book.name, fix=RESTORE) from None
        seen = self._seen
        chain = read_chain(content, known=seen.chain if content.startswith(seen.content) else None)
        self._seen = _Checked(content[: chain.size], Chain(records=chain.records, ends=chain.ends), seen.state)
        return chain
