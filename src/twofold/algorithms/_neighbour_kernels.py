"""Co-occurrences of columns, added up in one vector per block, the strongest kept in a heap; their product with rows.

The heap of a column has its weakest member on top. Of two equal values the later column is the weaker.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._jit import kernel

Array = NDArray[Any]


@kernel()
def weaker(value: Any, column: int, other: Any, beside: int) -> bool:
    """Whether the first pair is weaker than the second."""
    return value < other or (value == other and column > beside)


@kernel()
def sink(values: Array, columns: Array, size: int, value: Any, column: int) -> None:
    """Put a pair in the place of the top, then move it down to where it belongs."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and weaker(values[child + 1], columns[child + 1], values[child], columns[child]):
            child += 1
        if weaker(value, column, values[child], columns[child]):
            break
        values[at], columns[at] = values[child], columns[child]
        at = child
    values[at], columns[at] = value, column


@kernel()
def rise(values: Array, columns: Array, size: int, value: Any, column: int) -> None:
    """Put a pair behind the last one, then move it up to where it belongs."""
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if weaker(values[parent], columns[parent], value, column):
            break
        values[at], columns[at] = values[parent], columns[parent]
        at = parent
    values[at], columns[at] = value, column


@kernel()
def strongest_columns(
    first: int,
    last: int,
    starts: Array,
    rows: Array,
    values: Array,
    row_starts: Array,
    row_columns: Array,
    row_values: Array,
    source_scale: Array,
    target_scale: Array,
    found: Array,
    weights: Array,
    counts: Array,
) -> None:
    """Fill the lists of columns `first` to `last`, each in the order of its columns.

    Parameters
    ----------
    starts, rows, values : arrays
        Entries in compressed columns.
    row_starts, row_columns, row_values : arrays
        The same entries in compressed rows.
    source_scale, target_scale : arrays
        Factors of the column beside and of the column itself.
    found, weights : arrays (last - first, most)
        Columns beside each one, and their values.
    counts : array (last - first,)
        How many there are.
    """
    most = found.shape[1]
    sums = np.zeros(source_scale.size, values.dtype)
    met = np.zeros(source_scale.size, np.bool_)
    order = np.empty(source_scale.size, np.int32)
    for i in range(first, last):
        seen = 0
        for e in range(starts[i], starts[i + 1]):
            row, value = rows[e], values[e]
            for f in range(row_starts[row], row_starts[row + 1]):
                j = row_columns[f]
                if not met[j]:
                    met[j] = True
                    order[seen] = j
                    seen += 1
                sums[j] += value * row_values[f]
        size = 0
        heap, names = weights[i - first], found[i - first]
        for at in range(seen):
            j = order[at]
            weight = sums[j] * source_scale[j] * target_scale[i]
            sums[j] = 0
            met[j] = False
            if j == i or not weight > 0:
                continue
            if size < most:
                rise(heap, names, size, weight, j)
                size += 1
            elif weaker(heap[0], names[0], weight, j):
                sink(heap, names, size, weight, j)
        counts[i - first] = size
        if size:
            places = np.argsort(names[:size])
            names[:size] = names[:size][places]
            heap[:size] = heap[:size][places]


@kernel()
def add_weighted(
    starts: Array,
    columns: Array,
    values: Array,
    weight_starts: Array,
    targets: Array,
    weights: Array,
    out: Array,
) -> None:
    """Add the product of compressed rows and compressed weights to whole rows."""
    for row in range(starts.size - 1):
        line = out[row]
        for e in range(starts[row], starts[row + 1]):
            value, source = values[e], columns[e]
            for f in range(weight_starts[source], weight_starts[source + 1]):
                line[targets[f]] += value * weights[f]
