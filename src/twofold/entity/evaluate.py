"""How good a model is, on entries it has never seen and beside named baselines. Everything here stays inside.

A model cannot be judged on the entries it was fitted to. So either somebody gives entries that came later (`test`), or
some are held out and the model is fitted again to the rest, with the same shared factors, plan and settings. Baselines
are fitted to exactly the same entries, and every system is measured on the same people by the same code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.data.ratings import Ratings
from twofold.data.split import Split
from twofold.entity.adapt import Local, Strength
from twofold.entity.baselines import BASELINES, SHARED, Fits, baseline_names, system_of
from twofold.entity.explain import chosen_kind, drawn_to
from twofold.entity.held_out import factors_of, held_out_entries, later_entries, plan_of
from twofold.entity.model import Model
from twofold.errors import BadParameter, DataError
from twofold.evaluation.measure import COVERAGE, Measured, Scorer, chosen_metrics
from twofold.evaluation.summary import groups, with_interval
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.html import block, table_of
from twofold.progress import tell

__all__ = ["AGAINST", "MEASURES", "METRICS", "MODEL", "Evaluation", "Joining", "better_when_less", "evaluate"]

#: Name of the evaluated model among the systems.
MODEL: Final = "model"
#: Baselines, unless others are named.
AGAINST: Final = ("alone", "popularity")
#: What is measured by default; the first decides whether joining paid.
METRICS: Final = {
    "counts": ("ndcg", "recall", "precision", "reciprocal_rank", "hit", COVERAGE),
    "ratings": ("rmse", "mae", "ndcg", "recall", "precision", "reciprocal_rank", COVERAGE),
}
#: How people call a metric; {n} is the length of the lists.
MEASURES: Final = {
    "ndcg": "nDCG@{n}",
    "ndcg_graded": "graded nDCG@{n}",
    "recall": "recall@{n}",
    "precision": "precision@{n}",
    "average_precision": "MAP@{n}",
    "reciprocal_rank": "MRR@{n}",
    "hit": "hit rate@{n}",
    COVERAGE: "coverage@{n}",
    "rmse": "RMSE",
    "mae": "MAE",
    "mean_rank": "mean rank",
    "mean_rank_unseen": "mean rank, unseen",
}
#: People below whom nothing is said about joining: a bootstrap over so few is too sure of itself.
FEW: Final = 10
_ALL: Final = "all"
_SEEN: Final = ("The shared baselines know the held-out entries through this entity's own noisy release.",)
_MOST_GROUPS: Final = 4
_TABLE: Final = {
    "system": pl.String,
    "history": pl.String,
    "metric": pl.String,
    "n": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "people": pl.Int64,
}
_DIFFERENCES: Final = {("against" if name == "system" else name): kind for name, kind in _TABLE.items()} | {
    "error": pl.Float64,
    "clear": pl.Boolean,
}
Joining = Literal["paid", "unclear", "harmed", "changed nothing", "too few", "alone", "not asked"]


def better_when_less(metric: str) -> bool:
    """Whether a smaller number is better.

    Examples
    --------
    >>> better_when_less("rmse"), better_when_less("ndcg")
    (True, False)
    """
    return metric in ("rmse", "mae", "mean_rank", "mean_rank_unseen")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Evaluation:
    """What was measured, as tables and as words.

    Privacy
    -------
    Computed from private entries without noise: for the entity only.

    Attributes
    ----------
    entity, feedback : str
        Whose model, and of what.
    metric, n
        What decides whether joining paid, and the length of lists.
    joining : str
        "paid", "harmed", "unclear", "changed nothing", "too few" people to tell, "alone" if nothing was shared, or
        "not asked" if the model was not compared with the one alone.
    verdict : str
        The same in one sentence, with its numbers.
    table : polars.DataFrame
        One row per system, group of people by the size of their history ("all" for everybody) and metric: value, ends
        of its interval, and number of people.
    differences : polars.DataFrame
        The model less each baseline, on the same people: value, interval, standard error, and whether the interval
        leaves out 0.
    systems : mapping
        Every system in words.
    how : str
        How entries were held out.
    another : str
        One line that names both kinds, where the model in use is of another kind than the one judged; else empty.
    caveats : tuple of str
        What to keep in mind.
    left_out : mapping
        What was not judged, and how much of it.
    """

    entity: str
    feedback: str
    metric: str
    n: int
    level: float
    joining: Joining
    verdict: str
    table: pl.DataFrame
    differences: pl.DataFrame
    systems: Mapping[str, str]
    how: str
    another: str = ""
    caveats: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Evaluation({self.entity!r}, {', '.join(self.systems)}; joining: {self.joining})"

    def __str__(self) -> str:
        return "\n".join([*self.first, *self.caveats])

    @property
    def first(self) -> tuple[str, ...]:
        """What to read first: the verdict, what was held out, and whether the model in use is of another kind."""
        return tuple(line for line in (self.verdict, self.how, self.another) if line)

    @property
    def histories(self) -> tuple[str, ...]:
        """Groups of people by the size of their history, the shortest first."""
        return tuple(name for name in self.table["history"].unique(maintain_order=True) if name != _ALL)

    @property
    def metrics(self) -> tuple[str, ...]:
        """What was measured."""
        return tuple(self.table["metric"].unique(maintain_order=True))

    def name_of(self, metric: str) -> str:
        """Name a metric as people do.

        Examples
        --------
        >>> MEASURES["ndcg"].format(n=10)
        'nDCG@10'
        """
        return MEASURES.get(metric, metric).format(n=self.n)

    def of(self, system: str, metric: str, history: str = _ALL) -> dict[str, Any]:
        """One row of the table."""
        asked = {"system": system, "metric": metric, "history": history}
        for name, value in asked.items():
            if value not in (known := self.table[name].unique(maintain_order=True).to_list()):
                raise BadParameter(
                    "this was not measured.",
                    found=f"{name} {value!r:.40}",
                    expected=", ".join(known),
                    parameter=name,
                )
        return self.table.row(by_predicate=pl.all_horizontal(pl.col(name) == asked[name] for name in asked), named=True)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain JSON."""
        return {
            "entity": self.entity,
            "feedback": self.feedback,
            "joining": self.joining,
            "verdict": self.verdict,
            "metric": self.metric,
            "n": self.n,
            "level": self.level,
            "how": self.how,
            "another": self.another,
            "caveats": list(self.caveats),
            "left_out": dict(self.left_out),
            "systems": dict(self.systems),
            "table": self.table.to_dicts(),
            "differences": self.differences.to_dicts(),
        }

    def _repr_html_(self) -> str:
        names = [self.name_of(metric) for metric in self.metrics]
        rows = [[system, *(_cell(self.of(system, metric)) for metric in self.metrics)] for system in self.systems]
        return block(f"Evaluation of {self.entity}", [*self.first, *self.caveats], table_of(["", *names], rows))


