"""Run one task per entity: in sequence, on threads, or on any executor of the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from twofold.algorithms._jit import Workers
from twofold.errors import BadParameter, TwofoldError
from twofold.progress import heard, nobody

__all__ = ["WorkerPool", "run_each"]

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class WorkerPool:
    """An executor, or None for one entity after another, and the number of threads of each entity."""

    executor: Executor | None
    inner: int

    @classmethod
    @contextmanager
    def of(cls, executor: Executor | None, threads: int | None, n_entities: int) -> Iterator[WorkerPool]:
        """Share the processors between entities, so that threads inside and outside do not multiply.

        Examples
        --------
        >>> with WorkerPool.of(None, 8, 3) as pool:
        ...     pool.inner
        2
        """
        if executor is not None:
            _check_executor(executor)
            yield cls(executor=executor, inner=Workers(threads or 1).threads)
            return
        total = Workers(threads).threads
        outer = min(total, n_entities)
        if outer == 1:
            yield cls(executor=None, inner=total)
            return
        with ThreadPoolExecutor(outer, thread_name_prefix="twofold-entity") as pool:
            yield cls(executor=pool, inner=total // outer)


def _check_executor(executor: Any) -> None:
    if not callable(getattr(executor, "submit", None)):
        raise BadParameter(
            "this is not an {parameter}.",
            found=f"a {type(executor).__name__}",
            expected="a concurrent.futures.Executor; for Dask, Client(...).get_executor()",
            parameter="executor",
        )


def run_each(
    task: Callable[..., Result],
    arguments: Mapping[str, tuple[Any, ...]],
    *,
    executor: Executor | None,
    done: Callable[[int], object] | None = None,
) -> dict[str, Result]:
    """Call a task for every entity, and only then raise the first failure, with the entity's name.

    Parameters
    ----------
    task : callable
        A function of a module, so that it can be sent to another process.
    arguments : mapping
        Entity name to the task's arguments; started in this order.
    executor : Executor, optional
        None calls them here, one after the other.
    done : callable
        Told how many are finished, always from the calling thread.

    Notes
    -----
    One failing entity does not stop the others: with ledgers their releases are paid for and stored by then, and the
    next run hands them out again for nothing.

    Examples
    --------
    >>> run_each(pow, {"north": (2, 3), "south": (2, 4)}, executor=None)
    {'north': 8, 'south': 16}
    """
    results: dict[str, Result] = {}
    failed: dict[str, Exception] = {}
    for name, outcome in _outcomes(task, arguments, executor):
        try:
            results[name] = outcome()
        except Exception as error:
            failed[name] = error
        if done is not None:
            done(len(results) + len(failed))
    if failed:
        raise _named(failed, first=next(name for name in arguments if name in failed))
    return {name: results[name] for name in arguments}


def _outcomes(
    task: Callable[..., Result], arguments: Mapping[str, tuple[Any, ...]], executor: Executor | None
) -> Iterator[tuple[str, Callable[[], Result]]]:
    if executor is None:
        for name, given in arguments.items():
            yield name, lambda given=given: _unheard(task, given)  # type: ignore[misc]
        return
    futures: dict[Future[Result], str] = {executor.submit(task, *given): name for name, given in arguments.items()}
    try:
        for future in as_completed(list(futures)):
            yield futures.pop(future), future.result
    finally:
        for future in futures:  # Ctrl-C: what has not begun never begins
            future.cancel()


def _unheard(task: Callable[..., Result], given: tuple[Any, ...]) -> Result:
    """Call a task as another thread would: what is inside one of many entities is not told."""
    with heard(nobody):
        return task(*given)


def _named(failed: Mapping[str, Exception], *, first: str) -> Exception:
    """Give the first failure the name of its entity, and say how many others there were."""
    error = failed[first]
    more = f" ({len(failed) - 1} other entities failed too)" if len(failed) > 1 else ""
    if not isinstance(error, TwofoldError):
        error.add_note(f"in entity {first}{more}")
        return error
    named = error.as_(type(error), summary=f"entity {first}: {error.parts['summary']}{more}")
    named.__cause__ = error
    return named
