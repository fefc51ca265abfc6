"""What would leave an entity under a plan, before any data is touched."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from twofold.privacy.budget import ApproxDP, PureDP
from twofold.protocol.expected import expected
from twofold.protocol.messages import message_limit
from twofold.protocol.plan import Plan
from twofold.prototypes.message import Noise, Units

__all__ = ["Leaving", "leaving"]


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """One round-1 message, as far as public numbers decide it.

    Parameters
    ----------
    mechanism, reason : str
        Which mechanism runs, and why when "auto" chose it.
    private : bool
        Whether it has a proof.
    arrays : dict
        Shape of each array of whole numbers; None where private data decide the number of rows.
    numbers, bytes : int or None
        How many numbers, eight bytes each.
    most_bytes : int
        Most bytes of the whole message, its header included.
    guarantee, replace_one, across : PureDP or ApproxDP
        Price per unit; if one unit is replaced by another; and of a unit found in as many entities as the plan says.
    units, noise : Units, Noise
        What a whole number is worth, and the standard deviations of the noise.
    """

    mechanism: str
    reason: str
    private: bool
    arrays: dict[str, tuple[int, ...]] | None
    numbers: int | None
    bytes: int | None
    most_bytes: int
    guarantee: PureDP | ApproxDP
    replace_one: PureDP | ApproxDP
    across: PureDP | ApproxDP
    units: Units
    noise: Noise

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON."""
        record: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("mechanism", "reason", "private", "arrays", "numbers", "bytes", "most_bytes")
        }
        for name in ("guarantee", "replace_one", "across"):
            promise = getattr(self, name)
            delta = float(getattr(promise, "delta", 0))
            record[name] = {"epsilon": float(promise.epsilon), "delta": delta} if self.private else None
        return record | {"units": asdict(self.units), "noise": asdict(self.noise)}


def leaving(plan: Plan) -> Leaving:
    """Say what one message of a plan holds, and its price.

    Privacy
    -------
    Touches no data.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> found = leaving(plan)
    >>> found.mechanism, found.arrays, found.bytes
    ('popularity', {'sums': (1, 457), 'counts': (1,)}, 3664)
    """
    wanted, rows = expected(plan), expected(plan).rows
    arrays: dict[str, tuple[int, ...]] | None = None
    if rows is not None:
        arrays = {"sums": (rows, plan.n_items), "counts": (rows,)}
        arrays |= {"observed": (rows, plan.n_items)} if wanted.observed else {}
    numbers = None if rows is None else rows * (plan.n_items * (1 + wanted.observed) + 1)
    return Leaving(
        mechanism=wanted.mechanism,
        reason=wanted.reason,
        private=wanted.private,
        arrays=arrays,
        numbers=numbers,
        bytes=None if numbers is None else 8 * numbers,
        most_bytes=message_limit(plan),
        guarantee=plan.budget,
        replace_one=plan.budget.replace_one(),
        across=plan.unit.across(plan.budget),
        units=wanted.units,
        noise=wanted.noise,
    )
