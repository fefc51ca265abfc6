"""Bars that show how far a command has come: on a terminal, on standard error, gone when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    """Show one line while something is waited for; call the result with the text."""
    console = _terminal()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


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
