"""Export a model: recommendations for many users in blocks, and its numbers as .npz or .parquet."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source
from scipy import sparse

from twofold.algorithms._jit import Workers, one_blas_thread
from twofold.algorithms.top_items import TopItems, top_items, top_scores
from twofold.csr import row_range
from twofold.data.catalog import Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.stack import StackScorer
from twofold.errors import BadIdentifier, BadParameter, TransportError
from twofold.progress import listening
from twofold.storage.files import write_whole

if TYPE_CHECKING:
    from twofold.entity.model import Model

__all__ = ["BLOCK", "Everyone", "export_model", "id_array", "parquet_path", "row_block", "user_blocks", "write_parquet"]

#: Users whose lists are made before they are handed on.
BLOCK = 16_384
#: Bytes of scores a thread holds at once.
SCORE_BYTES = 1 << 22

Positions = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Everyone:
    """The input of lists for many users.

    Parameters
    ----------
    scorer : Scorer
        The local model.
    rows : csr array (users, items)
        Histories, cut to the plan's bounds.
    cold_start : array (items,)
        Scores of a history without information.
    user_ids, item_ids : Identifiers
        Ids of rows and columns.
    user_factors : array (users, rank), optional
        If they are already known.
    """

    scorer: Scorer
    rows: sparse.csr_array
    cold_start: NDArray[np.float32]
    user_ids: Identifiers
    item_ids: Identifiers
    user_factors: NDArray[np.float32] | None = None

    def frames(
        self,
        n: int,
        users: Positions,
        *,
        exclude_seen: bool,
        allowed: Positions | None,
        block: int,
        threads: int | None,
    ) -> Iterator[pl.DataFrame]:
        """Give one frame per block of users: user, rank, item, score."""
        names, items = id_series(self.user_ids), id_series(self.item_ids)
        tell = listening()  # a table that is written asks for the frames from a thread of its own

        def made() -> Iterator[pl.DataFrame]:
            for start in range(0, len(users), block):
                chosen = users[start : start + block]
                found = self.top(n, chosen, exclude_seen=exclude_seen, allowed=allowed, threads=threads)
                yield _frame(found, chosen, names, items)
                tell("people", min(start + block, len(users)), len(users))

        return made()

    def schema(self) -> dict[str, Any]:
        """Names and types of the columns."""
        users, items = id_series(self.user_ids).dtype, id_series(self.item_ids).dtype
        return {"user": users, "rank": pl.Int32, "item": items, "score": pl.Float32}

    def top(
        self, n: int, users: Positions, *, exclude_seen: bool, allowed: Positions | None, threads: int | None = None
    ) -> TopItems:
        """Find the best columns of the users in these rows; -1 fills a short list."""
        rows = row_block(self.rows, users)
        seen = rows if exclude_seen else None
        n = min(n, self.scorer.n_items)
        if isinstance(self.scorer, FactorScorer):
            return self._by_factors(n, users, rows, seen, allowed, threads)
        return self._by_scores(n, rows, seen, allowed, threads)

    def _by_factors(
        self,
        n: int,
        users: Positions,
        rows: sparse.csr_array,
        seen: sparse.csr_array | None,
        allowed: Positions | None,
        threads: int | None,
    ) -> TopItems:
        assert isinstance(self.scorer, FactorScorer)
        known = self.user_factors
        factors = self.scorer.user_factors(rows) if known is None else known[users]
        items, scores = top_items(factors, self.scorer.factors, n, exclude=seen, allowed=allowed, threads=threads)
        silent = np.flatnonzero(~factors.any(axis=1))
        for start in range(0, silent.size, self._part):
            some = silent[start : start + self._part]
            lines = np.broadcast_to(self.cold_start, (some.size, self.cold_start.size))
            items[some], scores[some] = top_scores(
                lines, n, exclude=None if seen is None else seen[some], allowed=allowed
            )
        return TopItems(items, scores)

    def _by_scores(
        self,
        n: int,
        rows: sparse.csr_array,
        seen: sparse.csr_array | None,
        allowed: Positions | None,
        threads: int | None,
    ) -> TopItems:
        n_users = int(rows.shape[0])
        items, scores = np.full((n_users, n), -1, np.intp), np.full((n_users, n), -np.inf, np.float32)

        def fill(part: int) -> None:
            span = np.arange(part * self._part, min(n_users, (part + 1) * self._part))
            some = row_block(rows, span)
            lines = np.asarray(self.scorer.scores(some), dtype=np.float32)
            lines[~lines.any(axis=1) | (np.diff(some.indptr) == 0)] = self.cold_start
            items[span], scores[span] = top_scores(lines, n, exclude=None if seen is None else some, allowed=allowed)

        with Workers(threads) as workers, one_blas_thread():
            workers.run(fill, -(-n_users // self._part))
        return TopItems(items, scores)

    @property
    def _part(self) -> int:
        """Users scored at once, by public sizes only."""
        return max(16, min(4096, SCORE_BYTES // (4 * self.scorer.n_items)))


def row_block(rows: sparse.csr_array, users: Positions) -> sparse.csr_array:
    """Give some rows; neighbours without copying their entries.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]))
    >>> row_block(rows, np.array([1, 2])).toarray().tolist(), row_block(rows, np.array([2, 0])).toarray().tolist()
    ([[0.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [1.0, 0.0]])
    """
    if users.size == 0 or users[-1] - users[0] != users.size - 1 or (np.diff(users) != 1).any():
        return sparse.csr_array(rows[users])
    return row_range(rows, users[0], users[-1] + 1)


def user_blocks(batches: Iterable[Ratings], size: int) -> Iterator[Ratings]:
    """Cut batches of users anew, into blocks of one size: scores do not depend on how a scan was cut.

    Examples
    --------
    >>> some = Ratings.from_matrix(sparse.csr_array(np.eye(4)))
    >>> [list(one.user_ids) for one in user_blocks([some.take([0]), some.take([1, 2]), some.take([3])], 3)]
    [[0, 1, 2], [3]]
    """
    held: list[Ratings] = []
    given = False
    for batch in batches:
        held.append(batch)
        while sum(one.n_users for one in held) >= size:
            together = _stacked(held)
            given = True
            yield together.take(np.arange(size))
            held = [together.take(np.arange(size, together.n_users))]
    if held and (held[-1].n_users or len(held) > 1 or not given):
        yield _stacked(held)


def _stacked(parts: list[Ratings]) -> Ratings:
    filled = [one for one in parts if one.n_users] or parts[:1]
    matrix = sparse.csr_array(sparse.vstack([one.matrix for one in filled], format="csr"))
    matrix.has_canonical_format = True
    ids = pl.concat([one.user_ids.to_polars() for one in filled])
    return Ratings(matrix, Identifiers(ids), parts[0].catalog, parts[0].feedback)


def id_series(ids: Identifiers) -> pl.Series:
    """Ids as a column of their type; as text if a table has no type for them.

    Examples
    --------
    >>> id_series(Identifiers([3, 5])).dtype, id_series(Identifiers([(1, "a")])).to_list()
    (Int64, ["(1, 'a')"])
    """
    series = ids.to_polars()
    return pl.Series(ids.texts(), dtype=pl.String) if series.dtype == pl.Object else series


def _frame(found: TopItems, users: Positions, names: pl.Series, items: pl.Series) -> pl.DataFrame:
    there = found.items >= 0
    rank = np.broadcast_to(np.arange(1, there.shape[1] + 1, dtype=np.int32), there.shape)
    who = np.broadcast_to(users[:, None], there.shape)
    columns = [
        names.gather(pl.Series(who[there])).alias("user"),
        pl.Series("rank", rank[there]),
        items.gather(pl.Series(found.items[there])).alias("item"),
        pl.Series("score", found.scores[there]),
    ]
    return pl.DataFrame(columns)


def parquet_path(path: str | PathLike[str]) -> Path:
    """Refuse a name without the ending of a Parquet file."""
    target = Path(path)
    if target.suffix not in (".parquet", ".pq"):
        raise BadParameter(
            "recommendations for everyone are written as Parquet.",
            found=f"a name that ends in {target.suffix or 'nothing'!r}",
            expected="a name that ends in .parquet",
            parameter="path",
        )
    return target


def write_parquet(frames: Iterator[pl.DataFrame], schema: dict[str, Any], path: Path) -> None:
    """Stream frames into one Parquet file, completely or not at all; only its owner may read it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "lists.parquet"
    ...     write_parquet(iter([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})]), {"a": pl.Int64}, path)
    ...     pl.read_parquet(path)["a"].to_list()
    [1, 2]
    """
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        lazy = register_io_source(lambda *_: frames, schema=schema)
        # An open file, not its name: threads of polars outlive a failure, and would create the file again.
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as output:
            lazy.sink_parquet(output, engine="streaming")
            os.fsync(output.fileno())
        temporary.replace(path)
    except (OSError, pl.exceptions.ComputeError) as error:
        raise TransportError(
            f"{path.name} cannot be written.",
            found=getattr(error, "strerror", None) or type(error).__name__,
            fix="check the folder, its permissions and its free space; no partial file remains",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def export_model(model: Model, path: str | PathLike[str], *, what: Literal["items", "users"] = "items") -> Path:
    """Write item factors, item-item weights or user factors, completely or not at all, for the owner only.

    Parameters
    ----------
    model : Model
        Either kind; only a model of factors has user factors.
    path : path
        Ends in .npz: arrays ``items`` with ``item_factors``, or with ``weights`` (entry (j, i): what a unit of item j
        adds to item i) and ``means``; or ``users`` with ``user_factors``. Ends in .parquet: the same as a table, a row
        per item or user, columns ``factor_1`` ... or ``weight_to_1`` ... in the order of the catalog. Sparse weights
        are those into an item, with the positions of their ``sources``: a list per item, or arrays and their ``ends``.
        A stack adds ``use`` (its logarithm), ``use_weight`` and ``taste_weight`` to what its other model has.
    what : {"items", "users"}
        Which side. Users are written only on request.

    Privacy
    -------
    Both were fitted to the entity's own data without noise: keep them where the data is.
    """
    target = Path(path)
    if what not in ("items", "users"):
        raise BadParameter("the argument 'what' is unknown.", found=f"{what!r:.40}", expected="'items' or 'users'")
    writers = {".npz": _npz, ".parquet": _parquet, ".pq": _parquet}
    if target.suffix not in writers:
        raise BadParameter(
            "a model is exported as .npz or .parquet.",
            found=f"a name that ends in {target.suffix or 'nothing'!r}",
            fix="model.save(path) keeps the whole model",
            parameter="path",
        )
    ids, arrays = (model.catalog.items, _items(model.scorer)) if what == "items" else _users(model)
    write_whole(target, writers[target.suffix](ids, what, arrays), mode=0o600)
    return target


def _items(scorer: Scorer) -> dict[str, NDArray[Any]]:
    if isinstance(scorer, StackScorer):
        use, taste = scorer.weights
        inner = {} if scorer.inner is None else {"taste_weight": np.array(taste), **_items(scorer.inner)}
        return {"use": scorer.use, "use_weight": np.array(use), **inner}
    if isinstance(scorer, ItemItemScorer):
        return {"weights": scorer.weights.apply(np.eye(scorer.n_items, dtype=np.float32)), "means": scorer.means}
    names = {"factors": "item_factors"}
    return {names.get(name, name): part for name, part in scorer.arrays().items()}


def _users(model: Model) -> tuple[Identifiers, dict[str, NDArray[Any]]]:
    return model.history.user_ids, {"user_factors": model.user_factors}


def _npz(ids: Identifiers, name: str, arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: id_array(ids)}, **arrays)
    return buffer.getvalue()


def _parquet(ids: Identifiers, name: str, arrays: dict[str, NDArray[Any]]) -> bytes:
    columns = [id_series(ids).alias(name.removesuffix("s"))]
    ends = arrays.get("ends")  # of sparse weights: a list per item
    for part, values in arrays.items():
        if ends is not None and part in ("sources", "weights"):
            kind = pl.List(pl.Int64 if values.dtype.kind == "i" else pl.Float32)
            lists = [one.tolist() for one in np.split(values, ends[:-1])]
            columns.append(pl.Series(part.removesuffix("s"), lists, dtype=kind))
        elif part == "ends":
            continue
        elif values.ndim == 0:  # the same for every item
            columns.append(pl.Series(part, np.full(len(ids), values)))
        elif values.ndim == 1:
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
