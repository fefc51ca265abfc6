"""Cells, the smallest pieces of work, and the folder of their results: one small file each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from twofold import __version__
from twofold.errors import DataError, TransportError
from twofold.storage.files import write_whole

__all__ = ["Cell", "Found", "Store"]

FORMAT: Final = 2
_NAME: Final = "results.json"
Task = Literal["fit", "objective", "frontier", "adaptation", "mechanisms", "compare"]
#: What a cell gave, as plain JSON.
Found = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run: one system on one data set with one seed. Studies that need the same cell share it.

    Parameters
    ----------
    data : mapping
        As for `studies.case.load_case`: name of the source under "source", and its options.
    system : str
        A system of the registry, a mechanism, or another way of the study.
    options : mapping
        Public options of the system, and of the study.
    seed : int
        Of everything that is drawn.
    feedback : {"counts", "ratings"}
        What absent entries mean.
    task : {"fit", "objective", "frontier", "adaptation", "mechanisms", "compare"}
        What is done with it: fit and measure a recommender, judge prototypes by their k-means objective, or what the
        study of that name does.

    Examples
    --------
    >>> one = Cell(data={"source": "hospitals"}, system="pooled", options={"rank": 2}, seed=0)
    >>> one.key == Cell(data={"source": "hospitals"}, system="pooled", options={"rank": 2}, seed=0).key
    True
    """

    data: Mapping[str, Any] = field(hash=False)
    system: str
    options: Mapping[str, Any] = field(hash=False)
    seed: int
    feedback: Literal["counts", "ratings"] = "counts"
    task: Task = "fit"

    def record(self) -> dict[str, Any]:
        """Everything, as plain JSON."""
        return {
            "data": dict(self.data),
            "system": self.system,
            "options": dict(self.options),
            "seed": self.seed,
            "feedback": self.feedback,
            "task": self.task,
        }

    @property
    def key(self) -> str:
        """Name of its file: equal work has an equal key."""
        text = json.dumps(self.record(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Store:
    """A folder of results of one study, one size and one version.

    Every cell has its numbers with it, so that cells of other numbers stay there unused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store.open(Path(folder), "reproduce", "quick")
    ...     cell = Cell(data={}, system="pooled", options={}, seed=0)
    ...     store.put(cell, {"rows": []})
    ...     store.get(cell), Store.open(Path(folder), "reproduce", "paper")
    Traceback (most recent call last):
    twofold.errors.DataError: the folder holds other results...
    """

    folder: Path

    @classmethod
    def open(cls, folder: Path, study: str, size: str) -> Store:
        """Create the folder, or continue with one that was begun; refuse one with other results."""
        wanted = {"format": FORMAT, "study": study, "size": size, "twofold": __version__}
        path = folder / _NAME
        try:
            (folder / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TransportError(
                "the results folder cannot be created.",
                found=f"{folder.name}: {error.strerror}",
                fix="name another folder with -o",
            ) from None
        if path.exists() or any((folder / "cells").iterdir()):  # earlier versions kept cells under other names
            _check_same(_read(path) or {}, wanted)
        else:
            write_whole(path, json.dumps(wanted, indent=1).encode())
        return cls(folder)

    def get(self, cell: Cell) -> Found | None:
        """The result of a finished cell, or None; an unreadable file counts as not finished."""
        found = _read(self._path(cell))
        return found if found and found.get("cell") == json.loads(json.dumps(cell.record())) else None

    def put(self, cell: Cell, found: Found) -> None:
        """Store the result of a cell."""
        write_whole(self._path(cell), json.dumps({"cell": cell.record(), **found}, indent=1).encode())

    def all(self) -> Iterator[Found]:
        """The result of every finished cell, with its record under "cell"."""
        found = (_read(path) for path in sorted((self.folder / "cells").glob("*.json")))
        return (one for one in found if one and "cell" in one)

    def _path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.key}.json"


def _read(path: Path) -> Found | None:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _check_same(found: Found, wanted: Found) -> None:
    differing = [name for name in wanted if found.get(name) != wanted[name]]
    if not differing:
        return
    words = {"twofold": "version of twofold"}
    raise DataError(
        "the folder holds other results.",
        found="; ".join(f"{words.get(name, name)} {str(found.get(name))[:40]}" for name in differing),
        expected="; ".join(f"{words.get(name, name)} {wanted[name]}" for name in differing),
        fix="name another folder with -o, or remove this one",
    )
