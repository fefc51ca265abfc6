"""`twofold plan`: what a plan would release and whether it can be useful, before any data is touched."""

from __future__ import annotations

import json as json_module
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from twofold.errors import UnreadableSource
from twofold.privacy.card_words import percent
from twofold.privacy.explain import BYTES, EPSILONS, Explanation, PublicNumbers, Range, Row, explain

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Plans: the public numbers of a federation.")


@app.callback()
def _plan() -> None:
    """Keep `explain` a sub-command while it is the only one."""


@app.command("explain")
def explain_plan(
    file: Annotated[Path | None, typer.Argument(help="A TOML file with the numbers below; options go first.")] = None,
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

    Touches no data and spends nothing.
    """
    given = _read(file) if file else {}
    named = {"n_items": n_items, "n_users": n_users, "bound": bound, "max_items": max_items}
    named |= {"n_prototypes": n_prototypes, "n_entities": n_entities, "delta": delta}
    public = PublicNumbers.from_mapping({**given, **{key: value for key, value in named.items() if value is not None}})
    found = explain(public, epsilons=epsilon or _epsilons(given))
    if json:
        typer.echo(json_module.dumps(found.as_dict(), indent=2))
    else:
        _show(found)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableSource("the plan could not be read.", found=f"{file.name}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnreadableSource(
            "the plan is not TOML.", found=f"{file.name}: {error}", expected="lines such as n_items = 457"
        ) from None


def _epsilons(given: dict[str, Any]) -> list[float]:
    """Show the plan's own ε among the usual ones."""
    own = given.get("epsilon")
    extra = own if isinstance(own, list) else [own] if own is not None else []
    if len(extra) > 1 or not all(isinstance(one, int | float) for one in extra):
        return [*extra]  # what is no number is refused by name further on
    return sorted({*EPSILONS, *extra})


def _show(found: Explanation) -> None:
    console = Console()
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
    return [f"{row.epsilon:g}", percent(row.guess), row.mechanism, *sizes, *ratios, row.verdict]


def _range(ratio: Range) -> str:
    return f"{_short(ratio.low)}-{_short(ratio.high)}"


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
