"""What joining is worth: an entity alone, with the shared model, with its own model drawn to it, and with pooled data.

Run ``python -m studies.adaptation --size quick`` or ``--size full``. MovieLens needs TWOFOLD_DATA.

Prototypes are exact k-means here, without noise: the question is what sharing can give, not what privacy costs. Five
entries of every user are held out; figures are means over seeds with their standard error. Every seed is another split
(and, for hospitals, another simulated federation).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from studies._adaptation_data import SETTINGS, load_case
from studies._adaptation_run import WAYS, Outcome, run_case

__all__ = ["METRICS", "SIZES", "main", "markdown", "run", "summary"]

#: Share of the paper's hospitals, and how many seeds.
SIZES: Final[dict[str, tuple[float, int]]] = {"tiny": (0.01, 2), "quick": (0.05, 2), "full": (0.25, 3)}
METRICS: Final = {"ratings": ("RMSE", "nDCG@10", "mean rank"), "counts": ("nDCG@10", "mean rank")}
#: Reported seeds begin here. The numbers inside `adapt` were chosen with the seeds 0, 1, 1,000 to 1,003 and 2,000.
FIRST_SEED: Final = 3_000
#: Metrics of which more is better.
RISING: Final = ("nDCG@10",)


def run(name: str, *, scale: float, seeds: Sequence[int]) -> list[Outcome]:
    """Measure one data set on some seeds; shows progress when standard error is a terminal.

    Parameters
    ----------
    name : str
        A key of `SETTINGS`.
    scale : float
        Share of the paper's hospitals; MovieLens is always whole.
    seeds : sequence of int
        One split each.
    """
    console = Console(stderr=True)
    outcomes = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        for seed in seeds:
            case = load_case(name, seed=seed, scale=scale)
            bar.update(task, total=len(seeds) * len(case.train))
            outcomes.append(run_case(case, tick=lambda: bar.advance(task)))
    return outcomes


def summary(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Means and standard errors over seeds, of every way and of adapted less alone, as plain JSON."""
    chosen: Counter[str] = sum((one.chosen for one in outcomes), Counter())
    parts = {
        part: {
            metric: _metric([getattr(one, part) for one in outcomes], metric)
            for metric in METRICS[SETTINGS[name].feedback]
        }
        for part in ("overall", "smallest")
    }
    return {"data": name, "seeds": len(outcomes), **parts, "chosen": dict(chosen.most_common())}


def _metric(outcomes: Sequence[dict[str, dict[str, float]]], metric: str) -> dict[str, Any]:
    table = {way: np.array([one[way][metric] for one in outcomes]) for way in WAYS}
    gap = table["adapted"] - table["alone"]
    return {**{way: _mean_error(values) for way, values in table.items()}, "adapted - alone": _mean_error(gap)}


def _mean_error(values: np.ndarray) -> dict[str, float]:
    error = float(np.std(values, ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")
    return {"mean": float(values.mean()), "error": error}


def markdown(summaries: Sequence[dict[str, Any]]) -> str:
    """Render summaries as one GitHub table and a line per data set on what was chosen.

    Examples
    --------
    >>> figures = {way: {"mean": 0.5, "error": 0.01} for way in (*WAYS, "adapted - alone")}
    >>> one = {"data": "hospitals", "overall": {"nDCG@10": figures}, "smallest": {}, "chosen": {"factors inf": 3}}
    >>> print(markdown([one]).splitlines()[2])
    | hospitals, all users | nDCG@10 ↑ | 0.5000 ± 0.0100 | ...
    """
    heads = ("data", "metric", *WAYS, "adapted - alone")
    lines: list[tuple[str, ...]] = [heads]
    for one in summaries:
        for part, words in (("overall", "all users"), ("smallest", "smallest quarter")):
            for metric, figures in one[part].items():
                arrow = "↑" if metric in RISING else "↓"
                cells = [_cell(figures[way], signed=way == heads[-1]) for way in heads[2:]]
                lines.append((f"{one['data']}, {words}", f"{metric} {arrow}", *cells))
    text = ["| " + " | ".join(line) + " |" for line in lines]
    text.insert(1, "|" + "---|" * len(heads))
    return "\n".join([*text, "", *map(_chosen, summaries)])


def _cell(figure: dict[str, float], *, signed: bool) -> str:
    return f"{figure['mean']:{'+' if signed else ''}.4f} ± {figure['error']:.4f}"


def _chosen(one: dict[str, Any]) -> str:
    total = max(sum(one["chosen"].values()), 1)
    shares = ", ".join(f"{name} ({100 * count / total:.0f} %)" for name, count in one["chosen"].items())
    return f"Chosen in {one['data']}: {shares}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.adaptation", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="quick")
    parser.add_argument("--data", default=",".join(SETTINGS), help="data sets, separated by commas")
    parser.add_argument("--seeds", type=int, help="how many seeds (by default what the size says)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    asked = parser.parse_args(arguments)
    names = asked.data.split(",")
    if unknown := [name for name in names if name not in SETTINGS]:
        parser.error(f"unknown data {', '.join(unknown)}; known: {', '.join(SETTINGS)}")
    scale, seeds = SIZES[asked.size]
    summaries = [
        summary(name, run(name, scale=scale, seeds=range(FIRST_SEED, FIRST_SEED + (asked.seeds or seeds))))
        for name in names
    ]
    if asked.json:
        asked.json.write_text(json.dumps(summaries, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(markdown(summaries) + "\n")


if __name__ == "__main__":
    main()
