"""A model in plain words: what it is, how it was chosen, what it may be used for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.entity.model import Model

__all__ = ["chosen_kind", "strength_words", "summary_text"]

KINDS = {
    "factors": "factors: an item and a person are a few numbers each, and a score is the product of the two",
    "item-item": "item-item: a score is a weighted sum of what the person had",
    "patterns": "patterns: an item's mean, the person's own offset, and where the person lies along common patterns",
    "features": "patterns, drawn to public features of the items: mean, the person's own offset, and their place",
}
#: Item-item weights for counts that were drawn to more than the entity's own data.
DRAWN = {
    "features": f"{KINDS['item-item']}, the weights drawn to public features of the items",
    "mixed": f"{KINDS['item-item']}, the weights drawn to public features of the items and to the shared model",
}
_ERROR = (
    "  (± is the standard error of that one loss. It does not decide: the choice is by the error of the difference",
    "  between two models on the same entries, which is mostly smaller.)",
)


def summary_text(model: Model) -> str:
    """Say what a model is, line by line.

    Parameters
    ----------
    model : Model
        Any.
    """
    lines = [
        f"Model of {model.entity} for {len(model.catalog):,} items ({model.plan.feedback}), plan {model.plan.name!r}.",
        f"Scores by {_kind_words(model)}.",
        f"The shared item factors {model.factors_hash[:12]}: {_shared_words(model)}.",
        _privacy(model),
    ]
    if model.note:
        lines.append(f"Chosen: {model.note}.")
    compared = [row for row in model.validation if not math.isnan(float(row.get("loss") or 0))]
    if compared:
        lines.append("Compared on entries of its own users, held out (smaller loss is better; * is the one taken):")
        lines += map(_line, compared)
        lines += _ERROR if any("error" in row for row in compared) else ()
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


def chosen_kind(model: Model) -> str:
    """Which kind of candidate was taken, by the table of what was compared; without one, that of the scorer.

    Item-item weights of counts are scored alike whether they are drawn to nothing, to public features or to both, so
    the scorer does not tell these apart.
    """
    return next((str(row["kind"]) for row in model.validation if row.get("taken")), model.scorer.kind)


def _kind_words(model: Model) -> str:
    kind = model.scorer.kind
    return DRAWN.get(chosen_kind(model), KINDS[kind]) if kind == "item-item" else KINDS.get(kind, kind)


def _shared_words(model: Model) -> str:
    public = chosen_kind(model) == "features" and model.strength == 0
    return "not used, own data and public features" if public else strength_words(model.strength)


def _line(row: dict[str, Any]) -> str:
    """One candidate; a star at the one taken."""
    rest = dict(row)
    words = []
    if "strength" in rest:
        kind, strength = str(rest.pop("kind", "")), float(rest.pop("strength"))
        words = ["*" if rest.pop("taken", False) else " ", f"{kind:<9}", f"{_drawn_to(kind, strength):<51}"]
    if "loss" in rest and "error" in rest:
        words.append(f"loss {rest.pop('loss'):.4g} ± {rest.pop('error'):.4g}")
    figures = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in rest.items())
    return "  " + " ".join([*words, ", ".join(figures)]).rstrip()


def _drawn_to(kind: str, strength: float) -> str:
    """What a candidate is made of."""
    if strength == 0:
        return "own data and public features" if kind == "features" else "own data only"
    if math.isinf(strength):
        return "shared model as it came"
    public = "public features, and " if kind == "mixed" else ""
    return f"{public}shared model as {strength:g} own users"
