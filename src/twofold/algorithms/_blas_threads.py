"""Keep the matrix products of NumPy and the factorizations of SciPy on the thread that asks for them.

Our own threads each work on a block of rows. If BLAS starts threads too, they fight for the same processors, and a
product may be cut differently on another machine. So a job holds BLAS at one thread while it runs. The wheels of NumPy
and of SciPy bring a BLAS each, so there are two to hold.
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
_SPELLINGS = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads",
)
_lock = threading.Lock()
_holders = 0
_before: list[int] = []

Switch = tuple[Callable[[], int], Callable[[int], object]]


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
    global _holders
    with _lock:
        _holders += 1
        if _holders == 1:
            for reader, setter in _switches():
                _before.append(reader())
                setter(1)


def _leave() -> None:
    global _holders
    with _lock:
        _holders -= 1
        if _holders == 0:
            for _, setter in reversed(_switches()):  # backwards: both may be one library
                setter(_before.pop())


@functools.cache
def _switches() -> tuple[Switch, ...]:
    """Find the reader and the setter of each OpenBLAS through a module that is linked with it."""
    found = (_switch(module) for module in _linked_modules())
    return tuple(switch for switch in found if switch is not None)


def _switch(module: ModuleType) -> Switch | None:
    try:
        library = ctypes.CDLL(str(module.__file__))
    except (OSError, AttributeError):
        return None
    for spelling in _SPELLINGS:
        reader = getattr(library, spelling.format("get"), None)
        setter = getattr(library, spelling.format("set"), None)
        if reader is not None and setter is not None:
            return reader, setter
    return None


def _linked_modules() -> tuple[ModuleType, ...]:
    from numpy.linalg import _umath_linalg
    from scipy.linalg import cython_blas

    return _umath_linalg, cython_blas
