"""ASSISTments: the published facts, what is counted, and damaged tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.data import assistments
from tests.refused import refused
from twofold.errors import BadIdentifier, DataError, EmptyTable, MissingColumn, MissingDataset

HEADER = "student,school,teacher,skill,problem,correct,order_id"


def _write(folder: Path, *answers: tuple[object, object, str], header: str = HEADER) -> Path:
    lines = [f"{student},{school},9,{skill},1,0,1" for student, school, skill in answers]
    (folder / "answers.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def test_the_published_facts(data_folder: Path) -> None:
    federation = assistments.load(data_folder / "assistments-2009")
    assert repr(federation) == (
        "Federation(19 entities of 20 to 330 users, 1,893 users, 109 of 110 items rated, 34,410 entries, counts)"
    )


def test_every_answer_counts_right_or_wrong(tmp_path: Path) -> None:
    folder = _write(tmp_path, (1, 7, "Mean"), (1, 7, "Mean"), (1, 7, "Mode"), (2, 7, "Mean"))
    federation = assistments.load(folder, least_people=1, least_items=1)
    assert federation[7].of(1) == {"Mean": 2.0, "Mode": 1.0}
    assert federation.feedback == "counts"


def test_limits_leave_out_people_then_schools(tmp_path: Path) -> None:
    answers = [
        (1, 7, "Mean"),
        (1, 7, "Mode"),
        (2, 7, "Mean"),
        (3, 8, "Mean"),
        (3, 8, "Mode"),
        (4, 8, "Mean"),
        (4, 8, "x"),
    ]
    federation = assistments.load(_write(tmp_path, *answers), least_people=2, least_items=2)
    assert {school: list(part.user_ids) for school, part in federation.items()} == {8: [3, 4]}


def test_the_catalog_does_not_depend_on_the_limits(tmp_path: Path) -> None:
    folder = _write(tmp_path, (1, 7, "Mean"), (1, 7, "Mode"), (2, 8, "Range"))
    strict, lax = (assistments.load(folder, least_people=1, least_items=least) for least in (2, 1))
    assert strict.catalog.hash == lax.catalog.hash
    assert list(strict.catalog.items) == ["Mean", "Mode", "Range"]


def test_a_skill_with_few_answers_is_no_entry(tmp_path: Path) -> None:
    folder = _write(tmp_path, (1, 7, "Mean"), (1, 7, "Mean"), (1, 7, "Mode"))
    federation = assistments.load(folder, least_people=1, least_items=1, least_times=2)
    assert federation[7].of(1) == {"Mean": 2.0}


def test_nobody_left_is_said(tmp_path: Path) -> None:
    with refused(EmptyTable, "least_people"):
        assistments.load(_write(tmp_path, (1, 7, "Mean")))


@pytest.mark.parametrize("name", ["least_people", "least_items", "least_times"])
def test_limits_are_whole_numbers(name: str, tmp_path: Path) -> None:
    with refused(DataError, name):
        assistments.load(_write(tmp_path, (1, 7, "Mean")), **{name: 0.5})  # type: ignore[arg-type]


def test_damaged_tables(tmp_path: Path) -> None:
    with refused(MissingColumn, "skill"):
        assistments.load(_write(tmp_path, (1, 7, "Mean"), header=HEADER.replace("skill", "topic")))
    with refused(EmptyTable, "answers"):
        assistments.load(_write(tmp_path))
    with refused(BadIdentifier, "skill"):
        assistments.load(_write(tmp_path, (1, 7, "Mean"), (1, 7, "")))
    with refused(MissingDataset, "assistments-2009"):
        assistments.load(tmp_path / "nowhere")
