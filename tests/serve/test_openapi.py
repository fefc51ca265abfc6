"""Requests made from the OpenAPI document of a served model, over a socket: answered as it says, without faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.conftest import make_model
from twofold.serve.api import LIMITS, Api, build_app
from twofold.serve.current import Current
from twofold.serve.openapi import openapi
from twofold.server.service.run import Running, server_for

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis: make fuzz")
hypothesis = pytest.importorskip("hypothesis")

SCHEMA = schemathesis.openapi.from_dict(openapi())
EXAMPLES = hypothesis.settings(
    max_examples=200, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    make_model(users=[f"{at}" for at in range(20)], items=[f"{at}" for at in range(12)]).save(folder / "a.model")
    with Running(server_for(build_app(Api(Current(folder / "a.model"))), LIMITS, host="127.0.0.1", port=0)) as running:
        yield running.url


@SCHEMA.parametrize()
@EXAMPLES
@hypothesis.seed(1)
def test_every_request_gets_an_answer_of_the_document(case: Any, url: str) -> None:
    answer = case.call(base_url=url)
    assert answer.status_code < 500
    if answer.status_code == 200:  # those that break the document may also break HTTP itself
        case.validate_response(answer, checks=(schemathesis.checks.response_schema_conformance,))
