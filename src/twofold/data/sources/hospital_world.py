"""The parameters of the hospital simulator, what all its hospitals share, and the habits of each.

Items come in classes. A class of labs is a panel: its labs are drawn together, each with its own probability. A class
of drugs is a set of substitutes: an order goes to one of them. A condition sets how often each class is ordered.
A hospital's case mix, pace, lab menu and formulary vary around those of its health system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from twofold.checks import whole
from twofold.data.catalog import Catalog
from twofold.errors import BadParameter

__all__ = [
    "STRUCTURES",
    "HospitalsConfig",
    "Profile",
    "Structure",
    "World",
    "hospital_sizes",
    "make_catalog",
    "make_profile",
    "make_world",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Structure = Literal["weak", "middle", "strong"]

# Middle is the one tuned to the eICU facts; weak and strong bracket it, so that an experiment can show what its result
# owes to structure.
STRUCTURES: Final[dict[str, float]] = {"weak": 0.5, "middle": 0.8, "strong": 0.95}

_LEAST: Final = {"n_patients": 1, "n_hospitals": 1, "n_items": 20, "smallest": 1, "n_conditions": 2, "n_systems": 1}

# The constants below were tuned by hand until the table of docs/reference/hospitals.md came close.
# name, weight in the number of labs, draws in an average stay, evenness over conditions (gamma shape), decay of shares
LAB_CLASSES: Final = (
    ("chemistry", 13, 5.5, 8.0, 0.02),
    ("blood count", 13, 4.2, 8.0, 0.03),
    ("bedside", 3, 6.0, 0.9, 1.2),
    ("blood gas", 10, 2.0, 0.25, 0.06),
    ("liver", 9, 1.9, 2.0, 0.05),
    ("coagulation", 6, 1.4, 1.0, 0.25),
    ("cardiac", 8, 1.0, 0.25, 0.5),
    ("urine", 12, 0.25, 0.4, 0.2),
    ("lipids", 6, 0.2, 0.2, 0.2),
    ("thyroid", 8, 0.12, 0.3, 0.6),
    ("drug levels", 16, 0.2, 0.15, 0.4),
    ("anaemia", 10, 0.12, 0.2, 0.3),
    ("endocrine", 14, 0.06, 0.2, 0.4),
    ("immunology", 13, 0.03, 0.2, 0.4),
    ("serology", 12, 0.03, 0.2, 0.4),
    ("body fluids", 12, 0.03, 0.2, 0.2),
)
DRUG_CLASSES: Final = (
    "fluids", "opioids", "electrolytes", "analgesics", "acid suppression", "insulins", "antiemetics", "anticoagulants",
    "sedatives", "laxatives", "bronchodilators", "beta blockers", "penicillins", "diuretics", "antiplatelets",
    "statins", "vasopressors", "cephalosporins", "corticosteroids", "glycopeptides", "antihypertensives",
    "ace inhibitors", "antipsychotics", "vitamins", "antiarrhythmics", "anticonvulsants", "fluoroquinolones",
    "benzodiazepines", "calcium channel blockers", "antidepressants", "antihistamines", "carbapenems", "paralytics",
    "antifungals", "thyroid hormones", "antivirals", "contrast media", "macrolides", "immunosuppressants",
    "eye and skin",
)  # fmt: skip
LAB_SHARE: Final = 0.98  # probability of a panel's first lab to be part of a draw
DRUG_RATE: Final = 29.0  # orders in an average stay
DRUG_DECAY: Final = 1.2  # Zipf exponent over drug classes
DRUG_EVENNESS: Final = 0.3  # gamma shape over conditions
SUBSTITUTE_DECAY: Final = 2.4  # Zipf exponent over the drugs of a class

# All at heterogeneity 1; each is a standard deviation on the log scale unless it says otherwise.
CASE_MIX: Final = 6.0  # Dirichlet concentration of a hospital's conditions; smaller, more different
PACE: Final = 0.15  # activity in a stay
CLASS_HABIT: Final = 0.45  # a hospital's own use of a class
SYSTEM_DRUG_CLASS: Final = 1.6  # a health system's use of a class of drugs
SYSTEM_LAB_CLASS: Final = 0.35  # and of a class of labs
LAB_MENU: Final = 1.0  # odds that a lab is part of its panel, hospital
SYSTEM_LAB_MENU: Final = 1.5  # and health system
FORMULARY: Final = 0.7  # preference among substitutes, hospital
SYSTEM_FORMULARY: Final = 1.2  # and health system
NOT_STOCKED: Final = 0.2  # share of the drugs a hospital does not have
NO_PHARMACY: Final = 0.26  # share of hospitals whose drug orders are not recorded (eICU demo: 26%)


@dataclass(frozen=True, kw_only=True)
class HospitalsConfig:
    """Size, structure and heterogeneity of a simulated hospital federation.

    Parameters
    ----------
    n_patients, n_hospitals, n_items : int
        Size of the federation; the defaults are those of the paper's eICU experiment.
    smallest, largest : int
        No hospital has fewer or more patients.
    size_spread : float, default 1.3
        Standard deviation of log hospital size before `smallest` and `largest` apply; 0 makes all equal.
    structure : {"weak", "middle", "strong"} or float in [0, 1], default "middle"
        Share of ordering that follows a patient's conditions; at 0 only item popularity and length of stay are left.
    heterogeneity : float, default 1.0
        How much hospitals differ in case mix, habits, formulary and what they record; 0 makes them alike,
        1 is tuned to eICU.
    n_conditions : int, default 20
        Latent conditions.
    n_systems : int, default 5
        Health systems. The hospitals of one share most of their formulary, lab menu and habits.
    lab_share : float, default 158 / 457
        Share of the items that are labs; the rest are drugs.
    intensity : float, default 1.0
        Multiplies every rate of ordering; more intensity, more entries and larger counts.
    stay_spread : float, default 0.8
        Standard deviation of log length of stay; what makes counts heavy-tailed.

    Examples
    --------
    >>> HospitalsConfig(n_patients=2_000, n_hospitals=8).strength
    0.8
    """

    n_patients: int = 190_000
    n_hospitals: int = 205
    n_items: int = 457
    smallest: int = 40
    largest: int = 13_000
    size_spread: float = 1.3
    structure: Structure | float = "middle"
    heterogeneity: float = 1.0
    n_conditions: int = 20
    n_systems: int = 5
    lab_share: float = 158 / 457
    intensity: float = 1.0
    stay_spread: float = 0.8

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            whole(name, getattr(self, name), least=least, kind=Integral, error=BadParameter)
        whole("largest", self.largest, least=self.smallest, kind=Integral, error=BadParameter)
        _number("size_spread", self.size_spread, 0, 5)
        _number("structure", self.strength, 0, 1)
        _number("heterogeneity", self.heterogeneity, 0, 3)
        _number("lab_share", self.lab_share, 0.1, 0.9)
        _number("intensity", self.intensity, 0.01, 100)
        _number("stay_spread", self.stay_spread, 0, 3)
        self._check_room()

    @property
    def strength(self) -> float:
        """`structure` as a number."""
        if isinstance(self.structure, str):
            if self.structure not in STRUCTURES:
                raise BadParameter(
                    "unknown structure.",
                    expected="'weak', 'middle', 'strong' or a number from 0 to 1",
                    found="another text",
                )
            return STRUCTURES[self.structure]
        return self.structure

    @property
    def n_labs(self) -> int:
        """Items that are labs; they come first in the catalog."""
        return round(self.lab_share * self.n_items)

    def _check_room(self) -> None:
        low, high = self.n_hospitals * self.smallest, self.n_hospitals * self.largest
        if not low <= self.n_patients <= high:
            raise BadParameter(
                "the number of patients does not fit the hospitals.",
                found=f"n_patients={self.n_patients:,} for {self.n_hospitals:,} hospitals",
                expected=f"{low:,} to {high:,} with hospitals of {self.smallest:,} to {self.largest:,}",
                fix="change n_patients, n_hospitals, smallest or largest",
            )


def hospital_sizes(config: HospitalsConfig) -> npt.NDArray[np.int64]:
    """Patients of every hospital, largest first: log-normal quantiles, cut to the limits, with the exact sum.

    >>> hospital_sizes(HospitalsConfig(n_patients=1_000, n_hospitals=5)).tolist()
    [579, 216, 110, 55, 40]
    >>> sizes = hospital_sizes(HospitalsConfig())
    >>> len(sizes), int(sizes.sum()), int(sizes[0]), int(sizes[-1])
    (205, 190000, 13000, 40)
    """
    ranks = (np.arange(config.n_hospitals) + 0.5) / config.n_hospitals
    curve = np.exp(-config.size_spread * special.ndtri(ranks))
    low, high = config.smallest / curve.max(), config.largest / curve.min()
    for _ in range(200):  # bisection on a monotone function; 200 halvings exhaust a float
        middle = math.sqrt(low * high)
        if np.clip(middle * curve, config.smallest, config.largest).sum() < config.n_patients:
            low = middle
        else:
            high = middle
    return _round_to_sum(np.clip(high * curve, config.smallest, config.largest), config)


def _round_to_sum(sizes: npt.NDArray[np.float64], config: HospitalsConfig) -> npt.NDArray[np.int64]:
    """Round down, then give the missing patients to the largest remainders that still have room."""
    whole = np.floor(sizes + 1e-9).astype(np.int64)
    order = np.argsort(whole - sizes, kind="stable")
    while (missing := config.n_patients - int(whole.sum())) > 0:
        room = order[whole[order] < config.largest][:missing]
        whole[room] += 1
    return np.sort(whole)[::-1]


def _number(name: str, value: Any, low: float, high: float) -> None:
    fits = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not fits or not low <= value <= high:  # NaN fails the comparison
        raise BadParameter(
            f"{name} is not valid.", found=f"{name}={value}", expected=f"a number from {low:g} to {high:g}"
        )


@dataclass(frozen=True, kw_only=True)
class World:
    """The public and latent facts all hospitals share.

    Attributes
    ----------
    n_labs, n_lab_classes : int
        The first items are labs; the first classes are classes of labs.
    item_class : ndarray of int, shape (n_items,)
        Class of each item.
    item_share : ndarray, shape (n_items,)
        Labs: probability to be part of a draw of the panel. Drugs: share of the orders of the class.
    class_rates : ndarray, shape (n_classes,)
        Orders of each class in an average stay, over all conditions.
    condition_rates : ndarray, shape (n_conditions, n_classes)
        The same, by condition.
    condition_shares : ndarray, shape (n_conditions,)
        How common each condition is.
    system_items : ndarray, shape (n_systems, n_items)
        How much each health system favours each item, in standard deviations.
    system_classes : ndarray, shape (n_systems, n_classes)
        How much each health system favours each class, in standard deviations.
    """

    n_labs: int
    n_lab_classes: int
    item_class: Ints
    item_share: Floats
    class_rates: Floats
    condition_rates: Floats
    condition_shares: Floats
    system_items: Floats
    system_classes: Floats


def make_world(config: HospitalsConfig, rng: np.random.Generator) -> World:
    """Draw what all hospitals share; depends on items, conditions, systems, structure and intensity only.

    >>> world = make_world(HospitalsConfig(), np.random.default_rng(0))
    >>> world.condition_rates.shape, world.n_labs
    ((20, 56), 158)
    """
    labs, drugs = _class_sizes(config)
    used = LAB_CLASSES[: len(labs)]
    rates = config.intensity * np.array([row[2] for row in used] + _drug_rates(len(drugs)).tolist())
    evenness = np.array([row[3] for row in used] + [DRUG_EVENNESS] * len(drugs))
    commonness = rng.dirichlet(np.full(config.n_conditions, 4.0))
    return World(
        n_labs=config.n_labs,
        n_lab_classes=len(labs),
        item_class=np.repeat(np.arange(rates.size), [*labs, *drugs]),
        item_share=np.concatenate([*map(_lab_shares, range(len(labs)), labs), *map(_drug_shares, drugs)]),
        class_rates=rates,
        condition_rates=rates * _tilt(evenness, commonness, config.strength, rng),
        condition_shares=commonness,
        system_items=_contrasts(config.n_systems, config.n_items, rng),
        system_classes=_contrasts(config.n_systems, rates.size, rng),
    )


def make_catalog(config: HospitalsConfig) -> Catalog:
    """The public item list, with kind and class of every item; depends on n_items and lab_share only.

    >>> catalog = make_catalog(HospitalsConfig())
    >>> catalog.items[6], catalog.features.row(6, named=True)
    ('lab-007', {'kind': 'lab', 'class': 'chemistry'})
    """
    labs, drugs = _class_sizes(config)
    n_drugs = config.n_items - config.n_labs
    names = [row[0] for row in LAB_CLASSES[: len(labs)]] + list(DRUG_CLASSES[: len(drugs)])
    ids = [f"lab-{at:03d}" for at in range(1, config.n_labs + 1)] + [f"drug-{at:03d}" for at in range(1, n_drugs + 1)]
    kinds = ["lab"] * config.n_labs + ["drug"] * n_drugs
    classes = np.repeat(np.array(names), [*labs, *drugs]).tolist()
    return Catalog(ids, pl.DataFrame({"kind": kinds, "class": classes}))


def _class_sizes(config: HospitalsConfig) -> tuple[list[int], list[int]]:
    """Labs in each class of labs, drugs in each class of drugs; fewer classes where items are few."""
    n_drugs = config.n_items - config.n_labs
    used = LAB_CLASSES[: max(1, min(len(LAB_CLASSES), config.n_labs // 8))]
    drug_weights = np.linspace(1.3, 0.7, max(1, min(len(DRUG_CLASSES), n_drugs // 4)))
    return _spread(config.n_labs, np.array([row[1] for row in used], dtype=np.float64)), _spread(n_drugs, drug_weights)


def _spread(total: int, weights: Floats) -> list[int]:
    """Cut `total` items into classes: one each, the rest by weight."""
    cuts = np.round(np.cumsum(weights) / weights.sum() * (total - weights.size)).astype(int)
    return [int(size) + 1 for size in np.diff(np.concatenate([[0], cuts]))]


def _tilt(evenness: Floats, commonness: Floats, strength: float, rng: np.random.Generator) -> Floats:
    """How much more each condition orders of each class than the average patient."""
    drawn = rng.gamma(evenness, size=(commonness.size, evenness.size))
    return (1 - strength) + strength * drawn / (commonness @ drawn)


def _contrasts(n_systems: int, size: int, rng: np.random.Generator) -> Floats:
    """Differences between systems that average to zero, so that few systems do not shift the whole federation."""
    drawn = rng.standard_normal((n_systems, size))
    return np.asarray((drawn - drawn.mean(axis=0)) * np.sqrt(n_systems / max(n_systems - 1, 1)))


def _drug_rates(n_classes: int) -> Floats:
    curve = (np.arange(n_classes) + 3.0) ** -DRUG_DECAY
    return np.asarray(DRUG_RATE * curve / curve.sum())


def _lab_shares(which: int, size: int) -> Floats:
    decay = LAB_CLASSES[which][4] * 14 / max(size, 14)  # a long panel decays more slowly
    return np.asarray(LAB_SHARE * np.exp(-decay * np.arange(size)))


def _drug_shares(size: int) -> Floats:
    curve = (np.arange(size) + 1.0) ** -SUBSTITUTE_DECAY
    return np.asarray(curve / curve.sum())


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A hospital's habits.

    Attributes
    ----------
    system : int
        The health system the hospital belongs to.
    condition_shares : ndarray, shape (n_conditions,)
        Case mix.
    class_rates : ndarray, shape (n_classes,)
        Orders of each class in an average stay, over all conditions, in this hospital.
    condition_rates : ndarray, shape (n_conditions, n_classes)
        The same, by condition.
    item_share : ndarray, shape (n_items,)
        Labs: probability to be part of a draw. Drugs: share of the orders of the class, 0 where not stocked.
    cohesion : float
        Share of lab results that come from panels; the rest come one by one.
    """

    system: int
    condition_shares: Floats
    class_rates: Floats
    condition_rates: Floats
    item_share: Floats
    cohesion: float


