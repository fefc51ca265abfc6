"""Compare simulated hospitals with eICU: the facts, how they are measured, one table."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import linalg, sparse

from twofold.data.federation import Federation
from twofold.data.sources.hospitals import load
from twofold.errors import DataError, MissingDataset, MissingExtra

__all__ = [
    "NOTED",
    "CalibrationRow",
    "DemoFacts",
    "Factorize",
    "Gap",
    "Recorded",
    "as_text",
    "average_gap",
    "between_hospitals",
    "calibration",
    "curve",
    "gap",
    "main",
    "measure_demo",
    "nmf_factors",
    "recorded_errors",
    "svd_factors",
    "tails",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Factorize = Callable[[sparse.csr_array, int], tuple[Floats, Floats]]

CUTOFF: Final = 10


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The three errors the paper's authors recorded, for one rank."""

    train: float
    test: float
    mean_rank: float


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Held-out entries: mean rank (0 best, 0.5 random) and nDCG@10, by popularity and by a factorization."""

    popularity_rank: float
    model_rank: float
    popularity_ndcg: float
    model_ndcg: float


def tails(values: npt.ArrayLike) -> dict[str, float]:
    """Mean, root mean square and upper quantiles.

    >>> tails([1, 1, 2, 4])["mean"]
    2.0
    """
    numbers = np.asarray(values, dtype=np.float64)
    named = {f"p{level:g}": float(np.percentile(numbers, level)) for level in (50, 90, 99, 99.9)}
    return {"mean": float(numbers.mean()), "rms": float(np.sqrt((numbers**2).mean())), **named, "max": numbers.max()}


def curve(counts: sparse.csr_array) -> Floats:
    """Share of patients with an entry, by item, most common item first.

    >>> curve(sparse.csr_array(np.array([[1, 0], [2, 3]]))).tolist()
    [1.0, 0.5]
    """
    shares = np.bincount(counts.indices, minlength=counts.shape[1]) / counts.shape[0]
    return np.asarray(np.sort(shares)[::-1])


def between_hospitals(counts: sparse.csr_array, hospital: Ints, *, least: int = 8) -> float:
    """Share of the variance of "has an entry" between hospitals (one-way intraclass correlation).

    Averaged over items between 5% and 95% of patients, weighted by their variance. Unbiased for small hospitals, so
    it can be compared between the demo (12 stays per hospital) and a full-size federation.

    >>> counts = sparse.csr_array(np.repeat([[1, 0], [0, 1]], 10, axis=0))
    >>> round(between_hospitals(counts, np.repeat([0, 1], 10)), 3)
    1.0
    """
    sizes = np.bincount(hospital)
    member = sparse.csr_array((np.ones(hospital.size), (hospital, np.arange(hospital.size))))
    seen = np.asarray((member @ _presence(counts)).todense())
    seen, sizes = seen[sizes >= least], sizes[sizes >= least][:, None]
    total, groups = sizes.sum(), len(sizes)
    if groups < 2:
        return math.nan
    overall = seen.sum(axis=0) / total
    usual = (total - (sizes**2).sum() / total) / (groups - 1)
    between = (sizes * (seen / sizes - overall) ** 2).sum(axis=0) / (groups - 1)
    within = (seen * (1 - seen / sizes)).sum(axis=0) / (total - groups)
    use = (overall > 0.05) & (overall < 0.95)
    share = (between - within)[use] / (between + (usual - 1) * within)[use]
    return float(np.average(share, weights=(overall * (1 - overall))[use]))


def svd_factors(train: sparse.csr_array, rank: int) -> tuple[Floats, Floats]:
    """Truncated SVD: the smallest squared error over all cells when signs are free."""
    basis = _basis(train, rank)
    return np.asarray(train @ basis), basis


def nmf_factors(train: sparse.csr_array, rank: int) -> tuple[Floats, Floats]:
    """scikit-learn's NMF, as in the recorded experiments but without their penalty, which is small."""
    try:
        decomposition: Any = importlib.import_module("sklearn.decomposition")
    except ImportError:
        raise MissingExtra("this needs scikit-learn.", fix='pip install "twofold[bench]"') from None
    model = decomposition.NMF(rank, init="nndsvd", max_iter=200, tol=1e-3)
    return model.fit_transform(train), model.components_.T


