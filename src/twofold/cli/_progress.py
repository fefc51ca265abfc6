"""Progress bars: on a terminal only, on the error stream, gone when done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

__all__ = ["bar", "phases"]


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """One bar; call what it gives with how much is done, of how much."""
    with phases() as step:
        yield lambda done, total: step(what, done, total)


@contextmanager
def phases() -> Iterator[Callable[[str, int, int], None]]:
    """A bar per phase; call what it gives with the phase, how much is done, of how much."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks = {}

        def step(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(phase, total=total)
            progress.update(tasks[phase], completed=done, total=total)

        yield step
