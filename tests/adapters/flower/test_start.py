"""The switches with which Flower's programs are started; needs no Flower."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from twofold_flower import start
from twofold_flower.start import QUIET, Command, commands

ADAPTER = Path(__file__).parents[3] / "adapters" / "flower"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("ca.crt", "server.crt", "server.key", "node", "node.pub"):
        (tmp_path / name).touch()
    (tmp_path / "outbox").mkdir()
    return tmp_path


def words(files: Path, verb: str, **given: object) -> list[str]:
    every = {"state": files / "state", "root-certificates": files / "ca.crt", **given}
    return [verb, *(str(part) for name, value in every.items() for part in (f"--{name}", value))]


def made(line: list[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give the program that would be started."""
    told: list[Command] = []
    monkeypatch.setattr(os, "execve", lambda _, arguments, environment: told.append(Command(arguments, environment)))
    start.main(line)
    return told[0]


SITE = {"key": "node", "outbox": "outbox", "inbox": "inbox"}


def site(files: Path, *more: str, **instead: str) -> list[str]:
    paths = {name: files / instead.get(name, path) for name, path in SITE.items()}
    return [*words(files, "site", **paths, superlink="federation.example.org:443"), *more]


def test_a_site_has_no_way_around_tls_and_keys(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    node = made(site(files, "--as-root"), monkeypatch)
    assert node.arguments[node.arguments.index("--host") + 1] == "127.0.0.1"
    assert {"--root-certificates", "--auth-supernode-private-key"} <= set(node.arguments)
    assert not {"--insecure", "--allow-runtime-dependency-installation"} & set(node.arguments)
    assert QUIET.items() <= node.environment.items()
    assert "PYTHONPATH" not in node.environment
    assert node.environment["PATH"] == str(files / "state" / "commands")
    with pytest.raises(SystemExit):
        made(site(files, "--as-root", "--insecure"), monkeypatch)


def test_a_site_does_not_run_as_root(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SystemExit, match="root"):
        made(site(files), monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert made(site(files), monkeypatch).arguments


@pytest.mark.parametrize("wrong", [{"key": "nowhere"}, {"outbox": "nowhere"}])
def test_what_is_not_there_is_refused_before_anything_starts(
    files: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]
) -> None:
    with pytest.raises(SystemExit, match="nowhere is not there"):
        made(site(files, "--as-root", **wrong), monkeypatch)


def test_a_path_cannot_add_settings(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / 'x" inbox="y').mkdir()
    with pytest.raises(SystemExit, match="quotes"):
        made(site(files, "--as-root", outbox='x" inbox="y'), monkeypatch)


def test_the_link_listens_on_loopback_with_keys_and_a_database(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = made(words(files, "link", certificate=files / "server.crt", key=files / "server.key"), monkeypatch)
    assert link.arguments[link.arguments.index("--host") + 1] == "127.0.0.1"
    needed = {"--enable-supernode-auth", "--database", "--ssl-certfile", "--disable-runtime-dependency-installation"}
    assert needed <= set(link.arguments)
    assert "--insecure" not in link.arguments
    assert QUIET.items() <= link.environment.items()


def test_a_run_holds_no_code(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"inbox": files / "in", "outbox": files / "out", "sites": 3}
    carry = made(words(files, "carry", **asked), monkeypatch)
    assert [path.name for path in (files / "state" / "app").iterdir()] == ["pyproject.toml"]
    assert f'inbox="{files}/in"' in carry.arguments[-1]
    assert "127.0.0.1:8000" in (files / "state" / "config.toml").read_text()


def test_the_whole_path_of_a_site_is_one_folder(tmp_path: Path) -> None:
    """What a SuperLink can ask for beside a ClientApp is refused, whatever is installed."""
    folder = commands(tmp_path)
    foreign = {"flwr-agentapp", "flwr-connector", "flwr-model", "flwr-serverapp", "flwr-simulation"}
    assert {path.name for path in folder.iterdir()} == {"flower-superexec", "flwr-clientapp", *foreign}
    for name in sorted(foreign):
        done = subprocess.run(
            [folder / name, "--token", "secret"],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": str(folder), "PYTHONPATH": str(ADAPTER)},
        )
        assert done.returncode == 77
        assert name in done.stderr
        assert "secret" not in done.stderr
    assert sys.executable in (folder / "flwr-clientapp").read_text()
