"""`twofold-flower`: start Flower's programs with the switches that this adapter requires, and with no others.

::

    twofold-flower link      at the coordinator: the SuperLink, on loopback, behind a proxy that passes /v1/fleet/ only
    twofold-flower register  at the coordinator: a site's public key, before its SuperNode may connect
    twofold-flower carry     at the coordinator: one run that moves files until the last message is everywhere
    twofold-flower site      at a site: the SuperNode, which runs the installed app and never the one that is sent

There is no option for a connection without TLS or without keys of the nodes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Command", "carry", "commands", "link", "main", "register", "site"]

#: No reports to Flower's maker, no look for newer versions, no installation of what a run asks for.
QUIET: Final = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
#: Tasks that a SuperLink can ask of a node beside a ClientApp; each is code that was sent.
_FOREIGN: Final = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-serverapp", "flwr-simulation")
_APP: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "twofold-carrier"
version = "1.0.0"
description = "Moves the files of a twofold federation."
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "twofold"

[tool.flwr.app.components]
serverapp = "twofold_flower.apps:server"
clientapp = "twofold_flower.apps:client"

[tool.flwr.app.config]
inbox = ""
outbox = ""
sites = 0
wait = 0.0
poll = 2.0
timeout = 300.0
"""


class Command(NamedTuple):
    """A program of Flower with its arguments and environment."""

    arguments: list[str]
    environment: dict[str, str]


def _tool(name: str) -> str:
    """Give the path of a program beside this interpreter."""
    return str(Path(sys.executable).with_name(name))


def _settings(state: Path, path: str) -> dict[str, str]:
    """Give the whole environment: nothing of the caller's but the language."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {**kept, **QUIET, "FLWR_HOME": str(state), "HOME": str(state), "PATH": path}


def commands(state: Path) -> Path:
    """Write the folder that is a site's whole PATH: Flower's SuperExec, the guard, and refusals."""
    folder = state / "commands"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = shlex.quote(sys.executable)
    lines = {
        "flower-superexec": f"{shlex.quote(_tool('flower-superexec'))}",
        "flwr-clientapp": f"{python} -P -m twofold_flower.guard",
    }
    lines |= {name: f"{python} -P -m twofold_flower.guard --refuse {name}" for name in _FOREIGN}
    for name, line in lines.items():
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
    return folder


def site(given: argparse.Namespace) -> Command:
    """Give the command of a SuperNode that runs the installed app only."""
    if os.geteuid() == 0 and not given.as_root:
        raise SystemExit(
            "twofold-flower site: refused to run as root. Give the node a user of its own that can read the outbox, "
            "write the inbox and see nothing else; --as-root is for a container in which that user is called root."
        )
    state = _folder(given.state)
    folders = {"outbox": _there(given.outbox), "inbox": _folder(given.inbox)}
    words = " ".join(f'{name}="{path}"' for name, path in folders.items())
    path = commands(state)
    arguments = [_tool("flower-supernode"), "--superlink", given.superlink, "--host", "127.0.0.1"]
    arguments += ["--port", str(given.port), "--root-certificates", str(_there(given.root_certificates))]
    arguments += ["--auth-supernode-private-key", str(_there(given.key)), "--node-config", words]
    return Command(arguments, _settings(state, str(path)))  # a node installs nothing unless a switch says so


def link(given: argparse.Namespace) -> Command:
    """Give the command of a SuperLink on loopback, with TLS, keys of the nodes and a database."""
    state = _folder(given.state)
    arguments = [_tool("flower-superlink"), "--host", "127.0.0.1", "--port", str(given.port)]
    arguments += ["--ssl-ca-certfile", str(_there(given.root_certificates))]
    arguments += ["--ssl-certfile", str(_there(given.certificate)), "--ssl-keyfile", str(_there(given.key))]
    arguments += ["--enable-supernode-auth", "--database", str(state / "flower.db")]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return Command([*arguments, "--disable-runtime-dependency-installation"], _settings(state, path))


def register(given: argparse.Namespace) -> Command:
    """Give the command that makes a site's key known to the coordinator's own SuperLink."""
    words = ["supernode", "register", str(_there(given.public_key)), "twofold", "--name", given.name]
    return _control(given, words)


def carry(given: argparse.Namespace) -> Command:
    """Give the command of one run on the coordinator's own SuperLink."""
    app = _folder(given.state) / "app"
    app.mkdir(exist_ok=True)
    (app / "pyproject.toml").write_text(_APP, encoding="utf-8")
    asked: Mapping[str, object] = {
        "inbox": f'"{_folder(given.inbox)}"',
        "outbox": f'"{_folder(given.outbox)}"',
        "sites": given.sites,
        "wait": float(given.wait),
        "poll": float(given.poll),
        "timeout": float(given.timeout),
    }
    words = " ".join(f"{name}={value}" for name, value in asked.items())
    return _control(given, ["run", str(app), "twofold", "--stream", "--run-config", words])


