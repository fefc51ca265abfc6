"""Help, --quiet, --json and completion of every verb; what starting up loads; and output in any encoding."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.world import ask, build
from twofold.cli import app
from twofold.cli.verbs import VERBS

#: None of these is needed to say what there is.
HEAVY = (
    "numpy",
    "scipy",
    "numba",
    "polars",
    "cryptography",
    "dp_accounting",
    "matplotlib",
    "rich",
    "jinja2",
)


def verbs(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    command = command or get_command(app)
    if not hasattr(command, "commands"):
        yield path
    for name, one in getattr(command, "commands", {}).items():
        yield from verbs(one, (*path, name))


EVERY = list(verbs())


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_the_help_of_a_verb_has_examples_and_fits_a_terminal(path: tuple[str, ...]) -> None:
    told = ask(*path, "-h")
    assert (told.code, told.err) == (0, "")
    assert told.out == ask(*path, "--help").out
    assert max(map(len, told.out.splitlines())) <= 80
    assert "…" not in told.out
    head, _, examples = told.out.partition("\n  Examples:\n")
    assert not re.search(r"\w\.\.\.$", head, re.MULTILINE), "a sentence is cut"
    lines = examples.replace(" \\\n", " ").splitlines()
    assert lines
    assert all(f"twofold {' '.join(path)}" in line for line in lines), lines


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_examples_use_options_that_exist(path: tuple[str, ...]) -> None:
    told = ask(*path, "-h")
    head, _, examples = told.out.partition("\n  Examples:\n")
    own = set(re.findall(r"--?[a-z][a-z0-9-]*", head))
    for option in re.findall(r"(?<=\s)--?[a-z][a-z0-9-]*", examples.replace("\\\n", "")):
        assert option in own, option


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_verb_has_json_and_quiet(path: tuple[str, ...]) -> None:
    told = ask(*path, "-h").out
    assert re.search(r"^  -q, --quiet ", told, re.MULTILINE)
    assert re.search(r"^  --json ", told, re.MULTILINE)


def test_the_list_names_every_verb_in_whole_words() -> None:
    told = ask("-h")
    assert told.code == 0
    for name, listed in VERBS.items():
        assert re.search(rf"^  {name} +{re.escape(listed.line)}$", told.out, re.MULTILINE), name
    assert max(map(len, told.out.splitlines())) <= 80


@pytest.mark.parametrize("line", [["--help"], ["-h"], ["--version"], ["frobnicate"], []])
def test_saying_what_there_is_loads_no_heavy_library(line: list[str]) -> None:
    script = (
        "import sys; from twofold.cli import main\n"
        f"sys.argv = ['twofold', *{line!r}]\n"
        "try: main()\n"
        f"finally: sys.stderr.write('\\nLOADED ' + ' '.join(n for n in {HEAVY!r} if n in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "LOADED "


def test_a_verb_that_is_mistyped_is_suggested_once() -> None:
    told = ask("recomend")
    assert told.code == 2
    assert told.err.count("recommend") == 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


SHOWING = (
    "check anna.csv --plan plan.toml",
    "plan show plan.toml",
    "plan explain plan.toml",
    "keys show plan.roster",
    "recommend anna.model --user 3 --why",
    "recommend anna.model --history a=1",
    "ledger show anna.ledger",
    "ledger verify anna.ledger",
    "ledger card anna.ledger",
    "card show anna.ledger",
    "card verify card.json",
    "policy show site/policy.toml",
    "log show anna.log",
    "log verify anna.log",
    "doctor",
    "errors bad-plan",
    "release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.round1",
    "personalize items.round2 --plan plan.toml --data anna.csv -o anna.model --force",
    "factorize anna.round1 bern.round1 clara.round1 --plan plan.toml --keys coordinator.keys -o items.round2 --force",
    "simulate --plan sim.toml --data all.csv",
    "approve site/anna.draft --keys site/officer.keys --yes",
)


@pytest.mark.parametrize("charset", ["cp1252", "ascii", "latin-1", "cp437", "utf-16"])
@pytest.mark.parametrize("line", SHOWING)
def test_any_encoding_prints(line: str, charset: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    told = ask(*line.split(), charset=charset)
    assert told.code == 0, told
    assert told.out


def test_what_an_encoding_lacks_is_spelled_out(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    assert "ε = 3" in ask("plan", "show", "plan.toml").out
    told = ask("plan", "show", "plan.toml", charset="cp1252")
    assert "epsilon = 3" in told.out
    assert "?" not in told.out


@pytest.mark.parametrize("line", SHOWING)
def test_quiet_prints_nothing_and_json_one_record(line: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    told = ask(*line.split(), "--quiet")
    assert (told.code, told.out, told.err) == (0, "", "")
    record = ask(*line.split(), "--json", "-q")
    assert (record.code, record.err) == (0, "")
    if line.startswith("log show"):  # one record per line, as in the file
        assert all(json.loads(one) for one in record.out.splitlines())
    else:
        assert json.loads(record.out)


def test_quiet_still_tells_errors(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    told = ask("ledger", "verify", "none.ledger", "-q")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("LedgerBroken: ")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("reco", {"recommend"}),
        ("plan ag", {"agree", "agreed"}),
        ("plan new x.toml --mech", {"--mechanism"}),
        ("recommend x.model --w", {"--why"}),
    ],
)
def test_bash_completes_words_without_python(typed: str, expected: set[str], tmp_path: Path) -> None:
    script = ask("completion", "bash")
    assert script.code == 0
    (tmp_path / "script").write_text(script.out)
    words = ["twofold", *typed.split(" ")]
    typing = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
    run = f'source ./script; {typing}; _twofold; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=True, cwd=tmp_path, env={})
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_verb_and_option(shell: str) -> None:
    told = ask("completion", shell)
    assert told.code == 0
    for path in EVERY:
        assert path[-1] in told.out
    assert "mechanism" in told.out
