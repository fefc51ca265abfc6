"""What a caller asks in ids: a history and items, as columns of the catalog; errors name public ids only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.data.catalog import Identifiers, type_word
from twofold.errors import BadParameter, BadValue, CatalogError

__all__ = ["EMPTY", "History", "allowed_columns", "closest", "item_column", "read_history"]


class History(NamedTuple):
    """Columns, ascending, and their values."""

    columns: NDArray[np.int64]
    values: NDArray[np.float32]


EMPTY = History(np.zeros(0, np.int64), np.zeros(0, np.float32))


def read_history(
    given: Mapping[Any, Any],
    items: Identifiers,
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
    items : Identifiers
        Ids of the public item list.
    feedback : {"counts", "ratings"}
        Negative counts are refused.
    lower, bound : float
        Smallest and largest value; values outside are cut.

    Examples
    --------
    >>> read_history({"y": 9, "x": 1}, Identifiers(["x", "y"]), feedback="counts", lower=0, bound=5)
    History(columns=array([0, 1]), values=array([1., 5.], dtype=float32))
    """
    places = [items.get(item) for item in given]
    if unknown := places.count(None):
        raise CatalogError(
            "the history names items that the catalog does not have.",
            found=f"{unknown:,} of {len(places):,} items",
            expected=f"ids of type {items.kind} out of the catalog's {len(items):,}",
            fix="leave them out, or spell them as the catalog does",
            parameter="history",
        )
    columns = np.array(places, dtype=np.int64)
    order = np.argsort(columns)
    values = _values(given.values(), feedback)
    return History(columns[order], np.minimum(np.maximum(values[order], lower), bound).astype(np.float32))


def _values(given: Iterable[Any], feedback: str) -> NDArray[np.float64]:
    plain = list(given)
    if not all(isinstance(one, (int, float, Real)) for one in plain):  # Real alone takes ten times as long
        raise BadValue(
            "the history holds something that is not a number.", expected="{item id: number}", parameter="history"
        )
    values = np.fromiter(map(float, plain), np.float64, len(plain))
    if not np.isfinite(values).all():
        raise BadValue(
            "the history holds NaN or infinity.",
            expected="finite numbers",
            fix="leave those items out",
            parameter="history",
        )
    if feedback == "counts" and (values < 0).any():
        raise BadValue("the history holds a negative count.", expected="counts of 0 or more", parameter="history")
    return values


def item_column(item: Any, items: Identifiers) -> int:
    """Column of a requested item; an error names the closest ids of the public catalog.

    Examples
    --------
    >>> item_column("heparin", Identifiers(["creatinine", "heparin"]))
    1
    """
    found = items.get(item)
    if found is None:
        raise _unknown_items([item], 1, items)
    return found


def allowed_columns(chosen: Iterable[Any] | None, items: Identifiers) -> NDArray[np.int64] | None:
    """Columns of the items to choose from, ascending; None for all.

    Examples
    --------
    >>> allowed_columns(["z", "x"], Identifiers(["x", "y", "z"])).tolist()
    [0, 2]
    """
    if chosen is None:
        return None
    if isinstance(chosen, (str, bytes)) or not isinstance(chosen, Iterable):
        raise BadParameter(
            "{parameter} is not a list of item ids.",
            found=f"a {type(chosen).__name__}",
            fix='items=["..."]',
            parameter="items",
        )
    given = list(chosen)
    places = [items.get(item) for item in given]
    if None in places:
        missing = [item for item, place in zip(given, places, strict=True) if place is None]
        raise _unknown_items(missing, len(given), items)
    return np.unique(np.array(places, dtype=np.int64))


def closest(item: object, items: Identifiers) -> list[str]:
    """Ids of the public catalog that look most like an unknown one.

    Examples
    --------
    >>> closest("creaa", Identifiers(["crea", "heparin"]))
    ['crea']
    """
    return difflib.get_close_matches(str(item), items.texts(), n=3)


def _unknown_items(missing: list[Any], asked: int, items: Identifiers) -> CatalogError:
    near = closest(missing[0], items)
    hint = f"did you mean {', '.join(near)}?" if near else "spell it as the catalog does"
    return CatalogError(
        "the catalog does not have this item." if asked == 1 else "the catalog does not have all of these items.",
        found=f"{len(missing):,} of {asked:,} unknown, the first of type {type_word(missing[0])}",
        expected=f"ids of type {items.kind} out of its {len(items):,}",
        fix=hint,
        parameter="items",
    )
