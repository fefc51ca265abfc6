"""Where noise comes from: the operating system, or a seed that marks everything it touches as not private.

Every sampler asks a `Source` for random 64-bit words and for nothing else. `source()` gives the operating
system's randomness, read in large blocks. `source(seed)` gives repeatable words for tests and experiments;
its events carry ``seeded=True``, artefacts made from them say "not private", and a real federation refuses
them. `Keyed` stretches one secret key from the operating system; only the ledger makes such keys, so that a draw
that was killed can be made again, the same.

There is no seed argument anywhere else, and no module-level generator.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from twofold import checks
from twofold.errors import BadPrivacyParameter, PrivacyError

__all__ = ["KEY_BYTES", "Keyed", "OperatingSystem", "Seeded", "Source", "Words", "source"]

Words = NDArray[np.uint64]

#: Length of a key.
KEY_BYTES = 32
#: Bytes of one block of a keyed stream; part of what a key means, so it never changes under the same domain.
_BLOCK = 1 << 16
_DOMAIN = b"twofold keyed noise 1\0"


class Source(Protocol):
    """A source of independent uniform 64-bit words that says whether they can be repeated."""

    @property
    def seeded(self) -> bool:
        """True if anyone can repeat the words; everything made with them is then not private."""
        ...

    def words(self, count: int) -> Words:
        """Give `count` uniform words."""
        ...

    def bits(self, count: int) -> int:
        """Give a uniform integer of `count` bits."""
        ...


@dataclass(frozen=True)
class OperatingSystem:
    """The operating system's randomness (``os.urandom``).

    Examples
    --------
    >>> noise = OperatingSystem()
    >>> noise.words(3).dtype, noise.seeded
    (dtype('uint64'), False)
    """

    @property
    def seeded(self) -> bool:
        """Never."""
        return False

    def words(self, count: int) -> Words:
        """Give `count` words with one request."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def bits(self, count: int) -> int:
        """Give a uniform integer of `count` bits."""
        return int.from_bytes(os.urandom(-(-count // 8)), "little") >> (-count % 8)


class Keyed:
    """Words derived from a secret key: only those who have the key know the noise.

    Parameters
    ----------
    key : bytes
        32 bytes of the operating system's randomness, used for one draw from one data set and then destroyed.

    Privacy
    -------
    **Not a way to choose noise.** Only `twofold.privacy.ledger` makes keys: it keeps one beside its reservation until
    the release is stored, so that a killed draw gives the same bytes when it is repeated. A key that is used for
    two different data sets breaks the guarantee: both carry the same noise, and their difference is exact. A known key
    breaks it too: the noise can be removed. Hence a key is not shown, copied or pickled.

    The words are the blocks SHAKE-256(domain ‖ key ‖ counter). The domain and both lengths are fixed, so no two inputs
    coincide. With a secret prefix of 256 bits SHAKE-256 is a pseudo-random function (FIPS 202; Bertoni, Daemen,
    Peeters and Van Assche 2011 on keyed sponges): telling its blocks from uniform ones takes about 2^256 evaluations,
    and so does telling a release that uses them from one with perfect noise. Differential privacy then holds against
    everyone who cannot do that. The guarantee is of the same kind as that of ``os.urandom``, which also expands a key,
    that of the system's generator.

    Examples
    --------
    >>> key = os.urandom(KEY_BYTES)
    >>> bool((Keyed(key).words(5) == Keyed(key).words(5)).all()), Keyed(key).seeded, Keyed(key)
    (True, False, Keyed(secret))
    """

    __slots__ = ("_block", "_counter", "_key")

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise BadPrivacyParameter(
                "a key must be 32 random bytes, made by the ledger.", fix="leave rng out", parameter="key"
            )
        self._key: bytes | None = key
        self._counter = 0
        self._block = b""

    def __repr__(self) -> str:
        return "Keyed(secret)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a key is not copied or pickled: its words must not be used twice")

    @property
    def seeded(self) -> bool:
        """Never: the key is secret."""
        return False

    def words(self, count: int) -> Words:
        """Give the next `count` words of the stream, the same on every machine."""
        return np.frombuffer(self._take(8 * count), dtype="<u8").astype(np.uint64, copy=False)

    def bits(self, count: int) -> int:
        """Give a uniform integer of `count` bits from the stream."""
        return int.from_bytes(self._take(-(-count // 8)), "little") >> (-count % 8)

    def close(self) -> None:
        """Forget the key; no more words can be drawn."""
        self._key, self._block = None, b""

    def _take(self, size: int) -> bytes:
        if self._key is None:
            raise PrivacyError(
                "this draw is over; its noise may not be used for another one.", fix="leave rng out", parameter="rng"
            )
        parts = [self._block]
        missing = size - len(self._block)
        while missing > 0:
            parts.append(hashlib.shake_256(_DOMAIN + self._key + self._counter.to_bytes(8, "little")).digest(_BLOCK))
            self._counter += 1
            missing -= _BLOCK
        stream = b"".join(parts)
        self._block = stream[size:]
        return stream[:size]


@dataclass(frozen=True)
class Seeded:
    """Repeatable words for tests and experiments. Anything made with them is not private.

    Examples
    --------
    >>> one, two = Seeded(7), Seeded(7)
    >>> bool((one.words(5) == two.words(5)).all()), one.seeded
    (True, True)
    """

    seed: int
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.whole("seed", self.seed, least=0, error=BadPrivacyParameter)
        object.__setattr__(self, "_generator", np.random.Generator(np.random.PCG64(self.seed)))

    @property
    def seeded(self) -> bool:
        """Always."""
        return True

    def words(self, count: int) -> Words:
        """Give the next `count` words of the stream."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    def bits(self, count: int) -> int:
        """Give a uniform integer of `count` bits from the stream."""
        value = 0
        for word in self.words(-(-count // 64)):
            value = value << 64 | int(word)
        return value >> (-count % 64)


def source(rng: int | Source | None = None) -> Source:
    """Make a source from nothing, a seed or a source, as in SPEC 7.

    Parameters
    ----------
    rng : int or Source, optional
        None gives the operating system's randomness, the only private choice. A whole number gives a
        repeatable stream that is marked not private.

    Examples
    --------
    >>> source().seeded, source(0).seeded
    (False, True)
    """
    if rng is None:
        return OperatingSystem()
    if isinstance(rng, int) and not isinstance(rng, bool):
        return Seeded(rng)
    if isinstance(rng, bool) or not all(hasattr(rng, name) for name in ("words", "bits", "seeded")):
        raise BadPrivacyParameter(
            "this generator cannot be a source of noise.",
            found=type(rng).__name__,
            expected="nothing (the operating system), a whole number (a seed, not private) or a Source",
            parameter="rng",
        )
    return rng
