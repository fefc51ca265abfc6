"""Promises about the repository itself: locks with hashes, no registry, no data, small files."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from studies.shape import Shape, shape

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_has_versions_and_hashes_and_names_no_registry(lock: Path) -> None:
    text = lock.read_text()
    requirements = re.findall(r"^[a-z0-9][^\s]*", text, re.MULTILINE)
    assert requirements
    assert all("==" in requirement for requirement in requirements)
    assert len(re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL)) == len(requirements)
    for entry in re.findall(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", text, re.MULTILINE | re.DOTALL):
        assert "--hash=sha256:" in entry
    assert "://" not in text
    assert "--index" not in text


def test_no_data_or_artefact_is_tracked() -> None:
    assert tracked("*.csv", "*.csv.gz", "*.parquet", "*.npz", "*.safetensors", "*.dat", "*.zip", "*.pkl") == []


@pytest.fixture(scope="module")
def measured() -> Shape:
    return shape(ROOT)


def test_no_module_is_too_long(measured: Shape) -> None:
    assert not measured.long


def test_a_helper_with_one_caller_stands_beside_its_caller(measured: Shape) -> None:
    """One file per verb is the rule of the command line; elsewhere a small module with one importer is a slice."""
    assert [name for name in measured.small if not name.startswith("twofold.cli.")] == []


def test_the_house_stays_as_large_as_agreed(measured: Shape) -> None:
    package = measured.parts["src/twofold"]
    assert package.files <= 296
    # Trust (decisions 0013, 0014): identities, agreements, policy, approvals, log, signed ledgers and cards, parsers.
    # Operators (decision 0015): the sum in shares, its two operators, their exchange, people as entities.
    # The ladder of local models: implicit ALS, sparse item-item, a path of ridges, stacks, what the others know.
    # The network (decision 0019): signed requests, a client, a service with its store, invitations, forwarding, a page,
    # and connections that give way.
    # Formats (decision 0023): MEDS, OMOP over any database, RecBole, item lists from public vocabularies.
    # Out of core (decision 0024): scans, sums over all people, engines.
    # For people: a served model with its console, evaluation, a report, init, doctor, completion; what new
    # users stumbled over: incomplete rows, headers of any script, statements that a card is checked against.
    assert package.lines <= 76_500


def test_the_laboratory_is_not_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/twofold"]
    for path in tracked("src/*.py"):
        assert not re.search(r"^\s*(from|import) studies\b", path.read_text(), re.MULTILINE), path.name


def test_every_decision_is_numbered_once() -> None:
    numbers = [path.name[:4] for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == sorted(set(numbers))
    assert all(number.isdigit() for number in numbers)
