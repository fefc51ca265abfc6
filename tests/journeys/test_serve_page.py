"""The page about serving: its commands exist with these options, and every request on it is answered."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.certificates import Authority
from tests.deploy.test_examples import check_command
from tests.processes import Processes, free_port, listens
from tests.serve.conftest import TITLES, make_model

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
BLOCKS = "".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ").splitlines()
COMMANDS = [line for line in BLOCKS if line.startswith("twofold ")]
PLAIN = [line for line in BLOCKS if line.startswith("curl ") and "http://127.0.0.1:8080" in line]
SECURE = [line for line in BLOCKS if line.startswith("curl ") and "https://" in line]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_takes_these_options(line: str) -> None:
    check_command(shlex.split(line)[1:])


def test_no_request_of_the_page_is_left_out() -> None:
    assert len(PLAIN) + len(SECURE) == PAGE.count("curl -s")
    assert len(PLAIN) >= 8


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose users and items are those of the page."""
    folder = tmp_path_factory.mktemp("page")
    items = [title.lower() for title in TITLES.values()]
    make_model(items=items, users=[f"patient-{at}" for at in range(20)]).save(folder / "st-anna.model")
    pl.DataFrame({"item": items, "title": list(TITLES.values())}).write_csv(folder / "items.csv")
    certificate, key = Authority(folder).issue("server")
    certificate.rename(folder / "server.pem")
    key.rename(folder / "server.key")
    (folder / "ca.crt").rename(folder / "ca.pem")
    return folder


def answer_to(line: str, folder: Path) -> dict[str, object]:
    words = ["bash", "-c", line.replace("curl -s", "curl -s --fail-with-body --max-time 60")]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    record: dict[str, object] = json.loads(done.stdout)
    return record


def test_every_request_of_the_page_is_answered(site: Path) -> None:
    port = free_port()
    command = next(line for line in COMMANDS if "--listen" not in line)
    words = [sys.executable, "-m", "twofold", *shlex.split(command)[1:], "--listen", f"127.0.0.1:{port}"]
    with Processes(site) as processes, pytest.MonkeyPatch.context() as patch:
        patch.chdir(site)
        processes.start("plain", words)
        processes.wait_for(lambda: listens(port), 60, "plain")
        for line in PLAIN:
            assert answer_to(line.replace("127.0.0.1:8080", f"127.0.0.1:{port}"), site)


def test_the_request_from_another_machine_is_answered(site: Path) -> None:
    port = free_port()
    command = next(line for line in COMMANDS if "0.0.0.0:8443" in line).replace("8443", str(port))
    with Processes(site) as processes, pytest.MonkeyPatch.context() as patch:
        patch.chdir(site)
        processes.start("secure", [sys.executable, "-m", "twofold", *shlex.split(command)[1:]])
        processes.wait_for(lambda: listens(port), 60, "secure")
        for line in SECURE:
            assert "recommendations" in answer_to(line.replace("recommend.example.org:8443", f"localhost:{port}"), site)
