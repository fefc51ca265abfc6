"""`python -m studies reproduce`: the paper's experiments again, with a verdict on every claim."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from twofold.cli.options import Json, phases

if TYPE_CHECKING:
    from studies.reproduce.runner import Outcome

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="FIGURE", help="A figure such as fig1a, an experiment such as movielens, or 'all'.")
    ] = "all",
    size: Annotated[str, typer.Option(help="quick (minutes) or paper (the paper's sizes).")] = "quick",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")] = Path("results"),
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds; by default what the size says.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Fits at once, each on one thread.")] = 1,
    json: Json = False,
) -> None:
    """Run one experiment of the paper, or all, and say next to each claim what we find.

    Writes a page and a Parquet per figure, and an index; one figure, or an experiment's figures (fig1, eicu,
    movielens, supplement), also as Markdown with all tables. What the folder has already is not run again, so a run
    that was stopped goes on where it was.
    """
    from studies.pages.experiment_markdown import figures_markdown, index_markdown
    from studies.pages.experiment_report import experiment_index, experiment_page
    from studies.reproduce.figures import figures_of
    from studies.reproduce.runner import run_figures
    from twofold.storage.files import write_whole

    chosen = figures_of(name)
    with phases() as tell:
        outcomes = run_figures(chosen, size=size, folder=output, seeds=seeds, workers=workers, tell=tell)
    for one in outcomes:
        experiment_page(one).write(output / f"{one.figure.name}.html")
    if name == "all":
        experiment_index(outcomes, size=size).write(output / "index.html")
        write_whole(output / "index.md", index_markdown(outcomes, size=size).encode())
    else:
        write_whole(output / f"{name}.md", figures_markdown(outcomes, name=name, size=size).encode())
    if json:
        typer.echo(jsonlib.dumps(_record(outcomes, size), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(outcomes, output / ("index.html" if name == "all" else f"{outcomes[0].figure.name}.html"))


def _record(outcomes: list[Outcome], size: str) -> dict[str, Any]:
    return {
        "size": size,
        "figures": [
            {
                "figure": one.figure.name,
                "title": one.figure.title,
                "missing": one.missing or None,
                "verdicts": [verdict.record() for verdict in one.verdicts],
            }
            for one in outcomes
        ],
    }


def _print(outcomes: list[Outcome], page: Path) -> None:
    console = Console()
    table = Table(title="Claims and what we find", title_justify="left", pad_edge=False)
    several = len(outcomes) > 1  # numbers of all figures would fill many screens; they are in the pages
    for column in ("figure", "claim", "verdict", *(() if several else ("ours",))):
        table.add_column(column, overflow="fold")
    for one in outcomes:
        if one.results is None:
            table.add_row(one.figure.name, "", "data missing")
        for verdict in one.verdicts:
            numbers = () if several else (verdict.judgement.ours,)
            table.add_row(one.figure.name, verdict.claim.words, verdict.holds, *numbers)
    console.print(table)
    for missing in dict.fromkeys(one.missing for one in outcomes if one.missing):
        console.print(missing, highlight=False, soft_wrap=True)
    console.print(f"Page: {page}", highlight=False, soft_wrap=True)
