"""One table of all release mechanisms: loss, seconds and memory, next to their peers and to the recorded reference.

Data: mixtures of 10 separated Gaussian clusters, centres of norm 10, noise of norm about 1; these numbers are public
and give the bounds. A figure is the k-means loss of the released centres over that of scikit-learn's `KMeans` (ours
where it is not installed), as mean and standard deviation over seeds. Publishing the exact mean of everybody gives
about 90.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
import tracemalloc
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.related.registry import RELATED, Releases
from studies.runner import progress, run_cells
from studies.store import Cell, Found
from twofold.algorithms.kmeans import kmeans
from twofold.release import NOT_PRIVATE, PRIVATE, Prototypes, ReleaseParameters, mechanism
from twofold.release.cells import centres
from twofold.release.choose import BILINEAR, resolve

__all__ = [
    "DELTA",
    "EPSILONS",
    "SIZES",
    "Entrant",
    "Measured",
    "Mixture",
    "Row",
    "diffprivlib_cells",
    "entrants",
    "loss",
    "main",
    "make_mixture",
    "markdown",
    "memory_of",
    "recorded",
    "run",
    "run_once",
    "without_centres",
]

Floats = NDArray[np.float64]
_NORM = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """One mixture, with the loss of the best known centres."""

    rows: Floats
    n_clusters: int
    best: float
    judge: str
    seed: int

    @property
    def name(self) -> str:
        """Shape in words."""
        return f"n={self.rows.shape[0]:,} m={self.rows.shape[1]} k={self.n_clusters}"

    @property
    def one_mean(self) -> float:
        """Ratio of publishing the exact mean of everybody."""
        return loss(self.rows, self.rows.mean(axis=0, keepdims=True)) / self.best

    def public(self, epsilon: str, delta: str) -> ReleaseParameters:
        """Bounds from the recipe of the data: norm 10, noise of norm about 1, hence hardly ever above 10.5."""
        users, items = self.rows.shape
        return ReleaseParameters(
            n_items=items,
            n_users=users,
            max_items=items,
            bound=_NORM,
            lower=-_NORM,
            l2_cap=1.05 * _NORM,
            n_prototypes=self.n_clusters,
            epsilon=epsilon,
            delta=delta,
            seed=self.seed,
        )


def make_mixture(n_users: int, n_items: int, n_clusters: int, seed: int) -> Mixture:
    """Draw a mixture: centres of norm 10 in random directions, noise of norm about 1.

    Examples
    --------
    >>> case = make_mixture(200, 20, 3, 0)
    >>> case.rows.shape, 0.8 < case.best / 200 < 1.2
    ((200, 20), True)
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_clusters, n_items))
    centres *= _NORM / np.linalg.norm(centres, axis=1, keepdims=True)
    noise = rng.normal(size=(n_users, n_items)) / np.sqrt(n_items)
    rows = centres[rng.integers(n_clusters, size=n_users)] + noise
    best, judge = _best(rows, n_clusters)
    return Mixture(rows=rows, n_clusters=n_clusters, best=best, judge=judge, seed=seed)


def loss(rows: Floats, centres: Floats) -> float:
    """Sum of squared distances to the nearest centre.

    Examples
    --------
    >>> loss(np.array([[0.0], [3.0]]), np.array([[1.0]]))
    5.0
    """
    squares = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(axis=1)
    return float(np.maximum(squares.min(axis=1), 0.0).sum())


def _best(rows: Floats, n_clusters: int) -> tuple[float, str]:
    if importlib.util.find_spec("sklearn") is None:
        return kmeans(rows, n_clusters, n_init=10, rng=0).inertia, "twofold kmeans (scikit-learn not installed)"
    KMeans = importlib.import_module("sklearn.cluster").KMeans
    return float(KMeans(n_clusters, n_init=10, random_state=0).fit(rows).inertia_), "scikit-learn KMeans"


