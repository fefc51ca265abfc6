"""Kernels: lazy, cached on disk, announced once, and never stale."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.refused import refused
from twofold.algorithms import _jit
from twofold.algorithms._jit import Deferred, Workers, kernel, numba_enabled, without_numba
from twofold.errors import BadParameter

INNER = """
from twofold.algorithms._jit import kernel
@kernel()
def scaled(x):
    return FACTOR * x
"""
OUTER = """
from inner import scaled
from twofold.algorithms._jit import kernel
@kernel()
def total(values):
    result = 0.0
    for value in values:
        result += scaled(value)
    return result
"""
CALL = """
import numpy as np
from outer import total
result = total(np.arange(4.0))
stats = total.dispatcher().stats
print(result, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run(code, folder, **environment):
    """Run code in a fresh process with its own cache; return what it prints and what it says."""
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=settings, check=True, cwd=folder
    )
    return done.stdout.split(), done.stderr


@kernel()
def doubled(values):
    result = np.empty_like(values)
    for i in range(values.size):
        result[i] = 2 * values[i]
    return result


def test_importing_the_package_does_not_import_numba(tmp_path):
    code = "import sys, twofold, twofold.algorithms; print('numba' in sys.modules, 'scipy.optimize' in sys.modules)"
    assert run(code, tmp_path)[0] == ["False", "False"]


def test_second_process_loads_from_the_cache(tmp_path):
    (tmp_path / "inner.py").write_text(INNER.replace("FACTOR", "2"))
    (tmp_path / "outer.py").write_text(OUTER)
    assert run(CALL, tmp_path)[0] == ["12.0", "0", "1"]
    assert run(CALL, tmp_path)[0] == ["12.0", "1", "0"]


def test_a_change_in_a_called_file_is_noticed(tmp_path):
    (tmp_path / "inner.py").write_text(INNER.replace("FACTOR", "2"))
    (tmp_path / "outer.py").write_text(OUTER)
    run(CALL, tmp_path)
    (tmp_path / "inner.py").write_text(INNER.replace("FACTOR", "3"))
    assert run(CALL, tmp_path)[0] == ["18.0", "0", "1"]


def test_compilation_is_announced_once_and_only_when_there_is_one(tmp_path):
    code = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
import numpy as np
from twofold.algorithms._nmf_kernels import transpose
one, empty = np.zeros(1, np.int32), np.empty(0)
transpose(np.array([0, 1]), one, np.ones(1), empty, np.zeros(3, np.int64), one.copy(), np.ones(1), empty)
"""
    assert run(code, tmp_path)[1].count("compiling numeric kernels") == 1
    assert run(code, tmp_path)[1] == ""
    other = tmp_path / "other"
    other.mkdir()
    assert run(code.replace("INFO", "WARNING"), other)[1] == "", "quiet without a terminal"


def test_announcement_goes_to_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(_jit, "_announced", False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    _jit._announce()
    _jit._announce()
    assert capsys.readouterr().err.count("compiling") == 1


def test_compiles_in_memory_where_no_folder_can_be_written(monkeypatch):
    import numba

    compile_for_real = numba.njit

    def refuse(*function, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return compile_for_real(*function, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    fresh = kernel()(doubled.python)
    np.testing.assert_array_equal(fresh(np.arange(3.0)), [0, 2, 4])


def test_switches_to_the_references(monkeypatch):
    assert numba_enabled()
    with without_numba():
        assert not numba_enabled()
    assert numba_enabled()
    monkeypatch.setenv("TWOFOLD_NO_NUMBA", "1")
    assert not numba_enabled()
    monkeypatch.setenv("TWOFOLD_NO_NUMBA", "0")
    assert numba_enabled()


def test_kernels_run_beside_each_other():
    results = []
    threads = [threading.Thread(target=lambda: results.append(doubled(np.ones(10)).sum())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [20.0] * 4


def test_deferred_names_work_in_kernels_only():
    with pytest.raises(TypeError, match="inside compiled kernels only"):
        Deferred("twofold.algorithms._lanes_compiled", "load")(1)


@pytest.mark.parametrize("threads", [1, 3, None])
def test_workers_run_every_block_once(threads):
    seen = np.zeros(50, dtype=int)
    with Workers(threads) as workers:
        workers.run(lambda block: seen.__setitem__(block, seen[block] + 1), 50)
        workers.run(lambda block: seen.__setitem__(block, seen[block] + 1), 50)
    np.testing.assert_array_equal(seen, 2)


@pytest.mark.parametrize("threads", [1, 3])
def test_workers_pass_errors_on(threads):
    def job(block):
        if block == 3:
            raise ValueError("block 3")

    with Workers(threads) as workers, pytest.raises(ValueError, match="block 3"):
        workers.run(job, 5)


def test_workers_need_a_thread():
    with refused(BadParameter, "threads", found="0"):
        Workers(0)
