"""The steps and the progress of a federation, in the words of the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from twofold.cli import NOT_YET
from twofold.federation.mailbox import Rejected, StepId
from twofold.federation.plan import Plan
from twofold.privacy.budget import best_guess
from twofold.privacy.ledger import cost_of
from twofold.privacy.printed import brief, percent, rounded_up

if TYPE_CHECKING:
    from twofold.identity.roster import Roster

__all__ = [
    "ARRIVING",
    "NOT_YET",
    "PUBLISHED",
    "SENT",
    "STEPS",
    "not_taken",
    "operators_of",
    "price_lines",
    "price_record",
]

#: The steps by their names.
STEPS: Final = {
    StepId.AGREE: "agreements",
    StepId.ROUNDS: "messages",
    StepId.KEYS: "key shares",
    StepId.MASKED: "masked messages",
    StepId.ANSWERS: "answers",
    StepId.REPORTS: "reports",
    StepId.LISTS: "lists of reports",
    StepId.FREEZES: "final lists",
    StepId.REVEALS: "sums of shares",
    StepId.DRAFTS: "item factors",
}
#: What an entity sends in each step.
SENT: Final = {
    StepId.AGREE: "the agreement",
    StepId.ROUNDS: "the message",
    StepId.KEYS: "key shares",
    StepId.MASKED: "the masked message",
    StepId.ANSWERS: "the answer",
    StepId.REPORTS: "the report",
}
#: What the server publishes in each step.
PUBLISHED: Final = {
    StepId.AGREE: "everybody's agreements",
    StepId.ROUNDS: "the item factors",
    StepId.KEYS: "the list of those who shared keys",
    StepId.MASKED: "the list of messages in the sum",
    StepId.ANSWERS: "the item factors",
    StepId.REPORTS: "the item factors",
}
#: What arrives at the server in each step, when the step closes, and what comes after it.
ARRIVING: Final = {
    StepId.AGREE: ("entities agreed", "all have agreed to the plan", "; messages come then"),
    StepId.ROUNDS: ("entities answered", "all have answered", ""),
    StepId.KEYS: ("key shares arrived", "all have shared keys", "; messages and answers come then"),
    StepId.MASKED: ("messages arrived", "all who shared keys have sent a message", "; answers come then"),
    StepId.ANSWERS: ("answers arrived", "enough have answered to take the masks off", ""),
    StepId.REPORTS: ("reports arrived", "all have sent their report", "; the operators agree on a list then"),
    StepId.LISTS: ("lists of the other operator arrived", "it has sent its list", ""),
    StepId.FREEZES: ("final lists of the other operator arrived", "it has sent its final list", ""),
    StepId.REVEALS: ("sums of the other operator arrived", "it has sent its sum", ""),
    StepId.DRAFTS: ("signatures of the other operator arrived", "it has signed the item factors", ""),
}


def operators_of(members: Roster) -> str:
    """Name the operators of a roster."""
    names = [*members.operators]
    return f"operator: {names[0]}" if len(names) == 1 else f"operators: {' and '.join(names)}"


def not_taken(rejected: Iterable[Rejected], most: int = 3) -> str:
    """Name the first few rejected files, and why.

    Examples
    --------
    >>> not_taken([Rejected("x", "a link")])
    'x: a link'
    """
    return "; ".join(f"{one.name}: {one.reason}" for one in list(rejected)[:most])


def price_record(plan: Plan) -> dict[str, Any]:
    """Give what a release of the plan costs each person, as plain JSON; nothing for a plan without a promise.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> price_record(plan)["guess"], price_record(plan)["alone"]
    ('73.2%', None)
    """
    if plan.simulation or not plan.spec.private:
        return {}
    stated = None if plan.secure is None else plan.spec.sum
    alone = None
    if stated is not None:
        alone = rounded_up(Fraction(stated.alone_epsilon) if math.isfinite(stated.alone_epsilon) else math.inf)
    return {
        "epsilon": str(plan.epsilon),
        "delta": str(plan.delta),
        "guess": percent(best_guess(float(plan.epsilon), float(plan.delta))),
        "alone": alone,
        "honest": None if stated is None or plan.parameters.operators else plan.parameters.honest,
        **({} if plan.operators is None else {"operators": _operator_names(plan), "floor": plan.operators.floor}),
    }


def _operator_names(plan: Plan) -> list[str]:
    return [] if plan.members is None else [*plan.members.operators]


def price_lines(plan: Plan) -> list[str]:
    """Say what a release of the plan costs each person, before anybody agrees to it.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> print(price_lines(plan)[0])
    price for each person: ε = 1, δ = 1e-6; a guess whether one was in the data is right at most 73.2% of the time
    """
    record = price_record(plan)
    if not record:
        return []
    lines = [
        f"price for each {plan.unit.holder}: {brief(cost_of(plan.budget))}; a guess whether one was in the data is "
        f"right at most {record['guess']} of the time"
    ]
    if plan.operators is not None:
        lines += _operator_lines(plan, record)
    elif record["alone"] is not None:
        lines.append(
            f"the noise is enough if at least {record['honest']:,} entities, yours included, draw their share and keep "
            f"it secret; if all others collude: ε = {record['alone']}"
        )
    return lines


def _operator_lines(plan: Plan, record: dict[str, Any]) -> list[str]:
    assert plan.operators is not None
    names = record["operators"]
    who = f"two operators, {' and '.join(names)}," if names else "two operators"
    added = {
        "operators": f"{who} add the noise; it holds if one of them is honest",
        "both": f"{who} add the noise, and you a share of one more; it holds if one of them is honest",
        "entities": f"{who} open only the sum, and add no noise; it holds if one of them is honest and at least "
        f"{record['honest'] or 0:,} entities, yours included, draw their share and keep it secret",
    }[plan.operators.noise]
    both = plan.coalitions[-1]
    lost = f"ε = {rounded_up(both.epsilon)}" if both.kept else "your exact sums are open to them"
    return [
        f"{added}; if both work together: {lost}",
        f"nothing is published of fewer than {plan.operators.floor:,} entities",
    ]