def _cell(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "–"
    return f"{row['value']:.4f}" + (f" ({row['low']:.4f} to {row['high']:.4f})" if row["low"] is not None else "")


def evaluate(
    model: Model,
    *,
    split: Split[Ratings] | None = None,
    test: Ratings | None = None,
    factors: ItemFactors | bytes | str | PathLike[str] | None = None,
    plan: Plan | None = None,
    against: Iterable[str] = AGAINST,
    n: int = 10,
    metrics: Iterable[str] | None = None,
    local: Local = "auto",
    strength: Strength = "auto",
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
) -> Evaluation:
    """Measure a model on entries it has never seen, beside baselines that know the same, and say whether joining paid.

    Parameters
    ----------
    model : Model
        An entity's model.
    split : Split, optional
        Entries to fit and entries to find again, of `holdout`, `leave_n_out` or `recorded_holdout`. By default a fifth
        of everyone's history in the model. The model is fitted again to the first part, with the same shared factors,
        plan and settings; what is judged is that second model, which knows a little less.
    test : Ratings, optional
        Instead of a split: entries that came after the model was fitted. The model is judged as it is. People whom the
        model does not know and entries that it has seen are left out, and counted.
    factors : ItemFactors, bytes or path
        The shared item factors the model was made with; needed with a split, unless the model is alone, and by
        baselines that use them. A model file holds only their hash, which must fit.
    plan : Plan, optional
        The model's plan as it was read from its file, where a model file holds too little of it: the keys that signed
        the factors, or the public features.
    against : iterable of str
        Baselines: "alone", "popularity", "item-item", "shared", "shared-popularity", "random".
    n : int
        Length of the lists.
    metrics : iterable of str, optional
        Some of `twofold.evaluation.measure.METRICS`. The first one decides whether joining paid: nDCG for counts and
        RMSE for ratings, by default.
    local, strength
        As they were for `Entity.personalize`, where they were not "auto".
    level : float
        Confidence level of intervals.
    resamples : int
        Resamples of the bootstrap over people.
    seed : int
        Seed of the default split and of the bootstrap.
    threads : int, optional
        All processors by default. The result does not depend on it.

    Returns
    -------
    Evaluation

    Privacy
    -------
    Nothing leaves and nothing is spent. The figures come from private entries without noise: keep them inside. Choosing
    a plan's numbers by them would reveal something about the people.

    Notes
    -----
    The shared factors were made with the entity's own release, of which the held-out entries were part. For counts in a
    gram the entity's own part is taken out of the noisy totals before the model is fitted again, held-out entries
    included; otherwise they may have been seen through noise, and the figure for joining may be a little too good.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from twofold.data.catalog import Catalog, Identifiers
    >>> from twofold.entity.personalize import fit_alone
    >>> counts = sparse.csr_array(np.kron(np.eye(2), np.ones((20, 6))))
    >>> ratings = Ratings(counts, Identifiers(range(40)), Catalog(range(12)), "counts")
    >>> found = evaluate(fit_alone(ratings), against=["popularity"], n=3)
    >>> found
    Evaluation('alone', model, popularity; joining: alone)
    >>> found.of("model", "hit")["value"] > found.of("popularity", "hit")["value"]
    True
    """
    _check_model(model)
    if split is not None and test is not None:
        raise BadParameter("both a split and a test table were given.", expected="one of them", parameter="test")
    agreed = plan_of(model, plan)
    given = None if factors is None else factors_of(model, factors, agreed)
    names = baseline_names(against, shared=given is not None)
    if model.alone:
        names = tuple(name for name in names if name != "alone")
    chosen = chosen_metrics(METRICS[model.history.feedback] if metrics is None else metrics, tuple(MEASURES))
    if set(chosen) == {COVERAGE}:
        raise BadParameter("coverage alone has no interval.", expected="at least one other metric", parameter="metrics")
    climbs = local == "auto" and strength in ("auto", "own")
    judged = (
        held_out_entries(model, split, given, seed=seed, climbs=climbs) if test is None else later_entries(model, test)
    )
    fits = Fits(
        entity=model.entity,
        rest=judged.rest,
        plan=agreed,
        shared=judged.shared if test is None else given,
        lower=model.lower,
        bound=model.bound,
        local=local,
        strength=strength,
        seed=seed,
        threads=threads,
    )
    made: dict[str, Measured] = {}
    fitted = model
    words = {MODEL: f"the model of {model.entity}{', fitted again to the rest' if test is None else ''}"}
    for done, name in enumerate((MODEL, *names)):
        tell("systems compared", done, 1 + len(names))
        if name == MODEL:
            if test is None:
                fitted = fits.model()
            words[MODEL] += f": {fitted.note}" if fitted.note else ""
            system: Scorer = system_of(fitted)
        else:
            words[name] = BASELINES[name][0 if model.history.feedback == "counts" else -1]
            system = fits.baseline(name)
        made[name] = judged.measured(system, n=n, metrics=chosen, limits=(model.lower, model.bound))
    tell("systems compared", 1 + len(names), 1 + len(names))
    order = tuple(dict.fromkeys(chosen))
    table, differences = _tables(made, judged.sizes, order, level=level, resamples=resamples, seed=seed)
    main = next(name for name in chosen if name != COVERAGE)
    joining, verdict = _verdict(fitted, made, table, differences, main, n=n, level=level)
    return Evaluation(
        entity=model.entity,
        feedback=model.history.feedback,
        metric=main,
        n=n,
        level=level,
        joining=joining,
        verdict=verdict,
        table=table,
        differences=differences,
        systems=words,
        how=judged.how,
        another=_another(model, fitted),
        caveats=judged.caveats + (_SEEN if test is None and set(names) & set(SHARED) else ()),
        left_out=judged.left_out,
    )


def _check_model(model: Any) -> None:
    if not isinstance(model, Model):
        raise DataError(
            "not a model.", found=f"a {type(model).__name__}", fix='Model.load("st-anna.model")', parameter="model"
        )


def _history_groups(sizes: NDArray[np.int64]) -> list[tuple[str, NDArray[np.intp]]]:
    """Everybody, then up to four groups of about as many people by the length of their histories.

    Examples
    --------
    >>> [(name, rows.size) for name, rows in _history_groups(np.array([1, 1, 2, 3, 4, 9, 20, 21]))]
    [('all', 8), ('1 entry', 2), ('2 to 3 entries', 2), ('4 to 9 entries', 2), ('20 to 21 entries', 2)]
    """
    everyone = [(_ALL, np.arange(sizes.size))]
    edges = np.unique(np.quantile(sizes, np.arange(1, _MOST_GROUPS) / _MOST_GROUPS, method="lower"))
    number = np.searchsorted(edges, sizes, side="left")
    parts = [np.flatnonzero(number == place) for place in range(edges.size + 1)]
    found = [(_length(sizes[part]), part) for part in parts if part.size]
    return everyone + found if len(found) > 1 else everyone


def _length(sizes: NDArray[np.int64]) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    if low == high:
        return f"{low:,} {'entry' if low == 1 else 'entries'}"
    return f"{low:,} to {high:,} entries"


def _tables(
    made: Mapping[str, Measured],
    sizes: NDArray[np.int64],
    order: tuple[str, ...],
    *,
    level: float,
    resamples: int,
    seed: int,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every system by itself, and the model less every other one on the same drawn people; metrics in this order."""
    rows: list[dict[str, Any]] = []
    apart: list[dict[str, Any]] = []
    for history, people in _history_groups(sizes):
        found = {name: _values(one.take(people), level, resamples, seed) for name, one in made.items()}
        for name, metrics in found.items():
            for metric in order:
                n, values = metrics[metric]
                labels = {"history": history, "metric": metric, "n": n, "people": int(people.size)}
                rows.append({"system": name} | labels | with_interval(values, level))
                if name == MODEL:
                    continue
                gap = found[MODEL][metric][1] - values
                span = with_interval(gap, level)
                low, high = span["low"], span["high"]
                error = float(gap[1:].std(ddof=1)) if gap.size > 2 and low is not None else None
                clear = None if error is None or low is None or high is None else low > 0 or high < 0
                apart.append({"against": name} | labels | span | {"error": error, "clear": clear})
    return pl.DataFrame(rows, schema=_TABLE), pl.DataFrame(apart, schema=_DIFFERENCES)


def _values(
    measured: Measured, level: float, resamples: int, seed: int
) -> dict[str, tuple[int | None, NDArray[np.float64]]]:
    """Of each metric the length of its lists and its replicates, the value first; a seed draws the same people."""
    [group] = groups(measured, level=level, resamples=resamples, rng=seed)
    found = {"rmse" if name == "rmse_pooled" else name: values for name, values in group.values().items()}
    return {name: (group.labels(name)["n"], values) for name, values in found.items()}


def _another(model: Model, fitted: Model) -> str:
    """One line on the kind in use and the kind judged, where they differ or only one took something of the others."""
    known = [(chosen_kind(one), one.strength == 0) for one in (model, fitted)]
    if known[0] == known[1]:
        return ""
    in_use, judged = (f"{chosen_kind(one)} ({drawn_to(chosen_kind(one), one.strength)})" for one in (model, fitted))
    return f"The model in use is {in_use}; the one judged here is {judged}."


def _verdict(
    fitted: Model,
    made: Mapping[str, Measured],
    table: pl.DataFrame,
    differences: pl.DataFrame,
    metric: str,
    *,
    n: int,
    level: float,
) -> tuple[Joining, str]:
    """Say whether joining paid, from the paired difference to the model alone.

    A fitted model that took nothing from the others cannot have gained by them: it is a second fit to own data, whose
    validation may have hidden other entries than that of the model alone. Their difference is luck, however clear.
    """
    if fitted.alone:
        return "alone", "Nothing was shared with this model: it is the bar that a federation has to clear."
    if "alone" not in made:
        return "not asked", "Whether joining paid was not asked: the model was not compared with the one alone."
    where = (pl.col("history") == _ALL) & (pl.col("metric") == metric)
    gap = differences.row(by_predicate=where & (pl.col("against") == "alone"), named=True)
    own, alone = (
        table.row(by_predicate=where & (pl.col("system") == name), named=True)["value"] for name in (MODEL, "alone")
    )
    name = MEASURES[metric].format(n=n)
    if _same(made[MODEL], made["alone"]):
        said = f"every list and figure is that of the model alone ({name} {_number(alone)})"
        return "changed nothing", f"Joining changed nothing: {said}."
    if fitted.strength == 0:
        told = f"{name} is {_number(own)} against {_number(alone)} alone, and only the choice among own models differs"
        return "changed nothing", f"Joining changed nothing: the model judged took nothing from the others ({told})."
    people = f"{gap['people']:,} {'person' if gap['people'] == 1 else 'people'}"
    less = ", and less is better" if better_when_less(metric) else ""
    told = f"{name} is {_number(own)} against {_number(alone)} alone{less}"
    if gap["people"] < FEW or gap["clear"] is None:
        return "too few", f"Too little was held out to tell whether joining paid: {told}, over {people}."
    told += (
        f", a difference of {gap['value']:+.4f} with a standard error of {gap['error']:.4f} "
        f"({100 * level:g}% interval {gap['low']:+.4f} to {gap['high']:+.4f}; {people})"
    )
    if not gap["clear"]:
        return "unclear", f"Joining did not measurably pay: {told}."
    if (gap["value"] > 0) != better_when_less(metric):
        return "paid", f"Joining paid: {told}."
    return "harmed", f"Joining did HARM here: {told}."


def _number(value: float | None) -> str:
    return "unknown" if value is None or math.isnan(value) else f"{value:.4f}"


def _same(one: Measured, other: Measured) -> bool:
    """Whether two systems gave everyone the same lists and figures."""
    return np.array_equal(one.lists, other.lists) and all(
        np.array_equal(one.totals[name], other.totals[name]) for name in one.totals
    )
