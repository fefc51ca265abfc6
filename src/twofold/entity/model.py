r"""Model: what an entity keeps after round 2, and what it answers. Stays inside, costs no privacy, as often as asked.

A model in plain words: what it is, how it was chosen, what it may be used for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from twofold.data.catalog import Catalog
from twofold.data.ratings import Ratings
from twofold.entity.export import BLOCK, Everyone, Progress, row_block, write_parquet
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.entity.recommend import (
    Explanation,
    Recommendation,
    UserHistories,
    allowed_columns,
    best_items,
    check_number,
    item_column,
    make_explanation,
)
from twofold.errors import BadParameter, PlanMismatch
from twofold.federation.plan import Plan

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Model", "chosen_kind", "strength_words", "summary_text"]


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
    plan : Plan
        What was agreed.
    factors_hash : str
        Hash of the shared item factors it was drawn towards.
    private : bool
        Whether every message behind those factors was made with a proof and real noise.
    strength : float
        How far it was drawn towards them.
    note : str
        What was chosen and why, in words.
    validation : tuple of dict
        The figures of that choice.

    Privacy
    -------
    Private, all of it: it holds histories, and what was fitted to them. Only the repr is public.

    Paper
    -----
    The last loop of Algorithm 2, and fold-in for anybody who comes later.

    Examples
    --------
    >>> from scipy import sparse
    >>> catalog = Catalog(["creatinine", "heparin", "lactate"])
    >>> counts = sparse.csr_array(np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 2.0]]))
    >>> from twofold.data.identifiers import Identifiers
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
    plan: Plan
    factors_hash: str
    private: bool
    strength: float
    note: str
    validation: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        hashes = {self.catalog.hash, self.history.catalog.hash, self.plan.catalog.hash}
        if len(hashes) > 1 or self.scorer.n_items != len(self.catalog):
            raise PlanMismatch("the parts of the model belong to different item lists.", expected="one catalog")
        if self.history.feedback != self.plan.feedback:
            raise PlanMismatch(
                "history and plan disagree on what an absent entry means.",
                found=f"feedback={self.history.feedback!r}",
                expected=f"feedback={self.plan.feedback!r}",
            )

    def __repr__(self) -> str:
        privacy = "private" if self.private else "not private"
        return f"Model({self.entity!r}, {len(self.catalog):,} items, {self.scorer.kind}, {privacy})"

    def summary(self) -> str:
        """Say in plain words what this model is and how it was chosen.

        Privacy
        -------
        Validation figures come from the entity's own users: for the entity only.
        """
        return summary_text(self)

    def recommend(
        self,
        user_or_history: Any,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
    ) -> list[Recommendation]:
        """Recommend items to one of the entity's users, or to a person never seen before.

        Parameters
        ----------
        user_or_history : id or mapping of item id to value
            A user id the entity knows; or what a new person had or rated. Values are cut to the plan's bounds, as
            they were in training.
        n : int
            How many at most; fewer when fewer are left.
        exclude_seen : bool
            Whether items of the person's own history are left out.
        items : iterable of item ids, optional
            The only items to choose from.

        Returns
        -------
        list of Recommendation
            Item id and score, best first; equal scores in the order of the catalog. For a person of whom nothing is
            known these are the items everyone gets: the model's scores for an empty history or, if it has none, the
            share of the entity's users who have the item.

        Raises
        ------
        UnknownUser
            No such user. The id is not repeated.
        CatalogError
            Items outside the catalog.
        BadValue
            NaN, infinity, or a negative count in a history.
        """
        n = check_number(n)
        allowed = allowed_columns(items, self.catalog)
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
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
        block: int = BLOCK,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> pl.DataFrame: ...

    @overload
    def recommend_all(
        self,
        path: str | PathLike[str],
        n: int = 10,
        *,
        users: Iterable[Any] | None = None,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
        block: int = BLOCK,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None: ...

    def recommend_all(
        self,
        path: str | PathLike[str] | None = None,
        n: int = 10,
        *,
        users: Iterable[Any] | None = None,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
        block: int = BLOCK,
        threads: int | None = None,
        progress: Progress | None = None,
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
        block : int
            Users whose lists are held in memory at once. Changes nothing but the rounding of scores.
        threads : int, optional
            All processors by default. The result does not depend on it.
        progress : function of two numbers, optional
            Called with how many users are done, of how many.

        Returns
        -------
        polars.DataFrame or None
            Columns user, rank (from 1), item, score; ids in their own types (as text, where a table has none). The
            same lists as `recommend` gives one by one, up to rounding of scores.
        """
        import polars as pl

        n, block = check_number(n), check_number(block, "block")
        allowed, chosen = allowed_columns(items, self.catalog), self._inside.positions(users)
        target = None if path is None else _parquet_path(path)
        everyone = self._everyone(whole=users is None)
        frames = everyone.frames(
            n, chosen, exclude_seen=exclude_seen, allowed=allowed, block=block, threads=threads, progress=progress
        )
        if target is None:
            return pl.concat([pl.DataFrame(schema=everyone.schema()), *frames], how="vertical")
        write_parquet(frames, everyone.schema(), target)
        return None

    def similar_items(self, item: Any, n: int = 10) -> list[Recommendation]:
        """Find the items most like one item, with their likeness (at most 1), best first.

        Parameters
        ----------
        item : id
            An item of the catalog.
        n : int
            How many at most.
        """
        n = check_number(n)
        return self._named(self.scorer.similar(item_column(item, self.catalog)), n)

    def explain(self, user_or_history: Any, item: Any, n: int = 5) -> Explanation:
        """Say which of a person's items pushed an item; ``print`` it for plain words.

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
        n, column = check_number(n), item_column(item, self.catalog)
        history = self._inside.entries(user_or_history)
        score = float(self._inside.scores(history)[column])
        spoke = self._inside.speaking(history)
        told = self.scorer.reasons(spoke.columns, spoke.values, column)
        return make_explanation(column, score, spoke, told, self.catalog.items, n)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write one file with everything in it, whole or not at all; only its owner may read it.

        Privacy
        -------
        The file holds the users' histories: keep it where the data is.
        """
        from twofold.entity.artefact import save_model

        return save_model(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Model:
        """Read what `save` wrote, on any machine; a damaged or foreign file is refused with BadModel."""
        from twofold.entity.artefact import load_model

        return load_model(path)

    def export(self, path: str | PathLike[str], *, what: Literal["items", "users"] = "items") -> Path:
        """Write the numbers for other programs: .npz or .parquet; see `export_model`."""
        from twofold.entity.export import export_model

        return export_model(self, path, what=what)

    @cached_property
    def user_factors(self) -> NDArray[np.float32]:
        """Factors of all users, (users, rank), fitted when first asked for. Private; only of a model of factors."""
        if not isinstance(self.scorer, FactorScorer):
            raise BadParameter("this model has no user factors.", found=f"kind {self.scorer.kind!r}")
        rows, n_users = self._inside.rows, self.history.n_users
        result = np.empty((n_users, self.scorer.rank), np.float32)
        for start in range(0, n_users, BLOCK):
            block = np.arange(start, min(start + BLOCK, n_users))
            result[block] = self.scorer.user_factors(row_block(rows, block))
        result.flags.writeable = False
        return result

    @cached_property
    def _inside(self) -> UserHistories:
        return UserHistories(history=self.history, scorer=self.scorer, plan=self.plan)

    @cached_property
    def _item_ids(self) -> list[Any]:
        """Item ids as Python holds them: asking the column for one takes longer than choosing it."""
        return list(self.catalog.items)

    def _named(self, scores: NDArray[Any], n: int) -> list[Recommendation]:
        best, ids = best_items(scores, n), self._item_ids
        return [Recommendation(ids[at], score) for at, score in zip(best.tolist(), scores[best].tolist(), strict=True)]

    def _everyone(self, *, whole: bool) -> Everyone:
        ready = isinstance(self.scorer, FactorScorer) and (whole or "user_factors" in self.__dict__)
        return Everyone(
            scorer=self.scorer,
            rows=self._inside.rows,
            usual=self._inside.usual,
            user_ids=self.history.user_ids,
            item_ids=self.catalog.items,
            user_factors=self.user_factors if ready else None,
        )


def _parquet_path(path: str | PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix not in (".parquet", ".pq"):
        raise BadParameter(
            "recommendations for everyone are written as Parquet.",
            found=f"a name that ends in {target.suffix or 'nothing'!r}",
            expected="a name that ends in .parquet",
        )
    return target


KINDS = {
    "factors": "factors: an item and a person are a few numbers each, and a score is the product of the two",
    "item-item": "item-item: a score is a weighted sum of what the person had",
    "patterns": "patterns: an item's mean, the person's own offset, and where the person lies along common patterns",
    "features": "patterns, drawn to public features of the items: mean, the person's own offset, and their place",
}
#: Item-item weights for counts that were drawn to more than the entity's own data.
DRAWN = {
    "features": f"{KINDS['item-item']}, the weights drawn to public features of the items",
    "mixed": f"{KINDS['item-item']}, the weights drawn to public features of the items and to the shared model",
}
_ERROR = (
    "  (± is the standard error of that one loss. It does not decide: the choice is by the error of the difference",
    "  between two models on the same entries, which is mostly smaller.)",
)


def summary_text(model: Model) -> str:
    """Say what a model is, line by line.

    Parameters
    ----------
    model : Model
        Any.
    """
    lines = [
        f"Model of {model.entity} for {len(model.catalog):,} items ({model.plan.feedback}), plan {model.plan.name!r}.",
        f"Scores by {_kind_words(model)}.",
        f"The shared item factors {model.factors_hash[:12]}: {_shared_words(model)}.",
        _privacy(model),
    ]
    if model.note:
        lines.append(f"Chosen: {model.note}.")
    compared = [row for row in model.validation if not math.isnan(float(row.get("loss") or 0))]
    if compared:
        lines.append("Compared on entries of its own users, held out (smaller loss is better; * is the one taken):")
        lines += map(_line, compared)
        lines += _ERROR if any("error" in row for row in compared) else ()
    return "\n".join(lines)


def strength_words(strength: float) -> str:
    """Say how much the shared factors weigh in a model.

    Examples
    --------
    >>> strength_words(0.0), strength_words(math.inf), strength_words(300.0)
    ('not used, own data alone', 'used as they came', 'weigh as much as 300 own users')
    """
    if strength == 0:
        return "not used, own data alone"
    return "used as they came" if math.isinf(strength) else f"weigh as much as {strength:g} own users"


def _privacy(model: Model) -> str:
    if model.private:
        return "Private: every message behind the shared factors was protected by a proof and by real noise."
    return "NOT private: made in a simulation, with seeded noise, or by a mechanism without a proof."


def chosen_kind(model: Model) -> str:
    """Which kind of candidate was taken, by the table of what was compared; without one, that of the scorer.

    Item-item weights of counts are scored alike whether they are drawn to nothing, to public features or to both, so
    the scorer does not tell these apart.
    """
    return next((str(row["kind"]) for row in model.validation if row.get("taken")), model.scorer.kind)


def _kind_words(model: Model) -> str:
    kind = model.scorer.kind
    return DRAWN.get(chosen_kind(model), KINDS[kind]) if kind == "item-item" else KINDS.get(kind, kind)


def _shared_words(model: Model) -> str:
    public = chosen_kind(model) == "features" and model.strength == 0
    return "not used, own data and public features" if public else strength_words(model.strength)


def _line(row: dict[str, Any]) -> str:
    """One candidate; a star at the one taken."""
    rest = dict(row)
    words = []
    if "strength" in rest:
        kind, strength = str(rest.pop("kind", "")), float(rest.pop("strength"))
        words = ["*" if rest.pop("taken", False) else " ", f"{kind:<9}", f"{_drawn_to(kind, strength):<51}"]
    if "loss" in rest and "error" in rest:
        words.append(f"loss {rest.pop('loss'):.4g} ± {rest.pop('error'):.4g}")
    figures = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in rest.items())
    return "  " + " ".join([*words, ", ".join(figures)]).rstrip()


def _drawn_to(kind: str, strength: float) -> str:
    """What a candidate is made of."""
    if strength == 0:
        return "own data and public features" if kind == "features" else "own data only"
    if math.isinf(strength):
        return "shared model as it came"
    public = "public features, and " if kind == "mixed" else ""
    return f"{public}shared model as {strength:g} own users"
