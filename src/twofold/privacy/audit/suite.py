"""The whole audit: every mechanism under attack, and every broken one caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.privacy.audit.broken import broken_mechanisms
from twofold.privacy.audit.exact_checks import differing_parameters, loss_table, naive_laplace, precision_attack
from twofold.privacy.audit.lower_bound import audit_one_run, lower_bound
from twofold.privacy.audit.subjects import Subject, subjects
from twofold.privacy.grid import Grid
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["CONFIDENCE", "Finding", "Report", "run_audit", "steps"]

# High, because a run of the suite makes about twenty attempts and a false alarm in any of them would be one.
CONFIDENCE = 0.9995


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One attempt: what was claimed, what was proven, and whether the result is as expected."""

    mechanism: str
    method: str
    claimed_epsilon: float
    claimed_delta: float
    lower_bound: float
    broken: bool = False
    differing_parameters: tuple[str, ...] = ()

    @property
    def falsified(self) -> bool:
        """Whether the attempt disproves the claim."""
        return self.lower_bound > self.claimed_epsilon or bool(self.differing_parameters)

    @property
    def as_expected(self) -> bool:
        """A sound mechanism must not be falsified, a broken one must be."""
        return self.falsified == self.broken

    def as_dict(self) -> dict[str, Any]:
        """Give the plain record."""
        return {**asdict(self), "falsified": self.falsified, "as_expected": self.as_expected}


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings and the enumeration table."""

    confidence: float
    findings: tuple[Finding, ...]
    enumeration: tuple[dict[str, Any], ...]

    @property
    def passed(self) -> bool:
        """Whether every result is as expected."""
        return all(one.as_expected for one in self.findings) and all(row["tight"] for row in self.enumeration)

    def as_dict(self) -> dict[str, Any]:
        """Give the plain record."""
        return {
            "passed": self.passed,
            "confidence": self.confidence,
            "findings": [one.as_dict() for one in self.findings],
            "enumeration": list(self.enumeration),
        }


def steps(more: Sequence[Subject] = ()) -> list[tuple[str, Callable[[Source], Finding]]]:
    """Name every attempt with the function that makes it.

    Parameters
    ----------
    more : sequence of Subject
        Mechanisms built on this layer, which it does not know: they are attacked like its own.

    Examples
    --------
    >>> len(steps())
    17
    """
    extra: list[tuple[str, Callable[[Source], Finding]]] = [
        ("discrete Laplace, 20,000 canaries in one run", _canaries),
        ("discrete Laplace, floating-point attack", _attack_ours),
        ("naive float Laplace, floating-point attack", _attack_naive),
    ]
    sound, broken = (*subjects(), *more), broken_mechanisms()
    return [*((one.name, _judge(one)) for one in sound), *extra, *((one.name, _judge(one)) for one in broken)]


def run_audit(
    *,
    more: Sequence[Subject] = (),
    rng: int | Source | None = None,
    announce: Callable[[str], None] | None = None,
) -> Report:
    """Make every attempt and enumerate every worst case.

    Parameters
    ----------
    more : sequence of Subject
        Further mechanisms to attack.
    rng : int or Source, optional
        The operating system's randomness by default.
    announce : callable
        Told the name of each attempt before it is made.
    """
    noise = source(rng)
    findings = []
    for name, attempt in steps(more):
        if announce is not None:
            announce(name)
        findings.append(attempt(noise))
    table = tuple({**asdict(line), "tight": line.tight} for line in loss_table())
    return Report(confidence=CONFIDENCE, findings=tuple(findings), enumeration=table)


def _judge(subject: Subject) -> Callable[[Source], Finding]:
    def attempt(noise: Source) -> Finding:
        found = lower_bound(
            subject.batch,
            subject.data,
            subject.neighbour,
            runs=subject.runs,
            delta=float(subject.claimed.delta),
            confidence=CONFIDENCE,
            statistic=subject.statistic,
            rng=noise,
        )
        differing: tuple[str, ...] = ()
        if subject.released is not None:
            differing = differing_parameters(subject.released, subject.data, subject.neighbour)
        return Finding(
            mechanism=subject.name,
            method=f"{found.runs:,} runs on each of two neighbours",
            claimed_epsilon=float(subject.claimed.epsilon),
            claimed_delta=float(subject.claimed.delta),
            lower_bound=found.epsilon,
            broken=subject.broken,
            differing_parameters=differing,
        )

    return attempt


def _canaries(noise: Source) -> Finding:
    def release(present: NDArray[np.bool_], inner: Source) -> NDArray[np.float64]:
        mechanism = DiscreteLaplace(epsilon=1, sensitivity=2, unit=Unit.person())
        released = mechanism.release(2 * present.astype(np.int64), rng=inner).value
        return released.astype(np.float64) - 1.0

    found = audit_one_run(release, canaries=20_000, guesses=10_000, confidence=CONFIDENCE, rng=noise)
    return _one("discrete Laplace", "20,000 canaries in one run", found.epsilon)


def _attack_ours(noise: Source) -> Finding:
    grid = Grid(exponent=-40)
    mechanism = DiscreteLaplace(epsilon=1, sensitivity=2**40, unit=Unit.person(), grid=grid)

    def batch(value: float, runs: int, inner: Source) -> NDArray[np.float64]:
        return grid.back(mechanism.release(grid.put(np.full(runs, value)), rng=inner).value)

    found = precision_attack(batch, 0.0, 1.0, confidence=CONFIDENCE, rng=noise)
    return _one("discrete Laplace, grid 2^-40", "floating-point attack", found.epsilon)


def _attack_naive(noise: Source) -> Finding:
    found = precision_attack(naive_laplace, 0.0, 1.0, confidence=CONFIDENCE, rng=noise)
    return _one("naive float Laplace", "floating-point attack", found.epsilon, broken=True)


def _one(mechanism: str, method: str, found: float, *, broken: bool = False) -> Finding:
    """A subject that claims ε = 1."""
    return Finding(
        mechanism=mechanism,
        method=method,
        claimed_epsilon=1.0,
        claimed_delta=0.0,
        lower_bound=found,
        broken=broken,
    )
