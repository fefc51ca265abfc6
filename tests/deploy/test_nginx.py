"""The service behind a real nginx with mutual TLS, with the configuration in deploy/nginx."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.agreed import OPERATOR, agree, make_keys
from tests.certificates import Authority
from tests.processes import Processes, free_port
from tests.proxies import needs_nginx, start_nginx
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.server.service.app import Service
from twofold.server.service.hosted import Hosted
from twofold.server.service.run import Running, server_of

pytestmark = needs_nginx

SITES = ("anna", "benno")
ITEMS = [f"item-{number}" for number in range(8)]


class Proxied:
    """A service on loopback, nginx in front of it, and certificates of two sites."""

    def __init__(self, folder: Path, url: str, port: int) -> None:
        self.folder, self.url, self.port = folder, url, port

    def context(self, name: str | None) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=self.folder / "server-ca.crt")
        if name is not None:
            made.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        return made

    def ask(self, method: str, path: str, name: str | None = "anna", body: bytes = b"", **headers: str) -> int:
        connection = HTTPSConnection("127.0.0.1", self.port, context=self.context(name), timeout=30)
        try:
            connection.request(method, path, body=body, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Proxied]:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"item": ITEMS}).write_csv("items.csv")
    call(f"plan new plan.toml --catalog items.csv --n-users 25 --bound 5 --rank 2 {make_keys(SITES)}")
    agree("plan.toml")
    server, sites, other = (Authority(tmp_path, name) for name in ("server-ca", "sites-ca", "other-ca"))
    certificate, key = server.issue("server")
    for name in SITES:
        sites.issue(name, client=True)
    other.issue("stranger", client=True)
    hosted = Hosted(plan=Plan.read("plan.toml"), keys=KeyStore(f"{OPERATOR}.keys"))
    service = Service(tmp_path / "state", [hosted], poll=0.05)
    port = free_port()
    with Processes(tmp_path) as processes, Running(server_of(service, host="127.0.0.1", port=0)) as running:
        words = {
            "127.0.0.1:8080": running.url.removeprefix("http://"),
            "listen 443": f"listen 127.0.0.1:{port}",
            "/etc/twofold/tls/server.crt": certificate,
            "/etc/twofold/tls/server.key": key,
            "/etc/twofold/tls/sites.crt": sites.certificate,
        }
        start_nginx(processes, "twofold.conf", {**words, **getattr(request, "param", {})}, port, tmp_path)
        yield Proxied(tmp_path, f"https://127.0.0.1:{port}", port)


def run(line: str) -> subprocess.CompletedProcess[str]:
    """Run a command as people do, in a process of its own."""
    return subprocess.run([sys.executable, "-m", "twofold", *line.split()], capture_output=True, text=True, check=False)


def call(line: str) -> None:
    done = run(line)
    assert done.returncode == 0, done.stdout + done.stderr


def join(site: str, proxied: Proxied, *, certificate: str | None) -> subprocess.CompletedProcess[str]:
    shown = "" if certificate is None else f"--client-certificate {certificate}.crt --client-key {certificate}.key"
    return run(
        f"join --once --plan plan.toml --data {site}.parquet --ledger {site}.ledger --new-ledger --keys {site}.keys "
        f"--confirm-useless --yes --server {proxied.url} --ca server-ca.crt {shown} -o {site}.model"
    )


def test_a_federation_through_the_proxy(proxied: Proxied) -> None:
    """Both sites visit until both have a model; each shows its certificate."""
    for seed, name in enumerate(SITES):
        rng = np.random.default_rng(seed)
        users, items = np.nonzero(rng.random((25, 8)) < 0.5)
        frame = {"user": users, "item": np.array(ITEMS)[items], "value": rng.integers(1, 6, users.size)}
        pl.DataFrame(frame).write_parquet(f"{name}.parquet")
    for _ in range(20):
        done = [join(name, proxied, certificate=name) for name in SITES]
        assert {one.returncode for one in done} <= {0, 3}, [one.stderr for one in done]
        if not any(one.returncode for one in done):
            break
    assert all(Path(f"{name}.model").exists() for name in SITES)
    refused = join("anna", proxied, certificate=None)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("name", [None, "stranger"])
def test_without_a_certificate_of_the_authority_nothing_is_reached(proxied: Proxied, name: str | None) -> None:
    assert proxied.ask("GET", "/v1/health", "anna") == 200
    assert proxied.ask("GET", "/v1/health", name) == 400
    assert proxied.ask("GET", f"/v1/federations/{Plan.read('plan.toml').hash}", name) == 400


def test_a_certificate_is_not_a_signature(proxied: Proxied) -> None:
    """Who has one still sends requests that a member of the plan has signed."""
    assert proxied.ask("GET", f"/v1/federations/{Plan.read('plan.toml').hash}") == 401
    assert proxied.ask("GET", f"/v1/federations/{'0' * 64}") == 404


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/federations/../metrics", "/v1/openapi.json", "/", "/.git/config"])
def test_what_is_for_this_machine_is_not_passed(proxied: Proxied, path: str) -> None:
    assert proxied.ask("GET", path) == 404


def test_a_body_that_is_too_large_is_refused_at_the_proxy(proxied: Proxied) -> None:
    assert proxied.ask("PUT", "/v1/federations/x", **{"Content-Length": str(65 << 20)}) == 413


@pytest.mark.parametrize("proxied", [{"rate=20r/s": "rate=1r/m", "burst=200": "burst=5"}], indirect=True)
def test_too_many_requests_are_refused_at_the_proxy(proxied: Proxied) -> None:
    """With a slower limit than the example's, so that a slow machine reaches it, too."""
    assert [proxied.ask("GET", "/v1/health") for _ in range(8)] == [200] * 6 + [429] * 2
