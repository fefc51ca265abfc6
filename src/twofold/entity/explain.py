"""Explain a model in plain text: what it is, how it was chosen, and why an item was recommended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.html import block, facts_of

if TYPE_CHECKING:
    from twofold.entity.asked import History
    from twofold.entity.model import Model

__all__ = [
    "Explanation",
    "Reason",
    "chosen_kind",
    "drawn_to",
    "kind_words",
    "make_explanation",
    "strength_text",
    "summary_html",
    "summary_text",
    "told_apart",
]

KINDS = {
    "factors": "factors: an item and a person are a few numbers each, and a score is the product of the two",
    "item-item": "item-item: a score is a weighted sum of what the person had",
    "patterns": "patterns: an item's mean, the person's own offset, and the person's place along common patterns",
    "features": "patterns, pulled to public features of the items: mean, the person's own offset, and their place",
    "popularity": "use: how often an item is had, the same for everyone",
    "ials": "implicit ALS: an item and a person are a few numbers each, and a score is the product of the two",
    "confidence": "implicit ALS: a few numbers per item and person, a count saying how sure an entry is",
    "sparse-item-item": "sparse item-item: a score is a weighted sum of what the person had, few weights per item",
}
#: Item-item weights for counts with a pull beyond the entity's own data.
DRAWN = {
    "features": f"{KINDS['item-item']}, the weights pulled to public features of the items",
    "mixed": f"{KINDS['item-item']}, the weights pulled to public features of the items and the shared model",
}
_STAYS = "This model holds its users' histories as they are: keep it where the data are."
_ERROR = (
    "  (± is the standard error of that one loss. It does not decide: the choice uses the error of the difference",
    "  between two models on the same entries, which is usually smaller.)",
)
_NATS = (
    "  (nats say how well hidden entries are told. They decide, except that the choice must not give worse lists",
    "  where enough people show it; the loss is of a list of 10, ± its standard error.)",
)


class Reason(NamedTuple):
    """One item of the person: its id, its value, and how much of the score it accounts for."""

    item: Any
    value: float
    contribution: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The score of an item, taken apart.

    Parameters
    ----------
    item : id
        The item in question.
    score : float
        Its score.
    reasons : list of Reason
        The person's items that moved the score most, the largest first; below 0 if it lowered the score.
    rest : float
        What is left: the person's other items, and what the item would get without any. Contributions and rest add
        up to the score.

    Privacy
    -------
    Names items of one person. Show it only where the data is.

    Examples
    --------
    >>> print(Explanation(item="lactate", score=1.5, reasons=[Reason("heparin", 3.0, 1.25)], rest=0.25))
    lactate scores 1.500:
      +1.250  because of heparin (3)
      +0.250  everything else
    """

    item: Any
    score: float
    reasons: list[Reason]
    rest: float

    def __str__(self) -> str:
        return self.words()

    def words(self, titles: Mapping[Any, str] | None = None) -> str:
        """Say it in lines of text, with the titles of items where they have one.

        Examples
        --------
        >>> told = Explanation(item=7, score=1.5, reasons=[Reason(9, 3.0, 1.25)], rest=0.25)
        >>> print(told.words({7: "Lactate", 9: "Heparin"}))
        Lactate scores 1.500:
          +1.250  because of Heparin (3)
          +0.250  everything else
        """
        named = titles or {}
        lines = [f"{named.get(self.item) or self.item} scores {self.score:.3f}:"]
        for one in self.reasons:
            word = "because of" if one.contribution >= 0 else "in spite of"
            lines.append(f"  {one.contribution:+.3f}  {word} {named.get(one.item) or one.item} ({one.value:g})")
        nothing = "nothing is known about this person, so the list is the same for everyone"
        lines.append(f"  {self.rest:+.3f}  {'everything else' if self.reasons else nothing}")
        return "\n".join(lines)


