"""Run one mechanism on one case: loss ratio, CPU seconds, traced memory, and whether it fell back."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

from studies._mechanisms_data import Case, loss
from twofold.release import NOT_PRIVATE, PRIVATE, Prototypes, mechanism
from twofold.release.cells import centres

__all__ = ["DELTA", "Entrant", "Measured", "entrants", "memory_of", "run_once"]

DELTA = "1e-6"


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A mechanism under one promise."""

    name: str
    delta: str = "0"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether it has a proof."""
        return self.name not in NOT_PRIVATE

    @property
    def who(self) -> str:
        """Name with its options."""
        return self.name + "".join(f" {key}={value}" for key, value in self.options.items())

    @property
    def promise(self) -> str:
        """What is promised."""
        return "none" if not self.private else "ε" if self.delta == "0" else f"(ε, {self.delta})"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run."""

    ratio: float
    seconds: float
    fell_back: bool


def entrants() -> list[Entrant]:
    """Every mechanism of the registry, private ones under both promises where they have two.

    Examples
    --------
    >>> len({(one.who, one.promise) for one in entrants()}) == len(entrants())
    True
    """
    private = [Entrant(name=name) for name in (*PRIVATE, "auto")]
    both = [Entrant(name=name, delta=DELTA) for name in (*PRIVATE, "auto") if name != "balcan"]
    plain = Entrant(name="buckets", options={"cells_per_prototype": 1})
    return [*private, plain, *both, Entrant(name="kmeans"), Entrant(name="random")]


def run_once(entrant: Entrant, case: Case, epsilon: str) -> Measured:
    """Release, make centres, judge them.

    Examples
    --------
    >>> from studies._mechanisms_data import make_case
    >>> run_once(Entrant(name="kmeans"), make_case(200, 20, 3, 0), "1").ratio < 1.5
    True
    """
    start = time.process_time()
    message, found = _release(entrant, case, epsilon)
    seconds = time.process_time() - start
    ratio = loss(case.rows, found) / case.best
    return Measured(ratio=ratio, seconds=seconds, fell_back=bool(message.note) and entrant.private)


def memory_of(entrant: Entrant, case: Case, epsilon: str) -> float:
    """Largest memory of a release, in MB; also the warm-up of compiled kernels."""
    _release(entrant, case, epsilon)
    tracemalloc.start()
    try:
        _release(entrant, case, epsilon)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def _release(entrant: Entrant, case: Case, epsilon: str) -> tuple[Prototypes, Any]:
    public = case.public(epsilon, entrant.delta)
    message = mechanism(entrant.name, **entrant.options).release(case.rows, public, rng=case.seed).value
    return message, centres(message, public)
