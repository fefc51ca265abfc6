"""Nothing that others can see depends on the data but the noisy numbers: docs/reference/data_dependence.md.

Every mechanism releases neighbouring and extreme data sets with a ledger on disk: the same parameters, the same size of
message, the same files of the same sizes, the same warnings, and no error.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from tests.enrolled import enrolled
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.features import Features
from twofold.federation.key_messages import decode_shares, encode_participants
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.storage.container import open_container

ITEMS = 17
CATALOG = Catalog([f"i{place:02}" for place in range(ITEMS)])
FEATURES = Features(matrix=1 + np.arange(ITEMS * 3).reshape(ITEMS, 3) % 4, names=("a", "b", "c"))
NAMES = ("one", "six", "ten")
LARGEST = float(np.finfo(np.float32).max)


def table(rows: np.ndarray, feedback: str) -> Ratings:
    matrix = sparse.csr_array(rows.astype(np.float32))
    ids = Identifiers(pl.Series([f"u{place:05}" for place in range(len(rows))], dtype=pl.String))
    return Ratings(matrix, ids, CATALOG, feedback)  # type: ignore[arg-type]


def stored_zeros(feedback: str) -> Ratings:
    matrix = sparse.csr_array((np.zeros(ITEMS, dtype=np.float32), (np.zeros(ITEMS, dtype=int), np.arange(ITEMS))))
    return Ratings(sparse.csr_array(matrix), Identifiers(["u"]), CATALOG, feedback)  # type: ignore[arg-type]


def data_sets(feedback: str) -> dict[str, Ratings]:
    full = np.tile(np.r_[np.full(4, 5.0), np.zeros(ITEMS - 4)], (10_000, 1))
    low = -LARGEST if feedback == "ratings" else LARGEST
    return {
        "nobody": table(np.zeros((0, ITEMS)), feedback),
        "one person": table(full[:1], feedback),
        "one person without an entry": table(np.zeros((1, ITEMS)), feedback),
        "10,000 alike at the cap": table(full, feedback),
        "10,001 alike at the cap": table(np.concatenate([full, full[:1]]), feedback),
        "rows of zeros": table(np.zeros((50, ITEMS)), feedback),
        "zeros that are stored": stored_zeros(feedback),
        "every item, largest numbers": table(np.full((30, ITEMS), LARGEST), feedback),
        "every item, smallest numbers": table(np.full((30, ITEMS), low), feedback),
        "tiny numbers": table(np.full((3, ITEMS), np.finfo(np.float32).smallest_subnormal), feedback),
    }


def plan(mechanism: str, feedback: str, delta: Any, **more: Any) -> Plan:
    # Clusters need many promised users: with few, public numbers make every one of them fall back.
    users = 10**6 if mechanism in ("buckets", "sulq", "balcan") else 3
    given = {"n_users": users, "max_items": 4, "n_prototypes": 2, "bound": 5, "epsilon": 30, "rank": 2}
    table_of = FEATURES if mechanism == "features" else None
    return Plan(catalog=CATALOG, features=table_of, feedback=feedback, mechanism=mechanism, delta=delta, **given | more)


def released(entity: Entity, folder: Path, participants: bytes | None = None) -> tuple[Any, ...]:
    """Everything about a release that somebody else can see, without its numbers."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        message = entity.release(participants)
    header = {
        key: value for key, value in open_container(message.data).record.items() if key not in ("checksum", "signature")
    }
    files = sorted((path.relative_to(folder).as_posix(), path.stat().st_size) for path in folder.rglob("*"))
    kinds = [(one.category.__name__, str(one.message).replace(str(folder), "")) for one in told]
    named = [(_without_digits(name), size) for name, size in files if "." in name and not name.endswith(".lock")]
    return len(message.data), header, named, kinds, message.content.note


def _without_digits(name: str) -> str:
    """Stored releases are named by their hash."""
    return "".join("#" if sign in "0123456789abcdef" else sign for sign in name)


CASES = [
    *itertools.product(("popularity", "buckets", "sulq", "balcan"), ("counts", "ratings"), ("1/1000000", 0)),
    *itertools.product(("gram", "sketch", "features"), ("counts", "ratings"), ("1/1000000", 0)),
]


@pytest.mark.parametrize(("mechanism", "feedback", "delta"), CASES)
def test_what_others_see_of_a_release_is_the_same_for_all_data(
    mechanism: str, feedback: str, delta: Any, tmp_path: Path
) -> None:
    everybody = enrolled(plan(mechanism, feedback, delta), "one")
    made = everybody.plan
    assert (made.spec.rows or 0) > 1 or mechanism in ("popularity", "gram", "sketch", "features")
    seen = {}
    for number, (name, ratings) in enumerate(data_sets(feedback).items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen[name] = released(
            Entity("one", ratings, made, ledger=folder / "one.ledger", **everybody.given("one")), folder
        )
    for name, found in seen.items():
        assert found == seen["nobody"], name


@pytest.mark.parametrize(("feedback", "delta"), [("counts", 0), ("ratings", "1/1000000")])
@pytest.mark.parametrize("mechanism", ["gram", "sketch", "features"])
def test_what_others_see_of_a_masked_release_is_the_same_for_all_data(
    mechanism: str, feedback: str, delta: Any, tmp_path: Path
) -> None:
    """Audit M1: 10,000 people where three were promised left the modulus, and the message was refused."""
    seen = {}
    roster_folder = tmp_path / "keys"
    roster_folder.mkdir()
    given = plan(mechanism, feedback, delta, n_entities=3, secure=SecureSum(survivors=3))
    group = enrolled(given, *NAMES, folder=roster_folder)
    made = group.plan
    kept = {path.name: path.read_bytes() for path in roster_folder.iterdir()}
    for number, (name, ratings) in enumerate(data_sets(feedback).items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file, data in kept.items():
            (folder / file).write_bytes(data)
            (folder / file).chmod(0o600)
        everybody = {
            one: Entity(
                one,
                ratings,
                made,
                ledger=folder / f"{one}.ledger",
                keys=folder / f"{one}.keys",
                agreements=group.agreements,
            )
            for one in NAMES
        }
        shares = {one: decode_shares(entity.share(), made).content for one, entity in everybody.items()}
        seen[name] = released(everybody["one"], folder, encode_participants(shares, made, signer=group.signer()))
    for name, found in seen.items():
        assert found == seen["nobody"], name
