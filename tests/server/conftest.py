"""Small federations as plans and bytes; no entity code is needed for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from twofold.errors import RoundClosed
from twofold.federation.mailbox import ROUNDS, Rejected, Step, Submission
from twofold.federation.messages import encode_release, receipt
from twofold.federation.plan import CatalogKey, Plan
from twofold.storage.files import write_whole
from twofold.storage.signing import SigningKey

N_ITEMS = 12


def _plan(**changes: Any) -> Plan:
    given = {
        "catalog": CatalogKey(hash="a" * 64, n_items=N_ITEMS),
        "feedback": "counts",
        "bound": 5,
        "max_items": 6,
        "n_prototypes": 3,
        "rank": 4,
        "epsilon": 4,
        "n_users": 40,
        "n_entities": 4,
        "mechanism": "buckets",
        "simulation": True,
    }
    if changes.get("feedback") == "ratings":
        given["lower"] = 1
    return Plan(**(given | changes))


def _people(plan: Plan, seed: int, n_users: int = 60) -> NDArray[np.float64]:
    """Two kinds of people, each with items of their own."""
    rng = np.random.default_rng(seed)
    rows, half = np.zeros((n_users, plan.n_items)), plan.n_items // 2
    for number, row in enumerate(rows):
        own = half * (number % 2) + rng.choice(half, min(plan.max_items, half) - 1, replace=False)
        row[own] = rng.integers(max(1, int(plan.lower)), 6, len(own))
    return rows


def _message(plan: Plan, number: int, seed: int | None = None, signer: SigningKey | None = None) -> bytes:
    seed = number if seed is None else seed
    released = plan.release_mechanism.release(
        _people(plan, seed), plan.parameters, rng=seed if plan.simulation else None
    )
    return encode_release(released.value, entity=f"site-{number}", plan=plan, signer=signer)


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    """Plan of a small simulation, with some fields changed."""
    return _plan


@pytest.fixture
def make_message() -> Callable[..., bytes]:
    """Message of entity number n."""
    return _message


@pytest.fixture
def make_people() -> Callable[..., NDArray[np.float64]]:
    """Rows of some users."""
    return _people


class FileBox:
    """A mailbox in a folder that takes anything: what hostile or clumsy senders leave, and what survives a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.published_calls: list[bytes] = []

    def put(self, name: str, data: bytes) -> None:
        (self.folder / f"{name}.in").write_bytes(data)

    def submissions(self, _: Step) -> Iterator[Submission]:
        for path in sorted(self.folder.glob("*.in")):
            data = path.read_bytes()
            yield Submission(entity=path.stem, receipt=receipt(data), read=path.read_bytes)

    def rejected(self, _: Step) -> list[Rejected]:
        return []

    def publish(self, _: Step, data: bytes) -> str:
        before = self.published()
        if before not in (None, data):
            raise RoundClosed("published already.")
        self.published_calls.append(data)
        write_whole(self.folder / "out", data)
        return receipt(data)

    def published(self, _: Step = ROUNDS) -> bytes | None:
        out = self.folder / "out"
        return out.read_bytes() if out.exists() else None


@pytest.fixture
def box(tmp_path: Path) -> FileBox:
    """An empty mailbox."""
    (tmp_path / "box").mkdir()
    return FileBox(tmp_path / "box")