def make_explanation(
    item: int, score: float, history: History, contributions: NDArray[np.float64], ids: Sequence[Any], n: int
) -> Explanation:
    """Name the `n` entries that moved a score most, in either direction.

    Parameters
    ----------
    item : int
        Column of the item in question.
    score : float
        Its score.
    history : History
        Columns and values of the person.
    contributions : array
        One per entry of the history, or none at all where its entries made no score.
    ids : sequence
        Item ids.
    n : int
        How many to name.

    Examples
    --------
    >>> from twofold.entity.asked import History
    >>> history = History(np.array([0, 2]), np.array([1.0, 2.0], np.float32))
    >>> make_explanation(1, 3.0, history, np.array([0.5, -2.0]), ["x", "y", "z"], 1)
    Explanation(item='y', score=3.0, reasons=[Reason(item='z', value=2.0, contribution=-2.0)], rest=5.0)
    """
    order = np.argsort(-np.abs(contributions), kind="stable")[:n]
    named = zip(*(part[order].tolist() for part in (*history, contributions)), strict=True)
    reasons = [Reason(ids[column], value, moved) for column, value, moved in named]
    rest = score - sum(reason.contribution for reason in reasons)
    return Explanation(item=ids[item], score=score, reasons=reasons, rest=rest)


def summary_text(model: Model) -> str:
    """Describe a model, line by line.

    Parameters
    ----------
    model : Model
        Any.
    """
    agreed = "without a plan" if model.plan is None else f"plan {model.plan.name!r}"
    lines = [
        f"Model of {model.entity} for {len(model.catalog):,} items ({model.history.feedback}), {agreed}.",
        f"Scores by {_kind_text(model)}.",
        *_privacy(model),
    ]
    if model.note:
        lines.append(f"Chosen: {model.note}.")
    compared = told_apart(row for row in model.validation if not math.isnan(float(row.get("loss") or 0)))
    if compared:
        lines.append("Compared on held-out entries of its own users (smaller loss is better; * marks the choice):")
        width = max(9, *(len(kind_words(row)) for row in compared))
        lines += (_line(row, width) for row in compared)
        if any("error" in row for row in compared):
            lines += _NATS if any("nats" in row for row in compared) else _ERROR
    return "\n".join(lines)


def summary_html(model: Model) -> str:
    """Describe a model for a notebook: what it is and what it rests on, no figure of anybody's data."""
    told = "alone: nothing was shared" if model.alone else "every message behind it had a proof and real noise"
    if not model.private:
        told = "NOT PRIVATE: made in a simulation, with seeded noise, or by a mechanism without a proof"
    facts = {"items": f"{len(model.catalog):,}", "feedback": model.history.feedback, "kind": model.scorer.kind}
    if model.plan is not None:
        facts["plan"] = f"{model.plan.name} {model.plan.hash[:12]}"
    if not model.alone:
        facts["shared factors"] = model.factors_hash[:12]
    return block(f"Model of {model.entity}", [], facts_of(facts | {"promise": told, "keep": _STAYS}))


def strength_text(strength: float) -> str:
    """Say how much the shared factors weigh in a model.

    Examples
    --------
    >>> strength_text(math.inf), strength_text(300.0)
    ('used as they came', 'weigh as much as 300 own users')
    """
    return "used as they came" if math.isinf(strength) else f"weigh as much as {_users(strength)} own users"


def _users(strength: float) -> str:
    return f"{strength:,.0f}" if strength >= 10 else f"{strength:.2g}"


def kind_words(row: Mapping[str, Any]) -> str:
    """Name the kind of a candidate, with its ridge where the line has one.

    Examples
    --------
    >>> kind_words({"kind": "ials"}), kind_words({"kind": "item-item", "ridge": 3.0})
    ('implicit ALS', 'item-item, ridge 3')
    """
    kind = str(row.get("kind", ""))
    ridge = row.get("ridge")
    return ("implicit ALS" if kind == "ials" else kind) + (f", ridge {ridge:g}" if ridge is not None else "")


