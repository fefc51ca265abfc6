"""Vectors of eight: each operation against NumPy, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.algorithms._jit import kernel
from twofold.algorithms._lanes import (
    add,
    divide,
    fill,
    load,
    multiply,
    multiply_add,
    root,
    store,
    subtract,
    subtract_product,
    total,
    where_positive,
)


@kernel()
def every(a, b, c, out):
    x, y, z = load(a, 1), load(b, 1), load(c, 1)
    store(out, 0, add(x, y))
    store(out, 8, subtract(x, y))
    store(out, 16, multiply(x, y))
    store(out, 24, divide(x, y))
    store(out, 32, root(y))
    store(out, 40, multiply_add(x, y, z))
    store(out, 48, subtract_product(x, y, z))
    store(out, 56, where_positive(x, y, z))
    store(out, 64, fill(a[2]))


@kernel()
def sum_of_eight(a):
    return total(load(a, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eight_numbers_are_added_up(dtype):
    a = np.random.default_rng(0).standard_normal(10).astype(dtype)
    assert sum_of_eight(a) == pytest.approx(a[1:9].sum(), rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operations_are_elementwise_and_unaligned(dtype):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(10).astype(dtype) for _ in range(3))
    b = np.abs(b) + 1
    out = np.full(73, np.nan, dtype)
    every(a, b, c, out)
    x, y, z = a[1:9], b[1:9], c[1:9]
    expected = [x + y, x - y, x * y, x / y, np.sqrt(y), x * y + z, x - y * z, np.where(x > 0, y, z)]
    np.testing.assert_allclose(out[:64].reshape(8, 8), expected, rtol=4 * np.finfo(dtype).eps, atol=1e-6)
    np.testing.assert_array_equal(out[64:72], a[2])
    assert np.isnan(out[72])
