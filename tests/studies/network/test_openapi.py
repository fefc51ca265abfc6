"""Requests made from the service's own OpenAPI document, over a socket: none may end in a fault of the server.

For every operation: each limit of each parameter once (coverage), and random requests that fit the document or break it
(fuzzing); as a stranger, and as a member who signs nonsense.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.served import NAMES, Served, listening, served
from twofold.federation import wire
from twofold.federation.mailbox import ROUNDS
from twofold.server.service.limits import Limits
from twofold.server.service.openapi import openapi

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: make fuzz")
hypothesis = pytest.importorskip("hypothesis")
requests = pytest.importorskip("requests")

#: Without limits of rates, which would answer everything after the first requests; nobody waits for a body long.
OPEN = Limits(address_rate=1e6, address_burst=10**6, member_rate=1e6, member_burst=10**6, pause_seconds=1.0)
NOW = 1_800_000_000.0
SCHEMA = schemathesis.openapi.from_dict(openapi())
EXAMPLES = hypothesis.settings(
    max_examples=200, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("service"), clock=lambda: NOW, limits=OPEN) as found:
        yield found


@pytest.fixture(scope="module")
def url(one: Served) -> Iterator[str]:
    with listening(one.service) as found:
        yield found


def answered(case: Any, url: str, one: Served, *, member: bool) -> int:
    """Send a request, of this federation if it can be; a member signs exactly what is sent."""
    known = {"plan": one.plan.hash} | ({"step": ROUNDS.id.value, "entity": NAMES[0]} if member else {})
    given = dict(case.path_parameters or {})
    case.path_parameters = given | {name: known[name] for name in given if name in known}
    headers: dict[str, str] = {}
    if member:
        asked = case.as_transport_kwargs(base_url=url)
        ready = requests.Request(**{name: asked.get(name) for name in ("method", "url", "params", "data")}).prepare()
        body = ready.body or b""
        digest = wire.digest_of(body if isinstance(body, bytes) else body.encode())
        signer = one.made.signer(NAMES[0])
        headers = wire.Request.signed(
            ready.method, ready.path_url, name=NAMES[0], signer=signer, at=NOW, digest=digest
        ).headers
    return int(case.call(base_url=url, headers=headers).status_code)


@SCHEMA.parametrize()
@EXAMPLES
@hypothesis.seed(1)
def test_a_stranger_gets_no_further_than_the_door(case: Any, url: str, one: Served) -> None:
    assert answered(case, url, one, member=False) in (200, 400, 401, 404, 405)
    assert one.federation.store.messages(ROUNDS) == []


@SCHEMA.parametrize()
@EXAMPLES
@hypothesis.seed(1)
def test_nonsense_of_a_member_is_refused_for_what_it_is(case: Any, url: str, one: Served) -> None:
    assert answered(case, url, one, member=True) < 500
    assert one.federation.store.messages(ROUNDS) == []
