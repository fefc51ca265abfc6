"""`twofold plan`: what a plan would release and whether it can be useful, before any data is touched."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from twofold.cli._agreed import missing_features
from twofold.cli._plan_new import new_plan_file
from twofold.cli._plan_numbers import check_fit, check_numbers, plan_numbers
from twofold.cli._plan_words import in_options, leaving_lines, plan_lines
from twofold.cli._plan_worth import show_worth, worth_record
from twofold.errors import TwofoldError
from twofold.privacy.card_words import percent
from twofold.privacy.explain import BYTES, EPSILONS, Explanation, PublicNumbers, Range, Row, explain
from twofold.protocol.leaving import Leaving, leaving
from twofold.protocol.plan import CatalogKey, Plan
from twofold.protocol.plan_file import parse_plan, read_plan, read_toml, with_tables
from twofold.prototypes.bilinear.moments import Kind

__all__ = ["app"]

_TABLE = "The noise above is this plan's own. The table compares prices, as if all of each were spent on one release."

app = typer.Typer(no_args_is_help=True, help="Plans: the public numbers of a federation.")


app.command("new")(new_plan_file)


@app.command("show")
def show_plan(
    file: Annotated[Path, typer.Argument(help="A plan file.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")] = False,
) -> None:
    """Print the hash, every field, the mechanism that would run and the size of its message."""
    _note_features(file)
    plan = read_plan(file)
    found = leaving(plan)
    if json:
        record = {"hash": plan.hash, "plan": plan.as_dict(), "leaves": found.as_dict()}
        typer.echo(json_module.dumps(record, indent=2))
    else:
        typer.echo("\n".join([f"Plan {plan.hash}", "", *plan_lines(plan), "", *leaving_lines(plan, found)]))


@app.command("explain")
def explain_plan(
    file: Annotated[Path | None, typer.Argument(help="A plan file, or a TOML file with the numbers below.")] = None,
    n_items: Annotated[int | None, typer.Option(help="Length of the public catalog.")] = None,
    n_users: Annotated[int | None, typer.Option(help="Promised users per entity; never counted for this.")] = None,
    bound: Annotated[float | None, typer.Option(help="Largest value of one entry.")] = None,
    max_items: Annotated[int | None, typer.Option(help="Most items one user may have.")] = None,
    n_prototypes: Annotated[int | None, typer.Option(help="Prototypes per entity.")] = None,
    n_entities: Annotated[int | None, typer.Option(help="How many entities take part; 1 by default.")] = None,
    delta: Annotated[float | None, typer.Option(help="The δ of Gaussian noise; 1e-6 by default.")] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="Repeat for more; 0.1, 1, 3 and 10 by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")] = False,
) -> None:
    """Say what would leave, how large the noise is against a public signal, and whether that can be useful.

    Touches no data and spends nothing. Options ask "what if" and change no file.
    """
    given = read_toml(file) if file else {}
    named = {"n_items": n_items, "n_users": n_users, "bound": bound, "max_items": max_items}
    named |= {"n_prototypes": n_prototypes, "n_entities": n_entities, "delta": delta}
    changes = {key: value for key, value in named.items() if value is not None}
    plan = None
    if file is not None and "schema" in given:
        _note_features(file)
        plan = _changed(with_tables(parse_plan(given), given, file.parent), changes, epsilon)
    leaves = leaving(plan) if plan else None
    kind = leaves.bilinear if leaves else None
    if plan and leaves and kind:
        _explain_bilinear(plan, leaves, kind, epsilon, json=json)
        return
    numbers = plan_numbers(plan) if plan else {**check_numbers(given), **changes}
    public = PublicNumbers.from_mapping(numbers)
    check_fit(public)
    found = explain(public, epsilons=epsilon or _epsilons(numbers))
    if json:
        typer.echo(json_module.dumps(found.as_dict() | _plan_record(plan, leaves), indent=2))
        return
    if plan and leaves:
        typer.echo("\n".join([*leaving_lines(plan, leaves), _TABLE, ""]))
    _show(found, with_plan=plan is not None)


def _explain_bilinear(plan: Plan, leaves: Leaving, kind: Kind, epsilons: list[float] | None, *, json: bool) -> None:
    """Judge the statistic that the plan sends: the table of prototypes says nothing about it."""
    if json:
        record = worth_record(plan, kind, epsilons) | _plan_record(plan, leaves)
        typer.echo(json_module.dumps(record, indent=2))
        return
    typer.echo("\n".join([*leaving_lines(plan, leaves), ""]))
    show_worth(plan, kind, epsilons)


def _plan_record(plan: Plan | None, leaves: Leaving | None) -> dict[str, Any]:
    """What a plan says exactly, in place of what bare numbers tell."""
    if plan is None or leaves is None:
        return {}
    size = {"numbers": leaves.numbers, "bytes": leaves.bytes}
    return {"leaves": size, "plan": {"hash": plan.hash, **leaves.as_dict()}}


def _note_features(file: Path) -> None:
    """Say that the plan's table of features is not there; whatever needs it is refused, the rest is shown."""
    if (name := missing_features(file)) is not None:
        typer.echo(f"note: the plan's table of features is missing: no {name} beside {file.name}", err=True)