def recorded_errors(counts: sparse.csr_array, *, rank: int, factorize: Factorize = svd_factors) -> Recorded:
    """The recorded protocol: zeros count as observed, five entries of a fifth of the patients are held out.

    Train and test error are taken over entries, the mean rank over all items, weighted by the count.

    >>> counts = sparse.csr_array(np.random.default_rng(0).poisson(2.0, (50, 20)))
    >>> recorded_errors(counts, rank=20).train < 1e-9
    True
    """
    train, users, items, values = _hold_out(counts, np.random.default_rng(0))
    weights, basis = factorize(train, rank)
    owner = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
    cells = weights @ basis.T
    fitted, scores = cells[owner, train.indices], cells[users]
    predicted = np.take_along_axis(scores, items, axis=1)
    places = (scores[:, None, :] > predicted[:, :, None]).mean(axis=2)
    return Recorded(
        train=float(np.sqrt(np.mean((fitted - train.data) ** 2))),
        test=float(np.sqrt(np.mean((predicted - values) ** 2))),
        mean_rank=float(np.average(places, weights=values)),
    )


def gap(counts: sparse.csr_array, *, rank: int, rng: np.random.Generator) -> Gap:
    """How much better a factorization finds held-out entries than popularity does; a patient's own items are left out.

    The factorization is a truncated SVD of the rows of "has an entry", scaled to length one, around their mean: an
    item it knows nothing about is ranked by popularity.

    >>> rng = np.random.default_rng(0)
    >>> kinds = np.kron(np.eye(2), np.ones((30, 12)))
    >>> found = gap(sparse.csr_array(kinds), rank=2, rng=rng)
    >>> found.model_ndcg > 0.99 > 0.7 > found.popularity_ndcg
    True
    """
    train, users, items, _ = _hold_out(sparse.csr_array(counts[np.diff(counts.indptr) > 6]), rng)
    seen = _presence(train)
    lengths = np.sqrt(np.maximum(np.diff(seen.indptr), 1))
    rows = sparse.csr_array(sparse.diags_array(1 / lengths) @ seen)
    usual = np.asarray(rows.mean(axis=0))
    basis = _basis(rows, rank, around=usual)
    known = seen[users].toarray() > 0
    popular = np.broadcast_to(np.asarray(seen.sum(axis=0), dtype=np.float64), known.shape)
    by_popularity, by_model = (
        _places(popular, known, items),
        _places(usual + (rows[users].toarray() - usual) @ basis @ basis.T, known, items),
    )
    last = (~known).sum(axis=1, keepdims=True) - 1
    return Gap(
        popularity_rank=float(np.mean(by_popularity / last)),
        model_rank=float(np.mean(by_model / last)),
        popularity_ndcg=_ndcg(by_popularity),
        model_ndcg=_ndcg(by_model),
    )


def average_gap(counts: sparse.csr_array, *, rank: int, repeats: int = 5) -> Gap:
    """The gap averaged over several hold-outs, for small tables; NaN if nobody has more than six entries."""
    if not (np.diff(counts.indptr) > 6).any():
        return Gap(popularity_rank=math.nan, model_rank=math.nan, popularity_ndcg=math.nan, model_ndcg=math.nan)
    found = [astuple(gap(counts, rank=rank, rng=np.random.default_rng(seed))) for seed in range(repeats)]
    names = [field.name for field in fields(Gap)]
    return Gap(**dict(zip(names, np.mean(found, axis=0).tolist(), strict=True)))


