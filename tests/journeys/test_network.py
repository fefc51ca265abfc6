"""A federation as separate processes over TLS, from keys to recommendations; the server is killed between all steps."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.agreed import make_keys
from tests.certificates import Authority
from twofold.cli import app
from twofold.federation.https import Client, Connection
from twofold.identity.keystore import KeyStore
from twofold.identity.log import verify_log
from twofold.privacy.ledger import Ledger

NAMES = ("anna", "bern")
ITEMS = "abcdef"


def run(line: str, *codes: int) -> str:
    """Run a command in this process: what is killed here is the server."""
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code in (codes or (0,)), (line, done.output, done.exception)
    return done.output


class Server:
    """The service in a process that can be killed."""

    def __init__(self, port: int) -> None:
        self.port = port
        listen = f"--listen 127.0.0.1:{port} --certificate server.crt --key server.key --poll 0.1"
        line = f"coordinate --plan plan.toml --keys coordinator.keys --state state {listen}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "twofold", *line.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as line_:
                if line_.connect_ex(("127.0.0.1", port)) == 0:
                    return
            assert self.process.poll() is None, self.process.stdout and self.process.stdout.read()
            time.sleep(0.05)
        raise AssertionError("the service did not start")

    def end(self, kind: int) -> int:
        self.process.send_signal(kind)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        rows = [f"{user},{ITEMS[(user * 7 + step) % 6]},1" for user in range(20) for step in range(3)]
        Path(f"{name}.csv").write_text("\n".join(["user,item,value", *rows]))
    Path("items.csv").write_text("\n".join(["item", *ITEMS]))
    run(f"plan new plan.toml --catalog items.csv --n-users 20 --rank 1 {make_keys(NAMES)}")
    run("plan agree plan.toml --keys coordinator.keys")
    Authority(tmp_path).issue("server")
    return tmp_path


def test_a_federation_whose_server_is_killed_between_all_steps(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    join = "join --plan plan.toml --server https://127.0.0.1:{port} --ca ca.crt --agree --confirm"
    own = "--data {name}.csv --ledger {name}.ledger --new-ledger --keys {name}.keys -o {name}.model"
    line = f"{join} {own} --once".replace("{port}", str(port))
    server = Server(port)
    for name in NAMES:  # the agreements are acknowledged, and then the server is gone
        run(line.format(name=name), 3)
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    server = Server(port)
    for name in NAMES:
        run(line.format(name=name), 3, 0)
    server.end(signal.SIGKILL)
    server = Server(port)
    connection = Connection(server=f"https://127.0.0.1:{port}", ca="ca.crt")
    store = KeyStore("anna.keys")
    with Client(connection, name="anna", signer=store.signer) as client:
        plan = next(path.name for path in Path("state").iterdir() if path.is_dir())
        until = time.monotonic() + 60
        while not client.status(plan)["steps"][-1]["published"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        for name in NAMES:
            assert "model" in run(line.format(name=name))
        counts = [step["here"] for step in client.status(plan)["steps"]]
    assert counts == [2, 2]
    assert server.end(signal.SIGTERM) == 0
    log = verify_log(Path("state") / plan / "audit.log", keys=[KeyStore("coordinator.keys").signer.public])
    assert log.signed
    for name in NAMES:  # one release each, however often the server died
        assert [one.status for one in Ledger(f"{name}.ledger").state().entries] == ["released"]
    assert os.listdir(Path("state") / plan / "objects")  # noqa: PTH208
