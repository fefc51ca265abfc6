"""A service in a process of its own, on this machine: its files, its start and end, and what it uses."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.certificates import Authority
from tests.enrolled import OPERATOR, Enrolled
from twofold.federation.agreement import Agreements
from twofold.federation.https import Client, Connection
from twofold.federation.invitation import fetched_plan
from twofold.identity.keystore import KeyStore
from twofold.server.service.app import METRICS_FILE, Service
from twofold.server.service.hosted import Hosted
from twofold.server.service.limits import Limits
from twofold.server.service.run import server_of

__all__ = ["OPEN", "Place", "Process", "Usage", "main", "peak_megabytes", "run_service", "usage"]

HOST: Final = "127.0.0.1"
#: Limits of a service all of whose members come from one address, as here.
OPEN: Final = Limits(address_rate=1e6, address_burst=1_000_000, member_rate=1e6, member_burst=1_000_000)
#: Seconds to wait for a process to start or to end.
PATIENCE: Final = 60.0
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a process holds: megabytes of memory, open descriptors, files of its state."""

    megabytes: float
    descriptors: int
    files: int


def usage(pid: int, state: Path) -> Usage:
    """Read what a process holds; Linux tells it.

    Examples
    --------
    >>> usage(os.getpid(), Path("/nowhere")).files
    0
    """
    status = Path(f"/proc/{pid}/status").read_text()
    here = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    files = sum(path.is_file() for path in state.rglob("*")) if state.is_dir() else 0
    return Usage(megabytes=_field(status, "VmRSS"), descriptors=here, files=files)


def peak_megabytes(pid: int) -> float:
    """Give the most memory that a process has held so far."""
    return _field(Path(f"/proc/{pid}/status").read_text(), "VmHWM")


def _field(status: str, name: str) -> float:
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


class Place:
    """The files of a service: certificates, and for each federation its plan, roster, agreements and operator's keys.

    Parameters
    ----------
    folder : Path
        An empty folder.
    made : sequence of Enrolled
        The federations.
    agreed : bool
        Whether everybody's agreements came with the plan; otherwise they are sent like everything else.
    """

    def __init__(self, folder: Path, *made: Enrolled, agreed: bool = True) -> None:
        self.folder, self.made = folder, made
        self.authority = Authority(folder)
        self.certificate, self.key = self.authority.issue("server")
        for one in made:
            place = folder / "plans" / one.plan.hash
            place.mkdir(parents=True)
            members = one.plan.members
            assert members is not None
            (place / "plan").write_text(one.plan.canonical())
            (place / "roster").write_text(members.text)
            (place / "keys").write_bytes(one.secrets[OPERATOR].to_bytes())
            if agreed:
                (place / "agreements").write_text(one.agreements.text)

    @property
    def state(self) -> Path:
        """The service's own folder."""
        return self.folder / "state"

    def client(self, url: str, made: Enrolled, name: str, **more: Any) -> Client:
        """Give a member's client."""
        clock = {"clock": more.pop("clock")} if "clock" in more else {}
        ca = None if url.startswith("http:") else self.authority.certificate
        connection = Connection(server=url, **({"ca": ca, "attempts": 1, "seconds": 30.0, "proxy": ""} | more))
        return Client(connection, name=name, signer=made.signer(name), **clock)

    def http(self, url: str) -> httpx.Client:
        """Give a plain client that trusts the service."""
        connection = Connection(server=url, ca=self.authority.certificate, seconds=30.0, proxy="")
        return connection.open()

    @contextmanager
    def started(self, **given: Any) -> Iterator[Process]:
        """Run the service in a process of its own; see `Process.start`."""
        one = Process.start(self, **given)
        try:
            yield one
        finally:
            one.stop()


def hosted_in(folder: Path) -> list[Hosted]:
    """Read the federations of a place."""
    found = []
    for place in sorted((folder / "plans").iterdir()):
        documents = {kind: (place / kind).read_bytes() for kind in ("plan", "roster")}
        plan = fetched_plan(documents, place.name)
        agreed = place / "agreements"
        agreements = Agreements.read(agreed) if agreed.exists() else None
        found.append(Hosted(plan=plan, keys=KeyStore(place / "keys"), agreements=agreements))
    return found


