"""A plan as a file: however it is written, the same plan."""

from __future__ import annotations

import json
import os
import random
import time

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadPlan, PlanMismatch, TransportError, UnreadableSource
from twofold.features import Features
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.plan_file import catalog_path, read_plan, write_plan
from twofold.federation.secure import SecureSum
from twofold.identity.roster import Roster

PLAN = Plan(catalog=CatalogKey(hash="0" * 64, n_items=40), feedback="counts", bound=5, max_items=6, epsilon="1/3")


@pytest.fixture
def file(tmp_path):
    PLAN.write(tmp_path / "plan.toml")
    return tmp_path / "plan.toml"


def test_every_field_has_a_comment(file):
    lines = file.read_text().partition("[catalog]")[0].splitlines()
    for name in set(Plan.model_fields) - {"catalog", "unit", "features", "secure", "roster"}:
        (place,) = [i for i, line in enumerate(lines) if line.lstrip("# ").startswith(f"{name} = ")]
        assert lines[place - 1].startswith("# "), name
    assert max(map(len, lines)) <= 120


def test_order_spaces_and_comments_say_nothing(file):
    text = file.read_text()
    head, tables = text.split("[catalog]")
    lines = [line for line in head.splitlines() if line and not line.startswith("#")]
    random.Random(0).shuffle(lines)
    unit = "[unit]\nentities=1\nholder='person'\n"
    catalog = "[catalog]\n  n_items    = 4_0\n  hash = '" + "0" * 64 + "'"
    file.write_bytes(b"\xef\xbb\xbf" + ("\r\n".join(lines) + "\r\n" + unit + catalog).encode())
    assert tables
    assert read_plan(file).hash == PLAN.hash


def test_numbers_may_be_written_in_any_way(file):
    text = file.read_text().replace('epsilon = "1/3"', "epsilon = 0.5").replace("delta = 1e-06", 'delta = "0.000001"')
    file.write_text(text.replace("bound = 5.0", "bound = 5"))
    assert read_plan(file) == PLAN.with_(epsilon=0.5)


def test_where_the_item_list_lies_is_no_part_of_the_plan(file, tmp_path):
    assert catalog_path(file) is None
    (tmp_path / "lists").mkdir()
    write_plan(PLAN, file, catalog_file=tmp_path / "lists" / 'our "items" ε 🏥.csv')
    assert catalog_path(file) == tmp_path / "lists" / 'our "items" ε 🏥.csv'
    assert read_plan(file).hash == PLAN.hash
    write_plan(PLAN, tmp_path / "lists" / "plan.toml", catalog_file=tmp_path / "items.csv")
    assert catalog_path(tmp_path / "lists" / "plan.toml").resolve() == tmp_path / "items.csv"


def test_a_time_of_toml_is_a_deadline(file):
    text = file.read_text()
    file.write_text(text.replace('# deadline = "2027-01-31T12:00:00Z"', "deadline = 2027-01-31T12:00:00Z"))
    assert read_plan(file).deadline == "2027-01-31T12:00:00Z"
    file.write_text(text.replace('# deadline = "2027-01-31T12:00:00Z"', "deadline = 2027-01-31"))
    with refused(BadPlan, "deadline", found="datetime.date(2027, 1, 31)"):
        read_plan(file)


@pytest.mark.parametrize(
    ("old", "new", "parameter", "found", "expected"),
    [
        ("max_items = 6", "max_item = 6", "max_item", "max_item", "max_items"),
        ("n_items = 40", "items = 40", "catalog.items", "catalog.items", "catalog.n_items"),
        ('holder = "person"', 'holders = "person"', "unit.holders", "unit.holders", "unit.holder"),
        ("rank = 20\n", "", "rank", "missing rank", None),
        ("seed = 0\n", "", "seed", "missing seed", None),
        ("n_items = 40", "", "catalog.n_items", "missing catalog.n_items", None),
        ('schema = "twofold.plan/3"', 'schema = "twofold.plan/7"', "schema", "twofold.plan/7", "twofold.plan/3"),
        ('schema = "twofold.plan/3"\n', "", "schema", "None", "twofold.plan/3"),
        ("max_items = 6", "max_items = 400", "max_items", "400", "at most 40"),
        ("bound = 5.0", "bound = nan", "bound", "nan", None),
        ("simulation = false", 'simulation = "no"', "simulation", "'no'", "true or false"),
        ("entities = []", "entities = 3", "entities", "int", None),
        ("[unit]\n", "[units]\n", "units", "units", "unit"),
    ],
)
def test_fields_are_refused_by_name(file, old, new, parameter, found, expected):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with refused(BadPlan, parameter, found=found, expected=expected):
        read_plan(file)


