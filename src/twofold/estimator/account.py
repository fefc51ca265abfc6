"""Who pays for a fit: ledgers the caller names, or an account that lives as long as this process.

`fit` looks harmless, and a search over parameters calls it again and again. So a fit in a federation that is not a
simulation is paid for once per plan and data; anything that would spend a second time is refused with the sum it
would reach.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from twofold.data.federation import Federation
from twofold.data.identifiers import Identifiers
from twofold.data.ratings import Ratings
from twofold.errors import SilentSpending
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.request import FIRST
from twofold.protocol.plan import Plan

__all__ = ["ACCOUNT", "Account", "refuse_stale"]

_WAYS_OUT = (
    'FederatedRecommender(..., ledgers="ledgers") to spend knowingly, or Plan(..., simulation=True) to try things'
)


@dataclass(frozen=True, kw_only=True)
class _Paid:
    """One release of one entity in this process."""

    ledger: Path
    users: Identifiers
    plan: str
    data: str
    epsilon: Fraction

    def concerns(self, users: Identifiers) -> bool:
        """Whether it was drawn, and anyone of these people was in it."""
        return self.ledger.exists() and bool((self.users.encode(users.to_polars()) >= 0).any())


@dataclass
class Account:
    """Ledgers in a folder that vanishes with the process.

    Privacy
    -------
    Forgets when the process ends: running a script twice spends twice. For data of real people give ledgers.
    """

    _paid: dict[str, list[_Paid]] = field(default_factory=dict)
    _folder: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ledgers(self, federation: Federation, plan: Plan, names: Mapping[Any, str]) -> dict[Any, Path | None]:
        """Give every entity the ledger of this plan and data, or refuse before anyone has spent.

        Raises
        ------
        SilentSpending
            Somebody's people were in another release already, or this is a worker process.
        """
        if multiprocessing.parent_process() is not None:
            raise SilentSpending(
                "a worker process forgets what it spent, and the others do not see it; nothing was drawn.",
                fix=f"n_jobs=None, or {_WAYS_OUT}",
            )
        with self._lock:
            wanted = {label: self._wanted(names[label], federation[label], plan) for label in federation}
            for label, paid in wanted.items():
                if paid not in (known := self._paid.setdefault(names[label], [])):
                    known.append(paid)
        return {label: paid.ledger for label, paid in wanted.items()}

    def forget(self) -> None:
        """Start anew; for tests."""
        with self._lock:
            self._paid.clear()
            if self._folder is not None:
                _remove(self._folder, os.getpid())
            self._folder = None

    def _wanted(self, name: str, ratings: Ratings, plan: Plan) -> _Paid:
        data, before = ratings.digest(), self._paid.get(name, [])
        for paid in before:
            if (paid.plan, paid.data) == (plan.hash, data):
                return paid
        concerned = [paid for paid in before if paid.concerns(ratings.user_ids)]
        if concerned:
            raise _refused(name, plan, concerned, same_plan=any(paid.plan == plan.hash for paid in concerned))
        path = self._home() / f"{name}.{len(before)}.ledger"
        return _Paid(ledger=path, users=ratings.user_ids, plan=plan.hash, data=data, epsilon=Fraction(plan.epsilon))

    def _home(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="twofold-account-"))
            atexit.register(_remove, self._folder, os.getpid())
        return self._folder


def _remove(folder: Path, owner: int) -> None:
    """Take the folder away, unless this is a fork of the process that still needs it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _refused(name: str, plan: Plan, concerned: list[_Paid], *, same_plan: bool) -> SilentSpending:
    spent = sum((paid.epsilon for paid in concerned), Fraction(0))
    what = "with other data" if same_plan else "with another plan"
    return SilentSpending(
        f"entity {name}: this process already released its people {what}, and this fit would spend again. "
        "Nothing was drawn.",
        found=f"ε {float(spent):g} spent; ε {float(spent + Fraction(plan.epsilon)):g} after this fit",
        expected="one release per entity, or a budget that somebody has agreed to",
        fix=_WAYS_OUT,
    )


def refuse_stale(federation: Federation, plan: Plan, ledgers: Mapping[Any, Path]) -> None:
    """Refuse to fit on a stored release that was drawn from other data than those in hand.

    Privacy
    -------
    Says to the caller, who holds the data, that they changed; no message depends on it.
    """
    for label, path in ledgers.items():
        entry = Ledger(path).state().released(plan.hash, FIRST) if path.exists() else None
        if entry is not None and entry.request["data"] != federation[label].digest():
            raise SilentSpending(
                f"entity {label!r:.60}: its ledger holds a release of this plan for other data. A fit would use that "
                "old release, or spend again. Nothing was drawn.",
                expected="the data that were released, or another plan with room in the ledger",
                fix="fit the same data, or release the new data knowingly: Entity(..., version='2').prototypes()",
            )


#: The one account of this process.
ACCOUNT = Account()
