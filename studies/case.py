"""A case: one split of one federation, as every study uses it. Data sets go by name; the last few are kept."""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.data import assistments, complete_journey, jester, synthetic
from studies.data.recorded_movielens import recorded_movielens
from twofold.csr import keep_entries
from twofold.data.bounds import Bounds
from twofold.data.catalog import Catalog
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.sources import eicu, hospitals, movielens
from twofold.data.sources.published import EICU, find_folder
from twofold.data.split import Split, holdout, leave_n_out, recorded_holdout
from twofold.errors import BadParameter

__all__ = ["HELD", "SOURCES", "Case", "load_case"]

Rates = Callable[[slice], NDArray[np.float64]]
Matrices = Mapping[str, sparse.csr_array]
_KEPT: Final = 2
_TWO: Final = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One data set as a study uses it.

    Parameters
    ----------
    train : Federation
        What is fitted.
    test : Federation, optional
        What is held out, of the same users; None where whole tables are compared, as in the paper's synthetic runs.
    seed : int
        Of the split, and of what was drawn or simulated.
    rates : function, optional
        The truth behind users of the pooled table, where it is known.
    lower, bound : float
        Predictions are cut to these.
    """

    train: Federation
    test: Federation | None = None
    seed: int = 0
    rates: Rates | None = field(default=None, repr=False)
    lower: float = -np.inf
    bound: float = np.inf

    @cached_property
    def rows(self) -> Matrices:
        """Training entries, entity by entity, as float32."""
        return _matrices(self.train)

    @cached_property
    def held(self) -> Matrices:
        """Held-out entries, entity by entity, as float32."""
        if self.test is None:
            raise BadParameter("this data set holds nothing out.")
        return _matrices(self.test)

    @property
    def sizes(self) -> dict[str, int]:
        """Users of every entity."""
        return {str(label): ratings.n_users for label, ratings in self.train.items()}


def load_case(data: Mapping[str, Any], seed: int) -> Case:
    """Load, draw or simulate a data set and split it; raises MissingDataset if it is missing.

    Parameters
    ----------
    data : mapping
        A name of `SOURCES` under "source", and options of that source. Where values are to be cut before the split,
        the limits under "lower" and "bound"; a name of `HELD` under "held" where other entries than the paper's are to
        be held out.
    seed : int
        Of what is drawn: tables, simulations and splits.

    Examples
    --------
    >>> case = load_case({"source": "hospitals", "scale": 0.001}, 0)
    >>> case.test.n_entries > 0, case.rates is None
    (True, True)
    >>> case = load_case({"source": "hospitals", "scale": 0.001, "held": "five", "lower": 0, "bound": 5}, 0)
    >>> case.held["hospital-001"].sum(axis=1).max() <= 25
    np.True_
    """
    options = dict(data)
    source = options.pop("source", None)
    if source not in SOURCES:
        raise BadParameter("this data set is unknown.", found=f"{source!r:.40}", expected=", ".join(SOURCES))
    key = json.dumps([source, options, 0 if source == "movielens-recorded" else seed], sort_keys=True)
    with _lock:
        if key not in _cases:
            _cases[key] = replace(SOURCES[source](seed, **options), seed=seed)
            while len(_cases) > _KEPT:
                _cases.popitem(last=False)
        _cases.move_to_end(key)
        return _cases[key]


def _movielens_recorded(_seed: int) -> Case:
    """Exactly the entries that the recorded runs held out, whatever the seed."""
    split = recorded_movielens()
    return Case(train=split.train, test=split.test)


def _movielens(
    seed: int,
    *,
    entity: movielens.Entity | Literal["one"] = "zip1",
    watched: bool = False,
    most: int | None = None,
    **split: Any,
) -> Case:
    """Stars from 1 to 5, or with `watched` a 1 for every rating; split as the paper says by default.

    With ``entity="one"`` all users are one entity: the usual setting of a library. `most` keeps the films that most
    people rated, in place of a public list of well-known ones: a study's choice, not a release.
    """
    federation = movielens.load(entity="zip1" if entity == "one" else entity)
    if entity == "one":
        federation = Federation({"everybody": federation.pooled()})
    if most is not None:
        federation = _most_rated(federation, most)
    if watched:
        federation = Federation({label: _watched(one) for label, one in federation.items()})
    return _split(federation, seed, **({"lower": 1.0, "bound": 5.0} | split))


def _hospitals(seed: int, *, held: str = "fifth", lower: Any = None, bound: Any = None, **options: Any) -> Case:
    return _split(hospitals.load(rng=seed, **options), seed, held=held, lower=lower, bound=bound)


def _jester(seed: int, *, n_entities: int = 50, **split: Any) -> Case:
    return _split(jester.load(n_entities=n_entities, rng=seed), seed, **split)


def _assistments(seed: int, *, held: str = "two", lower: Any = None, bound: Any = None, **options: Any) -> Case:
    return _split(assistments.load(**options), seed, held=held, lower=lower, bound=bound)


def _complete_journey(seed: int, *, held: str = "two", lower: Any = None, bound: Any = None, **options: Any) -> Case:
    return _split(complete_journey.load(**options), seed, held=held, lower=lower, bound=bound)


def _eicu_demo(seed: int, *, row: eicu.Row = "stay", entity: eicu.Entity = "hospital", **split: Any) -> Case:
    """The open demo; only its hourly table of labs covers all patients."""
    return _split(eicu.load(find_folder(EICU), row=row, entity=entity, labs="lab_hourly"), seed, **split)


def _eicu_full(seed: int) -> Case:
    """The credentialed tables, if present; the columns are those of the open demo."""
    named = replace(EICU, title="eICU Collaborative Research Database 2.0, the full release", folder="eicu-crd-2.0")
    named = replace(named, page="https://physionet.org/content/eicu-crd/2.0/", licence=_FULL_LICENCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eicu.StandInWarning)
        federation = eicu.load(find_folder(named), row="stay")
    return _split(federation, seed)


def _synthetic(seed: int, *, users_per_entity: int = 0, **options: Any) -> Case:
    """The paper's Poisson counts; with a size per entity, more entities have more users."""
    if users_per_entity:
        options["n_users"] = users_per_entity * options["n_entities"]
    made = synthetic.generate(synthetic.PoissonConfig(**options), rng=seed)
    return Case(train=made.federation, rates=made.rates)