def _hold_out(counts: sparse.csr_array, rng: np.random.Generator) -> tuple[sparse.csr_array, Ints, Ints, Floats]:
    """Five entries of a fifth of the patients who have more than five: train table, patients, items, values."""
    counts = sparse.csr_array(counts.astype(np.float64))
    counts.sort_indices()
    lengths = np.diff(counts.indptr)
    users = np.sort(rng.permutation(np.flatnonzero(lengths > 5))[: max(1, counts.shape[0] // 5)])
    taken = np.stack([counts.indptr[user] + rng.permutation(lengths[user])[:5] for user in users])
    train = counts.copy()
    train.data[taken.ravel()] = 0
    train.eliminate_zeros()
    return train, users, counts.indices[taken].astype(np.int64), counts.data[taken]


def _presence(counts: sparse.csr_array) -> sparse.csr_array:
    """One where there is an entry."""
    return sparse.csr_array((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)


def _basis(rows: sparse.csr_array, rank: int, *, around: Floats | None = None) -> Floats:
    """Leading right singular vectors, from the small Gram matrix; of the rows less `around`, their mean, if given."""
    gram = np.asarray((rows.T @ rows).todense())
    if around is not None:
        gram -= rows.shape[0] * np.outer(around, around)
    last = gram.shape[0] - 1
    return np.asarray(linalg.eigh(gram, subset_by_index=[max(0, last + 1 - rank), last])[1])


def _places(scores: Floats, known: npt.NDArray[np.bool_], items: Ints) -> Ints:
    """Place of each held-out item among the items the patient did not have, best first, ties by column."""
    hidden = np.where(known, -np.inf, scores)
    order = np.argsort(-hidden, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(order.shape[1])[None, :], axis=1)
    return np.asarray(np.take_along_axis(places, items, axis=1))


def _ndcg(places: Ints) -> float:
    """As in `twofold.evaluation.ranking.ndcg`, which is above this layer: the first two places weigh the same."""
    gains = np.where(places < CUTOFF, _discount(places), 0.0)
    return float(gains.sum(axis=1).mean() / _discount(np.arange(places.shape[1])).sum())


def _discount(places: Ints) -> Floats:
    """Weight of a place, the first one 0."""
    return np.asarray(1 / np.log2(np.maximum(places + 1.0, 2.0)))


STAY: Final = "patientunitstayid"
RANK: Final = 5  # the best of 3, 5, 10, 20 for both kinds of table at the demo's size is 3 or 5


@dataclass(frozen=True, kw_only=True)
class DemoFacts:
    """Facts that can be measured on the eICU demo and on simulated hospitals.

    Attributes
    ----------
    entries, lab_entries, drug_entries : float
        Items per stay; drugs over the stays that have any.
    mean, rms, p50, p90, p99, p999 : float
        Of the counts that are not zero.
    top_ten : float
        Share of all counts that the ten largest items have.
    item_10, item_30, item_100 : float
        Share of stays that have the 10th, 30th, 100th most common item.
    between_labs, between_drugs : float
        Share of the variance of "has an entry" between hospitals.
    no_pharmacy : float
        Share of hospitals without one drug.
    popularity_ndcg, model_ndcg : float
        nDCG@10 of held-out drugs by popularity and by a rank-5 factorization, about 12 stays per hospital.
    """

    entries: float
    lab_entries: float
    drug_entries: float
    mean: float
    rms: float
    p50: float
    p90: float
    p99: float
    p999: float
    top_ten: float
    item_10: float
    item_30: float
    item_100: float
    between_labs: float
    between_drugs: float
    no_pharmacy: float
    popularity_ndcg: float
    model_ndcg: float


NOTED: Final = DemoFacts(
    entries=47.0592, lab_entries=37.497, drug_entries=13.4742, mean=4.1428, rms=7.3604, p50=2, p90=9, p99=27,
    p999=77.048, top_ten=0.3429, item_10=0.929, item_30=0.6923, item_100=0.0828, between_labs=0.1539,
    between_drugs=0.2684, no_pharmacy=0.2581, popularity_ndcg=0.2726, model_ndcg=0.3797,
)  # fmt: skip


def measure_demo(folder: Path) -> DemoFacts:
    """Measure the eICU demo 2.0.1.

    Counts and their spread come from the 169 stays whose raw labs are known, with their drug orders; differences
    between hospitals from all stays, labs by hour. A drug is the first word of its name, in lower case.
    """
    raw, hourly, orders, stays = _tables(folder)
    known = orders.filter(pl.col(STAY).is_in(raw[STAY].unique().to_list()))
    both, _ = _matrix(pl.concat([raw, known]))
    labs, lab_stays = _matrix(hourly)
    drugs, drug_stays = _matrix(orders)
    hospital = dict(stays.select(STAY, "hospitalid").iter_rows())
    with_drugs = {hospital[stay] for stay in drug_stays}
    guess = average_gap(drugs, rank=RANK)
    return shared_facts(
        both,
        lab_entries=len(raw.unique([STAY, "item"])) / raw[STAY].n_unique(),
        drug_entries=drugs.nnz / drugs.shape[0],
        between_labs=between_hospitals(labs, _codes([hospital[stay] for stay in lab_stays])),
        between_drugs=between_hospitals(drugs, _codes([hospital[stay] for stay in drug_stays])),
        no_pharmacy=1 - len(with_drugs) / len(set(hospital.values())),
        popularity_ndcg=guess.popularity_ndcg,
        model_ndcg=guess.model_ndcg,
    )


def shared_facts(counts: sparse.csr_array, **others: float) -> DemoFacts:
    """Add the facts that follow from one table of counts."""
    spread, common = tails(counts.data), np.append(curve(counts), np.zeros(100))
    sums = np.sort(np.asarray(counts.sum(axis=0)))[::-1]
    return DemoFacts(
        entries=counts.nnz / counts.shape[0],
        mean=spread["mean"],
        rms=spread["rms"],
        p50=spread["p50"],
        p90=spread["p90"],
        p99=spread["p99"],
        p999=spread["p99.9"],
        top_ten=float(sums[:10].sum() / sums.sum()),
        item_10=float(common[9]),
        item_30=float(common[29]),
        item_100=float(common[99]),
        **others,
    )


def _tables(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Raw labs, labs by hour, drug orders (columns stay and item), and stays."""
    names = ("lab_100_patients", "lab_hourly", "medication", "patient")
    if not all((folder / f"{name}.csv.gz").is_file() for name in names):
        raise MissingDataset(
            "the eICU demo 2.0.1 is incomplete.",
            expected=", ".join(f"{name}.csv.gz" for name in names),
            fix="see https://physionet.org/content/eicu-crd-demo/2.0.1/ (Open Database License)",
        )
    raw, hourly, orders, stays = (pl.read_csv(folder / f"{name}.csv.gz", infer_schema=False) for name in names)
    word = pl.col("drugname").str.to_lowercase().str.split(" ").list.first()
    return (
        raw.select(STAY, item="lab " + pl.col("labname")),
        hourly.select(STAY, item="lab " + pl.col("lab")),
        orders.drop_nulls("drugname").select(STAY, item="drug " + word),
        stays,
    )


def _matrix(rows: pl.DataFrame) -> tuple[sparse.csr_array, list[str]]:
    """Count rows by stay and item."""
    stays, items = rows[STAY].unique().sort(), rows["item"].unique().sort()
    row, column = (np.searchsorted(ids.to_numpy(), rows[ids.name].to_numpy()) for ids in (stays, items))
    counts = sparse.csr_array((np.ones(len(rows)), (row, column)), shape=(len(stays), len(items)))
    counts.sum_duplicates()
    return counts, stays.to_list()


def _codes(names: list[str]) -> npt.NDArray[np.int64]:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


SAMPLE: Final = 20_000  # patients for the factorizations; more change the third digit only
NMF_SAMPLE: Final = 8_000
DEMO_STAYS: Final = 12  # stays per hospital in the demo, in the middle
# Rank to train RMSE, test RMSE, mean rank of the centralised model, as the authors recorded them.
RECORDED: Final = {10: (1.98, 4.67, 0.093), 20: (1.61, 5.11, 0.099), 50: (1.09, 6.28, 0.189)}
FACTS: Final = (
    ("lab entries per patient", "lab_entries", ".1f"),
    ("drug entries per patient with any", "drug_entries", ".1f"),
    ("count, mean", "mean", ".2f"),
    ("count, root mean square", "rms", ".2f"),
    ("count, median", "p50", ".0f"),
    ("count, 90%", "p90", ".0f"),
    ("count, 99%", "p99", ".0f"),
    ("count, 99.9%", "p999", ".0f"),
    ("share of counts in the top 10 items", "top_ten", ".2f"),
    ("patients with the 10th most common item", "item_10", ".2f"),
    ("patients with the 30th", "item_30", ".2f"),
    ("patients with the 100th", "item_100", ".3f"),
    ("variance between hospitals, has a lab", "between_labs", ".2f"),
    ("variance between hospitals, has a drug", "between_drugs", ".2f"),
    ("hospitals that record no drug", "no_pharmacy", ".2f"),
    ("drugs, demo size: nDCG@10 popularity", "popularity_ndcg", ".2f"),
    ("drugs, demo size: nDCG@10 rank 5", "model_ndcg", ".2f"),
)


@dataclass(frozen=True, kw_only=True)
class CalibrationRow:
    """One fact: its target, the source of the target, and the value in the simulation."""

    fact: str
    target: str
    source: str
    simulated: str


def calibration(federation: Federation, *, demo: DemoFacts = NOTED, nmf: bool = False) -> list[CalibrationRow]:
    """Compare simulated hospitals with the known facts of eICU.

    Parameters
    ----------
    federation : Federation
        From `load` or `simulate`.
    demo : DemoFacts, optional
        Measured by `measure_demo`; by default the noted figures.
    nmf : bool, default False
        Take the recorded errors with scikit-learn's NMF, as the paper did, instead of an SVD.

    Returns
    -------
    list of CalibrationRow

    Examples
    --------
    >>> rows = calibration(load(0.01))
    >>> rows[0].fact, rows[0].target, rows[0].simulated
    ('patients', '190,000', '1,900')
    """
    if federation.catalog.features is None or "kind" not in federation.catalog.features.columns:
        raise DataError("these are not simulated hospitals.", expected="a federation from hospitals.load or simulate")
    counts = sparse.csr_array(sparse.vstack([ratings.matrix for ratings in federation.values()], format="csr"))
    hospital = np.repeat(np.arange(len(federation)), federation.sizes)
    labs = np.asarray(federation.catalog.features["kind"] == "lab")
    facts = _simulated_facts(counts, hospital, labs)
    rng = np.random.default_rng(0)
    some = sparse.csr_array(counts[np.sort(rng.permutation(counts.shape[0])[: NMF_SAMPLE if nmf else SAMPLE])])
    rows = _size_rows(federation, counts)
    rows += [_row(name, getattr(demo, key), "eICU demo", getattr(facts, key), style) for name, key, style in FACTS]
    return rows + _recorded_rows(some, nmf) + _gap_rows(some)


def as_text(rows: list[CalibrationRow]) -> str:
    """The rows as a Markdown table with aligned columns.

    >>> print(as_text([CalibrationRow(fact="items", target="457", source="audit", simulated="457")]))
    | fact  | target | source of the target | simulated |
    |-------|--------|----------------------|-----------|
    | items | 457    | audit                | 457       |
    """
    table = [("fact", "target", "source of the target", "simulated")]
    table += [(row.fact, row.target, row.source, row.simulated) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in table]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])


def _size_rows(federation: Federation, counts: sparse.csr_array) -> list[CalibrationRow]:
    sizes = np.sort(federation.sizes)
    entries = counts.nnz / counts.shape[0]
    squares = [ratings.matrix.multiply(ratings.matrix).sum(axis=1).max() for ratings in federation.values()]
    norms = np.sqrt(np.array(squares)[np.argsort(federation.sizes)[-25:]])
    return [
        _row("patients", 190_000, "audit 6.1: more than 190k", counts.shape[0], ",.0f"),
        _row("items", 457, "audit 6.1", counts.shape[1], ".0f"),
        _row("hospitals", 205, "audit 6.1", len(federation), ".0f"),
        _row("smallest hospital", 40, "specification", sizes[0], ",.0f"),
        _row("largest hospital", 13_000, "specification", sizes[-1], ",.0f"),
        _row("hospitals of 2,981 patients or more", 14, "audit 6.1: p = 4", (sizes >= 2_981).sum(), ".0f"),
        CalibrationRow(
            fact="entries per patient", target="36 to 85; 47", source="audit 6.1; eICU demo", simulated=f"{entries:.1f}"
        ),
        _row("share of zeros", 1 - 47.06 / 457, "from entries per patient", 1 - entries / counts.shape[1], ".3f"),
        CalibrationRow(
            fact="largest row norm, 25 largest hospitals",
            target="283 to 2,512",
            source="audit 6.1",
            simulated=f"{norms.min():,.0f} to {norms.max():,.0f}",
        ),
        CalibrationRow(fact="count, largest", target="not known", source="-", simulated=f"{counts.data.max():,.0f}"),
    ]


def _simulated_facts(
    counts: sparse.csr_array, hospital: npt.NDArray[np.int64], labs: npt.NDArray[np.bool_]
) -> DemoFacts:
    """The facts of the demo, measured in the same way."""
    lab, drug = sparse.csr_array(counts[:, labs]), sparse.csr_array(counts[:, ~labs])
    treated = np.diff(drug.indptr) > 0
    rng = np.random.default_rng(0)
    few = np.concatenate([rng.permutation(np.flatnonzero(hospital == at))[:DEMO_STAYS] for at in np.unique(hospital)])
    guess = average_gap(sparse.csr_array(drug[few]), rank=RANK)
    return shared_facts(
        counts,
        lab_entries=lab.nnz / lab.shape[0],
        drug_entries=drug.nnz / max(treated.sum(), 1),
        between_labs=between_hospitals(lab, hospital),
        between_drugs=between_hospitals(sparse.csr_array(drug[treated]), hospital[treated]),
        no_pharmacy=1 - np.unique(hospital[treated]).size / np.unique(hospital).size,
        popularity_ndcg=guess.popularity_ndcg,
        model_ndcg=guess.model_ndcg,
    )


def _recorded_rows(counts: sparse.csr_array, nmf: bool) -> list[CalibrationRow]:
    rows = []
    for rank, targets in RECORDED.items():
        found = recorded_errors(counts, rank=rank, factorize=nmf_factors if nmf else svd_factors)
        values = (found.train, found.test, found.mean_rank)
        for name, target, value in zip(("train RMSE", "test RMSE", "mean rank"), targets, values, strict=True):
            label = f"rank {rank}: {name}" + (" (NMF)" if nmf else " (SVD)")
            rows.append(_row(label, target, "recorded results", value, ".3f" if name == "mean rank" else ".2f"))
    return rows


def _gap_rows(counts: sparse.csr_array) -> list[CalibrationRow]:
    """The gap a model opens over popularity. No target: the demo has only 39 labs for all of its stays."""
    found = gap(counts, rank=20, rng=np.random.default_rng(0))
    named = {
        "nDCG@10 popularity": found.popularity_ndcg,
        "nDCG@10 rank 20": found.model_ndcg,
        "mean rank popularity": found.popularity_rank,
        "mean rank rank 20": found.model_rank,
    }
    return [
        CalibrationRow(
            fact=f"all items: {name}", target="a visible gap", source="specification", simulated=f"{value:.3f}"
        )
        for name, value in named.items()
    ]


def _row(fact: str, target: float, source: str, simulated: float, style: str) -> CalibrationRow:
    return CalibrationRow(fact=fact, target=format(target, style), source=source, simulated=format(simulated, style))


def _find_demo() -> Path | None:
    folder = os.environ.get("TWOFOLD_DATA")
    found = Path(folder) / "eicu-demo-2.0.1" if folder else None
    return found if found is not None and found.is_dir() else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the calibration table of a simulated federation."""
    parser = argparse.ArgumentParser(prog="python -m studies calibration", description=main.__doc__)
    parser.add_argument("--scale", type=float, default=0.05, help="1 is the paper's size (default %(default)s)")
    parser.add_argument("--structure", default="middle", help="weak, middle, strong or a number from 0 to 1")
    parser.add_argument("--heterogeneity", type=float, default=1.0, help="0 makes hospitals alike")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nmf", action="store_true", help="scikit-learn's NMF for the recorded errors (slow)")
    asked = parser.parse_args(arguments)
    with contextlib.suppress(ValueError):  # a word is looked up by the config
        asked.structure = float(asked.structure)
    folder = _find_demo()
    start = time.process_time()
    federation = load(asked.scale, rng=asked.seed, structure=asked.structure, heterogeneity=asked.heterogeneity)
    print(f"{federation!r}\nsimulated in {time.process_time() - start:.1f} s of processor time")
    print("eICU demo: measured now" if folder else "eICU demo: noted figures (TWOFOLD_DATA has no eicu-demo-2.0.1)")
    rows = calibration(federation, demo=measure_demo(folder) if folder else NOTED, nmf=asked.nmf)
    print("\n" + as_text(rows))
