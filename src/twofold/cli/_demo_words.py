"""What the demo tells of each hospital, and one recommendation with its reasons."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np

from twofold.data.federation import Federation
from twofold.data.split import Split
from twofold.entity.model import Model
from twofold.privacy.card_words import brief
from twofold.privacy.ledger import Ledger
from twofold.protocol.expected import expected
from twofold.protocol.leaving import leaving
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.report.federation import EntityLine, Example, Nouns
from twofold.simulate import Simulated

__all__ = ["HELD_OUT_WORDS", "NOUNS", "REMARKS", "added_up", "entity_lines", "example"]

NOUNS: Final = Nouns(entity="hospital", entities="hospitals", user="patient", users="patients", items="items")
HELD_OUT_WORDS: Final = (
    "Five entries of every second patient were held out before anything else happened, the same for all systems, and "
    "looked for among the items the patient is not known to have had. Every hospital counts the same."
)
REMARKS: Final = (
    "Every patient and every hospital here is simulated. The simulator is tuned to published facts about intensive "
    "care (docs/reference/hospitals.md), and is not evidence about real hospitals.",
    "The noise is real: drawn from the operating system, paid for in a ledger per hospital. So another run with the "
    "same seed gives slightly different private numbers. This page shows one draw.",
    "The server saw only the sum of all messages. Each hospital added its share of one noise; should all others and "
    "the server collude, the message of one hospital alone is protected by the larger ε in the plan below.",
    "Popularity shared privately was paid for from ledgers of its own. In real life a hospital buys one of the two.",
    "The federation without privacy and the pooled model exist for comparison only, and only because all patients are "
    "simulated.",
    "One person found in two hospitals is protected by less: the prices of both add up.",
)
SHOWN: Final = 5  # recommendations and reasons of the example


def entity_lines(federation: Federation, done: Simulated, ledgers: Path) -> tuple[EntityLine, ...]:
    """Gather what the report tells of each hospital."""
    left = leaving(done.plan)
    return tuple(
        EntityLine(
            name=name,
            users=federation[name].n_users,
            numbers=left.numbers or 0,
            bytes=done.sent[name],
            spent=brief(Ledger(ledgers / f"{name}.ledger").state().spent),
            noise=left.noise.values,
            signal=math.nan,  # under masks nobody can tell
            model=done.models[name].scorer.kind,
            strength=_strength(done.models[name].strength),
            gain=_gain(done.models[name]),
        )
        for name in federation
    )


def added_up(done: Simulated) -> tuple[float, float]:
    """Noise in a number of the sum of all messages, and the sum of one item's squares beneath it (root mean square)."""
    plan, factors = done.plan, done.factors
    layout, wanted = BilinearLayout.of(plan.public, "gram"), expected(plan)
    noise = wanted.deviation * layout.pairs_unit * math.sqrt(factors.entities)
    squares = np.zeros(plan.n_items) if factors.squares is None else factors.squares
    return noise, float(np.sqrt(np.mean((factors.users * squares) ** 2)))


def _strength(strength: float) -> str:
    if strength == 0:
        return "own only"
    return "shared only" if math.isinf(strength) else f"{strength:,.0f} patients"


def _gain(model: Model) -> float:
    """By how much the hospital's own validation liked its choice better than the best model alone."""
    alone = [line["loss"] for line in model.validation if line["strength"] == 0]
    taken = next((line["loss"] for line in model.validation if line.get("taken")), math.nan)
    return min(alone) - taken if alone else math.nan


def example(done: Simulated, split: Split[Federation]) -> Example:
    """Recommend to one patient of the hospital in the middle by size: the first with entries held out."""
    name = sorted(split.train, key=lambda name: split.train[name].n_users)[len(split.train) // 2]
    model, test = done.models[name], split.test[name]
    user = test.user_ids[int(np.flatnonzero(test.entries_per_user)[0])]
    best = model.recommend(user, n=10)
    told = model.explain(user, best[0].item, n=SHOWN)
    reasons = [(f"{reason.item} ({reason.value:g})", reason.contribution) for reason in told.reasons]
    return Example(
        entity=str(name),
        user=str(user),
        history=_largest(model.history.of(user)),
        recommended=tuple((str(one.item), one.score) for one in best),
        reasons=(*reasons, ("everything else", told.rest)),
        held_out=tuple(str(item) for item in test.of(user)),
    )


def _largest(history: dict[Any, float]) -> tuple[tuple[str, float], ...]:
    return tuple((str(item), value) for item, value in sorted(history.items(), key=lambda one: -one[1]))
