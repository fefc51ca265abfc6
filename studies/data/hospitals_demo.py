"""The facts that the open eICU demo can tell, measured from its folder, and as noted for when it is not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from studies.data.hospitals_facts import average_gap, between_hospitals, curve, tails
from twofold.errors import MissingDataset

__all__ = ["NOTED", "DemoFacts", "measure_demo"]

STAY: Final = "patientunitstayid"
RANK: Final = 5  # the best of 3, 5, 10, 20 for both kinds of table at the demo's size is 3 or 5


@dataclass(frozen=True, kw_only=True)
class DemoFacts:
    """What can be measured both on the eICU demo and on simulated hospitals.

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
        Share of the variance of "has an entry" that lies between hospitals.
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
    """Fill in the facts that one table of counts tells, beside the others."""
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
            "the eICU demo 2.0.1 is not complete.",
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