def make_profile(world: World, config: HospitalsConfig, rng: np.random.Generator) -> Profile:
    """Draw a hospital's habits around its health system's.

    >>> config = HospitalsConfig(heterogeneity=0)
    >>> world = make_world(config, np.random.default_rng(0))
    >>> profile = make_profile(world, config, np.random.default_rng(1))
    >>> np.allclose(profile.item_share, world.item_share)
    True
    """
    spread = config.heterogeneity
    system = int(rng.integers(config.n_systems))
    habits = _class_habits(world, system, spread, rng)
    return Profile(
        system=system,
        condition_shares=_case_mix(world.condition_shares, spread, rng),
        class_rates=world.class_rates * habits,
        condition_rates=world.condition_rates * habits,
        item_share=np.concatenate([_lab_menu(world, system, spread, rng), _formulary(world, system, spread, rng)]),
        # Squared, so that already the middle structure has the tight panels that the recorded errors of rank 50 need.
        cohesion=1 - (1 - config.strength) ** 2,
    )


def _class_habits(world: World, system: int, spread: float, rng: np.random.Generator) -> Floats:
    """Use of each class by a hospital, relative to all hospitals."""
    size = world.class_rates.size
    drugs = np.arange(size) >= world.n_lab_classes
    shared = np.where(drugs, SYSTEM_DRUG_CLASS, SYSTEM_LAB_CLASS) * world.system_classes[system]
    own = CLASS_HABIT * rng.standard_normal(size) + PACE * rng.standard_normal()
    unrecorded = rng.random() < NO_PHARMACY * min(spread, 1.0)
    return np.where(drugs & unrecorded, 0.0, np.exp(spread * (shared + own)))