def test_tables_written_as_text(file):
    text = file.read_text()
    file.write_text('unit = "person"\n' + text[: text.index("[unit]")])
    with refused(BadPlan, "unit", found="unit = 'person'"):
        read_plan(file)


@pytest.mark.parametrize(
    "content",
    [b"max_items 6", b"\xff\xfe", b"a = " + b"[" * 50_000, b"x" * 2_000_000, b'a = "\n'],
    ids=["no sign", "no text", "deep", "large", "open quote"],
)
def test_files_that_are_not_toml(file, content):
    file.write_bytes(b"a_line = 1\n" + content)
    with pytest.raises(UnreadableSource):
        read_plan(file)


def test_what_is_wrong_is_said_with_its_line(file):
    file.write_text(file.read_text() + "max_items 6\n")
    number = len(file.read_text().splitlines())
    with refused(UnreadableSource, "path", found=f"line {number}"):
        read_plan(file)


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with refused(UnreadableSource, "path", "twofold plan new", found="none.toml"):
        read_plan(tmp_path / "none.toml")


def with_tables() -> Plan:
    roster, _ = Roster.new(("st-anna", "st-bern", "st-cosmas"))
    table = Features(matrix=np.arange(80).reshape(40, 2) % 3, names=("a", "b"))
    secure = SecureSum(survivors=3)
    return PLAN.with_(mechanism="gram", n_entities=3, roster=roster, secure=secure, features=table)


def test_keys_and_features_that_a_plan_holds_are_written_beside_it(tmp_path):
    plan = with_tables()
    plan.write(tmp_path / "w.toml")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["w.features", "w.roster", "w.toml"]
    again = Plan.read(tmp_path / "w.toml")
    assert again.hash == plan.hash
    assert (again.members, again.features_table) == (plan.members, plan.features_table)


def test_a_plan_of_hashes_only_writes_no_other_file(tmp_path):
    plan = with_tables()
    Plan.from_dict(plan.as_dict()).write(tmp_path / "w.toml")
    assert [one.name for one in tmp_path.iterdir()] == ["w.toml"]
    assert Plan.read(tmp_path / "w.toml").hash == plan.hash


def test_older_tables_of_the_same_plan_file_are_written_over_and_nothing_else(tmp_path):
    with_tables().write(tmp_path / "w.toml")
    newer = with_tables()
    newer.write(tmp_path / "w.toml")
    assert Plan.read(tmp_path / "w.toml").members == newer.members
    (tmp_path / "v.roster").write_text("who is on call this week")
    with refused(BadPlan, "roster", found="v.roster"):
        newer.write(tmp_path / "v.toml")
    assert (tmp_path / "v.roster").read_text() == "who is on call this week"
    assert not (tmp_path / "v.toml").exists()
    assert not (tmp_path / "v.features").exists()
    with refused(BadPlan, "roster", found="u.roster"):
        newer.write(tmp_path / "u.roster")
    assert not (tmp_path / "u.roster").exists()


def test_tables_that_lie_elsewhere_are_only_named(tmp_path):
    plan = with_tables()
    (tmp_path / "lists").mkdir()
    plan.members.write(tmp_path / "lists" / "all.roster")
    write_plan(plan, tmp_path / "w.toml", roster_file=tmp_path / "lists" / "all.roster")
    assert not (tmp_path / "w.roster").exists()
    assert Plan.read(tmp_path / "w.toml").members == plan.members


