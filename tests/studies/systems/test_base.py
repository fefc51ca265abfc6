"""A promise needs events that keep it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from studies.systems.base import Fitted, Traffic, keeps
from twofold.errors import BadShape, PrivacyError
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, NonPrivateEvent, SequentialEvent
from twofold.privacy.mechanisms.gaussian import rho_within
from twofold.privacy.unit import Unit

PERSON = Unit.person()
HALF = DiscreteLaplaceEvent(unit=PERSON, seeded=True, sensitivity=1, scale=2, coordinates=3)
TENTH = ApproxDP(epsilon="1/10", delta=1e-6)


def gaussian(share: float) -> DiscreteGaussianEvent:
    rho = rho_within(TENTH, sensitivity_squared=1).rho
    return DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=1, variance=share / (2 * rho), coordinates=3)


@pytest.mark.parametrize(
    ("event", "promise", "kept"),
    [
        (HALF, PureDP(epsilon="1/2"), True),
        (HALF, ApproxDP(epsilon="1/2", delta=1e-6), True),
        (HALF, PureDP(epsilon="49/100"), False),
        (SequentialEvent.of(HALF, HALF), PureDP(epsilon=1), True),
        (SequentialEvent.of(HALF, HALF), PureDP(epsilon="99/100"), False),
        (gaussian(1), TENTH, True),
        (gaussian(0.99), TENTH, False),
        (gaussian(1), PureDP(epsilon=100), False),
        (NonPrivateEvent(unit=PERSON, reason="exact sums"), PureDP(epsilon=100), False),
    ],
)
def test_an_event_keeps_a_promise_or_not(event: object, promise: object, kept: bool) -> None:
    assert keeps(event, promise) is kept  # type: ignore[arg-type]
    if kept:
        assert Fitted(scorers={}, traffic=Traffic(), promise=promise, event=event).private  # type: ignore[arg-type]
        return
    with pytest.raises(PrivacyError):
        Fitted(scorers={}, traffic=Traffic(), promise=promise, event=event)  # type: ignore[arg-type]


def test_a_promise_without_an_event_is_refused() -> None:
    with pytest.raises(PrivacyError):
        Fitted(scorers={}, traffic=Traffic(), promise=PureDP(epsilon=1))


def test_scores_of_another_shape_are_refused() -> None:
    fitted = Fitted(scorers={"north": lambda rows: np.zeros((1, rows.shape[1]))}, traffic=Traffic())
    with pytest.raises(BadShape):
        fitted.scores("north", sparse.csr_array(np.eye(2)))
