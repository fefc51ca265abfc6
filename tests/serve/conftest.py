"""A small model that is served without a socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from scipy import sparse

from tests.served import Sync
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.model import Model
from twofold.entity.models.factors import FactorScorer
from twofold.federation.plan import Plan
from twofold.identity.log import SecurityLog
from twofold.identity.log_entry import Event
from twofold.privacy.budget import PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.events import DiscreteLaplaceEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.signed_card import sign_card
from twofold.privacy.unit import Unit
from twofold.report.card import to_html
from twofold.serve.api import Api, build_app
from twofold.serve.current import Current
from twofold.storage.signing import SigningKey

#: A user's id that must be nowhere but in the model.
SECRET = "patient-0417"
_NAMES = "Creatinine Heparin Lactate Potassium Sodium Haemoglobin Insulin Morphine Furosemide Vancomycin Glucose Urea"
TITLES = {f"item-{at}": name for at, name in enumerate(_NAMES.split())}


def make_model(*, seed: int = 0, users: Any = None, items: Any = None, **changes: Any) -> Model:
    """A model of 20 users and 12 items."""
    rng = np.random.default_rng(seed)
    counts = sparse.csr_array(rng.poisson(0.8, (20, 12)).astype(np.float32))
    catalog = Catalog(items or list(TITLES))
    names = users or [SECRET, *(f"patient-{at}" for at in range(1, 20))]
    parts: dict[str, Any] = {
        "entity": "st-anna",
        "catalog": catalog,
        "history": Ratings(counts, Identifiers(names), catalog, "counts"),
        "scorer": FactorScorer(rng.gamma(1.0, 1.0, (12, 3)), feedback="counts"),
        "plan": Plan(catalog=catalog, feedback="counts", bound=5, max_items=6, rank=3, n_users=20),
        "factors_hash": "ab" * 32,
        "private": False,
        "strength": 30.0,
        "note": "the shared model helped",
        "validation": (
            {"taken": False, "kind": "popularity", "strength": 0.0, "loss": 0.61, "error": 0.02},
            {"taken": False, "kind": "factors", "strength": 0.0, "loss": 0.55, "error": 0.02},
            {"taken": True, "kind": "factors", "strength": 30.0, "loss": 0.5, "error": 0.02},
        ),
    }
    return Model(**parts | changes)


@dataclass
class Serving:
    """A served model and its client."""

    folder: Path
    api: Api

    @property
    def model(self) -> Model:
        return self.api.current.answers.model

    def client(self, *, host: str = "127.0.0.1", app: Any = None, **more: Any) -> httpx.Client:
        return httpx.Client(transport=Sync(app or build_app(self.api)), base_url=f"http://{host}", **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        with self.client() as one:
            return one.get(path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        with self.client() as one:
            return one.post(path, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model and its item list."""
    make_model().save(tmp_path / "st-anna.model")
    pl.DataFrame({"item": list(TITLES), "title": list(TITLES.values())}).write_csv(tmp_path / "items.csv")
    return tmp_path


@pytest.fixture
def serving(folder: Path) -> Serving:
    return Serving(folder, Api(Current(folder / "st-anna.model", catalog=folder / "items.csv")))


@dataclass
class Records:
    """Files that a site keeps beside its model."""

    ledger: Path
    log: Path
    card: Path


@pytest.fixture
def records(folder: Path) -> Records:
    """A ledger with one release, its signed card, and a security log."""
    return make_records(folder)


def make_records(folder: Path) -> Records:
    key = SigningKey(b"\1" * 32)
    ledger = Ledger.create(folder / "st-anna.ledger", dataset="visits", ceiling=PureDP(epsilon=1), unit=Unit.person())
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=3, coordinates=5)
    asked = {"plan": digest(b"p"), "data": digest(b"raw"), "events": [event], "unit": Unit.person()}
    ledger.release(**asked, draw=lambda: b"noisy")
    signed = sign_card(card_from_ledger(ledger), key)
    (folder / "card.html").write_text(to_html(signed), encoding="utf-8")
    log = SecurityLog(folder / "security.log", key, entity="st-anna")
    log.add(Event.PLAN_AGREED, plan="ab" * 32)
    log.add(Event.APPROVED, plan="ab" * 32, draft="cd" * 32, approver="dpo-weber", key="ef" * 32)
    log.add(Event.RELEASED, plan="ab" * 32, digest="12" * 32)
    return Records(ledger=folder / "st-anna.ledger", log=folder / "security.log", card=folder / "card.html")
