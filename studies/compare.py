"""Compare tuned baselines, alone and pooled, with our own model alone, on every data set.

Every baseline is tuned by the same number of trials on a split of its own; figures are of other splits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from studies.baselines.base import Baseline, Everyone, Score, Setting, Tuned, tune
from studies.baselines.registry import baselines, find_baseline
from studies.case import Case, load_case
from studies.compare_page import SCHEMA, Compared, compare_markdown, compare_page, picture
from studies.data import complete_journey
from studies.frontier.fit import PerUser, Row, measure
from studies.frontier.release import item_features
from studies.frontier.settings import quarters, sampled
from studies.runner import Tell, add_options, progress, run_cells
from studies.store import Cell, Found, Store
from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.errors import BadParameter
from twofold.features import Features
from twofold.storage.files import write_whole

__all__ = ["SIZES", "DataSet", "Plan", "cells", "main", "read_plan", "run", "table", "write"]

SIZES: Final = ("tiny", "quick", "full")
_OF_SOURCE: Final = ("items", "entity", "row", "watched", "structure", "n_entities", "scale")
#: Only the smaller half is measured: quarters 0 and 1.
_HALF: Final = 2


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Public numbers of one data set.

    Parameters
    ----------
    name, title : str
        As the command and as the page call it.
    source : str
        As for `studies.case.load_case`; `options` are of that source.
    feedback, lower, bound, delta
        As in a plan.
    held : str
        A name of `studies.case.HELD`.
    features : bool
        Whether the catalog has public features.
    sample : tuple of int
        Entities of each of the two smaller quarters that are fitted and measured; 0: all.
    users : int
        Users of an entity that are measured at most.
    seeds, first_seed : int
        Reported splits: how many, and the first of them.
    """

    name: str
    title: str
    source: str
    feedback: Literal["counts", "ratings"]
    bound: float
    held: str
    delta: float
    sample: tuple[int, ...]
    users: int
    seeds: int
    first_seed: int
    options: tuple[tuple[str, Any], ...] = ()
    lower: float = 0.0
    features: bool = False

    @property
    def case(self) -> dict[str, Any]:
        """Arguments of `studies.case.load_case`."""
        limits = {"held": self.held, "lower": self.lower, "bound": self.bound}
        return {"source": self.source, **dict(self.options), **limits}

    @property
    def federated(self) -> bool:
        """Whether there is more than one entity."""
        return dict(self.options).get("entity") != "one"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All of one size."""

    size: str
    development: int
    epsilon: float
    data: tuple[DataSet, ...]

    def of(self, name: str) -> DataSet:
        """One data set by name.

        Examples
        --------
        >>> read_plan("full").of("movielens-one").federated
        False
        """
        found = next((one for one in self.data if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.data)
            raise BadParameter("this data set is not part of this size.", found=f"{name!r:.60}", expected=known)
        return found


@cache
def read_plan(size: str) -> Plan:
    """Read the settings of one size.

    Examples
    --------
    >>> [one.name for one in read_plan("tiny").data]
    ['hospitals-middle']
    >>> read_plan("huge")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this size is unknown...
    """
    if size not in SIZES:
        raise BadParameter("this size is unknown.", found=f"{size!r:.40}", expected=", ".join(SIZES))
    record = tomllib.loads(files("studies").joinpath("compare.toml").read_text(encoding="utf-8"))
    chosen = record["size"][size]
    names = chosen.get("data", record["order"])
    return Plan(
        size=size,
        development=record["development"],
        epsilon=float(record["epsilon"]),
        data=tuple(_data(record, name, chosen, full=size == "full") for name in names),
    )


def _data(record: dict[str, Any], name: str, chosen: dict[str, Any], *, full: bool) -> DataSet:
    tables = record["data"]
    own = dict(tables[name])
    while "like" in own:
        own = tables[own.pop("like")] | own
    own = {"first_seed": record["first_seed"]} | own
    of_size = {key: chosen[key] for key in ("sample", "users", "seeds")}
    merged = of_size | own if full else own | of_size
    if merged["source"] == "hospitals":
        merged["scale"] = chosen["scale"]
    options = {key: merged.pop(key) for key in _OF_SOURCE if key in merged}
    merged["sample"] = tuple(merged["sample"])
    return DataSet(name=name, options=tuple(sorted(options.items())), **merged)


def cells(plan: Plan, data: DataSet, seeds: int | None = None) -> list[Cell]:
    """Every cell of one data set: each baseline on each reported split.

    Examples
    --------
    >>> plan = read_plan("tiny")
    >>> [(one.system, one.seed) for one in cells(plan, plan.data[0])][:3]
    [('own popularity', 8300), ('own popularity', 8301), ('EASE alone', 8300)]
    """
    numbers = range(data.first_seed, data.first_seed + (seeds or data.seeds))
    named = baselines(data.feedback, features=data.features, federated=data.federated)
    return [_cell(plan, data, one, seed) for one in named for seed in numbers]


def _cell(plan: Plan, data: DataSet, baseline: Baseline, seed: int) -> Cell:
    return Cell(
        data=data.case,
        system=baseline.name,
        options={"setting": _numbers(plan, data), "trials": baseline.trials(_setting(plan, data, seed, None))},
        seed=seed,
        feedback=data.feedback,
        task="compare",
    )


def _numbers(plan: Plan, data: DataSet) -> dict[str, Any]:
    """What figures depend on; the number of seeds and words do not count."""
    record = {key: value for key, value in asdict(data).items() if key not in ("title", "seeds", "first_seed")}
    found: dict[str, Any] = json.loads(json.dumps({**record, "epsilon": plan.epsilon, "development": plan.development}))
    return found


def _setting(plan: Plan, data: DataSet, seed: int, features: Features | None) -> Setting:
    return Setting(
        feedback=data.feedback,
        lower=data.lower,
        bound=data.bound,
        epsilon=plan.epsilon,
        delta=data.delta,
        seed=seed,
        features=features,
    )


class _Split:
    """One split: the entities that are measured, what each stands for, and how it is judged."""

    def __init__(self, plan: Plan, data: DataSet, seed: int) -> None:
        self.data, self.case = data, load_case(data.case, seed)
        self.everyone = Everyone(self.case.rows, _setting(plan, data, seed, _features(self.case, data)))
        place = quarters(self.case.sizes)
        chosen = sampled(self.case.sizes, (*data.sample, 1, 1))
        self.entities = [one for one in chosen if place[one] < _HALF]
        alike, here = list(place.values()), [place[one] for one in self.entities]
        self.weight = {one: alike.count(place[one]) / here.count(place[one]) for one in self.entities}

    def measured(self, entity: str, score: Score) -> PerUser:
        """Judge the scores of one entity's first users."""
        some, data = slice(0, self.data.users), self.data
        train, test = self.case.rows[entity][some], self.case.held[entity][some]
        return measure(score, train, test, lower=data.lower, bound=data.bound)

    def judged(self, entity: str, score: Score) -> float:
        """What the entity adds to the figure that tuning maximises."""
        found = self.measured(entity, score)
        if not found.users.size:
            return 0.0
        if self.data.feedback == "counts":
            return self.weight[entity] * found.figures["ndcg"]
        return -self.weight[entity] * float(found.squares.sum())

    def rows(self, baseline: Baseline, tuned: Tuned) -> list[Row]:
        """The figures of every measured entity."""
        found = []
        for entity in self.entities:
            one = self.measured(entity, baseline.fit(self.everyone.site(entity), tuned.options))
            found.append(
                {
                    "entity": entity,
                    "weight": self.weight[entity],
                    "users": self.case.rows[entity].shape[0],
                    "measured": int(one.users.size),
                    "ndcg": one.figures["ndcg"],
                    "squares": float(one.squares.sum()),
                    "entries": float(one.entries.sum()),
                    "taken": tuned.words,
                }
            )
        return found


