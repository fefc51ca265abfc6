"""What signing and checking cost: simulated federations as they are, and the same with signatures that cost nothing.

Each federation runs both ways in turn, in one process: all entities, the server and the local models. Signatures that
cost nothing are 64 zeros, and every check of one says yes. Everything else is the same, the bytes of messages included.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

from benchmarks.table import Table, versions
from twofold.data.federation import Federation
from twofold.data.sources import hospitals
from twofold.federation import agreement
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.identity import keys
from twofold.simulation import simulate
from twofold.storage import signing

COLUMNS = ("federation", "entities", "signed, CPU s", "unsigned, CPU s", "signing adds", "peak memory, MB")


def run(*, quick: bool) -> list[Table]:
    """Run a plain federation and a secure sum of 205 hospitals (8 when quick), the best of three."""
    entities = 8 if quick else 205
    federation = hospitals.simulate(n_patients=entities * (50 if quick else 90), n_hospitals=entities, rng=1).federation
    rows = [_row(name, plan, federation, 1 if quick else 3) for name, plan in _plans(federation).items()]
    note = (
        f"{versions('numpy', 'cryptography')}. Real plans with ledgers and keys in files, {entities} hospitals, Gram "
        "matrix of 457 items; CPU seconds of the whole process, best of three, signed and unsigned in turn."
    )
    return [Table(title="Signing and checking", columns=COLUMNS, rows=rows, note=note)]


def _plans(federation: Federation) -> dict[str, Plan]:
    n = len(federation)
    plain = Plan(
        catalog=federation.catalog, feedback="counts", bound=5, max_items=60, mechanism="gram", n_users=90, n_entities=n
    )
    return {"plain": plain, "secure sum": plain.with_(secure=SecureSum(survivors=n - n // 10, colluders=1))}


def _row(name: str, plan: Plan, federation: Federation, times: int) -> list[object]:
    best = {True: float("inf"), False: float("inf")}
    for _ in range(times):
        for signed in best:
            best[signed] = min(best[signed], _seconds(plan, federation, signed=signed))
    share = Fraction(best[True]) / Fraction(best[False]) - 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [name, len(federation), best[True], best[False], f"{100 * float(share):+.1f} %", peak]


def _seconds(plan: Plan, federation: Federation, *, signed: bool) -> float:
    agreement.decode_agreed.cache_clear()
    with tempfile.TemporaryDirectory() as folder, _as_it_is() if signed else _for_nothing():
        start = time.process_time()
        simulate(federation, plan, ledgers=Path(folder), new_ledgers=True, strength="shared", local="factors")
        return time.process_time() - start


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def _for_nothing() -> Iterator[None]:
    def yes(*_: object) -> bool:
        return True

    with (
        patch.object(signing.SigningKey, "sign", lambda *_: bytes(signing.SIGNATURE_BYTES)),
        patch.object(signing, "verify", yes),
        patch.object(keys, "verify", yes),
        patch.object(agreement, "verify", yes),
    ):
        yield
