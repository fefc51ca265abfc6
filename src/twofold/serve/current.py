"""The model that is served now, and its file: a new file is loaded beside it and takes its place at once.

A file that cannot be read, is not a model, or is another entity's, changes nothing but the health of the service: the
old model goes on answering. Files are compared by inode, size and time, so that a copy that is still being written is
tried again when it is whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from twofold.data.catalog import Catalog
from twofold.entity.model import Model
from twofold.errors import PlanMismatch, TransportError, TwofoldError
from twofold.serve.answers import Answers, titles_of

__all__ = ["Current"]

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Current:
    """The served model; `answers` is replaced as a whole, so that one request sees one model.

    Parameters
    ----------
    path : path
        A file of `Model.save`.
    catalog : path, optional
        The item list with a column of titles; read again with every model. By default items.csv beside the model, if it
        is the model's item list.
    clock : callable
        Gives seconds since 1970, for tests.

    Raises
    ------
    BadModel, TransportError, PlanMismatch
        The first file is not a model that can be served.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        catalog: str | PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path, self._clock, self._named = Path(path), clock, catalog is not None
        self.catalog = self.path.parent / "items.csv" if catalog is None else Path(catalog)
        self._stamp = self._look()
        self.answers = self._load(1)
        self.loaded_at, self.failures = clock(), 0
        self.problem: TwofoldError | None = None

    def refresh(self) -> bool:
        """Load the file if it changed since the last look; whether another model is served now."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            found = self._load(self.answers.generation + 1)
        except TwofoldError as error:
            return self._failed(error)
        except (OSError, MemoryError) as error:
            return self._failed(TransportError(f"{self.path.name} cannot be loaded.", found=type(error).__name__))
        self.answers, self.problem, self.loaded_at = found, None, self._clock()
        return True

    def _failed(self, error: TwofoldError) -> bool:
        self.problem = error
        self.failures += 1
        return False

    def health(self) -> dict[str, Any]:
        """Say which model answers, and what is wrong with the file if it is not the one there; for anybody."""
        problem = self.problem
        told = None if problem is None else {"error": type(problem).__name__, "summary": problem.summary}
        return {
            "status": "ok" if problem is None else "stale",
            "generation": self.answers.generation,
            "loaded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.loaded_at)),
            "problem": told,
        }

    def _look(self) -> _Stamp:
        return tuple(_stamp_of(one) for one in (self.path, self.catalog))

    def _load(self, generation: int) -> Answers:
        model = Model.load(self.path)
        if generation > 1 and model.entity != self.answers.model.entity:
            raise PlanMismatch(
                f"{self.path.name} is a model of another entity.",
                expected="a model of the entity that is served; or start the service anew",
                parameter="model",
            )
        return Answers(model, titles=self._titles(model), generation=generation)

    def _titles(self, model: Model) -> pl.Series | None:
        if not self._named and not self.catalog.is_file():
            return None
        try:
            return titles_of(Catalog.read(self.catalog), model)
        except TwofoldError:
            if self._named:
                raise
            return None  # another file of that name


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    """What changes whenever a file is replaced or written; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)
