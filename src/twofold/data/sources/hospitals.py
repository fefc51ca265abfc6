"""A simulated federation of hospitals: who ordered which labs and drugs, how often, with the truth behind it.

The real thing, the eICU Collaborative Research Database, needs a credential; its open demo has 12 stays per hospital.
This simulator gives tables of the same size and shape, tuned to what is known of the real ones. Run

    python -m studies calibration --scale 1

to see how close it comes, fact by fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from twofold.data.federation import Federation
from twofold.data.identifiers import Identifiers
from twofold.data.ratings import Ratings
from twofold.data.sources._hospitals_config import HospitalsConfig, Structure, hospital_sizes
from twofold.data.sources._hospitals_patients import HospitalTruth, sample_patients
from twofold.data.sources._hospitals_profile import make_profile
from twofold.data.sources._hospitals_world import World, make_catalog, make_world
from twofold.errors import BadParameter

__all__ = [
    "HospitalTruth",
    "HospitalsConfig",
    "Simulation",
    "load",
    "simulate",
]

Seed = int | np.random.Generator | np.random.SeedSequence | None


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A simulated federation and the truth behind it.

    Attributes
    ----------
    config : HospitalsConfig
        What was asked for.
    federation : Federation
        Hospital name ("hospital-001", ...) to counts.
    world : World
        What all hospitals share: classes, conditions, health systems.
    truth : mapping
        Hospital name to its habits and its patients' conditions and lengths of stay.
    """

    config: HospitalsConfig
    federation: Federation
    world: World
    truth: Mapping[str, HospitalTruth]


def simulate(config: HospitalsConfig | None = None, *, rng: Seed = None, **parameters: Any) -> Simulation:
    """Simulate a federation of hospitals, with the truth behind it.

    The patients of a hospital depend on the seed, the hospital's number and the parameters of the world; not on how
    many other hospitals there are, nor, save for their number, on the hospital's own size.

    Paper
    -----
    Stands in for the eICU data of Section 5.3, which may not be passed on.

    Privacy
    -------
    No real person is in these tables, and nothing in them was learned from single records.

    Parameters
    ----------
    config : HospitalsConfig, optional
        Size, structure and heterogeneity; by default the paper's size.
    rng : int, Generator, SeedSequence or None
        Seed (SPEC 7); None draws a fresh one.
    **parameters
        Instead of `config`: the parameters of HospitalsConfig.

    Examples
    --------
    >>> simulation = simulate(n_patients=600, n_hospitals=4, rng=0)
    >>> simulation.federation.sizes.tolist()
    [56, 128, 40, 376]
    >>> simulation.truth["hospital-001"].conditions.shape
    (56, 20)
    """
    if config is not None and parameters:
        raise BadParameter("both a config and single parameters were given.", fix="give one or the other")
    config = HospitalsConfig(**parameters) if config is None else config
    base = int(np.random.default_rng(rng).integers(2**63))
    world, catalog = make_world(config, np.random.default_rng([base, 0])), make_catalog(config)
    sizes = np.random.default_rng([base, 1]).permutation(hospital_sizes(config)).tolist()
    entities, truth = {}, {}
    for number, size in enumerate(sizes, start=1):
        profile = make_profile(world, config, np.random.default_rng([base, 2, number]))
        counts, behind = sample_patients(world, profile, config, n_patients=size, seed=(base, 3, number))
        name = f"hospital-{number:03d}"
        entities[name] = Ratings(counts, _patient_ids(number, size), catalog, "counts")
        truth[name] = behind
    return Simulation(config=config, federation=Federation(entities), world=world, truth=truth)


def load(
    scale: float = 1.0, *, rng: Seed = 0, structure: Structure | float = "middle", **parameters: Any
) -> Federation:
    """Simulate a federation of `scale` times the paper's patients and hospitals; hospitals keep their average size.

    Parameters
    ----------
    scale : float, default 1.0
        1 gives 190,000 patients in 205 hospitals, 0.05 gives 9,500 in 10.
    rng : int, Generator, SeedSequence or None, default 0
        Seed (SPEC 7).
    structure : {"weak", "middle", "strong"} or float, default "middle"
        Share of ordering that follows a patient's conditions.
    **parameters
        Further parameters of HospitalsConfig.

    Examples
    --------
    >>> load(0.01)
    Federation(2 entities of 280 to 1,620 users, 1,900 users, ... of 457 items rated, ... entries, counts)
    """
    if not 0.001 <= scale <= 1000:
        raise BadParameter("scale is not usable.", found=f"scale={scale}", expected="a number from 0.001 to 1000")
    paper = HospitalsConfig()
    size = {"n_patients": round(scale * paper.n_patients), "n_hospitals": max(1, round(scale * paper.n_hospitals))}
    return simulate(rng=rng, structure=structure, **(size | parameters)).federation


def _patient_ids(hospital: int, size: int) -> Identifiers:
    numbers = pl.int_range(1, size + 1, eager=True).cast(pl.String).str.zfill(5)
    return Identifiers(f"{hospital:03d}-" + numbers)
