"""Rows of a few random users. NOT private: for comparison only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.not_private.exact import not_private_spec, one_each, quiet_message
from twofold.privacy.events import Released
from twofold.privacy.rng import Source, source
from twofold.release.cells import spec_usefulness
from twofold.release.combine import stacked
from twofold.release.content import Prototypes, WeightedRows
from twofold.release.contract import ReleaseParameters, ReleaseSpec
from twofold.release.records import RecordPlan, check_rows
from twofold.release.usefulness import Usefulness

__all__ = ["RandomUsers"]


@dataclass(frozen=True, kw_only=True)
class RandomUsers:
    """As many random users as prototypes were asked for; all of them when there are fewer.

    Privacy
    -------
    None. These are people's own rows.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=4, max_items=2, bound=9, n_prototypes=1)
    >>> RandomUsers().release(np.array([[1, 2], [1, 2]]), public, rng=0).value.value_sums()
    array([[1., 2.]])
    """

    @property
    def name(self) -> str:
        """How a plan names it."""
        return "random"

    def spec(self, public: ReleaseParameters) -> ReleaseSpec:
        """Infinite price; the number of rows depends on the number of users."""
        return not_private_spec(public, self.name, rows=None)

    def usefulness(self, public: ReleaseParameters) -> Usefulness:
        """Nothing is hidden."""
        return spec_usefulness(self.spec(public), public)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release some users' rows."""
        matrix, plan, words = check_rows(rows, public), RecordPlan.of(public), source(rng)
        generator = np.random.default_rng(words.bits(64))
        number = min(public.n_prototypes, matrix.shape[0])
        chosen = np.sort(generator.permutation(matrix.shape[0])[:number])
        message = quiet_message(self.name, one_each(matrix[chosen], public, plan), plan, seeded=words.seeded)
        return Released(value=message, event=self.spec(public).event_for(seeded=words.seeded))

    def combine(self, messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
        """Put the rows under one another."""
        return stacked(messages, public)
