"""Requests of a service: who may send what, which answer each gets, and that nothing acknowledged is lost."""

from __future__ import annotations

import gzip
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.enrolled import OPERATOR, enrolled
from tests.served import NAMES, Served, hosted, release_of, served, small_plan
from twofold.errors import Unreachable
from twofold.federation import wire
from twofold.federation.mailbox import AGREE, ROUNDS, NothingYet, StepId
from twofold.identity.log import Event, read_log, verify_log
from twofold.server.service.app import METRICS_FILE, Service
from twofold.server.service.limits import Limits

NOW = 1_800_000_000.0


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, clock=lambda: NOW) as found:
        yield found


def put(
    one: Served,
    data: bytes,
    *,
    entity: str = "st-anna",
    name: str = "st-anna",
    path: str | None = None,
    at: float = NOW,
    sent: bytes | None = None,
    signer: str | None = None,
    headers: dict[str, str] | None = None,
    step: StepId = StepId.ROUNDS,
) -> httpx.Response:
    """Send a message with a request signed by `name`, or by whoever is told."""
    where = path or wire.message_path(one.plan.hash, step, entity)
    signed = wire.Request.signed(
        "PUT", where, name=name, signer=one.made.signer(signer or name), at=at, digest=wire.digest_of(data)
    )
    every = {**signed.headers, "content-type": wire.MESSAGE, **(headers or {})}
    with one.http() as http:
        return http.put(where, content=data if sent is None else sent, headers=every)


def get(one: Served, path: str, *, name: str = "st-anna", method: str = "GET", **headers: str) -> httpx.Response:
    signed = wire.Request.signed(method, path, name=name, signer=one.made.signer(name), at=NOW)
    with one.http() as http:
        return http.request(method, path, headers={**signed.headers, **headers})


def error(answer: httpx.Response) -> tuple[int, str, Any]:
    record = answer.json()
    assert answer.headers["twofold-error"] == record["error"]
    return answer.status_code, record["error"], record["parameter"]


def test_a_message_is_taken_once_and_its_second_is_evidence(one: Served) -> None:
    first, other = release_of(one.made, "st-anna"), release_of(one.made, "st-anna")
    taken = put(one, first)
    assert (taken.status_code, taken.json()) == (201, {"receipt": wire.digest_of(first), "new": True})
    assert taken.headers["etag"] == f'"{wire.digest_of(first)}"'
    assert put(one, first).status_code == 200
    assert error(put(one, other)) == (409, "ConflictingMessage", "entity")
    store = one.federation.store
    assert store.messages(ROUNDS) == [("st-anna", wire.digest_of(first))]
    assert store.conflicts(ROUNDS) == [("st-anna", wire.digest_of(other))]
    assert store.read(wire.digest_of(other), 10**6) == other
    assert [entry.event for entry in read_log(one.federation.log.path)][-2:] == [Event.ACCEPTED, Event.CONFLICT]
    assert verify_log(one.federation.log.path, keys=[one.made.signer().public]).signed


def test_a_round_is_published_and_then_closed(one: Served) -> None:
    for name in NAMES[:2]:
        assert put(one, release_of(one.made, name), entity=name, name=name).status_code == 201
    path = wire.published_path(one.plan.hash, ROUNDS.id)
    one.look()
    waiting = get(one, path)
    assert (waiting.status_code, waiting.headers["retry-after"]) == (202, "5")
    mine = wire.message_path(one.plan.hash, ROUNDS.id, NAMES[2])
    assert get(one, mine).json() == {"receipt": None, "closed": False}
    put(one, release_of(one.made, NAMES[2]), entity=NAMES[2], name=NAMES[2])
    assert one.look().published
    found = get(one, path)
    assert found.status_code == 200
    assert found.headers["etag"] == f'"{wire.digest_of(found.content)}"'
    assert get(one, path, **{"if-none-match": found.headers["etag"]}).status_code == 304
    assert one.box("st-anna").fetch(ROUNDS) == found.content
    assert get(one, mine).json()["receipt"] == one.federation.store.receipt_of(ROUNDS, NAMES[2])


def test_after_publication_nothing_new_is_taken(tmp_path: Path) -> None:
    with served(tmp_path, enrolled(small_plan(quorum=1, deadline="2020-01-01T00:00:00+00:00"), *NAMES)) as one:
        one.service.clock = lambda: NOW
        first = release_of(one.made, "st-anna")
        put(one, first)
        assert one.look().published
        assert put(one, first).status_code == 200
        assert error(put(one, release_of(one.made, "st-bern"), entity="st-bern", name="st-bern")) == (
            410,
            "RoundClosed",
            None,
        )


