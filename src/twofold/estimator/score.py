"""Score fitted models on held-out rows, and name the columns of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import csr_rows, with_data
from twofold.data.catalog import check_ids, factorize
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.read import DuplicateRule, UnknownRule
from twofold.data.tables import open_table
from twofold.entity.model import Model
from twofold.errors import DataError, EmptyTable, Set, UnknownItems
from twofold.evaluation.measure import user_ndcg

__all__ = [
    "Columns",
    "column_names",
    "known_model",
    "list_gains",
    "mean_gain",
    "negative_error",
    "predicted",
    "predicted_rows",
]

Models = Mapping[Any, Model]
#: Recommendations that count for a score of counts.
TOP = 10
#: Bytes of scores held at once.
SCORE_BYTES = 1 << 25


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns, and the rules for odd rows.

    Examples
    --------
    >>> Columns(entity="hospital").named
    ['hospital', 'user', 'item', 'value']
    """

    entity: str = "entity"
    user: str = "user"
    item: str = "item"
    value: str | None = "value"
    duplicates: DuplicateRule = "error"
    unknown_items: UnknownRule = "error"

    @property
    def named(self) -> list[str]:
        """The columns that are read."""
        return [self.entity, self.user, self.item, *([] if self.value is None else [self.value])]

    def as_keywords(self) -> dict[str, Any]:
        """Give the arguments of `read_federation`."""
        return asdict(self)


def column_names(frame: Any, columns: Columns) -> list[str]:
    """All columns of a frame; of a file or a database those that were read.

    Examples
    --------
    >>> import polars as pl
    >>> column_names(pl.DataFrame({"a": [1], "b": [2]}), Columns())
    ['a', 'b']
    """
    found = nw.from_native(frame, pass_through=True)
    return list(found.collect_schema().names()) if isinstance(found, nw.DataFrame | nw.LazyFrame) else columns.named


def predicted_rows(models: Models, frame: Any, columns: Columns, *, known_only: bool = False) -> NDArray[np.float64]:
    """Score every row of a frame with the model of its entity; ratings stay within the plan's range.

    With `known_only`, rows of entities that were not in the fit get NaN; else they are refused.
    """
    table = open_table(frame, ids=(columns.entity, columns.user, columns.item), value=None)
    labels = table[columns.entity]
    check_ids(labels, columns.entity)
    codes, names = factorize(labels)
    result = np.empty(len(codes), dtype=np.float64)
    for code, label in enumerate(names.to_list()):
        rows = np.flatnonzero(codes == code)
        if known_only and label not in models:
            result[rows] = np.nan
            continue
        model, chosen = known_model(models, label), pl.Series(rows)
        result[rows] = predicted(model, table[columns.user].gather(chosen), table[columns.item].gather(chosen))
        if model.history.feedback == "ratings":
            result[rows] = np.clip(result[rows], model.lower, model.bound)
    return result


def negative_error(models: Models, frame: Any, columns: Columns) -> float:
    """Minus the root mean squared error over the rows of a frame; entities that were not in the fit are left out."""
    if columns.value is None:
        raise DataError("there are no ratings to compare with.", fix=Set("value", "COLUMN"), parameter="value")
    table = open_table(frame, ids=(columns.entity,), value=columns.value)
    values = table[columns.value].cast(pl.Float64).to_numpy()
    if values.size == 0:
        raise EmptyTable("there is nothing to score.", parameter="frame", expected="at least one row")
    labels = table[columns.entity].to_list()
    known = np.array([label in models for label in labels])
    _check_some(bool(known.any()))
    predictions = predicted_rows(models, frame, columns, known_only=True)
    return -float(np.sqrt(np.mean((predictions[known] - values[known]) ** 2)))


def _check_some(found: bool) -> None:
    if not found:
        raise DataError(
            "no entity of these rows was in the fit; there is nothing to score.",
            expected="rows of entities of the fit, as a shuffled split gives them",
            fix="KFold(5, shuffle=True, random_state=0): a table sorted by entity puts whole entities into a fold",
            parameter="entity",
        )


