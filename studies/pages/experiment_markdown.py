"""Reproduced experiments as Markdown, for documentation: the index with every verdict, and figures with tables."""

from __future__ import annotations

import json
from collections.abc import Sequence

from studies.pages.experiment_report import made_with, number_table
from studies.pages.experiment_verdicts import how, tally, verdict_parts
from studies.paper.figures import read_settings
from studies.paper.run import Outcome
from studies.paper.verdicts import Verdict
from twofold.report.page import Table

__all__ = ["figures_markdown", "index_markdown", "table_lines"]


def index_markdown(outcomes: Sequence[Outcome], *, size: str) -> str:
    """The verdicts: all in a table, then each with its reasons.

    Parameters
    ----------
    outcomes : sequence of Outcome
        What became of the figures.
    size : str
        Of the run.
    """
    lines = [
        "# The paper's experiments, run again",
        "",
        f"Printed by `python -m studies reproduce all --size {size} -o DIR`, as `index.md` in DIR; `index.html` "
        "beside it links to a page with plots and tables for every figure.",
        "",
        *_points(how(size)),
        "",
        *_versions(outcomes),
    ]
    for kind, title in (("paper", "Claims of the paper"), ("control", "Controls")):
        found = [(outcome, one) for outcome in outcomes for one in outcome.verdicts if one.claim.kind == kind]
        if found:
            lines += [f"## {title}", "", tally([one for _, one in found]), "", *_rows(found), ""]
    for outcome in outcomes:
        if outcome.verdicts:
            lines += [f"## {outcome.figure.title}", "", f"`{outcome.figure.name}`. {outcome.figure.about}", ""]
            lines += _verdicts(outcome)
    missing = [outcome for outcome in outcomes if outcome.results is None]
    if missing:
        lines += ["## Data missing", "", *(f"- `{one.figure.name}`: {_first(one.missing)}" for one in missing), ""]
    return "\n".join(lines)


def figures_markdown(outcomes: Sequence[Outcome], *, name: str, size: str) -> str:
    """Some figures with verdicts and all tables.

    Parameters
    ----------
    outcomes : sequence of Outcome
        What became of the figures.
    name : str
        What was asked for on the command line.
    size : str
        Of the run.
    """
    title = outcomes[0].figure.title if len(outcomes) == 1 else read_settings(name)["title"]
    lines = [
        f"# {title}",
        "",
        f"Printed by `{_command(outcomes, name, size)}`, as `{name}.md` in DIR.",
        "",
    ]
    lines += [*_points(how(size)), ""]
    for outcome in outcomes:
        lines += [f"## {outcome.figure.title}", "", outcome.figure.about, ""] if len(outcomes) > 1 else []
        lines += [outcome.figure.about, ""] if len(outcomes) == 1 else []
        lines += [*_verdicts(outcome), *_tables(outcome), *_made_with(outcome)]
    return "\n".join(lines)


def _command(outcomes: Sequence[Outcome], name: str, size: str) -> str:
    """The command as typed; the number of seeds only if it is not the default."""
    seeds = {
        one.results.seeds for one in outcomes if one.results is not None and one.results.seeds != _usual(one, size)
    }
    return f"python -m studies reproduce {name} --size {size}" + (f" --seeds {max(seeds)}" if seeds else "") + " -o DIR"


def _usual(outcome: Outcome, size: str) -> int:
    return outcome.figure.seeds(size)


def _versions(outcomes: Sequence[Outcome]) -> list[str]:
    """Versions behind all results, including installed libraries for comparison."""
    found = {text for one in outcomes if one.results is not None for text in one.results.frame["versions"].unique()}
    named = sorted({f"{name} {number}" for text in found for name, number in json.loads(text).items()})
    return [f"Made with {', '.join(named)}.", ""] if named else []


def _rows(found: Sequence[tuple[Outcome, Verdict]]) -> list[str]:
    head = ["| claim | where | figure | verdict |", "|---|---|---|---|"]
    return head + [
        f"| {_safe(one.claim.words)} | {_safe(one.claim.place)} | `{outcome.figure.name}` | {one.holds} |"
        for outcome, one in found
    ]


def _verdicts(outcome: Outcome) -> list[str]:
    lines = []
    for one in outcome.verdicts:
        lines += [f"**{one.holds.capitalize()}: {one.claim.words}**", ""]
        lines += [f"- {name}: {text}" for name, text in verdict_parts(one)] + [""]
    return lines


def _tables(outcome: Outcome) -> list[str]:
    results = outcome.results
    if results is None:
        return [_first(outcome.missing), ""]
    known = [metric for metric in outcome.figure.metrics if metric in results.frame["metric"]]
    return [line for metric in known for line in table_lines(number_table(results, metric))]


def table_lines(table: Table) -> list[str]:
    """Give a table as Markdown, its caption first and an empty line last."""
    head = "| " + " | ".join(column.name for column in table.columns) + " |"
    rule = "|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|"
    rows = ["| " + " | ".join(_safe(text) for text in row) + " |" for row in table.rows]
    return [f"{table.caption}. {table.note}".strip(), "", head, rule, *rows, ""]


def _made_with(outcome: Outcome) -> list[str]:
    if outcome.results is None:
        return []
    return ["Made with:", "", *(f"- {name}: {text}" for name, text in made_with(outcome.results).rows), ""]


def _points(sentences: Sequence[str]) -> list[str]:
    return [f"- {one}" for one in sentences]


def _safe(text: str) -> str:
    return text.replace("|", "/")


def _first(text: str) -> str:
    """The first line, without the searched path."""
    return text.splitlines()[0] if text else ""
