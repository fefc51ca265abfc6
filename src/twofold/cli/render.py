"""What all verbs share: help with examples, --quiet, and errors in terms of options instead of parameters."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from twofold.cli import STOPPED, UNREAD
from twofold.errors import Fix, Run, Set, Surface, TransportError, TwofoldError

__all__ = ["FOR_MACHINES", "Shell", "Verb", "all_verbs", "say", "shell_words"]

#: Whether a program reads what the command prints: it gets no bars of progress, whatever the terminal is.
FOR_MACHINES: ContextVar[bool] = ContextVar("for_machines", default=False)


def say(text: str, *, err: bool = False) -> None:
    """Print sentences; on a terminal, lines break between words. Files and pipes get them as they are."""
    if (sys.stderr if err else sys.stdout).isatty():
        width = max(20, get_terminal_size().columns)
        text = "\n".join(_folded(line, width) for line in text.split("\n"))
    typer.echo(text, err=err)


def _folded(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return fill(
        line.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


class Shell(Surface):
    """Names used by a verb: a parameter by its option, a field of a plan as in the file.

    Parameters
    ----------
    options : mapping of str to str
        The verb's options by the names of their parameters; what is not among them is written as in a plan file.
    plan : str, optional
        The plan file that was named, for the commands that are advised.

    Examples
    --------
    >>> shell = Shell({"max_items": "--max-items", "simulation": "--simulation", "survivors": "--survivors"})
    >>> shell.name("max_items"), shell.name("secure.survivors"), shell.name("rank")
    ('--max-items', '--survivors', 'rank')
    >>> shell.fix((Set("max_items", 60), Set("simulation", True))), shell.fix(Set("rank", 5))
    ('--max-items 60, or --simulation', 'rank = 5')
    """

    def __init__(self, options: Mapping[str, str], plan: str | None = None) -> None:
        self.options, self.plan = options, plan

    @classmethod
    def of(cls, command: TyperCommand) -> Shell:
        """Take the options of a command, by their long names."""
        given = [one for one in command.params if isinstance(one, TyperOption)]
        return cls({str(one.name): max(one.opts, key=len) for one in given})

    def name(self, parameter: str) -> str:
        """Name the option, or the field as in a plan file."""
        last = self.options.get(parameter.rpartition(".")[2], parameter)
        return self.options.get(parameter.replace(".", "_"), last)

    def command(self, advice: Run) -> str:
        """Write a command, about the plan that was named."""
        return super().command(advice).replace(" plan.toml", f" {self.plan or 'plan.toml'}")

    def fix(self, fix: Fix) -> str:
        """Say what to do; of several ways, give those for which this verb has options."""
        if isinstance(fix, tuple):
            fix = (
                tuple(one for one in fix if not isinstance(one, Set) or self.name(one.parameter) != one.parameter)
                or fix
            )
        return super().fix(fix)

    def setting(self, advice: Set) -> str:
        """Write an option with its value, a flag without one."""
        name = self.name(advice.parameter)
        if name == advice.parameter:
            return f"{name} = {json.dumps(advice.value, default=str)}"
        value = "none" if advice.value is None else shlex.quote(str(advice.value))
        return name if advice.value is True else f"{name} {value}"


class Verb(TyperCommand):
    """A command with examples that prints its errors in terms of its options; `run` turns them into an exit code.

    The last section of its docstring holds the examples, one per line, or one after "Example:".
    """

    def __init__(self, name: str | None, **given: Any) -> None:
        text, _, examples = str(given.get("help") or "").partition("\n\nExample")
        given |= {"help": text, "epilog": _examples(examples.lstrip("s:\n-"))}
        super().__init__(name, **given)
        told = get_type_hints(inspect.unwrap(given["callback"]), include_extras=True)
        for one in self.params:
            if isinstance(one, TyperArgument):  # click 8.5 drops what typer below 0.21 says of an argument
                one.help = told[str(one.name)].__metadata__[0].help

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - a list of verbs wraps, and cuts nothing
        """Give the first sentence, whole."""
        first, _, _ = " ".join(str(self.help).split("\n\n")[0].split()).partition(". ")
        return first.rstrip(".") + "."

    def invoke(self, ctx: Any) -> Any:  # the class of a context is private in typer 0.29
        """Run the verb."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler and _is_ours():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except TwofoldError as error:
            self._tell(error, ctx)
            raise
        except BrokenPipeError:  # the reader has seen enough
            raise typer.Exit(UNREAD) from None
        except KeyboardInterrupt:
            typer.echo("Stopped. Whatever was written is whole; the same command may be run again.", err=True)
            raise typer.Exit(STOPPED) from None
        except (OSError, MemoryError) as error:
            refused = _refused(error)
            self._tell(refused, ctx)
            raise refused from None

    def _tell(self, error: TwofoldError, ctx: Any) -> None:
        shell, plan = Shell.of(self), ctx.params.get("plan")
        shell.plan = shlex.quote(str(plan)) if isinstance(plan, Path) else None
        say(f"{type(error).__name__}: {error.render(shell)}", err=True)


