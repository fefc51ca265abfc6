"""The results folder: one small file per finished cell, written whole, and what the folder is for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from studies.reproduce.cell import Cell
from twofold import __version__
from twofold.errors import DataError, TransportError
from twofold.storage.files import write_whole

__all__ = ["Store"]

FORMAT: Final = 1
_NAME: Final = "reproduce.json"


@dataclass(frozen=True)
class Store:
    """A folder of results of one size and one version.

    Every cell has its numbers with it, so that cells of other numbers lie there unused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store.open(Path(folder), "quick")
    ...     cell = Cell(data={}, system="pooled", options={}, seed=0)
    ...     store.put(cell, {"rows": []})
    ...     store.get(cell), Store.open(Path(folder), "paper")
    Traceback (most recent call last):
    twofold.errors.DataError: the folder holds other results...
    """

    folder: Path

    @classmethod
    def open(cls, folder: Path, size: str) -> Store:
        """Make the folder, or go on with one that was begun; one with other results is refused."""
        wanted = {"format": FORMAT, "size": size, "twofold": __version__}
        path = folder / _NAME
        try:
            (folder / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TransportError(
                "the results folder cannot be made.",
                found=f"{folder.name}: {error.strerror}",
                fix="name another folder with -o",
            ) from None
        if path.exists():
            _check_same(_read(path), wanted)
        else:
            write_whole(path, json.dumps(wanted, indent=1).encode())
        return cls(folder)

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """What a finished cell gave, or None; a file that cannot be read counts as not finished."""
        path = self._path(cell)
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if found.get("cell") == json.loads(json.dumps(cell.record())) else None

    def put(self, cell: Cell, found: dict[str, Any]) -> None:
        """Keep what a cell gave."""
        write_whole(self._path(cell), json.dumps({"cell": cell.record(), **found}, indent=1).encode())

    def _path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.key}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    return found


def _check_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    differing = [name for name in wanted if found.get(name) != wanted[name]]
    if not differing:
        return
    words = {"format": "format", "size": "size", "twofold": "version of twofold"}
    raise DataError(
        "the folder holds other results.",
        found="; ".join(f"{words[name]} {str(found.get(name))[:40]}" for name in differing),
        expected="; ".join(f"{words[name]} {wanted[name]}" for name in differing),
        fix="name another folder with -o, or remove this one",
    )
