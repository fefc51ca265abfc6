"""The public table of features as a file: back as it was, or refused."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.errors import BadMessage, TwofoldError
from twofold.features import Features
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.plan_file import read_plan, write_plan
from twofold.federation.tables import load_features, save_features
from twofold.storage.container import pack_sealed

TABLE = Features(matrix=np.array([[1, 0], [0, 1], [2, 1]]), names=("comedy", "drama"))


def test_a_file_and_back(tmp_path):
    save_features(TABLE, tmp_path / "x.features")
    again = load_features(tmp_path / "x.features")
    assert (again, again.hash) == (TABLE, TABLE.hash)


@pytest.mark.parametrize(
    ("record", "matrix"),
    [
        ({"schema": "twofold.features/2", "names": ["a", "b"]}, TABLE.matrix),
        ({"schema": "twofold.features/1", "names": ["a"]}, TABLE.matrix),
        ({"schema": "twofold.features/1", "names": "ab"}, TABLE.matrix),
        ({"schema": "twofold.features/1"}, TABLE.matrix),
        ({"schema": "twofold.features/1", "names": ["a", "b"]}, TABLE.matrix.astype(float)),
        ({"schema": "twofold.features/1", "names": ["a", "a"]}, TABLE.matrix),
    ],
)
def test_another_file(tmp_path, record, matrix):
    (tmp_path / "x").write_bytes(pack_sealed(record, {"matrix": matrix}))
    with pytest.raises(TwofoldError):
        load_features(tmp_path / "x")


def test_a_changed_byte(tmp_path):
    save_features(TABLE, tmp_path / "x")
    data = bytearray((tmp_path / "x").read_bytes())
    data[-1] ^= 1
    (tmp_path / "x").write_bytes(bytes(data))
    with pytest.raises(TwofoldError, match="damaged"):
        load_features(tmp_path / "x")


@pytest.mark.parametrize("data", [b"noise!!", b"", bytes(200)])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path, data):
    (tmp_path / "plan.features").write_bytes(data)
    with pytest.raises(BadMessage, match=r"plan\.features: [\s\S]*copy it again"):
        load_features(tmp_path / "plan.features")


def test_a_plan_reads_the_table_it_names_and_refuses_another(tmp_path):
    key = CatalogKey(hash="0" * 64, n_items=3)
    plan = Plan(catalog=key, feedback="counts", bound=5, max_items=2, mechanism="features", features=TABLE)
    save_features(TABLE, tmp_path / "plan.features")
    write_plan(plan, tmp_path / "plan.toml", features_file=tmp_path / "plan.features")
    again = read_plan(tmp_path / "plan.toml")
    assert (again, again.features_table) == (plan, TABLE)
    save_features(Features(matrix=TABLE.matrix + 1, names=TABLE.names), tmp_path / "plan.features")
    with pytest.raises(TwofoldError, match=r"plan\.features, hash "):
        read_plan(tmp_path / "plan.toml")
    (tmp_path / "plan.features").unlink()
    assert read_plan(tmp_path / "plan.toml").features_table is None
