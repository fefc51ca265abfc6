"""Messages in, item factors out: the same bytes in any order, and nothing from strangers."""

from __future__ import annotations

import errno
import itertools
import os
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from tests.totals import totals_of
from twofold.errors import (
    BadMessage,
    BadParameter,
    ConflictingMessage,
    NotForRealUse,
    PlanMismatch,
    TooFewMessages,
    TransportError,
)
from twofold.federation.factors import ItemFactors, encode_factors
from twofold.federation.messages import decode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.server import Server
from twofold.server.factorize import Arrived, arrived, differing, factorize_moments, signed, spilled

MakePlan = Callable[..., Plan]
MakeMessage = Callable[..., bytes]

STACKED = {"mechanism": "kmeans"}
ADDED = {"mechanism": "buckets", "epsilon": 8}


@pytest.fixture(params=["counts", "ratings"])
def feedback(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[STACKED, ADDED], ids=["stacked", "added up"])
def plan(request: pytest.FixtureRequest, make_plan: MakePlan, feedback: str) -> Plan:
    return make_plan(feedback=feedback, n_entities=3, **request.param)


@pytest.fixture
def messages(plan: Plan, make_message: MakeMessage) -> list[bytes]:
    return [make_message(plan, number) for number in range(3)]


def published(plan: Plan, messages: Any, **options: Any) -> bytes:
    return encode_factors(Server(plan, **options).factorize(messages), plan)


def test_any_order_any_form_and_any_threads_give_identical_bytes(
    plan: Plan, messages: list[bytes], tmp_path: Path
) -> None:
    expected = published(plan, messages)
    for order in itertools.permutations(messages):
        assert published(plan, order) == expected
    paths = [tmp_path / f"{number}.round1" for number in range(3)]
    for path, data in zip(paths, messages, strict=True):
        path.write_bytes(data)
    decoded = [decode_release(data, plan) for data in messages]
    assert published(plan, iter(paths[::-1]), threads=1) == expected
    assert published(plan, [str(paths[2]), decoded[0], messages[1]], threads=2) == expected


def test_streaming_gives_identical_bytes_in_any_order(plan: Plan, messages: list[bytes]) -> None:
    expected = published(plan, messages, memory_limit=1)
    for order in itertools.permutations(messages):
        assert published(plan, order, memory_limit=1) == expected
    near = Server(plan, memory_limit=1).factorize(messages)
    inside = Server(plan).factorize(messages)
    np.testing.assert_allclose(near.means, inside.means, rtol=1e-12)
    np.testing.assert_allclose(near.support, inside.support, rtol=1e-12)
    pairs = [one.factors @ one.moments @ one.factors.T for one in (near, inside)]
    assert np.linalg.norm(pairs[0] - pairs[1]) < 0.15 * np.linalg.norm(pairs[1])


@pytest.mark.parametrize("mechanism", ["gram", "sketch"])
def test_sums_give_identical_bytes_in_any_order_form_and_memory(
    make_plan: MakePlan, make_message: MakeMessage, feedback: str, mechanism: str, tmp_path: Path
) -> None:
    plan = make_plan(feedback=feedback, mechanism=mechanism, n_entities=3)
    messages = [make_message(plan, number) for number in range(3)]
    contents = [decode_release(data, plan).content for data in messages]
    moments = plan.release_mechanism.combine(contents, plan.parameters)
    inside = signed(factorize_moments(moments, plan), plan, entities=3, sound=False)
    paths = [tmp_path / f"{number}" for number in range(3)]
    for path, data in zip(paths, messages, strict=True):
        path.write_bytes(data)
    for order in itertools.permutations(paths):
        assert published(plan, order) == encode_factors(inside, plan)
    assert published(plan, iter(messages), memory_limit=1, scratch=tmp_path) == encode_factors(inside, plan)


