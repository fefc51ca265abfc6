"""How far a long computation has come: the computation reports, a display listens, and neither needs the other.

The listener belongs to the context it was set in. Threads that entities of a simulation run on have none, so what is
inside one of many entities is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "counting", "heard", "listening", "nobody", "step", "tell"]

#: Called with a phase, how much of it is done, and how much there is.
Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("twofold_listener", default=None)
_counter: ContextVar[Callable[[], None] | None] = ContextVar("twofold_counter", default=None)


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Tell a listener how far everything inside the ``with`` block has come.

    Parameters
    ----------
    listener : function of a name and two numbers
        Called with the phase, how much is done, and how much there is; from the thread that computes. What it raises
        ends the computation.

    Examples
    --------
    >>> with heard(print):
    ...     tell("messages", 1, 2)
    messages 1 2
    >>> tell("messages", 2, 2)
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(phase: str, done: int, total: int) -> None:
    """Say how much of a phase is done, and how much there is."""
    listening()(phase, done, total)


def listening() -> Listener:
    """Return the current listener, so that another thread can report to it."""
    return _listener.get() or nobody


def nobody(*_: object) -> None:
    """Hear nothing: for what is inside a step that is told as a whole."""


@contextmanager
def counting(phase: str, total: int) -> Iterator[None]:
    """Count every `step` inside the ``with`` block; all is done at its end, even if the total was only a guess.

    Examples
    --------
    >>> with heard(print), counting("models", 3):
    ...     step()
    models 0 3
    models 1 3
    models 3 3
    """
    done = 0

    def more() -> None:
        nonlocal done
        done = min(done + 1, total - 1)
        tell(phase, done, total)

    before = _counter.set(more)
    tell(phase, 0, total)
    try:
        yield
    finally:
        _counter.reset(before)
    tell(phase, total, total)


def step() -> None:
    """Say that one more piece of what is `counting` is done."""
    counter = _counter.get()
    if counter is not None:
        counter()
