"""Kernels: plain Python functions that numba compiles when first called, and blocks of work over threads.

Rules a kernel file keeps:

* decorate with ``@kernel()``; nothing here imports numba before a kernel is called;
* a kernel calls other kernels by their bare names, of its own file or imported from another. Numba's cache
  looks at the time stamp of one file, so a digest of every other file reached is made part of the name;
* kernels release the interpreter lock and run on one thread; `Workers` spreads fixed blocks of rows over
  threads. Blocks do not depend on the number of threads and each writes its own part of the output, so
  results are bit for bit the same on one thread and on many;
* every kernel has a NumPy reference of the same signature; callers ask `numba_enabled` which one to use.

BLAS threads would compete with ours for the processors and may cut a product differently on another machine, so a job
holds BLAS at one thread while it runs. The wheels of NumPy and of SciPy bring a BLAS each: there are two to hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import logging
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from twofold.errors import BadParameter, Set
from twofold.progress import tell

__all__ = [
    "Deferred",
    "Kernel",
    "Workers",
    "at_most_threads",
    "kernel",
    "numba_enabled",
    "one_blas_thread",
    "without_numba",
]

ENVIRONMENT_SWITCH = "TWOFOLD_NO_NUMBA"
NOTICE = "twofold: compiling numeric kernels for this processor; later runs load them from a cache."

# The OpenBLAS inside NumPy's wheels has its own prefix and suffix; builds by distributions have none.
_SPELLINGS = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads",
)

_logger = logging.getLogger("twofold")
_reference_only: ContextVar[bool] = ContextVar("twofold_reference_only", default=False)
_most_threads: ContextVar[int | None] = ContextVar("twofold_most_threads", default=None)
_compiling = threading.RLock()
_announced = False
_switching = threading.Lock()
_holders = 0
_before: list[int] = []

Switch = tuple[Callable[[], int], Callable[[int], object]]
Function = TypeVar("Function", bound=Callable[..., Any])


def numba_enabled() -> bool:
    """Whether compiled kernels are used; ``TWOFOLD_NO_NUMBA=1`` or `without_numba` turn them off."""
    return not _reference_only.get() and os.environ.get(ENVIRONMENT_SWITCH, "") in ("", "0")


@contextlib.contextmanager
def without_numba() -> Iterator[None]:
    """Use the slow NumPy reference functions inside the ``with`` block.

    Examples
    --------
    >>> with without_numba():
    ...     numba_enabled()
    False
    """
    token = _reference_only.set(True)
    try:
        yield
    finally:
        _reference_only.reset(token)


@contextlib.contextmanager
def at_most_threads(threads: int) -> Iterator[None]:
    """Limit every `Workers` made inside the ``with`` block, for callers that already run on several threads.

    Examples
    --------
    >>> with at_most_threads(1):
    ...     Workers().threads, Workers(8).threads
    (1, 1)
    """
    token = _most_threads.set(threads)
    try:
        yield
    finally:
        _most_threads.reset(token)


def kernel(*, fastmath: bool | set[str] = False) -> Callable[[Function], Kernel]:
    """Mark a function as a kernel.

    Parameters
    ----------
    fastmath : bool or set of str
        LLVM's relaxed floating point rules. Leave it off where NaN or infinity must be noticed;
        ``{"contract", "reassoc", "nsz"}`` reorders sums and nothing else.

    Examples
    --------
    >>> @kernel()
    ... def total(values):
    ...     result = 0.0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> isinstance(total, Kernel)
    True
    """
    return functools.partial(Kernel, fastmath=fastmath)


class Kernel:
    """A function that becomes machine code on its first call.

    Attributes
    ----------
    python : function
        What was written, uncompiled; callable only if it calls no other kernel.
    """

    def __init__(self, python: Callable[..., Any], *, fastmath: bool | set[str] = False) -> None:
        functools.update_wrapper(self, python)
        assert isinstance(python, types.FunctionType)
        self.python = python
        self._fastmath = fastmath
        self._dispatcher: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Compile (or load from the cache) when needed, then run."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            dispatcher = self.dispatcher()
        return dispatcher(*arguments)

    def dispatcher(self) -> Any:
        """Return numba's dispatcher of this kernel, made once."""
        with _compiling:
            if self._dispatcher is None:
                self._dispatcher = self._build()
            return self._dispatcher

    def _build(self) -> Any:
        import numba

        _listen()
        function = self._with_compiled_names()
        jit = functools.partial(numba.njit, nogil=True, fastmath=self._fastmath, error_model="numpy")
        try:
            # Functions typed into a prompt have no file for a cache to live beside.
            return jit(cache=not self.python.__code__.co_filename.startswith("<"))(function)
        except RuntimeError:  # no folder can be written, not even the user's own: compile in every process
            return jit()(function)

    def _with_compiled_names(self) -> types.FunctionType:
        """Copy the function, its kernels and deferred names replaced by what numba understands."""
        source = self.python
        names = dict(source.__globals__)
        names |= {name: used.load() for name, used in self._uses().items()}
        copy = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__, source.__closure__)
        copy.__qualname__ = source.__qualname__ + _digest(self.files() - {source.__code__.co_filename})
        copy.__module__ = source.__module__
        return copy

    def _uses(self) -> dict[str, Kernel | Deferred]:
        names = self.python.__globals__
        found = {name: names.get(name) for name in self.python.__code__.co_names}
        return {name: value for name, value in found.items() if isinstance(value, (Kernel, Deferred))}

    def load(self) -> Any:
        """Return the object that represents this kernel inside another one."""
        return self.dispatcher()

    def files(self) -> set[str]:
        """Return every source file whose change must compile this kernel again."""
        used = (value.files() for value in self._uses().values())
        return {self.python.__code__.co_filename}.union(*used)


