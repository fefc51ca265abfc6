"""What made the first users stumble, one test each, by the numbers of their report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest
from scipy import sparse

import twofold as tw
from tests.agreed import OPERATOR, agree, make_keys
from tests.cli.world import NAMES, ask, build, call
from tests.refused import check_refusal, refused
from twofold.cli.errors import pages
from twofold.data.catalog import Identifiers
from twofold.data.ratings import Ratings
from twofold.errors import BadPlan, DataError, MissingColumn, MissingExtra, TwofoldError, UnknownItems
from twofold.federation.plan import Plan
from twofold.serve.api import LIMITS, Api, build_app
from twofold.serve.current import Current
from twofold.server.service.run import Running, server_for

RELEASE = "release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys --entity anna"
TERMINAL = """
import os, pty, sys
os.environ.update(COLUMNS="80", TERM="xterm")
code = pty.spawn([sys.executable, "-m", "twofold", *sys.argv[1:]])
sys.exit(os.waitstatus_to_exitcode(code))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


@pytest.fixture(autouse=True)
def site(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hospital's folder after both rounds."""
    subprocess.run(["cp", "-a", "--sparse=always", str(made), str(tmp_path / "site")], check=True)
    monkeypatch.chdir(tmp_path / "site")
    return tmp_path / "site"


def at_a_terminal(line: str) -> str:
    """What a terminal of 80 columns shows."""
    words = [sys.executable, "-c", TERMINAL, *line.split()]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def served(model: str) -> Iterator[str]:
    """Serve a model as `twofold serve` does; give the address."""
    with Running(server_for(build_app(Api(Current(Path(model)))), LIMITS, host="127.0.0.1", port=0)) as running:
        yield running.url


def width(text: str) -> int:
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.replace("\r", ""))  # without colours
    return max(len(line) for line in plain.splitlines())


def ledger() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().glob("anna.ledger*") if path.suffix == ".head"}


def test_stumble_01_nothing_is_spent_on_a_plan_that_cannot_help() -> None:
    keys = " ".join(f"--public-key {name}.pub" for name in (*NAMES, OPERATOR))
    call(f"plan new poor.toml --catalog items.csv --mechanism gram --n-users 3 --epsilon 0.1 {keys}")
    agree("poor.toml", write=True)
    told = ask(
        *RELEASE.replace("plan.toml", "poor.toml").replace("anna.ledger", "new.ledger").split(),
        "--new-ledger",
        "-o",
        "x",
    )
    check_refusal(told.error, BadPlan, "confirm_useless")
    assert "Prediction: nothing" in told.err
    assert not list(Path().glob("new.ledger*"))
    assert "Prediction" in call("plan explain poor.toml")


def test_stumble_02_a_large_catalog_does_not_become_a_list_of_bestsellers() -> None:
    n_items, n_users, groups = 7_000, 700, 70
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(n_users), 20)
    own = n_items // groups
    columns = np.concatenate([(user % groups) * own + rng.choice(own, 20, replace=False) for user in range(n_users)])
    matrix = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(n_users, n_items))
    catalog = tw.Catalog([f"book-{number}" for number in range(n_items)])
    ratings = Ratings(matrix, Identifiers(list(range(n_users))), catalog, "counts")
    lists = tw.fit_alone(ratings).recommend_all(n=10)
    assert lists["item"].n_unique() > 20 * 26  # it was 26 of 340,556
    same = lists["item"].str.strip_prefix("book-").cast(pl.Int64) // own == lists["user"] % groups
    assert same.mean() > 0.5  # by chance one in seventy


@pytest.mark.parametrize("rows", ["Anna Schmidt,HIV test,positive\n", '{"user": "Anna Schmidt", "item": "HIV test"}\n'])
def test_stumble_03_no_error_shows_a_person(rows: str) -> None:
    Path("mixed.csv").write_text(rows)
    told = ask("check", "mixed.csv", "--plan", "plan.toml")
    check_refusal(told.error, MissingColumn)
    assert "Schmidt" not in told.err
    assert "HIV" not in told.err


