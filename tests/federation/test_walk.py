"""One look through a folder ends, however much lies in it."""

from __future__ import annotations

import os

import pytest

from twofold.federation import inbox as module
from twofold.federation.inbox import walk


@pytest.fixture
def told():
    return {}


@pytest.fixture
def look(tmp_path, told):
    """Names below the folder; what is left out goes to `told`."""
    return lambda: [str(path.relative_to(tmp_path)) for path in walk(tmp_path, told.__setitem__)]


def fill(folder, *names):
    folder.mkdir(exist_ok=True, parents=True)
    for name in names:
        (folder / name).write_bytes(b"")


def test_files_come_by_name_before_those_of_inner_folders(tmp_path, look, told):
    fill(tmp_path, "z", "a", "x.part")
    fill(tmp_path / "b", "2", "1")
    assert look() == ["a", "z", "b/1", "b/2"]
    assert list(told) == [tmp_path / "x.part"]


def test_the_limit_is_of_all_folders_together(tmp_path, look, told, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 20)
    for number in range(6):
        fill(tmp_path / f"{number}", *(f"{name}" for name in range(6)))
    assert len(look()) == 20 - 6  # the six folders are entries too
    assert all("a random part" in reason for reason in told.values())


def test_temporary_names_count_too(tmp_path, look, told, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 5)
    fill(tmp_path, *(f"{number}.part" for number in range(50)))
    assert look() == []
    assert len(told) == 3 + 1  # half is left for folders


def test_who_fills_a_folder_does_not_hide_the_others(tmp_path, look, told, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 30)
    fill(tmp_path / "aaa", *(f"{number}" for number in range(100)))
    fill(tmp_path / "st-anna", "x")
    fill(tmp_path / "st-olga", "y")
    assert {"st-anna/x", "st-olga/y"} < set(look())
    assert list(told) == [tmp_path / "aaa"]


def test_what_one_folder_leaves_goes_to_the_next(tmp_path, look, told, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 10)
    fill(tmp_path / "a", "x")
    fill(tmp_path / "b", *(f"{number}" for number in range(7)))
    assert len(look()) == 8
    assert told == {}


def test_of_a_listing_that_is_too_long_a_random_part_is_looked_at(tmp_path, look, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 10)
    fill(tmp_path, *(f"{number}" for number in range(100)))
    parts = [tuple(look()) for _ in range(200)]
    assert {len(part) for part in parts} == {5}
    assert {name for part in parts for name in part} == {f"{number}" for number in range(100)}


def test_an_inner_folder_that_cannot_be_read_is_told(tmp_path, look, told, monkeypatch):
    fill(tmp_path / "locked", "x")
    fill(tmp_path / "open", "y")
    honest = os.scandir

    def refuse(folder):  # not chmod: the tests may run as root
        if folder == tmp_path / "locked":
            raise PermissionError(13, "Permission denied")
        return honest(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert look() == ["open/y"]
    assert told == {tmp_path / "locked": "a folder that cannot be read: Permission denied"}


def test_the_folder_itself_must_be_readable(tmp_path, told):
    with pytest.raises(FileNotFoundError):
        walk(tmp_path / "none", told.__setitem__)
