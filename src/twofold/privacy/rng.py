"""Where noise comes from: the operating system, or a seed that marks everything it touches as not private.

Every sampler asks a `Source` for random 64-bit words and for nothing else. `source()` gives the operating
system's randomness, read in large blocks. `source(seed)` gives repeatable words for tests and experiments;
its events carry ``seeded=True``, artefacts made from them say "not private", and a real federation refuses
them.

There is no seed argument anywhere else, and no module-level generator.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadPrivacyParameter

__all__ = ["OperatingSystem", "Seeded", "Source", "Words", "source"]

Words = NDArray[np.uint64]


class Source(Protocol):
    """Anything that gives independent uniform 64-bit words, and says whether they can be repeated."""

    @property
    def seeded(self) -> bool:
        """True when the words can be repeated, which makes what they touch not private."""
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


@dataclass(frozen=True)
class Seeded:
    """Repeatable words for tests and experiments. What they touch is not private.

    Examples
    --------
    >>> one, two = Seeded(7), Seeded(7)
    >>> bool((one.words(5) == two.words(5)).all()), one.seeded
    (True, True)
    """

    seed: int
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise BadPrivacyParameter("a seed is a whole number from 0.", found=repr(self.seed))
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
    """Make a source in the manner of SPEC 7: nothing, a seed, or a source.

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
            "noise does not come from this kind of generator.",
            found=type(rng).__name__,
            expected="nothing (the operating system), a whole number (a seed, not private) or a Source",
        )
    return rng
