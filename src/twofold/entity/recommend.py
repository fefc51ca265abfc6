"""One person's history in ids, the items to choose from, and the best of some scores."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.data.catalog import Catalog
from twofold.errors import BadParameter, BadValue, CatalogError

__all__ = ["History", "Recommendation", "allowed_columns", "best_items", "check_number", "item_column", "read_history"]


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
