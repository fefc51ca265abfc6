"""The command line: one file per verb, each of which only parses, calls and prints."""

from __future__ import annotations

import sys
import warnings

import typer

from twofold import __version__
from twofold.cli import approve as approving
from twofold.cli import (
    audit,
    card,
    check,
    coordinate,
    demo,
    errors,
    evaluate,
    forward,
    invite,
    join,
    keys,
    ledger,
    plan,
    recommend,
    report,
    rounds,
    serve,
    simulate,
)
from twofold.cli import log as security_log
from twofold.cli import policy as site_policy
from twofold.cli.render import all_verbs
from twofold.cli.steps import NOT_YET
from twofold.errors import NotApproved, TwofoldError

__all__ = ["app", "main"]

app = typer.Typer(
    name="twofold",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Federated recommendations in two messages, each with a privacy proof.",
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"twofold {__version__}")
        raise typer.Exit


app.command("demo")(demo.demo)
app.command("check")(check.check)
app.add_typer(plan.app, name="plan")
app.add_typer(keys.app, name="keys")
app.command("release")(rounds.release)
app.command("factorize")(rounds.factorize)
app.command("coordinate")(coordinate.coordinate)
app.command("personalize")(rounds.personalize)
app.command("invite")(invite.invite)
app.command("join")(join.join)
app.command("forward")(forward.forward)
app.command("recommend")(recommend.recommend)
app.command("serve")(serve.serve)
app.command("evaluate")(evaluate.evaluate)
app.command("report")(report.report)
app.command("simulate")(simulate.simulate)
app.add_typer(ledger.app, name="ledger")
app.add_typer(site_policy.app, name="policy")
app.command("approve")(approving.approve)
app.add_typer(security_log.app, name="log")
app.add_typer(card.app, name="card")
app.command("audit")(audit.audit)
app.command("errors")(errors.errors)
all_verbs(app)


def _warn(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Format a warning for people, without its place in the source."""
    typer.echo(f"{category.__name__}: {message}", err=True)


def main() -> None:
    """Run the command line; twofold errors, already printed by the verb, become exit code 2 or 3, never a trace."""
    warnings.showwarning = _warn
    try:
        app()
    except NotApproved as error:  # too few approvals so far is no fault: the command is run again later
        sys.exit(NOT_YET if error.parameter == "approvals" else 2)
    except TwofoldError:
        sys.exit(2)
