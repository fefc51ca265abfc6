"""What signing and checking cost: simulated federations of real plans, with the CPU seconds inside every signature.

All entities, the server and the local models run in one process. Making a signing key, signing and checking are timed
call by call, on the clock of the calling thread; a signature that was checked before is not checked again.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.table import Table, versions
from twofold.data.federation import Federation
from twofold.data.sources import hospitals
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum, usual_survivors
from twofold.simulation import simulate
from twofold.storage import signing

COLUMNS = ("federation", "entities", "CPU s", "in signatures, s", "share", "made", "checked", "peak memory, MB")


def run(*, quick: bool) -> list[Table]:
    """Run a plain federation and a secure sum of 205 hospitals (8 when quick)."""
    entities = 8 if quick else 205
    federation = hospitals.simulate(n_patients=entities * (50 if quick else 90), n_hospitals=entities, rng=1).federation
    rows = [_row(name, plan, federation) for name, plan in _plans(federation).items()]
    note = (
        f"{versions('numpy', 'cryptography')}. Real plans with ledgers and keys in files, {entities} hospitals, Gram "
        "matrix of 457 items; CPU seconds of the whole process."
    )
    return [Table(title="Signing and checking", columns=COLUMNS, rows=rows, note=note)]


def _plans(federation: Federation) -> dict[str, Plan]:
    n = len(federation)
    plain = Plan(
        catalog=federation.catalog, feedback="counts", bound=5, max_items=60, mechanism="gram", n_users=90, n_entities=n
    )
    return {"plain": plain, "secure sum": plain.with_(secure=SecureSum(survivors=usual_survivors(n)))}


def _row(name: str, plan: Plan, federation: Federation) -> list[object]:
    with _timed() as (seconds, calls), tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        simulate(federation, plan, ledgers=Path(folder), new_ledgers=True, strength="shared", local="factors")
        total = time.process_time() - start
    inside = sum(seconds.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    share = f"{100 * inside / total:.1f} %"
    return [name, len(federation), total, inside, share, calls["sign"], calls["verify"], peak]


@contextmanager
def _timed() -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Book CPU seconds and calls of everything that signs or checks."""
    seconds, calls = Counter[str](), Counter[str]()

    def booked(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            start = time.thread_time()
            try:
                return real(*given)
            finally:
                seconds[name] += time.thread_time() - start
                calls[name] += 1

        return call

    key = signing.SigningKey
    checked = lru_cache(maxsize=4096)(booked("verify", signing._check))
    with (
        patch.object(key, "sign", booked("sign", key.sign)),
        patch.object(key, "__init__", booked("key", key.__init__)),
        patch.object(signing, "_remembered", checked),
    ):
        yield seconds, calls
