"""Release of prototypes: seconds and memory, and how both grow with the number of interactions."""

from __future__ import annotations

import functools
import time

import numpy as np
import scipy.sparse as sp

from benchmarks._rows import extra_megabytes
from benchmarks.table import Table, versions
from twofold.release import PRIVATE, ReleaseParameters, mechanism

ITEMS, PER_USER, BOUND = 500, 40, 5
NOTE = (
    f"Sparse counts, {PER_USER} of {ITEMS} items per user, k=10, ε=30 (so that nothing falls back), noise from the "
    "operating system, one call of release each. MB: memory the release adds to the rows. The growth is the CPU time "
    "per interaction over that of the line above: 1 is linear."
)


def run(*, quick: bool) -> list[Table]:
    """Every private mechanism on tables from ten thousand users to one million."""
    sizes = [1_000, 4_000] if quick else [10_000, 100_000, 1_000_000]
    return [_table(name, sizes) for name in PRIVATE]


def _table(name: str, sizes: list[int]) -> Table:
    rows, before = [], float("nan")
    for n_users in sizes:
        table = _rows(n_users)
        public = ReleaseParameters(n_items=ITEMS, n_users=n_users, max_items=PER_USER, bound=BOUND, epsilon=30)
        release = functools.partial(mechanism(name).release, table, public)
        if not rows:
            release()  # compiles, where there is something to compile
        memory = extra_megabytes(release)
        wall, cpu = time.perf_counter(), time.process_time()
        released = release()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        each = 1e9 * cpu / table.nnz
        rows.append(
            [f"{n_users:,}", f"{table.nnz:,}", wall, cpu, memory, each, each / before, bool(released.value.note)]
        )
        before = each
    columns = ("users", "interactions", "wall s", "CPU s", "MB", "CPU ns per interaction", "growth", "fell back")
    note = f"{NOTE} {versions('numpy', 'scipy', 'numba')}"
    return Table(title=f"release by {name}", columns=columns, rows=rows, note=note)


@functools.cache
def _rows(n_users: int) -> sp.csr_array:
    """Users of ten groups, each with items of its own that are twice as frequent as others."""
    rng = np.random.default_rng(0)
    groups = rng.integers(10, size=n_users)[:, None]
    own = (rng.integers(ITEMS // 10, size=(n_users, PER_USER)) * 10 + groups).astype(np.int32)
    any_item = rng.integers(ITEMS, size=(n_users, PER_USER), dtype=np.int32)
    columns = np.where(rng.random((n_users, PER_USER), dtype=np.float32) < 0.1, own, any_item)
    values = rng.integers(1, BOUND + 1, size=columns.size).astype(np.float32)
    starts = np.arange(0, columns.size + 1, PER_USER)
    table = sp.csr_array((values, columns.ravel(), starts), shape=(n_users, ITEMS))
    table.sum_duplicates()
    return table
