"""Attacks on whole releases; the audit command runs the same subjects with more runs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from twofold.privacy.audit.lower_bound import lower_bound
from twofold.privacy.audit.subjects import Subject
from twofold.release import PRIVATE
from twofold.release.audit import prototype_subjects
from twofold.release.choose import BILINEAR
from twofold.release.records import RecordPlan

SUBJECTS = {subject.name: subject for subject in prototype_subjects()}


def attack(subject: Subject, runs: int) -> float:
    found = lower_bound(
        subject.batch,
        subject.data,
        subject.neighbour,
        runs=runs,
        delta=float(subject.claimed.delta),
        confidence=0.9995,
        statistic=subject.statistic,
        rng=1,
    )
    return found.epsilon


def test_every_private_mechanism_is_a_subject() -> None:
    assert {name.split(",")[0] for name in SUBJECTS} == {*PRIVATE, *BILINEAR}


@pytest.mark.parametrize("name", [name for name in SUBJECTS if not name.startswith("balcan")])
def test_a_short_attack_does_not_falsify(name: str) -> None:
    assert attack(SUBJECTS[name], 150) <= float(SUBJECTS[name].claimed.epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_long_attack_does_not_falsify(name: str) -> None:
    subject = SUBJECTS[name]
    assert attack(subject, 4 * subject.runs) <= float(subject.claimed.epsilon)


def test_the_attack_catches_a_sensitivity_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = RecordPlan.sensitivity.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(RecordPlan, "sensitivity", property(lambda plan: max(1, truth(plan) // 5)))
    assert attack(SUBJECTS["popularity, counts"], 1000) > 1


def test_the_attack_catches_a_skipped_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordPlan, "cap", lambda _, entries, *__, **___: entries)
    monkeypatch.setattr("twofold.release.records.np.clip", lambda entries, *_: entries)
    subject = SUBJECTS["popularity, counts"]
    wild = np.concatenate([subject.data, [[40, 0, 0]]])
    assert attack(dataclasses.replace(subject, neighbour=sp.csr_array(wild).toarray()), 1000) > 1
