"""A federation through a real SuperLink and real SuperNodes on loopback: TLS, keys of nodes, and a hostile server."""

from __future__ import annotations

import os
import ssl
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tests.agreed import OPERATOR, agree, make_keys
from tests.certificates import Authority, node_keys
from tests.processes import Processes, free_port, listens
from tests.proxies import needs_nginx, start_nginx
from twofold.cli import app

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(os.environ.get("TWOFOLD_FLOWER", ROOT / ".venv-flower")) / "bin"
SITES = ("anna", "benno", "clara")
ITEMS = [f"item-{number}" for number in range(8)]

pytestmark = [
    pytest.mark.slow,
    needs_nginx,
    pytest.mark.skipif(not (PROGRAMS / "twofold-flower").exists(), reason="no environment of Flower: make flower"),
]

#: The server's code, as a SuperLink sends it: what it can write to, it owns.
HOSTILE = """
import os, pathlib
from flwr.clientapp import ClientApp
pathlib.Path(os.environ["HOME"], "owned").write_text("ran")
app = ClientApp()
"""
ASKS = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    nodes = list(grid.get_node_ids())
    content = RecordDict({"any": ConfigRecord({"x": 1})})
    messages = [Message(content, dst_node_id=node, message_type="query", ttl=300.0) for node in nodes]
    replies = list(grid.send_and_receive(messages, timeout=300))
    print("ASKED", len(nodes), "ANSWERED", len(replies), "ERRORS", sum(one.has_error() for one in replies))
"""


class Flower:
    """The coordinator's SuperLink behind nginx, and what sites connect to."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder, self.processes = folder, processes
        self.authority = Authority(folder)
        self.certificate, self.key = self.authority.issue("server")
        self.port, self.public = free_port(), free_port()
        self.state = folder / "link.state"

    def words(self, verb: str, *more: object, state: Path | None = None) -> list[object]:
        common = ("--state", state or self.state, "--root-certificates", self.authority.certificate)
        return [PROGRAMS / "twofold-flower", verb, *common, *more]

    def start(self) -> None:
        files = ("--certificate", self.certificate, "--key", self.key)
        self.processes.start("link", self.words("link", *files, "--port", self.port))
        self.processes.wait_for(lambda: listens(self.port), 240, "link")
        words = {
            "127.0.0.1:8000": f"127.0.0.1:{self.port}",
            "listen 443": f"listen 127.0.0.1:{self.public}",
            "/etc/twofold/tls/server.crt": self.certificate,
            "/etc/twofold/tls/server.key": self.key,
            "/etc/twofold/tls/ca.crt": self.authority.certificate,
        }
        start_nginx(self.processes, "flower.conf", words, self.public, self.folder)

    def register(self, name: str) -> Path:
        secret, public = node_keys(self.folder, name)
        words = self.words("register", "--public-key", public, "--name", name, "--port", self.port)
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return secret

    def site(self, name: str, secret: Path) -> None:
        box = ("--outbox", self.folder / name / "outbox", "--inbox", self.folder / name / "inbox")
        more = ("--superlink", f"127.0.0.1:{self.public}", "--port", free_port(), "--as-root", "--key", secret, *box)
        self.processes.start(name, self.words("site", *more, state=self.folder / name / "state"))
        self.processes.wait_for(lambda: b"SuperNode ID" in self.processes.log(name).read_bytes(), 240, name)


@pytest.fixture
def flower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flower]:
    monkeypatch.chdir(tmp_path)
    with Processes(tmp_path) as processes:
        made = Flower(tmp_path, processes)
        made.start()
        yield made


def table(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((25, 8)) < 0.5)
    return pl.DataFrame({"user": users + 100, "item": np.array(ITEMS)[items], "value": rng.integers(1, 7, users.size)})


def run(line: str) -> int:
    """Give the exit code of a command: 0, or 3 while something is waited for."""
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code in (0, 3), (line, result.output, result.exception)
    return result.exit_code


