"""The numbers of a model for other programs: .npz or .parquet, with ids, without pickle."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.data.identifiers import Identifiers
from twofold.entity.item_item import ItemItemScorer
from twofold.entity.recommend_everyone import id_series
from twofold.errors import BadIdentifier, BadParameter
from twofold.protocol.files import write_whole

if TYPE_CHECKING:
    from twofold.entity.model import Model

__all__ = ["export_model", "id_array"]


def export_model(model: Model, path: str | PathLike[str], *, what: Literal["items", "users"] = "items") -> Path:
    """Write item factors or item-item weights, or user factors, whole or not at all, readable by the owner only.

    Parameters
    ----------
    model : Model
        Either kind; only a model of factors has user factors.
    path : path
        Ends in .npz: arrays ``items`` with ``item_factors``, or with ``weights`` (entry (j, i): what a unit of item j
        adds to item i) and ``means``; or ``users`` with ``user_factors``. Ends in .parquet: the same as a table, a row
        per item or user, columns ``factor_1`` ... or ``weight_to_1`` ... in the order of the catalog.
    what : {"items", "users"}
        Which side. Users are never written unless asked for.

    Privacy
    -------
    Both were fitted to the entity's own data without noise: keep them where the data is.
    """
    target = Path(path)
    if what not in ("items", "users"):
        raise BadParameter("what is unknown.", found=f"{what!r:.40}", expected="'items' or 'users'")
    writers = {".npz": _npz, ".parquet": _parquet, ".pq": _parquet}
    if target.suffix not in writers:
        raise BadParameter(
            "a model is exported as .npz or .parquet.",
            found=f"a name that ends in {target.suffix or 'nothing'!r}",
            fix="model.save(path) keeps the whole model",
        )
    ids, arrays = _items(model) if what == "items" else _users(model)
    write_whole(target, writers[target.suffix](ids, what, arrays), mode=0o600)
    return target


def _items(model: Model) -> tuple[Identifiers, dict[str, NDArray[Any]]]:
    if isinstance(model.scorer, ItemItemScorer):
        whole = model.scorer.weights.apply(np.eye(model.scorer.n_items, dtype=np.float32))
        return model.catalog.items, {"weights": whole, "means": model.scorer.means}
    names = {"factors": "item_factors"}
    arrays = {names.get(name, name): part for name, part in model.scorer.arrays().items()}
    return model.catalog.items, arrays


def _users(model: Model) -> tuple[Identifiers, dict[str, NDArray[Any]]]:
    return model.history.user_ids, {"user_factors": model.user_factors}


def _npz(ids: Identifiers, name: str, arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: id_array(ids)}, **arrays)
    return buffer.getvalue()


def _parquet(ids: Identifiers, name: str, arrays: dict[str, NDArray[Any]]) -> bytes:
    columns = [id_series(ids).alias(name.removesuffix("s"))]
    for part, values in arrays.items():
        if values.ndim == 1:
            columns.append(pl.Series(part.removesuffix("s"), values))
        else:
            word = "weight_to" if part == "weights" else "factor"
            columns += [pl.Series(f"{word}_{at + 1}", values[:, at]) for at in range(values.shape[1])]
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def id_array(ids: Identifiers) -> NDArray[Any]:
    """Ids as an array without objects: 64-bit integers where they are integers, else text.

    Examples
    --------
    >>> id_array(Identifiers(["b", "a"])), id_array(Identifiers([7, 2]))
    (array(['b', 'a'], dtype='<U1'), array([7, 2]))
    """
    series = ids.to_polars()
    if series.dtype.is_integer() and series.dtype not in (pl.Int128, pl.UInt128):
        return series.to_numpy()
    texts = ids.texts()
    array = np.array(texts, dtype=np.str_)
    if array.tolist() != texts:  # NumPy drops zero characters at the end of a text
        raise BadIdentifier("an id ends in a zero character, which .npz cannot hold.", fix="export to .parquet")
    return array