def _features(case: Case, data: DataSet) -> Features | None:
    catalog = case.train.catalog
    if not data.features or catalog.features is None:
        return None
    return complete_journey.features(catalog) if data.source == "complete-journey" else item_features(catalog.features)


class _Bench:
    """All splits of one data set, loaded once, and what tuning took."""

    def __init__(self, plan: Plan, data: DataSet) -> None:
        self.plan, self.data = plan, data
        self._splits: dict[int, _Split] = {}
        self._tuned: dict[str, Tuned] = {}

    def rows(self, name: str, seed: int) -> list[Row]:
        baseline = find_baseline(name, self.data.feedback)
        if name not in self._tuned:
            self._forget()
            own = self._split(self.plan.development)
            self._tuned[name] = tune(baseline, own.everyone, own.judged, own.entities)
            self._forget()
        return self._split(seed).rows(baseline, self._tuned[name])

    def _forget(self) -> None:
        for one in self._splits.values():
            one.everyone.forget()

    def _split(self, seed: int) -> _Split:
        if seed not in self._splits:
            self._splits[seed] = _Split(self.plan, self.data, seed)
        return self._splits[seed]


def run(
    size: str,
    folder: Path,
    *,
    names: Sequence[str] | None = None,
    seeds: int | None = None,
    workers: int = 1,
    tell: Tell = lambda _name, _done, _total: None,
) -> tuple[pl.DataFrame, list[str]]:
    """Run the missing cells of a size into a folder; return the table of all cells, and the missing data.

    Parameters
    ----------
    size : {"tiny", "quick", "full"}
        How much.
    folder : Path
        Where cells are kept.
    names : sequence of str, optional
        Only these data sets.
    seeds : int, optional
        How many; by default what the size says.
    workers, tell
        As for `run_cells`; a data set is one unit.
    """
    plan = read_plan(size)
    wanted = list(plan.data) if names is None else [plan.of(name) for name in names]
    store = Store.open(folder, "compare", size)
    units = [cells(plan, one, seeds) for one in wanted]
    ran = run_cells(units, partial(_run_data, size), store=store, workers=workers, name="compare", tell=tell)
    missing = {cell.options["setting"]["name"] for cell, _ in ran.missing}
    return table(store, plan), [one.name for one in wanted if one.name in missing]


