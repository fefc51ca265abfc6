"""`twofold serve`: one command, loopback by default, plain refusals before anything listens."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from tests.certificates import Authority
from tests.processes import Processes, free_port, listens
from tests.refused import check_refusal
from tests.serve.conftest import SECRET, make_model
from twofold.cli import app
from twofold.errors import BadModel, MissingExtra, TransportError, UntrustedServer


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_model().save("st-anna.model")
    return tmp_path


def program(line: str) -> list[str]:
    return [sys.executable, "-m", "twofold", *line.split()]


def test_a_model_is_served_until_a_signal(folder: Path) -> None:
    port = free_port()
    with Processes(folder) as processes:
        processes.start("serve", program(f"serve st-anna.model --listen 127.0.0.1:{port}"))
        processes.wait_for(lambda: listens(port), 60, "serve")
        answer = httpx.get(f"http://127.0.0.1:{port}/recommendations/{SECRET}?n=3")
        assert len(answer.json()["recommendations"]) == 3
        assert "server" not in answer.headers
        assert "Recommend" in httpx.get(f"http://127.0.0.1:{port}/").text
        missing = httpx.get(f"http://127.0.0.1:{port}/recommendations/{SECRET}x")
        assert missing.status_code == 404
        processes.running["serve"].send_signal(signal.SIGTERM)
        assert processes.running["serve"].wait(20) == 0
        said = processes.log("serve").read_text()
    assert f"http://127.0.0.1:{port}" in said
    assert SECRET not in said
    assert "Traceback" not in said


def test_others_reach_it_with_token_and_tls_only(folder: Path) -> None:
    authority = Authority(folder)
    certificate, key = authority.issue("server")
    port = free_port()
    line = f"serve st-anna.model --listen 0.0.0.0:{port} --token serve.token --certificate {certificate} --key {key}"
    with Processes(folder) as processes:
        processes.start("serve", program(f"{line} --json --no-console"))
        processes.wait_for(lambda: listens(port), 60, "serve")
        token = Path("serve.token").read_text().strip()
        context = ssl.create_default_context(cafile=authority.certificate)
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context) as client:
            assert client.get(f"/recommendations/{SECRET}").status_code == 401
            good = client.get(f"/recommendations/{SECRET}", headers={"authorization": f"Bearer {token}"})
            assert good.status_code == 200
            assert client.get("/health").json()["status"] == "ok"
            assert client.get("/", headers={"authorization": f"Bearer {token}"}).status_code == 404
        said = processes.log("serve").read_text()
    assert json.loads(said.splitlines()[0])["url"] == f"https://0.0.0.0:{port}"
    assert token not in said
    assert Path("serve.token").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "more",
    ["", "--token serve.token", "--certificate server.crt --key server.key"],
    ids=["nothing", "no certificate", "no token"],
)
def test_an_open_address_without_both_is_refused(folder: Path, more: str) -> None:
    Authority(folder).issue("server")
    for host in ("0.0.0.0", "192.0.2.1", ""):
        result = ask(f"serve st-anna.model --listen {host}:8080 {more}")
        check_refusal(result.exception, UntrustedServer, "listen")
    assert not Path("serve.token").exists()


def test_files_that_are_no_model_are_refused(folder: Path) -> None:
    Path("empty.model").touch()
    Path("text.model").write_text("item,title\n")
    Path("cut.model").write_bytes(Path("st-anna.model").read_bytes()[:-9])
    for name in ("empty", "text", "cut"):
        check_refusal(ask(f"serve {name}.model").exception, BadModel)
    for name in ("nothing.model", "."):
        check_refusal(ask(f"serve {name}").exception, TransportError)


def test_an_address_in_use_is_refused(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = program(f"serve st-anna.model --listen 127.0.0.1:{port}")
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "TransportError" in done.stderr
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("listen", ["8080x", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:-1"])
def test_a_bad_address_is_refused(folder: Path, listen: str) -> None:
    assert ask(f"serve st-anna.model --listen {listen}").exit_code == 2


def test_a_short_token_is_refused(folder: Path) -> None:
    Path("serve.token").write_text("short\n")
    check_refusal(ask("serve st-anna.model --token serve.token").exception, TransportError, "state")


def test_half_a_certificate_and_a_wrong_one_are_refused(folder: Path) -> None:
    assert ask("serve st-anna.model --certificate server.crt").exit_code == 2
    result = ask("serve st-anna.model --certificate nothing.crt --key nothing.key")
    check_refusal(result.exception, TransportError, "certificate")


def test_it_says_which_packages_are_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.cli.network.find_spec", lambda _: None)
    check_refusal(ask("serve st-anna.model").exception, MissingExtra, "network")
