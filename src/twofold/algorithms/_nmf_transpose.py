"""Entries in compressed rows, turned into compressed columns by a counting sort."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from twofold.algorithms._jit import kernel

Array = NDArray[Any]


@kernel()
def transpose(
    starts: Array,
    columns: Array,
    values: Array,
    weights: Array,
    new_starts: Array,
    new_columns: Array,
    new_values: Array,
    new_weights: Array,
) -> None:
    """Fill the arrays of the transposed matrix; `new_starts` comes in as zeros, two longer than the columns.

    While entries are placed, ``new_starts[c + 1]`` is where column c's next one goes; at the end it is where
    column c stops, which leaves the starts one place to the left: the last element is spare.
    """
    for e in range(columns.size):
        new_starts[columns[e] + 2] += 1
    for c in range(2, new_starts.size):
        new_starts[c] += new_starts[c - 1]
    for row in range(starts.size - 1):
        for e in range(starts[row], starts[row + 1]):
            c = columns[e] + 1
            place = new_starts[c]
            new_starts[c] = place + 1
            new_columns[place] = row
            new_values[place] = values[e]
            if weights.size:
                new_weights[place] = weights[e]
