"""What a plan says about a round-1 message before it is seen: how many prototypes, in which units, with which noise.

All of it follows from public numbers, so a message that says otherwise was not made by this plan. The noise is read off
the events of the mechanism's price, the same that a ledger reserves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from twofold.errors import BadPlan, Set, TwofoldError
from twofold.federation.plan import Plan
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, Event, NonPrivateEvent, flatten
from twofold.release.bilinear.mechanism import Bilinear, noise_deviation
from twofold.release.cells import laplace_deviation
from twofold.release.choose import choose
from twofold.release.content import Noise, Units
from twofold.release.contract import Mechanism, ReleaseParameters
from twofold.release.records import RecordPlan

__all__ = ["LARGEST_NUMBER", "MOST_ROWS", "Expected", "chosen_mechanism", "expected"]

#: Of a whole number in a message: 10,000 entities add up without overflow of 64 bits.
LARGEST_NUMBER: Final = (2**63 - 1) // 10_000
#: Prototypes of a message whose number private data decide ("exact": one per user); only a simulation has such.
MOST_ROWS: Final = 1_000_000
#: Bytes of such a message.
_MOST_BYTES: Final = 4 * 2**30
# Noise exceeds this many standard deviations about once in 10^20 draws (Laplace; a Gaussian never).
_FAR: Final = 32
_RAISE: Final = "raise epsilon, or lower max_items"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What every message of a plan has in common.

    Parameters
    ----------
    mechanism : str
        Which mechanism made it; that which "auto" chooses.
    reason : str
        Why, when "auto" chose.
    private : bool
        Whether that one has a proof.
    rows : int or None
        How many prototypes; None where private data decide, then at most `most_rows`.
    most_rows : int
        The same, or the largest number allowed.
    observed : bool
        Whether observation counts are in it.
    units : Units
        What its whole numbers are worth.
    noise : Noise
        Standard deviations of its noise.
    length : int
        Numbers of a bilinear statistic, in one row; 0 for prototypes.
    deviation : float
        Standard deviation of the noise in each of these, in whole numbers.
    """

    mechanism: str
    reason: str
    private: bool
    rows: int | None
    most_rows: int
    observed: bool
    units: Units
    noise: Noise
    length: int = 0
    deviation: float = 0.0


def chosen_mechanism(plan: Plan) -> tuple[Mechanism, str]:
    """Give the mechanism that will run and, when "auto" chose it, why.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> mechanism, reason = chosen_mechanism(plan)
    >>> mechanism.name, reason[:30]
    ('popularity', 'popularity: even added up over')
    """
    if plan.mechanism != "auto":
        return plan.release_mechanism, ""
    choice = choose(plan.public)
    return choice.mechanism, choice.reason


