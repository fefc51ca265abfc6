"""Who may read the status page, and with which headers it is sent."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.enrolled import enrolled
from tests.served import NAMES, Served, hosted, served, small_plan
from twofold.errors import TransportError
from twofold.report.status_site import PASSWORD_FILE, status_routes
from twofold.server.service.app import build_app
from twofold.server.service.limits import Limits


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Served]:
    other = enrolled(small_plan(name="other"), "site-x", "site-y")
    with served(tmp_path, more=(hosted(other),)) as found:
        found.app = build_app(found.service, more=status_routes(found.service))
        yield found


def password(one: Served, plan: str = "") -> str:
    return (one.service.state / plan / PASSWORD_FILE).read_text().strip()


def get(one: Served, path: str, secret: str | None = None, **headers: str) -> httpx.Response:
    if secret is not None:
        headers["authorization"] = "Basic " + base64.b64encode(f"anybody:{secret}".encode()).decode()
    with one.http() as http:
        return http.get(path, headers=headers)


def other_of(one: Served) -> str:
    [found] = [key for key in one.service.federations if key != one.plan.hash]
    return found


def test_a_stranger_learns_no_name_and_no_plan(one: Served) -> None:
    front = get(one, "/")
    assert front.status_code == 200
    for path in ("/status", f"/{one.plan.hash}", f"/{'0' * 64}"):  # a plan that is here, and one that is not
        answer = get(one, path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        front_and_refusal = front.text + answer.text
        for word in (*NAMES, "site-x", one.plan.hash[:12], other_of(one)[:12]):
            assert word not in front_and_refusal


@pytest.mark.parametrize("secret", ["", "x", "x" * 32, "é"])
def test_a_wrong_password_opens_nothing(one: Served, secret: str) -> None:
    for path in ("/", "/status", f"/{one.plan.hash}"):
        assert get(one, path, secret).status_code == 401


@pytest.mark.parametrize("header", ["Basic", "Basic ====", "Bearer x", "Basic eA==", "basic \xff"])
def test_a_header_that_is_none_opens_nothing(one: Served, header: str) -> None:
    with one.http() as http:
        answer = http.get("/status", headers=[(b"authorization", header.encode("latin-1"))])
    assert answer.status_code == 401


def test_the_operator_sees_every_federation(one: Served) -> None:
    secret = password(one)
    for path in ("/", "/status"):
        text = get(one, path, secret).text
        assert one.plan.hash in text
        assert other_of(one) in text
    assert "st-anna" in get(one, f"/{one.plan.hash}", secret).text


def test_a_members_password_opens_their_federation_alone(one: Served) -> None:
    secret = password(one, one.plan.hash)
    assert "st-anna" in get(one, "/", secret).text
    assert get(one, f"/{one.plan.hash}", secret).status_code == 200
    answer = get(one, f"/{other_of(one)}", secret)
    assert answer.status_code == 404
    assert "site-x" not in answer.text


def test_other_paths_ask_for_no_password(one: Served) -> None:
    assert get(one, "/favicon.ico").status_code == 404
    assert get(one, "/v1/health").status_code == 200


def test_every_answer_forbids_scripts_frames_and_copies(one: Served) -> None:
    for path, secret in (("/", None), ("/status", None), ("/x", None), ("/status", password(one))):
        headers = get(one, path, secret).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_policy_allows_this_style_sheet_only(one: Served) -> None:
    answer = get(one, "/")
    [style] = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert not re.search(r"\sstyle=", answer.text)


def test_passwords_are_the_owners_alone_and_stay(one: Served) -> None:
    files = [one.service.state / PASSWORD_FILE, *one.service.state.glob(f"*/{PASSWORD_FILE}")]
    assert len({file.read_text() for file in files}) == len(files) == 3
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    before = password(one)
    status_routes(one.service)
    assert password(one) == before


def test_a_short_password_is_refused(one: Served) -> None:
    (one.service.state / PASSWORD_FILE).write_text("secret\n")
    with pytest.raises(TransportError) as caught:
        status_routes(one.service)
    assert caught.value.parameter == "state"
    assert "secret" not in str(caught.value)


def test_guesses_are_limited_by_address(tmp_path: Path) -> None:
    with served(tmp_path, limits=Limits(address_rate=0.001, address_burst=2)) as one:
        one.app = build_app(one.service, more=status_routes(one.service))
        assert [get(one, "/status", "x" * 20).status_code for _ in range(3)] == [401, 401, 429]
        assert one.service.answers[401] == 2
