"""Faults that the laboratory found in the service: what fills a disk, and whose fault a refusal names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.enrolled import enrolled
from tests.served import NAMES, Served, release_of, served, small_plan
from twofold.errors import LogBroken, TooFewMessages
from twofold.federation import wire
from twofold.federation.mailbox import ROUNDS
from twofold.identity.log import Event, SecurityLog, read_log
from twofold.server.service.store import Outcome, Store

NOW = 1_800_000_000.0


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, clock=lambda: NOW) as found:
        yield found


def put(one: Served, data: bytes, name: str = NAMES[0]) -> httpx.Response:
    where = wire.message_path(one.plan.hash, ROUNDS.id, name)
    signed = wire.Request.signed(
        "PUT", where, name=name, signer=one.made.signer(name), at=NOW, digest=wire.digest_of(data)
    )
    with one.http() as http:
        return http.put(where, content=data, headers={**signed.headers, "content-type": wire.MESSAGE})


def files(one: Served) -> int:
    return sum(path.is_file() for path in (one.federation.store.folder / "objects").rglob("*"))


def test_a_member_cannot_fill_the_disk_with_second_messages(one: Served) -> None:
    sent = [release_of(one.made, NAMES[0]) for _ in range(9)]
    assert [put(one, data).status_code for data in sent] == [201] + [409] * 8
    # The message, and three others as evidence.
    assert files(one) == 4
    assert len(one.federation.store.conflicts(ROUNDS)) == 3
    logged = [entry for entry in read_log(one.federation.log.path) if entry.event is Event.CONFLICT]
    assert len(logged) == 3
    assert put(one, sent[0]).status_code == 200
    assert one.federation.store.read(wire.digest_of(sent[0]), 10**6) == sent[0]


def test_names_without_end_do_not_fill_the_disk(one: Served) -> None:
    """As of an institution that vouches for people whom nobody else knows."""
    store, names = one.federation.store, [f"person-{number}" for number in range(9)]
    mark = store.put(b"bytes")
    found = [store.add(ROUNDS, name, mark, size=5, at="now", carrier=NAMES[0]) for name in names]
    assert found == [Outcome.NEW] * 6 + [Outcome.CLOSED] * 3  # twice the three of the plan
    again = Store(store.folder, one.plan)
    assert again.add(ROUNDS, "person-x", mark, size=5, at="now", carrier=NAMES[0]) is Outcome.CLOSED
    assert again.add(ROUNDS, names[0], mark, size=5, at="now", carrier=NAMES[0]) is Outcome.SAME
    before = files(one)
    assert put(one, release_of(one.made, NAMES[0])).status_code == 410
    assert files(one) == before


def test_a_log_that_cannot_be_written_is_no_fault_of_the_message(one: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    data = release_of(one.made, NAMES[0])

    def full(self: SecurityLog, event: Event, **fields: Any) -> None:
        raise LogBroken("the log cannot be written.", parameter="log")

    with monkeypatch.context() as patched:
        patched.setattr(SecurityLog, "add_once", full)
        answer = put(one, data)
        assert (answer.status_code, answer.headers["twofold-error"]) == (507, "TransportError")
        assert int(answer.headers["retry-after"]) >= 1
    # It was on the disk before: sent again, it is here, and now in the log.
    assert put(one, data).status_code == 200
    accepted = [entry.fields["digest"] for entry in read_log(one.federation.log.path) if entry.event is Event.ACCEPTED]
    assert accepted == [wire.digest_of(data)]


def test_many_uploads_at_once_do_not_fight_for_the_log(one: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, most, real = [0], [0], SecurityLog._writing

    @contextmanager
    def watched(self: SecurityLog) -> Iterator[None]:
        writing[0] += 1
        most[0] = max(most[0], writing[0])
        try:
            with real(self):
                time.sleep(0.05)
                yield
        finally:
            writing[0] -= 1

    monkeypatch.setattr(SecurityLog, "_writing", watched)
    sent = {name: release_of(one.made, name) for name in NAMES}
    with ThreadPoolExecutor(len(NAMES)) as pool:
        found = list(pool.map(lambda name: put(one, sent[name], name).status_code, NAMES))
    assert found == [201] * len(NAMES)
    assert most == [1]
    logged = [entry.fields["entity"] for entry in read_log(one.federation.log.path) if entry.event is Event.ACCEPTED]
    assert sorted(map(str, logged)) == sorted(NAMES)


def test_a_request_to_close_outlives_a_kill(one: Served) -> None:
    store = one.federation.store
    one.federation.close_step(ROUNDS)
    asked = Store(store.folder, one.plan).asked_to_close()
    assert asked is not None
    assert asked[0] == ROUNDS.id.value
    one.federation.look()
    assert store.asked_to_close() is None


def test_a_request_to_close_that_comes_during_a_look_is_seen_to_by_the_next(
    one: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    def look(*, close: bool) -> None:
        closed.append(close)
        if len(closed) == 1:  # acknowledged while the first is worked on
            one.federation.close_step(ROUNDS)

    monkeypatch.setattr(one.federation, "_look", look)
    monkeypatch.setattr(one.federation, "is_published", lambda step: step is not ROUNDS)
    one.federation.close_step(ROUNDS)
    for _ in range(3):
        one.federation.look()
    assert closed == [True, True, False]


def test_after_the_deadline_a_new_process_still_tells_who_is_here(tmp_path: Path) -> None:
    late = enrolled(small_plan(n_entities=3, quorum=3, deadline="2020-01-01T00:00:00+00:00"), *NAMES)
    for status in (201, 409):  # and after a restart
        with served(tmp_path, late, clock=lambda: NOW) as one:
            assert put(one, release_of(late, NAMES[0])).status_code == status
            one.federation.look()
            found = one.federation.describe()
            assert isinstance(one.federation.problem, TooFewMessages)
            assert (found["now"]["arrived"], found["now"]["expected"]) == (1, 3)
            assert found["now"]["missing"] == [*NAMES[1:]]


def test_a_request_to_close_a_step_that_is_published_closes_no_other(
    one: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between the publication and its note."""
    closed: list[bool] = []
    monkeypatch.setattr(one.federation, "_look", lambda *, close: closed.append(close))
    monkeypatch.setattr(one.federation, "is_published", lambda step: step is ROUNDS)
    one.federation.close_step(ROUNDS)
    one.federation.look()
    assert closed == [False]