class Deferred:
    """A name of a module that imports numba, usable inside kernels only and loaded when one is compiled."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *_: Any) -> Any:
        """Refuse calls outside a compiled kernel."""
        raise TypeError(f"{self._name} works inside compiled kernels only")

    def load(self) -> Any:
        """Import the module and return the object."""
        return getattr(importlib.import_module(self._module), self._name)

    def files(self) -> set[str]:
        """Return the module's source file."""
        return {str(importlib.import_module(self._module).__file__)}


class Workers:
    """Threads that run numbered blocks of work.

    Parameters
    ----------
    threads : int, optional
        How many; all processors this process may use when not given.

    Examples
    --------
    >>> squares = [0] * 4
    >>> with Workers(2) as workers:
    ...     workers.run(lambda block: squares.__setitem__(block, block**2), 4)
    >>> squares
    [0, 1, 4, 9]
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise BadParameter(
                "{parameter} must be at least 1.", found=str(threads), fix=Set("threads", None), parameter="threads"
            )
        asked = threads if threads is not None else _processors()
        self.threads = min(asked, _most_threads.get() or asked)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        """Start nothing until there is work for more than one thread."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def run(self, job: Callable[[int], object], n_blocks: int, *, phase: str = "") -> None:
        """Call ``job(0)`` to ``job(n_blocks - 1)``, in any order, and wait for all of them; a phase is told."""
        if self.threads == 1 or n_blocks == 1:
            for block in range(n_blocks):
                job(block)
                if phase:
                    tell(phase, block + 1, n_blocks)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="twofold")
        for block, _ in enumerate(self._pool.map(job, range(n_blocks))):
            if phase:
                tell(phase, block + 1, n_blocks)


def _digest(files: set[str]) -> str:
    """Return a short hash of the contents of some files; empty for no files."""
    if not files:
        return ""
    contents = b"".join(Path(file).read_bytes() for file in sorted(files))
    return f"_{hashlib.sha256(contents).hexdigest()[:12]}"


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _listen() -> None:
    """Announce the first compilation that is not cached."""
    from numba.core import event

    class Announce(event.Listener):
        def on_start(self, happened: Any) -> None:
            if happened.data["dispatcher"].py_func.__module__.startswith("twofold."):
                _announce()

        def on_end(self, happened: Any) -> None:
            pass

    event.register("numba:compile", Announce())  # type: ignore[no-untyped-call]


def _announce() -> None:
    global _announced
    if _announced:
        return
    _announced = True
    if sys.stderr is not None and sys.stderr.isatty():
        print(NOTICE, file=sys.stderr, flush=True)
    else:
        _logger.info(NOTICE)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the ``with`` block; do nothing where BLAS cannot be limited.

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
    with _switching:
        _holders += 1
        if _holders == 1:
            for reader, setter in _switches():
                _before.append(reader())
                setter(1)


def _leave() -> None:
    global _holders
    with _switching:
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
