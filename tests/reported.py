"""A real federation of two as files, from keys to a signed card: what a report is made of."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.agreed import OPERATOR, agree, make_keys
from tests.entity.evaluated import CATALOG, people
from twofold.cli import app
from twofold.data.ratings import Ratings
from twofold.data.split import leave_n_out
from twofold.entity.personalize import fit_alone

NAMES = ("anna", "benno")


def rows_of(ratings: Ratings) -> pl.DataFrame:
    users, items = list(ratings.user_ids), list(ratings.catalog.items)
    cells = ratings.matrix.tocoo()
    return pl.DataFrame(
        {
            "user": [users[row] for row in cells.row],
            "item": [items[column] for column in cells.col],
            "value": cells.data.astype(int),
        }
    )


def reported(folder: Path, *, number: int = 60) -> Path:
    """Make keys, a plan, ledgers, factors, a model of anna and her card; and a model alone with a later table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pl.DataFrame({"item": list(CATALOG.items)}).write_csv("items.csv")
        make_keys(NAMES)
        keys = " ".join(f"--public-key {name}.pub" for name in (*NAMES, OPERATOR))
        _call(f"plan new plan.toml --catalog items.csv --n-users 200 --bound 5 --epsilon 20 --mechanism gram {keys}")
        agree("plan.toml", write=True)
        for seed, name in enumerate(NAMES, start=1):
            rows_of(people(number * seed, seed)).write_csv(f"{name}.csv")
            files = f"--data {name}.csv --ledger {name}.ledger --keys {name}.keys -o {name}.round1"
            _call(f"release --plan plan.toml {files} --new-ledger --confirm-useless")
        _call(f"factorize anna.round1 benno.round1 --plan plan.toml --keys {OPERATOR}.keys -o items.round2")
        _call("personalize items.round2 --plan plan.toml --data anna.csv -o anna.model")
        _call("card show anna.ledger --keys anna.keys -o card.html")
        split = leave_n_out(people(number, 1), rng=0)
        fit_alone(split.train, name="alone").save("alone.model")
        rows_of(split.test).write_csv("later.csv")
    return folder


def _call(line: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, (line, result.output, result.exception)
