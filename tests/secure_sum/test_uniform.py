"""A masked message alone looks uniform, and the tests that say so reject maskers that are broken."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from twofold.secure_sum import masking
from twofold.secure_sum.derive import add_stream

LENGTH = 1_000_000
ALPHA = 1e-4  # keys are fixed, so this is decided once and for all, not on every run


def p_values(masked, plain, bits: int) -> dict[str, float]:
    """Bytes, bits, repetitions and correlation with what is hidden; each is uniform on [0, 1] for uniform numbers."""
    data = masked.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : bits // 8]
    found = {f"byte {k}": stats.chisquare(np.bincount(data[:, k], minlength=256)).pvalue for k in range(bits // 8)}
    ones = np.array([np.count_nonzero(masked >> np.uint64(bit) & np.uint64(1)) for bit in range(bits)])
    z = (ones - masked.size / 2) / np.sqrt(masked.size / 4)
    found["bits"] = stats.chi2.sf(np.sum(z**2), bits)
    found["correlation"] = correlation(masked, plain)
    found["next"] = correlation(masked[1:], masked[:-1])
    if bits >= 40:
        pairs = masked.size * (masked.size - 1) / 2 / 2**bits
        found["repeated"] = stats.poisson.sf(masked.size - np.unique(masked).size - 1, pairs)
    return found


def correlation(left, right) -> float:
    left, right = left.astype(np.float64), right.astype(np.float64)
    if left.std() == 0 or right.std() == 0:
        return 1.0
    return 2 * stats.norm.sf(abs(np.corrcoef(left, right)[0, 1]) * np.sqrt(left.size))


def plain_values(kind: str, limit: int):
    steps = np.linspace(-limit, limit, LENGTH).astype(np.int64)
    return {"zeros": np.zeros(LENGTH, dtype=np.int64), "ramp": steps, "top": np.full(LENGTH, limit)}[kind]


def masked_values(group, plain):
    return group.mask("e001", plain, list(group.names)).numbers[:-2]


@pytest.mark.parametrize(("kind", "bits"), [("zeros", 48), ("ramp", 48), ("top", 48), ("ramp", 16), ("ramp", 64)])
def test_a_message_alone_is_uniform(federation, kind: str, bits: int) -> None:
    group = federation(3, bits=bits)
    plain = plain_values(kind, group.terms.limit)
    found = p_values(masked_values(group, plain), plain, bits)
    assert {name: p for name, p in found.items() if p < ALPHA} == {}


def narrow(total, key, *, bits, subtract=False):
    """Masks of 2^(bits - 8) only."""
    part = np.zeros_like(total)
    add_stream(part, key, bits=bits)
    part &= np.uint64(2 ** (bits - 8) - 1)
    total += -part if subtract else part


def repeating(total, key, *, bits, subtract=False):
    """The same 4096 masks again and again."""
    part = np.zeros(4096, dtype=np.uint64)
    add_stream(part, key, bits=bits)
    part = np.resize(part, total.size)
    total += -part if subtract else part


def even(total, key, *, bits, subtract=False):
    """Masks without their lowest bit."""
    part = np.zeros_like(total)
    add_stream(part, key, bits=bits)
    part &= ~np.uint64(1)
    total += -part if subtract else part


def none_at_all(total, key, *, bits, subtract=False):
    """No mask."""


@pytest.mark.parametrize(
    ("broken", "kind", "caught_by"),
    [
        (narrow, "zeros", "byte 5"),
        (narrow, "ramp", "correlation"),
        (repeating, "zeros", "repeated"),
        (even, "zeros", "bits"),
        (none_at_all, "ramp", "correlation"),
    ],
)
def test_a_broken_masker_is_caught(federation, monkeypatch, broken, kind: str, caught_by: str) -> None:
    group = federation(3)
    plain = plain_values(kind, group.terms.limit)
    monkeypatch.setattr(masking, "add_stream", broken)
    assert p_values(masked_values(group, plain), plain, 48)[caught_by] < ALPHA


def test_messages_of_two_entities_and_of_two_plans_do_not_go_together(federation) -> None:
    one, two = federation(3), federation(3, context=b"another")
    zeros = np.zeros(LENGTH // 5, dtype=np.int64)
    names = list(one.names)
    messages = [group.mask(name, zeros, names).numbers[:-2] for group in (one, two) for name in ("e000", "e001")]
    for i, left in enumerate(messages):
        for right in messages[:i]:
            assert p_values(left - right & np.uint64(2**48 - 1), zeros, 48)["bits"] > ALPHA


def test_all_messages_together_do_not_cancel_without_the_answers(federation) -> None:
    """Pairwise masks cancel in the sum; the self-masks must still hide it."""
    group = federation(3)
    zeros = np.zeros(LENGTH, dtype=np.int64)
    total = sum(group.mask(name, zeros, list(group.names)).numbers for name in group.names)
    found = p_values(total[:-2] & np.uint64(2**48 - 1), zeros, 48)
    assert min(found.values()) > ALPHA
