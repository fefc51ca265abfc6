"""`twofold plan` new, show and explain: from options, from a plan file and from bare numbers."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tests.refused import check_refusal
from twofold.cli.plan import app
from twofold.data.catalog import Catalog
from twofold.errors import (
    BadParameter,
    BadPlan,
    BadPrivacyParameter,
    CatalogError,
    TwofoldError,
    UnitMissing,
    UnreadableSource,
)
from twofold.federation.plan import Plan
from twofold.federation.plan_file import catalog_path
from twofold.identity.keys import Role
from twofold.identity.keystore import new_keys

NUMBERS = "n_items = 457\nn_users = 900\nbound = 1\nmax_items = 66\nn_prototypes = 10\n"


def run(verb: str, *arguments: object):
    done = CliRunner().invoke(app, [verb, *map(str, arguments)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def refuse(kind: type[TwofoldError], parameter: str | None, words: str, verb: str, *arguments: object) -> None:
    """Expect a refusal, and these words of a shell in it."""
    done = CliRunner().invoke(app, [verb, *map(str, arguments)])
    check_refusal(done.exception, kind, parameter)
    assert words in done.stderr


@pytest.fixture
def numbers(tmp_path):
    file = tmp_path / "numbers.toml"
    file.write_text(NUMBERS)
    return file


@pytest.fixture
def catalog(tmp_path):
    Catalog([f"code-{number}" for number in range(457)]).write(tmp_path / "items.csv")
    return tmp_path / "items.csv"


@pytest.fixture
def plan(tmp_path, catalog):
    run("new", tmp_path / "plan.toml", "--catalog", catalog, "--n-users", 20_000, "--n-entities", 40)
    return tmp_path / "plan.toml"


def test_new_writes_a_plan_for_the_catalog(plan, catalog):
    made, items = Plan.read(plan), Catalog.read(catalog)
    assert (made.catalog.hash, made.n_items) == (items.hash, 457)
    assert catalog_path(plan) == catalog
    assert (made.max_items, made.bound, made.n_prototypes, made.rank) == (64, 5.0, 10, 20)
    assert (made.n_users, made.n_entities, made.feedback) == (20_000, 40, "counts")
    assert plan.read_text().count("\n# ") > 20


def test_new_takes_every_field_as_an_option(tmp_path, catalog):
    options = {
        "feedback": "ratings",
        "bound": 10,
        "lower": 2,
        "centre": 4,
        "max_items": 7,
        "l1_cap": 9,
        "l2_cap": 8,
        "n_prototypes": 3,
        "rank": 5,
        "regularization": 0.5,
        "epsilon": "1/3",
        "delta": "0",
        "mechanism": "sulq",
        "n_users": 70,
        "n_entities": 6,
        "quorum": 2,
        "deadline": "2127-01-31T12:00:00Z",
        "name": "north",
        "unit": "visit",
        "unit_entities": 3,
        "seed": 11,
    }
    given = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    given += ["--entity", "b", "--entity", "a", "--simulation", "--json"]
    shown = run("new", tmp_path / "p.toml", "--catalog", catalog, *given)
    made = Plan.read(tmp_path / "p.toml")
    assert json.loads(shown) == {"file": "p.toml", "hash": made.hash, "plan": made.as_dict()}
    record = made.as_dict()
    for name in options.keys() - {"unit", "unit_entities", "epsilon", "delta"}:
        assert record[name] == options[name], name
    assert (record["epsilon"], record["delta"], record["entities"]) == ("1/3", "0", ["a", "b"])
    assert (made.unit.holder, made.unit.entities) == ("visit", 3)


def test_new_counts_the_entities_it_is_given(tmp_path, catalog):
    run("new", tmp_path / "p.toml", "--catalog", catalog, "--entity", "a", "--entity", "b", "--quorum", 2)
    assert Plan.read(tmp_path / "p.toml").n_entities == 2


def test_new_does_not_write_over_a_file(plan, catalog):
    before = plan.read_bytes()
    refuse(BadPlan, "file", "--force", "new", plan, "--catalog", catalog)
    assert plan.read_bytes() == before
    run("new", plan, "--catalog", catalog, "--rank", 3, "--force")
    assert Plan.read(plan).rank == 3


@pytest.mark.parametrize(
    ("options", "kind", "parameter", "words"),
    [
        (("--max-items", 999), BadPlan, "max_items", "--max-items"),
        (("--epsilon", "-1"), BadPlan, "epsilon", "--epsilon"),
        (("--epsilon", "much"), BadPlan, "epsilon", "--epsilon"),
        (("--delta", "2"), BadPlan, "delta", "--delta"),
        (("--feedback", "stars"), BadPlan, "feedback", "--feedback"),
        (("--mechanism", "exact"), BadPlan, "mechanism", "Do: --mechanism auto, or --simulation\n"),
        (("--mechanism", "magic"), BadPlan, "mechanism", "Do: --mechanism auto\n"),
        (("--unit", "dog"), UnitMissing, "unit", "'person' or 'visit'"),
        (("--unit-entities", 0), BadPrivacyParameter, "unit.entities", "0"),
        (("--quorum", 3), BadPlan, "quorum", "Do: --quorum 1, or --n-entities 3\n"),
        (("--deadline", "tomorrow"), BadPlan, "deadline", "2027-01-31"),
        (("--entity", "../x"), BadPlan, "entity", "letters, digits"),
        (("--n-users", 0), BadPlan, "n_users", "--n-users"),
        (("--bound", "nan"), BadPlan, "bound", "--bound"),
        (("--mechanism", "features"), BadPlan, "features", "Do: --features kinds.csv"),
    ],
)
def test_new_says_what_to_type(tmp_path, catalog, options, kind, parameter, words):
    refuse(kind, parameter, words, "new", tmp_path / "p.toml", "--catalog", catalog, *options)
    assert not (tmp_path / "p.toml").exists()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("item,kind\ncode-1,a\ncode-2,\n", "456 of 457 items have no features"),
        ("item,x,y\ncode-1,1,0\ncode-2,0,0\n", "456 of 457 items have no features"),
        ("item,kind\n" + "".join(f"code-{number},a\n" for number in range(457)), ""),
    ],
)
def test_new_counts_the_items_without_features(tmp_path, catalog, table, words):
    (tmp_path / "kinds.csv").write_text(table)
    options = ("--catalog", catalog, "--mechanism", "features", "--features", tmp_path / "kinds.csv", "--simulation")
    shown = run("new", tmp_path / "p.toml", *options)
    assert words in shown
    assert ("note:" in shown) == bool(words)


def test_new_remarks_on_a_time_that_is_over(tmp_path, catalog):
    options = ("--catalog", catalog, "--simulation", "--deadline")
    shown = run("new", tmp_path / "p.toml", *options, "2020-01-31T12:00:00Z")
    assert "note: --deadline 2020-01-31T12:00:00Z is in the past" in shown
    assert "note:" not in run("new", tmp_path / "q.toml", *options, "2127-01-31T12:00:00Z")


def test_new_says_that_a_real_plan_needs_keys(tmp_path, catalog):
    assert "--public-key of every entity and of the operator" in run("new", tmp_path / "p.toml", "--catalog", catalog)


def test_new_needs_a_catalog_and_a_folder(tmp_path, catalog):
    refuse(UnreadableSource, "source", "none.csv", "new", tmp_path / "p.toml", "--catalog", tmp_path / "none.csv")
    (tmp_path / "twice.csv").write_text("item\na\na\n")
    refuse(CatalogError, "items", "once", "new", tmp_path / "p.toml", "--catalog", tmp_path / "twice.csv")
    refuse(BadPlan, "file", "mkdir -p", "new", tmp_path / "none" / "p.toml", "--catalog", catalog)


def pairs(items: int) -> int:
    """Numbers of a Gram matrix, with the sums and the count beside it."""
    return items * (items + 1) // 2 + items + 1


def test_show_prints_everything(plan):
    shown, made = run("show", plan), Plan.read(plan)
    for text in (made.hash, "n_prototypes    10", "gram, chosen by auto", "840,888 bytes", "ε = 2", "a person"):
        assert text in shown
    told = json.loads(run("show", plan, "--json"))
    assert told["hash"] == made.hash
    assert told["plan"] == made.as_dict()
    assert told["leaves"]["arrays"] == {"numbers": [pairs(457)]}
    assert told["leaves"]["replace_one"]["epsilon"] == 2.0


def test_show_of_a_simulation_without_privacy(tmp_path, catalog):
    run("new", tmp_path / "p.toml", "--catalog", catalog, "--mechanism", "exact", "--simulation")
    shown = run("show", tmp_path / "p.toml")
    assert "Price: infinite" in shown
    assert json.loads(run("show", tmp_path / "p.toml", "--json"))["leaves"]["guarantee"] is None


def test_explain_of_a_plan_says_what_would_run_and_leave(plan):
    shown = run("explain", plan)
    for text in ("gram, chosen by auto", f"numbers {pairs(457):,}", "δ = 1e-06", "replaced", "useful?", "perhaps"):
        assert text in shown
    assert "…" not in shown
    told = json.loads(run("explain", plan, "--json"))
    assert told["plan"]["mechanism"] == "gram"
    assert told["public"]["n_users"] == 20_000


def test_explain_of_ratings_counts_the_observations(tmp_path, catalog):
    run("new", tmp_path / "p.toml", "--catalog", catalog, "--feedback", "ratings", "--mechanism", "popularity")
    told = json.loads(run("explain", tmp_path / "p.toml", "--json"))
    assert told["plan"]["arrays"] == {"sums": [1, 457], "counts": [1], "observed": [1, 457]}
    assert told["public"]["bound"] == 2.0  # from the middle of 1 and 5


def test_explain_asks_what_if(plan):
    told = json.loads(run("explain", plan, "--json", "--n-users", 300, "--n-entities", 1))
    assert told["plan"]["mechanism"] == "popularity"
    assert Plan.read(plan).n_users == 20_000
    assert json.loads(run("explain", plan, "--json", "--epsilon", 0.2))["plan"]["guarantee"]["epsilon"] == 0.2
    assert json.loads(run("explain", plan, "--json", "--n-items", 900))["plan"]["arrays"] == {"numbers": [pairs(900)]}
    refuse(BadPlan, "max_items", "--max-items is", "explain", plan, "--max-items", 999)


def test_a_damaged_plan_is_said_to_be_one(plan):
    plan.write_text(plan.read_text().replace("max_items", "max_item"))
    for verb in ("show", "explain"):
        refuse(BadPlan, "max_item", "perhaps max_items", verb, plan)


def test_the_table_has_every_epsilon_and_both_mechanisms(numbers):
    shown = run("explain", numbers)
    assert "4,580 numbers, 36,640 bytes" in shown
    for text in ("52.5%", "73.2%", "95.3%", "99.996%", "Laplace", "Gaussian", "profile", "useful?"):
        assert text in shown
    assert "…" not in shown


def test_json_holds_the_numbers(numbers):
    told = json.loads(run("explain", numbers, "--json"))
    assert [row["epsilon"] for row in told["rows"][::2]] == [0.1, 0.3, 1, 3, 10]
    assert told["rows"][0]["noise_on_mean"] == pytest.approx(11.5, rel=0.01)


def test_options_win_over_the_file(numbers):
    told = json.loads(run("explain", numbers, "--json", "--n-users", 9000, "--epsilon", 2))
    assert told["public"]["n_users"] == 9000
    assert {row["epsilon"] for row in told["rows"]} == {2}


def test_options_alone_are_enough():
    options = ("--n-items", 457, "--n-users", 900, "--bound", 1, "--max-items", 66, "--n-prototypes", 10)
    assert json.loads(run("explain", *options, "--json"))["leaves"]["numbers"] == 4580


def test_the_files_own_epsilon_joins_the_usual_ones(numbers):
    numbers.write_text(NUMBERS + "epsilon = 0.5\nrank = 20\n")
    told = json.loads(run("explain", numbers, "--json"))
    assert [row["epsilon"] for row in told["rows"][::2]] == [0.1, 0.3, 0.5, 1, 3, 10]


@pytest.mark.parametrize(
    ("text", "kind", "parameter", "words"),
    [
        ("n_items 5", UnreadableSource, None, "line 1"),
        ("n_items = 5", BadPrivacyParameter, "n_users", "missing n_users"),
        (NUMBERS.replace("900", '"many"'), BadParameter, "n_users", "--n-users"),
        (NUMBERS + 'epsilon = "small"', BadPrivacyParameter, "epsilon", "--epsilon"),
        (NUMBERS + "n_user = 5", BadPrivacyParameter, "n_user", "perhaps n_users"),
        (NUMBERS + "colour = 5", BadPrivacyParameter, "colour", "colour"),
        (NUMBERS.replace("66", "458"), BadPrivacyParameter, "max_items", "Do: --max-items 457\n"),
    ],
)
def test_bad_files_of_numbers(numbers, text, kind, parameter, words):
    numbers.write_text(text)
    refuse(kind, parameter, words, "explain", numbers)


def test_a_file_that_is_not_there(tmp_path):
    for verb in ("show", "explain"):
        refuse(UnreadableSource, None, "twofold plan new", verb, tmp_path / "none.toml")


def test_show_prints_words_and_no_tables_of_python(tmp_path, catalog):
    names = ("st-anna", "st-bern", "st-clara", "clinic", "uni")
    for name in names:
        role = Role.OPERATOR if name in ("clinic", "uni") else Role.ENTITY
        new_keys(tmp_path / f"{name}.keys", name, role).write(tmp_path / f"{name}.pub")
    keys = [word for name in names for word in ("--public-key", tmp_path / f"{name}.pub")]
    asked = ["--catalog", catalog, "--secure", "operators", "--mechanism", "gram", "--writer", "st-anna", *keys]
    run("new", tmp_path / "p.toml", *asked)
    shown = run("show", tmp_path / "p.toml")
    assert not set("{}") & set(shown)
    lines = {line.split(" ")[0]: line for line in shown.splitlines() if line}
    for text in ("3 entities", "2 operators", Plan.read(tmp_path / "p.toml").roster.hash[:12]):
        assert text in lines["roster"]
    for text in ("1 message", "needs 3", "floor"):
        assert text in lines["quorum"]


@pytest.mark.parametrize(("floor", "noted"), [(2, True), (3, False)])
def test_a_sum_of_two_entities_is_noted(tmp_path, catalog, floor, noted):
    options = ["--catalog", catalog, "--secure", "operators", "--n-entities", 4, "--floor", floor, "--simulation"]
    assert ("note: --floor 2" in run("new", tmp_path / "p.toml", *options)) == noted


def test_a_plan_that_cannot_be_released_is_refused_when_it_is_written(tmp_path) -> None:
    Catalog([f"code-{number}" for number in range(9_000)]).write(tmp_path / "items.csv")
    file = tmp_path / "plan.toml"
    refuse(BadPlan, "mechanism", "sketch", "new", file, "--catalog", tmp_path / "items.csv", "--mechanism", "gram")
    assert not file.exists()
    run("new", file, "--catalog", tmp_path / "items.csv", "--mechanism", "sketch")
