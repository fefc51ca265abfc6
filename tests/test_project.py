"""Promises about the repository itself: locks with hashes, no registry, no data, small files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

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


def test_source_files_stay_small() -> None:
    long = [path.name for path in tracked("src/*.py") if len(path.read_text().splitlines()) > 720]
    assert long == []


def test_every_decision_is_numbered_once() -> None:
    numbers = [path.name[:4] for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == sorted(set(numbers))
    assert all(number.isdigit() for number in numbers)
