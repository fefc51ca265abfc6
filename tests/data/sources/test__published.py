"""Where published data sets are looked for, and what is said when they are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.data import jester
from studies.data.jester import JESTER
from tests.refused import refused
from twofold.data.sources import eicu, movielens
from twofold.data.sources.published import EICU, MOVIELENS, Published, find_folder, find_table, need_table
from twofold.errors import MissingDataset

LOADERS = {"movielens": (movielens.load, MOVIELENS), "eicu": (eicu.load, EICU), "jester": (jester.load, JESTER)}


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_data_set_names_page_licence_and_folder(name: str, tmp_path: Path) -> None:
    load, published = LOADERS[name]
    with pytest.raises(MissingDataset) as caught:
        load(tmp_path / "nowhere")
    message = str(caught.value)
    assert published.title in message
    assert published.page in message
    assert published.licence in message
    assert f"$TWOFOLD_DATA/{published.folder}" in message


@pytest.mark.parametrize("name", LOADERS)
def test_without_a_folder_the_variable_decides(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, published = LOADERS[name]
    monkeypatch.delenv("TWOFOLD_DATA", raising=False)
    with refused(MissingDataset, published.folder, found="TWOFOLD_DATA is not set"):
        load()
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    with refused(MissingDataset, published.folder, found=str(tmp_path / published.folder)):
        load()


@pytest.mark.parametrize("name", LOADERS)
def test_an_empty_folder_is_missing_data_too(name: str, tmp_path: Path) -> None:
    with refused(MissingDataset, LOADERS[name][1].folder, found=" without "):
        LOADERS[name][0](tmp_path)


@pytest.mark.parametrize("published", [EICU, JESTER, MOVIELENS])
def test_every_data_set_is_described_in_full(published: Published) -> None:
    assert published.page.startswith("https://")
    assert all((published.title, published.licence, published.citation, published.folder, published.files))


def test_tables_may_be_plain_or_gzipped(tmp_path: Path) -> None:
    assert find_table(tmp_path, "lab") is None
    (tmp_path / "lab.csv").touch()
    assert find_table(tmp_path, "lab") == tmp_path / "lab.csv"
    (tmp_path / "lab.csv.gz").touch()
    assert need_table(EICU, tmp_path, "lab") == tmp_path / "lab.csv.gz"


def test_the_folder_given_wins_over_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path / "elsewhere"))
    assert find_folder(JESTER, tmp_path) == tmp_path
