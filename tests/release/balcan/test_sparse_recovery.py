"""Noisy sums: the enumerated loss of a selection, the rule that chooses, and one path for empty clusters."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadParameter, BadPrivacyParameter, BadShape
from twofold.privacy.accountant import price, spent
from twofold.privacy.audit import differing_parameters, privacy_loss
from twofold.privacy.audit.exact_checks import selection_law
from twofold.privacy.budget import PureDP
from twofold.privacy.events import flatten
from twofold.privacy.unit import Unit
from twofold.release.balcan.recovery import Recovery, counts_event, noisy_counts, recovery_method, sparse_recovery

PERSON = Unit.person()


def how(**changes: Any) -> Recovery:
    return Recovery(**{"epsilon": 1, "entry": 2, "l1": 20, "unit": PERSON, **changes})


def test_enumerated_loss_of_a_selection_of_counts() -> None:
    """Three of six, a user with three items that carry all weight: add or remove one, and replace one."""
    recovery = how(epsilon=2, entry=1, keep=3, method="select-first")
    scale, far = float(recovery.top(6).scale), 40.0
    laws = [
        selection_law(scores, scale, 3)
        for scores in ([far] * 3 + [0.0] * 3, [far + 1] * 3 + [0.0] * 3, [far] * 3 + [1.0] * 3)
    ]
    assert 0.99 <= privacy_loss(laws[0], laws[1]) <= 1 + 1e-9  # half of the budget of 2
    assert 1.98 <= privacy_loss(laws[1], laws[2]) <= 2 + 2e-9  # replace-one: twice


def test_enumerated_loss_of_a_selection_of_signed_sums() -> None:
    """Sizes of sums may grow in one item and shrink in another: twice the scale, and it is needed."""
    recovery = how(epsilon=2, entry=1, keep=1, signed=True, method="select-first")
    scale = float(recovery.top(4).scale)
    assert scale == 2 * float(how(epsilon=2, entry=1, keep=1, method="select-first").top(4).scale)
    before, after = [30.0, 1.0, 0.0, 0.0], [29.0, 2.0, 0.0, 0.0]  # a row (-1, +1, 0, 0)
    loss = privacy_loss(selection_law(before, scale, 1), selection_law(after, scale, 1))
    assert 0.99 <= loss <= 1 + 1e-9


@pytest.mark.parametrize(("method", "keep"), [("noise-all", None), ("noise-all", 4), ("select-first", 4)])
@pytest.mark.parametrize("signed", [False, True])
def test_price_is_the_budget_exactly(method: str, keep: int | None, signed: bool) -> None:
    recovery = how(epsilon="3/7", method=method, keep=keep, signed=signed)
    released = sparse_recovery(np.arange(30).reshape(3, 10), recovery, rng=0)
    assert released.event == recovery.event(3, 10, seeded=True)
    assert price(released.event, as_if_private=True) == PureDP(epsilon="3/7")


def test_scales_are_the_audits() -> None:
    dense, picked = how(epsilon=1), how(epsilon=1, keep=4, method="select-first")
    assert dense.laplace.scale == 20
    assert picked.laplace.scale == 2 * min(20, 4 * 2)
    assert picked.top(50).scale == 4 * 2 * 2


@pytest.mark.parametrize(
    ("keep", "entry", "l1", "expected"),
    [
        (None, 1, 86, "noise-all"),
        (42, 1, 86, "select-first"),
        (43, 1, 86, "noise-all"),
        (4, 2, 16, "noise-all"),
        (3, 2, 16, "select-first"),
    ],
)
def test_the_rule_that_chooses(keep: int | None, entry: int, l1: int, expected: str) -> None:
    assert recovery_method(keep=keep, entry=entry, l1=l1) == expected
    assert how(keep=keep, entry=entry, l1=l1).method == expected


@pytest.mark.parametrize("method", ["noise-all", "select-first"])
def test_a_large_budget_gives_the_largest_entries_exactly(method: str) -> None:
    sums = np.array([[5, 900, -700, 3, 800], [1, 2, 3, 4, 100]])
    found = sparse_recovery(sums, how(epsilon=10**6, keep=2, method=method, signed=True), rng=0).value
    assert found.tolist() == [[0, 900, 0, 0, 800], [0, 0, 0, 4, 100]]
    signed = np.array([[5, 900, -850, 3, 800]])
    found = sparse_recovery(signed, how(epsilon=10**6, keep=2, method=method, signed=True), rng=0).value
    assert found.tolist() == [[0, 900, -850, 0, 0]]


@pytest.mark.parametrize("method", ["noise-all", "select-first"])
def test_an_empty_cluster_takes_the_same_path(method: str) -> None:
    """A sum of zeros gets the same noise from the same seed as any other, and the same event."""
    recovery = how(epsilon="1/2", keep=6, method=method)
    empty = np.zeros((2, 6), dtype=np.int64)
    full = empty.copy()
    full[0] = 10_000
    one, two = sparse_recovery(empty, recovery, rng=9), sparse_recovery(full, recovery, rng=9)
    assert one.event == two.event
    assert (two.value - one.value == full).all()
    assert (one.value != 0).mean() > 0.8  # noise on every entry, zeros or not


def test_gaussian_noise_stays_within_epsilon_and_delta() -> None:
    recovery = how(epsilon=1, delta="1/1000000", l1=2000, l2_squared=900)
    assert recovery.method == "gaussian"  # deviation 136 against √2·2000
    released = sparse_recovery(np.zeros((40, 500), dtype=np.int64), recovery, rng=1)
    assert released.event == recovery.event(40, 500, seeded=True)
    cost = spent(released.event, delta="1/1000000", as_if_private=True)
    assert 0.99 <= cost.epsilon <= 1
    assert released.value.std() == pytest.approx(recovery.deviation, rel=0.02)


def test_a_delta_is_used_only_where_it_helps() -> None:
    assert how(epsilon=1, delta=1e-6, l1=10, l2_squared=100).method == "noise-all"
    assert how(epsilon=1, delta=1e-6, l1=10_000).method == "noise-all"  # no l2 bound, no Gaussian noise
    with refused(BadPrivacyParameter, "delta"):
        how(method="gaussian", l2_squared=100)


def test_parameters_do_not_depend_on_data() -> None:
    for recovery in (how(keep=3, method="select-first"), how(keep=3), how()):
        names = differing_parameters(
            lambda data, noise, recovery=recovery: sparse_recovery(data, recovery, rng=noise),
            np.zeros((4, 8), dtype=np.int64),
            np.eye(4, 8, dtype=np.int64) * 2,
        )
        assert names == ()


def test_noise_has_the_stated_scale() -> None:
    noise = sparse_recovery(np.zeros((40, 500), dtype=np.int64), how(epsilon="1/3"), rng=1).value
    assert np.abs(noise).mean() == pytest.approx(60, rel=0.03)  # E|Laplace| = scale = 20·3


def test_keeping_more_than_there_are_is_keeping_all() -> None:
    found = sparse_recovery([[1, 2]], how(epsilon=10**6, keep=9, method="select-first"), rng=0)
    assert found.value.tolist() == [[1, 2]]
    assert sparse_recovery([[1, 2]], how(epsilon=10**6, keep=9), rng=0).value.tolist() == [[1, 2]]


def test_counts_have_scale_one_over_epsilon() -> None:
    released = noisy_counts([], 3, epsilon="1/4", unit=PERSON, rng=0)
    assert released.event == counts_event(3, epsilon="1/4", unit=PERSON, seeded=True)
    assert [one.scale for one in flatten(released.event)] == [Fraction(4)]  # type: ignore[attr-defined]
    drawn = noisy_counts([], 20_000, epsilon="1/4", unit=PERSON, rng=0).value
    assert np.abs(drawn).mean() == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    "changes",
    [{"keep": 0}, {"entry": 0}, {"l1": 0}, {"method": "magic"}, {"epsilon": 0}, {"method": "select-first"}],
)
def test_bad_parameters_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((BadParameter, BadPrivacyParameter)):
        how(**changes)


def test_bad_sums_and_labels_are_refused() -> None:
    with pytest.raises(BadShape):
        sparse_recovery([1, 2], how())
    with pytest.raises(BadPrivacyParameter):
        sparse_recovery([[0.5]], how())
    with pytest.raises(BadShape):
        noisy_counts([0, 3], 3, epsilon=1, unit=PERSON)