def told_apart(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of candidates that would read the same, keep the chosen one, else the best.

    Examples
    --------
    >>> rows = [{"kind": "x", "nats": -3.0}, {"kind": "y"}, {"kind": "x", "nats": -2.0}]
    >>> told_apart(rows)
    [{'kind': 'x', 'nats': -2.0}, {'kind': 'y'}]
    """
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row.get("kind"), row.get("strength"), row.get("ridge"), row.get("remark"))
        if key not in best or _rank(row) > _rank(best[key]):
            best[key] = dict(row)
    return list(best.values())


def _rank(row: Mapping[str, Any]) -> tuple[bool, float, float]:
    return bool(row.get("taken")), float(row.get("nats", 0.0)), -float(row.get("loss") or 0.0)


def _privacy(model: Model) -> tuple[str, ...]:
    if model.alone:
        return f"Nothing was shared and nothing left the entity: {_shared_text(model)}.", _STAYS
    used = f"The shared item factors {model.factors_hash[:12]}: {_shared_text(model)}."
    if model.private:
        return used, "What left was protected: every message behind them had a proof and real noise.", _STAYS
    return used, "NOT private: made in a simulation, with seeded noise, or by a mechanism without a proof.", _STAYS


def chosen_kind(model: Model) -> str:
    """The kind of the chosen candidate, from the table of candidates; without a table, the scorer's kind.

    A scorer does not tell what its weights were pulled to: nothing, public features, the others' taste, or both.
    """
    return next((str(row.get("kind")) for row in model.validation if row.get("taken")), model.scorer.kind)


def _kind_text(model: Model) -> str:
    kind, chosen = model.scorer.kind, chosen_kind(model)
    if kind == "item-item":
        return DRAWN.get(chosen, KINDS[kind])
    if kind != "stack":
        return KINDS.get(kind, kind)
    inner = str(model.scorer.settings()["inner"])
    known = []
    if chosen.startswith("shared taste"):
        known.append("the others' taste" + (" at the own use of each item" if "own use" in chosen else ""))
    if _public(chosen):
        known.append("public features of the items")
    more = f", the weights pulled to {' and to '.join(known)}" if known else ""
    use = float((model.scorer.settings().get("weights") or [1.0])[0])
    if abs(use) < 0.005:  # which the line of the choice rounds to 0.00
        return f"taste alone, use weighs nothing; taste: {KINDS[inner]}{more}"
    return f"use and taste together, added in the logarithm; use: how often an item is had; taste: {KINDS[inner]}{more}"


def _shared_text(model: Model) -> str:
    public = _public(chosen_kind(model)) and model.strength == 0
    own = "own data and public features" if public else "own data alone"
    if model.alone:
        return own
    return f"not used, {own}" if model.strength == 0 else strength_text(model.strength)


def _public(kind: str) -> bool:
    return kind.endswith("features") or kind == "mixed"


def _line(row: dict[str, Any], width: int) -> str:
    """One candidate; a star marks the choice."""
    rest = dict(row)
    parts = []
    if "strength" in rest:
        kind, strength = str(row.get("kind", "")), float(rest.pop("strength"))
        parts = [
            "*" if rest.pop("taken", False) else " ",
            f"{kind_words(row):<{width}}",
            f"{drawn_to(kind, strength):<51}",
        ]
        rest = {key: value for key, value in rest.items() if key not in ("kind", "ridge")}
    if "loss" in rest and "error" in rest:
        loss = f"loss {rest.pop('loss'):.4g} ± {rest.pop('error'):.4g}"
        parts.append(f"{loss}, nats {rest.pop('nats'):.4g}" if "nats" in rest else loss)
    figures = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in rest.items())
    return "  " + " ".join([*parts, ", ".join(figures)]).rstrip()


def drawn_to(kind: str, strength: float) -> str:
    """Describe what a candidate uses.

    Examples
    --------
    >>> drawn_to("item-item", 0.0), drawn_to("shared taste", 300.0)
    ('own data only', 'shared model as 300 own users')
    """
    if strength == 0:
        return "own data and public features" if _public(kind) else "own data only"
    if math.isinf(strength):
        return "shared model as it came"
    public = "public features, and " if _public(kind) else ""
    return f"{public}shared model as {_users(strength)} own users"
