"""The frames of two clusters, Dask and Spark, as parts of whole users.

Both engines deal users out to partitions by their ids, run one pure function on each partition, and bring the results
back. They may run it twice, on another worker, or after a worker was lost: results are keyed by partition, and each is
used once. Noise is not drawn here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import polars as pl

from twofold.data.ratings import Ratings
from twofold.data.read import Reading
from twofold.data.scan import PartFunction, Result, coalesced, whole_users
from twofold.errors import DataError, TwofoldError, UnreadableSource

__all__ = ["DaskFrame", "SparkFrame", "once", "part_batches"]

#: How often Dask runs a part again whose own code failed; a lost worker does not count.
RETRIES: Final = 2


@dataclass(frozen=True, kw_only=True)
class DaskFrame:
    """A Dask DataFrame, on the client that is current or on Dask's own threads."""

    frame: Any = field(repr=False)
    parts: int | None = None
    batch_rows: int

    def run(self, reading: Reading, function: PartFunction[Result]) -> Iterator[Result]:
        """Shuffle the rows by user, and run the function on every partition."""
        _check(reading)
        dealt = self.frame[reading.columns].shuffle(on=reading.user, npartitions=self.parts)
        work = import_module("dask").delayed(_on_pandas, pure=True)
        tasks = [work(part, reading, function, self.batch_rows) for part in dealt.to_delayed()]
        return once(self._done(tasks))

    def _done(self, tasks: list[Any]) -> Iterator[tuple[int, Any]]:
        try:
            distributed: Any = import_module("distributed")
            client = distributed.get_client()
        except (ImportError, ValueError):  # no client: Dask's own threads
            yield from enumerate(import_module("dask").compute(*tasks))
            return
        futures = client.compute(tasks, retries=RETRIES)
        keys = {future.key: at for at, future in enumerate(futures)}
        try:
            for future, result in distributed.as_completed(futures, with_results=True):
                yield keys[future.key], result
        except TwofoldError:
            raise
        except Exception as error:
            raise _lost("Dask", error) from None
        finally:
            client.cancel(futures)


@dataclass(frozen=True, kw_only=True)
class SparkFrame:
    """A Spark DataFrame."""

    frame: Any = field(repr=False)
    parts: int | None = None
    batch_rows: int

    def run(self, reading: Reading, function: PartFunction[Result]) -> Iterator[Result]:
        """Repartition by user, sort within partitions, and run the function in `mapInArrow`."""
        _check(reading)
        user, rows = reading.user, self.batch_rows
        number = self.parts or max(1, self.frame.rdd.getNumPartitions())
        dealt = self.frame.select(*map(_quoted, reading.columns)).repartition(number, _quoted(user))

        def work(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow
            from pyspark import TaskContext

            frames = (pl.DataFrame(pl.from_arrow(batch)) for batch in batches)
            try:
                result: Any = function(part_batches(frames, reading, rows))
            except TwofoldError as error:  # Spark would hand on its text alone
                result = error
            task = TaskContext.get()
            key = 0 if task is None else task.partitionId()
            yield pyarrow.record_batch({"part": [key], "result": [pickle.dumps(result)]})

        ordered = dealt.sortWithinPartitions(*map(_quoted, _order(reading)))
        try:
            found = ordered.mapInArrow(work, "part long, result binary").collect()
        except Exception as error:
            raise _lost("Spark", error) from None
        return once((row["part"], pickle.loads(row["result"])) for row in found)


def once(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Give the result of every part once, whichever comes first; raise an error that came in place of one.

    Examples
    --------
    >>> list(once([(0, "a"), (1, "b"), (0, "a again")]))
    ['a', 'b']
    """
    seen: set[int] = set()
    for key, result in results:
        if isinstance(result, TwofoldError):
            raise result
        if key not in seen:
            seen.add(key)
            yield result


def part_batches(frames: Iterable[pl.DataFrame], reading: Reading, rows: int) -> Iterator[Ratings]:
    """Batches of whole users from the rows of one part, sorted by user."""
    for frame in whole_users(coalesced(frames, rows), reading.user):
        yield reading.ratings({name: frame[name] for name in reading.columns})


def _on_pandas(frame: Any, reading: Reading, function: PartFunction[Result], rows: int) -> Result:
    whole = pl.from_pandas(frame[reading.columns]).sort(*_order(reading))
    cut = (whole[start : start + rows] for start in range(0, whole.height, rows))
    return function(part_batches(cut, reading, rows))


def _order(reading: Reading) -> list[str]:
    """What a part is sorted by. Where rows of one user and item are merged, sums must not depend on the shuffle."""
    return [reading.user] if reading.duplicates == "error" else reading.columns


def _check(reading: Reading) -> None:
    if reading.duplicates == "last":
        raise DataError(
            "a cluster knows no last row: its rows have no order.",
            expected="error, sum or mean",
            fix="keep the last row of a user and item before the scan",
            parameter="duplicates",
        )


def _lost(engine: str, error: Exception) -> UnreadableSource:
    """The error for a cluster that gave up; its own text may quote rows."""
    return UnreadableSource(
        f"{engine} could not compute a part of the users; nothing was drawn.",
        found=type(error).__name__,
        expected="workers that have twofold, the files and enough memory",
        fix=f"look into {engine}'s own log, then run the same again",
        parameter="source",
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
