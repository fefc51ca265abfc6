"""`twofold serve` under wrk beside a bare Starlette route, in the same run and taking turns: rate, latency, memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from benchmarks.recommend import RANK, _hospital_rows
from benchmarks.table import Table, versions
from twofold.algorithms.masked_nmf import masked_nmf
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.model import Model
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.ridge import weights_from_gram
from twofold.serve.answers import LARGE

#: Of wrk, all of them busy all the time; fewer where an answer takes long.
CONNECTIONS = 8
FEW = 2
BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def answer(request):
    return JSONResponse({"user": request.path_params["user"]})

app = Starlette(routes=[Route("/recommendations/{user}", answer)])
uvicorn.run(app, port=int(sys.argv[1]), http="h11", access_log=False, log_level="warning")
"""
#: What wrk sends; `start` differs in every round, so that users who are asked for once are new.
SCRIPTS = {
    "a user, often": 'return wrk.format("GET", "/recommendations/" .. math.random(0, 999))',
    "a user, once": 'at = at + 1; return wrk.format("GET", "/recommendations/" .. at % USERS)',
    "a basket of 20": """local b = {}
  for i = 1, 20 do b[i] = '"item-' .. (math.random(0, math.floor(ITEMS / 20) - 1) * 20 + i - 1) .. '":2' end
  return wrk.format("POST", "/recommendations", nil, '{"basket":{' .. table.concat(b, ",") .. '}}')""",
    "similar items": 'return wrk.format("GET", "/items/item-" .. math.random(0, ITEMS - 1) .. "/similar")',
    "why an item": 'return wrk.format("GET", "/why?user=" .. math.random(0, 999) .. "&item=item-7")',
    "a bare route": 'return wrk.format("GET", "/recommendations/" .. math.random(0, 999))',
}
SCRIPT = """math.randomseed(START)
local at = START
local USERS, ITEMS = {users}, {items}
wrk.headers["content-type"] = "application/json"
request = function() {body} end
done = function(summary, latency, requests)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  print(string.format('{{"number":%d,"rate":%f,"bad":%d,"p50":%f,"p99":%f}}', summary.requests,
    summary.requests / summary.duration * 1e6, bad, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""
NOTE = (
    "wrk, one thread, on the same machine, all connections busy all the time. All requests take turns in several "
    "rounds; of each figure the best one counts, since noise only ever adds. Ratio: rate over that of the bare route, "
    "which does nothing but route and answer, with uvicorn's own server. CPU: microseconds of the server for one "
    "request. Often: the same 1,000 users, whose answers are kept. Once: users who were not asked for before. One "
    "process each. MB: the largest memory of the server so far."
)


@dataclass
class Server:
    """A process that answers, and where."""

    process: subprocess.Popen[bytes]
    port: int

    def get(self, path: str) -> Any:
        """Ask for JSON."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Largest resident size so far."""
        book = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in book if line.startswith("VmHWM")).split()[1]) / 1024


def run(*, quick: bool) -> Iterator[Table]:
    """457 items by factors and by item-item weights, then 340,000 items, with a new model while it is served."""
    if shutil.which("wrk") is None:
        print("needs wrk (Debian: apt install wrk)\n")
        return
    used = versions("starlette", "uvicorn", "h11", "numpy")
    rows = _hospital_rows(quick=quick)[:120_000]  # enough that nobody is asked for twice
    seconds, rounds = (1, 1) if quick else (3, 6)
    factors = masked_nmf(rows[:5000], RANK, feedback="counts", max_iterations=10)[1]
    gram = (rows.T @ rows).toarray().astype(np.float64)
    weights = weights_from_gram(gram, np.full(rows.shape[1], 0.01 * np.diag(gram).mean()))
    scorers: dict[str, Scorer] = {
        "factors": FactorScorer(factors, feedback="counts", threads=1),
        "item-item": ItemItemScorer(weights, means=np.asarray(rows.mean(axis=0)), feedback="counts"),
    }
    with tempfile.TemporaryDirectory() as place:
        for kind, scorer in scorers.items():
            file = _saved(Path(place), rows, scorer)
            yield _table(file, f"{kind}, 457 items, {rows.shape[0]:,} users", rows.shape, rounds, seconds, used)
            file.unlink()
        n_items, n_users = (30_000, 1_000) if quick else (340_000, 20_000)
        rng = np.random.default_rng(0)
        wide = FactorScorer(rng.gamma(0.3, 1.0, (n_items, 64)).astype(np.float32), feedback="counts", threads=1)
        sparse = _random_rows(rng, n_users, n_items)
        file = _saved(Path(place), sparse, wide)
        yield _table(file, f"factors of rank 64, {n_items:,} items, {n_users:,} users", sparse.shape, 1, seconds, used)
        yield _reloaded(file, used)


