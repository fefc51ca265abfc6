"""The gain of joining: an entity alone, with the shared model, with its own model pulled to it, or with pooled data.

MovieLens needs TWOFOLD_DATA. Prototypes are exact k-means here, without noise: the question is what sharing can give,
not what privacy costs. Five entries of every user are held out; figures are means over seeds with their standard error.
Every seed is another split (and, for hospitals, another simulated federation).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.case import Case, load_case
from studies.runner import progress, run_cells
from studies.store import Cell, Found
from twofold.algorithms._jit import one_blas_thread
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.models.blend import rating_means
from twofold.evaluation.measure import user_ndcg
from twofold.evaluation.rmse import squared_errors
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.release.choose import mechanism
from twofold.server.rows import factorize_rows

__all__ = [
    "METRICS",
    "SETTINGS",
    "SIZES",
    "WAYS",
    "Measured",
    "Outcome",
    "Setting",
    "constant",
    "main",
    "markdown",
    "measure",
    "merged",
    "place_sums",
    "popular",
    "run",
    "run_case",
    "shared_factors",
    "smallest",
    "summary",
]

Floats = NDArray[np.floating[Any]]
Score = Callable[[sparse.csr_array], Floats]
BLOCK = 256


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Sums that add up over users and entities: places, their weights, nDCG, users, squared errors, entries."""

    places: float = 0.0
    weight: float = 0.0
    ndcg: float = 0.0
    users: float = 0.0
    squares: float = 0.0
    entries: float = 0.0

    @property
    def figures(self) -> dict[str, float]:
        """Mean rank, nDCG@10 and RMSE."""
        return {
            "mean rank": self.places / self.weight if self.weight else float("nan"),
            "nDCG@10": self.ndcg / self.users if self.users else float("nan"),
            "RMSE": float(np.sqrt(self.squares / self.entries)) if self.entries else float("nan"),
        }


def merged(parts: list[Measured]) -> Measured:
    """Add up.

    Examples
    --------
    >>> merged([Measured(ndcg=1.0, users=2.0), Measured(ndcg=2.0, users=2.0)]).figures["nDCG@10"]
    0.75
    """
    names = Measured.__dataclass_fields__
    return Measured(**{name: sum(getattr(part, name) for part in parts) for name in names})


def measure(
    score: Score,
    train: sparse.csr_array,
    test: sparse.csr_array,
    *,
    lower: float,
    bound: float,
    predict: Score | None = None,
) -> Measured:
    """Judge scores of users given their training entries; `predict` if ratings are predicted by other numbers."""
    parts = []
    for start in range(0, train.shape[0], BLOCK):
        history, held = train[start : start + BLOCK], test[start : start + BLOCK]
        scores = score(history)
        said = scores if predict is None else predict(history)
        parts.append(_block(scores, said, history, held, lower, bound))
    return merged(parts)


def place_sums(scores: Floats, history: sparse.csr_array, held: sparse.csr_array) -> tuple[float, float]:
    """Sum of the held-out items' places (0 the top, 1 the bottom of what was not seen) times value, and of the values.

    Examples
    --------
    >>> none, held = sparse.csr_array((1, 3)), sparse.csr_array(np.array([[0.0, 2.0, 0.0]]))
    >>> place_sums(np.array([[3.0, 2.0, 1.0]]), none, held)
    (1.0, 2.0)
    """
    open_items = np.ones(scores.shape, np.bool_)
    lines = np.repeat(np.arange(history.shape[0]), np.diff(history.indptr))
    open_items[lines, history.indices] = False
    owners = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
    open_items[owners, held.indices] = True
    total = 0.0
    for start in range(0, owners.size, 1_024):
        span = slice(start, start + 1_024)
        user, item = owners[span], held.indices[span]
        own, others, free = scores[user, item][:, None], scores[user], open_items[user]
        above = ((others > own) & free).sum(axis=1) + (((others == own) & free).sum(axis=1) - 1) / 2
        total += float((above / np.maximum(free.sum(axis=1) - 1, 1)) @ held.data[span])
    return total, float(held.data.sum())


