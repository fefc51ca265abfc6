"""Errors: one form, one page each inside the package, whole across processes."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import zipfile
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from twofold import errors

ROOT = Path(__file__).parents[1]
PAGES = files("twofold").joinpath("errors.md").read_text(encoding="utf-8")
ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TwofoldError)]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_has_a_page_and_names_it(kind: type[errors.TwofoldError]) -> None:
    headings = [line[3:].strip() for line in PAGES.splitlines() if line.startswith("## ")]
    assert [heading.lower() for heading in headings].count(kind.anchor().replace("-", " ")) == 1
    assert str(kind("so.")).splitlines()[-1] == f"  More: twofold errors {kind.anchor()}"


def test_an_extra_of_a_checkout_is_installed_from_the_checkout(tmp_path: Path) -> None:
    package = tmp_path / "src" / "twofold"
    assert errors.install("plot", package) == "pip install 'twofold[plot]'"
    (tmp_path / "pyproject.toml").touch()
    assert "'.[plot]'" in errors.install("plot", package)


def test_the_docs_show_the_pages_of_the_package() -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == PAGES


def test_every_page_is_about_an_error_or_an_exit_code() -> None:
    names = [line[3:].strip().lower().replace(" ", "-") for line in PAGES.splitlines() if line.startswith("## ")]
    assert {name for name in names if not name.startswith("exit-code-")} == {kind.anchor() for kind in ALL}


@pytest.mark.skipif(find_spec("hatchling") is None, reason="building needs hatchling")
def test_the_wheel_holds_the_pages(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(wheel).read("twofold/errors.md").decode() == PAGES


def test_an_error_of_another_type_has_the_same_parts() -> None:
    error = errors.BadParameter("{parameter} is bad.", found="3", fix=errors.Set("rank", 2), parameter="rank")
    other = error.as_(errors.BadPlan, expected="2")
    assert (type(other), other.summary, other.found, other.expected) == (errors.BadPlan, "rank is bad.", "3", "2")
    assert (other.fix, other.parameter, other.args) == ("rank=2", "rank", ("rank is bad.",))
    assert other.as_dict() == {
        "error": "BadPlan",
        "summary": "rank is bad.",
        "found": "3",
        "expected": "2",
        "fix": "rank=2",
        "parameter": "rank",
    }


@pytest.mark.parametrize("kind", ALL)
def test_every_error_survives_a_process_border(kind: type[errors.TwofoldError]) -> None:
    error = kind("what {parameter} is.", found="this", expected="that", fix="do so", parameter="rank")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.fix, back.parameter) == (kind, str(error), "do so", "rank")
    assert back.summary == "what rank is."


def test_every_error_is_public_and_in_the_tree() -> None:
    assert {kind.__name__ for kind in ALL} == set(errors.__all__) - {"Run", "Set", "Surface", "install"}
    assert errors.__doc__ is not None
    assert all(kind.__name__ in errors.__doc__ for kind in ALL)
