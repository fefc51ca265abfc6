"""Requests made from the service's own OpenAPI document: none may end in a fault of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.served import NAMES, Served, served
from twofold.federation import wire
from twofold.federation.mailbox import ROUNDS
from twofold.server.service.limits import Limits
from twofold.server.service.openapi import openapi

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: make fuzz")
hypothesis = pytest.importorskip("hypothesis")

#: Without limits of rates, which would answer everything after the first requests.
OPEN = Limits(address_rate=1e6, address_burst=10**6, member_rate=1e6, member_burst=10**6)
NOW = 1_800_000_000.0
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, clock=lambda: NOW, limits=OPEN) as found:
        yield found


def signed(one: Served, case: Any) -> dict[str, str]:
    """Sign what was made, as a member who sends nonsense."""
    request = case.as_transport_kwargs(base_url="http://127.0.0.1")
    path = case.formatted_path
    body = request.get("data") or b""
    digest = wire.digest_of(body if isinstance(body, bytes) else str(body).encode())
    made = wire.Request.signed(
        case.method.upper(), path, name=NAMES[0], signer=one.made.signer(NAMES[0]), at=NOW, digest=digest
    )
    return made.headers


@pytest.mark.parametrize("member", [False, True])
@pytest.mark.parametrize("examples", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_no_request_is_a_fault_of_the_server(one: Served, member: bool, examples: int) -> None:
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", one.app)
    seen: dict[str, set[int]] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        answers = seen.setdefault(operation.label, set())

        @hypothesis.settings(
            max_examples=examples, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
        )
        @hypothesis.seed(1)
        @hypothesis.given(case=operation.as_strategy())
        def send(case: Any) -> None:
            parameters = dict(case.path_parameters or {})
            known = {"plan": one.plan.hash} | ({"step": ROUNDS.id.value, "entity": NAMES[0]} if member else {})
            case.path_parameters = parameters | {name: known[name] for name in parameters if name in known}
            if member:
                case.headers = {**dict(case.headers or {}), **signed(one, case)}
            answer = case.call()
            answers.add(answer.status_code)  # noqa: B023 - called before the next turn
            assert answer.status_code < 500

        send()
    paths = {path: methods for path, methods in openapi()["paths"].items() if not path.endswith("openapi.json")}
    assert set(seen) == {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    reached = set().union(*seen.values())
    # Strangers get no further than the door; a member's nonsense is refused for what it is.
    assert reached <= {200, 400, 401, 404} if not member else {200, 422} <= reached
    assert one.federation.store.messages(ROUNDS) == []