# Recorded runs of the reference program of Balcan et al. (Octave, unmodified; ratio of k-means losses, k = 10). It
# spends several times the ε it is given, see docs/reference/mechanisms.md.
_RECORDED: dict[tuple[int, int], tuple[tuple[str, ...], str]] = {
    (2_000, 50): (("98-111", "59-71", "", "29-39", ""), "6-24"),
    (2_000, 500): (("171-186", "81-88", "", "42-62", ""), "8-26"),
    (20_000, 50): (("70.7", "27.2", "", "not finished", ""), "76-199"),
    (20_000, 500): (("84.2", "52.0", "", "not finished", ""), "71"),
}


def recorded(case: Mixture) -> tuple[tuple[str, ...], str]:
    """Recorded ratios and seconds of the reference program for this shape, blank where there is no record.

    Examples
    --------
    >>> recorded(make_mixture(200, 20, 3, 0))
    (('', '', '', '', ''), '')
    """
    return _RECORDED.get(case.rows.shape, (("",) * 5, ""))


def diffprivlib_cells(case: Mixture, epsilons: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Ratio of diffprivlib's KMeans per *declared* ε, and how many times that it really spends.

    Returns
    -------
    cells : tuple of str
        One per ε; what went wrong when it cannot be imported.
    promise : str
        The measured factor.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module("diffprivlib.models.k_means")
    except ImportError as problem:
        missing = "not installed" if isinstance(problem, ModuleNotFoundError) else "does not import"
        return (missing,) + ("",) * (len(epsilons) - 1), "declared ε, overspent"
    ratios = [loss(case.rows, _fit(module, case, float(one), case.n_clusters)[0]) / case.best for one in epsilons]
    factor = _fit(module, case, 1.0, 1)[1]  # with one cluster every mechanism it makes is about everybody
    return tuple(f"{ratio:.2f}" for ratio in ratios), f"declared ε; spends {factor:.2f} ε"


def _fit(module: Any, case: Mixture, epsilon: float, n_clusters: int) -> tuple[Any, float]:
    """Centres, and the sum of the ε of all mechanisms that the fit makes."""
    spent: list[float] = []
    originals = {name: getattr(module, name) for name in ("LaplaceBoundedDomain", "GeometricFolded")}
    for name, original in originals.items():
        setattr(module, name, _counting(original, spent))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = module.KMeans(n_clusters, epsilon=epsilon, bounds=(-10.0, 10.0), random_state=case.seed)
            model.fit(case.rows)
    finally:
        for name, original in originals.items():
            setattr(module, name, original)
    return model.cluster_centers_, sum(spent)


def _counting(original: Any, spent: list[float]) -> Any:
    def make(*positional: Any, **named: Any) -> Any:
        made = original(*positional, **named)
        spent.append(float(made.epsilon))
        return made

    return make


DELTA = "1e-6"


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A mechanism under one promise."""

    name: str
    delta: str = "0"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether it has a proof."""
        return self.name not in NOT_PRIVATE

    @property
    def who(self) -> str:
        """Name with its options."""
        return self.name + "".join(f" {key}={value}" for key, value in self.options.items())

    @property
    def promise(self) -> str:
        """The guarantee."""
        return "none" if not self.private else "ε" if self.delta == "0" else f"(ε, {self.delta})"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run."""

    ratio: float
    seconds: float
    fell_back: bool


def entrants() -> list[Entrant]:
    """Every mechanism of the registry and of the related work, private ones under both promises where they have two.

    Examples
    --------
    >>> len({(one.who, one.promise) for one in entrants()}) == len(entrants())
    True
    """
    private = [Entrant(name=name) for name in (*PRIVATE, "auto")]
    both = [Entrant(name=name, delta=DELTA) for name in (*PRIVATE, "auto") if name != "balcan"]
    plain = Entrant(name="buckets", options={"cells_per_prototype": 1})
    related = [Entrant(name="coreset"), *(Entrant(name=name, delta=DELTA) for name in RELATED)]
    return [*private, plain, *both, *related, Entrant(name="kmeans"), Entrant(name="random")]


def run_once(entrant: Entrant, case: Mixture, epsilon: str) -> Measured:
    """Release, make centres, judge them.

    Examples
    --------
    >>> run_once(Entrant(name="kmeans"), make_mixture(200, 20, 3, 0), "1").ratio < 1.5
    True
    """
    start = time.process_time()
    message, found = _release(entrant, case, epsilon)
    seconds = time.process_time() - start
    ratio = loss(case.rows, found) / case.best
    return Measured(ratio=ratio, seconds=seconds, fell_back=bool(message.note) and entrant.private)


def without_centres(entrant: Entrant, case: Mixture, epsilon: str) -> str:
    """Name of the sum that `auto` takes at this ε, which has no centres to judge; empty where there are centres.

    Examples
    --------
    >>> case = make_mixture(200, 20, 3, 0)
    >>> [without_centres(Entrant(name=name, delta=DELTA), case, "1000") for name in ("auto", "sulq")]
    ['gram', '']
    """
    if entrant.name != "auto":
        return ""
    name = resolve("auto", case.public(epsilon, entrant.delta)).mechanism.name
    return name if name in BILINEAR else ""


def memory_of(entrant: Entrant, case: Mixture, epsilon: str) -> float:
    """Largest memory of a release, in MB; also the warm-up of compiled kernels."""
    _release(entrant, case, epsilon)
    tracemalloc.start()
    try:
        _release(entrant, case, epsilon)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def _release(entrant: Entrant, case: Mixture, epsilon: str) -> tuple[Prototypes, Any]:
    public = case.public(epsilon, entrant.delta)
    chosen: Releases
    if entrant.name in RELATED:
        chosen = RELATED[entrant.name]
    elif entrant.options:
        chosen = mechanism(entrant.name, **entrant.options)
    else:
        chosen = resolve(entrant.name, public).mechanism
    message = chosen.release(case.rows, public, rng=case.seed).value
    return message, centres(message, public)


#: The last stands for infinity: noise is still drawn, and is nothing. Only sample and aggregate takes no more of a
#: large ε than its noise is proven for.
EPSILONS = ("0.1", "1", "3", "10", "1000000")
#: Shapes (users, items) and number of seeds.
SIZES: dict[str, tuple[tuple[tuple[int, int], ...], int]] = {
    "tiny": (((400, 20),), 2),
    "quick": (((2_000, 50),), 2),
    "full": (((2_000, 50), (2_000, 500), (20_000, 50), (20_000, 500)), 3),
}
_K = 10


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table: mechanism, guarantee, a cell per ε, seconds and megabytes."""

    data: str
    who: str
    promise: str
    cells: tuple[str, ...]
    seconds: str
    megabytes: str


def run(size: str) -> list[Row]:
    """Measure everything; shows progress when standard error is a terminal.

    Parameters
    ----------
    size : {"tiny", "quick", "full"}
        What to run.
    """
    shapes, seeds = SIZES[size]
    units = [[_cell(shape, seeds, place) for place in range(len(entrants()) + 1)] for shape in shapes]
    with progress() as tell:
        ran = run_cells(units, _run, name="mechanisms", tell=tell)
    return [Row(**row) for unit in units for cell in unit for row in ran.found[cell.key]["rows"]]


def _cell(shape: tuple[int, int], seeds: int, place: int) -> Cell:
    """Measure one entrant on the mixtures of one shape; those after the last are the peers."""
    known = entrants()
    system = known[place].who if place < len(known) else "peers"
    data = {"source": "mixture", "n_users": shape[0], "n_items": shape[1], "n_clusters": _K}
    return Cell(data=data, system=system, options={"place": place, "seeds": seeds}, seed=0, task="mechanisms")


def _run(cells: Sequence[Cell]) -> Iterator[Found]:
    known, data = entrants(), cells[0].data
    shape = data["n_users"], data["n_items"], data["n_clusters"]
    cases = [make_mixture(*shape, seed) for seed in range(cells[0].options["seeds"])]
    for cell in cells:
        place = cell.options["place"]
        rows = [_row(known[place], cases)] if place < len(known) else list(_others(cases))
        yield {"rows": [vars(row) for row in rows]}


def _row(entrant: Entrant, cases: Sequence[Mixture]) -> Row:
    named = {epsilon: without_centres(entrant, cases[0], epsilon) for epsilon in EPSILONS}
    judged = [epsilon for epsilon in EPSILONS if not named[epsilon]]
    memory = [memory_of(entrant, cases[0], epsilon) for epsilon in judged[:2][-1:]]
    measured = {epsilon: [run_once(entrant, case, epsilon) for case in cases] for epsilon in judged}
    if not entrant.private:  # ε means nothing to it
        cells = ("",) * (len(EPSILONS) - 1) + (_ratios(measured[EPSILONS[-1]]),)
    else:
        cells = tuple(named[epsilon] or _ratios(measured[epsilon]) for epsilon in EPSILONS)
    seconds = [one.seconds for some in measured.values() for one in some]
    return Row(
        data=cases[0].name,
        who=entrant.who,
        promise=entrant.promise,
        cells=cells,
        seconds=f"{np.mean(seconds):.2f}" if seconds else "",
        megabytes=f"{memory[0]:.0f}" if memory else "",
    )


def _others(cases: Sequence[Mixture]) -> Iterator[Row]:
    case = cases[0]
    blank = ("",) * (len(EPSILONS) - 1)
    spread = f"{np.mean([one.one_mean for one in cases]):.1f}"
    yield Row(data=case.name, who="one exact mean", promise="none", cells=(*blank, spread), seconds="", megabytes="")
    yield Row(data=case.name, who=case.judge, promise="none", cells=(*blank, "1.00"), seconds="", megabytes="")
    cells, promise = diffprivlib_cells(case, EPSILONS)
    yield Row(data=case.name, who="diffprivlib KMeans", promise=promise, cells=cells, seconds="", megabytes="")
    figures, seconds = recorded(case)
    yield Row(
        data=case.name,
        who="reference program",
        promise="recorded; not ε-DP",
        cells=figures,
        seconds=seconds,
        megabytes="",
    )


def _ratios(measured: Sequence[Measured]) -> str:
    ratios = [one.ratio for one in measured]
    fell = "*" if any(one.fell_back for one in measured) else ""
    return f"{np.mean(ratios):.2f} ± {np.std(ratios):.2f}{fell}"


def markdown(rows: Sequence[Row]) -> str:
    """Render the rows as one GitHub table.

    Examples
    --------
    >>> row = Row(data="d", who="w", promise="p", cells=("1",) * 5, seconds="0", megabytes="1")
    >>> markdown([row]).splitlines()[-1].count("|")
    11
    """
    heads = ("data", "mechanism", "promise", *(f"ε={epsilon}" for epsilon in EPSILONS[:-1]), "ε=∞", "CPU s", "MB")
    lines = [heads, *((row.data, row.who, row.promise, *row.cells, row.seconds, row.megabytes) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies mechanisms", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="quick")
    size = parser.parse_args(arguments).size
    sys.stdout.write(markdown(run(size)) + "\n\n" + _NOTE + "\n")


_NOTE = """\
Figures: k-means loss over that of the judge, mean ± standard deviation over seeds. *: fell back by public numbers to
public buckets or to one prototype (the message says why). ε=∞ is ε = 10^6. CPU s: one release with its centres, mean
over ε and seeds. MB: largest traced memory of a release. Noise is seeded here, so that the table can be repeated.
gram: there "auto" takes the sum of all pairs, which has no centres to judge."""