def _block(
    scores: Floats, said: Floats, history: sparse.csr_array, held: sparse.csr_array, lower: float, bound: float
) -> Measured:
    places, weight = place_sums(scores, history, held)
    gained = user_ndcg(scores, held, seen=history, n=10)
    errors = squared_errors(said, held, lower=lower, bound=bound)
    return Measured(
        places=places,
        weight=weight,
        ndcg=float(np.nansum(gained)),
        users=float(np.sum(~np.isnan(gained))),
        squares=float(errors.sum()),
        entries=float(errors.size),
    )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Public numbers of a data set, chosen beforehand; none of them was tuned on what is reported."""

    source: str
    feedback: Literal["counts", "ratings"]
    lower: float
    bound: float
    max_items: int
    n_prototypes: int
    entity: str = ""
    rank: int = 20

    def case(self, scale: float) -> dict[str, Any]:
        """Arguments of `load_case`; only hospitals have a scale."""
        more = {"entity": self.entity} if self.entity else {"scale": scale}
        return {"source": self.source, **more, "held": "five", "lower": self.lower, "bound": self.bound}

    def plan(self, case: Case) -> Plan:
        """The plan of the federation."""
        return Plan(
            catalog=case.train.catalog,
            feedback=self.feedback,
            lower=self.lower,
            bound=self.bound,
            max_items=min(self.max_items, len(case.train.catalog)),
            n_prototypes=self.n_prototypes,
            rank=self.rank,
            mechanism="kmeans",
            n_entities=len(case.train),
            simulation=True,
        )


_STARS: Final[dict[str, Any]] = {
    "source": "movielens",
    "feedback": "ratings",
    "lower": 1,
    "bound": 5,
    "max_items": 4_000,
}
SETTINGS: Final[dict[str, Setting]] = {
    "movielens-zip1": Setting(**_STARS, entity="zip1", n_prototypes=50),
    "movielens-zip3": Setting(**_STARS, entity="zip3", n_prototypes=3),
    "hospitals": Setting(source="hospitals", feedback="counts", lower=0, bound=5, max_items=457, n_prototypes=10),
}


def smallest(case: Case) -> list[str]:
    """The quarter of the entities with the fewest users; equal sizes in the order of their names.

    Examples
    --------
    >>> len(smallest(load_case(SETTINGS["hospitals"].case(0.01), 0)))
    1
    """
    order = sorted(case.sizes, key=lambda entity: (case.sizes[entity], entity))
    return order[: max(1, len(order) // 4)]


def shared_factors(case: Case, setting: Setting) -> ItemFactors:
    """The server's factors if every entity's message holds exact k-means prototypes: not private."""
    plan = setting.plan(case)
    made, public = mechanism("kmeans"), plan.parameters
    messages = (made.release(rows, public, rng=number).value for number, rows in enumerate(case.rows.values()))
    found = factorize_rows(made.combine(messages, public), plan)
    return ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        factors=found.factors.astype(np.float32),
        moments=found.moments,
        means=found.means,
        support=found.support,
        users=found.users,
        entities=len(case.train),
        private=False,
        note=found.note,
    )


WAYS: Final = ("popularity", "alone", "shared only", "adapted", "pooled")
#: Users of an entity who are measured at most, the first ones; all are fitted.
MOST_MEASURED = 1_000


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Figures of every system on one split, for all users and those of the smallest entities, and the choices."""

    overall: dict[str, dict[str, float]]
    smallest: dict[str, dict[str, float]]
    chosen: Counter[str] = field(default_factory=Counter)


