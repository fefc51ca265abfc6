"""The cost of events: exact sums for pure ε, dp-accounting for Gaussian noise, a refusal for anything else.

An event is reduced to two lists of proven facts:

* *pure* parts, each an exact ε (Laplace, selection, threshold, a sum of Laplace shares);
* *concentrated* parts, each an exact ρ of zCDP (discrete Gaussian, a sum of Gaussian shares).

Sequential composition joins the lists. Parallel composition, over disjoint parts of the people where one's
part depends on oneself alone, keeps the largest ε and the largest ρ: whichever part a unit is in, it costs
no more. A non-private event makes everything infinite and is never dropped; so does seeded noise, because
anyone who knows the seed can subtract it. An event that is not listed here is refused (`UnsupportedEvent`), not
guessed.

Why Rényi and not privacy-loss distributions for Gaussian noise: the bound αΔ²/(2σ²) is proven for the
*discrete* Gaussian in any dimension (Canonne, Kamath and Steinke 2020); the tighter curve of the continuous
one is not. dp-accounting is imported only when it is needed, as it takes about a second.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from twofold.errors import BadPrivacyParameter, UnsupportedEvent
from twofold.privacy.budget import ZCDP, ApproxDP, Guarantee, NotPrivate, Number, PureDP, read_delta
from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    DiscreteLaplaceEvent,
    DiscreteLaplaceShareEvent,
    Event,
    NonPrivateEvent,
    OperatorSumEvent,
    ParallelEvent,
    SelectionEvent,
    SequentialEvent,
    ThresholdEvent,
    is_seeded,
)
from twofold.privacy.mechanisms.gaussian import rho_of_sum

__all__ = ["price", "spent"]

# Past this ε a randomised response is lost in floating point, and Rényi composition has nothing to gain.
_LARGEST_PURE = 16
_HOPELESS = Fraction(10) ** 300
_SEEDED = "the noise was seeded and can be repeated"


@dataclass(frozen=True)
class _Parts:
    """Proven costs inside an event: pure ε one by one, ρ summed, and the reason if it is not private."""

    pure: tuple[Fraction, ...] = ()
    rho: Fraction = Fraction(0)
    reason: str | None = None


def price(event: Event, *, as_if_private: bool = False) -> Guarantee:
    """Exact guarantee of an event, in the terms that are natural to it.

    Parameters
    ----------
    event : Event
        One event or a composed one.
    as_if_private : bool
        Price seeded noise as if it had come from the operating system. For experiments, never for a ledger.

    Returns
    -------
    PureDP, ZCDP or NotPrivate
        An event with both Laplace and Gaussian parts has no exact single term: use `spent` with a δ.

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> laplace = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=60, scale=120, coordinates=457)
    >>> price(SequentialEvent.of(laplace, laplace))
    PureDP(epsilon=Fraction(1, 1))
    >>> price(ParallelEvent.of(laplace, laplace))
    PureDP(epsilon=Fraction(1, 2))
    """
    parts = _checked(event, as_if_private)
    if parts.reason is not None:
        return NotPrivate(reason=parts.reason)
    if parts.pure and parts.rho:
        raise BadPrivacyParameter(
            "this event has pure and Gaussian parts, so its price needs a δ.",
            fix="spent(event, delta=1e-6)",
            parameter="delta",
        )
    return ZCDP(rho=parts.rho) if parts.rho else PureDP(epsilon=sum(parts.pure))


def spent(event: Event, *, delta: Number = 0, as_if_private: bool = False) -> ApproxDP | NotPrivate:
    """(ε, δ) cost of an event: the smallest of its proven bounds.

    Parameters
    ----------
    event : Event
        One event or a composed one.
    delta : number
        The δ to state ε at; 0 is possible for pure events only.
    as_if_private : bool
        As for `price`.

    Privacy
    -------
    Three valid bounds are compared: the sum of the pure ε (exact; the only one at δ = 0), that sum plus the
    converted ρ, and the Rényi composition of all parts by dp-accounting, in which a pure ε is represented by
    the randomised response that dominates every ε-private mechanism (Kairouz, Oh and Viswanath 2015).

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> gauss = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=50, coordinates=9)
    >>> round(float(spent(gauss, delta=1e-6).epsilon), 3)
    0.622
    """
    level = read_delta(delta)
    parts = _checked(event, as_if_private)
    if parts.reason is not None:
        return NotPrivate(reason=parts.reason)
    total = sum(parts.pure, Fraction(0))
    if level == 0:
        if parts.rho:
            raise BadPrivacyParameter(
                "Gaussian noise does not give a pure ε.", found="delta = 0", fix="delta=1e-6", parameter="delta"
            )
        return ApproxDP(epsilon=total)
    if not parts.rho and len(parts.pure) == 1:
        return ApproxDP(epsilon=total)
    plain = total + (ZCDP(rho=parts.rho).to_approx(level).epsilon if parts.rho else 0)
    joined = _renyi(parts, level)
    if not parts.rho and plain <= joined:
        return ApproxDP(epsilon=total)  # the plain sum is the least and needs no δ
    return ApproxDP(epsilon=min(plain, joined) or plain, delta=level)  # a δ near 1 brings the Rényi bound to 0


def _checked(event: Event, as_if_private: bool) -> _Parts:
    parts = _parts(event)
    if is_seeded(event) and not as_if_private and parts.reason is None:
        return _Parts(reason=_SEEDED)
    return parts


def _parts(event: Event) -> _Parts:
    """Reduce an event; exact types only, so that a subclass with another meaning is not mistaken for it."""
    kind = type(event)
    if kind is SequentialEvent:
        return _sequential([_parts(one) for one in event.events])  # type: ignore[attr-defined]
    if kind is ParallelEvent:
        return _parallel([_parts(one) for one in event.events])  # type: ignore[attr-defined]
    pricing = _PRICES.get(kind)
    if pricing is None:
        raise UnsupportedEvent("the accountant cannot price this event.", found=f"{kind.__name__} ({event.kind})")
    return pricing(event)  # type: ignore[no-any-return]


def _sequential(parts: list[_Parts]) -> _Parts:
    return _Parts(
        pure=tuple(epsilon for one in parts for epsilon in one.pure),
        rho=sum((one.rho for one in parts), Fraction(0)),
        reason=next((one.reason for one in parts if one.reason is not None), None),
    )


def _parallel(parts: list[_Parts]) -> _Parts:
    """Most expensive part; the ε of a part are joined, since different parts have different lists."""
    dearest = max(sum(one.pure, Fraction(0)) for one in parts)
    return _Parts(
        pure=(dearest,) if dearest else (),
        rho=max(one.rho for one in parts),
        reason=next((one.reason for one in parts if one.reason is not None), None),
    )


def _selection(event: SelectionEvent) -> _Parts:
    factor = event.picks * (1 if event.monotone else 2)
    return _Parts(pure=(factor * event.sensitivity / event.scale,))


_PRICES: dict[type[Event], Any] = {
    DiscreteLaplaceEvent: lambda event: _Parts(pure=(event.sensitivity / event.scale,)),
    DiscreteLaplaceShareEvent: lambda event: _Parts(pure=(event.sensitivity / event.scale,)),
    DiscreteGaussianEvent: lambda event: _Parts(rho=event.sensitivity_squared / (2 * event.variance)),
    DiscreteGaussianShareEvent: lambda event: _Parts(rho=rho_of_sum(event)),
    SelectionEvent: _selection,
    ThresholdEvent: lambda event: _Parts(pure=(event.cells_per_unit / event.scale,)),
    OperatorSumEvent: lambda event: _parts(event.noise),  # the honest operator's; docs/reference/operators.md
    NonPrivateEvent: lambda event: _Parts(reason=event.reason),
}


def _renyi(parts: _Parts, delta: Fraction) -> Fraction:
    """ε at δ by dp-accounting's Rényi accountant, raised past its rounding error."""
    if max(parts.pure, default=Fraction(0)) > _LARGEST_PURE:
        return _HOPELESS
    import dp_accounting
    from dp_accounting import rdp

    # The relation only tells dp-accounting which pair of distributions an event stands for.
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    if parts.rho:
        accountant.compose(dp_accounting.ZCDpEvent(rho=float(parts.rho)))
    for epsilon, times in Counter(parts.pure).items():
        # two answers with odds e^ε; the parameter is lowered a little, which can only raise the cost
        noise = 2 / (math.exp(float(epsilon)) + 1) * (1 - 1e-12)
        response = dp_accounting.RandomizedResponseDpEvent(noise_parameter=noise, num_buckets=2)
        accountant.compose(response, times)
    found = float(accountant.get_epsilon(float(delta)))
    return Fraction(f"{found * (1 + 1e-9):.12e}") if math.isfinite(found) else _HOPELESS
