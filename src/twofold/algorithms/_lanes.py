"""Vectors of eight numbers for kernels: names that numba knows only once a kernel is compiled.

LLVM turns one operation on eight lanes into the widest instructions of the processor at hand (one AVX-512 or
AVX2 instruction, two or four on older processors and on ARM), where an ordinary loop over a short, unknown
length is often left scalar. The code behind these names is in `_lanes_compiled`.
"""

from __future__ import annotations

from twofold.algorithms._jit import Deferred

__all__ = [
    "LANES",
    "add",
    "divide",
    "fill",
    "load",
    "multiply",
    "multiply_add",
    "root",
    "store",
    "subtract",
    "subtract_product",
    "total",
    "where_positive",
]

LANES = 8
_HOME = "twofold.algorithms._lanes_compiled"

load = Deferred(_HOME, "load")
store = Deferred(_HOME, "store")
fill = Deferred(_HOME, "fill")
total = Deferred(_HOME, "total")
add = Deferred(_HOME, "add")
subtract = Deferred(_HOME, "subtract")
multiply = Deferred(_HOME, "multiply")
divide = Deferred(_HOME, "divide")
root = Deferred(_HOME, "root")
multiply_add = Deferred(_HOME, "multiply_add")  # a * b + c
subtract_product = Deferred(_HOME, "subtract_product")  # a - b * c
where_positive = Deferred(_HOME, "where_positive")  # b where a > 0, else c
