"""Mechanisms without a proof: looked up by name, in workers too, and refused in words where the laboratory is not."""

from __future__ import annotations

import re
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import MissingExtra
from twofold.release.choose import NOT_PRIVATE, mechanism
from twofold.release.contract import ReleaseParameters

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", NOT_PRIVATE)
def test_they_are_found_and_not_private(name: str) -> None:
    public = ReleaseParameters(n_items=3, n_users=9, max_items=2, bound=1)
    assert (mechanism(name).name, mechanism(name).spec(public).private) == (name, False)


def test_a_worker_process_finds_them() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(mechanism, "kmeans").result().name == "kmeans"


def test_without_the_laboratory_the_error_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "studies", None)
    monkeypatch.delitem(sys.modules, "studies.not_private", raising=False)
    with refused(MissingExtra, "mechanism", "studies/", found="'kmeans'"):
        mechanism("kmeans")


def test_the_package_names_the_laboratory_in_one_place_and_does_without_it() -> None:
    naming = re.compile(r"(?:import|from) studies\b|studies\.\w+:")
    found = {path.name for path in (ROOT / "src").rglob("*.py") if naming.search(path.read_text(encoding="utf-8"))}
    assert found == {"choose.py"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/twofold"]
