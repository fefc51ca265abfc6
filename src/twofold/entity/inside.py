"""What a model knows of its users by position: bounded histories, and scores for a person known or new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.data.ratings import Ratings
from twofold.entity.recommend import History, read_history
from twofold.entity.scorer import Scorer
from twofold.errors import BadParameter, UnknownUser
from twofold.protocol.plan import Plan

__all__ = ["Inside"]

EMPTY = History(np.zeros(0, np.int64), np.zeros(0, np.float32))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Inside:
    """Histories and a scorer, without ids.

    Parameters
    ----------
    history : Ratings
        What the entity's users had or rated. Private.
    scorer : Scorer
        The fitted local model.
    plan : Plan
        Its bounds and its kind of feedback.
    """

    history: Ratings
    scorer: Scorer
    plan: Plan

    @cached_property
    def rows(self) -> sparse.csr_array:
        """Histories cut to the plan's bounds."""
        matrix = self.history.matrix
        values = np.clip(matrix.data, self.plan.lower, self.plan.bound).astype(np.float32, copy=False)
        parts: Any = (values, matrix.indices, matrix.indptr)
        return sparse.csr_array(parts, shape=matrix.shape)

    @cached_property
    def usual(self) -> NDArray[np.float32]:
        """Scores for somebody of whom nothing is known: the model's own or, if they are all equal, popularity."""
        scores = self.scorer.one(*EMPTY)
        if np.ptp(scores) > 0:
            return scores
        counts = np.bincount(self.history.matrix.indices, minlength=self.history.n_items)
        return (counts / max(self.history.n_users, 1)).astype(np.float32)

    def entries(self, user_or_history: Any) -> History:
        """Columns and bounded values of a known user, or of a dict of interactions."""
        if isinstance(user_or_history, Mapping):
            plan, catalog = self.plan, self.history.catalog
            return read_history(user_or_history, catalog, feedback=plan.feedback, lower=plan.lower, bound=plan.bound)
        rows, at = self.rows, self.position(user_or_history)
        span = slice(rows.indptr[at], rows.indptr[at + 1])
        return History(rows.indices[span].astype(np.int64), rows.data[span])

    def scores(self, history: History) -> NDArray[np.float32]:
        """Score every item; a history about which the model has nothing to say gets the usual scores."""
        if len(history.columns) == 0:
            return self.usual
        scores = self.scorer.one(*history)
        return scores if scores.any() else self.usual

    def speaking(self, history: History) -> History:
        """Give the history if its entries made the scores, an empty one if the usual scores stand for it."""
        return EMPTY if self.scores(history) is self.usual else history

    def position(self, user: Any) -> int:
        """Row of a user; UnknownUser, without the id, if there is none."""
        found = self.history.user_ids.get(user)
        if found is None:
            raise UnknownUser(
                "this model does not know that user.",
                found=f"an id of type {type(user).__name__}",
                expected=f"a known id of type {self.history.user_ids.kind}",
                fix="for somebody new give what they had: model.recommend({item id: value}), or --history item=value",
            )
        return found

    def positions(self, users: Iterable[Any] | None) -> NDArray[np.int64]:
        """Rows of some users, in their order; all of them for None."""
        if users is None:
            return np.arange(self.history.n_users)
        if isinstance(users, (str, bytes)) or not isinstance(users, Iterable):
            raise BadParameter("users is not a list of user ids.", found=f"a {type(users).__name__}", fix="users=[id]")
        return np.array([self.position(user) for user in users], dtype=np.int64)