def _is_ours() -> bool:
    """Whether Ctrl-C still ends the process at once, as it does until the first verb runs."""
    return getattr(signal.getsignal(signal.SIGINT), "__module__", "") == "twofold.cli"


def _refused(error: OSError | MemoryError) -> TransportError:
    """Say what the system refused: a full disk, missing rights, too little memory."""
    if isinstance(error, MemoryError):
        return TransportError(
            "there is not enough memory for this.", fix="a machine with more, or a smaller table or catalog"
        )
    name = Path(os.fsdecode(error.filename)).name if isinstance(error.filename, str | bytes) else "a file or stream"
    return TransportError(
        "the system refused to read or write.",
        found=f"{name}: {error.strerror or type(error).__name__}",
        fix="check the name, the rights and the room on the disk, and run the same command again",
    )


def _examples(text: str) -> str | None:
    """Lay out example commands, one per line, long ones continued as a shell allows it."""
    lines = re.sub(r"\n +", " ", text.strip()).splitlines()  # an indented line goes on with the one before
    if not lines:
        return None
    shown = [fill(one, 72, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False) for one in lines]
    joined = [one.replace("\n", " \\\n") for one in shown]
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for one in joined for line in one.splitlines())


def all_verbs(app: typer.Typer) -> None:
    """Make every command of an application and its subcommands a `Verb` that can be quiet."""
    for command in app.registered_commands:
        if command.cls is not Verb and command.callback is not None:
            command.cls = Verb
            command.callback = _quietly(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            all_verbs(group.typer_instance)


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only; with --json, the record too.")]


def _quietly(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the option --quiet."""

    @wraps(verb)
    def run(*, quiet: bool = False, **given: Any) -> None:
        with ExitStack() as stack:
            stack.callback(FOR_MACHINES.reset, FOR_MACHINES.set(bool(given.get("json"))))
            if quiet:
                nowhere = stack.enter_context(Path(os.devnull).open("r+", encoding="utf-8"))
                stack.enter_context(redirect_stderr(nowhere))
                if not given.get("json"):
                    stack.enter_context(redirect_stdout(nowhere))
                if sys.stdin.isatty():  # nobody sees a question
                    stack.callback(setattr, sys, "stdin", sys.stdin)
                    sys.stdin = nowhere
            verb(**given)

    hints = get_type_hints(verb, include_extras=True)
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in inspect.signature(verb).parameters.values()]
    every = [one.replace(annotation=hints.get(one.name, one.annotation)) for one in own]
    every.append(inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet))
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in every}
    return run


@contextmanager
def shell_words(*, secure: bool = False) -> Iterator[None]:
    """Say, for the command line, what changed data need.

    Parameters
    ----------
    secure : bool
        Whether the plan has a secure sum: its keys serve one version of the data, so no other may be advised.
    """
    from twofold.entity.account import NothingExpected  # these load what most commands do without
    from twofold.privacy.ledger.state import StaleRelease

    needs = "a new plan and new keys" if secure else "a new public name of their state: --version"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingExpected)  # accept_useless has asked
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            shown(StaleRelease(needs) if issubclass(category, StaleRelease) else message, category, *where, **more)

        warnings.showwarning = show
        yield
