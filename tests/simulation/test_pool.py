"""One task per entity: all of them run, errors carry a name, threads do not multiply."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from tests.refused import refused
from twofold.algorithms._jit import Workers, at_most_threads
from twofold.errors import BadParameter, BudgetExceeded, Set
from twofold.simulation.workers import WorkerPool, run_each

finished: list[int] = []


def triple(number: int) -> int:
    if number < 0:
        raise BudgetExceeded("too much.", found="ε 2", expected="ε 1", fix=Set("epsilon", 1), parameter="epsilon")
    if number == 0:
        raise RuntimeError("zero")
    finished.append(number)
    return 3 * number


@pytest.fixture(params=["here", "threads"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    finished.clear()
    if request.param == "here":
        yield None
        return
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_results_come_in_the_order_asked_for(executor: Executor | None) -> None:
    told: list[int] = []
    assert list(run_each(triple, {"b": (2,), "a": (1,)}, executor=executor, done=told.append).items()) == [
        ("b", 6),
        ("a", 3),
    ]
    assert told == [1, 2]


def test_a_failure_names_its_entity_after_the_others_finished(executor: Executor | None) -> None:
    with refused(BudgetExceeded, "epsilon", "entity b: ") as caught:
        run_each(triple, {"b": (-1,), "a": (1,), "c": (5,)}, executor=executor)
    assert sorted(finished) == [1, 5]
    assert caught.value.parts == caught.value.__cause__.parts | {"summary": "entity b: too much."}
    assert (caught.value.found, caught.value.expected, caught.value.parameter) == ("ε 2", "ε 1", "epsilon")


def test_several_failures_are_counted(executor: Executor | None) -> None:
    with refused(BudgetExceeded, "epsilon", "entity a: ", "1 other"):
        run_each(triple, {"a": (-1,), "b": (0,)}, executor=executor)


def test_a_foreign_error_stays_itself_with_a_note(executor: Executor | None) -> None:
    with pytest.raises(RuntimeError, match="zero") as caught:
        run_each(triple, {"a": (0,)}, executor=executor)
    assert caught.value.__notes__ == ["in entity a"]


def test_an_interrupt_is_not_swallowed() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_each(stop, {"a": (), "b": ()}, executor=None)


@pytest.mark.parametrize(
    ("threads", "entities", "pool", "inner"), [(1, 5, False, 1), (4, 1, False, 4), (4, 9, True, 1), (9, 3, True, 3)]
)
def test_threads_outside_times_inside_is_what_was_given(threads: int, entities: int, pool: bool, inner: int) -> None:
    with WorkerPool.of(None, threads, entities) as workers:
        assert ((workers.executor is not None), workers.inner) == (pool, inner)


def test_a_task_on_a_given_executor_has_one_thread_unless_told() -> None:
    with ThreadPoolExecutor(1) as given:
        with WorkerPool.of(given, None, 9) as workers:
            assert (workers.executor, workers.inner) == (given, 1)
        with WorkerPool.of(given, 3, 9) as workers:
            assert workers.inner == 3


def test_something_that_cannot_submit_is_refused() -> None:
    with pytest.raises(BadParameter) as caught, WorkerPool.of("dask", None, 2):  # type: ignore[arg-type]
        pass
    assert caught.value.parameter == "executor"


def test_the_limit_reaches_every_kernel_and_ends_with_its_block() -> None:
    with at_most_threads(2):
        assert (Workers(8).threads, Workers(1).threads) == (2, 1)
    assert Workers(8).threads == 8
