"""An entity's account: its ledger, and what one release of a plan asks of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.errors import BudgetExceeded
from twofold.federation.messages import message_limit
from twofold.federation.plan import Plan
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.events import Event, NonPrivateEvent, flatten, is_seeded
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.reservation import Request, check
from twofold.privacy.rng import Source

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = ["LedgerCharge", "NewLedger", "NothingExpected", "describe", "open_account", "paid"]


class NewLedger(UserWarning):
    """A new ledger was created: if these people already had one, their budget is now double."""


class NothingExpected(UserWarning):
    """By the plan's public numbers, noise will hide everything in the release; it costs its price all the same."""


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
            before = _before(self.ledger, self.plan, version)
            if before:
                raise _ended_before(error, waits="open" in before) from None
            raise

    def check_room(self, version: str) -> None:
        """Refuse a release that the ledger could not pay for; one that is stored or reserved needs no room.

        Privacy
        -------
        Looks at the plan and the ledger only. Writes nothing.
        """
        if paid(self.ledger, self.plan, version):
            return
        asked: dict[str, Any] = {"plan": self.plan.hash, "version": version, "unit": self.plan.unit, "cost": self.cost}
        request = Request(data="0" * 64, events=[self.event], **asked)  # no data is looked at
        try:
            check(request, self.ledger.state(), name=self.ledger.path.name)
        except BudgetExceeded as error:
            if _before(self.ledger, self.plan, version):
                raise _ended_before(error, waits=False) from None
            raise


def paid(ledger: Ledger, plan: Plan, version: str) -> bool:
    """Whether a release of this version is stored or reserved, so that nothing more would be spent on it."""
    return bool(_before(ledger, plan, version) & {"released", "open"})


def _before(ledger: Ledger, plan: Plan, version: str) -> set[str]:
    return {entry.status for entry in ledger.state().entries if entry.key == (plan.hash, version)}


def open_account(
    where: str | PathLike[str] | Ledger, plan: Plan, *, dataset: str, event: Event, signer: SigningKey | None = None
) -> LedgerCharge:
    """Open the ledger, or create one with room for exactly this plan and warn about it.

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
    signer : SigningKey, optional
        Signs the head of the ledger.
    """
    real = not is_seeded(event) and not any(isinstance(one, NonPrivateEvent) for one in flatten(event))
    cost = plan.budget if real else None
    if isinstance(where, Ledger):
        ledger = where if signer is None else Ledger(where.path, signer=signer)
    else:
        ledger = _found_or_made(Path(where), plan, dataset, cost, signer)
    # Where private data decide the size (simulations only), there is no public size to claim.
    sized = plan.spec.rows is not None
    return LedgerCharge(ledger=ledger, plan=plan, event=event, cost=cost, room=message_limit(plan) if sized else 0)


def _found_or_made(
    path: Path, plan: Plan, dataset: str, cost: PureDP | ApproxDP | None, signer: SigningKey | None
) -> Ledger:
    ledger, made = Ledger.open_or_create(path, dataset=dataset, ceiling=cost, unit=plan.unit, signer=signer)
    if made:
        warnings.warn(
            f"a new ledger was created: {path}. It has room for this one plan. If these people already have a ledger, "
            "stop before anything is released and name theirs. With two ledgers, their budget is spent twice.",
            NewLedger,
            stacklevel=5,
        )
    return ledger


def _ended_before(error: BudgetExceeded, *, waits: bool) -> BudgetExceeded:
    """Explain the cost; for the entity's screen only, since whether the ratings changed is private."""
    again = "use the ratings, plan and software of that draw to finish it at no cost; or "
    return BudgetExceeded(
        "an earlier draw for this plan was paid for but gave no message; no budget is left for another.",
        found=error.found,
        expected=f"{error.expected}. The result of a draw that ended early is unknown, so its cost stays spent",
        fix=again * waits + (error.fix or ""),
        parameter="draw",
    )


def describe(plan: Plan) -> dict[str, Any]:
    """Public facts for the privacy card: what leaves, and the numbers for comparing noise and signal.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60, n_users=9)
    >>> describe(plan)["what"]
    '1 prototype over 457 items: noisy sums of counts and a noisy number of users each (popularity, plan federation)'
    """
    marked: dict[str, Any] = {"simulation": True} if plan.simulation else {}
    spec, hidden = plan.spec, ""
    if plan.peers is not None:
        hidden = f", masked: the server sees only the sum of at least {plan.peers.survivors} such messages"
        marked |= {name: getattr(plan.peers, name) for name in ("colluders", "survivors")}
        marked |= {"entities": plan.expected_entities}
    if plan.operators is not None:
        floor = plan.operators.floor
        hidden = f", in two sealed shares: each operator alone sees only the sum of at least {floor} messages"
        marked |= {name: getattr(plan.operators, name) for name in ("colluders", "floor", "noise")}
        marked |= {"sharing": "operators", "entities": plan.expected_entities}
        named = {} if plan.members is None else plan.members.operators
        marked |= {"operators": {name: one.words for name, one in named.items()}, "writer": plan.writer or ""}
        marked |= {"people": plan.n_entities} if plan.people else {}
    about: dict[str, Any] = {"what": f"{spec.what} ({spec.mechanism}, plan {plan.name}){hidden}"} | marked
    if spec.sum is not None:
        limits = {"n_users": plan.n_users, "bound": plan.parameters.value_cap, "max_items": plan.max_items}
        return about | limits
    numbers = {
        "n_items": plan.n_items,
        "n_users": plan.n_users,
        "bound": plan.parameters.value_cap,
        "max_items": plan.max_items,
        "n_prototypes": spec.rows or plan.n_prototypes,
        "n_entities": plan.n_entities,
    }
    return about | {"public_numbers": numbers | ({"delta": float(plan.delta)} if plan.delta else {})}
