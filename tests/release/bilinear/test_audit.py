"""Canaries: the mechanism holds under attack, and the attack catches what is broken."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from twofold.privacy.audit.lower_bound import lower_bound
from twofold.privacy.audit.subjects import Subject
from twofold.privacy.rng import Source, source
from twofold.release.audit import CanaryAttack, bilinear_subjects, canary_public
from twofold.release.bilinear import mechanism
from twofold.release.bilinear import mechanism as mechanism_module
from twofold.release.bilinear import records as rows
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.release.bilinear.records import exact_sums

SUBJECTS = {subject.name: subject for subject in bilinear_subjects()}
ONE_RELEASE = [name for name in SUBJECTS if "two releases" not in name]
CANARIES = 20_000


def attack(subject: Subject, canaries: int = CANARIES) -> float:
    found = lower_bound(
        subject.batch,
        subject.data,
        subject.neighbour,
        runs=canaries,
        delta=float(subject.claimed.delta),
        confidence=0.9995,
        statistic=subject.statistic,
        rng=1,
    )
    return found.epsilon


def test_a_canary_has_nearly_the_whole_norm_and_places_of_its_own() -> None:
    """What the attack rests on: canaries do not share a number, and none is a weaker user than the bound allows."""
    for kind, l2 in (("gram", True), ("sketch", True), ("features", False)):
        public = canary_public(kind, delta=0.01 if l2 else 0.0)  # type: ignore[arg-type]
        layout = BilinearLayout.of(public, kind)  # type: ignore[arg-type]
        row: Any = np.zeros((1, public.n_items))
        row[0, 4:6] = 1
        record = exact_sums(rows.sp.csr_array(row), public, layout)
        size = sum(int(one) ** 2 if l2 else abs(int(one)) for one in record)
        assert 0.7 * layout.sensitivity <= size <= layout.sensitivity


@pytest.mark.parametrize("name", SUBJECTS)
def test_ten_thousand_canaries_do_not_falsify(name: str) -> None:
    assert attack(SUBJECTS[name], 10_000) <= float(SUBJECTS[name].claimed.epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_canaries_do_not_falsify(name: str) -> None:
    assert attack(SUBJECTS[name], 60_000 if name.startswith("gram") else 400_000) <= 1


@pytest.mark.slow
def test_the_attack_is_sharp() -> None:
    """A bound of nothing would prove nothing: it comes near the claim where the law allows."""
    assert attack(SUBJECTS["sketch, counts"], 400_000) > 0.75
    assert attack(SUBJECTS["sketch, counts, with δ"], 400_000) > 0.55


QUICK = ["gram, counts", "gram, counts, with δ", "sketch, counts", "sketch, counts, with δ", "sketch, ratings, with δ"]


@pytest.mark.parametrize("name", QUICK)
def test_a_sensitivity_that_should_be_twice_as_large_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism._noise_of.cache_clear()  # it holds noise of the true sensitivity
    truth = BilinearLayout.sensitivity.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(BilinearLayout, "sensitivity", property(lambda self: truth(self) // (4 if self.l2 else 2)))
    try:
        assert attack(SUBJECTS[name]) > 1
    finally:
        mechanism._noise_of.cache_clear()


@pytest.mark.parametrize("name", QUICK)
def test_half_the_noise_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is that of the full noise; only the sampler is broken."""
    truth = BilinearNoise.release

    def half(self: BilinearNoise, numbers: Any, *, rng: Source) -> Any:
        drawn = truth(self, np.zeros_like(numbers), rng=rng)
        return dataclasses.replace(drawn, value=numbers + drawn.value // 2)

    monkeypatch.setattr(BilinearNoise, "release", half)
    assert attack(SUBJECTS[name]) > 1


@pytest.mark.parametrize("name", ["gram, counts, with δ", "sketch, counts", "features, counts, with δ"])
def test_a_skipped_cap_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user far beyond the bounds; with the caps in place the same attack finds nothing."""
    subject = SUBJECTS[name]
    assert isinstance(subject.batch, CanaryAttack)
    wild = dataclasses.replace(subject, batch=dataclasses.replace(subject.batch, height=400.0))
    assert attack(wild) <= 1
    monkeypatch.setattr(rows, "_unit_block", _as_they_are)
    monkeypatch.setattr(rows.np, "clip", lambda values, *_: np.asarray(values))
    assert attack(wild) > 1


def _as_they_are(entries: Any, columns: Any, starts: Any, layout: BilinearLayout) -> rows.RowBlock:
    """Rows of counts whose norm nobody brings down: two ones have the full norm."""
    values = np.rint(np.sqrt(entries / 2) * layout.norm).astype(np.int64)
    return rows.RowBlock(values=values, base=values, marks=None, columns=columns, starts=starts, n_items=layout.n_items)


@pytest.mark.parametrize("name", ["sketch, counts, two releases", "sketch, counts, with δ, two releases"])
def test_noise_from_one_seed_twice_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism_module, "source", lambda _: source(42))
    assert attack(SUBJECTS[name]) > 5


def test_a_share_seen_alone_is_caught_claiming_the_price_of_the_sum() -> None:
    """With shares of ten, one message alone is worth far more than the ε of the sum, and the attack sees it."""
    public = canary_public("sketch", honest=10)

    class Alone(CanaryAttack):
        def message(self, rows: Any, noise: Source) -> Any:
            made = mechanism_module.Bilinear(kind=self.kind)
            return made.release(rows, self.public, rng=noise).value

    found = lower_bound(
        Alone(kind="sketch", public=public), False, True, runs=CANARIES, delta=0.01, confidence=0.9995, rng=1
    )
    assert found.epsilon > 1.5
