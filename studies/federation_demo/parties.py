"""The parties of the demonstration: their folders, made-up data, and their processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks._kill_points import SINGLE
from studies.federation_demo.network import Network
from twofold.data.sources.hospitals import simulate
from twofold.errors import NotReady

__all__ = ["Parties", "make_data"]


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
                env={**os.environ, **SINGLE},
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