def test_whose_request_it_is_is_checked_before_anything_else(one: Served) -> None:
    data = release_of(one.made, "st-anna")
    stranger = enrolled(small_plan(), *NAMES)
    where = wire.message_path(one.plan.hash, ROUNDS.id, "st-anna")
    made = wire.Request.signed(
        "PUT", where, name="st-anna", signer=stranger.signer("st-anna"), at=NOW, digest=wire.digest_of(data)
    )
    with one.http() as http:
        assert error(http.put(where, content=data, headers=made.headers)) == (401, "KeyRefused", "keys")
        assert error(http.put(where, content=data)) == (401, "KeyRefused", "signature")
    assert error(put(one, data, name="st-bern", signer="st-anna")) == (401, "KeyRefused", "keys")
    assert error(put(one, data, at=NOW - 301)) == (401, "ClockSkew", "time")
    assert error(put(one, data, at=NOW + 301)) == (401, "ClockSkew", "time")
    assert put(one, data, at=NOW - 299).status_code == 201


def test_a_request_serves_once(one: Served) -> None:
    path = wire.federation_path(one.plan.hash)
    signed = wire.Request.signed("GET", path, name="st-anna", signer=one.made.signer("st-anna"), at=NOW)
    with one.http() as http:
        assert http.get(path, headers=signed.headers).status_code == 200
        assert error(http.get(path, headers=signed.headers)) == (401, "KeyRefused", "nonce")
        other = wire.document_path(one.plan.hash, "plan")
        assert error(http.get(other, headers=signed.headers)) == (401, "KeyRefused", "keys")


def test_a_message_of_somebody_else_does_not_pass_for_an_entity_s(one: Served) -> None:
    bern = release_of(one.made, "st-bern")
    assert error(put(one, bern))[:2] == (422, "BadMessage")  # another name in its header
    signed = [re.findall(rb"signature\W+([0-9a-f]{128})", data)[0] for data in (bern, release_of(one.made, "st-bern"))]
    assert error(put(one, bern.replace(*signed), entity="st-bern")) == (422, "BadMessage", "signature")
    other = enrolled(small_plan(rank=1), secrets=one.made.secrets)
    assert error(put(one, release_of(other, "st-anna")))[:2] == (422, "PlanMismatch")
    assert one.federation.store.messages(ROUNDS) == []


def test_another_member_may_carry_a_message(one: Served) -> None:
    bern = release_of(one.made, "st-bern")
    assert put(one, bern, entity="st-bern", name="st-anna").status_code == 201
    (entry,) = [one for one in read_log(one.federation.log.path) if one.event is Event.ACCEPTED]
    assert (entry.fields["entity"], entry.fields["carrier"]) == ("st-bern", "st-anna")


def test_bodies_are_what_was_signed(one: Served) -> None:
    data = release_of(one.made, "st-anna")
    changed = data[:-1] + bytes([data[-1] ^ 1])
    assert error(put(one, data, sent=changed)) == (400, "BadMessage", "digest")
    assert error(put(one, data, sent=data[:-1])) == (400, "BadMessage", "digest")
    assert list((one.federation.store.folder / "objects").glob(".*.part")) == []


def test_sizes_types_and_packing_are_refused_before_the_body_is_read(one: Served) -> None:
    limit = ROUNDS.up.limit(one.plan)
    assert error(put(one, bytes(limit + 1))) == (413, "BadMessage", "length")
    data = release_of(one.made, "st-anna")
    assert error(put(one, gzip.compress(data), headers={"content-encoding": "gzip"}))[0] == 415
    assert error(put(one, data, headers={"content-type": "application/x-python-pickle"}))[0] == 415
    assert error(put(one, data, headers={"content-length": "x"}))[0] == 411
    assert error(put(one, data, headers={"transfer-encoding": "chunked"}))[0] == 411


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc", "..", "st-anna%00", "st-anna/../st-bern", "unknown", "con", "a" * 80, "%2e%2e"]
)
def test_odd_names_lead_nowhere(one: Served, name: str) -> None:
    where = f"{wire.federation_path(one.plan.hash)}/steps/rounds/messages/{name}"
    answer = put(one, release_of(one.made, "st-anna"), path=where)
    assert answer.status_code in (401, 404, 405, 422)
    assert one.federation.store.messages(ROUNDS) == []


def test_unknown_plans_steps_and_documents_are_not_found(one: Served) -> None:
    other = "ab" * 32
    assert error(get(one, wire.federation_path(other))) == (404, "PlanMismatch", "plan")
    assert error(put(one, b"x", path=wire.message_path(one.plan.hash, StepId.KEYS, "st-anna")))[0] == 404
    assert error(put(one, b"x", path=wire.part_path(one.plan.hash, StepId.LISTS, other)))[0] == 404
    assert error(get(one, wire.document_path(one.plan.hash, "secrets")))[0] == 404


def test_documents_and_progress_are_for_members(one: Served) -> None:
    plan = get(one, wire.document_path(one.plan.hash, "plan"))
    assert wire.digest_of(plan.content) == one.plan.hash
    again = get(one, wire.document_path(one.plan.hash, "plan"), **{"if-none-match": plan.headers["etag"]})
    assert again.status_code == 304
    assert get(one, wire.document_path(one.plan.hash, "roster")).text == one.made.plan.members.text  # type: ignore[union-attr]
    one.look()
    record = get(one, wire.federation_path(one.plan.hash)).json()
    assert record["now"]["missing"] == list(NAMES)
    assert [step["step"] for step in record["steps"]] == ["agree", "rounds"]
    assert [step["published"] for step in record["steps"]] == [True, False]