@lru_cache(maxsize=32)
def expected(plan: Plan) -> Expected:
    """Compute what every message of a plan has in common; refuse a plan whose messages could not be added up.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> found = expected(plan)
    >>> found.mechanism, found.rows, found.noise.law
    ('popularity', 1, 'gaussian')
    """
    public, (mechanism, reason), rows, (units, noise) = _worked_out(plan)
    _check_room(units, noise)
    length, deviation = _vector(mechanism, public)
    return Expected(
        mechanism=mechanism.name,
        reason=reason,
        private=mechanism.private,
        rows=rows,
        most_rows=rows or max(1, min(MOST_ROWS, _MOST_BYTES // (8 * (2 * public.n_items + 1)))),
        observed=public.feedback == "ratings",
        units=units,
        noise=noise,
        length=length,
        deviation=deviation,
    )


def _vector(mechanism: Mechanism, public: ReleaseParameters) -> tuple[int, float]:
    if not isinstance(mechanism, Bilinear):
        return 0, 0.0
    return mechanism.layout(public).length, noise_deviation(public, mechanism.kind)


def _worked_out(plan: Plan) -> tuple[ReleaseParameters, tuple[Mechanism, str], int | None, tuple[Units, Noise]]:
    """Ask the mechanism; numbers that each are in range can still ask for noise that nobody can draw."""
    try:
        public, chosen = plan.public, chosen_mechanism(plan)
        rows = chosen[0].size(public)
        if isinstance(chosen[0], Bilinear):
            return public, chosen, rows, _of_vector(chosen[0], public)
        _refuse_secure(plan, chosen[0])
        return public, chosen, rows, _units_and_noise(public, chosen[0].price(public), rows)
    except BadPlan:
        raise
    except TwofoldError as error:
        raise error.as_(BadPlan, fix=error.parts["fix"] or _RAISE) from None
    except ArithmeticError:
        raise BadPlan("the numbers of the plan are out of proportion.", fix=_RAISE) from None


def _refuse_secure(plan: Plan, mechanism: Mechanism) -> None:
    if plan.secure is not None:
        raise cannot_be_summed(mechanism)


def cannot_be_summed(mechanism: Mechanism) -> BadPlan:
    """Name a mechanism whose messages cannot be added up under masks."""
    return BadPlan(
        "this mechanism cannot be summed securely.",
        found=mechanism.name,
        expected="gram, sketch or features: one row of whole numbers from every entity",
        fix=(Set("mechanism", "gram"), "no secure sum"),
        parameter="mechanism",
    )


def _of_vector(mechanism: Bilinear, public: ReleaseParameters) -> tuple[Units, Noise]:
    """Units and noise of the sums, observations and count of a bilinear statistic."""
    layout, size = mechanism.layout(public), noise_deviation(public, mechanism.kind)
    units = Units(values=layout.sums_unit, observed=layout.observed_unit or 1.0, counts=layout.count_unit)
    observed = size * units.observed if public.feedback == "ratings" else 0.0
    noise = Noise(law=public.law, values=size * units.values, observed=observed, counts=size * units.counts)
    return units, noise


def _units_and_noise(public: ReleaseParameters, price: Event, rows: int | None) -> tuple[Units, Noise]:
    """Read both off the last events of a price: those are what leaves, earlier ones only steer."""
    last = list(flatten(price))[-2:]
    if isinstance(last[-1], NonPrivateEvent):
        return RecordPlan.of(public).units, Noise(law="none", values=0.0, observed=0.0, counts=0.0)
    # One number per prototype: counts alone, and the sums had an event of their own before (Balcan, counts).
    if getattr(last[-1], "coordinates", 0) == rows:
        return _parted(last[0], last[1])
    return _together(public, last[-1])


def _together(public: ReleaseParameters, event: Event) -> tuple[Units, Noise]:
    """Sums, observations and counts with one noise (`CellNoise`)."""
    law: Literal["laplace", "gaussian"] = "gaussian" if isinstance(event, DiscreteGaussianEvent) else "laplace"
    units = RecordPlan.of(public if law == "gaussian" else public.with_(delta=0)).units
    size = _deviation(event)
    observed = size * units.observed if public.feedback == "ratings" else 0.0
    noise = Noise(law=law, values=size * units.values, observed=observed, counts=size * units.counts)
    return units, noise


def _parted(sums: Event, counts: Event) -> tuple[Units, Noise]:
    """Sums and counts with a noise each."""
    step = float(getattr(sums, "grid", 1))
    units = Units(values=step, observed=1.0, counts=1.0)
    return units, Noise(law="laplace", values=_deviation(sums) * step, observed=0.0, counts=_deviation(counts))


def _deviation(event: Event) -> float:
    if isinstance(event, DiscreteGaussianEvent):
        return math.sqrt(event.variance)
    if isinstance(event, DiscreteLaplaceEvent):
        return laplace_deviation(float(event.scale))
    raise BadPlan("the noise of this mechanism is not known to the protocol.", found=event.kind)


def _check_room(units: Units, noise: Noise) -> None:
    sizes = (noise.values / units.values, noise.observed / units.observed, noise.counts / units.counts)
    if max(sizes) * _FAR > LARGEST_NUMBER:
        raise BadPlan(
            "the noise is so large that messages could not be added up.",
            expected=f"noise below {LARGEST_NUMBER // _FAR:.0e} steps of its grid",
            fix=_RAISE,
        )