def _control(given: argparse.Namespace, words: Sequence[str]) -> Command:
    """Give a command to the SuperLink on this machine; its settings are a file in the state folder."""
    state = _folder(given.state)
    connection = {"address": f"127.0.0.1:{given.port}", "root-certificates": str(_there(given.root_certificates))}
    lines = "".join(f'{name} = "{value}"\n' for name, value in connection.items())
    (state / "config.toml").write_text(f'[superlink]\ndefault = "twofold"\n\n[superlink.twofold]\n{lines}', "utf-8")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return Command([_tool("flwr"), *words], _settings(state, path))


def _there(path: Path) -> Path:
    if not path.exists():
        raise SystemExit(f"twofold-flower: {path} is not there")
    return _plain(path.resolve())


def _folder(path: Path) -> Path:
    path.mkdir(mode=0o750, exist_ok=True)
    return _plain(path.resolve())


def _plain(path: Path) -> Path:
    """Refuse names that would end a value in Flower's configuration."""
    if any(sign in str(path) for sign in "\"'\\\n"):
        raise SystemExit("twofold-flower: Flower takes no path with quotes or backslashes; rename the folder")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="twofold-flower", description=(__doc__ or "").split("\n\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, told: str, *paths: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=told, description=told)
        for path in ("state", "root-certificates", *paths):
            made.add_argument(f"--{path}", type=Path, required=True)
        return made

    one = verb("site", "Start the SuperNode of a site.", "key", "outbox", "inbox")
    one.add_argument("--superlink", required=True, metavar="HOST:PORT")
    one.add_argument("--port", type=int, default=9094, help="loopback port between Flower's two processes")
    one.add_argument("--as-root", action="store_true", help="in a container whose only user is root")
    verb("link", "Start the SuperLink of the coordinator.", "certificate", "key").add_argument(
        "--port", type=int, default=8000, help="loopback port; a proxy passes /v1/fleet/ to it"
    )
    known = verb("register", "Make the key of a site known.", "public-key")
    known.add_argument("--name", required=True, help="name of the site, for people")
    known.add_argument("--port", type=int, default=8000)
    run = verb("carry", "Move files until every site has the last message.", "inbox", "outbox")
    run.add_argument("--port", type=int, default=8000)
    run.add_argument("--sites", type=int, required=True, help="sites that must have the last message")
    run.add_argument("--wait", type=float, default=3600.0, help="seconds after which to give up until the next run")
    run.add_argument("--poll", type=float, default=10.0, help="seconds between two exchanges")
    run.add_argument("--timeout", type=float, default=300.0, help="seconds for one exchange")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Become the program of Flower that was asked for."""
    given = _parser().parse_args(arguments)
    made = {"site": site, "link": link, "register": register, "carry": carry}[given.verb](given)
    os.execve(made.arguments[0], made.arguments, made.environment)
