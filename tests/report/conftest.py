"""A federation with made-up numbers: the report needs no data and no models."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from twofold.federation.plan import CatalogKey, Plan
from twofold.report.federation import EntityLine, Example, FederationRun, Nouns, System

SYSTEMS = (
    ("popularity", "Popularity", "nothing"),
    ("shared_popularity", "Popularity, shared privately", "one private message"),
    ("alone", "Alone", "nothing"),
    ("private", "Private federation", "one private message"),
    ("non_private", "Federation without noise", "sums without noise, which is not allowed"),
)


VOID = {"meta", "br", "img", "link", "hr", "input"}


class Sound(HTMLParser):
    """Checks that every tag is closed in turn, and collects names and targets."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value is not None:
                self.names.append(value)
            if name == "href" and value is not None:
                self.targets.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag


def _read(text: str) -> Sound:
    parser = Sound()
    parser.feed(text)
    assert parser.open == []
    return parser


def _entity(number: int, rng: np.random.Generator) -> EntityLine:
    return EntityLine(
        name=f"hospital-{number:03d}",
        users=int(40 * 1.3**number),
        numbers=4_580,
        bytes=37_104,
        spent="ε = 1, δ = 1e-6",
        noise=120.0,
        signal=float(30 + 10 * number),
        model="item-item" if number % 3 else "factors",
        strength="100 patients" if number % 2 else "own only",
        gain=float(abs(rng.normal(0.01, 0.01))),
    )


def make_run(*, gain: float = 0.03, private: bool = True, n: int = 12, **changes: Any) -> FederationRun:
    """Systems around 0.3, the private one `gain` above alone on average, with a little scatter."""
    rng = np.random.default_rng(1)
    base = 0.25 + 0.01 * np.arange(n) + rng.normal(0, 0.01, n)
    above = {"popularity": -0.08, "shared_popularity": -0.1, "alone": 0.0, "private": gain, "non_private": gain + 0.02}
    scatter = {key: rng.normal(0, 0.006, n) for key in above}
    scatter["alone"] *= 0
    systems = tuple(
        System(
            key=key,
            name=name,
            about="A way to recommend.",
            leaves=leaves,
            ndcg=tuple(base + above[key] + scatter[key] - scatter[key].mean()),
            mean_rank=tuple(0.4 - base - above[key]),
        )
        for key, name, leaves in SYSTEMS
    )
    plan = Plan(catalog=CatalogKey(hash="ab" * 32, n_items=457), feedback="counts", bound=5, max_items=60)
    given: dict[str, Any] = {
        "plan": plan,
        "private": private,
        "entities": tuple(_entity(number, rng) for number in range(n)),
        "systems": systems,
        "received": 36_960,
        "together": (400.0, 900.0),
        "choice": "buckets: because of public numbers",
        "timings": (("simulating", 1.2), ("round 1", 3.4)),
        "example": Example(
            entity="hospital-003",
            user="003-00001",
            history=(("heparin", 3.0), ("lactate", 1.0)),
            recommended=(("creatinine", 1.25), ("sodium", 1.0)),
            reasons=(("heparin", 0.75), ("everything else", 0.5)),
            held_out=("sodium",),
        ),
        "held_out": "Five entries of every fifth patient were held out.",
        "remarks": ("Everything is simulated.",),
        "nouns": Nouns(entity="hospital", entities="hospitals", user="patient", users="patients"),
    }
    return FederationRun(**{**given, **changes})


@pytest.fixture
def made_up() -> Callable[..., FederationRun]:
    """Make a federation; see `make_run`."""
    return make_run


@pytest.fixture
def read_html() -> Callable[[str], Sound]:
    """Read a page, refusing unsound markup."""
    return _read
