"""BLAS is held at one thread and set free again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from twofold.algorithms import _blas_threads
from twofold.algorithms._blas_threads import one_blas_thread


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stand in for a BLAS of six threads."""
    threads = [6]
    switch: tuple[Callable[[], int], Callable[[int], None]] = (lambda: threads[-1], threads.append)
    monkeypatch.setattr(_blas_threads, "_switch", lambda: switch)
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
    monkeypatch.setattr(_blas_threads, "_switch", lambda: None)
    with one_blas_thread():
        pass
    assert _blas_threads._holders == 0


def test_the_switch_of_this_numpy_works_if_it_has_one() -> None:
    switch = _blas_threads._switch()
    if switch is None:
        pytest.skip("this NumPy's BLAS offers no switch we know")
    before = switch[0]()
    with one_blas_thread():
        assert switch[0]() == 1
    assert switch[0]() == before
