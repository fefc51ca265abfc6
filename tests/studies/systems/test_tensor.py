"""Tensor factorization by ADMM: the consensus is the pooled solution, bytes by hand, planted components found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from studies.systems import system
from studies.systems.tensor import TensorADMM, _Part, sides, tensor_error
from twofold.data.sources import hospitals
from twofold.errors import BadParameter


def planted(seed: int, patients: int) -> sparse.csr_array:
    """Two kinds of patients, each with its own labs (items 0 to 5) and medications (6 to 13)."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=patients)
    rates = np.zeros((2, 14))
    rates[0, [0, 1, 2, 6, 7, 8, 9]] = 4.0
    rates[1, [3, 4, 5, 10, 11, 12, 13]] = 4.0
    return sparse.csr_array(rng.poisson(rates[kind]).astype(np.float64))


LABS, MEDS = np.arange(6), np.arange(6, 14)


def test_consensus_reaches_the_pooled_error() -> None:
    rows = [planted(seed, 80) for seed in range(3)]
    parts = [_Part.of(one, LABS, MEDS) for one in rows]
    every = [_Part.of(sparse.csr_array(sparse.vstack(rows)), LABS, MEDS)]
    how = TensorADMM(rank=2, iterations=60)
    apart, together = (tensor_error(some, *how.common(some, 0), how) for some in (parts, every))
    assert apart == pytest.approx(together, rel=0.02)
    short = TensorADMM(rank=2, iterations=2)
    assert tensor_error(parts, *short.common(parts, 0), short) > apart


def test_the_error_is_that_of_the_tensor_written_down() -> None:
    rows = planted(0, 9)
    part = _Part.of(rows, LABS, MEDS)
    how = TensorADMM(rank=2, iterations=5)
    B, C = how.common([part], 0)
    A = how._patients(part, B, C)
    whole = np.einsum("pl,pm->plm", part.y.toarray(), part.z.toarray())
    found = np.einsum("pr,lr,mr->plm", A, B, C)
    by_hand = ((whole - found) ** 2).sum() / (whole**2).sum()
    assert tensor_error([part], B, C, how) == pytest.approx(by_hand)


def test_planted_components_are_recommended() -> None:
    """A patient with half of a kind's items is recommended the rest of that kind."""
    rows = planted(1, 200)
    how = TensorADMM(rank=2, iterations=40)
    B, C = how.common([_Part.of(rows, LABS, MEDS)], 0)
    score = how._score(B, C, LABS, MEDS, np.zeros(14))
    history = np.zeros((2, 14))
    history[0, [0, 1, 6, 7]] = 4.0
    history[1, [3, 4, 10, 11]] = 4.0
    found = score(sparse.csr_array(history))
    assert found[0, [2, 8, 9]].min() > 3 * found[0, [3, 4, 5, 10, 11]].max()
    assert found[1, [5, 12, 13]].min() > 3 * found[1, [0, 1, 2, 6, 7]].max()


def test_an_empty_slice_gets_the_means() -> None:
    how = TensorADMM(rank=2, iterations=3)
    B, C = how.common([_Part.of(planted(1, 50), LABS, MEDS)], 0)
    only_labs = sparse.csr_array(np.eye(14)[:1])
    means = np.arange(14.0)
    assert how._score(B, C, LABS, MEDS, means)(only_labs)[0].tolist() == means.tolist()


def test_bytes_and_rounds_by_hand() -> None:
    federation = hospitals.load(0.002, n_hospitals=2)
    size = 4 * 457 * 3
    fitted = system("tensor-admm", rank=3, iterations=4).fit(federation, feedback="counts", seed=0)
    assert (fitted.rounds, fitted.bytes_up) == (11, 4 * 2 * (size + 8))
    assert fitted.bytes_down == 5 * 2 * size + 4 * 2 * 8
    assert not fitted.private
    whole = system("tensor-pooled", rank=3, iterations=4).fit(federation, feedback="counts", seed=0)
    entries = sum(8 * one.matrix.nnz + 8 * (one.n_users + 1) for one in federation.values())
    assert (whole.rounds, whole.bytes_up) == (2, entries)


def test_what_has_no_two_kinds_is_refused() -> None:
    federation = hospitals.load(0.001)
    with pytest.raises(BadParameter):
        system("tensor-admm").fit(federation, feedback="ratings", seed=0)
    assert [len(side) for side in sides(federation.catalog)] == [158, 299]
