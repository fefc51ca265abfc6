"""Data sets of the experiments by name, split and ready to fit; the last few are kept."""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from studies.data import synthetic
from studies.data.recorded_movielens import recorded_movielens
from twofold.data.federation import Federation
from twofold.data.sources import eicu, hospitals, movielens
from twofold.data.sources.published import EICU, find_folder
from twofold.data.split import Split, holdout
from twofold.errors import BadParameter

__all__ = ["SOURCES", "Case", "load_case"]

Rates = Callable[[slice], NDArray[np.float64]]
_KEPT: Final = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One data set as an experiment uses it.

    Parameters
    ----------
    train : Federation
        What is fitted.
    test : Federation, optional
        What is held out, of the same users; None where whole tables are compared, as in the paper's synthetic runs.
    rates : function, optional
        The truth behind users of the pooled table, where it is known.
    lower, bound : float
        Predictions are cut to these.
    """

    train: Federation
    test: Federation | None = None
    rates: Rates | None = field(default=None, repr=False)
    lower: float = -np.inf
    bound: float = np.inf


def load_case(data: Mapping[str, Any], seed: int) -> Case:
    """Load, draw or simulate a data set; MissingDataset where it is not there.

    Parameters
    ----------
    data : mapping
        A name of `SOURCES` under "source", and options of that source.
    seed : int
        Of what is drawn: tables, simulations and splits.

    Examples
    --------
    >>> case = load_case({"source": "hospitals", "scale": 0.001}, 0)
    >>> case.test.n_entries > 0, case.rates is None
    (True, True)
    """
    options = dict(data)
    source = options.pop("source", None)
    if source not in SOURCES:
        raise BadParameter("this data set is not known.", found=f"{source!r:.40}", expected=", ".join(SOURCES))
    key = json.dumps([source, options, 0 if source == "movielens-recorded" else seed], sort_keys=True)
    with _lock:
        if key not in _cases:
            _cases[key] = SOURCES[source](seed, **options)
            while len(_cases) > _KEPT:
                _cases.popitem(last=False)
        _cases.move_to_end(key)
        return _cases[key]


def _movielens_recorded(_seed: int) -> Case:
    """The very entries that the recorded runs held out; the seed changes nothing of it."""
    return _of(recorded_movielens())


def _movielens(seed: int, *, users: float = 0.2, entries: int = 5) -> Case:
    """Stars from 1 to 5, split as the paper says."""
    return _of(holdout(movielens.load(), users=users, entries=entries, rng=seed), lower=1.0, bound=5.0)


def _hospitals(seed: int, **options: Any) -> Case:
    return _of(holdout(hospitals.load(rng=seed, **options), users=0.2, entries=5, rng=seed))


def _eicu_demo(seed: int) -> Case:
    """The open demo; its hourly table of labs is what it has of all patients."""
    federation = eicu.load(find_folder(EICU), row="stay", labs="lab_hourly")
    return _of(holdout(federation, users=0.2, entries=5, rng=seed))


def _eicu_full(seed: int) -> Case:
    """The credentialed tables, where somebody put them; the columns are those of the open demo."""
    named = replace(EICU, title="eICU Collaborative Research Database 2.0, the full release", folder="eicu-crd-2.0")
    named = replace(named, page="https://physionet.org/content/eicu-crd/2.0/", licence=_FULL_LICENCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eicu.StandInWarning)
        federation = eicu.load(find_folder(named), row="stay")
    return _of(holdout(federation, users=0.2, entries=5, rng=seed))


def _synthetic(seed: int, *, users_per_entity: int = 0, **options: Any) -> Case:
    """The paper's Poisson counts; with a size per entity, more entities have more users."""
    if users_per_entity:
        options["n_users"] = users_per_entity * options["n_entities"]
    made = synthetic.generate(synthetic.PoissonConfig(**options), rng=seed)
    return Case(train=made.federation, rates=made.rates)


def _of(split: Split[Federation], *, lower: float = -np.inf, bound: float = np.inf) -> Case:
    return Case(train=split.train, test=split.test, lower=lower, bound=bound)


_FULL_LICENCE: Final = "PhysioNet credentialed licence: training, a signed agreement, no sharing"
SOURCES: Final[dict[str, Callable[..., Case]]] = {
    "synthetic": _synthetic,
    "hospitals": _hospitals,
    "movielens-recorded": _movielens_recorded,
    "movielens": _movielens,
    "eicu-demo": _eicu_demo,
    "eicu-full": _eicu_full,
}
_cases: OrderedDict[str, Case] = OrderedDict()
_lock = Lock()
