"""What all simulated hospitals share: items, their classes, conditions, and the health systems they belong to.

Items come in classes. A class of labs is a panel: its labs are drawn together, each with its own probability. A class
of drugs is a set of substitutes: an order goes to one of them. A condition sets how often each class is ordered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from twofold.data.catalog import Catalog
from twofold.data.sources._hospitals_config import HospitalsConfig

__all__ = ["World", "make_catalog", "make_world"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
    """Differences between systems that average to nothing, so that few systems do not shift the whole federation."""
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