def _split(
    federation: Federation,
    seed: int,
    *,
    held: str = "fifth",
    lower: float | None = None,
    bound: float | None = None,
    **options: Any,
) -> Case:
    """Cut values to their limits if there are any, then hold entries out."""
    if lower is None or bound is None:
        split = HELD[held](federation, seed, **options)
        return Case(train=split.train, test=split.test)
    limits = Bounds(bound=bound, lower=lower)
    cut = Federation({label: limits.apply(one)[0] for label, one in federation.items()})
    split = HELD[held](cut, seed, **options)
    return Case(train=split.train, test=split.test, lower=lower, bound=bound)


def _most_rated(federation: Federation, most: int) -> Federation:
    """Only the items with the most entries; of equals, the first of the catalog."""
    entries = np.bincount(
        np.concatenate([one.matrix.indices for one in federation.values()]), minlength=len(federation.catalog)
    )
    kept = np.sort(np.argsort(-entries, kind="stable")[:most])
    table = federation.catalog.features
    catalog = Catalog(federation.catalog.items.take(kept), None if table is None else table[kept])
    parts = {}
    for label, one in federation.items():
        matrix = sparse.csr_array(one.matrix[:, kept])
        matrix.sum_duplicates()
        parts[label] = Ratings(matrix, one.user_ids, catalog, one.feedback)
    return Federation(parts)


def _watched(ratings: Ratings) -> Ratings:
    """Every rating becomes a 1: watched."""
    ones: Any = (np.ones_like(ratings.matrix.data), ratings.matrix.indices, ratings.matrix.indptr)
    return ratings.replace(sparse.csr_array(ones, shape=ratings.matrix.shape)).as_feedback("counts")


def _matrices(federation: Federation) -> dict[str, sparse.csr_array]:
    return {str(label): ratings.matrix.astype(np.float32) for label, ratings in federation.items()}


def _fifth(federation: Federation, seed: int, *, users: float = 0.2, entries: int = 5) -> Split[Federation]:
    return holdout(federation, users=users, entries=entries, rng=seed)


def _five(federation: Federation, seed: int) -> Split[Federation]:
    return leave_n_out(federation, n=5, rng=seed)


def _two(federation: Federation, seed: int) -> Split[Federation]:
    """Two entries of everyone who has three; a person with fewer keeps all, so that nobody is judged by one entry."""
    drawn = leave_n_out(federation, n=2, rng=seed)
    parts = {}
    for name, ratings in federation.items():
        enough = ratings.entries_per_user > _TWO
        taken = drawn.test[name].matrix
        held = keep_entries(taken, np.repeat(enough, np.diff(taken.indptr)))
        free = ~np.isin(_places(ratings.matrix), _places(held))
        parts[name] = (ratings.replace(keep_entries(ratings.matrix, free)), ratings.replace(held))
    train, test = (Federation({name: part[side] for name, part in parts.items()}) for side in range(2))
    return Split(train=train, test=test)


def _places(matrix: sparse.csr_array) -> NDArray[np.int64]:
    """One number per entry: its row and column."""
    owners = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    return owners * matrix.shape[1] + matrix.indices


def _tenth(federation: Federation, seed: int) -> Split[Federation]:
    return recorded_holdout(federation, users=1.0, probability=0.1, rng=seed)


#: What is held out: five entries of a fifth of the users, as the paper says; five or two of every user; a tenth of
#: everything.
HELD: Final[dict[str, Callable[..., Split[Federation]]]] = {
    "fifth": _fifth,
    "five": _five,
    "two": _two,
    "tenth": _tenth,
}
_FULL_LICENCE: Final = "PhysioNet credentialed licence: training, a signed agreement, no sharing"
SOURCES: Final[dict[str, Callable[..., Case]]] = {
    "synthetic": _synthetic,
    "hospitals": _hospitals,
    "movielens-recorded": _movielens_recorded,
    "movielens": _movielens,
    "jester": _jester,
    "assistments": _assistments,
    "complete-journey": _complete_journey,
    "eicu-demo": _eicu_demo,
    "eicu-full": _eicu_full,
}
_cases: OrderedDict[str, Case] = OrderedDict()
_lock = Lock()
