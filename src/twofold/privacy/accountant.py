"""The cost of events: exact sums for pure ε, the Gaussian curve for Gaussian noise, a refusal for anything else.

An event is reduced to proven facts:

* *pure* parts, each an exact ε (Laplace, selection, threshold, a sum of Laplace shares);
* *concentrated* parts, each an exact ρ of zCDP (discrete Gaussian, a sum of Gaussian shares);
* for the same noise, the μ² of *continuous* Gaussian noise that it is a function of, up to a slack.

Sequential composition joins the first and adds up the others: transcripts of several releases are within the sum
of the slacks, and continuous Gaussians compose to the sum of their μ², adaptively too (Dong, Roth and Su 2022).
Parallel composition, over disjoint parts of the people where one's part depends on oneself alone, keeps the largest
ε, ρ, μ² and slack: whichever part a unit is in, it costs no more. A non-private event makes everything infinite and
is never dropped; so does seeded noise, because anyone who knows the seed can subtract it. An event that is not listed
here is refused (`UnsupportedEvent`), not guessed.

Gaussian noise has the exact curve of continuous noise where it is wide enough; the proof is in
docs/reference/gaussian.md. Where it is too narrow, or in too many numbers, the Rényi bound αΔ²/(2σ²) is the least one
that is proven (Canonne, Kamath and Steinke 2020). dp-accounting is imported only when it is needed, as
it takes about a second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
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
from twofold.privacy.gaussian_curve import epsilon_above, holds
from twofold.privacy.mechanisms.gaussian import WIDTHS, near_gaussians, rho_of_sum

__all__ = ["fits", "price", "spent"]

# Past this ε a randomised response is lost in floating point, and Rényi composition has nothing to gain.
_LARGEST_PURE = 16
_HOPELESS = Fraction(10) ** 300
_SEEDED = "the noise was seeded and can be repeated"


_Near = tuple[Fraction, Fraction] | None
_NOTHING: tuple[_Near, ...] = ((Fraction(0), Fraction(0)),) * len(WIDTHS)


@dataclass(frozen=True)
class _Parts:
    """Proven costs inside an event: pure ε one by one, ρ summed, and the reason if it is not private.

    `near` has μ² and slack for every width of `near_gaussians`, None where a noise is too narrow for that width.
    """

    pure: tuple[Fraction, ...] = ()
    rho: Fraction = Fraction(0)
    near: tuple[_Near, ...] = _NOTHING
    reason: str | None = None

    def of_group(self, units: int) -> _Parts:
        """Cost of that many units at once. They may be in as many parallel parts, so the slack counts for each."""
        return _Parts(
            pure=tuple(units * epsilon for epsilon in self.pure),
            rho=units**2 * self.rho,
            near=tuple(None if one is None else (units**2 * one[0], units * one[1]) for one in self.near),
            reason=self.reason,
        )


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


def spent(event: Event, *, delta: Number = 0, as_if_private: bool = False, units: int = 1) -> ApproxDP | NotPrivate:
    """(ε, δ) cost of an event: the smallest of its proven bounds.

    Parameters
    ----------
    event : Event
        One event or a composed one.
    delta : number
        The δ to state ε at; 0 is possible for pure events only.
    as_if_private : bool
        As for `price`.
    units : int
        Number of units that change together: a person in several entities of one sum (`Unit.across_one_noise`).

    Privacy
    -------
    Four valid bounds are compared: the sum of the pure ε (exact; the only one at δ = 0); that sum plus the ε of the
    Gaussian curve; that sum plus the converted ρ; and, where pure parts compose or the curve does not apply, the Rényi
    composition of all parts by dp-accounting, in which a pure ε is represented by
    the randomised response that dominates every ε-private mechanism (Kairouz, Oh and Viswanath 2015).

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> gauss = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=50, coordinates=9)
    >>> round(float(spent(gauss, delta=1e-6).epsilon), 3)
    0.581
    """
    level = read_delta(delta)
    parts = _checked(event, as_if_private).of_group(units)
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
    curve = _curve(parts, level) if parts.rho else None
    plain = total + (ZCDP(rho=parts.rho).to_approx(level).epsilon if parts.rho else 0)
    if curve is not None and total + curve <= plain:
        plain = total + curve
        if not parts.pure:
            return ApproxDP(epsilon=plain, delta=level)
    joined = _renyi(parts, level)
    if not parts.rho and plain <= joined:
        return ApproxDP(epsilon=total)  # the plain sum is the least and needs no δ
    return ApproxDP(epsilon=min(plain, joined) or plain, delta=level)  # a δ near 1 brings the Rényi bound to 0


def fits(event: Event, promise: ApproxDP, *, as_if_private: bool = False) -> bool:
    """Whether an event is within a promise by a bound that is quick to compute; `spent` may find a smaller one.

    Examples
    --------
    >>> from twofold.privacy.unit import Unit
    >>> gauss = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=50, coordinates=9)
    >>> [fits(gauss, ApproxDP(epsilon=epsilon, delta=1e-6)) for epsilon in (0.57, 0.59)]
    [False, True]
    """
    parts = _checked(event, as_if_private)
    if parts.reason is not None:
        return False
    left = promise.epsilon - sum(parts.pure, Fraction(0))
    if not parts.rho:
        return left >= 0
    if left <= 0 or promise.delta == 0:
        return False
    for one in reversed(parts.near):
        if one is not None and holds(left, promise.delta, mu_squared=one[0], slack=one[1]):
            return True
    return ZCDP(rho=parts.rho).to_approx(promise.delta).epsilon <= left


def _curve(parts: _Parts, delta: Fraction) -> Fraction | None:
    """Least ε of the Gaussian curve over all widths; None if the noise is too narrow for each."""
    best: Fraction | None = None
    for one in reversed(parts.near):
        if one is None or (best is not None and not holds(best, delta, mu_squared=one[0], slack=one[1])):
            continue  # a search would find no less
        found = epsilon_above(one[0], delta, one[1])
        best = found if best is None or (found is not None and found < best) else best
    return best


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
        near=tuple(_joined(column, sum) for column in zip(*(one.near for one in parts), strict=True)),
        reason=next((one.reason for one in parts if one.reason is not None), None),
    )


def _parallel(parts: list[_Parts]) -> _Parts:
    """Most expensive part; the ε of a part are joined, since different parts have different lists."""
    dearest = max(sum(one.pure, Fraction(0)) for one in parts)
    return _Parts(
        pure=(dearest,) if dearest else (),
        rho=max(one.rho for one in parts),
        near=tuple(_joined(column, max) for column in zip(*(one.near for one in parts), strict=True)),
        reason=next((one.reason for one in parts if one.reason is not None), None),
    )


def _joined(column: tuple[_Near, ...], how: Callable[[list[Fraction]], Any]) -> _Near:
    known = [one for one in column if one is not None]
    if len(known) < len(column):
        return None
    return Fraction(how([one[0] for one in known])), Fraction(how([one[1] for one in known]))


def _selection(event: SelectionEvent) -> _Parts:
    factor = event.picks * (1 if event.monotone else 2)
    return _Parts(pure=(factor * event.sensitivity / event.scale,))


_PRICES: dict[type[Event], Any] = {
    DiscreteLaplaceEvent: lambda event: _Parts(pure=(event.sensitivity / event.scale,)),
    DiscreteLaplaceShareEvent: lambda event: _Parts(pure=(event.sensitivity / event.scale,)),
    DiscreteGaussianEvent: lambda event: _Parts(
        rho=event.sensitivity_squared / (2 * event.variance), near=near_gaussians(event)
    ),
    DiscreteGaussianShareEvent: lambda event: _Parts(rho=rho_of_sum(event), near=near_gaussians(event)),
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
