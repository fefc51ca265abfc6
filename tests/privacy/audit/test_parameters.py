"""Neighbouring data sets must give identical parameters."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.privacy.audit.broken import seen_items_only
from twofold.privacy.audit.exact_checks import differing_parameters
from twofold.privacy.events import SequentialEvent
from twofold.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GumbelTop,
    PrivateThreshold,
    Released,
)
from twofold.privacy.unit import Unit

PERSON = Unit.person()
DATA, NEIGHBOUR = np.array([5, 3, 0, 0]), np.array([5, 3, 1, 0])


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplace(epsilon=1, sensitivity=1, unit=PERSON),
        DiscreteGaussian(rho=1, sensitivity_squared=1, unit=PERSON),
        ExponentialMechanism(epsilon=1, sensitivity=1, monotone=True, unit=PERSON),
        GumbelTop(epsilon=1, picks=2, sensitivity=1, monotone=True, unit=PERSON),
    ],
)
def test_our_mechanisms_do_not_differ(mechanism):
    assert differing_parameters(lambda data, noise: mechanism.release(data, rng=noise), DATA, NEIGHBOUR) == ()


def test_the_threshold_does_not_differ_though_its_result_has_no_fixed_size():
    rule = PrivateThreshold(epsilon=1, threshold=2, unit=PERSON)

    def run(counts, noise):
        held = np.flatnonzero(counts)
        return rule.release(codes=held, counts=counts[held], cells=4, rng=noise)

    assert differing_parameters(run, DATA, NEIGHBOUR, fixed_shape=False) == ()


def test_a_data_dependent_size_is_named():
    assert differing_parameters(seen_items_only, DATA, NEIGHBOUR) == ("coordinates", "shape")


def test_a_noise_scale_from_the_true_size_is_named():
    """The paper's Laplace scale holds the private cluster size n."""

    def mean(counts, noise):
        members = int(counts.sum())
        return DiscreteLaplace(epsilon=members, sensitivity=8, unit=PERSON).release(counts, rng=noise)

    assert differing_parameters(mean, DATA, NEIGHBOUR) == ("scale",)


def test_a_difference_inside_a_composed_event_is_found():
    def run(counts, noise):
        first = DiscreteLaplace(epsilon=1, sensitivity=1, unit=PERSON).release(counts, rng=noise)
        second = DiscreteLaplace(epsilon=1, sensitivity=int(counts.sum()), unit=PERSON).release(counts, rng=noise)
        return Released(value=first.value, event=SequentialEvent.of(first.event, second.event))

    assert differing_parameters(run, DATA, NEIGHBOUR) == ("events[1].scale", "events[1].sensitivity")


def test_values_are_not_reported():
    named = differing_parameters(seen_items_only, DATA, NEIGHBOUR)
    assert not any(character.isdigit() for name in named for character in name)
