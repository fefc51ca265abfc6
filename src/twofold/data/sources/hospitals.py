"""A simulated federation of hospitals: who ordered which labs and drugs, how often, with the truth behind it.

The real thing, the eICU Collaborative Research Database, needs a credential; its open demo has 12 stays per hospital.
This simulator gives tables of the same size and shape, tuned to what is known of the real ones. Run

    python -m studies calibration --scale 1

to see how close it comes, fact by fact.

A hospital's patients depend on the seed and the hospital's number only. They come in blocks of fixed size, each with
its own stream, so a hospital that grows keeps the patients it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from twofold.data.catalog import Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.sources.hospital_world import (
    HospitalsConfig,
    Profile,
    Structure,
    World,
    hospital_sizes,
    make_catalog,
    make_profile,
    make_world,
)
from twofold.errors import BadParameter

__all__ = ["HospitalTruth", "HospitalsConfig", "Simulation", "load", "sample_patients", "simulate"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Seed = int | np.random.Generator | np.random.SeedSequence | None

BLOCK: Final = 256
ADMISSION: Final = 2  # the first classes of labs (chemistry, blood count) are drawn once from everybody on admission
BURSTS: Final = 3.0  # gamma shape of a patient's own use of a class; small means bursty
LOYALTY: Final = 0.75  # share of a patient's orders of a class that repeat the first drug
ENOUGH: Final = 4.0  # orders of one class of drugs level off here; without it drug counts are far larger than eICU's


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
        raise BadParameter("scale is not valid.", found=f"scale={scale}", expected="a number from 0.001 to 1000")
    paper = HospitalsConfig()
    size = {"n_patients": round(scale * paper.n_patients), "n_hospitals": max(1, round(scale * paper.n_hospitals))}
    return simulate(rng=rng, structure=structure, **(size | parameters)).federation


def _patient_ids(hospital: int, size: int) -> Identifiers:
    numbers = pl.int_range(1, size + 1, eager=True).cast(pl.String).str.zfill(5)
    return Identifiers(f"{hospital:03d}-" + numbers)


@dataclass(frozen=True, kw_only=True)
class HospitalTruth:
    """The truth behind one hospital's counts.

    Attributes
    ----------
    world : World
        What all hospitals share.
    profile : Profile
        The hospital's habits.
    conditions : ndarray of float32, shape (n_patients, n_conditions)
        Weight of each condition in each patient; rows add up to 1.
    stay : ndarray of float32, shape (n_patients,)
        Length of stay, 1 on average.
    """

    world: World
    profile: Profile
    conditions: npt.NDArray[np.float32]
    stay: npt.NDArray[np.float32]

    def expected(self) -> Floats:
        """Expected count of every patient and item given all the above, dense."""
        world, profile, stay = self.world, self.profile, self.stay[:, None].astype(np.float64)
        rates = _rates(world, profile, self.conditions.astype(np.float64), stay)[:, world.item_class]
        first = (world.item_class < ADMISSION).astype(np.float64)
        alone = profile.class_rates[world.item_class] * stay + first
        labs = profile.cohesion * (rates + first) + (1 - profile.cohesion) * alone
        is_lab = np.arange(world.item_class.size) < world.n_labs
        return np.asarray(profile.item_share * np.where(is_lab, labs, rates))


def sample_patients(
    world: World, profile: Profile, config: HospitalsConfig, *, n_patients: int, seed: tuple[int, ...]
) -> tuple[sparse.csr_array, HospitalTruth]:
    """Draw a hospital's patients, block by block; `seed` names the hospital.

    >>> config = HospitalsConfig()
    >>> world = make_world(config, np.random.default_rng(0))
    >>> profile = make_profile(world, config, np.random.default_rng(1))
    >>> counts, truth = sample_patients(world, profile, config, n_patients=300, seed=(0, 1))
    >>> counts.shape, truth.expected().shape
    ((300, 457), (300, 457))
    """
    streams = [np.random.default_rng([*seed, block]) for block in range(-(-n_patients // BLOCK))]
    blocks = [_block(world, profile, config.stay_spread, rng) for rng in streams]
    counts = sparse.csr_array(sparse.vstack([block[0] for block in blocks], format="csr"))[:n_patients]
    counts.sum_duplicates()
    conditions = np.concatenate([block[1] for block in blocks])[:n_patients]
    stay = np.concatenate([block[2] for block in blocks])[:n_patients]
    return counts, HospitalTruth(world=world, profile=profile, conditions=conditions, stay=stay)


def _block(
    world: World, profile: Profile, spread: float, rng: np.random.Generator
) -> tuple[sparse.csr_array, npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Draw one whole block of patients, so that a patient does not depend on how many are kept."""
    conditions = _conditions(profile.condition_shares, rng)
    stay = np.exp(spread * rng.standard_normal((BLOCK, 1)) - spread**2 / 2)
    bursts = rng.gamma(BURSTS, 1 / BURSTS, size=(BLOCK, world.class_rates.size))
    orders = rng.poisson(_rates(world, profile, conditions, stay) * bursts)
    labs = _labs(world, profile, orders[:, : world.n_lab_classes], stay, rng)
    drugs = _drugs(world, profile, orders[:, world.n_lab_classes :], rng)
    counts = sparse.csr_array(np.hstack([labs, drugs]).astype(np.float32))
    return counts, conditions.astype(np.float32), stay[:, 0].astype(np.float32)


