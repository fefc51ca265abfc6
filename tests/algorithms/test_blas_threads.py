"""BLAS is held at one thread and set free again."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import pytest

from twofold.algorithms import _jit as _blas_threads
from twofold.algorithms._jit import one_blas_thread


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stand in for a BLAS of six threads."""
    threads = [6]
    switch: tuple[Callable[[], int], Callable[[int], None]] = (lambda: threads[-1], threads.append)
    monkeypatch.setattr(_blas_threads, "_switches", lambda: (switch,))
    return threads


def test_nested_blocks_restore_once_at_the_end(setting: list[int]) -> None:
    with one_blas_thread():
        with one_blas_thread():
            assert setting[-1] == 1
        assert setting[-1] == 1
    assert setting == [6, 1, 6]


def fail() -> None:
    with one_blas_thread():
        raise KeyError


def test_an_error_restores_too(setting: list[int]) -> None:
    with pytest.raises(KeyError):
        fail()
    assert setting[-1] == 6


def test_a_blas_without_the_switch_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blas_threads, "_switches", lambda: ())
    with one_blas_thread():
        pass
    assert _blas_threads._holders == 0


def test_two_names_of_one_library_end_where_they_began(monkeypatch: pytest.MonkeyPatch, setting: list[int]) -> None:
    (switch,) = _blas_threads._switches()
    monkeypatch.setattr(_blas_threads, "_switches", lambda: (switch, switch))
    with one_blas_thread():
        assert setting[-1] == 1
    assert setting[-1] == 6


def test_the_switches_of_this_numpy_and_scipy_work_if_they_have_one() -> None:
    switches = _blas_threads._switches()
    if not switches:
        pytest.skip("neither BLAS offers a switch we know")
    before = [reader() for reader, _ in switches]
    with one_blas_thread():
        assert [reader() for reader, _ in switches] == [1] * len(switches)
    assert [reader() for reader, _ in switches] == before


def test_a_module_without_a_blas_has_no_switch() -> None:
    assert _blas_threads._switch(math) is None
    assert _blas_threads._switch(ModuleType("nowhere")) is None
