"""`twofold doctor`: look whether this machine is ready, without reading any data."""

from __future__ import annotations

import json as jsonlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from twofold import __version__
from twofold.cli.options import Json
from twofold.cli.render import say
from twofold.errors import install

__all__ = ["doctor"]

#: Without these nothing runs; with the others, more.
_NEEDED: Final = ("numpy", "scipy", "numba", "polars", "narwhals", "safetensors", "cryptography", "pydantic", "rich")
_EXTRAS: Final = {"network": ("starlette", "uvicorn", "httpx"), "pandas": ("pandas", "pyarrow"), "duckdb": ("duckdb",)}
#: Bytes of free disk below which a warning is worth it, and seconds by which a signed request may be off.
_ROOM: Final = 1 << 30
_SKEW: Final = 300.0
Verdict = Literal["ok", "note", "fault"]


@dataclass(frozen=True)
class Finding:
    """One line of the list."""

    name: str
    verdict: Verdict
    found: str
    fix: str = ""


def doctor(
    folder: Annotated[Path, typer.Option(help="Where ledgers, keys and models will be.")] = Path(),
    server: Annotated[str | None, typer.Option("--server", help="Address of a coordinator to reach.")] = None,
    ca: Annotated[Path | None, typer.Option("--ca", help="Certificate authorities to trust (PEM).")] = None,
    json: Json = False,
) -> None:
    """Look whether this machine is ready: versions, randomness, disk, clock, folders, threads, network.

    Reads no data. Exit code 2 if something would keep twofold from working.

    Examples
    --------
    twofold doctor
    twofold doctor --folder /srv/twofold --server https://federation.example.org:8443
    """
    looks: list[Callable[[], Iterator[Finding]]] = [
        _versions,
        _randomness,
        lambda: _disk(folder),
        _clock,
        _data,
        _threads,
        _streams,
    ]
    if server is not None:
        looks.append(lambda: _network(server, ca))
    found = [one for look in looks for one in look()]
    ready = all(one.verdict != "fault" for one in found)
    if json:
        typer.echo(jsonlib.dumps({"ready": ready, "findings": [asdict(one) for one in found]}, indent=2))
    else:
        for one in found:
            say(f"{one.verdict:<6}{one.name:<14}{one.found}")
            if one.fix:
                say(f"{'':<20}Do: {one.fix}")
        say("ready" if ready else "not ready: see the lines that begin with fault")
    if not ready:
        raise typer.Exit(2)


def _versions() -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("twofold", "ok", f"{__version__}, Python {python}, {sys.platform}")
    for name in _NEEDED:
        try:
            import_module(name)
            yield Finding(name, "ok", version(name))
        except Exception as error:  # a library that does not load may fail in any way
            yield Finding(
                name, "fault", f"does not load ({type(error).__name__})", "pip install --force-reinstall twofold"
            )
    for extra, names in _EXTRAS.items():
        missing = [name for name in names if not _installed(name)]
        if missing:
            yield Finding(extra, "note", f"not installed: {', '.join(missing)}", install(extra))
        else:
            yield Finding(extra, "ok", ", ".join(f"{name} {version(name)}" for name in names))


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _randomness() -> Iterator[Finding]:
    """The noise of every release comes from the operating system: it must answer, at once and differently."""
    try:
        drawn = {os.urandom(32) for _ in range(64)}
        if hasattr(os, "getrandom"):
            os.getrandom(32, os.GRND_NONBLOCK)
    except (OSError, NotImplementedError) as error:
        yield Finding(
            "randomness", "fault", f"the operating system gives none ({type(error).__name__})", "wait, or reboot"
        )
        return
    if len(drawn) < 64:
        yield Finding("randomness", "fault", "the operating system repeats itself", "do not use this machine")
    else:
        yield Finding("randomness", "ok", "from the operating system")


def _disk(folder: Path) -> Iterator[Finding]:
    try:
        free = shutil.disk_usage(folder).free
        with tempfile.TemporaryDirectory(dir=folder, prefix=".twofold-doctor-") as place:
            file = Path(place, "a")
            file.write_bytes(b"a")
            _durable(file)
            try:
                os.link(file, Path(place, "b"))
                links = True
            except OSError:
                links = False
    except OSError as error:
        yield Finding("disk", "fault", f"{folder}: {error.strerror}", "a folder that you may write to: --folder")
        return
    verdict: Verdict = "ok" if free >= _ROOM else "note"
    yield Finding("disk", verdict, f"{free / 1e9:,.1f} GB free", "" if verdict == "ok" else "make room")
    if not links:
        yield Finding(
            "disk", "note", "no hard links here: two processes that write one file are told apart less surely"
        )


def _durable(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _clock() -> Iterator[Finding]:
    """Signed requests and deadlines need a clock that is roughly right."""
    now = datetime.now(UTC)
    built = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    if now < built:
        yield Finding("clock", "fault", f"{now:%Y-%m-%dT%H:%M:%SZ}, before twofold was installed", "set the clock")
    else:
        yield Finding("clock", "ok", f"{now:%Y-%m-%dT%H:%M:%SZ}; compared with a server if one is named")


def _data() -> Iterator[Finding]:
    named = os.environ.get("TWOFOLD_DATA")
    if not named:
        yield Finding("data", "ok", "TWOFOLD_DATA is not set; only published data sets need it")
    elif Path(named).is_dir():
        yield Finding("data", "ok", f"TWOFOLD_DATA names a folder with {len(list(Path(named).iterdir()))} entries")
    else:
        yield Finding("data", "note", "TWOFOLD_DATA names no folder", "export TWOFOLD_DATA=FOLDER, or unset it")


def _threads() -> Iterator[Finding]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = {name: os.environ[name] for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS") if name in os.environ}
    said = "".join(f", {name}={value}" for name, value in limits.items())
    yield Finding("threads", "ok", f"{usable} of {os.cpu_count()} processors{said}")
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        yield Finding("memory", "ok" if memory > 2e9 else "note", f"{memory / 1e9:,.1f} GB")


def _streams() -> Iterator[Finding]:
    encoding = (sys.stdout.encoding or "").lower()
    plain = encoding.replace("-", "") == "utf8"
    yield Finding("terminal", "ok", encoding if plain else f"{encoding}: letters that it lacks are spelled out")


def _network(server: str, ca: Path | None) -> Iterator[Finding]:
    """Reach a coordinator as `join` would, without a word about who asks."""
    from twofold.cli.network import need_network

    need_network("httpx")
    import httpx

    begin = time.monotonic()
    try:
        with httpx.Client(verify=str(ca) if ca else True, timeout=10) as client:
            answer = client.get(f"{server.rstrip('/')}/v1/health")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        fix = "check the address, the proxy (HTTPS_PROXY) and, for a private authority, --ca"
        yield Finding("server", "fault", f"{server}: {type(error).__name__}", fix)
        return
    took = time.monotonic() - begin
    if answer.status_code != 200:
        yield Finding("server", "fault", f"{server}: status {answer.status_code}", "is this a coordinator of twofold?")
        return
    yield Finding("server", "ok", f"{server} answers in {1000 * took:.0f} ms")
    try:
        there = parsedate_to_datetime(answer.headers.get("date", ""))
    except (TypeError, ValueError):
        return
    apart = abs((datetime.now(UTC) - there).total_seconds())
    verdict: Verdict = "ok" if apart < _SKEW else "fault"
    yield Finding("clock", verdict, f"{apart:.0f} s from the server's", "" if verdict == "ok" else "set the clock")