def _conditions(shares: Floats, rng: np.random.Generator) -> Floats:
    """A main condition with half the weight or more, and a second one."""
    main, second = np.searchsorted(np.cumsum(shares)[:-1], rng.random((2, BLOCK)), side="right")
    weight = rng.uniform(0.5, 1.0, BLOCK)
    conditions = np.zeros((BLOCK, shares.size))
    conditions[np.arange(BLOCK), main] = weight
    conditions[np.arange(BLOCK), second] += 1 - weight
    return conditions


def _rates(world: World, profile: Profile, conditions: Floats, stay: Floats) -> Floats:
    """Expected orders of every class for every patient; those of drugs level off."""
    rates = np.asarray(stay * (conditions @ profile.condition_rates))
    drugs = rates[:, world.n_lab_classes :]
    rates[:, world.n_lab_classes :] = -ENOUGH * np.expm1(-drugs / ENOUGH)
    return rates


def _labs(world: World, profile: Profile, orders: Ints, stay: Floats, rng: np.random.Generator) -> Ints:
    """Results of panels: each draw brings each of its labs with the lab's own probability; some labs come alone."""
    of_class, share = world.item_class[: world.n_labs], profile.item_share[: world.n_labs]
    first = (of_class < ADMISSION).astype(np.int64)
    together = rng.binomial(orders[:, of_class] + first, profile.cohesion * share)
    alone = rng.poisson((1 - profile.cohesion) * share * (profile.class_rates[of_class] * stay + first))
    return np.asarray(together + alone)


def _drugs(world: World, profile: Profile, orders: Ints, rng: np.random.Generator) -> Ints:
    """Each order of a class goes to one of its drugs: mostly the one the patient already has."""
    n_drugs = world.item_class.size - world.n_labs
    patient, of_class = np.nonzero(orders)
    repeats = orders[patient, of_class]
    steps = _steps(world, profile)
    first = np.searchsorted(steps, of_class + rng.random(of_class.size), side="right")
    other = np.searchsorted(steps, np.repeat(of_class, repeats) + rng.random(repeats.sum()), side="right")
    drug = np.where(rng.random(other.size) < LOYALTY, np.repeat(first, repeats), other)
    flat = np.repeat(patient, repeats) * n_drugs + drug
    return np.bincount(flat, minlength=BLOCK * n_drugs).reshape(BLOCK, n_drugs)


def _steps(world: World, profile: Profile) -> Floats:
    """Cumulative shares of the drugs, class c on the interval from c to c + 1."""
    of_class = world.item_class[world.n_labs :] - world.n_lab_classes
    steps = np.cumsum(profile.item_share[world.n_labs :])
    last = np.flatnonzero(np.diff(of_class, append=of_class[-1] + 1))
    steps[last] = of_class[last] + 1.0  # rounding must not leak an order into the next class
    return np.asarray(np.minimum(steps, of_class + 1.0))