def run_case(case: Case, setting: Setting, *, workers: int = 2) -> Outcome:
    """Fit and measure; entities in parallel, with a result that does not depend on how many at once.

    Parameters
    ----------
    case : Case
        A federation that was split.
    setting : Setting
        Its public numbers.
    workers : int
        Entities at once.
    """
    shared = shared_factors(case, setting)
    everybody = sparse.csr_array(sparse.vstack(list(case.rows.values()), format="csr"))
    pooled = _fit(everybody, None, setting, case.seed)

    def one(entity: str) -> tuple[dict[str, Measured], Adapted]:
        return _entity(case, setting, entity, shared, pooled)

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        found = dict(zip(case.rows, pool.map(one, case.rows), strict=True))
    return Outcome(
        overall=_figures(found[entity][0] for entity in found),
        smallest=_figures(found[entity][0] for entity in smallest(case)),
        chosen=Counter(f"{made.kind} {made.strength:g}" for _, made in found.values()),
    )


def _fit(
    rows: sparse.csr_array, shared: ItemFactors | None, setting: Setting, seed: int, strength: str = "auto"
) -> Adapted:
    return adapt(
        rows,
        shared,
        feedback=setting.feedback,
        lower=setting.lower,
        bound=setting.bound,
        rank=setting.rank,
        seed=seed,
        threads=1,
        local="factors" if strength == "shared" else "auto",
        strength="shared" if strength == "shared" else "auto",
    )


def _entity(
    case: Case, setting: Setting, entity: str, shared: ItemFactors, pooled: Adapted
) -> tuple[dict[str, Measured], Adapted]:
    rows = case.rows[entity]
    made = {
        "alone": _fit(rows, None, setting, case.seed),
        "shared only": _fit(rows, shared, setting, case.seed, "shared"),
        "adapted": _fit(rows, shared, setting, case.seed),
        "pooled": pooled,
    }
    some = slice(0, MOST_MEASURED)
    train, test = rows[some], case.held[entity][some]
    figures = {
        way: measure(one.scorer.scores, train, test, lower=setting.lower, bound=setting.bound)
        for way, one in made.items()
    }
    counts, means = popular(rows, setting.feedback)
    figures["popularity"] = measure(
        constant(counts), train, test, lower=setting.lower, bound=setting.bound, predict=constant(means)
    )
    return figures, made["adapted"]


def popular(rows: sparse.csr_array, feedback: str) -> tuple[np.ndarray, np.ndarray]:
    """Use and mean rating of each item at an entity."""
    items = rows.shape[1]
    if feedback == "counts":
        sums = np.bincount(rows.indices, rows.data, items)
        return sums, sums / max(rows.shape[0], 1)
    return np.bincount(rows.indices, minlength=items).astype(np.float64), rating_means(rows, None, 0.0)


def constant(line: np.ndarray) -> Score:
    """The same scores for every user."""
    return lambda rows: np.tile(line, (rows.shape[0], 1))


def _figures(entities: Iterable[dict[str, Measured]]) -> dict[str, dict[str, float]]:
    kept = list(entities)
    return {way: merged([one[way] for one in kept]).figures for way in WAYS}


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
    setting = SETTINGS[name]
    cells = [
        Cell(
            data=setting.case(scale),
            system="every way",
            options={"name": name},
            seed=seed,
            feedback=setting.feedback,
            task="adaptation",
        )
        for seed in seeds
    ]
    with progress() as tell:
        ran = run_cells([[cell] for cell in cells], _run, name=name, tell=tell)
    if ran.missing:
        raise ran.missing[0][1]
    return [Outcome(**ran.found[cell.key]) for cell in cells]


def _run(cells: Sequence[Cell]) -> Iterator[Found]:
    return (vars(run_case(load_case(cell.data, cell.seed), SETTINGS[cell.options["name"]])) for cell in cells)


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
    parser = argparse.ArgumentParser(prog="python -m studies adaptation", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="quick")
    parser.add_argument("--data", default=",".join(SETTINGS), help="data sets, separated by commas")
    parser.add_argument("--seeds", type=int, help="number of seeds (default: that of the size)")
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
