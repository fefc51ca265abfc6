"""A ledger on disk and a request it can pay for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from twofold.privacy.budget import ApproxDP
from twofold.privacy.events import DiscreteLaplaceEvent
from twofold.privacy.ledger import Ledger, Request, digest
from twofold.privacy.ledger.reservation import Reservation, reserving
from twofold.privacy.unit import Unit


def asked(name: str = "data", *, epsilon: str = "1/2", seeded: bool = False, **more: Any) -> dict[str, Any]:
    """Arguments of a release, all but the draw."""
    unit = Unit.person()
    event = DiscreteLaplaceEvent(
        unit=unit, seeded=seeded, sensitivity=60, scale=60 / Fraction(epsilon), coordinates=457
    )
    usual = {"unit": unit, "events": [event], "cost": None}
    return {"plan": digest(b"plan"), "data": digest(name.encode()), "version": name, **usual, **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
    return tmp_path / "st-anna.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """A ledger with a ceiling of ε=2, δ=1e-5."""
    ceiling = ApproxDP(epsilon=2, delta=1e-5)
    return Ledger.create(path, dataset="visits 2020", ceiling=ceiling, unit=Unit.person(), wait=0.0)


@contextmanager
def reserved(ledger: Ledger, **asked: Any) -> Iterator[Reservation]:
    """What `Ledger.release` holds while it draws and commits."""
    with ledger._writing() as writer, reserving(writer, Request(**asked), room=0) as reservation:
        yield reservation


@pytest.fixture
def reserve() -> Any:
    """A block with a reservation that brings its own noise: `with reserve(ledger, **ask()) as reservation`."""
    return reserved


@pytest.fixture
def ask() -> Any:
    """The arguments of a release: `ask("data", epsilon="1/2")`."""
    return asked