def _run_data(size: str, cells: Sequence[Cell]) -> Iterator[Found]:
    plan = read_plan(size)
    bench = _Bench(plan, plan.of(cells[0].options["setting"]["name"]))
    with one_blas_thread(), at_most_threads(1):
        for cell in cells:
            start = time.process_time()
            rows = bench.rows(cell.system, cell.seed)
            yield {"rows": rows, "seconds": time.process_time() - start}


def table(store: Store, plan: Plan) -> pl.DataFrame:
    """Every finished cell of these settings and trials in one tidy table."""
    known = {one.name: _cells_of(plan, one) for one in plan.data}
    rows = [
        {
            "data": one["cell"]["options"]["setting"]["name"],
            "seed": one["cell"]["seed"],
            "baseline": one["cell"]["system"],
            "scope": known[one["cell"]["options"]["setting"]["name"]][one["cell"]["system"]][0],
            "seconds": one["seconds"],
            **row,
        }
        for one in store.all()
        if one["cell"]["options"] == _known(known, one["cell"])
        for row in one["rows"]
    ]
    return pl.DataFrame(rows, schema=SCHEMA).sort("data", "seed", "baseline", maintain_order=True)


_Known = dict[str, dict[str, tuple[str, dict[str, Any]]]]


def _cells_of(plan: Plan, data: DataSet) -> dict[str, tuple[str, dict[str, Any]]]:
    """Scope and options of the cells of one data set, by baseline."""
    named = baselines(data.feedback, features=data.features, federated=data.federated)
    found = {one.name: (one.scope, _cell(plan, data, one, data.first_seed).options) for one in named}
    return {name: (scope, json.loads(json.dumps(options))) for name, (scope, options) in found.items()}


def _known(known: _Known, cell: Found) -> dict[str, Any] | None:
    """What a cell's options would be today; one of other trials does not count."""
    of_data = known.get(cell["options"]["setting"]["name"], {})
    return of_data[cell["system"]][1] if cell["system"] in of_data else None


def write(frame: pl.DataFrame, plan: Plan, folder: Path) -> str:
    """Write the Parquet, the Markdown with its plot and the HTML page; give the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / "compare.parquet")
    found = [
        Compared(frame.filter(pl.col("data") == one.name), title=one.title, feedback=one.feedback)
        for one in plan.data
        if (frame["data"] == one.name).any()
    ]
    drawn = picture(found)
    if drawn is not None:
        write_whole(folder / "compare.svg", drawn.picture().encode())
    text = compare_markdown(found, size=plan.size, epsilon=plan.epsilon, drawn=drawn is not None)
    write_whole(folder / "compare.md", text.encode())
    compare_page(found, size=plan.size, epsilon=plan.epsilon).write(folder / "compare.html")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print the page, or with --paper compare every system of the paper."""
    given = list(sys.argv[2:] if arguments is None else arguments)
    if "--paper" in given:
        from studies.paper.run import compare

        compare([one for one in given if one != "--paper"])
        return
    parser = argparse.ArgumentParser(prog="python -m studies compare", description=__doc__)
    parser.add_argument("--paper", action="store_true", help="every system of the paper instead; it has its own --help")
    add_options(parser, sizes=SIZES, at_once="data sets", folder="compare")
    asked = parser.parse_args(given)
    plan = read_plan(asked.size)
    missing: list[str] = []
    if asked.only_write:
        frame = table(Store.open(asked.output, "compare", asked.size), plan)
    else:
        names = tuple(asked.data.split(",")) if asked.data else None
        with progress() as tell:
            frame, missing = run(
                asked.size, asked.output, names=names, seeds=asked.seeds, workers=asked.workers, tell=tell
            )
    for name in missing:
        sys.stderr.write(f"{name} was left out: its data is not here\n")
    sys.stdout.write(write(frame, plan, asked.output))
