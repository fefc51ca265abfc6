"""Made-up visits for the examples: people with one of three illnesses, who mostly get what goes with it."""

from __future__ import annotations

import random

GROUPS = {kind: [f"{kind}-{number}" for number in range(1, 9)] for kind in ("heart", "lung", "kidney")}
ITEMS = [item for group in GROUPS.values() for item in group]


def visits(hospital: str, patients: int, *, seed: int = 0) -> list[tuple[str, str, str, int]]:
    """Draw rows of hospital, patient, code and count."""
    rng = random.Random(f"{hospital} {seed}")
    rows = []
    for number in range(patients):
        had = {*rng.sample(GROUPS[rng.choice([*GROUPS])], 4), rng.choice(ITEMS)}
        rows += [(hospital, f"{hospital}-{number}", item, rng.randint(1, 5)) for item in sorted(had)]
    return rows
