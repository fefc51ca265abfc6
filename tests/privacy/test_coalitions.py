"""The ε under every coalition, from the event alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from twofold.privacy.accountant import spent
from twofold.privacy.coalitions import ALL_OTHERS, BOTH, EVERYBODY, ONE, PUBLIC, SERVER, coalitions_of
from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    DiscreteLaplaceEvent,
    DiscreteLaplaceShareEvent,
    Event,
    OperatorSumEvent,
    SequentialEvent,
)
from twofold.privacy.unit import Unit

PERSON, DELTA = Unit.person(), Fraction(1, 10**6)
NOISE = DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=400, variance=10**4, coordinates=9)
SHARE = DiscreteGaussianShareEvent(unit=PERSON, sensitivity_squared=400, variance=10**3, parties=10, coordinates=9)
LAPLACE = DiscreteLaplaceEvent(unit=PERSON, sensitivity=20, scale=20, coordinates=9)
LAPLACE_SHARE = DiscreteLaplaceShareEvent(unit=PERSON, sensitivity=20, scale=20, parties=10, coordinates=9)


def found(event: Event, sharing: str, delta: Fraction = DELTA) -> dict[str, float]:
    rows = coalitions_of(event, sharing=sharing, delta=delta, colluders=2)
    return {row.kind: float(row.epsilon) for row in rows}


def cost(rho: Fraction | float) -> float:
    """Price of one noise of that ρ, at the sensitivity of all noises here."""
    noise = replace(NOISE, variance=NOISE.sensitivity_squared / (2 * Fraction(rho)))
    return float(spent(noise, delta=DELTA).epsilon)


def test_two_operators_without_noise_by_entities():
    rho = NOISE.sensitivity_squared / (2 * NOISE.variance)
    rows = found(OperatorSumEvent(unit=PERSON, noise=NOISE), "operators")
    assert list(rows) == [PUBLIC, ONE, BOTH]
    assert rows[ONE] == cost(rho)
    assert rows[PUBLIC] == pytest.approx(cost(rho / 2), rel=1e-6)
    assert rows[PUBLIC] >= cost(rho / 2)  # two discrete Gaussians are not exactly one
    assert rows[BOTH] == math.inf


def test_a_share_of_the_entity_is_what_both_operators_cannot_remove():
    rows = found(OperatorSumEvent(unit=PERSON, noise=NOISE, shares=(SHARE,)), "operators")
    without = found(OperatorSumEvent(unit=PERSON, noise=NOISE), "operators")
    assert rows[BOTH] == cost(SHARE.sensitivity_squared / (2 * SHARE.variance))
    assert {kind: rows[kind] for kind in (PUBLIC, ONE)} == {kind: without[kind] for kind in (PUBLIC, ONE)}


def test_shares_alone_hold_against_the_plan_s_colluders_only():
    rows = found(SHARE, "operators")
    assert list(rows) == [PUBLIC, ONE, ALL_OTHERS, BOTH]
    assert rows[PUBLIC] == rows[ONE] == pytest.approx(cost(SHARE.sensitivity_squared / (20 * SHARE.variance)), rel=1e-6)
    assert rows[ALL_OTHERS] == rows[BOTH] == cost(SHARE.sensitivity_squared / (2 * SHARE.variance))


def test_pure_noise_stays_pure_with_two_of_them():
    rows = found(OperatorSumEvent(unit=PERSON, noise=LAPLACE, shares=(LAPLACE_SHARE,)), "operators", Fraction(0))
    assert rows == {PUBLIC: 1.0, ONE: 1.0, BOTH: math.inf}


def test_peers_and_plain_messages():
    assert found(SHARE, "peers") == {
        SERVER: found(SHARE, "operators")[ONE],
        ALL_OTHERS: found(SHARE, "operators")[BOTH],
    }
    assert found(LAPLACE_SHARE, "peers", Fraction(0)) == {SERVER: 1.0, ALL_OTHERS: math.inf}
    assert found(LAPLACE, "plain", Fraction(0)) == {EVERYBODY: 1.0}
    assert found(SequentialEvent.of(LAPLACE, NOISE), "plain")[EVERYBODY] > max(1.0, cost(Fraction(1, 50)))


def test_seeded_noise_hides_nothing_from_anyone():
    for event, sharing in (
        (OperatorSumEvent(unit=PERSON, noise=NOISE, shares=(SHARE,), seeded=True), "operators"),
        (replace(SHARE, seeded=True), "peers"),
        (replace(NOISE, seeded=True), "plain"),
    ):
        assert set(found(event, sharing).values()) == {math.inf}


def test_noise_too_narrow_for_the_proof_of_two_costs_what_one_does():
    narrow = DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=1, variance="1/5", coordinates=9)
    rows = found(OperatorSumEvent(unit=PERSON, noise=narrow), "operators")
    assert rows[PUBLIC] == rows[ONE] < math.inf


@pytest.mark.parametrize(("colluders", "said"), [(1, "up to 1 entity"), (3, "up to 3 entities"), (None, "the plan")])
def test_rows_name_who_works_together(colluders, said):
    first, *_ = coalitions_of(SHARE, sharing="peers", delta=DELTA, colluders=colluders)
    assert said in first.who
