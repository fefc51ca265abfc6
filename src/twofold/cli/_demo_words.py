"""What the demo tells of each hospital, and one recommendation with its reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twofold.data.federation import Federation
from twofold.data.split import Split
from twofold.entity.model import Model
from twofold.privacy.card_words import brief
from twofold.privacy.ledger import Ledger
from twofold.protocol.contents import Content, arrays_of
from twofold.protocol.expected import expected
from twofold.protocol.messages import PrototypesMessage
from twofold.protocol.plan import Plan
from twofold.prototypes.bilinear.content import BilinearSums
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.prototypes.message import Prototypes
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
    "Popularity shared privately was paid for from ledgers of its own. In real life a hospital buys one of the two.",
    "The federation without privacy and the pooled model exist for comparison only, and only because all patients are "
    "simulated.",
    "One person found in two hospitals is protected by less: the prices of both add up.",
)
SHOWN: Final = 5  # recommendations and reasons of the example


def entity_lines(
    federation: Federation, done: Simulated, sent: Sequence[PrototypesMessage], ledgers: Path
) -> tuple[EntityLine, ...]:
    """Gather what the report tells of each hospital."""
    return tuple(
        _entity_line(name, federation[name].n_users, done, message, ledgers / f"{name}.ledger")
        for name, message in zip(federation, sent, strict=True)
    )


def _entity_line(name: str, users: int, done: Simulated, message: PrototypesMessage, ledger: Path) -> EntityLine:
    content, model = message.content, done.models[name]
    sums, noise = _sums(content, done.plan)
    return EntityLine(
        name=name,
        users=users,
        numbers=sum(array.size for array in arrays_of(content).values()),
        bytes=len(message.data),
        spent=brief(Ledger(ledger).state().spent),
        noise=noise,
        signal=_signal(sums, noise),
        model=model.scorer.kind,
        strength=_strength(model.strength),
        gain=_gain(model),
    )


def added_up(sent: Sequence[PrototypesMessage], plan: Plan) -> tuple[float, float]:
    """Noise and signal of a sum over all messages: the signal grows with their number, the noise with its root."""
    parts = [_sums(message.content, plan) for message in sent]
    noise = math.sqrt(sum(size**2 for _, size in parts))
    return noise, _signal(np.sum([sums for sums, _ in parts], axis=0), noise)


def _sums(content: Content, plan: Plan) -> tuple[NDArray[np.float64], float]:
    """Noisy sums of a message in their own units, and the noise of one of them."""
    if isinstance(content, Prototypes):
        return content.value_sums(), content.noise.values
    assert isinstance(content, BilinearSums), "the demonstration has no masks"
    layout = BilinearLayout.of(plan.public, expected(plan).mechanism)  # type: ignore[arg-type]
    unit = layout.sums_unit
    return np.asarray(content.numbers[layout.sums] * unit, dtype=np.float64), content.deviation * unit


def _signal(sums: NDArray[np.float64], noise: float) -> float:
    """Root mean square of the sums beneath the noise: what is seen, less what the noise adds on average."""
    return math.sqrt(max(float(np.mean(sums**2)) - noise**2, 0.0))


def _strength(strength: float) -> str:
    if strength == 0:
        return "own only"
    return "shared only" if math.isinf(strength) else f"{strength:,.0f} patients"


def _gain(model: Model) -> float:
    """By how much the hospital's own validation liked its choice better than the best model alone."""
    losses = {(line["kind"], line["strength"]): line["loss"] for line in model.validation}
    alone = [loss for (_, strength), loss in losses.items() if strength == 0]
    chosen = losses.get((model.scorer.kind, model.strength), math.nan)
    return min(alone) - chosen if alone else math.nan


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