def run_service(folder: Path, *, port: int, tls: bool = True, skew: float = 0.0, limits: Limits = OPEN) -> None:
    """Be the service of a place until a signal comes."""
    service = Service(folder / "state", hosted_in(folder), limits=limits, poll=0.05, clock=lambda: time.time() + skew)
    files = {"certificate": folder / "server.crt", "key": folder / "server.key"} if tls else {}
    server_of(service, host=HOST, port=port, **files).run()


@dataclass
class Process:
    """A running service."""

    place: Place
    process: subprocess.Popen[str]
    url: str
    errors: Path
    peak: float = field(default=0.0)

    @classmethod
    def start(
        cls,
        place: Place,
        *,
        limits: Limits = OPEN,
        skew: float = 0.0,
        file_limit: int = 0,
        descriptors: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a service and wait until it answers.

        Parameters
        ----------
        place : Place
            Its files.
        limits : Limits
            Its limits.
        skew : float
            Seconds by which its clock is wrong.
        file_limit : int
            Bytes that a file may have: a disk that is full, for everything larger.
        descriptors : int
            Descriptors that it may open.
        environment : mapping
            Variables for it.
        """
        port = free_port()
        asked = {"limits": asdict(limits), "skew": skew, "file_limit": file_limit, "descriptors": descriptors}
        command = [sys.executable, "-m", "studies", "network", "serve", str(place.folder), str(port), json.dumps(asked)]
        errors = place.folder / "service.err"
        with errors.open("a") as told:
            process = subprocess.Popen(
                command, stderr=told, text=True, cwd=_ROOT, env={**os.environ, **(environment or {})}
            )
        one = cls(place, process, f"https://{HOST}:{port}", errors)
        one._await()
        return one

    def _await(self) -> None:
        until = time.monotonic() + PATIENCE
        with self.place.http(self.url) as http:
            while True:
                try:
                    if http.get(f"{self.url}/v1/health").status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                if self.process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise RuntimeError(f"the service did not start: {self.errors.read_text()[-500:]}")
                time.sleep(0.05)

    @property
    def alive(self) -> bool:
        """Whether it runs and answers."""
        with self.place.http(self.url) as http:
            return self.process.poll() is None and http.get(f"{self.url}/v1/health").status_code == 200

    @property
    def usage(self) -> Usage:
        """What it holds now."""
        return usage(self.process.pid, self.place.state)

    def metrics(self) -> dict[str, float]:
        """Read its counters."""
        password = (self.place.state / METRICS_FILE).read_text().strip()
        with self.place.http(self.url) as http:
            answer = http.get(f"{self.url}/v1/metrics", headers={"authorization": f"Bearer {password}"})
        lines = answer.raise_for_status().text.splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def faults(self) -> int:
        """Count the answers with a status of 500 or more."""
        return int(sum(n for name, n in self.metrics().items() if name.startswith('twofold_responses_total{status="5')))

    def stop(self) -> int:
        """Ask it to end; give its exit code."""
        if self.process.poll() is None:
            self.peak = peak_megabytes(self.process.pid)
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(PATIENCE)


def free_port() -> int:
    """Give a port that nobody uses now."""
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def main(arguments: Sequence[str]) -> int:
    """Be the process that `Process.start` started."""
    parser = argparse.ArgumentParser(prog="python -m studies network serve")
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("asked", type=json.loads)
    given = parser.parse_args(arguments)
    _restrict(given.asked["file_limit"], given.asked["descriptors"])
    run_service(given.folder, port=given.port, skew=given.asked["skew"], limits=Limits(**given.asked["limits"]))
    return 0


def _restrict(file_limit: int, descriptors: int) -> None:
    import resource  # not on Windows

    if file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    if descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
