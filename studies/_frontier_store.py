"""Results on disk: one small Parquet per finished cell, so that a run that was stopped goes on."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from studies._frontier_settings import Grid
from twofold.errors import TransportError
from twofold.storage.files import write_whole

__all__ = ["SCHEMA", "Cell", "Store"]

#: Columns of the tidy table: one row per cell, entity and way.
SCHEMA: Final[dict[str, Any]] = {
    "data": pl.String,
    "seed": pl.Int64,
    "mechanism": pl.String,
    "noise": pl.String,
    "epsilon": pl.Float64,
    "way": pl.String,
    "entity": pl.String,
    "quarter": pl.Int64,
    "weight": pl.Float64,
    "users": pl.Int64,
    "entries": pl.Int64,
    "measured": pl.Int64,
    "ndcg": pl.Float64,
    "mean_rank": pl.Float64,
    "mse": pl.Float64,
    "gain": pl.Float64,
    "gain_error": pl.Float64,
    "chosen": pl.String,
    "note": pl.String,
    "seconds": pl.Float64,
    "settings": pl.String,
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One mechanism under one noise with one ε on one split, or a control.

    Examples
    --------
    >>> Cell(data="jester", seed=5000, mechanism="gram", noise="own", epsilon=0.1).key
    'jester.5000.gram.own.0.1'
    """

    data: str
    seed: int
    mechanism: str
    noise: str = "none"
    epsilon: float = float("inf")

    @property
    def key(self) -> str:
        """Name of its file."""
        parts = (self.data, str(self.seed), self.mechanism, self.noise, f"{self.epsilon:g}")
        return ".".join(parts).replace(" ", "-")


@dataclass(frozen=True)
class Store:
    """A folder of cells. A cell that was made with other settings counts as not finished."""

    folder: Path
    grid: Grid

    def get(self, cell: Cell) -> pl.DataFrame | None:
        """What a finished cell gave, or None."""
        found = _read(self._path(cell))
        if found is None:
            return None
        return found if (found["settings"] == self._settings(cell.data)).all() else None

    def put(self, cell: Cell, rows: Sequence[dict[str, Any]]) -> None:
        """Keep what a cell gave, whole or not at all."""
        same = {**asdict(cell), "settings": self._settings(cell.data)}
        frame = pl.DataFrame([{**row, **same} for row in rows], schema=SCHEMA)
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        try:
            self._path(cell).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TransportError(
                "the results folder cannot be made.",
                found=f"{self.folder.name}: {error.strerror}",
                fix="name another folder with -o",
            ) from None
        write_whole(self._path(cell), buffer.getvalue())

    def all(self) -> pl.DataFrame:
        """Every finished cell of these settings in one tidy table."""
        frames = [_read(path) for path in sorted((self.folder / "cells").glob("*.parquet"))]
        known = {one.name: self._settings(one.name) for one in self.grid.data}
        kept = [one for one in frames if one is not None and known.get(one["data"][0]) == one["settings"][0]]
        return pl.concat(kept) if kept else pl.DataFrame(schema=SCHEMA)

    def _path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.key}.parquet"

    def _settings(self, data: str) -> str:
        """What figures depend on, in short; other mechanisms beside do not matter."""
        record = {key: value for key, value in asdict(self.grid.of(data)).items() if key not in ("releases", "title")}
        record |= {"honest": self.grid.honest_share, "scale": self.grid.size.name}
        text = json.dumps(record, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read(path: Path) -> pl.DataFrame | None:
    """A cell's rows; None where the file is missing, damaged or of another format."""
    try:
        found = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError):
        return None
    return found if found.columns == list(SCHEMA) and found.height else None
