"""Model: an entity's recommender after round 2. It stays inside, and using it costs no privacy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.checks import whole
from twofold.csr import with_data
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.data.scan import Scan
from twofold.entity.asked import EMPTY, History, allowed_columns, item_column, read_history
from twofold.entity.explain import Explanation, make_explanation, summary_html, summary_text
from twofold.entity.export import BLOCK, Everyone, parquet_path, row_block, user_blocks, write_parquet
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.errors import BadParameter, PlanMismatch, UnknownUser
from twofold.federation.plan import Plan

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Model", "Recommendation", "UserHistories"]


class Recommendation(NamedTuple):
    """An item, by its id, and its score: higher is better, comparable within one person's list."""

    item: Any
    score: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Model:
    """An entity's own recommender: ids in, ids out, for its users and for people it has never seen.

    Parameters
    ----------
    entity : str
        Public name of the entity.
    catalog : Catalog
        The public item list.
    history : Ratings
        What the entity's users had or rated. Private.
    scorer : Scorer
        The fitted local model.
    plan : Plan or None
        The plan; None without one (`fit_alone`).
    factors_hash : str
        Hash of the shared item factors it was pulled towards; empty if nothing was shared.
    private : bool
        Whether every message behind those factors was made with a proof and real noise. The model itself holds
        histories as they are, and is never private in this sense.
    strength : float
        How far it was pulled towards them.
    note : str
        What was chosen and why.
    validation : tuple of dict
        The figures of that choice.
    lower, bound : float, optional
        Smallest and largest value of a history; those of the plan by default.

    Privacy
    -------
    Everything is private: histories, and what was fitted to them. Only the repr is public.

    Paper
    -----
    The last loop of Algorithm 2, and fold-in for new people.

    Examples
    --------
    >>> from scipy import sparse
    >>> catalog = Catalog(["creatinine", "heparin", "lactate"])
    >>> counts = sparse.csr_array(np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 2.0]]))
    >>> from twofold.data.catalog import Identifiers
    >>> model = Model(
    ...     entity="st-anna", catalog=catalog, history=Ratings(counts, Identifiers(["p1", "p2"]), catalog, "counts"),
    ...     scorer=FactorScorer(np.array([[1.0], [1.0], [0.5]]), feedback="counts"),
    ...     plan=Plan(catalog=catalog, feedback="counts", bound=5, max_items=2, rank=1),
    ...     factors_hash="0" * 64, private=False, strength=0.5, note="", validation=(),
    ... )
    >>> [one.item for one in model.recommend("p1")], [one.item for one in model.recommend({"lactate": 1}, n=1)]
    (['lactate'], ['creatinine'])
    >>> model
    Model('st-anna', 3 items, factors, not private)
    """

    entity: str
    catalog: Catalog
    history: Ratings
    scorer: Scorer
    plan: Plan | None
    factors_hash: str
    private: bool
    strength: float
    note: str
    validation: tuple[dict[str, Any], ...] = ()
    lower: float = math.nan
    bound: float = math.nan
    _inside: UserHistories = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        agreed = self.catalog if plan is None else plan.catalog
        hashes = {self.catalog.hash, self.history.catalog.hash, agreed.hash}
        if len(hashes) > 1 or self.scorer.n_items != len(self.catalog):
            raise PlanMismatch("the parts of the model belong to different item lists.", expected="one catalog")
        if plan is not None and self.history.feedback != plan.feedback:
            raise PlanMismatch(
                "history and plan disagree on what an absent entry means.",
                found=f"feedback={self.history.feedback!r}",
                expected=f"feedback={plan.feedback!r}",
                parameter="feedback",
            )
        lower, bound = (self.lower, self.bound) if plan is None else (plan.lower, plan.bound)
        if not lower <= bound:
            raise BadParameter("a model without a plan needs the range of its values.", parameter="bound")
        inside = UserHistories(
            history=self.history, items=self.catalog.items, scorer=self.scorer, lower=lower, bound=bound
        )
        for name, value in (("lower", lower), ("bound", bound), ("_inside", inside)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        privacy = "alone" if self.alone else "from protected messages" if self.private else "not private"
        return f"Model({self.entity!r}, {len(self.catalog):,} items, {self.scorer.kind}, {privacy})"

    def _repr_html_(self) -> str:
        return summary_html(self)

    @property
    def alone(self) -> bool:
        """Whether nothing was shared with it."""
        return not self.factors_hash

    def summary(self) -> str:
        """Say in plain text what this model is and how it was chosen.

        Privacy
        -------
        Validation figures come from the entity's own users: for the entity only.
        """
        return summary_text(self)

    @overload
    def recommend(
        self,
        user_or_history: list[Any] | pl.Series | NDArray[Any],
        n: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
    ) -> pl.DataFrame: ...

    @overload
    def recommend(
        self, user_or_history: Any, n: int = 10, *, exclude_seen: bool = True, items: Iterable[Any] | None = None
    ) -> list[Recommendation]: ...

    def recommend(
        self, user_or_history: Any, n: int = 10, *, exclude_seen: bool = True, items: Iterable[Any] | None = None
    ) -> list[Recommendation] | pl.DataFrame:
        """Recommend items to one of the entity's users, to several, or to a person never seen before.

        Parameters
        ----------
        user_or_history : id, list of ids, or mapping of item id to value
            A user id the entity knows; or a list, array or column of them; or what a new person had or rated. Values
            are cut to the plan's bounds, as they were in training.
        n : int
            Largest number of items; fewer if fewer are left.
        exclude_seen : bool
            Whether to leave out items of the person's own history.
        items : iterable of item ids, optional
            The only items to choose from.

        Returns
        -------
        list of Recommendation, or polars.DataFrame for several users
            Item id and score, best first; the frame is that of `recommend_all`. Equal scores come in the order of the
            catalog. For a person without a history these are the items everyone gets: the model's scores for an empty
            history or, if it has none, the share of the entity's users who have the item.

        Raises
        ------
        UnknownUser
            The user does not exist. The id is not repeated.
        CatalogError
            Items outside the catalog.
        BadValue
            NaN, infinity, or a negative count in a history.
        """
        if isinstance(user_or_history, list) or _is_column(user_or_history):
            return self.recommend_all(n=n, users=list(user_or_history), exclude_seen=exclude_seen, items=items)
        n, allowed = _number(n), allowed_columns(items, self._inside.items)
        history = self._inside.entries(user_or_history)
        scores = self._inside.scores(history).copy()
        if exclude_seen:
            scores[history.columns] = -np.inf
        if allowed is not None:
            barred = np.ones(scores.size, np.bool_)
            barred[allowed] = False
            scores[barred] = -np.inf
        return self._named(scores, n)

    @overload
    def recommend_all(
        self,
        path: None = None,
        n: int = 10,
        *,
        users: Iterable[Any] | None = None,
        histories: Ratings | Scan | None = None,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
        block: int = BLOCK,
        threads: int | None = None,
    ) -> pl.DataFrame: ...

    @overload
    def recommend_all(
        self,
        path: str | PathLike[str],
        n: int = 10,
        *,
        users: Iterable[Any] | None = None,
        histories: Ratings | Scan | None = None,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
        block: int = BLOCK,
        threads: int | None = None,
    ) -> None: ...

    def recommend_all(
        self,
        path: str | PathLike[str] | None = None,
        n: int = 10,
        *,
        users: Iterable[Any] | None = None,
        histories: Ratings | Scan | None = None,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
        block: int = BLOCK,
        threads: int | None = None,
    ) -> pl.DataFrame | None:
        """Recommend items to all users, in blocks, into a Parquet file or a frame.

        Parameters
        ----------
        path : path, optional
            A file that ends in .parquet, written whole or not at all, readable by its owner; without it a polars
            frame is returned.
        n, exclude_seen, items
            As for `recommend`.
        users : iterable of user ids, optional
            Only these, in this order.
        histories : Ratings or Scan, optional
            Other people than those in the model, all of them; a `scan` is read, and its lists written, block by block.
        block : int
            Users whose lists are held in memory at once. Changes nothing but the rounding of scores.
        threads : int, optional
            All processors by default. The result does not depend on it.

        Returns
        -------
        polars.DataFrame or None
            Columns user, rank (from 1), item, score; ids in their own types (as text, where a table has none). The
            same lists as `recommend` gives one by one, up to rounding of scores.
        """
        import polars as pl

        n, block = _number(n), _number(block, "block")
        allowed, chosen = allowed_columns(items, self._inside.items), self._inside.positions(users)
        target = None if path is None else parquet_path(path)
        how: dict[str, Any] = {"exclude_seen": exclude_seen, "allowed": allowed, "block": block, "threads": threads}
        if histories is None:
            everyone = self._everyone(whole=users is None)
            frames, schema = everyone.frames(n, chosen, **how), everyone.schema()
        else:
            self._check_histories(histories, users)
            given = iter([histories]) if isinstance(histories, Ratings) else user_blocks(histories.batches(), block)
            first = next(given)
            schema = self._of(first).schema()
            frames = (
                frame
                for people in chain([first], given)
                for frame in self._of(people).frames(n, np.arange(people.n_users), **how)
            )
        if target is None:
            return pl.concat([pl.DataFrame(schema=schema), *frames], how="vertical")
        write_parquet(frames, schema, target)
        return None

    def similar_items(self, item: Any, n: int = 10) -> list[Recommendation]:
        """Find the items most similar to one item, with their similarity (at most 1), best first.

        Parameters
        ----------
        item : id
            An item of the catalog.
        n : int
            How many at most.
        """
        return self._named(self.scorer.similar(item_column(item, self._inside.items)), _number(n))

    def explain(self, user_or_history: Any, item: Any, n: int = 5) -> Explanation:
        """Explain which of a person's items led to an item; ``print`` the result for plain text.

        Parameters
        ----------
        user_or_history : id or mapping of item id to value
            As for `recommend`.
        item : id
            The item in question; it need not be among the recommended ones.
        n : int
            How many of the person's items to name at most.

        Returns
        -------
        Explanation
            Contributions and a rest that add up to the score.
        """
        n, column = _number(n), item_column(item, self._inside.items)
        history = self._inside.entries(user_or_history)
        scores, told = self._inside.explained(history, column)
        return make_explanation(column, float(scores[column]), history, told, self._item_ids, n)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the whole model to one file, completely or not at all; only its owner may read it.

        Privacy
        -------
        The file holds the users' histories: keep it where the data is.
        """
        from twofold.entity.artefact import save_model

        return save_model(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Model:
        """Read a file of `save`, on any machine; a damaged or foreign file raises BadModel."""
        from twofold.entity.artefact import load_model

        return load_model(path)

    def export(self, path: str | PathLike[str], *, what: Literal["items", "users"] = "items") -> Path:
        """Write the numbers for other programs: .npz or .parquet; see `export_model`."""
        from twofold.entity.export import export_model

        return export_model(self, path, what=what)

    @cached_property
    def user_factors(self) -> NDArray[np.float32]:
        """Factors of all users, (users, rank), fitted on first use. Private; factor models only."""
        if not isinstance(self.scorer, FactorScorer):
            raise BadParameter("this model has no user factors.", found=f"kind {self.scorer.kind!r}", parameter="kind")
        rows, n_users = self._inside.rows, self.history.n_users
        result = np.empty((n_users, self.scorer.rank), np.float32)
        for start in range(0, n_users, BLOCK):
            block = np.arange(start, min(start + BLOCK, n_users))
            result[block] = self.scorer.user_factors(row_block(rows, block))
        result.flags.writeable = False
        return result

    @cached_property
    def _item_ids(self) -> list[Any]:
        """Item ids as Python objects: looking one up in the column takes longer than choosing it."""
        return list(self._inside.items)

    def _named(self, scores: NDArray[Any], n: int) -> list[Recommendation]:
        best, ids = best_items(scores, n), self._item_ids
        return [Recommendation(ids[at], score) for at, score in zip(best.tolist(), scores[best].tolist(), strict=True)]

    def _check_histories(self, histories: Any, users: Any) -> None:
        if users is not None or not isinstance(histories, (Ratings, Scan)):
            raise BadParameter(
                "histories of other people are Ratings or a Scan, and stand in the place of users.",
                found=f"a {type(histories).__name__}",
                fix="recommend_all(path, histories=tw.scan(...))",
                parameter="histories",
            )
        if histories.catalog.hash != self.catalog.hash:
            raise PlanMismatch(
                "these histories have another catalog than the model.",
                found=f"catalog {histories.catalog.hash[:12]}",
                expected=f"catalog {self.catalog.hash[:12]}",
                parameter="catalog",
            )

    def _of(self, people: Ratings) -> Everyone:
        inside = replace(self._inside, history=people)
        return Everyone(
            scorer=self.scorer,
            rows=inside.rows,
            cold_start=self._inside.cold_start,
            user_ids=people.user_ids,
            item_ids=self.catalog.items,
        )

    def _everyone(self, *, whole: bool) -> Everyone:
        ready = isinstance(self.scorer, FactorScorer) and (whole or "user_factors" in self.__dict__)
        return Everyone(
            scorer=self.scorer,
            rows=self._inside.rows,
            cold_start=self._inside.cold_start,
            user_ids=self.history.user_ids,
            item_ids=self.catalog.items,
            user_factors=self.user_factors if ready else None,
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UserHistories:
    """Bounded histories of a model's users by position, and scores for a known or new person.

    Parameters
    ----------
    history : Ratings
        What the entity's users had or rated. Private.
    items : Identifiers
        Ids of the columns.
    scorer : Scorer
        The fitted local model.
    lower, bound : float
        Values outside are cut.
    """

    history: Ratings
    items: Identifiers
    scorer: Scorer
    lower: float
    bound: float

    @cached_property
    def rows(self) -> sparse.csr_array:
        """Histories cut to the bounds."""
        matrix = self.history.matrix
        values = np.clip(matrix.data, self.lower, self.bound).astype(np.float32, copy=False)
        return with_data(matrix, values)

    @cached_property
    def cold_start(self) -> NDArray[np.float32]:
        """Scores for a person without a history: the model's own or, if they are all equal, popularity."""
        scores = self.scorer.one(*EMPTY)
        if np.ptp(scores) > 0:
            return scores
        counts = np.bincount(self.history.matrix.indices, minlength=self.history.n_items)
        return (counts / max(self.history.n_users, 1)).astype(np.float32)

    def entries(self, user_or_history: Any) -> History:
        """Columns and bounded values of a known user, or of a dict of interactions."""
        if isinstance(user_or_history, Mapping):
            feedback = self.history.feedback
            return read_history(user_or_history, self.items, feedback=feedback, lower=self.lower, bound=self.bound)
        rows, at = self.rows, self.position(user_or_history)
        span = slice(rows.indptr[at], rows.indptr[at + 1])
        return History(rows.indices[span].astype(np.int64), rows.data[span])

    def scores(self, history: History) -> NDArray[np.float32]:
        """Score every item; a history that tells the model nothing gets the cold-start scores."""
        if len(history.columns) == 0:
            return self.cold_start
        scores = self.scorer.one(*history)
        return scores if scores.any() else self.cold_start

    def explained(self, history: History, item: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """`scores`, and how much each entry added to that of one item; nothing where no entry made the scores."""
        if isinstance(self.scorer, FactorScorer) and len(history.columns):
            scores, told = self.scorer.explained(*history, item)
            return (scores, told) if scores.any() else (self.cold_start, np.zeros(0))
        scores = self.scores(history)
        spoke = EMPTY if scores is self.cold_start else history
        return scores, self.scorer.reasons(*spoke, item)

    def position(self, user: Any) -> int:
        """Row of a user; raises UnknownUser, without the id, if there is none."""
        found = self.history.user_ids.get(user)
        if found is None:
            raise UnknownUser(
                "this model does not know that user.",
                found=f"an id of type {type(user).__name__}",
                expected=f"a known id of type {self.history.user_ids.kind}",
                parameter="user",
                fix="for a new person, give their history: model.recommend({item id: value}), or --history item=value",
            )
        return found

    def positions(self, users: Iterable[Any] | None) -> NDArray[np.int64]:
        """Rows of some users, in their order; all of them for None."""
        if users is None:
            return np.arange(self.history.n_users)
        if isinstance(users, (str, bytes)) or not isinstance(users, Iterable):
            raise BadParameter(
                "{parameter} is not a list of user ids.",
                found=f"a {type(users).__name__}",
                fix="users=[id]",
                parameter="users",
            )
        return np.array([self.position(user) for user in users], dtype=np.int64)


def best_items(scores: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Positions of the `n` largest scores, best first, equal ones by position; minus infinity is not a candidate.

    Examples
    --------
    >>> best_items(np.array([1.0, 3.0, -np.inf, 3.0]), 5).tolist()
    [1, 3, 0]
    """
    least = np.partition(scores, -n)[-n] if n < scores.size else -np.inf
    candidates = (scores > least if least == -np.inf else scores >= least).nonzero()[0]
    order = np.argsort(-scores[candidates], kind="stable")
    return np.asarray(candidates[order[:n]])


def _is_column(given: Any) -> bool:
    """Whether it is an array or a column of a table, which no id is; a number of NumPy has no length."""
    return hasattr(given, "__array__") and hasattr(given, "__len__") and np.ndim(given) == 1


def _number(n: Any, name: str = "n") -> int:
    return n if type(n) is int and n > 0 else whole(name, n, kind=Integral, error=BadParameter)
