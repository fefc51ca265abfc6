"""How close simulated hospitals come to what is known of eICU, as a table."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from studies.data.hospitals_demo import NOTED, RANK, DemoFacts, measure_demo, shared_facts
from studies.data.hospitals_facts import average_gap, between_hospitals, gap, nmf_factors, recorded_errors, svd_factors
from twofold.data.federation import Federation
from twofold.data.sources.hospitals import load
from twofold.errors import DataError

__all__ = ["CalibrationRow", "as_text", "calibration", "main"]

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
    """One fact: what it should be, who says so, what the simulation has."""

    fact: str
    target: str
    source: str
    simulated: str


def calibration(federation: Federation, *, demo: DemoFacts = NOTED, nmf: bool = False) -> list[CalibrationRow]:
    """Compare simulated hospitals with what is known of eICU.

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