def _changed(plan: Plan, changes: dict[str, Any], epsilons: list[float] | None) -> Plan:
    """The plan with what the options say instead; one ε is the plan's, several are only for the table."""
    if "n_items" in changes:
        key = CatalogKey(hash=plan.catalog.hash, n_items=changes["n_items"])
        changes = {**changes, "catalog": key}
        del changes["n_items"]
    if epsilons and len(epsilons) == 1:
        changes = {**changes, "epsilon": epsilons[0]}
    try:
        return plan.with_(**changes) if changes else plan
    except TwofoldError as error:
        raise in_options(error) from None


def _epsilons(given: Mapping[str, Any]) -> list[float]:
    """Show the plan's own ε among the usual ones."""
    own = given.get("epsilon")
    extra = own if isinstance(own, list) else [own] if own is not None else []
    if len(extra) > 1 or not all(isinstance(one, int | float) for one in extra):
        return [*extra]  # what is no number is refused by name further on
    return sorted({*EPSILONS, *extra})


def _show(found: Explanation, *, with_plan: bool) -> None:
    console = Console()
    if not with_plan:  # a plan has said it exactly
        console.print(_leaves(found.public), highlight=False)
    console.print(_table(found))
    console.print(_legend(found), highlight=False)


def _leaves(public: PublicNumbers) -> str:
    whom = "the entity" if public.n_entities == 1 else f"each of {public.n_entities} entities"
    return (
        f"What would leave {whom}, once: {public.numbers:,} numbers, {public.numbers * BYTES:,} bytes.\n"
        f"For each of {public.n_prototypes} prototypes a noisy sum per item ({public.n_items:,}) and a noisy count."
    )


def _table(found: Explanation) -> Table:
    title = "Noise against signal, from public numbers only"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("ε", "best\nguess", "noise", "on a\nsum", "on a\nmean", "one\nnumber", "patterns", "profile"):
        table.add_column(name, justify="left" if name == "noise" else "right", no_wrap=True)
    table.add_column("useful?")
    for index, row in enumerate(found.rows):
        table.add_row(*_cells(row), end_section=index % 2 == 1)
    return table


def _cells(row: Row) -> list[str]:
    ratios = [_range(row.number), _range(row.patterns), _range(row.profile)]
    sizes = [_short(row.noise), _short(row.noise_on_mean)]
    return [f"{row.epsilon:.3g}", percent(row.guess), row.mechanism, *sizes, *ratios, row.verdict]


def _range(ratio: Range) -> str:
    return f"{_thousands(ratio.low)}-{_thousands(ratio.high)}"


def _thousands(number: float) -> str:
    """Short enough for a table of nine columns; beyond a thousand the digits say nothing."""
    return _short(number) if number < 999.5 else f"{number / 1000:,.2g}k" if number < 99_500 else f"{number:.0e}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 99.5 else f"{number:.{1 if number < 0.0995 else 2}g}"


def _legend(found: Explanation) -> str:
    public = found.public
    reasons = dict.fromkeys(f"  {row.verdict}: {row.reason}." for row in found.rows)
    near = min(found.rows, key=lambda row: (abs(row.epsilon - 1), row.users_needed))
    return "\n".join(
        [
            "best guess: how often an attacker is right about one person, from even odds"
            f"; Gaussian at δ = {public.delta:g}.",
            f"on a sum, on a mean: standard deviation of the noise; an entry is at most {public.bound:g}.",
            "Signal over noise, users of a prototype with little in common - exactly alike; below 1 it drowns:",
            "  one number: a single released sum; patterns: the prototypes, all entities factorized together;",
            "  profile: everything added up, that is, which items are frequent.",
            *reasons,
            f"At ε = {near.epsilon:g} ({near.mechanism}), patterns drown below {near.users_needed:,} users per entity.",
        ]
    )
