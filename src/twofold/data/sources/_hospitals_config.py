"""What can be asked of the hospital simulator, and how many patients each hospital gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from twofold.errors import BadParameter

__all__ = ["STRUCTURES", "HospitalsConfig", "Structure", "hospital_sizes"]

Structure = Literal["weak", "middle", "strong"]

# Middle is the one tuned to the eICU facts; weak and strong bracket it, so that an experiment can show what its result
# owes to structure.
STRUCTURES: Final[dict[str, float]] = {"weak": 0.5, "middle": 0.8, "strong": 0.95}

_LEAST: Final = {"n_patients": 1, "n_hospitals": 1, "n_items": 20, "smallest": 1, "n_conditions": 2, "n_systems": 1}


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
            _whole(name, getattr(self, name), least)
        _whole("largest", self.largest, self.smallest)
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
                "the patients do not fit into the hospitals.",
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


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise BadParameter(
            f"{name} is not usable.", found=f"{name}={value}", expected=f"a whole number, at least {least:,}"
        )


def _number(name: str, value: Any, low: float, high: float) -> None:
    fits = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not fits or not low <= value <= high:  # NaN fails the comparison
        raise BadParameter(
            f"{name} is not usable.", found=f"{name}={value}", expected=f"a number from {low:g} to {high:g}"
        )
