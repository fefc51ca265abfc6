"""Where a fit is charged: ledgers that the caller names, or a guard that lasts as long as this process.

`fit` looks harmless, and a search over parameters calls it again and again. So a fit in a federation that is not a
simulation is paid for once per plan, data and entity name; anything that would spend a second time is refused with the
sum it would reach. People are told apart by the text of their ids alone: neither the name of their entity nor the type
of the column makes them somebody else.
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

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.data.catalog import Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.errors import Set, SilentSpending
from twofold.federation.plan import Plan
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.reservation import FIRST
from twofold.simulation.members import known_plan

__all__ = ["GUARD", "SpendingGuard", "refuse_stale"]

_WAYS_OUT = (
    'FederatedRecommender(..., ledgers="ledgers") to spend knowingly, or Plan(..., simulation=True) to try things'
)


@dataclass(frozen=True, kw_only=True)
class _Paid:
    """One release of one entity in this process; its ledger exists once it was drawn."""

    ledger: Path
    name: str
    users: pl.Series
    plan: str
    data: str
    epsilon: Fraction

    @property
    def key(self) -> tuple[str, str, str]:
        """What must be equal for the stored message to be reused."""
        return self.name, self.plan, self.data

    def met(self, users: pl.Series) -> NDArray[np.bool_]:
        """Those of these people who were in the release."""
        if not self.ledger.exists():
            return np.zeros(len(users), np.bool_)
        return users.is_in(self.users.implode()).to_numpy()


@dataclass
class SpendingGuard:
    """Gives entities ledgers in a folder that ends with the process, and refuses to spend twice.

    Privacy
    -------
    Forgets when the process ends: running a script twice spends twice. For data of real people give ledgers.
    """

    _paid: list[_Paid] = field(default_factory=list)
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
                "a worker process does not remember what it spent, and the others do not see it; nothing was drawn.",
                fix=(Set("n_jobs", None), _WAYS_OUT),
                parameter="n_jobs",
            )
        with self._lock:
            wanted = {label: self._wanted(names[label], federation[label], plan) for label in federation}
            known = {paid.key for paid in self._paid}
            self._paid += [paid for paid in wanted.values() if paid.key not in known]
        return {label: paid.ledger for label, paid in wanted.items()}

    def forget(self) -> None:
        """Start again; for tests."""
        with self._lock:
            self._paid.clear()
            if self._folder is not None:
                _remove(self._folder, os.getpid())
            self._folder = None

    def _wanted(self, name: str, ratings: Ratings, plan: Plan) -> _Paid:
        """Find or plan the release of one entity; people in one fit are different people, whatever their ids."""
        key = (name, plan.hash, ratings.digest())
        again = next((paid for paid in self._paid if paid.key == key), None)
        if again is not None and again.ledger.exists():
            return again
        users = _texts(ratings.user_ids)
        concerned = [(paid, met) for paid in self._paid if (met := paid.met(users)).any()]
        if concerned:
            spent = sum(float(paid.epsilon) * met for paid, met in concerned)
            raise _refused(key, plan, [paid for paid, _ in concerned], float(np.max(spent)))
        if again is not None:  # planned before, and failed before anything was drawn
            return again
        path = self._home() / f"{name}.{len(self._paid)}.ledger"
        return _Paid(ledger=path, name=name, users=users, plan=plan.hash, data=key[2], epsilon=Fraction(plan.epsilon))

    def _home(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="twofold-account-"))
            atexit.register(_remove, self._folder, os.getpid())
        return self._folder


def _remove(folder: Path, owner: int) -> None:
    """Remove the folder, unless this is a fork of the process that still needs it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _texts(ids: Identifiers) -> pl.Series:
    """Ids as text, the same for every type a column may have been read as: 7, 7.0 and "7", or b"ann" and "ann"."""
    return pl.Series([_text(value) for value in ids], dtype=pl.String)


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value).strip()


def _refused(key: tuple[str, str, str], plan: Plan, concerned: list[_Paid], spent: float) -> SilentSpending:
    """Say in public words what differs from earlier releases; `spent` is the largest amount of any one person."""
    kinds = {"entity": "under another entity name", "plan": "with another plan", "data": "with other data"}
    other = [any(paid.key[at] != key[at] for paid in concerned) for at in range(3)]
    other[2] &= not any(other[:2])  # other data are news only where the rest is the same
    differs = [name for name, is_other in zip(kinds, other, strict=True) if is_other]
    what = " and ".join(kinds[name] for name in differs)
    return SilentSpending(
        f"entity {key[0]}: this process already released user ids of it {what}, and this fit would spend again. "
        "Nothing was drawn.",
        found=f"ε {spent:g} spent; ε {spent + float(plan.epsilon):g} after this fit",
        expected="one release per person, or an agreed budget",
        fix=_WAYS_OUT,
        parameter=", ".join(differs),
    )


def refuse_stale(federation: Federation, plan: Plan, names: Mapping[Any, str], ledgers: Mapping[Any, Path]) -> None:
    """Refuse to fit on a stored release that was drawn from other data.

    Privacy
    -------
    Says to the caller, who holds the data, that they changed; no message depends on it.
    """
    known = known_plan(plan, {names[label]: path for label, path in ledgers.items()}) if ledgers else plan
    for label, path in ledgers.items():
        entry = Ledger(path).state().released(known.hash, FIRST) if path.exists() else None
        if entry is not None and entry.request["data"] != federation[label].digest():
            raise SilentSpending(
                f"entity {label!r:.60}: its ledger holds a release of this plan for other data. A fit would use that "
                "old release, or spend again. Nothing was drawn.",
                expected="the data that were released, or another plan with room in the ledger",
                fix="fit the same data, or release the new data knowingly: Entity(..., version='2').release()",
                parameter="ledgers",
            )


#: The one guard of this process.
GUARD = SpendingGuard()
