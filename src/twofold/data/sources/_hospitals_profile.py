"""One simulated hospital's habits: case mix, pace, lab menu and formulary, around those of its health system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from twofold.data.sources._hospitals_config import HospitalsConfig
from twofold.data.sources._hospitals_world import World

__all__ = ["Profile", "make_profile"]

Floats = npt.NDArray[np.float64]

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

    >>> from twofold.data.sources._hospitals_world import make_world
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
    """By how much a hospital uses each class more than the world does."""
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
