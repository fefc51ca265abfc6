"""What the others know: the own part is taken out exactly, and noise goes without most of the knowledge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from twofold.entity.models.others import MAX_ITEMS, denoised, others_of
from twofold.entity.models.side import Side, unit_rows
from twofold.federation.factors import ItemFactors
from twofold.release.content import Moments

ITEMS = 40


def people(users: int, seed: int, items: int = ITEMS) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    groups = rng.gamma(0.3, 1.0, (users, 5))[:, np.arange(items) % 5]
    return sparse.csr_array(np.minimum(rng.poisson(groups), 5).astype(np.float32))


def symmetric_noise(size: float, seed: int, items: int = ITEMS) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).normal(size=(items, items)) * size, 1)
    return np.asarray(upper + upper.T)


def totals(*parts: sparse.csr_array, weights: tuple[float, ...] | None = None, **changes: Any) -> Moments:
    """Of several entities, each with its weight."""
    held = [unit_rows(part) for part in parts]
    weights = weights or (1.0,) * len(parts)
    given: dict[str, Any] = {
        "kind": "gram",
        "users": sum(weight * part.shape[0] for weight, part in zip(weights, held, strict=True)),
        "sums": sum(weight * np.asarray(part.sum(axis=0)).ravel() for weight, part in zip(weights, held, strict=True)),
        "pairs": sum(weight * (part.T @ part).toarray() for weight, part in zip(weights, held, strict=True)),
        "users_noise": 0.0, "sums_noise": 0.0, "pairs_noise": 0.0, "cap": 1.0, "entities": len(parts), "seeded": True,
    }  # fmt: skip
    return Moments(**(given | changes))


def shared(sent: Moments | None, **changes: Any) -> ItemFactors:
    given: dict[str, Any] = {
        "plan": "0" * 64, "catalog": "0" * 64, "factors": np.zeros((ITEMS, 1), np.float32), "moments": np.zeros((1, 1)),
        "means": np.ones(ITEMS), "support": np.full(ITEMS, 300.0), "users": 300.0, "entities": 3, "private": False,
        "totals": sent,
    }  # fmt: skip
    return ItemFactors(**(given | changes))


def test_rows_get_norm_1_and_empty_ones_stay_empty():
    rows = people(50, 0)
    found = unit_rows(rows)
    norms = np.sqrt((found.toarray() ** 2).sum(axis=1))
    np.testing.assert_allclose(norms, np.diff(rows.indptr) > 0)
    np.testing.assert_array_equal(found.indices, rows.indices)


# The own part


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(matrix[~np.eye(len(matrix), dtype=bool)])


def test_without_noise_what_is_left_is_what_the_others_sent():
    own, rest = people(60, 1), people(300, 2)
    found = others_of(shared(totals(own, rest)), Side(own))
    truth = unit_rows(rest)
    assert found.users == pytest.approx(300)
    np.testing.assert_allclose(found.sums, np.asarray(truth.sum(axis=0)).ravel(), atol=1e-4)
    np.testing.assert_allclose(off_diagonal(found.gram), off_diagonal((truth.T @ truth).toarray()), atol=1e-3)
    np.testing.assert_allclose(found.shares, found.sums / 300, rtol=1e-6)


def test_whatever_the_own_people_did_does_not_come_back():
    rest = people(300, 2)
    first, second = (others_of(shared(totals(own, rest)), Side(own)) for own in (people(60, 1), people(60, 9)))
    np.testing.assert_allclose(first.gram, second.gram, atol=1e-3)
    np.testing.assert_allclose(first.sums, second.sums, atol=1e-4)


def test_a_message_with_a_weight_is_taken_out_with_that_weight():
    own, rest = people(60, 1), people(300, 2)
    moments = totals(own, rest, weights=(0.01 * 60, 0.01 * 300), weight_per_user=0.01)
    found = others_of(shared(moments), Side(own))
    truth = 3.0 * (unit_rows(rest).T @ unit_rows(rest)).toarray()
    assert found.users == pytest.approx(900)
    np.testing.assert_allclose(off_diagonal(found.gram), off_diagonal(truth), atol=1e-2)


def test_use_stays_above_0_and_more_than_the_own_people():
    own = people(60, 1)
    found = others_of(shared(totals(own, sums=np.full(ITEMS, -5.0), users=-3.0)), Side(own))
    assert found.users >= 60
    assert (found.sums > 0).all()
    assert np.isfinite(found.gram).all()


# Noise


def spikes(items: int = ITEMS) -> tuple[np.ndarray, np.ndarray]:
    """A Gram matrix of few directions and the use of each item."""
    rows = unit_rows(people(2_000, 3, items))
    return (rows.T @ rows).toarray(), np.asarray(rows.sum(axis=0)).ravel()


@pytest.mark.parametrize("noise", [3.0, 10.0, 30.0, 100.0])
def test_denoised_is_nearer_to_the_truth_than_what_came(noise):
    truth, sums = spikes()
    for seed in range(3):
        gram = truth + symmetric_noise(noise, seed)
        found = denoised(gram, sums, noise)
        assert np.linalg.norm(found - truth) < np.linalg.norm(gram - truth)


def test_the_more_noise_the_more_is_gained():
    truth, sums = spikes()
    parts = []
    for noise in (3.0, 30.0, 300.0):
        gram = truth + symmetric_noise(noise, 0)
        parts.append(np.linalg.norm(denoised(gram, sums, noise) - truth) / np.linalg.norm(gram - truth))
    assert parts[0] > parts[1] > parts[2]
    assert parts[2] < 0.5


def test_of_noise_alone_next_to_nothing_is_left():
    gram = symmetric_noise(50.0, 4)
    assert np.linalg.norm(denoised(gram, np.ones(ITEMS), 50.0)) < 0.6 * np.linalg.norm(gram)


def test_without_noise_the_part_that_can_be_a_gram_matrix_comes_back():
    truth, sums = spikes()
    np.testing.assert_allclose(denoised(truth, sums, 0.0), truth, atol=1e-8)
    other = symmetric_noise(1.0, 5)
    values, axes = np.linalg.eigh(other)
    part = (axes * np.maximum(values, 0)) @ axes.T
    found = denoised(other, sums, 0.0)
    np.testing.assert_allclose(found / np.linalg.norm(found), part / np.linalg.norm(part), atol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 10.0, 1e4])
def test_nothing_denoised_is_below_0(noise):
    truth, sums = spikes()
    found = denoised(truth + symmetric_noise(noise, 1), sums, noise)
    np.testing.assert_allclose(found, found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-8 * max(np.abs(found).max(), 1.0)


@pytest.mark.parametrize("items", [1, 2])
def test_a_catalog_of_one_or_two_items(items):
    found = denoised(np.full((items, items), 5.0), np.full(items, 5.0), 1.0)
    assert np.isfinite(found).all()


# Other mechanisms


def second_moments(rows: sparse.csr_array) -> dict[str, Any]:
    held = unit_rows(rows)
    values, axes = np.linalg.eigh((held.T @ held).toarray() / rows.shape[0])
    return {
        "patterns": axes.astype(np.float32),
        "strengths": np.maximum(values, 0.0),
        "users": float(rows.shape[0]),
        "squares": np.asarray((held.toarray() ** 2).mean(axis=0)),
        "means": rows.toarray().mean(axis=0),
    }


def test_the_own_part_is_taken_out_of_patterns():
    own, rest = people(60, 1), people(300, 2)
    both = sparse.csr_array(sparse.vstack([own, rest]))
    found = others_of(shared(None, **second_moments(both)), Side(own))
    truth = (unit_rows(rest).T @ unit_rows(rest)).toarray()
    assert found.users == pytest.approx(300)
    np.testing.assert_allclose(off_diagonal(found.gram), off_diagonal(truth), atol=0.01)


def test_prototypes_give_second_moments_of_their_factors():
    factors = np.random.default_rng(0).gamma(0.5, 1.0, (ITEMS, 3)).astype(np.float32)
    found = others_of(shared(None, factors=factors, moments=np.eye(3)), Side(people(60, 1)))
    wanted = off_diagonal(factors.astype(float) @ factors.T)
    assert np.corrcoef(off_diagonal(found.gram), wanted)[0, 1] > 0.999
    assert found.users == 240


def test_nothing_but_sums_is_known_without_factors_and_in_a_long_catalog():
    assert others_of(shared(None), Side(people(60, 1))).gram is None
    items = MAX_ITEMS + 1
    long = ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.ones((items, 1), np.float32), moments=np.eye(1),
        means=np.ones(items), support=np.ones(items), users=300.0, entities=3, private=False,
    )  # fmt: skip
    found = others_of(long, Side(sparse.csr_array((5, items), dtype=np.float32)))
    assert found.gram is None
    assert found.sums.shape == (items,)


def test_the_factors_stay_as_they_were():
    own = people(60, 1)
    given = shared(totals(own, people(300, 2)))
    before = given.hash
    others_of(given, Side(own))
    assert given.hash == before
    assert replace(given).hash == before
