"""The whole audit: sound mechanisms stand, broken ones are caught."""

from __future__ import annotations

import json

import pytest

from twofold.privacy.audit.broken import broken_mechanisms
from twofold.privacy.audit.suite import Finding, Report, run_audit, steps


@pytest.fixture(scope="module")
def report() -> Report:
    return run_audit(rng=1)


def test_everything_is_as_it_should_be(report):
    assert report.passed, [one for one in report.findings if not one.as_expected]


@pytest.mark.parametrize("name", [one.name for one in broken_mechanisms()])
def test_each_broken_mechanism_is_caught_by_its_runs(report, name):
    found = next(one for one in report.findings if one.mechanism == name)
    assert found.broken
    assert found.lower_bound > found.claimed_epsilon


def test_the_data_dependent_size_is_also_caught_by_its_parameters(report):
    found = next(one for one in report.findings if one.mechanism == "data-dependent size")
    assert found.differing_parameters == ("coordinates", "shape")


def test_lower_bounds_have_power(report):
    """An audit that proves nothing about anything would pass too; tight mechanisms must come near their ε."""
    bounds = {(one.mechanism, one.method): one.lower_bound for one in report.findings}
    laplace = [bound for (name, _), bound in bounds.items() if name.startswith("discrete Laplace")]
    assert max(laplace) > 0.93
    assert bounds[("exponential mechanism", "6,000 runs on each of two neighbours")] > 0.4
    assert bounds[("private threshold", "6,000 runs on each of two neighbours")] > 0.5


def test_the_record_is_plain_json(report):
    record = json.loads(json.dumps(report.as_dict()))
    assert record["passed"] is True
    assert len(record["findings"]) == len(steps())
    assert sum(one["broken"] for one in record["findings"]) == 7  # the six and naive floating point
    assert len(record["enumeration"]) == 8


def test_steps_are_announced_in_order():
    names = [name for name, _ in steps()]
    assert len(names) == len(set(names))


def test_verdicts():
    sound = {"mechanism": "m", "method": "x", "claimed_epsilon": 1.0, "claimed_delta": 0.0}
    assert Finding(**sound, lower_bound=0.9).as_expected
    assert not Finding(**sound, lower_bound=1.1).as_expected
    assert not Finding(**sound, lower_bound=0.9, differing_parameters=("scale",)).as_expected
    assert not Finding(**sound, lower_bound=0.9, broken=True).as_expected
    assert not Report(confidence=0.95, findings=(Finding(**sound, lower_bound=1.1),), enumeration=()).passed
    assert not Report(confidence=0.95, findings=(), enumeration=({"tight": False},)).passed