def test_another_roster_in_its_place_is_refused(tmp_path):
    plan, other = with_tables(), with_tables()
    plan.write(tmp_path / "w.toml")
    other.members.write(tmp_path / "w.roster")
    with pytest.raises(PlanMismatch):
        Plan.read(tmp_path / "w.toml")
    (tmp_path / "w.roster").unlink()
    assert Plan.read(tmp_path / "w.toml").members is None


@pytest.mark.parametrize(
    "name", ["bound", "epsilon", "delta", "max_items", "rank", "n_users", "seed", "lower", "centre"]
)
@pytest.mark.parametrize(
    "value",
    ["9" * 400, "9" * 5_000, "0x" + "f" * 9_000, '"1e400"', '"1e999999999"', "1e400", "nan", "[[[1]]]"],
    ids=lambda _: "case",
)
def test_numbers_of_any_size_are_refused_in_our_words(file, name, value):
    """Audit L1: a `bound` of 400 digits was an OverflowError, one of 5,000 a ValueError."""
    lines = file.read_text().splitlines()
    changed = [f"{name} = {value}" if line.lstrip("# ").startswith(f"{name} = ") else line for line in lines]
    file.write_text("\n".join(changed))
    with pytest.raises((BadPlan, UnreadableSource)):
        read_plan(file)


@pytest.mark.parametrize("value", ['"1e400"', '"1e-400"', "9" * 400, '"1e999999999"'], ids=lambda _: "case")
def test_the_largest_epsilon_alone_is_bounded(file, value):
    """Audit L1: `most_alone = "1e400"` was an OverflowError."""
    write_plan(PLAN.with_(mechanism="gram", n_entities=5, secure=SecureSum(survivors=4)), file)
    file.write_text(file.read_text().replace("# most_alone = 30", f"most_alone = {value}"))
    with pytest.raises((BadPlan, UnreadableSource)):
        read_plan(file)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 200_000 + "a = 1",
        "x = " + "[" * 100_000,
        '"a".' * 100_000 + "b = 1",
        "[" + "a." * 200_000 + "b]",
        "x = {a = {a = {a = {a = {a = 1}}}}}",
    ],
    ids=lambda _: "case",
)
def test_depth_without_end_is_refused_at_once(file, text):
    """A key of 200,000 parts kept tomllib busy for minutes."""
    file.write_text(f"{text}\n{file.read_text()}")
    started = time.monotonic()
    with pytest.raises((BadPlan, UnreadableSource)):
        read_plan(file)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "path",
    [
        "/dev/stdin",
        "/etc/passwd",
        "C:/items.csv",
        "C:items.csv",
        "//server/share/x",
        "\\\\server\\share\\x",
        "\\x",
        "a\u0000b",
    ],
)
def test_a_plan_names_only_files_seen_from_its_folder(file, path):
    """Audit L1: `[catalog] file = "/dev/stdin"` in a stranger's plan made `join` wait without end."""
    write_plan(PLAN, file, catalog_file=file.with_name("items.csv"))
    file.write_text(file.read_text().replace('file = "items.csv"', f"file = {json.dumps(path)}"))
    with refused(BadPlan, "catalog.file"):
        catalog_path(file)


def test_a_path_too_long_for_any_system_is_no_foreign_error(file):
    write_plan(PLAN.with_(features=Features(matrix=np.ones((40, 2), np.int64), names=("a", "b"))), file)
    text = file.read_text()
    assert 'file = "plan.features"' in text
    file.write_text(text.replace('file = "plan.features"', f'file = "{"x" * 900}"'))
    assert read_plan(file).features_table is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_no_plan_and_no_table(tmp_path, file):
    """Audit L1: a FIFO was waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    with refused(UnreadableSource, "path", found="plain file"):
        read_plan(tmp_path / "pipe")
    with pytest.raises(UnreadableSource):
        read_plan("/dev/zero")
    write_plan(PLAN.with_(features=Features(matrix=np.ones((40, 2), np.int64), names=("a", "b"))), file)
    file.write_text(file.read_text().replace('file = "plan.features"', 'file = "pipe"'))
    with pytest.raises(TransportError):
        read_plan(file)