def _random_rows(rng: np.random.Generator, n_users: int, n_items: int, each: int = 50) -> sp.csr_array:
    columns = np.sort(rng.integers(0, n_items // each, (n_users, each)) + np.arange(each) * (n_items // each), axis=1)
    starts = np.arange(n_users + 1) * each
    return sp.csr_array((np.ones(columns.size, np.float32), columns.ravel(), starts), shape=(n_users, n_items))


def _saved(folder: Path, rows: sp.csr_array, scorer: Scorer) -> Path:
    items = [f"item-{column}" for column in range(rows.shape[1])]
    catalog = Catalog(items)
    pl.DataFrame({"item": items, "title": [f"The item with number {at}" for at in range(len(items))]}).write_csv(
        folder / "items.csv"
    )
    model = Model(
        entity="benchmark",
        catalog=catalog,
        history=Ratings(rows, Identifiers(np.arange(rows.shape[0]).tolist()), catalog, "counts"),
        scorer=scorer,
        plan=None,
        lower=0.0,
        bound=float(rows.data.max()),
        factors_hash="",
        private=False,
        strength=0.0,
        note="",
    )
    return model.save(folder / "served.model")


def _table(file: Path, what: str, shape: tuple[int, int], rounds: int, seconds: float, used: str) -> Table:
    connections = CONNECTIONS if shape[1] < LARGE else FEW
    best: dict[str, dict[str, float]] = {}
    with _served(file) as ours, _bare() as bare:
        idle = ours.megabytes()
        for at in range(rounds):
            for name, body in SCRIPTS.items():
                server = bare if name == "a bare route" else ours
                before = server.cpu()
                found = _wrk(server, body, shape, start=at * 20_000, seconds=seconds, of=connections)
                found["cpu"] = (server.cpu() - before) / max(found.pop("number"), 1) * 1e6
                _keep(best.setdefault(name, {}), found)
                best[name]["mb"] = server.megabytes()
    base = best["a bare route"]["rate"]
    lines = []
    for name, one in best.items():
        times = (f"{one['p50']:.2f}", f"{one['p99']:.1f}", f"{one['cpu']:,.0f}")
        lines.append([name, f"{one['rate']:,.0f}", one["rate"] / base, *times, int(one["bad"]), f"{one['mb']:,.0f}"])
    return Table(
        title=f"Requests to `twofold serve`: {what}, {connections} connections",
        columns=("request", "per second", "ratio", "p50 ms", "p99 ms", "CPU µs", "failed", "MB"),
        rows=lines,
        note=f"{NOTE} {idle:,.0f} MB after the start. {used}, {os.cpu_count()} processors",
    )


def _keep(best: dict[str, float], found: dict[str, float]) -> None:
    """Keep the largest rate, the smallest times, and all that failed."""
    for name, figure in found.items():
        choose = {"rate": max, "bad": lambda one, other: one + other}.get(name, min)
        best[name] = choose(best[name], figure) if name in best else figure


def _reloaded(file: Path, used: str) -> Table:
    """Replace the model while it is asked all the time; memory holds both for a moment."""
    with _served(file) as ours:
        before = ours.megabytes()
        data = file.read_bytes()
        with subprocess.Popen(
            ["wrk", "-t1", "-c4", "-d60", f"http://127.0.0.1:{ours.port}/recommendations/5"],
            stdout=subprocess.PIPE,
        ) as asking:
            start = time.monotonic()
            new = file.with_suffix(".new")
            new.write_bytes(data)
            new.replace(file)
            while ours.get("/health")["generation"] < 2 and time.monotonic() < start + 55:
                time.sleep(0.1)
            taken, generation = time.monotonic() - start, ours.get("/health")["generation"]
            asking.send_signal(signal.SIGINT)
            said = asking.communicate()[0].decode()
        after = ours.megabytes()
    failed = next((line for line in said.splitlines() if "Non-2xx" in line or "Socket errors" in line), "none")
    line = [f"{before:,.0f}", f"{after:,.0f}", f"{taken:.1f}", generation, failed.strip()]
    columns = ("MB before", "MB at most", "seconds until it was served", "generation", "requests that failed")
    return Table(title="The same model, replaced while it is asked", columns=columns, rows=[line], note=used)


def _wrk(server: Server, body: str, shape: tuple[int, int], *, start: int, seconds: float, of: int) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT.replace("START", str(start)).format(users=shape[0], items=shape[1], body=body))
        script.flush()
        words = ["wrk", "-t1", f"-c{of}", f"-d{seconds}s", "--timeout", "60s", "-s", script.name]
        done = subprocess.run(
            [*words, f"http://127.0.0.1:{server.port}"], capture_output=True, text=True, check=True, timeout=300
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _served(file: Path) -> Iterator[Server]:
    port = _free()
    words = ["-m", "twofold", "serve", str(file), "--catalog", str(file.parent / "items.csv")]
    with _running([*words, "--listen", f"127.0.0.1:{port}"], port) as one:
        yield one


@contextmanager
def _bare() -> Iterator[Server]:
    port = _free()
    with _running(["-c", BARE, str(port)], port) as one:
        yield one


@contextmanager
def _running(words: list[str], port: int) -> Iterator[Server]:
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait()


def _free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
