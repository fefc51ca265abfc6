"""How the constants behind `plan explain`'s prediction were found, and what they predict against what was measured.

Unit rows of every data set of counts (`studies frontier`) give the eigenvalues; releases at several ε, as a secure sum
gives them, the share of the gap that small entities closed. Everything is on the seed of development, never on a
reported one. Published data sets need TWOFOLD_DATA; those that are missing are left out and named.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.case import Case, load_case
from studies.frontier.settings import SIZES, DataSetting, quarters, read_frontier, sampled
from twofold.algorithms._jit import one_blas_thread
from twofold.entity.adapt import adapt
from twofold.entity.models.side import unit_rows
from twofold.errors import MissingDataset
from twofold.evaluation.measure import user_ndcg
from twofold.federation.factors import ItemFactors
from twofold.release.bilinear.mechanism import Gram
from twofold.release.content import Moments
from twofold.release.contract import ReleaseParameters
from twofold.release.usefulness import GROWTH, HALF_CLOSED, SPECTRUM, SPREAD, closed, directions
from twofold.report.plot import Plot, Series
from twofold.storage.files import write_whole

__all__ = ["EPSILONS", "Constants", "Point", "fit", "main", "markdown", "picture", "points", "spectrum"]

EPSILONS: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: So much that its noise is none: the most that sharing could give.
_NO_NOISE: Final = 10**6
#: Ridges of the pooled item-item model, per entry of average size.
_RIDGES: Final = (10.0, 100.0, 1_000.0)
#: Gaps below this are within the error of the figures: no share can be read off them.
_LEAST_GAP: Final = 0.008
_LONGEST: Final = 2_000
#: Powers of an entity's size that are tried.
_GROWTHS: Final = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
#: Half of the entities, the smaller one.
_HALF: Final = 2
Wide = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One data set at one ε: edge of the noise per person, people of an entity, share of the gap that was closed."""

    data: str
    epsilon: float
    edge: float
    n_items: int
    users: float
    share: float

    def directions(self, spectrum: tuple[float, float]) -> float:
        """Directions above the noise by some constants."""
        return directions(self.edge, n_items=self.n_items, spectrum=spectrum)


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What `twofold.release.usefulness` holds: `SPECTRUM`, `HALF_CLOSED`, `GROWTH` and `SPREAD`."""

    spectrum: tuple[float, float]
    half_closed: float
    growth: float
    spread: float

    def share(self, point: Point) -> float:
        """Predict the share of a point."""
        found = point.directions(self.spectrum)
        held = {"half_closed": self.half_closed, "growth": self.growth}
        return closed(found, users=point.users, n_items=point.n_items, **held)


HELD: Final = Constants(spectrum=SPECTRUM, half_closed=HALF_CLOSED, growth=GROWTH, spread=SPREAD)


def spectrum(rows: sparse.csr_array) -> list[tuple[int, float]]:
    """Places 2, 4, 8 and so on, up to a quarter of the items, with the eigenvalues of unit rows, per person.

    Examples
    --------
    >>> spectrum(sparse.csr_array(np.eye(8)))
    [(2, 0.125)]
    """
    unit = unit_rows(rows)
    values = np.linalg.eigvalsh((unit.T @ unit).toarray())[::-1] / rows.shape[0]
    places = [2**power for power in range(1, 10) if 2**power <= rows.shape[1] / 4]
    return [(place, float(values[place - 1])) for place in places if values[place - 1] > 0]


def fit(spectra: Sequence[Sequence[tuple[int, float]]], measured: Sequence[Point]) -> Constants:
    """Fit a line to the logarithms of the eigenvalues, then the curve of shares by its least mean distance.

    Examples
    --------
    >>> from dataclasses import replace
    >>> curve = Constants(spectrum=(0.1, 1.0), half_closed=5.0, growth=0.25, spread=0.0)
    >>> given = [
    ...     Point(data="x", epsilon=1.0, edge=edge, n_items=99, users=users, share=0.0)
    ...     for edge in (0.02, 0.01, 0.005)
    ...     for users in (10, 1_000)
    ... ]
    >>> made = fit([[(2, 0.05), (4, 0.025)]], [replace(one, share=curve.share(one)) for one in given])
    >>> [round(one, 2) for one in made.spectrum], round(made.half_closed), made.growth
    ([0.1, 1.0], 5, 0.25)
    """
    logs = np.log(np.array([pair for one in spectra for pair in one], dtype=np.float64))
    slope, start = np.polyfit(logs[:, 0], logs[:, 1], 1)
    found = (float(np.exp(start)), float(-slope))
    shares = np.clip([one.share for one in measured], 0.0, 1.0)
    seen = np.array([one.directions(found) > 0 for one in measured])

    def distances(half: float, growth: float) -> Wide:
        made = Constants(spectrum=found, half_closed=half, growth=growth, spread=0.0)
        return np.asarray(np.abs(np.array([made.share(one) for one in measured]) - shares))

    tried = [(half, growth) for growth in _GROWTHS for half in np.geomspace(1, 100, 200)]
    best = min(tried, key=lambda one: float(distances(*one).mean()) if measured else 0.0)
    spread = float(np.quantile(distances(*best)[seen], 0.8)) if seen.any() else 0.0
    return Constants(spectrum=found, half_closed=float(best[0]), growth=best[1], spread=spread)


def points(case: Case, data: DataSetting, epsilons: Sequence[float] = EPSILONS) -> list[Point]:
    """Measure small entities of one data set; none if pooled data gain nothing there.

    Parameters
    ----------
    case : Case
        A split of the seed of development.
    data : DataSet
        Its public numbers.
    epsilons : sequence of float
        Prices of the release.
    """
    place = quarters(case.sizes)
    small = [name for name, quarter in place.items() if quarter < _HALF]
    names = [name for name in sampled(case.sizes, data.sample) if name in small]
    everybody = sparse.csr_array(sparse.vstack(list(case.rows.values()), format="csr"))
    people, items = everybody.shape
    public = ReleaseParameters(
        n_items=items, n_users=people, max_items=items, bound=data.bound, delta=data.delta, epsilon=1
    )

    def shared(epsilon: float) -> Moments:
        asked = public.with_(epsilon=epsilon)  # one noise over all people, as in a secure sum
        return Gram().combine([Gram().release(everybody, asked, rng=case.seed).value], asked)

    best = shared(_NO_NOISE)
    lines = {"own": None, "shared": best.sums}
    controls = [_popular(case, data, names, line) for line in lines.values()] + [_private(case, data, names, None)]
    control = max(controls)
    pooled = max(_pooled(case, data, names, everybody), _private(case, data, names, best))
    if pooled - control < _LEAST_GAP:
        return []
    return [
        Point(
            data=data.name,
            epsilon=epsilon,
            edge=Gram().noise_share(public.with_(epsilon=epsilon)),
            n_items=items,
            users=float(np.median([case.sizes[name] for name in small])),
            share=(_private(case, data, names, shared(epsilon)) - control) / (pooled - control),
        )
        for epsilon in epsilons
    ]


def _mean(case: Case, data: DataSetting, names: Sequence[str], score: Any) -> float:
    """Mean nDCG@10 over entities."""
    found = []
    for name in names:
        rows, held = case.rows[name], case.held[name]
        scores = score(rows)
        found.append(np.nanmean(user_ndcg(scores[: data.users], held[: data.users], seen=rows[: data.users], n=10)))
    return float(np.nanmean(found))


def _popular(case: Case, data: DataSetting, names: Sequence[str], line: Wide | None) -> float:
    def score(rows: sparse.csr_array) -> Wide:
        use = np.bincount(rows.indices, minlength=rows.shape[1]) if line is None else line
        return np.tile(np.asarray(use, dtype=np.float64), (rows.shape[0], 1))

    return _mean(case, data, names, score)


def _private(case: Case, data: DataSetting, names: Sequence[str], totals: Moments | None) -> float:
    def score(rows: sparse.csr_array) -> Wide:
        made = adapt(
            rows,
            None if totals is None else _factors(totals),
            feedback="counts",
            lower=data.lower,
            bound=data.bound,
            rank=20,
            seed=case.seed,
            threads=1,
        )
        return np.asarray(made.scorer.scores(rows), dtype=np.float64)

    return _mean(case, data, names, score)


def _factors(totals: Moments) -> ItemFactors:
    """What the server sends back with the totals; the entity's model of counts reads nothing else."""
    items = totals.sums.size
    return ItemFactors(
        plan="0" * 64,
        catalog="0" * 64,
        factors=np.zeros((items, 1), np.float32),
        moments=np.zeros((1, 1)),
        means=np.ones(items),
        support=np.ones(items),
        users=totals.users,
        entities=2,
        private=False,
        totals=totals,
    )


