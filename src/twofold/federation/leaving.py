"""What would leave an entity under a plan, before any data is touched."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from twofold.federation.expected import chosen_mechanism, expected
from twofold.federation.messages import message_limit, numbers_of
from twofold.federation.plan import Plan
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.release.bilinear.layout import KINDS
from twofold.release.bilinear.mechanism import Bilinear, alone_epsilon
from twofold.release.content import Kind, Noise, Units

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
        How many numbers, and in how many bytes: eight each, in a secure sum as many as its modulus takes.
    most_bytes : int
        Most bytes of the whole message, its header included.
    guarantee, replace_one, across : PureDP or ApproxDP
        Price per unit; if one unit is replaced by another; and of a unit found in as many entities as the plan says.
    units, noise : Units, Noise
        What a whole number is worth, and the standard deviations of the noise.
    alone : float or None
        For a secure sum: ε of one entity's message seen alone, should all others collude with the server.
    honest : int
        For a secure sum: among how many entities the noise is shared; 0 without one.
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
    alone: float | None = None
    honest: int = 0

    @property
    def bilinear(self) -> Kind | None:
        """Which bilinear statistic leaves; None for prototypes."""
        return next((kind for kind in KINDS if kind == self.mechanism), None)

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
        alone = "infinite" if self.alone == math.inf else self.alone
        record |= {"alone": alone, "honest": self.honest}
        return record | {"units": asdict(self.units), "noise": asdict(self.noise)}


def leaving(plan: Plan) -> Leaving:
    """Say what one message of a plan holds, and its price.

    Privacy
    -------
    Touches no data.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> found = leaving(plan)
    >>> found.mechanism, found.arrays, found.bytes
    ('popularity', {'sums': (1, 457), 'counts': (1,)}, 3664)
    """
    wanted, arrays = expected(plan), _arrays(plan)
    numbers = None if arrays is None else sum(map(math.prod, arrays.values()))
    mechanism, honest = chosen_mechanism(plan)[0], plan.public.honest
    return Leaving(
        mechanism=wanted.mechanism,
        reason=wanted.reason,
        private=wanted.private,
        arrays=arrays,
        numbers=numbers,
        bytes=None if numbers is None else numbers_of(plan, wanted),
        most_bytes=message_limit(plan),
        guarantee=plan.budget,
        replace_one=plan.budget.replace_one(),
        across=_across(plan),
        units=wanted.units,
        noise=wanted.noise,
        alone=alone_epsilon(plan.public, mechanism.kind) if honest and isinstance(mechanism, Bilinear) else None,
        honest=honest,
    )


def _across(plan: Plan) -> PureDP | ApproxDP:
    """Price for a holder in several entities: of several releases, or of one sum that they move several times."""
    if not plan.public.honest or plan.unit.entities == 1:
        return plan.unit.across(plan.budget)
    whole = plan.unit.across_one_noise(plan.public.budget)
    return whole if isinstance(whole, PureDP) else whole.to_approx(plan.delta)


def _arrays(plan: Plan) -> dict[str, tuple[int, ...]] | None:
    """Shape of each array; None where private data decide the number of rows."""
    wanted = expected(plan)
    if wanted.length:
        return {"numbers": (wanted.length,)}
    if wanted.rows is None:
        return None
    arrays: dict[str, tuple[int, ...]] = {"sums": (wanted.rows, plan.n_items), "counts": (wanted.rows,)}
    return arrays | ({"observed": (wanted.rows, plan.n_items)} if wanted.observed else {})
