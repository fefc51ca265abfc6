"""What was counted while processes were killed, and the table of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

__all__ = ["KINDS", "Tally", "joined", "report"]

#: How a process is killed, and what that is called in the table.
KINDS: Final = {
    "touch": "before a touch of the disk",
    "write": "inside a write",
    "step": "before a step of ledger, log or store",
    "request": "between a request and its answer",
    "time": "at any time",
}


@dataclass
class Tally:
    """Counts of all federations; those that must be zero come first."""

    lost: int = 0
    second_releases: int = 0
    wrong_charges: int = 0
    unpaid_draws: int = 0
    changed_draws: int = 0
    different_factors: int = 0
    broken_logs: int = 0
    unfinished: int = 0
    errors: int = 0
    federations: int = 0
    finished: int = 0
    with_a_kill: int = 0
    kills_of_service: int = 0
    kills_of_entities: int = 0
    acknowledged: int = 0
    releases: int = 0
    drawn_again: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    sharing: Counter[str] = field(default_factory=Counter)
    where: Counter[str] = field(default_factory=Counter)

    @property
    def failures(self) -> int:
        """Everything that must not happen."""
        return sum(getattr(self, name) for name in MUST_BE_ZERO)

    @property
    def line(self) -> str:
        """How far it is."""
        each, cpu = (one / max(1, self.federations) for one in (self.seconds, self.cpu_seconds))
        kills = f"{self.kills_of_service:,} kills of the service, {self.kills_of_entities:,} of entities"
        return (
            f"{self.with_a_kill:,} of {self.federations:,} federations with a kill; {kills}; {each:.2f} s each, "
            f"{cpu:.2f} s of processor time; {self.failures:,} failures"
        )

    def as_dict(self) -> dict[str, object]:
        """Give plain JSON."""
        return vars(self) | {"sharing": dict(self.sharing), "where": dict(self.where)}


MUST_BE_ZERO: Final = (
    "lost",
    "second_releases",
    "wrong_charges",
    "unpaid_draws",
    "changed_draws",
    "different_factors",
    "broken_logs",
    "unfinished",
    "errors",
)


def joined(records: list[dict[str, object]]) -> Tally:
    """Add up the counts of several processes.

    Examples
    --------
    >>> joined([Tally(federations=2).as_dict(), Tally(federations=3, lost=1).as_dict()]).failures
    1
    """
    whole = Tally()
    for record in records:
        for name, value in record.items():
            if isinstance(value, dict):
                getattr(whole, name).update(value)
            else:
                setattr(whole, name, getattr(whole, name) + value)
    return whole


def report(tally: Tally) -> list[str]:
    """Give the table of a run as Markdown."""
    acknowledged = f"{tally.acknowledged:,}"
    rows = [
        ("federations with at least one kill", f"{tally.with_a_kill:,}", ""),
        ("federations finished", f"{tally.finished:,} of {tally.federations:,}", "all"),
        ("kills of the service", f"{tally.kills_of_service:,}", ""),
        ("kills of entities", f"{tally.kills_of_entities:,}", ""),
        ("submissions acknowledged", acknowledged, ""),
        ("submissions acknowledged and lost", f"{tally.lost:,}", "0"),
        ("releases", f"{tally.releases:,}", ""),
        ("second releases", f"{tally.second_releases:,}", "0"),
        ("ledgers with another price than one release", f"{tally.wrong_charges:,}", "0"),
        ("draws before they were paid for", f"{tally.unpaid_draws:,}", "0"),
        ("draws made again after a kill, that differ", f"{tally.changed_draws:,} of {tally.drawn_again:,}", "0"),
        ("sums or factors that differ from an uninterrupted run", f"{tally.different_factors:,}", "0"),
        ("audit logs that are broken, or miss or repeat a message", f"{tally.broken_logs:,}", "0"),
        ("errors of a process", f"{tally.errors:,}", "0"),
    ]
    lines = ["| what | found | must be |", "|---|---:|---:|"]
    lines += [f"| {name} | {found} | {due} |" for name, found, due in rows]
    return [*lines, "", *_where(tally), "", f"{tally.line[0].upper()}{tally.line[1:]}."]


def _where(tally: Tally) -> list[str]:
    """Give how the processes were killed, as Markdown: kills, and different places."""
    actors = sorted({actor for actor, _, _ in map(_split, tally.where)})
    lines = [f"| killed | {' | '.join(actors)} | different places |", "|---|" + "---:|" * (len(actors) + 1)]
    for kind, name in KINDS.items():
        found = {one: count for one, count in tally.where.items() if _split(one)[1] == kind}
        counts = [sum(count for one, count in found.items() if _split(one)[0] == actor) for actor in actors]
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {len(found):,} |")
    return lines


def _split(where: str) -> tuple[str, str, str]:
    actor, kind, name = where.split(": ", 2)
    return actor, kind, name