def test_examples() -> None:
    """The doctests of what imports Flower, in its environment."""
    file = ROOT / "adapters" / "flower" / "twofold_flower" / "apps.py"
    done = subprocess.run(
        [PROGRAMS / "python", "-m", "doctest", "-v", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "9 passed and 0 failed" in done.stdout


def test_from_plan_to_model(flower: Flower) -> None:
    """Agreements and releases go up, agreements and factors come down; both ends start anew at every visit."""
    pl.DataFrame({"item": ITEMS}).write_csv("items.csv")
    public = make_keys(SITES)
    assert run(f"plan new plan.toml --catalog items.csv --n-users 25 --bound 5 --rank 2 {public}") == 0
    agree("plan.toml")
    for seed, name in enumerate(SITES):
        table(seed).write_parquet(f"{name}.parquet")
        Path(name, "outbox").mkdir(parents=True)
        (Path(name, "outbox") / "mistake.csv").write_text("user,item\n1,2\n")
        (Path(name, "outbox") / "mistake.round1").symlink_to(Path(f"{name}.parquet").resolve())
        flower.site(name, flower.register(name))
    Path("in").mkdir()
    asked = ("--inbox", "in", "--outbox", "out", "--sites", 3, "--wait", 900, "--poll", 1, "--timeout", 300)
    flower.processes.start("carry", flower.words("carry", *asked, "--port", flower.port))

    begun, missing = time.monotonic(), set(SITES)
    while missing and time.monotonic() - begun < 900:
        for name in sorted(missing):
            boxes = (
                f"--outbox {name}/outbox --inbox {name}/inbox --ledger {name}.ledger --keys {name}.keys --new-ledger"
            )
            if run(f"join --plan plan.toml --data {name}.parquet {boxes} -o {name}.model --confirm-useless --yes") == 0:
                missing.discard(name)
        run(f"coordinate --plan plan.toml --keys {OPERATOR}.keys --inbox in --outbox out --state server.state")
        time.sleep(1)
    assert not missing, flower.processes.log("carry").read_text()[-3000:]

    said = flower.processes.log("carry")
    flower.processes.wait_for(lambda: b"all 3 sites have the last message" in said.read_bytes(), 300, "carry")
    assert sorted(path.suffix for path in Path("in").iterdir()) == [".agreement"] * 3 + [".round1"] * 3
    factors = [path.read_bytes() for name in SITES for path in Path(name, "inbox").glob("*.round2")]
    assert factors == [next(Path("out").glob("*.round2")).read_bytes()] * 3
    tables = [Path(f"{name}.parquet").read_bytes() for name in SITES]
    assert not [path for path in Path("in").iterdir() if path.read_bytes() in tables]


def test_code_that_the_server_sends_does_not_run_at_a_site(flower: Flower) -> None:
    """The control is a plain SuperNode on the same SuperLink, which runs what it is sent."""
    Path("guarded", "outbox").mkdir(parents=True)
    flower.site("guarded", flower.register("guarded"))
    plain, home = flower.register("plain"), flower.folder / "plain"
    home.mkdir()
    environment = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "HOME": str(home)}
    environment |= {"FLWR_HOME": str(home), "PATH": f"{PROGRAMS}:/usr/bin:/bin"}
    words: list[object] = [PROGRAMS / "flower-supernode", "--superlink", f"127.0.0.1:{flower.public}"]
    words += ["--root-certificates", flower.authority.certificate, "--auth-supernode-private-key", plain]
    words += ["--port", free_port()]
    flower.processes.start("plain", words, environment=environment)
    flower.processes.wait_for(lambda: b"SuperNode ID" in flower.processes.log("plain").read_bytes(), 240, "plain")

    hostile = flower.folder / "app"
    (hostile / "evil").mkdir(parents=True)
    (hostile / "evil" / "__init__.py").write_text("")
    (hostile / "evil" / "client.py").write_text(HOSTILE)
    (hostile / "evil" / "server.py").write_text(ASKS)
    (hostile / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "evil"\nversion = "1.0.0"\ndescription = ""\nlicense = "Apache-2.0"\ndependencies = []\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["."]\n[tool.flwr.app]\npublisher = "mallory"\n'
        '[tool.flwr.app.components]\nserverapp = "evil.server:app"\nclientapp = "evil.client:app"\n'
        "[tool.flwr.app.config]\n"
    )
    operator = {**environment, "HOME": str(flower.state), "FLWR_HOME": str(flower.state)}
    run_it = [PROGRAMS / "flwr", "run", hostile, "twofold", "--stream"]
    flower.processes.start("evil", run_it, environment=operator)
    flower.processes.wait_for(lambda: b"ASKED 2" in flower.processes.log("evil").read_bytes(), 400, "evil")
    assert b"ANSWERED 2 ERRORS 2" in flower.processes.log("evil").read_bytes()  # neither app has such a query
    assert (home / "owned").read_text() == "ran"
    assert not list((flower.folder / "guarded").rglob("owned"))
    assert not list((flower.folder / "guarded").rglob("client.py"))  # the archive was not even unpacked


def test_only_the_fleet_is_reached_from_outside(flower: Flower) -> None:
    """Flower's Control API asks nobody for a password; the proxy does not pass it."""
    trusted = ssl.create_default_context(cafile=flower.authority.certificate)
    for path in ("/v1/control/start-run", "/v1/runtime/x", "/", "/v1/fleet/../control/start-run", "/v1/fleet%2f../x"):
        connection = HTTPSConnection("127.0.0.1", flower.public, context=trusted, timeout=20)
        connection.request("POST", path, body=b"")
        assert connection.getresponse().status == 403, path
        connection.close()


def test_a_node_without_a_known_key_is_refused(flower: Flower) -> None:
    stranger, _ = node_keys(flower.folder, "stranger")
    Path("stranger", "outbox").mkdir(parents=True)
    with pytest.raises(AssertionError, match="ended"):
        flower.site("stranger", stranger)
