"""The examples in deploy/: units that systemd accepts, containers that name what exists, commands that exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperCommand, TyperGroup

from deploy.bundle import INSTALL
from twofold.cli import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
PROGRAM = "/opt/twofold/bin/twofold"


def check_command(words: list[str]) -> None:
    """Parse words as the command line does; options that do not exist are refused."""
    found: TyperCommand | TyperGroup = typer.main.get_command(app)
    while isinstance(found, TyperGroup):
        found = found.commands[words.pop(0)]
    found.make_context("twofold", words, resilient_parsing=False)


def unit(path: Path) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.name)
def test_a_unit_starts_a_command_that_exists(path: Path) -> None:
    program, *words = shlex.split(unit(path)["Service"]["ExecStart"])
    assert program == PROGRAM
    check_command(words)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("scope", ["coordinate", "join", "serve"])
def test_systemd_accepts_the_units(scope: str, tmp_path: Path) -> None:
    """As they are, but with the program of this environment in the place of the installed one."""
    names = [path.name for path in UNITS if scope in path.name]
    for name in names:
        text = (DEPLOY / "systemd" / name).read_text().replace(PROGRAM, str(Path(sys.executable).with_name("twofold")))
        (tmp_path / name).write_text(text)
    user = ["--user"] if scope == "join" else ["--system"]

    def verify() -> subprocess.CompletedProcess[str]:
        words = ["systemd-analyze", "verify", *user, "--man=no", "--recursive-errors=no", *names]
        return subprocess.run(
            words,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        )

    done = verify()
    assert (done.returncode, [line for line in done.stderr.splitlines() if "twofold" in line]) == (0, []), done.stderr
    broken = tmp_path / f"twofold-{scope}.service"
    broken.write_text(broken.read_text().replace("UMask=0077", "UMaks=0077"))
    assert "UMaks" in verify().stderr


def test_a_site_needs_no_root_and_stops_when_it_is_done() -> None:
    join = unit(DEPLOY / "systemd" / "twofold-join.service")
    assert "User" not in join["Service"]
    assert "--once" in join["Service"]["ExecStart"]
    assert join["Service"]["SuccessExitStatus"] == "3"
    output = shlex.split(join["Service"]["ExecStart"])[-1]
    assert join["Unit"]["ConditionPathExists"] == f"!%h/twofold/{output}"


def test_the_coordinator_may_write_its_own_folder_only() -> None:
    service = unit(DEPLOY / "systemd" / "twofold-coordinate.service")["Service"]
    assert service["ProtectSystem"] == "strict"
    words = shlex.split(service["ExecStart"])
    written = [words[words.index(option) + 1] for option in ("--state", "--keys")]
    assert all(path.startswith(f"/var/lib/{service['StateDirectory']}/") for path in written)
    assert words[words.index("--listen") + 1].startswith("127.0.0.1:")


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "container" / "Dockerfile").read_text()
    lines = (line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#"))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_made_of_what_the_bundle_gives() -> None:
    """No engine is at hand in tests: this reads the file. That an image builds is not shown by it."""
    found = instructions()
    assert {word for word, _ in found} <= {"ARG", "FROM", "COPY", "RUN", "USER", "WORKDIR", "ENV", "ENTRYPOINT", "CMD"}
    copied = [rest.split() for word, rest in found if word == "COPY" and not rest.startswith("--from")]
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for source, _ in copied:
        assert re.fullmatch(r"dist/twofold-\*-cp311-linux_x86_64\.tar\.gz", source)
        assert version != "cp311" or Path(f"dist/twofold-0.1.0-{version}-linux_x86_64.tar.gz").match(source)
    stages = {rest.split(" AS ")[1] for word, rest in found if word == "FROM" and " AS " in rest}
    assert {rest.split()[0].removeprefix("--from=") for word, rest in found if rest.startswith("--from")} <= stages
    scripts = " ".join(rest for word, rest in found if word == "RUN")
    assert f"/{INSTALL.name} /opt/twofold" in scripts
    assert dict(found)["USER"] == "10001:10001"
    assert dict(found)["ENTRYPOINT"] == f'["{PROGRAM}"]'
    assert not re.search(r"curl|wget|pip install|apt", scripts)


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    return read


def test_the_services_name_files_and_commands_that_exist() -> None:
    services = compose()["services"]
    folder = DEPLOY / "container"
    build = services["coordinator"]["build"]
    assert (folder / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    check_command(list(services["coordinator"]["command"]))
    own = {"./etc", "./tls"}  # the coordinator's files, which the head of the file names
    text = (folder / "compose.yaml").read_text()
    for one in services.values():
        for volume in one["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("."):
                assert source in own or (folder / source).is_file(), source
            else:
                assert source in compose()["volumes"]
    assert all(f"{name[2:]}/" in text.split("services:")[0] for name in own)


def test_only_the_proxy_is_reached_from_outside() -> None:
    services = compose()["services"]
    assert [name for name, one in services.items() if "ports" in one] == ["proxy"]
    coordinator = services["coordinator"]
    assert coordinator["network_mode"] == "service:proxy"
    assert coordinator["read_only"] is True
    assert coordinator["cap_drop"] == ["ALL"]
    words = coordinator["command"]
    assert words[words.index("--listen") + 1] in (DEPLOY / "nginx" / "twofold.conf").read_text()


def test_no_example_names_this_machine() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert str(ROOT) not in path.read_text(), path.name
