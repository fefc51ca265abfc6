"""`twofold audit`: attack every mechanism, and show that the attacks catch broken ones."""

from __future__ import annotations

import json as json_module
import math
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from twofold import __version__
from twofold.cli.options import ForceOption, refuse_output
from twofold.cli.progress import bars
from twofold.privacy.audit.suite import Finding, Report, run_audit, steps
from twofold.privacy.ledger.writer import now
from twofold.progress import heard, nobody
from twofold.release.audit import prototype_subjects
from twofold.storage.files import write_whole

__all__ = ["audit"]


def audit(
    json: bool = typer.Option(False, "--json", help="Print one JSON record and nothing else."),
    seed: int | None = typer.Option(None, "--seed", help="Repeat the same attempts; fresh randomness by default."),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write it as JSON, for a card.")] = None,
    force: ForceOption = False,
) -> None:
    """Try to falsify every mechanism, alone and end to end, and check that broken ones are caught.

    Reads no private data: all data are made up. Takes about a minute. Exit code 1 if a sound mechanism was falsified
    or a broken one was not.

    Example: twofold audit -o audit.json
    """
    if output is not None:
        refuse_output(output, force=force)
    more = prototype_subjects()
    done, total = count(), len(steps(more))
    with bars(keep=False) as tell, heard(nobody):  # what a made-up release tells is not progress of the audit
        report = run_audit(more=more, rng=seed, announce=lambda name: tell(name, next(done), total))
    if output is not None:
        write_whole(output, json_module.dumps(_dated(report), indent=2, allow_nan=False).encode())
    if json:
        typer.echo(json_module.dumps(report.as_dict(), indent=2))
    else:
        _show(report)
    if not report.passed:
        raise typer.Exit(1)


def _dated(report: Report) -> dict[str, Any]:
    """The result with what a card says of it: when, which software was tested, and which mechanisms were attacked."""
    plain = report.as_dict()
    for row in (*plain["findings"], *plain["enumeration"]):
        row.update({name: "infinite" for name, value in row.items() if value == math.inf})
    sound = sorted({one.mechanism for one in report.findings if not one.broken}, key=str.lower)
    said = {"at": now(), "software": f"twofold {__version__}", "mechanisms": sound}
    return {"schema": "twofold.audit/1", **said, **plain}


def _show(report: Report) -> None:
    console = Console()
    console.print(_table("Mechanisms", [one for one in report.findings if not one.broken]))
    console.print(_table("Broken on purpose", [one for one in report.findings if one.broken]))
    console.print(_losses(report))
    verdict = "passed" if report.passed else "FAILED"
    console.print(f"{verdict}: lower bounds hold with confidence {report.confidence:.2%} each.")
    console.print(
        "A low bound does not prove privacy: few runs, or a weak attack, find little. The proofs are in the docs."
    )


def _table(title: str, findings: list[Finding]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column, least in (
        ("mechanism", 14),  # as long as its longest word
        ("attempt", 14),
        ("claimed ε", None),
        ("δ", None),
        ("proven ε at least", None),
        ("verdict", 12),
    ):
        table.add_column(column, min_width=least)
    for one in findings:
        delta = f"{one.claimed_delta:g}"
        cells = (f"{one.claimed_epsilon:g}", delta, f"{one.lower_bound:.3f}", _verdict(one))
        table.add_row(one.mechanism, one.method, *cells)
    return table


def _verdict(finding: Finding) -> str:
    if not finding.falsified:
        return "not falsified" if finding.as_expected else "NOT CAUGHT"
    fields = ", ".join(finding.differing_parameters)
    caught = "caught" if finding.as_expected else "FALSIFIED"
    return f"{caught} (differs: {fields})" if fields else caught


def _losses(report: Report) -> Table:
    table = Table(title="Worst case by enumeration", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in ("mechanism", "neighbours", "claimed loss", "found", "within 1%"):
        table.add_column(column)
    for row in report.enumeration:
        cells = (f"{row['claimed']:g}", f"{row['found']:.5f}", "yes" if row["tight"] else "NO")
        table.add_row(row["mechanism"], row["adjacency"], *cells)
    return table
