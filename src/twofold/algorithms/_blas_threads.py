"""Keep the matrix products of NumPy on the thread that asks for them.

Our own threads each work on a block of rows. If BLAS starts threads too, they fight for the same processors, and a
product may be cut differently on another machine. So a job holds BLAS at one thread while it runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from types import ModuleType

__all__ = ["one_blas_thread"]

# The OpenBLAS inside NumPy's wheels has a prefix and a suffix of its own; builds by distributions have none.
_SPELLINGS = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")
_lock = threading.Lock()
_holders = 0
_before = 1


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread inside the ``with`` block; do nothing where it offers no such switch.

    Several threads may be inside at once: the first one in switches, the last one out restores.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     float(np.ones(3) @ np.ones(3))
    3.0
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _holders, _before
    with _lock:
        _holders += 1
        switch = _switch()
        if switch is not None and _holders == 1:
            _before = switch[0]()
            switch[1](1)


def _leave() -> None:
    global _holders
    with _lock:
        _holders -= 1
        switch = _switch()
        if switch is not None and _holders == 0:
            switch[1](_before)


@functools.cache
def _switch() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Find OpenBLAS's reader and setter through the NumPy module that is linked with it."""
    try:
        library = ctypes.CDLL(str(_linked_module().__file__))
    except (OSError, AttributeError):
        return None
    for spelling in _SPELLINGS:
        reader = getattr(library, spelling.format("get"), None)
        setter = getattr(library, spelling.format("set"), None)
        if reader is not None and setter is not None:
            return reader, setter
    return None


def _linked_module() -> ModuleType:
    from numpy.linalg import _umath_linalg

    return _umath_linalg
