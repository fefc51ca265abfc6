"""A model in plain words: what it is, how it was chosen, what it may be used for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.entity.model import Model

__all__ = ["strength_words", "summary_text"]

KINDS = {
    "factors": "factors: an item and a person are a few numbers each, and a score is the product of the two",
    "item-item": "item-item: a score is a weighted sum of what the person had",
    "patterns": "patterns: an item's mean, the person's own offset, and where the person lies along common patterns",
    "features": "patterns, drawn to public features of the items: mean, the person's own offset, and their place",
}


def summary_text(model: Model) -> str:
    """Say what a model is, line by line.

    Parameters
    ----------
    model : Model
        Any.
    """
    lines = [
        f"Model of {model.entity} for {len(model.catalog):,} items ({model.plan.feedback}), plan {model.plan.name!r}.",
        f"Scores by {KINDS.get(model.scorer.kind, model.scorer.kind)}.",
        f"The shared item factors {model.factors_hash[:12]}: {strength_words(model.strength)}.",
        _privacy(model),
    ]
    if model.note:
        lines.append(f"Chosen: {model.note}.")
    compared = [row for row in model.validation if not math.isnan(float(row.get("loss") or 0))]
    if compared:
        lines.append("Compared on entries of its own users, held out (smaller loss is better):")
        lines += [_line(row, model) for row in compared]
    return "\n".join(lines)


def strength_words(strength: float) -> str:
    """Say how much the shared factors weigh in a model.

    Examples
    --------
    >>> strength_words(0.0), strength_words(math.inf), strength_words(300.0)
    ('not used, own data alone', 'used as they came', 'weigh as much as 300 own users')
    """
    if strength == 0:
        return "not used, own data alone"
    return "used as they came" if math.isinf(strength) else f"weigh as much as {strength:g} own users"


def _privacy(model: Model) -> str:
    if model.private:
        return "Private: every message behind the shared factors was protected by a proof and by real noise."
    return "NOT private: made in a simulation, with seeded noise, or by a mechanism without a proof."


def _line(row: dict[str, Any], model: Model) -> str:
    """One candidate; a star at the one taken."""
    rest = dict(row)
    words = []
    if "strength" in rest:
        taken = (rest.get("kind"), rest["strength"]) == (model.scorer.kind, model.strength)
        words = [
            "*" if taken else " ",
            f"{rest.pop('kind', ''):<9}",
            f"{strength_words(float(rest.pop('strength'))):<32}",
        ]
    figures = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in rest.items())
    return "  " + " ".join([*words, ", ".join(figures)])
