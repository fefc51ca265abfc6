"""The list of verbs. Each is loaded when it is used: `twofold --help` needs none of them."""

from __future__ import annotations

import codecs
import os
import sys
import warnings
from collections import UserDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from traceback import extract_tb, print_exc
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_group

from twofold import __version__
from twofold.cli import NOT_YET, UNREAD
from twofold.cli.render import all_verbs
from twofold.errors import NotApproved, TwofoldError

__all__ = ["VERBS", "app", "run"]


class Listed(NamedTuple):
    """A verb: where it is, and its line in the list."""

    home: str
    name: str
    line: str


#: In the order of the flow.
VERBS: Final = {
    "demo": Listed("demo", "demo", "Simulate hospitals, run both rounds, compare and report."),
    "init": Listed("init", "init", "Write keys, folders and a plan, and say what to type next."),
    "doctor": Listed("doctor", "doctor", "Look whether this machine is ready."),
    "check": Listed("check", "check", "Look at a table before anything is spent."),
    "catalog": Listed("catalog", "app", "Make an item list from a public vocabulary."),
    "plan": Listed("plan", "app", "Write, show, explain and agree to plans."),
    "keys": Listed("keys", "app", "Keys of entities, operators and people who approve."),
    "release": Listed("rounds", "release", "Make an entity's one message."),
    "factorize": Listed("rounds", "factorize", "Combine all messages into shared item factors."),
    "coordinate": Listed("coordinate", "coordinate", "Run the server, over folders or as a service."),
    "personalize": Listed("rounds", "personalize", "Fit an entity's model. Costs nothing."),
    "invite": Listed("invite", "invite", "Write the file from which an entity's set-up follows."),
    "join": Listed("join", "join", "Take part as an entity; can be stopped and run again."),
    "forward": Listed("forward", "forward", "Carry files to a server for a site without a line."),
    "recommend": Listed("recommend", "recommend", "Recommend items to a user, a new person or everyone."),
    "evaluate": Listed("evaluate", "evaluate", "Measure a model; say whether joining paid."),
    "report": Listed("report", "report", "Write one page about a model, its messages and card."),
    "serve": Listed("serve", "serve", "Answer an application's requests, and show a console."),
    "simulate": Listed("simulate", "simulate", "Run a whole federation on one table."),
    "ledger": Listed("ledger", "app", "What has left a data set, and what may still leave."),
    "policy": Listed("policy", "app", "What may leave this site at all."),
    "approve": Listed("approve", "approve", "Look at a draft of a release and sign it."),
    "log": Listed("log", "app", "The security log of an entity."),
    "card": Listed("card", "app", "The privacy card of a release: show, verify, export."),
    "audit": Listed("audit", "audit", "Attack every mechanism; catch the broken ones."),
    "errors": Listed("errors", "errors", "Explain an error or an exit code."),
    "completion": Listed("completion", "completion", "Print the script that completes words in your shell."),
}


class _Commands(UserDict[str, Any]):
    """Commands by name; a listed verb is loaded when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _load(name)
        return self.data[name]


def _load(name: str) -> Any:
    """Load a verb, or a group of verbs, as a command."""
    where = VERBS[name]
    found = getattr(import_module(f"twofold.cli.{where.home}"), where.name)
    holder = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    all_verbs(holder)
    return get_group(holder).commands[name]


@contextmanager
def _taken() -> Iterator[None]:
    """End quietly if nobody reads what is printed, and say so if there is no room for it."""
    try:
        yield
    except BrokenPipeError:
        raise typer.Exit(UNREAD) from None
    except OSError as error:
        typer.echo(f"TransportError: the output was not written: {error.strerror}.", err=True)
        raise typer.Exit(2) from None


class Verbs(TyperGroup):
    """The whole command line."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands(dict.fromkeys(VERBS) | dict(self.commands))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Name the verbs in the order of the flow, without loading one."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the list of verbs, without loading one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name].line) for name in self.commands if name in VERBS])

    def make_context(self, *args: Any, **given: Any) -> Any:
        """Read the command line; prints help."""
        with _taken():
            return super().make_context(*args, **given)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; prints its help."""
        with _taken():
            return super().invoke(ctx)

    def main(self, *args: Any, **given: Any) -> Any:
        """Run, after making sure that any stream can print anything."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors=SPELLED)
        return super().main(*args, **given)


#: How letters and signs are spelled where an encoding lacks them.
_SPELLINGS: Final = {
    "ε": "epsilon",
    "δ": "delta",
    "λ": "lambda",
    "σ": "sigma",
    "±": "+-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "½": "1/2",
    "−": "-",
    "–": "-",
    "—": "-",
    "…": "...",
    "×": "x",
    "·": "*",
    "⁴": "^4",
    "²": "^2",
}
SPELLED: Final = "twofold-spelled"


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Spell what an encoding lacks; a question mark stands for everything else."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    words = "".join(_SPELLINGS.get(one, "?") for one in lacking)
    return words, error.end


codecs.register_error(SPELLED, _spelled)

app = typer.Typer(
    name="twofold",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: any encoding, any width, and rich is not loaded for it
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated recommendations in two messages, each with a privacy proof.",
    epilog="\b\nExamples:\n  twofold demo\n  twofold init\n  twofold plan explain -h",
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"twofold {__version__}")
        raise typer.Exit


def _warn(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Format a warning for people, without its place in the source."""
    typer.echo(f"{category.__name__}: {message}", err=True)


def run() -> int:
    """Run the command line and give its exit code; twofold errors were already printed by the verb."""
    warnings.showwarning = _warn
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except NotApproved as error:  # too few approvals so far is no fault: the command is run again later
        return NOT_YET if error.parameter == "approvals" else 2
    except TwofoldError:
        return 2
    except Exception as error:
        return _fault(error)
    return 0


def _fault(error: Exception) -> int:
    """Name the place of a fault of ours; its text and its trace may quote data, and are shown only on request."""
    if os.environ.get("TWOFOLD_TRACE"):
        print_exc()
        return 1
    where = extract_tb(error.__traceback__)[-1]
    typer.echo(
        f"Fault: twofold failed unexpectedly, in {Path(where.filename).name}, line {where.lineno}: "
        f"{type(error).__name__}.\n"
        "  Do: report this line. TWOFOLD_TRACE=1 shows the trace, which may quote your data.\n"
        "  More: twofold errors exit-code-1",
        err=True,
    )
    return 1
