"""The ledger behind a release: found or made, what it is charged, and what its card will say."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from twofold.errors import BudgetExceeded
from twofold.federation.messages import message_limit
from twofold.federation.plan import Plan
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.events import Event, NonPrivateEvent, flatten, is_seeded
from twofold.privacy.ledger import Ledger
from twofold.privacy.rng import Source

__all__ = ["LedgerCharge", "NewLedger", "describe", "open_account"]


class NewLedger(UserWarning):
    """A ledger was made where there was none: if these people had one already, their budget is now double."""


@dataclass(frozen=True, kw_only=True)
class LedgerCharge:
    """A ledger, and what one release of a plan asks of it."""

    ledger: Ledger
    plan: Plan
    event: Event
    cost: PureDP | ApproxDP | None
    room: int

    def release(self, *, data: str, version: str, draw: Callable[[], bytes] | Callable[[Source], bytes]) -> bytes:
        """Give the stored release of the plan, or pay for a new one and draw it; see `Ledger.release`."""
        try:
            return self.ledger.release(
                plan=self.plan.hash,
                data=data,
                version=version,
                events=[self.event],
                unit=self.plan.unit,
                cost=self.cost,
                about=describe(self.plan),
                room=self.room,
                draw=draw,
            )
        except BudgetExceeded as error:
            before = self._before(version)
            if before:
                raise _ended_before(error, waits="open" in before) from None
            raise

    def _before(self, version: str) -> set[str]:
        key = (self.plan.hash, version)
        return {entry.status for entry in self.ledger.state().entries if entry.key == key}


def open_account(where: str | PathLike[str] | Ledger, plan: Plan, *, dataset: str, event: Event) -> LedgerCharge:
    """Open the ledger, or make one with room for exactly this plan and warn about it.

    Parameters
    ----------
    where : path or Ledger
        The ledger file, or the ledger.
    plan : Plan
        Says unit and price.
    dataset : str
        Public name for a new ledger.
    event : Event
        What will be drawn; what is not private is charged as such.
    """
    real = not is_seeded(event) and not any(isinstance(one, NonPrivateEvent) for one in flatten(event))
    cost = plan.budget if real else None
    ledger = where if isinstance(where, Ledger) else _found_or_made(Path(where), plan, dataset, cost)
    # Where private data decide the size (simulations only), there is no public size to claim.
    sized = plan.spec.rows is not None
    return LedgerCharge(ledger=ledger, plan=plan, event=event, cost=cost, room=message_limit(plan) if sized else 0)


def _found_or_made(path: Path, plan: Plan, dataset: str, cost: PureDP | ApproxDP | None) -> Ledger:
    ledger, made = Ledger.open_or_create(path, dataset=dataset, ceiling=cost, unit=plan.unit)
    if made:
        warnings.warn(
            f"a new ledger was made: {path}. It has room for this one plan. If these people already have a ledger, "
            "stop: take the new one away and name theirs, or what they were promised is spent twice.",
            NewLedger,
            stacklevel=5,
        )
    return ledger


def _ended_before(error: BudgetExceeded, *, waits: bool) -> BudgetExceeded:
    """Say what became of the cost; whether the ratings changed is private, and this is for the entity's screen."""
    again = "ask with the ratings, plan and software of that draw, and it is finished without a cost; or "
    return BudgetExceeded(
        "an earlier draw for this plan was paid for and ended without a message; there is no room to pay for another.",
        found=error.found,
        expected=f"{error.expected}. What became of a draw that ended early is not known, so its cost stays spent",
        fix=again * waits + (error.fix or ""),
    )


def describe(plan: Plan) -> dict[str, Any]:
    """Public facts for the privacy card: what leaves, and the numbers that noise and signal are compared by.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> describe(plan)["what"]
    '1 prototype over 457 items: noisy sums of counts and a noisy number of users each (popularity, plan federation)'
    """
    marked = {"simulation": True} if plan.simulation else {}
    spec, hidden = plan.spec, ""
    if plan.secure is not None:
        hidden = f", masked: the server sees only the sum of at least {plan.secure.survivors} such messages"
    about: dict[str, Any] = {"what": f"{spec.what} ({spec.mechanism}, plan {plan.name}){hidden}"} | marked
    if spec.sum is not None:
        return about
    numbers = {
        "n_items": plan.n_items,
        "n_users": plan.n_users,
        "bound": plan.parameters.value_cap,
        "max_items": plan.max_items,
        "n_prototypes": spec.rows or plan.n_prototypes,
        "n_entities": plan.n_entities,
    }
    return about | {"public_numbers": numbers | ({"delta": float(plan.delta)} if plan.delta else {})}