def _case_mix(shares: Floats, spread: float, rng: np.random.Generator) -> Floats:
    if spread == 0:
        return shares
    return np.asarray(rng.dirichlet(np.maximum(shares * CASE_MIX / spread**2, 0.01)))


def _lab_menu(world: World, system: int, spread: float, rng: np.random.Generator) -> Floats:
    share = world.item_share[: world.n_labs]
    shift = LAB_MENU * rng.standard_normal(share.size) + SYSTEM_LAB_MENU * world.system_items[system, : share.size]
    odds = share / (1 - share) * np.exp(spread * shift)
    return np.asarray(odds / (1 + odds))


def _formulary(world: World, system: int, spread: float, rng: np.random.Generator) -> Floats:
    """Shares of the substitutes of each class; every class keeps at least the drug the hospital likes best."""
    share, of_class = world.item_share[world.n_labs :], world.item_class[world.n_labs :]
    shift = FORMULARY * rng.standard_normal(share.size) + SYSTEM_FORMULARY * world.system_items[system, world.n_labs :]
    liked = share * np.exp(spread * shift)
    stocked = rng.random(share.size) >= NOT_STOCKED * min(spread, 1.0)
    starts = np.flatnonzero(np.diff(of_class, prepend=of_class[0] - 1))
    sizes = np.diff(np.append(starts, share.size))
    best = np.repeat(np.maximum.reduceat(liked, starts), sizes)
    kept = np.where(stocked | (liked == best), liked, 0.0)
    return np.asarray(kept / np.repeat(np.add.reduceat(kept, starts), sizes))
