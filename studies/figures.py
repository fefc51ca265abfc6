"""A figure for the first screen of every page of results, drawn from the numbers that stand in the page's own tables.

`python -m studies figures` draws all of them into docs/results and puts each below its page's title. Nothing is
measured here: a page that was printed again gets its figure from its new numbers. Drawings follow the reader's mode.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import Final

from twofold.errors import BadShape
from twofold.report.page import render
from twofold.report.plot import Plot, Series

__all__ = ["FIGURES", "bars", "draw", "lines", "main", "tables"]

RESULTS: Final = Path(__file__).parents[1] / "docs" / "results"
_Table = list[list[str]]


def tables(page: str) -> list[_Table]:
    r"""Give the tables of a page as rows of cells, the head first.

    Examples
    --------
    >>> tables("| a | b |\n|---|---|\n| x | 1 ± 2 |\n")
    [[['a', 'b'], ['x', '1 ± 2']]]
    """
    found = re.findall(r"(?:^\|.*\|[ ]*\n)+", page + "\n", re.MULTILINE)
    split = [
        [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in one.splitlines()] for one in found
    ]
    return [[row for number, row in enumerate(one) if number != 1] for one in split]


def _number(cell: str) -> float:
    """Read the first number of a cell; a dash or a word is not one."""
    found = re.match(r"-?[\d,.]+(?:e[+-]?\d+)?", cell.replace("−", "-").replace("**", ""))
    return float(found[0].replace(",", "")) if found else float("nan")


def bars(named: Sequence[tuple[str, float]], label: str, about: str) -> str:
    """Draw bars from left to right, each with its name and number, as a picture that stands alone.

    Examples
    --------
    >>> "<rect" in bars([("a", 1.0), ("b", 2.0)], "seconds", "b takes longer")
    True
    """
    if not named:
        raise BadShape("there is nothing to draw.", expected="at least one bar")
    most, height = max(value for _, value in named) or 1.0, 24 * len(named) + 34
    rows = []
    for place, (name, value) in enumerate(named):
        y = 24 * place + 6
        rows.append(
            f'<text x="214" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="222" y="{y}" width="{260 * value / most:.1f}" height="17" fill="var(--line-1)"/>'
            f'<text x="{228 + 260 * value / most:.1f}" y="{y + 13}">{value:,.10g}</text>'
        )
    look = (
        f"<style>{' '.join(render('colours.css').split())} text {{ font: 12px system-ui, Arial, sans-serif; }}</style>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="560" viewBox="0 0 560 {height}" role="img" '
        f'aria-label="{escape(about)}">{look}<rect width="100%" height="100%" fill="var(--ground)"/>'
        f'<g fill="var(--ink)">{"".join(rows)}<text x="222" y="{height - 10}">{escape(label)}</text></g></svg>\n'
    )


def lines(table: _Table, label: str, about: str, *, x: str, chosen: str = "", most: int = 6) -> str:
    """Draw a line for every row of a table, or for those whose name matches, over its columns."""
    head, *rows = table
    columns = [number for number, name in enumerate(head) if re.search(r"=\s*[\d.]+", name)]
    ticks = tuple((float(place), re.findall(r"[\d.]+", head[column])[0]) for place, column in enumerate(columns))
    places = [place for place, _ in ticks]
    kept = [row for row in rows if re.search(chosen, " ".join(row[: columns[0]]))][:most]
    series = tuple(
        Series(
            name=shorten(", ".join(row[: columns[0]]), 32, placeholder=" …"),
            x=places,
            y=[_number(row[column]) for column in columns],
        )
        for row in kept
    )
    return Plot(caption=about, description=about, x_label=x, y_label=label, series=series, ticks=ticks).picture()


def _column(table: _Table, value: str, *names: int, chosen: str = "") -> list[tuple[str, float]]:
    """Pick bars from a table: the columns that name a row, and the one with its number."""
    head, *rows = table
    place = head.index(value)
    picked = [(" ".join(row[number] for number in names), _number(row[place])) for row in rows]
    return [one for one in picked if one[1] == one[1] and re.search(chosen, one[0])]


def _verdicts(page: str) -> list[tuple[str, float]]:
    found = re.search(r"(\d+) hold, (\d+) do not hold, (\d+) cannot be told", page)
    assert found is not None
    return [
        (name, float(number))
        for name, number in zip(("hold", "do not hold", "cannot be told"), found.groups(), strict=True)
    ]


def _sums(table: _Table, *columns: str) -> list[tuple[str, float]]:
    return [(name, sum(_number(row[table[0].index(name)]) for row in table[1:])) for name in columns]


def _severities(table: _Table) -> list[tuple[str, float]]:
    words = {"H": "high", "M": "medium", "L": "low"}
    return [(word, float(sum(row[0].startswith(letter) for row in table[1:]))) for letter, word in words.items()]


#: Page to what its figure shows, and how it is drawn from the page.
FIGURES: Final[Mapping[str, tuple[str, Callable[[str, str], str]]]] = {
    "adaptation": (
        "RMSE on MovieLens, smallest entities of three ZIP digits: alone, shared, adapted, pooled",
        lambda page, about: bars(
            [
                (name, _number(row[tables(page)[0][0].index(name)]))
                for row in tables(page)[0][1:]
                if row[0] == "movielens-zip3, smallest quarter" and row[1].startswith("RMSE")
                for name in ("popularity", "alone", "shared only", "adapted", "pooled")
            ],
            "RMSE, less is better",
            about,
        ),
    ),
    "audit": (
        "Rows of the audit by severity; each has a cure and a test",
        lambda page, about: bars(_severities(tables(page)[0]), "rows, all with a cure and a test", about),
    ),
    "coalitions": (
        "What an attack proves of ε in small federations, by who works together, beside what is stated",
        lambda page, about: bars(
            [
                (f"{row[0].split(' (')[0]} {number}: {kind}", _number(row[tables(page)[0][0].index(column)]))
                for number, row in enumerate(tables(page)[0][1:5], 1)
                for kind, column in (("stated", "small: stated"), ("proved", "attack proves"))
            ],
            "ε; the first four rows of the table",
            about,
        ),
    ),
    "comparison": (
        "RMSE of libraries on the same split of MovieLens 1M",
        lambda page, about: bars(
            _column(tables(page)[0], "latent factors = 20", 0, chosen="ratings"), "RMSE in stars, less is better", about
        ),
    ),
    "eicu": (
        "Error on held-out entries of simulated hospitals, by number of latent factors",
        lambda page, about: lines(
            tables(page)[2], "RMSE, held out", about, x="latent factors", chosen="central|indiv|private"
        ),
    ),
    "growth": (
        "Peak memory of release, personalize and recommend at 1, 10, 100 and 1,000 million interactions",
        lambda page, about: bars(_column(tables(page)[0], "peak MB", 1, 0), "MB at the peak", about),
    ),
    "hostile": (
        "What became of 50,000 hostile files: accepted, refused, foreign exceptions, hangs",
        lambda page, about: bars(_sums(tables(page)[0], "accepted", "refused", "foreign", "hangs"), "files", about),
    ),
    "index": (
        "Verdicts on the paper's claims",
        lambda page, about: bars(_verdicts(page), "claims of the paper", about),
    ),
    "masked-truth": (
        "Error in stars over ε, ten entities of MovieLens 1M",
        lambda page, about: lines(tables(page)[0], "RMSE", about, x="ε"),
    ),
    "movielens": (
        "Error on held-out entries of MovieLens 1M, by number of latent factors",
        lambda page, about: lines(
            tables(page)[2], "RMSE, held out", about, x="latent factors", chosen="central|indiv|private"
        ),
    ),
    "network": (
        "Messages taken per second, twofold and Flower",
        lambda page, about: bars(_column(tables(page)[0], "per second", 0, 1), "messages per second", about),
    ),
    "operators_faults": (
        "How 10,000 federations under random faults ended",
        lambda page, about: bars(
            _column(tables(page)[1], "federations", 0), "federations; none ended with a wrong sum", about
        ),
    ),
    "paper": (
        "Verdicts on the paper's claims at the quick size, with those on its related work",
        lambda page, about: bars(_verdicts(page), "claims of the paper", about),
    ),
    "people": (
        "nDCG@10 of people who send for themselves and through their hospital, over ε",
        lambda page, about: lines(tables(page)[1], "nDCG@10", about, x="ε", chosen="two operators"),
    ),
    "secure_sum_cost": (
        "CPU time of an entity for one sum, by kind and number of entities",
        lambda page, about: bars(_column(tables(page)[0], "entity, CPU ms", 0, 1), "ms of CPU at an entity", about),
    ),
    "tensor": (
        "Mean rank of tensor factorization by iterations beside two messages, simulated hospitals",
        lambda page, about: lines(
            tables(page)[0], "mean rank, less is better", about, x="iterations", chosen="tensor|two|private|pooled MF"
        ),
    ),
}


def draw(name: str, folder: Path = RESULTS) -> None:
    """Draw the figure of a page, and put it below the title if it is not there."""
    about, made = FIGURES[name]
    path = folder / f"{name}.md"
    page = path.read_text(encoding="utf-8")
    (folder / f"first-{name}.svg").write_text(made(page, about), encoding="utf-8")
    shown = f"![{about}](first-{name}.svg)"
    if shown not in page:
        title, rest = page.split("\n", 1)
        path.write_text(f"{title}\n\n{shown}\n{rest}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw all figures."""
    argparse.ArgumentParser(prog="python -m studies figures", description=__doc__).parse_args(arguments)
    for name in FIGURES:
        draw(name)
    return 0
