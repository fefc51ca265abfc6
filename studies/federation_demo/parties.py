"""The parties of the demonstration: their folders, made-up data, certificates, and their processes."""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from studies.federation_demo.network import Network
from twofold.data.sources.hospitals import simulate
from twofold.errors import NotReady

__all__ = ["Parties", "issue", "make_data"]

#: Small matrices: more threads would only wait for each other.
_ENVIRONMENT: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")


def make_data(folder: Path, names: tuple[str, ...], *, patients: int, items: int, seed: int) -> dict[str, int]:
    """Write the item list and each hospital's table of orders; give the number of patients of each.

    Privacy
    -------
    Nobody real is in these tables: they come from a simulator.
    """
    made = simulate(
        n_patients=patients * len(names),
        n_hospitals=len(names),
        n_items=items,
        smallest=patients // 2,
        size_spread=0.3,
        structure="strong",
        rng=seed,
    ).federation
    made.catalog.write(folder / "items.csv")
    texts, sizes = made.catalog.items.to_polars(), {}
    for name, (_, ratings) in zip(names, made.items(), strict=True):
        found = ratings.matrix.tocoo()
        table = {
            "patient": ratings.user_ids.to_polars().gather(found.row),
            "drug": texts.gather(found.col),
            "times": pl.Series(found.data),
        }
        place = folder / name
        place.mkdir(exist_ok=True)
        pl.DataFrame(table).write_csv(place / "orders.csv")
        sizes[name] = ratings.n_users
    return sizes


def issue(folder: Path, hosts: dict[str, str]) -> Path:
    """Make a certificate authority, and a certificate for each service; give the authority's file.

    Its key stays in this process and is forgotten.
    """
    root = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the demonstration")])
    constraint = x509.BasicConstraints(ca=True, path_length=0)
    made = _certificate(issuer, issuer, root.public_key()).add_extension(constraint, critical=True)
    authority = folder / "authority.pem"
    authority.write_bytes(made.sign(root, hashes.SHA256()).public_bytes(Encoding.PEM))
    for name, host in hosts.items():
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        where = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
        signed = _certificate(subject, issuer, key.public_key()).add_extension(where, critical=False)
        (folder / name / "server.pem").write_bytes(signed.sign(root, hashes.SHA256()).public_bytes(Encoding.PEM))
        secret = folder / name / "server.key"
        secret.touch(mode=0o600)
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return authority


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=2))
    )


class Parties:
    """Everybody's processes: started where their party is, and ended with this one, however it ends.

    Parameters
    ----------
    folder : Path
        Holds a folder for each party.
    network : Network
        Where they run.
    """

    def __init__(self, folder: Path, network: Network) -> None:
        self.folder, self.network = folder, network
        self._running: list[subprocess.Popen[bytes]] = []
        # The kernel ends a child whose parent was killed.
        self._tied = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []

    def start(self, party: str, *words: str) -> subprocess.Popen[bytes]:
        """Start `twofold` in a party's folder and network; what it prints goes to a file."""
        place = self.folder / party
        with (place / "printed.txt").open("ab") as printed:
            program = [*self.network.before(party), *self._tied, sys.executable, "-m", "twofold", *words]
            process = subprocess.Popen(
                program,
                cwd=place,
                env={**os.environ, **_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def finish(self, party: str, process: subprocess.Popen[bytes], *, within: float = 120) -> None:
        """Wait until a process has done its work; show what it printed if it could not."""
        try:
            code: Any = process.wait(within)
        except subprocess.TimeoutExpired:
            code = f"nothing after {within:.0f} s"
        if code != 0:
            raise NotReady(
                "a party of the demonstration did not finish.",
                found=f"{party}: {code}\n{self.printed(party)[-2_000:]}",
                expected="exit code 0",
            )

    def run(self, *commands: tuple[str, ...]) -> None:
        """Run commands side by side; each begins with its party."""
        for party, process in [(party, self.start(party, *words)) for party, *words in commands]:
            self.finish(party, process)

    def printed(self, party: str) -> str:
        """What a party's processes printed so far."""
        return (self.folder / party / "printed.txt").read_text(errors="replace")

    def close(self) -> None:
        """End whatever still runs: services in good order, then everything."""
        left = [one for one in self._running if one.poll() is None]
        for one in left:
            one.send_signal(signal.SIGTERM)
        for one in left:
            with suppress(subprocess.TimeoutExpired):
                one.wait(5)
        for one in self._running:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