def test_stumble_04_a_secure_sum_in_one_folder_cries_no_wolf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "peers" / "box").mkdir(parents=True)
    for name in ("items.csv", *(f"{one}.csv" for one in NAMES)):
        (tmp_path / "peers" / name).write_bytes(Path(name).read_bytes())
    monkeypatch.chdir(tmp_path / "peers")
    keys = make_keys(NAMES)
    numbers = "--catalog items.csv --mechanism gram --n-users 2000 --rank 1 --max-items 4 --epsilon 3"
    call(f"plan new plan.toml {numbers} {keys} --secure peers")
    agree("plan.toml", write=True)
    collect = f"coordinate --plan plan.toml --inbox box --outbox box --state state --keys {OPERATOR}.keys"
    said = []
    for _ in range(4):
        for name in NAMES:
            files = f"--data {name}.csv --ledger {name}.ledger --outbox box --inbox box -o {name}.model"
            told = ask(*f"join --plan plan.toml {files} --keys {name}.keys --new-ledger".split())
            said.append(told)
        said.append(ask(*collect.split()))
    assert {one.code for one in said} == {0, 3}
    assert not [one for one in said if "not taken" in one.out + one.err]
    assert not [one for one in said if "0 of 3 messages" in one.out and "anna, bern, clara" not in one.out]
    assert said[-1].out.startswith("closed: ")
    assert all(Path(f"{name}.model").is_file() for name in NAMES)


def test_stumble_05_a_model_of_ones_own_data_needs_no_factors() -> None:
    call("personalize --plan plan.toml --data anna.csv -o alone.model --entity anna")
    assert call("recommend alone.model --user 3")
    catalog = tw.Catalog.read("items.csv")
    model = tw.Entity("anna", tw.read_ratings("anna.csv", catalog), Plan.read("plan.toml")).personalize(None)
    assert model.recommend(3)


def test_stumble_06_a_message_in_a_notebook_is_one_line() -> None:
    catalog = tw.Catalog.read("items.csv")
    ratings = tw.read_ratings("anna.csv", catalog)
    limits = {"bound": 5, "max_items": 4, "n_users": 2_000}
    plan = tw.Plan(catalog=catalog, feedback="counts", mechanism="gram", simulation=True, **limits)
    sent = tw.Entity("anna", ratings, plan).release()
    assert len(repr(sent)) < 200
    assert len(sent._repr_html_()) < 5_000


def test_stumble_07_a_model_is_evaluated_by_name() -> None:
    told = json.loads(call("evaluate anna.model --plan plan.toml --factors items.round2 --json"))
    assert told["verdict"]
    assert {"alone", "popularity"} <= {row["system"] for row in told["table"]}


def test_stumble_08_a_model_is_served() -> None:
    with served("anna.model") as url:
        found = httpx.get(f"{url}/recommendations/3", params={"n": 2}).json()
    assert len(found["recommendations"]) == 2


@pytest.mark.parametrize("line", ["plan explain plan.toml", "plan explain sim.toml", "plan show plan.toml"])
def test_stumble_09_plan_explain_fits_80_columns(line: str) -> None:
    shown = at_a_terminal(line)
    assert "…" not in shown
    assert width(shown) <= 80
    if "explain" in line:
        assert "useful?" in shown


def test_stumble_10_ledger_show_fits_80_columns() -> None:
    shown = at_a_terminal("ledger show anna.ledger")
    assert "…" not in shown
    assert width(shown) <= 80
    assert re.search(r"released \(record \d+\); version 1 of the data", shown)


@pytest.mark.parametrize("line", ["plan explain plan.toml", "ledger card anna.ledger", f"{RELEASE} -o anna.round1"])
def test_stumble_11_any_encoding_prints(line: str) -> None:
    words = [sys.executable, "-m", "twofold", *line.split()]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "epsilon" in done.stdout.decode("cp1252")


@pytest.mark.parametrize("output", ["none/x.round1", "items.csv", "/proc/x.round1", "items.csv/x"])
def test_stumble_12_the_output_is_checked_before_anything_is_spent(output: str) -> None:
    told = ask(*RELEASE.replace("anna.ledger", "new.ledger").split(), "--new-ledger", "-o", output)
    check_refusal(told.error, DataError, "output")
    assert not list(Path().glob("new.ledger*"))


def test_stumble_13_command_line_and_python_have_the_same_defaults() -> None:
    catalog = tw.Catalog.read("items.csv")
    call("plan new stars.toml --catalog items.csv --feedback ratings --simulation")
    call("plan new usual.toml --catalog items.csv --simulation")
    assert Plan.read("stars.toml").lower == tw.Plan(catalog=catalog, feedback="ratings").lower
    read = tw.read_ratings("anna.csv", catalog)
    assert read.feedback == Plan.read("usual.toml").feedback == tw.Plan(catalog=catalog).feedback
    assert read.feedback in call("check anna.csv --catalog items.csv")


