"""Errors and warnings of the library for the command line: options of the verb instead of parameters."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import unwrap
from typing import Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from twofold.errors import Fix, Set, Surface, TwofoldError
from twofold.privacy.ledger.state import StaleRelease

__all__ = ["Shell", "Verb", "all_verbs", "shell_words"]


class Shell(Surface):
    """Names used by a verb: a parameter by its option, a field of a plan as in the file.

    Parameters
    ----------
    options : mapping of str to str
        The verb's options by the names of their parameters; what is not among them is written as in a plan file.

    Examples
    --------
    >>> shell = Shell({"max_items": "--max-items", "simulation": "--simulation", "survivors": "--survivors"})
    >>> shell.name("max_items"), shell.name("secure.survivors"), shell.name("rank")
    ('--max-items', '--survivors', 'rank')
    >>> shell.fix((Set("max_items", 60), Set("simulation", True))), shell.fix(Set("rank", 5))
    ('--max-items 60, or --simulation', 'rank = 5')
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    @classmethod
    def of(cls, command: TyperCommand) -> Shell:
        """Take the options of a command, by their long names."""
        given = [one for one in command.params if isinstance(one, TyperOption)]
        return cls({str(one.name): max(one.opts, key=len) for one in given})

    def name(self, parameter: str) -> str:
        """Name the option, or the field as in a plan file."""
        last = self.options.get(parameter.rpartition(".")[2], parameter)
        return self.options.get(parameter.replace(".", "_"), last)

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
    """A command that prints its errors in terms of its options; `main` turns them into an exit code."""

    def __init__(self, name: str | None, **given: Any) -> None:
        super().__init__(name, **given)
        told = get_type_hints(unwrap(given["callback"]), include_extras=True)
        for one in self.params:
            if isinstance(one, TyperArgument):  # click 8.5 drops what typer below 0.21 says of an argument
                one.help = told[str(one.name)].__metadata__[0].help

    def invoke(self, ctx: Any) -> Any:  # the class of a context is private in typer 0.29
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except TwofoldError as error:
            typer.echo(f"{type(error).__name__}: {error.render(Shell.of(self))}", err=True)
            raise


def all_verbs(app: typer.Typer) -> None:
    """Make every command of an application and its subcommands a `Verb`."""
    for command in app.registered_commands:
        command.cls = Verb
    for group in app.registered_groups:
        if group.typer_instance is not None:
            all_verbs(group.typer_instance)


@contextmanager
def shell_words(*, secure: bool = False) -> Iterator[None]:
    """Say, for the command line, what changed data need.

    Parameters
    ----------
    secure : bool
        Whether the plan has a secure sum: its keys serve one version of the data, so no other may be advised.
    """
    from twofold.entity.account import NothingExpected  # loads what most commands do without

    needs = "a new plan and new keys" if secure else "a new public name of their state: --version"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingExpected)  # accept_useless has asked
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            shown(StaleRelease(needs) if issubclass(category, StaleRelease) else message, category, *where, **more)

        warnings.showwarning = show
        yield