def test_one_message_of_sums_is_decoded_at_a_time(
    make_plan: MakePlan, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(mechanism="gram", n_entities=8)
    taken = arrived([make_message(plan, number) for number in range(8)], plan, spilled(Path, 1 << 30))
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    counts, honest = [], Arrived.load

    def counted(one: Arrived, given: Plan) -> Any:
        message = honest(one, given)
        alive.add(message.content)
        counts.append(len(alive))
        return message

    monkeypatch.setattr(Arrived, "load", counted)
    Server(plan).factorize_arrived(taken)
    assert len(counts) == 2 * 8
    assert max(counts) == 1


def test_a_message_that_changes_between_two_readings_is_refused(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan(mechanism="gram", n_entities=3)
    taken = arrived([make_message(plan, number) for number in range(3)], plan, spilled(Path, 1 << 30))
    honest, other = taken[1].read(), make_message(plan, 1, seed=5)
    assert Server(plan).factorize_arrived(taken).entities == 3
    for answers in ([other], [honest, other]):
        changed = [taken[0], replace(taken[1], read=iter(answers).__next__), taken[2]]
        with refused(BadMessage, "messages", found=taken[1].entity, expected=taken[1].receipt[:12]):
            Server(plan).factorize_arrived(changed)


def test_the_same_bytes_twice_count_once(plan: Plan, messages: list[bytes]) -> None:
    assert published(plan, [*messages, messages[1]]) == published(plan, messages)


def test_two_different_messages_of_one_entity_are_a_conflict(
    plan: Plan, messages: list[bytes], make_message: MakeMessage
) -> None:
    other = make_message(plan, 1, seed=77)
    with refused(ConflictingMessage, "entity", found="site-1"):
        Server(plan).factorize([*messages, other])


def test_what_the_factors_say_of_themselves(plan: Plan, messages: list[bytes]) -> None:
    factors = Server(plan).factorize(messages)
    assert (factors.plan, factors.catalog, factors.entities) == (plan.hash, plan.catalog.hash, 3)
    assert not factors.private
    assert (factors.factors >= 0).all()
    assert factors.factors.any()
    assert 0 < factors.users <= 3 * 60 * 1.2
    np.testing.assert_allclose(factors.moments, factors.moments.T)
    assert (np.diff(np.diag(factors.moments)) <= 1e-9).all()  # the strongest first
    balanced = (factors.factors.astype(np.float64) ** 2).mean(axis=0)
    np.testing.assert_allclose(balanced, np.diag(factors.moments), rtol=1e-5)


def test_two_kinds_of_people_are_found_again(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan(mechanism="kmeans", rank=2, n_prototypes=2)
    factors = Server(plan).factorize([make_message(plan, number) for number in range(4)])
    first, second = (factors.factors[half].sum(axis=0) for half in (slice(0, 6), slice(6, 12)))
    assert first.argmax() != second.argmax()
    assert min(first.max(), second.max()) > 10 * max(first.min(), second.min())


def test_ratings_are_approximated_as_they_are_not_centred(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan(feedback="ratings", mechanism="kmeans")
    factors = Server(plan).factorize([make_message(plan, number) for number in range(4)])
    assert 2.5 < factors.means.mean() < 3.5
    size = np.sqrt(np.trace(factors.factors @ factors.moments @ factors.factors.T) / plan.n_items)
    assert 2.0 < size < 4.0


def test_fewer_than_the_quorum_are_too_few(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan(quorum=3)
    two = [make_message(plan, number) for number in range(2)]
    with refused(TooFewMessages, "quorum", found="2", expected="at least 3 of 4"):
        Server(plan).factorize(two)
    with pytest.raises(TooFewMessages):
        Server(plan).factorize([*two, two[0]])
    with pytest.raises(TooFewMessages):
        Server(plan).factorize([])


def test_an_entity_the_plan_does_not_name_is_refused(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan(entities=("site-0", "site-1"))
    assert Server(plan).factorize([make_message(plan, 0)]).entities == 1
    with refused(PlanMismatch, "entity", found="site-2"):
        make_message(plan, 2)
    stranger = make_message(plan, 0).replace(b'\\"entity\\":\\"site-0\\"', b'\\"entity\\":\\"site-9\\"')
    with refused(PlanMismatch, "entity", found="site-9"):
        Server(plan).factorize([stranger])


@pytest.mark.parametrize("changes", [{"rank": 5}, {"epsilon": 5}, {"catalog": CatalogKey(hash="b" * 64, n_items=12)}])
def test_a_message_of_another_plan_or_catalog_is_refused(
    make_plan: MakePlan, make_message: MakeMessage, changes: dict[str, Any]
) -> None:
    plan = make_plan()
    foreign = make_message(make_plan(**changes), 1)
    with pytest.raises(PlanMismatch):
        Server(plan).factorize([make_message(plan, 0), foreign])


def test_another_version_is_refused(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan()
    newer = make_message(plan, 0).replace(b"twofold.prototypes/1", b"twofold.prototypes/2")
    with refused(BadMessage, "schema", found="version 2"):
        Server(plan).factorize([newer])


def test_seeded_noise_is_refused_in_a_real_federation(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan(simulation=False)
    sound = make_message(plan, 0)
    assert Server(plan).factorize([sound]).private
    seeded = sound.replace(b'\\"seeded\\":false', b'\\"seeded\\":true ')
    with pytest.raises(NotForRealUse):
        Server(plan).factorize([seeded])


@pytest.mark.parametrize("message", [b"", b"hello", bytes(500), 7, None])
def test_what_is_no_message_is_refused(make_plan: MakePlan, message: Any) -> None:
    with pytest.raises(BadMessage):
        Server(make_plan()).factorize([message])


def test_a_missing_file_is_an_error_of_ours(make_plan: MakePlan, tmp_path: Path) -> None:
    with refused(TransportError, "path", found=f"nowhere: {os.strerror(errno.ENOENT)}"):
        Server(make_plan()).factorize([tmp_path / "nowhere"])


def test_a_file_that_changes_meanwhile_is_refused(
    make_plan: MakePlan, make_message: MakeMessage, tmp_path: Path
) -> None:
    plan, path = make_plan(), tmp_path / "one.round1"
    path.write_bytes(make_message(plan, 0))
    taken = arrived([path], plan, spilled(lambda: tmp_path, 0))
    path.write_bytes(make_message(plan, 0, seed=5))
    with refused(BadMessage, "messages", found="site-0", expected=taken[0].receipt[:12]):
        taken[0].load(plan)


def test_memory_limit_is_a_number_of_bytes(make_plan: MakePlan) -> None:
    with pytest.raises(BadParameter):
        Server(make_plan(), memory_limit=0)


def test_bytes_that_come_once_are_spilled_and_memory_stays_bounded(
    make_plan: MakePlan, make_message: MakeMessage, tmp_path: Path
) -> None:
    plan = make_plan(
        catalog=CatalogKey(hash="a" * 64, n_items=400), mechanism="kmeans", n_prototypes=20, rank=2, n_entities=40
    )
    messages = [make_message(plan, number) for number in range(40)]
    size, folder, seen = len(messages[0]), tmp_path / "scratch", []
    folder.mkdir()

    def stream() -> Iterator[bytes]:
        while messages:
            yield messages.pop()
            seen.append(len(list(folder.glob("*/*.round1"))))

    tracemalloc.start()
    Server(plan, memory_limit=4 * size, scratch=folder, threads=1).factorize(stream())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen[-1] == 38  # half of the limit stays in memory
    assert not list(folder.iterdir())
    assert peak < 20 * size  # together they are 40


@pytest.mark.parametrize("threads", [1, 2])
def test_messages_are_dropped_when_their_rows_are_made(
    make_plan: MakePlan, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    plan = make_plan(mechanism="kmeans", n_entities=12)
    taken = arrived([make_message(plan, number) for number in range(12)], plan, spilled(Path, 1 << 30))
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    honest = Arrived.load

    def counted(one: Arrived, given: Plan) -> Any:
        message = honest(one, given)
        alive.add(message.content)
        return message

    monkeypatch.setattr(Arrived, "load", counted)
    server = Server(plan, memory_limit=8 * 2 * max(one.size for one in taken), threads=threads)
    rows = [len(alive) for _ in server._blocks(taken)]
    assert len(rows) == 6  # two messages each
    assert max(rows) <= 2 * (threads - 1)  # those that are read ahead


def test_a_file_is_read_at_most_once_per_pass(
    make_plan: MakePlan, make_message: MakeMessage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twofold.server import factorize, streaming
    from twofold.server import factorize as sources

    plan = make_plan(mechanism="kmeans")
    paths = [tmp_path / f"{number}" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(make_message(plan, number))
    reads: list[Path] = []
    passes = 0
    honest, look = sources.read_limited, streaming._look_at_counts

    def counted(path: Any, limit: int) -> bytes:
        reads.append(path)
        return honest(path, limit)

    def looked(*given: Any) -> Any:
        nonlocal passes
        passes += 1
        return look(*given)

    monkeypatch.setattr(sources, "read_limited", counted)
    monkeypatch.setattr(streaming, "_look_at_counts", looked)
    factorize.Server(plan, memory_limit=1).factorize(paths)
    assert passes > 1
    # To check, twice to squeeze them, in every pass.
    assert sorted(reads.count(path) for path in paths) == [passes + 3] * 4


def held(**changes: Any) -> ItemFactors:
    ones = np.ones(5)
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.ones((5, 2), dtype=np.float32), moments=np.eye(2), means=ones,
        support=ones, users=9.0, entities=3, private=True, totals=totals_of(5, **changes),
    )  # fmt: skip


def test_a_second_operator_sees_other_totals() -> None:
    """An entity subtracts its own part from these, so what machines may differ in is rounding alone."""
    ours, given = held(), totals_of(5)
    assert differing(ours, held()) == ""
    assert differing(ours, held(pairs=given.pairs * (1 + 1e-9))) == ""
    for change in (
        {"pairs": given.pairs + 0.01 * np.eye(5)},
        {"sums": given.sums + 0.01},
        {"users": 12.0},
        {"users_noise": 0.51},
        {"sums_noise": 0.7},
        {"pairs_noise": 1.4},
        {"weight_per_user": 0.0},
        {"entities": 2},
        {"seeded": True},
    ):
        assert differing(ours, held(**change)) == "totals", change
    assert differing(ours, replace(ours, totals=None)) == "totals"
    assert differing(replace(ours, totals=None), replace(ours, totals=None)) == ""
