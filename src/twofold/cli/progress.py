"""Bars that show how far a command has come: on a terminal, on standard error, gone when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from twofold.cli.render import FOR_MACHINES
from twofold.progress import Listener, heard

__all__ = ["bars", "waiting"]

#: Characters of a bar: with a phase, times and a rate, a line fits into 80 columns.
_WIDTH = 16


@contextmanager
def bars(what: str = "", *, keep: bool = True) -> Iterator[Listener]:
    """Show a bar for every phase that is told, or one for all; the result may be told, too.

    Each has the amount done, the time left and since when, and how much is done in a second.

    Parameters
    ----------
    what : str
        What goes on before anything is told.
    keep : bool
        Whether every phase keeps its own bar.
    """
    console = _terminal()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=_WIDTH),
        TaskProgressColumn(),
        _Left(),
        TimeElapsedColumn(),
        _Rate(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def step(phase: str, done: int, total: int) -> None:
            bar = phase if keep else ""
            # Of one piece of work nothing is known until it is done: its bar moves to and fro.
            known = None if (done, total) == (0, 1) else total
            if bar not in tasks:
                tasks[bar] = progress.add_task(phase, total=known)
            if done == 0 and progress.tasks[tasks[bar]].completed:  # the same phase once more
                progress.reset(tasks[bar])
            progress.update(tasks[bar], description=phase, completed=done, total=known)

        if what:
            step(what, 0, 1)
        with heard(step):
            yield step


@contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """Show one line while something is waited for; call the result with the text. Phases that are told show there, too.

    A phase shows how much of it is done, how much in a second, and the time left.
    """
    console = _terminal()
    if not console.is_terminal:
        yield lambda _: None
        return
    text = ""
    begun: dict[str, tuple[float, int]] = {}  # when a phase was first told, and how far it was then
    with console.status("") as status:

        def show(words: str) -> None:
            nonlocal text
            text = words
            status.update(words)

        def told(phase: str, done: int, total: int) -> None:
            now = time.monotonic()
            start, first = begun.setdefault(phase, (now, done))
            status.update(text if done >= total else _sentence(phase, done, total, done - first, now - start))
            if done >= total:
                del begun[phase]

        with heard(told):
            yield show


def _sentence(phase: str, done: int, total: int, more: int, seconds: float) -> str:
    """How far a phase has come; `more` of it in the last seconds.

    >>> _sentence("noise", 250_000, 1_000_000, 200_000, 4.0)
    'noise: 250,000 of 1,000,000, 50,000.0/s, 0:00:15 left'
    >>> _sentence("people", 0, 10, 0, 0.0)
    'people: 0 of 10'
    """
    if not more or seconds <= 0:
        return f"{phase}: {done:,} of {total:,}"
    left = timedelta(seconds=round((total - done) * seconds / more))
    return f"{phase}: {done:,} of {total:,}, {more / seconds:,.1f}/s, {left} left"


def _terminal() -> Console:
    return Console(stderr=True, force_terminal=False if FOR_MACHINES.get() else None)


class _Left(TimeRemainingColumn):
    """Time left, where it is known."""

    def render(self, task: Task) -> Text:
        left = super().render(task)
        return Text("") if task.total is None else Text.assemble(left, " left", style="progress.remaining")


class _Rate(ProgressColumn):
    """How much is done in a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f}/s")