def test_metrics_need_a_password_wherever_one_asks_from(one: Served) -> None:
    """A proxy on this machine makes every request one of this machine."""
    password = (one.service.state / METRICS_FILE).read_text().strip()
    with one.http() as http:
        for given in ({}, {"authorization": "Bearer x"}, {"authorization": "Bearer"}, {"x-forwarded-for": "127.0.0.1"}):
            answer = http.get("/v1/metrics", headers=given)
            assert error(answer) == (401, "KeyRefused", "password")
            assert answer.headers["www-authenticate"].startswith("Bearer ")
            assert password not in answer.text
        found = http.get("/v1/metrics", headers={"authorization": f"Bearer {password}"})
        assert (found.status_code, found.headers["content-type"].split(";")[0]) == (200, "text/plain")
        assert 'twofold_responses_total{status="401"} 4' in found.text
    assert stat.S_IMODE((one.service.state / METRICS_FILE).stat().st_mode) == 0o600


def test_no_cache_keeps_what_a_member_may_see(one: Served) -> None:
    for answer in (get(one, wire.federation_path(one.plan.hash)), get(one, wire.federation_path("ab" * 32))):
        assert answer.headers["cache-control"] == "no-store"


def test_a_problem_is_told_without_what_was_found(one: Served) -> None:
    one.federation.problem = Unreachable("the server cannot be reached.", found="https://10.0.0.7", parameter="server")
    found = get(one, wire.federation_path(one.plan.hash))
    assert found.json()["problem"] == {"error": "Unreachable", "summary": "the server cannot be reached."}


def test_health_and_the_description_need_no_key(one: Served) -> None:
    with one.http() as http:
        assert http.get("/v1/health").json()["status"] == "ok"
        paths = http.get("/v1/openapi.json").json()["paths"]
        assert f"{wire.ROOT}/federations/{{plan}}/steps/{{step}}/published" in paths
        assert http.get("/nowhere").status_code == 404
        assert http.delete("/v1/health").status_code == 405


def test_many_requests_are_slowed_down(tmp_path: Path) -> None:
    limits = Limits(member_rate=0.01, member_burst=2)
    with served(tmp_path, limits=limits, clock=lambda: NOW) as one:
        path = wire.federation_path(one.plan.hash)
        assert [get(one, path).status_code for _ in range(3)] == [200, 200, 429]
        assert int(get(one, path).headers["retry-after"]) > 90
        assert get(one, path, name="st-bern").status_code == 200
    limits = Limits(address_rate=0.01, address_burst=1)
    (tmp_path / "b").mkdir()
    with served(tmp_path / "b", limits=limits) as one, one.http() as http:
        assert [http.get("/v1/health").status_code for _ in range(2)] == [200, 429]


def test_only_the_operator_closes_a_step(tmp_path: Path) -> None:
    with served(tmp_path, enrolled(small_plan(quorum=1), *NAMES), clock=lambda: NOW) as one:
        put(one, release_of(one.made, "st-anna"))
        assert not one.look().published
        path = wire.close_path(one.plan.hash, ROUNDS.id)
        assert error(get(one, path, method="POST")) == (403, "KeyRefused", "keys")
        assert get(one, path, method="POST", name=OPERATOR).status_code == 202
        assert one.look().published


def test_federations_of_one_service_are_apart(tmp_path: Path) -> None:
    other = enrolled(small_plan(rank=1), *NAMES)
    with served(tmp_path, more=(hosted(other),), clock=lambda: NOW) as one:
        data = release_of(one.made, "st-anna")
        put(one, data)
        assert one.service.federations[other.plan.hash].store.messages(ROUNDS) == []
        where = wire.message_path(other.plan.hash, ROUNDS.id, "st-anna")
        assert error(put(one, data, path=where))[0] == 401  # the same name, another key
        own = {"lock", METRICS_FILE}
        assert {path.name for path in one.service.state.iterdir()} == {one.plan.hash, other.plan.hash} | own


def test_a_new_process_goes_on_with_what_was_acknowledged(tmp_path: Path) -> None:
    made = enrolled(small_plan(), *NAMES)
    first = release_of(made, "st-anna")
    with served(tmp_path, made, clock=lambda: NOW) as one:
        put(one, first)
    with served(tmp_path, made, clock=lambda: NOW) as one:
        assert put(one, first).status_code == 200
        for name in NAMES[1:]:
            put(one, release_of(made, name), entity=name, name=name)
        assert one.look().published
        factors = one.box("st-anna").fetch(ROUNDS)
        assert not isinstance(factors, NothingYet)
    with served(tmp_path, made, clock=lambda: NOW) as one:
        assert one.box("st-bern").fetch(ROUNDS) == factors
        assert one.box("st-bern").fetch(AGREE) is not None
    assert verify_log(tmp_path / "state" / made.plan.hash / "audit.log").entries > 6


def test_two_services_do_not_share_a_folder(tmp_path: Path) -> None:
    with served(tmp_path) as one, pytest.raises(Exception, match="another service") as caught:
        Service(tmp_path / "state", [hosted(one.made)])
    assert caught.value.parameter == "state"  # type: ignore[attr-defined]
