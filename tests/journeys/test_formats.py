"""The how-to pages of MEDS, OMOP and RecBole: their commands and Python run as written, from files to titles."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.journeys.test_how_to_pages import blocks, python, shell
from tests.test_docs import prelude

pytestmark = pytest.mark.long

OMOP = blocks("how-to/omop.md", "bash")


def need(data_folder: Path, name: str) -> None:
    if not (data_folder / name).exists():
        pytest.skip(f"{name} is not in TWOFOLD_DATA")


def lists(told: str) -> list[str]:
    """The lines below every header of recommendations."""
    return re.findall(r"^item +score +title *\n((?:.+\n){5})", told, re.MULTILINE)


def test_the_mimic_demo_from_shards_to_titles(data_folder: Path, tmp_path: Path) -> None:
    need(data_folder, "mimic-iv-demo-meds")
    told = shell(blocks("how-to/meds.md", "bash"), tmp_path)
    assert "Ratings(100 users x 1,072 items, counts): 12,156 entries from 916,166 rows" in told
    (found,) = lists(told)
    assert re.search(r"LAB//\d+//\S+ +-?\d\.\d{4} +\w+", found)
    titled = python("how-to/meds.md", tmp_path).splitlines()
    assert len(titled) == 5
    assert all(re.fullmatch(r"-?\d+\.\d\d  .*[a-z].*", line) for line in titled), titled


def test_gibleed_from_a_database_to_titles(data_folder: Path, tmp_path: Path) -> None:
    """Without the three entities, for which there is a test at length."""
    need(data_folder, "omop-gibleed/cdm.sqlite.gz")
    told = shell(re.sub(r"^for site.*?(?=^twofold catalog)", "", OMOP, flags=re.DOTALL | re.MULTILINE), tmp_path)
    assert "Ratings(2,694 users x 191 items, counts)" in told
    assert "LEFT JOIN (SELECT t.descendant_concept_id" in told
    assert "kinds.csv: 8 classes of 11 items" in told
    (alone,) = lists(told)
    assert all(re.match(r"\d+ +-?\d\.\d{4} +[A-Z]\w+", line) for line in alone.splitlines())
    titled = python("how-to/omop.md", tmp_path)
    assert "LEFT JOIN" in titled
    assert len(re.findall(r"^-?\d+\.\d\d  \w+", titled, re.MULTILINE)) == 5


@pytest.mark.slow
def test_three_entities_of_gibleed(data_folder: Path, tmp_path: Path) -> None:
    need(data_folder, "omop-gibleed/cdm.sqlite.gz")
    told = shell(OMOP, tmp_path)
    assert re.search(r"\d+ factors of 191 items from 3 entities", told)  # how many is chance
    alone, federated = lists(told)
    assert all(re.match(r"\d+ +-?\d\.\d{4} +[A-Z]\w+", line) for line in (alone + federated).splitlines())


def test_recbole_files_and_the_first_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prelude()
    rng = random.Random(0)
    rows = [f"{user}\t{item}\t{rng.randint(1, 5)}" for user in range(40) for item in rng.sample(range(20), 8)]
    Path("films.inter").write_text("\n".join(["user_id:token\titem_id:token\trating:float", *rows]) + "\n")
    titles = [f"{item}\tFilm {item}" for item in range(20)]
    Path("films.item").write_text("\n".join(["item_id:token\tmovie_title:token_seq", *titles]) + "\n")
    told = shell(blocks("how-to/read_data.md", "bash"), tmp_path)
    assert "Ratings(40 users x 20 items, ratings): 320 entries from 320 rows" in told
    assert Path("films.csv").read_text().startswith("item,title\n0,Film 0\n")
    assert python("how-to/read_data.md", tmp_path, "print(ratings, counts)").count("40 users x 20 items") == 2
