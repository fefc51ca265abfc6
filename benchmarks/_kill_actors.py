"""A small federation by folders: three entities, a server, and whoever carries the files between them."""

from __future__ import annotations

import hashlib
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks._kill_points import Tell
from tests.enrolled import enrolled, fixed_secrets
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.entity.model import Model
from twofold.entity.participate import participate
from twofold.federation.folder import EntityFolder, ServerFolder
from twofold.federation.mailbox import ROUNDS, Step, Submitted
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.privacy.budget import PureDP
from twofold.privacy.ledger import Ledger
from twofold.privacy.unit import Unit
from twofold.server.coordinate import coordinate
from twofold.server.factorize import Server
from twofold.server.state import FolderState

ENTITIES = ("anna", "bela", "cora")
USERS, ITEMS = 30, 12
COST = Fraction(1)
#: Room for one release and no more: whoever had to pay twice would be refused.
CEILING = PureDP(epsilon=COST)
CATALOG = Catalog([f"item-{number}" for number in range(ITEMS)])


MADE = enrolled(
    Plan(
        catalog=CATALOG,
        feedback="counts",
        bound=5,
        max_items=6,
        n_prototypes=2,
        rank=2,
        epsilon=COST,
        delta=0,
        mechanism="popularity",
        n_users=USERS,
        n_entities=len(ENTITIES),
        quorum=len(ENTITIES),
    ),
    secrets=fixed_secrets(*ENTITIES),
)
PLAN = MADE.plan

#: As it was before any process had it say what it does: forks inherit what their parent put in its place.
_REAL_DRAW = Entity._draw


def table(name: str) -> Ratings:
    """Make the users of an entity, the same at each call."""
    rng = np.random.default_rng(list(name.encode()))
    values = rng.integers(1, 6, (USERS, ITEMS)) * (rng.random((USERS, ITEMS)) < 0.4)
    names = Identifiers([f"{name}-{number}" for number in range(USERS)])
    return Ratings(sparse.csr_array(values.astype(np.float32)), names, CATALOG, "counts")


TABLES = {name: table(name) for name in ENTITIES}


def prepare(folder: Path) -> None:
    """Make the folders that exist before anyone starts."""
    for name in (*ENTITIES, "server", "secrets"):
        (folder / name).mkdir(parents=True)
    for name in ENTITIES:
        (folder / "secrets" / name).write_bytes(MADE.secrets[name].to_bytes())
        KeyStore(folder / "secrets" / name).agree(PLAN.hash)


def ledger_path(folder: Path, name: str) -> Path:
    """Where an entity's ledger is."""
    return folder / name / "ledger"


def run_entity(folder: Path, name: str, tell: Tell) -> bool:
    """Do both rounds as far as they go; True when there is a model."""
    place, book = folder / name, ledger_path(folder, name)
    if not book.exists():
        Ledger.create(book, dataset=name, ceiling=CEILING, unit=Unit.person())
    tell_draws(book, tell)
    entity = Entity(name, TABLES[name], PLAN, ledger=book, keys=folder / "secrets" / name, agreements=MADE.agreements)
    data = participate(entity, TellingFolder(place, tell)).factors
    if data is None:
        return False
    tell(f"factors {hashlib.sha256(data).hexdigest()}")
    model = entity.personalize(data, local="factors", strength="shared", threads=1)
    model.save(place / "model")
    again = Model.load(place / "model")
    tell(f"model {again.factors_hash} {hashlib.sha256((place / 'model').read_bytes()).hexdigest()}")
    return True


class TellingFolder(EntityFolder):
    """An entity's folders, that say which release was sent."""

    def __init__(self, place: Path, tell: Tell) -> None:
        super().__init__(place / "out", place / "in", PLAN)
        self._tell = tell

    def submit(self, step: Step, data: bytes, *, entity: str) -> Submitted:
        """Send, and say so."""
        sent = super().submit(step, data, entity=entity)
        if step is ROUNDS:
            self._tell(f"sent {sent.receipt}")
        return sent


def run_server(folder: Path, tell: Tell) -> bool:
    """Take what arrived; True when the item factors are published."""
    place = folder / "server"
    box = ServerFolder(place / "in", place / "out", PLAN)
    server = Server(PLAN, threads=1, signer=MADE.signer())
    coordinate(server, box, state=FolderState(place / "state", PLAN), agreements=MADE.agreements)
    data = box.published(ROUNDS)
    if data is None:
        return False
    tell(f"factors {hashlib.sha256(data).hexdigest()}")
    return True


def run_carrier(folder: Path) -> bool:
    """Copy every file to where it belongs, byte after byte and under its own name, as a careless script does."""
    server = folder / "server"
    for name in ENTITIES:
        _copy(folder / name / "out", server / "in")
        _copy(server / "out", folder / name / "in")
    return True


def _copy(source: Path, target: Path) -> None:
    if not source.is_dir():
        return
    target.mkdir(exist_ok=True)
    for path in sorted(source.glob("*.round?")):
        data, copy = path.read_bytes(), target / path.name
        if copy.exists() and copy.read_bytes() == data:
            continue
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for start in range(0, len(data), 1 + len(data) // 4):
            os.write(descriptor, data[start : start + 1 + len(data) // 4])
        os.close(descriptor)


def tell_draws(book: Path, tell: Tell) -> None:
    """Have entities say that they draw, whether that is paid for, and what they drew; the process is a child."""

    def draw(self: Entity, *given: Any, **named: Any) -> bytes:
        tell("draw paid" if Ledger(book).state().open else "draw unpaid")
        content = _REAL_DRAW(self, *given, **named)
        tell(f"drawn {hashlib.sha256(content).hexdigest()}")
        return content

    Entity._draw = draw  # type: ignore[method-assign]
