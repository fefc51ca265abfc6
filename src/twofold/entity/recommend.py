r"""One person's history in ids, the items to choose from, and the best of some scores.

Why an item was recommended: which of the person's own items pushed it.

What a model knows of its users by position: bounded histories, and scores for a person known or new.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import with_data
from twofold.data.catalog import Catalog
from twofold.data.identifiers import Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.models.blend import Scorer
from twofold.errors import BadParameter, BadValue, CatalogError, UnknownUser
from twofold.federation.plan import Plan

__all__ = [
    "Explanation",
    "History",
    "Reason",
    "Recommendation",
    "UserHistories",
    "allowed_columns",
    "best_items",
    "check_number",
    "item_column",
    "make_explanation",
    "read_history",
]


class Recommendation(NamedTuple):
    """An item, by its id, and its score: higher is better, comparable within one person's list."""

    item: Any
    score: float


class History(NamedTuple):
    """Columns, ascending, and their values."""

    columns: NDArray[np.int64]
    values: NDArray[np.float32]


def read_history(
    given: Mapping[Any, Any],
    catalog: Catalog,
    *,
    feedback: Literal["counts", "ratings"],
    lower: float,
    bound: float,
) -> History:
    """Turn a dict of interactions into columns and values, cut to the plan's bounds as in training.

    Parameters
    ----------
    given : mapping of item id to number
        What the person had or rated; the order does not matter.
    catalog : Catalog
        The public item list.
    feedback : {"counts", "ratings"}
        Negative counts are refused.
    lower, bound : float
        Smallest and largest value; what lies outside is cut.

    Examples
    --------
    >>> read_history({"y": 9, "x": 1}, Catalog(["x", "y"]), feedback="counts", lower=0, bound=5)
    History(columns=array([0, 1]), values=array([1., 5.], dtype=float32))
    """
    places = [catalog.items.get(item) for item in given]
    if unknown := places.count(None):
        raise CatalogError(
            "the history names items that the catalog does not have.",
            found=f"{unknown:,} of {len(places):,} items",
            expected=f"ids of type {catalog.items.kind} out of the catalog's {len(catalog):,}",
            fix="leave them out, or spell them as the catalog does: model.catalog.items",
        )
    columns = np.array(places, dtype=np.int64)
    order = np.argsort(columns)
    values = _numbers(given.values(), feedback)
    return History(columns[order], np.clip(values[order], lower, bound).astype(np.float32))


def _numbers(given: Iterable[Any], feedback: str) -> NDArray[np.float64]:
    plain = list(given)
    if not all(isinstance(one, Real) for one in plain):
        raise BadValue("the history holds something that is not a number.", expected="{item id: number}")
    values = np.array([float(one) for one in plain], dtype=np.float64)
    if not np.isfinite(values).all():
        raise BadValue("the history holds NaN or infinity.", expected="finite numbers", fix="leave those items out")
    if feedback == "counts" and (values < 0).any():
        raise BadValue("the history holds a negative count.", expected="counts of 0 or more")
    return values


def item_column(item: Any, catalog: Catalog) -> int:
    """Column of an item somebody asks about; an error names the closest ids of the public catalog.

    Examples
    --------
    >>> item_column("heparin", Catalog(["creatinine", "heparin"]))
    1
    """
    found = catalog.items.get(item)
    if found is None:
        raise _unknown_items([item], 1, catalog)
    return found


def allowed_columns(items: Iterable[Any] | None, catalog: Catalog) -> NDArray[np.int64] | None:
    """Columns of the only items to choose from, ascending; None for all.

    Examples
    --------
    >>> allowed_columns(["z", "x"], Catalog(["x", "y", "z"])).tolist()
    [0, 2]
    """
    if items is None:
        return None
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise BadParameter("items is not a list of item ids.", found=f"a {type(items).__name__}", fix='items=["..."]')
    given = list(items)
    places = [catalog.items.get(item) for item in given]
    if None in places:
        missing = [item for item, place in zip(given, places, strict=True) if place is None]
        raise _unknown_items(missing, len(given), catalog)
    return np.unique(np.array(places, dtype=np.int64))