def test_stumble_14_check_takes_the_plan() -> None:
    told = json.loads(call("check anna.csv --plan plan.toml --json"))
    plan = Plan.read("plan.toml")
    assert [(one["bound"], one["max_items"]) for one in told["bounds"]] == [(plan.bound, plan.max_items)]
    assert told["users"] == 30


def test_stumble_15_advice_does_not_lead_in_a_circle() -> None:
    Path("more.csv").write_text(Path("anna.csv").read_text() + "\n1,unheard-of,2\n")
    told = ask("check", "more.csv", "--plan", "plan.toml")
    check_refusal(told.error, UnknownItems)
    assert "twofold check" not in told.err
    assert "1 rows of unknown items dropped" in call("check more.csv --plan plan.toml --unknown-items drop")


def test_stumble_16_a_shell_gets_advice_for_a_shell() -> None:
    Path("codes.csv").write_text("code\na\nb\n")
    Path("large.csv").write_text("user,item,value\n1,a,1e9\n")
    for line in ("check anna.csv --catalog codes.csv", "check large.csv --plan plan.toml"):
        told = ask(*line.split())
        assert told.code == 2
        assert "(" not in told.err.partition("Do: ")[2]
        assert "value_range" not in told.err
        assert "Catalog.read" not in told.err


def test_stumble_17_every_error_has_a_page_in_the_package() -> None:
    def every(kind: type[TwofoldError]) -> list[type[TwofoldError]]:
        return [kind, *(one for below in kind.__subclasses__() for one in every(below))]

    named = {kind.anchor() for kind in every(TwofoldError)[1:] if kind.__module__ == "twofold.errors"}
    assert named - set(pages()) == set()
    told = ask("check", "none.csv", "--plan", "plan.toml")
    command = told.err.splitlines()[-1].partition("More: twofold ")[2]
    assert call(command)


def test_stumble_18_the_missing_package_is_the_one_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": ["p"], "item": ["a"], "value": [1]})
    monkeypatch.setattr("narwhals.Series.to_polars", lambda _: exec("raise ModuleNotFoundError('pyarrow')"))
    with refused(MissingExtra, "pandas", "[pandas]"):
        tw.read_ratings(frame, tw.Catalog.read("items.csv"))


def test_stumble_19_long_work_says_that_it_goes_on() -> None:
    shown = at_a_terminal("personalize items.round2 --plan plan.toml --data anna.csv -o anna.x")
    assert "models tried" in shown
    assert " left" in shown
    assert "server" in at_a_terminal("simulate --plan sim.toml --data all.csv")
    words = [
        sys.executable,
        "-m",
        "twofold",
        *["personalize", "--plan", "plan.toml", "--data", "anna.csv", "-o", "anna.y"],
    ]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stderr == ""


def test_stumble_20_a_plan_that_cannot_be_released_is_refused_when_it_is_written() -> None:
    Path("many.csv").write_text("item\n" + "\n".join(map(str, range(340_556))))
    told = ask(*["plan", "new", "many.toml", "--catalog", "many.csv", "--mechanism", "gram", "--n-users", "9000"])
    check_refusal(told.error, BadPlan, "mechanism")
    assert not Path("many.toml").exists()
    Path("more.csv").write_text(Path("anna.csv").read_text() + "\n1,unheard-of,2\n")
    line = RELEASE.replace("anna.csv", "more.csv").replace("anna.ledger", "new.ledger")
    assert ask(*line.split(), "--new-ledger", "-o", "x.round1").code == 2
    assert not list(Path().glob("new.ledger*"))


def test_stumble_21_recommendations_have_titles() -> None:
    assert "Title" in call("recommend anna.model --user 3")
    assert all(
        row["title"] == f"Title {row['item']}" for row in json.loads(call("recommend anna.model --user 3 --json"))
    )
    Path("items.csv").rename("list.csv")
    assert "Title" not in call("recommend anna.model --user 3")
    assert "Title" in call("recommend anna.model --user 3 --catalog list.csv")


