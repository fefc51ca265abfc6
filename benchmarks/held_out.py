"""Entries held out of a finished federation, beside a federation that never saw them: what a figure is worth."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.table import Table
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.sources import hospitals
from twofold.data.split import Split, recorded_holdout
from twofold.entity.baselines import Fits, system_of
from twofold.entity.held_out import held_out_entries
from twofold.entity.model import Model
from twofold.evaluation.measure import measure
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.simulation.run import Simulated, simulate

N = 10
NOTE = (
    "nDCG@10 above the model alone, mean over the patients of all hospitals. Never seen: a federation made without the "
    "held-out entries of one hospital, with the same noise. Taken out: the finished federation, its totals less this "
    "hospital's own part, as twofold evaluate does. Left in: the same without that. A fifth of everyone's entries."
)
CASES = (("gram", 1000.0), ("gram", 10.0), ("gram", 1.0), ("sketch", 10.0), ("popularity", 10.0))


def run(*, quick: bool) -> list[Table]:
    """Every hospital in turn, with each of several mechanisms."""
    federation = hospitals.load(0.02, n_patients=300, rng=0) if quick else hospitals.load(0.05, n_patients=900, rng=0)
    cases = CASES[:1] if quick else CASES
    lines = [_line(federation, mechanism, epsilon) for mechanism, epsilon in cases]
    columns = ("mechanism", "ε", "patients", "never seen", "taken out", "left in")
    title = f"Held out of a finished federation of {len(federation)} simulated hospitals"
    return [Table(title=title, columns=columns, rows=lines, note=NOTE)]


def _line(federation: Federation, mechanism: str, epsilon: float) -> list[object]:
    plan = Plan(
        catalog=federation.catalog,
        feedback="counts",
        bound=5,
        max_items=60,
        n_users=90,
        n_entities=len(federation),
        epsilon=epsilon,
        mechanism=mechanism,
        simulation=True,
    )
    done = _simulated(federation, plan)
    gains, people = [], []
    for seed, (name, ratings) in enumerate(federation.items()):
        split = recorded_holdout(ratings, users=1.0, probability=0.2, rng=seed)
        others = Federation({label: split.train if label == name else one for label, one in federation.items()})
        never = _simulated(others, plan).models[name]
        alone = _figure(_refitted(done.models[name], split, None, plan), split)
        told = [_figure(never, split)]
        for climbs in (True, False):
            judged = held_out_entries(done.models[name], split, done.factors, seed=0, climbs=climbs)
            told.append(_figure(_refitted(done.models[name], split, judged.shared, plan), split))
        gains.append([figure - alone for figure in told])
        people.append(ratings.n_users)
    means = np.average(gains, axis=0, weights=people)
    cells = [f"{mean:+.4f}" for mean in means]
    if mechanism != "gram":
        cells[1] = "–"  # other messages hold no totals to take it out of
    return [mechanism, f"{epsilon:g}", sum(people), *cells]


def _simulated(federation: Federation, plan: Plan) -> Simulated:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return simulate(federation, plan, rng=0)


def _refitted(model: Model, split: Split[Ratings], shared: ItemFactors | None, plan: Plan) -> Model:
    return Fits(entity="one", rest=split.train, plan=plan, shared=shared, lower=model.lower, bound=model.bound).model()


def _figure(model: Model, split: Split[Ratings]) -> float:
    train, test = split.train.matrix, split.test.matrix
    return measure(system_of(model), train, test, feedback="counts", n=N, metrics=["ndcg"]).overall("ndcg")