def _pooled(case: Case, data: DataSetting, names: Sequence[str], everybody: sparse.csr_array) -> float:
    damped = everybody.astype(np.float64)
    damped.data = np.sqrt(damped.data)
    gram = (damped.T @ damped).toarray()
    found = []
    for ridge in _RIDGES:
        inverse = np.linalg.inv(gram + ridge * np.eye(gram.shape[0]))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        found.append(_mean(case, data, names, lambda rows, kept=weights: np.asarray(np.sqrt(rows) @ kept)))
    return max(found)


def markdown(constants: Constants, measured: Sequence[Point]) -> str:
    """Print the constants, found now and held in the source, and a table of predicted against measured.

    Examples
    --------
    >>> print(markdown(HELD, []).splitlines()[2])
    | SPECTRUM | ...
    """
    pairs = {
        "SPECTRUM": (constants.spectrum, SPECTRUM),
        "HALF_CLOSED": ((constants.half_closed,), (HALF_CLOSED,)),
        "GROWTH": ((constants.growth,), (GROWTH,)),
        "SPREAD": ((constants.spread,), (SPREAD,)),
    }
    lines = ["| constant | found now | in the source |", "|---|---|---|"]
    for name, (now, held) in pairs.items():
        lines.append(f"| {name} | {', '.join(f'{one:.3g}' for one in now)} | {', '.join(f'{one:g}' for one in held)} |")
    lines += ["", "| data | ε | directions | predicted share | measured share |", "|---|---|---|---|---|"]
    for one in measured:
        predicted, found = HELD.share(one), one.directions(SPECTRUM)
        lines.append(f"| {one.data} | {one.epsilon:g} | {found:.1f} | {predicted:.2f} | {one.share:+.2f} |")
    return "\n".join(lines)


