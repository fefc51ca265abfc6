"""What is published: one version number, no limits without a reason, a wheel and an sdist that work by themselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import twofold
import twofold_flower

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_there_is_one_version_number() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.search(r"^## .*\((.*?)\)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert PROJECT["dynamic"] == ["version"]  # taken from the package
    assert changes is not None
    assert {citation["version"], changes[1], twofold_flower.__version__} == {twofold.__version__}
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*/it/*.md"))
    assert set(re.findall(r"twofold-(\d+\.\d+\.\d+(?:\.dev\d+)?)", pages)) == {twofold.__version__}


def test_no_dependency_has_an_upper_limit() -> None:
    every = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]
    for line in every:
        operators = {one.operator for one in Requirement(line).specifier}
        assert operators <= {">="}


def test_the_core_needs_neither_drawings_nor_documentation() -> None:
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert not core & {"matplotlib", "zensical", "mkdocs", "mkdocstrings", "pandas", "pyarrow", "duckdb"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def test_the_wheel_has_types_templates_and_nothing_of_the_laboratory(built: dict[str, Path]) -> None:
    names = zipfile.ZipFile(built["wheel"]).namelist()
    assert "twofold/py.typed" in names
    assert "twofold/errors.md" in names
    assert any(name.endswith(".html.j2") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"twofold"}


def oldest() -> str:
    """Give every lower limit as the only version."""
    return "\n".join(line.replace(">=", "==") for line in PROJECT["dependencies"]) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("age", ["oldest", "newest"])
def test_a_clean_environment_runs_the_demo_without_the_repository(
    built: dict[str, Path], kind: str, age: str, tmp_path: Path
) -> None:
    if age == "oldest" and sys.version_info[:2] != (3, 11):
        pytest.skip("the oldest libraries have wheels for Python 3.11")
    venv.create(tmp_path / "env", with_pip=True)
    program = tmp_path / "env" / "bin"
    (tmp_path / "limits.txt").write_text(oldest() if age == "oldest" else "")
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "TWOFOLD_DATA")}

    def run(*words: str | Path) -> str:
        done = subprocess.run(
            [*map(str, words)], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(program / "python", "-m", "pip", "install", "-q", "-c", "limits.txt", built[kind])
    assert run(program / "twofold", "--version").strip() == f"twofold {twofold.__version__}"
    assert "Private federation" in run(program / "twofold", "demo", "--patients", "1200", "--hospitals", "6")
    (tmp_path / "items.csv").write_text("item\nheparin\nlactate\nsodium\n")
    (tmp_path / "visits.csv").write_text("patient,code,count\nanna,heparin,2\nanna,sodium,1\nbeat,heparin,1\n")
    columns = ("--user", "patient", "--item", "code", "--value", "count")
    run(program / "twofold", "check", "visits.csv", "--catalog", "items.csv", *columns)
    page = (tmp_path / "twofold-demo.html").read_text(encoding="utf-8")
    assert "pip install" in page  # no drawings in the core: the page says how to add them, and has the numbers
    listed = run(program / "python", "-m", "pip", "list", "--format=freeze").splitlines()
    size = sum(path.stat().st_size for path in (tmp_path / "env" / "lib").rglob("*") if path.is_file()) / 1e6
    print(f"{kind}, {age}: {len(listed)} packages, {size:.0f} MB with pip")
