"""Signed requests: every line counts, clocks may differ by minutes, and none serves twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import ClockSkew, KeyRefused
from twofold.federation.wire import EMPTY, HEADERS, Request, SeenRequests, digest_of
from twofold.identity.roster import Roster

ROSTER, SECRETS = Roster.new(["st-anna", "st-bern"])
MADE = Request.signed("PUT", "/v1/x", name="st-anna", signer=SECRETS["st-anna"].sign, at=1_000, digest=digest_of(b"x"))


def test_a_request_survives_its_headers() -> None:
    found = Request.from_headers("PUT", "/v1/x", MADE.headers)
    assert found == MADE
    found.check(ROSTER, now=1_300)
    found.check(ROSTER, now=700)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "GET"},
        {"path": "/v1/y"},
        {"digest": EMPTY},
        {"at": 1_001},
        {"nonce": "0" * 32},
        {"name": "st-bern"},
        {"name": "nobody"},
        {"signature": bytes(64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_line_can_be_changed(change: dict[str, Any]) -> None:
    with refused(KeyRefused, "keys"):
        replace(MADE, **change).check(ROSTER, now=1_000)


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("value", ["", "x y", "-1", "é"])
def test_a_damaged_header_is_no_signature(name: str, value: str) -> None:
    with refused(KeyRefused, "signature"):
        Request.from_headers("PUT", "/v1/x", {**MADE.headers, name: value})


@pytest.mark.parametrize("now", [1_301, 699])
def test_clocks_that_differ_too_much(now: int) -> None:
    with refused(ClockSkew, "time", "301"):
        MADE.check(ROSTER, now=now)


def test_what_was_seen_is_forgotten_when_its_time_is_over() -> None:
    time = [1_000.0]
    seen = SeenRequests(clock=lambda: time[0], most=3)
    assert seen.is_new("a", at=1_000)
    assert not seen.is_new("a", at=1_000)
    time[0] = 1_301.0
    assert seen.is_new("a", at=1_301)  # its first use is no longer accepted by its time
    assert all(seen.is_new(one, at=1_301) for one in "bcd")
    assert len(seen._until) <= 3