def test_stumble_21_reasons_have_titles() -> None:
    [best, *_] = json.loads(call("recommend anna.model --user 3 --why --json"))
    told = best["why"].splitlines()
    assert told[0].startswith(f"Title {best['item']} scores")
    assert all(" of Title " in line for line in told[1:-1])
    assert len(told) > 2


def test_stumble_22_lists_for_everyone_go_where_they_may_and_no_further() -> None:
    call("recommend anna.model --all -o lists.csv")
    assert pl.read_csv("lists.csv").columns == ["user", "rank", "item", "score", "title"]
    call("recommend anna.model --all -o lists.parquet")
    assert pl.read_parquet("lists.parquet").height == pl.read_csv("lists.csv").height
    for output in ("lists.csv", "/proc/lists.csv", "items.csv"):
        check_refusal(ask(*f"recommend anna.model --all -o {output}".split()).error, DataError, "output")
    call("recommend anna.model --all -n 1 -o lists.csv --force")
    assert pl.read_csv("lists.csv")["rank"].max() == 1
    assert call("recommend anna.model --all -n 1 -o -").startswith("user,rank,item,score")


def test_stumble_23_a_european_export_is_recognized_and_read() -> None:
    text = "patient;code;menge\nJosé Groß;a;2,5\nZoë;b;1,0\n"
    line = "check eu.csv --plan plan.toml --user patient --item code --value menge"
    for encoding in ("latin-1", "utf-16"):
        Path("eu.csv").write_bytes(text.encode(encoding))
        options = line.split()
        for _ in range(4):
            told = ask(*options)
            if told.code == 0:
                break
            assert isinstance(told.error, TwofoldError)
            options += told.err.partition("Do: ")[2].splitlines()[0].replace("'", "").split()
        assert told.code == 0, (options, told)
        assert {"--separator", "--encoding", "--decimal"} & set(options) >= {"--encoding", "--decimal"}
        assert "2 users" in told.out
        assert "José" not in told.err
    piped = ask(*["check", "-", "--plan", "plan.toml"], given=Path("anna.csv").read_bytes())
    assert "30 users" in piped.out


def test_stumble_24_impossible_numbers_and_headers_are_refused() -> None:
    told = ask(*["plan", "new", "x.toml", "--catalog", "items.csv", "--n-entities", "0"])
    check_refusal(told.error, BadPlan, "n_entities")
    told = ask(*["plan", "new", "x.toml", "--catalog", "items.csv", "--epsilon", "1e9"])
    check_refusal(told.error, BadPlan, "epsilon")
    assert not Path("x.toml").exists()
    Path("twice.csv").write_text("user,item,value,value\n1,a,1,2\n")
    check_refusal(ask(*["check", "twice.csv", "--plan", "plan.toml"]).error, MissingColumn, "value")


def test_stumble_25_the_usual_comforts_are_there() -> None:
    for verb in ("release", "plan new", "init", "doctor"):
        assert ask(*verb.split(), "-h").code == 0
    assert "compgen" in call("completion bash")
    assert call("init trial --part trial --catalog items.csv --yes")
    assert call("simulate --plan trial/plan.toml --data all.csv -o trial/models")
    assert json.loads(call("doctor --json"))["ready"] is True
    assert call("ledger verify anna.ledger --quiet") == ""
    assert call("report anna.model --plan plan.toml --factors items.round2 -o report.html")
    assert Path("report.html").read_text().startswith("<!")
    assert ask("recomend").err.count("recommend") == 1


def test_a_new_hospital_follows_what_init_prints() -> None:
    """From keys to a message by the commands that `init` names, in their order."""
    told = json.loads(call("init clinic --part entity --name dora --yes --json"))
    assert [Path(one).name for one in told["made"]] == ["dora.keys", "dora.pub", "inbox", "outbox"]
    public = " ".join(f"--public-key {one}" for one in ("clinic/dora.pub", "anna.pub", "bern.pub"))
    line = f"init centre --part operator --name centre --catalog items.csv {public} --n-users 2000 --epsilon 3 --yes"
    call(line)
    for name in ("plan.toml", "plan.roster"):
        Path("clinic", name).write_bytes(Path("centre", name).read_bytes())
    Path("visits.csv").write_bytes(Path("anna.csv").read_bytes())
    for command in told["next"]:
        if command.startswith("twofold "):
            words = command.removeprefix("twofold ").replace(" --wait 3600", "")
            assert ask(*words.split()).code in (0, 3), command