def _unknown_items(missing: list[Any], asked: int, catalog: Catalog) -> CatalogError:
    near = difflib.get_close_matches(str(missing[0]), catalog.items.texts(), n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "see model.catalog.items"
    return CatalogError(
        "the catalog has no such item." if asked == 1 else "the catalog does not have all of these items.",
        found=f"{len(missing):,} of {asked:,} unknown, the first of type {type(missing[0]).__name__}",
        expected=f"ids of type {catalog.items.kind} out of its {len(catalog):,}",
        fix=hint,
    )


def check_number(n: Any, name: str = "n") -> int:
    """Refuse anything but a whole number from 1.

    Examples
    --------
    >>> check_number(5)
    5
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise BadParameter(f"{name} is out of range.", found=f"{n!r:.40}", expected="a whole number, 1 or more")
    return int(n)


def best_items(scores: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Positions of the `n` largest scores, best first, equal ones by position; minus infinity is no candidate.

    Examples
    --------
    >>> best_items(np.array([1.0, 3.0, -np.inf, 3.0]), 5).tolist()
    [1, 3, 0]
    """
    floor = np.partition(scores, -n)[-n] if n < scores.size else -np.inf
    candidates = np.flatnonzero((scores >= floor) & (scores > -np.inf))
    order = np.argsort(-scores[candidates], kind="stable")
    return np.asarray(candidates[order[:n]])


class Reason(NamedTuple):
    """One item of the person: its id, its value, and how much of the score it accounts for."""

    item: Any
    value: float
    contribution: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The score of an item, taken apart.

    Parameters
    ----------
    item : id
        What was asked about.
    score : float
        Its score.
    reasons : list of Reason
        The person's items that moved the score most, the largest first; below 0 for one that spoke against it.
    rest : float
        What is left: the person's other items, and what the item would get without any. Contributions and rest add
        up to the score.

    Privacy
    -------
    Names items of one person. Show it only where the data is.

    Examples
    --------
    >>> print(Explanation(item="lactate", score=1.5, reasons=[Reason("heparin", 3.0, 1.25)], rest=0.25))
    lactate scores 1.500:
      +1.250  because of heparin (3)
      +0.250  everything else
    """

    item: Any
    score: float
    reasons: list[Reason]
    rest: float

    def __str__(self) -> str:
        lines = [f"{self.item} scores {self.score:.3f}:"]
        for one in self.reasons:
            word = "because of" if one.contribution >= 0 else "in spite of"
            lines.append(f"  {one.contribution:+.3f}  {word} {one.item} ({one.value:g})")
        nothing = "nothing is known of this person, so it is what everyone gets"
        lines.append(f"  {self.rest:+.3f}  {'everything else' if self.reasons else nothing}")
        return "\n".join(lines)


def make_explanation(
    item: int, score: float, history: History, contributions: NDArray[np.float64], ids: Identifiers, n: int
) -> Explanation:
    """Name the `n` entries that moved a score most, in either direction.

    Parameters
    ----------
    item : int
        Column of the item in question.
    score : float
        Its score.
    history : History
        Columns and values of the person.
    contributions : array
        One per entry of the history.
    ids : Identifiers
        Item ids.
    n : int
        How many to name.

    Examples
    --------
    >>> history = History(np.array([0, 2]), np.array([1.0, 2.0], np.float32))
    >>> make_explanation(1, 3.0, history, np.array([0.5, -2.0]), Identifiers(["x", "y", "z"]), 1)
    Explanation(item='y', score=3.0, reasons=[Reason(item='z', value=2.0, contribution=-2.0)], rest=5.0)
    """
    order = np.argsort(-np.abs(contributions), kind="stable")[:n]
    reasons = [
        Reason(ids[int(history.columns[at])], float(history.values[at]), float(contributions[at])) for at in order
    ]
    rest = score - sum(reason.contribution for reason in reasons)
    return Explanation(item=ids[item], score=score, reasons=reasons, rest=rest)


EMPTY = History(np.zeros(0, np.int64), np.zeros(0, np.float32))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UserHistories:
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
        return with_data(matrix, values)

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
