"""What events cost: exact sums, dp-accounting as oracle, refusals."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import pytest

from twofold.errors import BadPrivacyParameter, TwofoldError, UnsupportedEvent
from twofold.privacy.accountant import price, spent
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP
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
)
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.unit import Unit

PERSON = Unit.person()


def laplace(epsilon, **more):
    return DiscreteLaplaceEvent(
        unit=PERSON, sensitivity=Fraction(60), scale=60 / Fraction(str(epsilon)), coordinates=9, **more
    )


def gauss(rho):
    return DiscreteGaussianEvent(
        unit=PERSON, sensitivity_squared=Fraction(4), variance=2 / Fraction(str(rho)), coordinates=9
    )


def selection(monotone):
    return SelectionEvent(
        unit=PERSON, sensitivity=Fraction(2), scale=Fraction(60), picks=5, candidates=9, monotone=monotone
    )


def test_each_kind_has_its_price():
    assert price(laplace(0.1)) == PureDP(epsilon="1/10")
    share = DiscreteLaplaceShareEvent(unit=PERSON, sensitivity=Fraction(1), scale=Fraction(4), parties=3, coordinates=1)
    assert price(share) == PureDP(epsilon="1/4")
    assert price(gauss(0.5)) == ZCDP(rho="1/2")
    assert price(selection(True)) == PureDP(epsilon="1/6")
    assert price(selection(False)) == PureDP(epsilon="1/3")
    cells = ThresholdEvent(unit=PERSON, scale=Fraction(10), threshold=5, cells_per_unit=3)
    assert price(cells) == PureDP(epsilon="3/10")


def test_a_gaussian_share_is_priced_by_its_theorem():
    event = DiscreteGaussianShareEvent(
        unit=PERSON, sensitivity_squared=Fraction(1), variance=Fraction(1), parties=2, coordinates=10
    )
    tau = 10 * math.exp(-(math.pi**2))
    assert float(price(event).rho) == pytest.approx((0.5 + 2 * tau * 10) / 2, rel=1e-4)
    assert float(price(event).rho) >= (0.5 + 2 * tau * 10) / 2


def test_sequential_adds_and_parallel_takes_the_dearest():
    assert price(SequentialEvent.of(laplace(0.1), laplace(0.2), selection(True))) == PureDP(
        epsilon=Fraction(3, 10) + Fraction(1, 6)
    )
    assert price(ParallelEvent.of(laplace(0.1), laplace(0.2))) == PureDP(epsilon="1/5")
    nested = SequentialEvent.of(laplace(1), ParallelEvent.of(SequentialEvent.of(laplace(1), laplace(1)), laplace(1.5)))
    assert price(nested) == PureDP(epsilon=3)
    assert price(ParallelEvent.of(gauss(1), gauss(2))) == ZCDP(rho=2)


def test_gaussian_composition_matches_dp_accounting():
    """Above the privacy-loss distribution of continuous noise by what 4 of a variance of 10⁶ cost, and below Rényi."""
    import dp_accounting
    from dp_accounting import pld, rdp

    tight, loose = pld.PLDAccountant(), rdp.RdpAccountant()
    for accountant in (tight, loose):
        accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier=5.0), 3)
    fine = DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=40_000, variance=10**6, coordinates=9)
    ours = spent(SequentialEvent.of(*[fine] * 3), delta=1e-6)
    assert float(ours.epsilon) == pytest.approx(tight.get_epsilon(1e-6), rel=1e-3)
    assert float(ours.epsilon) < loose.get_epsilon(1e-6)
    assert ours.delta == Fraction(1, 10**6)


def test_a_gaussian_claim_is_not_below_the_tight_curve():
    """The privacy-loss distribution of the continuous Gaussian is the tight value; ours must not undercut it."""
    import dp_accounting
    from dp_accounting import pld

    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier=5.0))
    assert float(spent(gauss("1/50"), delta=1e-6).epsilon) >= accountant.get_epsilon(1e-6) * 0.999


def test_many_pure_events_cost_less_with_a_delta_and_never_more():
    many = SequentialEvent.of(*[laplace(0.1)] * 100)
    assert spent(many) == ApproxDP(epsilon=10)
    relaxed = spent(many, delta=1e-6)
    assert 0 < relaxed.epsilon < 6
    assert spent(laplace(0.1), delta=1e-6) == ApproxDP(epsilon="1/10")  # one pure event needs no δ
    few = SequentialEvent.of(laplace(0.1), laplace(0.1))
    assert spent(few, delta=1e-6) == ApproxDP(epsilon="1/5")


def test_advanced_composition_is_above_the_optimum():
    """Exact composition of 100 randomised responses (Kairouz, Oh, Viswanath): a binomial sum."""
    from scipy.stats import binom

    relaxed = float(spent(SequentialEvent.of(*[laplace(0.1)] * 100), delta=1e-6).epsilon)
    p = 1 / (1 + math.exp(-0.1))
    delta = sum(max(0.0, binom.pmf(k, 100, p) - math.exp(relaxed) * binom.pmf(k, 100, 1 - p)) for k in range(101))
    assert delta <= 1e-6


def test_mixed_events_need_a_delta():
    mixed = SequentialEvent.of(laplace(0.5), gauss("1/50"))
    with pytest.raises(BadPrivacyParameter):
        price(mixed)
    with pytest.raises(BadPrivacyParameter):
        spent(mixed)
    found = spent(mixed, delta=1e-6)
    alone = spent(gauss("1/50"), delta=1e-6)
    assert alone.epsilon < found.epsilon <= alone.epsilon + Fraction(1, 2)


def test_large_epsilons_are_never_understated():
    huge = SequentialEvent.of(laplace(800), laplace(900))
    assert spent(huge, delta=1e-6).epsilon == 1700


def test_a_non_private_step_costs_infinity_wherever_it_hides():
    leak = NonPrivateEvent(unit=PERSON, reason="exact range was used")
    for event in (leak, SequentialEvent.of(laplace(1), leak), ParallelEvent.of(laplace(1), leak)):
        assert price(event) == NotPrivate(reason="exact range was used")
        assert spent(event, delta=1e-6).epsilon == math.inf


def test_seeded_noise_is_not_private_unless_asked_for_the_nominal_price():
    event = laplace(1, seeded=True)
    assert isinstance(price(event), NotPrivate)
    assert isinstance(spent(SequentialEvent.of(laplace(1), event)), NotPrivate)
    assert price(event, as_if_private=True) == PureDP(epsilon=1)
    assert spent(event, as_if_private=True) == ApproxDP(epsilon=1)


@dataclass(frozen=True, kw_only=True)
class Homemade(DiscreteLaplaceEvent):
    """An event of the same fields that may mean anything."""

    kind = "homemade/1"


def test_unknown_events_are_refused():
    for event in (
        Event(unit=PERSON),
        Homemade(unit=PERSON, sensitivity=1, scale=1, coordinates=1),
        SequentialEvent.of(laplace(1), Event(unit=PERSON)),
    ):
        with pytest.raises(UnsupportedEvent):
            price(event)
        with pytest.raises(UnsupportedEvent):
            spent(event, delta=1e-6)
    price(laplace(1))


def test_drawing_and_pure_pricing_import_nothing_heavy():
    """dp-accounting and scipy take a second to import; only accounting with a δ and auditing may ask for them."""
    code = (
        "import sys, numpy as np\n"
        "from twofold.privacy.mechanisms import DiscreteLaplace, GumbelTop\n"
        "from twofold.privacy.accountant import price\n"
        "from twofold.privacy.unit import Unit\n"
        "released = DiscreteLaplace(epsilon=1, sensitivity=1, unit=Unit.person()).release(np.arange(9))\n"
        "price(released.event)\n"
        "print([name for name in ('scipy', 'dp_accounting', 'numba', 'mpmath') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


def test_a_delta_near_one_has_a_price_above_zero():
    """The Rényi bound falls to 0 there, which no release may cost."""
    for delta in (0.5, 0.9, 0.999):
        assert (
            0
            < spent(gauss(0.1), delta=delta).epsilon
            <= ZCDP(rho=Fraction("0.1")).to_approx(Fraction(str(delta))).epsilon
        )


OPERATED = DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=1, variance=50, coordinates=9)


def test_an_operator_sum_costs_one_of_its_noises():
    """The other operator may tell its own; a share of the entity gives nothing back."""
    share = DiscreteGaussianShareEvent(unit=PERSON, sensitivity_squared=1, variance=50, parties=9, coordinates=9)
    laplace = DiscreteLaplaceEvent(unit=PERSON, sensitivity=1, scale=2, coordinates=9)
    for noise in (OPERATED, laplace):
        for shares in ((), (share,)):
            event = OperatorSumEvent(unit=PERSON, noise=noise, shares=shares)
            assert price(event) == price(noise)
            assert spent(event, delta=1e-6) == spent(noise, delta=1e-6)


def test_operator_sums_compose_as_their_noises_do():
    event = OperatorSumEvent(unit=PERSON, noise=OPERATED)
    assert price(SequentialEvent.of(event, event)) == price(SequentialEvent.of(OPERATED, OPERATED))
    assert price(ParallelEvent.of(event, event)) == price(OPERATED)


def test_a_seeded_operator_sum_is_not_private():
    event = OperatorSumEvent(unit=PERSON, noise=OPERATED, seeded=True)
    assert isinstance(price(event), NotPrivate)
    assert price(event, as_if_private=True) == price(OPERATED)


def test_operator_sums_add_up_in_a_ledger(tmp_path):
    event = OperatorSumEvent(unit=PERSON, noise=OPERATED)
    cost = spent(event, delta=1e-6)
    ledger = Ledger.create(tmp_path / "x.ledger", dataset="x", ceiling=ApproxDP(epsilon=9, delta=1e-3), unit=PERSON)
    for plan in (b"one", b"two"):
        asked = {"plan": digest(plan), "data": digest(b"data"), "unit": PERSON, "cost": cost}
        ledger.release(**asked, events=[event], draw=lambda: b"sealed")
    assert ledger.state().spent.epsilon == 2 * cost.epsilon
    less = ApproxDP(epsilon=cost.epsilon / 2, delta=cost.delta)
    asked = {"plan": digest(b"three"), "data": digest(b"data"), "unit": PERSON, "cost": less}
    with pytest.raises(TwofoldError):  # a claim below the price of one noise
        ledger.release(**asked, events=[event], draw=lambda: b"sealed")
