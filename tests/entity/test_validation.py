"""Held-out parts, and standard errors by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from twofold.entity import candidates as validation
from twofold.entity.candidates import PARTS, Losses, folds, paired, rounds_for


def table(users: int = 40, items: int = 30, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((users, items)) < 0.4, rng.integers(1, 6, size=(users, items)), 0).astype(np.float32)
    values[0] = 0
    values[1] = 0
    values[1, 5] = 3
    return sparse.csr_array(values)


def test_parts_are_disjoint_and_together_everything_but_lone_entries():
    rows = table()
    made = folds(rows, rounds=PARTS, rng=np.random.default_rng(0))
    total = np.zeros(rows.shape)
    for fold in made:
        held = np.zeros(rows.shape)
        held[fold.users] = fold.held.toarray()
        np.testing.assert_array_equal(fold.train.toarray() + held, rows.toarray())
        np.testing.assert_array_equal(fold.history.toarray(), fold.train.toarray()[fold.users])
        total += held
    lone = rows.toarray()
    lone[1] = 0
    np.testing.assert_array_equal(total, lone)


def test_nobody_loses_the_whole_history():
    rows = sparse.csr_array(np.kron(np.eye(20), np.ones((1, 2))))
    for fold in folds(rows, rounds=PARTS, rng=np.random.default_rng(1)):
        assert (np.diff(fold.train.indptr) >= 1).all()


def test_every_user_gives_about_a_tenth():
    rows = sparse.csr_array(np.ones((50, 37)))
    fold = folds(rows, rounds=1, rng=np.random.default_rng(2))[0]
    assert set(np.diff(fold.held.indptr)) <= {3, 4}


def test_the_same_seed_holds_out_the_same_entries():
    one, two = (folds(table(), rounds=2, rng=np.random.default_rng(3)) for _ in range(2))
    for left, right in zip(one, two, strict=True):
        assert (left.held.toarray() == right.held.toarray()).all()


def test_only_so_many_users_are_judged(monkeypatch):
    monkeypatch.setattr(validation, "MOST_JUDGED", 7)
    fold = folds(table(), rounds=1, rng=np.random.default_rng(0))[0]
    assert fold.users.size == 7
    assert fold.train.shape == (40, 30)
    assert (np.diff(fold.users) > 0).all()


def test_fewer_users_more_rounds():
    rounds = [rounds_for(number, "counts") for number in (0, 1, 199, 200, 999, 1_000, 10**6)]
    assert rounds == sorted(rounds, reverse=True)
    assert min(rounds) >= 1
    assert max(rounds) <= PARTS


def test_gain_and_error_by_hand():
    # Five users with one entry each: gaps 1, 1, 1, 1, 6: mean 2, variance 5, standard error 1.
    owners = np.arange(5)
    one = Losses(values=np.array([2.0, 2.0, 2.0, 2.0, 7.0]), owners=owners)
    other = Losses(values=np.ones(5), owners=owners)
    assert paired(one, other) == (pytest.approx(2.0), pytest.approx(1.0))
    assert paired(other, one)[0] == pytest.approx(-2.0)


def test_entries_of_one_user_are_not_independent():
    owners = np.repeat(np.arange(10), 8)
    values = np.repeat(np.random.default_rng(0).normal(size=10), 8)
    lumped = Losses(values=values, owners=owners).error
    single = Losses(values=values[::8], owners=np.arange(10)).error
    assert lumped == pytest.approx(single)
    assert Losses(values=values, owners=np.arange(80)).error < lumped / 2


def test_very_few_users_are_judged_entry_by_entry():
    owners = np.repeat(np.arange(2), 50)
    values = np.random.default_rng(0).normal(size=100)
    assert Losses(values=values, owners=owners).error == pytest.approx(values.std(ddof=1) / 10)


def test_nothing_judged():
    nothing = Losses(values=np.zeros(0), owners=np.zeros(0, np.intp))
    assert math.isinf(nothing.mean)
    assert nothing.error == 0.0
    assert paired(nothing, nothing) == (0.0, 0.0)
    assert folds(sparse.csr_array((0, 3)), rounds=1, rng=np.random.default_rng(0))[0].users.size == 0
