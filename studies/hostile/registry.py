"""The table of parsers, and the seals that a file passes while it is read.

To add one: ``register(Parser(name=..., form=..., samples=..., parse=...))``. `parse` gets the path of a hostile file,
reads it as a command would and uses what it read; it may raise a TwofoldError and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from studies.hostile.mutate import Form, reseal
from twofold.entity import artefact
from twofold.storage import container, signing

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PARSERS", "Parser", "Seals", "register", "watched_seals"]

#: A change of a valid file that only this parser's files know.
Change = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True, kw_only=True)
class Parser:
    """One parser.

    Parameters
    ----------
    name : str
        In the table.
    form : str
        How its files are built; see `studies.hostile.mutate`.
    samples : callable
        Gives valid files.
    parse : callable
        Reads a file and uses what it holds.
    file : str
        Name of the hostile file.
    secret : str
        Stands in the samples, and in no error.
    insider : callable
        Makes checksums, chains and signatures right after a change, with the keys of those who made the samples.
    changes : tuple of callable
        Changes beside those of the form.
    sealed : bool
        Whether a checksum or a signature protects the file.
    opens : bool
        Whether the parser opens the file by its name, so that a pipe or a folder may stand there.
    """

    name: str
    form: Form
    samples: Callable[[], Sequence[bytes]]
    parse: Callable[[Path], object]
    file: str = "file"
    secret: str = "patient-"
    insider: Callable[[bytes], bytes] = reseal
    changes: tuple[Change, ...] = ()
    sealed: bool = False
    opens: bool = True


PARSERS: Final[dict[str, Parser]] = {}


def register(parser: Parser) -> None:
    """Add a parser to the table."""
    PARSERS[parser.name] = parser


@dataclass
class Seals:
    """How many checks of checksums and signatures a file passed and failed."""

    passed: int = 0
    failed: int = 0

    @property
    def past(self) -> bool:
        """Whether there was a seal, and every one fitted."""
        return self.passed > 0 and not self.failed

    def note(self, fits: bool) -> None:
        """Count one check."""
        self.passed += fits
        self.failed += not fits


@contextmanager
def watched_seals() -> Iterator[Seals]:
    """Count every check of a signature or a container's checksum inside the block.

    Examples
    --------
    >>> from twofold.storage.signing import Purpose, SigningKey, verify
    >>> key = SigningKey.new()
    >>> with watched_seals() as seals:
    ...     _ = verify(key.public, Purpose.LOG, b"a", key.sign(Purpose.LOG, b"a"))
    >>> seals.past
    True
    """
    seals, real_key, real_seal = Seals(), Ed25519PublicKey, container.is_sealed

    class Watched:
        """A public key that tells of its checks; every module's `verify` makes its keys through this name."""

        def __init__(self, key: Any) -> None:
            self.key = key

        @classmethod
        def from_public_bytes(cls, data: bytes) -> Watched:
            return cls(real_key.from_public_bytes(data))

        def verify(self, signature: bytes, data: bytes) -> None:
            try:
                self.key.verify(signature, data)
            except InvalidSignature:
                seals.note(False)
                raise
            seals.note(True)

    def is_sealed(data: bytes, record: Any) -> bool:
        fits = real_seal(data, record)
        seals.note(fits)
        return fits

    with (
        # Without the memory of earlier checks, which would hide a check from the count.
        mock.patch.object(signing, "_remembered", signing._check),
        mock.patch.object(signing, "Ed25519PublicKey", Watched),
        mock.patch.object(container, "is_sealed", is_sealed),
        mock.patch.object(artefact, "is_sealed", is_sealed),
    ):
        yield seals