def mean_gain(models: Models, held_out: Federation) -> float:
    """Mean nDCG over all users with something new held out; entities that were not in the fit are left out."""
    known = {label: rows for label, rows in held_out.items() if label in models}
    _check_some(bool(known))
    gains = np.concatenate([list_gains(models[label], rows, TOP) for label, rows in known.items()])
    if gains.size == 0:
        raise EmptyTable(
            "there is nothing to score.", parameter="frame", expected="items that their users did not have in the fit"
        )
    return float(gains.mean())


def known_model(models: Models, label: Any) -> Model:
    """Give the model of an entity of the fit."""
    if label not in models:
        raise DataError(
            "an entity was not in the fit.", found=f"{label!r:.60}", expected="an entity of the fit", parameter="entity"
        )
    return models[label]


def predicted(model: Model, users: pl.Series, items: pl.Series) -> NDArray[np.float64]:
    """Score one item for one user, row by row; an unseen user has an empty history.

    Parameters
    ----------
    model : Model
        Of the users' entity.
    users, items : polars.Series
        Ids, one pair per row; all items in the catalog.
    """
    check_ids(users, "user")
    rows, columns = model.history.user_ids.encode(users), model.catalog.items.encode(items)
    if (columns < 0).any():
        raise UnknownItems(
            "the rows name items that are not in the catalog.", expected="items of the catalog", parameter="item"
        )
    people, place = np.unique(rows, return_inverse=True)
    order = np.argsort(place, kind="stable")
    result = np.empty(len(rows), dtype=np.float64)
    for first, last in pairwise(_blocks(people.size, model)):
        some = order[slice(*np.searchsorted(place[order], (first, last)))]
        scores = model.scorer.scores(_histories(model, people[first:last]))
        result[some] = scores[place[some] - first, columns[some]]
    return result


def list_gains(model: Model, held_out: Ratings, n: int) -> NDArray[np.float64]:
    """NDCG of the first `n` recommendations of every user with something new held out.

    Items of the user's own history are neither recommended nor counted.
    """
    rows = model.history.user_ids.encode(held_out.user_ids.to_polars())
    usual = _usual(model)
    gains = [np.zeros(0)]
    for first, last in pairwise(_blocks(len(rows), model)):
        seen = _histories(model, rows[first:last])
        scores = model.scorer.scores(seen)
        scores[~scores.any(axis=1) | (np.diff(seen.indptr) == 0)] = usual
        gains.append(user_ndcg(scores, _without(held_out.matrix[first:last], seen), seen=seen, n=n))
    values = np.concatenate(gains)
    return np.asarray(values[~np.isnan(values)])


def _blocks(people: int, model: Model) -> list[int]:
    """Where blocks of users begin and end whose scores fit into memory."""
    size = max(1, SCORE_BYTES // (4 * len(model.catalog)))
    return [*range(0, people, size), people]


def _histories(model: Model, people: NDArray[Any]) -> sparse.csr_array:
    """Rows of some users; an empty one for each that is not known, at -1."""
    matrix = model.history.matrix
    starts = np.append(matrix.indptr, matrix.indptr[-1])
    with_nobody = csr_rows(matrix.data, matrix.indices, starts, (matrix.shape[0] + 1, matrix.shape[1]))
    return sparse.csr_array(with_nobody[np.where(people < 0, matrix.shape[0], people)])


def _usual(model: Model) -> NDArray[np.float32]:
    """The model's own scores for a person without a history."""
    scores = np.zeros(len(model.catalog), dtype=np.float32)
    for item, score in model.recommend({}, len(model.catalog)):
        scores[model.catalog.column(item)] = score
    return scores


def _without(entries: sparse.csr_array, seen: sparse.csr_array) -> sparse.csr_array:
    """Entries that are not among those seen, each worth 1."""
    there, known = (with_data(matrix, np.ones(matrix.nnz)) for matrix in (entries, seen))
    left = sparse.csr_array(there - there.multiply(known))
    left.eliminate_zeros()
    return left