def picture(measured: Sequence[Point]) -> Plot | None:
    """Draw measured against predicted shares; points on the diagonal were predicted exactly."""
    if not measured:
        return None
    series = [Series(name="as predicted", x=[0.0, 1.0], y=[0.0, 1.0], style=0)]
    for place, name in enumerate(dict.fromkeys(one.data for one in measured), start=1):
        own = [one for one in measured if one.data == name]
        x, y = [HELD.share(one) for one in own], [one.share for one in own]
        series.append(Series(name=name, x=x, y=y, joined=False, style=place))
    return Plot(
        caption="Share of the gap to pooled data that small entities closed, seed of development",
        description="; ".join(f"{one.name}: {min(one.y):.2f} to {max(one.y):.2f}" for one in series),
        x_label="predicted from public numbers",
        y_label="measured",
        series=tuple(series),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(prog="python -m studies prediction", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="quick")
    parser.add_argument("--data", help="data sets of the size, separated by commas (default: all of counts)")
    parser.add_argument("-o", "--output", type=Path, help="folder for the points and the plot")
    asked = parser.parse_args(arguments)
    plan = read_frontier(asked.size)
    chosen = [plan.of(name) for name in asked.data.split(",")] if asked.data else list(plan.data)
    spectra, measured = [], []
    for data in chosen:
        if data.feedback != "counts":
            continue
        try:
            case = load_case(data.case, plan.development)
        except MissingDataset:
            sys.stderr.write(f"{data.name}: not found, left out\n")
            continue
        rows = sparse.csr_array(sparse.vstack(list(case.rows.values()), format="csr"))
        if rows.shape[1] > _LONGEST:
            sys.stderr.write(f"{data.name}: {rows.shape[1]:,} items, left out\n")
            continue
        with one_blas_thread():
            spectra.append(spectrum(rows))
            measured += points(case, data)
    sys.stdout.write(markdown(fit(spectra, measured), measured) + "\n")
    plot = picture(measured)
    if asked.output:
        asked.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps([asdict(one) for one in measured], indent=1) + "\n"
        write_whole(asked.output / "prediction.json", text.encode())
        if plot is not None:
            write_whole(asked.output / "prediction.svg", plot.picture().encode())
