"""The federations of the frontier: loaded, split, and with the entities that are fitted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from studies._frontier_settings import DataSetting
from studies.data import jester
from twofold.csr import with_data
from twofold.data.bounds import Bounds
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.sources import eicu, hospitals, movielens
from twofold.data.split import Split, leave_n_out, recorded_holdout
from twofold.features import Features
from twofold.federation.plan import Plan

__all__ = ["Case", "item_features", "load_case", "quarters", "sampled"]

Matrices = Mapping[str, sparse.csr_array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One split of one federation.

    Parameters
    ----------
    setting : DataSetting
        Its public numbers.
    seed : int
        Of the split (and of simulated patients).
    train, test : mapping of csr arrays
        Of every entity.
    quarter : mapping of int
        0 for the quarter of the entities with the fewest users, to 3.
    measured : tuple of str
        Entities that are fitted and measured; all of them are in the statistic.
    plan : Plan
        Without a mechanism of its own.
    """

    setting: DataSetting
    seed: int
    train: Matrices
    test: Matrices
    quarter: Mapping[str, int]
    measured: tuple[str, ...]
    plan: Plan

    def weight(self, entity: str) -> float:
        """How many entities of its quarter a measured one stands for.

        Every quarter counts in full, however few of its entities are measured.
        """
        here = self.quarter[entity]
        alike = sum(one == here for one in self.quarter.values())
        return alike / sum(self.quarter[one] == here for one in self.measured)


def load_case(setting: DataSetting, seed: int) -> Case:
    """Load or simulate a federation, hold entries out, cut values to their bounds.

    Examples
    --------
    >>> from studies._frontier_settings import read_frontier
    >>> case = load_case(read_frontier("tiny").of("hospitals-middle"), seed=0)
    >>> len(case.train), len(case.measured), case.plan.features_table.n_features
    (2, 2, 58)
    """
    federation = _federation(setting, seed)
    bounds = Bounds(bound=setting.bound, lower=setting.lower)
    bounded = Federation({name: bounds.apply(one)[0] for name, one in federation.items()})
    split = _split(bounded, setting, seed)
    sizes = {str(name): one.n_users for name, one in federation.items()}
    return Case(
        setting=setting,
        seed=seed,
        train=_matrices(split.train),
        test=_matrices(split.test),
        quarter=quarters(sizes),
        measured=sampled(sizes, setting.sample),
        plan=_plan(federation, setting),
    )


def quarters(sizes: Mapping[str, int]) -> dict[str, int]:
    """Quarter of every entity by its number of users; equal sizes by name.

    Examples
    --------
    >>> quarters({"a": 9, "b": 1, "c": 5, "d": 7})
    {'b': 0, 'c': 1, 'd': 2, 'a': 3}
    """
    return {name: 4 * place // len(sizes) for place, name in enumerate(_by_size(sizes))}


def sampled(sizes: Mapping[str, int], sample: Sequence[int]) -> tuple[str, ...]:
    """Entities that are measured: so many of every quarter, evenly spaced by size; 0 means all of a quarter.

    Examples
    --------
    >>> sampled({name: size for size, name in enumerate("abcdefgh")}, (1, 0, 1, 1))
    ('a', 'c', 'd', 'e', 'g')
    """
    place, order = quarters(sizes), _by_size(sizes)
    chosen: list[str] = []
    for quarter, number in enumerate(sample):
        here = [name for name in order if place[name] == quarter]
        spots = np.linspace(0, len(here) - 1, number).astype(int) if 0 < number < len(here) else range(len(here))
        chosen += [here[spot] for spot in spots]
    return tuple(chosen)


def item_features(table: pl.DataFrame) -> Features:
    """Public features of a catalog's table: one column per genre, or per kind and class.

    Examples
    --------
    >>> item_features(pl.DataFrame({"title": ["x", "y"], "genres": ["Drama|War", "War"]})).names
    ('Drama', 'War')
    """
    if "genres" in table.columns:
        words = [set(text.split("|")) for text in table["genres"].to_list()]
    else:
        words = [{f"{column}: {text}" for column, text in row.items()} for row in table.iter_rows(named=True)]
    names = tuple(sorted(set().union(*words)))
    matrix = np.array([[name in own for name in names] for own in words], dtype=np.int64)
    return Features(matrix=matrix, names=names)


def _by_size(sizes: Mapping[str, int]) -> list[str]:
    return sorted(sizes, key=lambda name: (sizes[name], name))


def _federation(setting: DataSetting, seed: int) -> Federation:
    options: dict[str, Any] = dict(setting.options)
    if setting.source == "hospitals":
        return hospitals.load(options["scale"], rng=seed, structure=options["structure"])
    if setting.source == "jester":
        return jester.load(n_entities=options["n_entities"], rng=seed)
    if setting.source == "eicu":
        return eicu.load(entity="region", labs="lab_hourly")
    federation = movielens.load(entity=options["entity"])
    if setting.feedback == "ratings":
        return federation
    return Federation({name: _watched(one) for name, one in federation.items()})


def _watched(ratings: Ratings) -> Ratings:
    """Every rating becomes a 1: watched."""
    return ratings.replace(with_data(ratings.matrix, np.ones_like(ratings.matrix.data))).as_feedback("counts")


def _split(federation: Federation, setting: DataSetting, seed: int) -> Split[Federation]:
    if setting.held == "five":
        return leave_n_out(federation, n=5, rng=seed)
    return recorded_holdout(federation, users=1.0, probability=0.1, rng=seed)


def _matrices(federation: Federation) -> dict[str, sparse.csr_array]:
    return {str(name): one.matrix.astype(np.float32) for name, one in federation.items()}


def _plan(federation: Federation, setting: DataSetting) -> Plan:
    catalog = federation.catalog
    has = setting.features and catalog.features is not None
    return Plan(
        catalog=catalog,
        feedback=setting.feedback,
        lower=setting.lower,
        bound=setting.bound,
        max_items=min(setting.max_items, len(catalog)),
        n_users=setting.n_users,
        n_entities=len(federation),
        rank=setting.rank,
        delta=setting.delta,
        features=item_features(catalog.features) if has and catalog.features is not None else None,
        simulation=True,
    )
