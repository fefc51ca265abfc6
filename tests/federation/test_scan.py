"""A folder that strangers fill."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.refused import refused
from twofold.errors import TransportError
from twofold.federation import inbox as scan
from twofold.federation import inbox as walk
from twofold.federation.inbox import CHANGING, WAITING, Scanner, read_again
from twofold.federation.messages import receipt

LIMIT = 100_000


@pytest.fixture
def look(tmp_path):
    return Scanner(tmp_path, limit=LIMIT, refuse=lambda _: None, check=lambda *_: None)


def found(look):
    return [one.path.name for one in look.messages()]


def reasons(look):
    return dict(look.rejected)


def test_any_name_will_do(tmp_path, look, message):
    for name in ("x", "letter.docx", "ST ANNA (1).round1", "naïve.bin"):
        (tmp_path / name).write_bytes(message())
    assert len(found(look)) == 4
    assert look.rejected == []


def test_copies_count_once(tmp_path, look, message):
    data = message()
    for name in ("b", "a", "copy of a"):
        (tmp_path / name).write_bytes(data)
    assert found(look) == ["a"]
    assert look.rejected == []


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.999])
def test_a_partial_copy_is_waited_for(tmp_path, look, message, share):
    data = message()
    (tmp_path / "x").write_bytes(data[: int(share * len(data))])
    assert found(look) == []
    assert reasons(look) == {"x": WAITING}
    (tmp_path / "x").write_bytes(data)
    assert found(look) == ["x"]
    assert look.rejected == []


def test_a_copy_of_full_length_without_its_content_is_waited_for_by_its_name(tmp_path, look, message):
    data = message()
    path = tmp_path / f"st-anna.{receipt(data)[:16]}.round1"
    path.write_bytes(data[:-8] + bytes(8))
    assert found(look) == []
    assert "its name promises" in reasons(look)[path.name]
    path.write_bytes(data)
    assert found(look) == [path.name]


def test_foreign_files_are_listed_with_a_reason(tmp_path, look, message):
    (tmp_path / "notes.txt").write_text("dear colleagues, " * 9)
    (tmp_path / "archive.zip").write_bytes(b"PK\x03\x04" + bytes(500))
    (tmp_path / "longer").write_bytes(message() + b"x")
    (tmp_path / "huge").write_bytes(bytes(LIMIT + 1))
    assert found(look) == []
    told = reasons(look)
    assert set(told) == {"notes.txt", "archive.zip", "longer", "huge"}
    assert "not a message" in told["notes.txt"]
    assert "not a message" in told["archive.zip"]
    assert "after its end" in told["longer"]
    assert "larger than" in told["huge"]


def test_a_file_over_the_limit_is_not_opened(tmp_path, look, monkeypatch):
    (tmp_path / "huge").write_bytes(bytes(LIMIT + 1))

    def never(*_):
        raise AssertionError("opened")

    monkeypatch.setattr(scan, "open_plain", never)
    assert found(look) == []


@pytest.mark.parametrize("name", ["x.part", "x.TMP", "x~", ".x", "~x", ".x.1f.part", "x.filepart", "x.crdownload"])
def test_temporary_names_are_left_alone(tmp_path, look, message, name):
    (tmp_path / name).write_bytes(message())
    assert found(look) == []
    assert "temporary" in reasons(look)[name]
    (tmp_path / name).rename(tmp_path / "x")
    assert found(look) == ["x"]


def test_folders_are_looked_into_links_are_not_followed(tmp_path, look, message):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "secret").write_bytes(message())
    (tmp_path / "st-anna").mkdir()
    (tmp_path / "st-anna" / "x").write_bytes(message())
    (tmp_path / "link").symlink_to(outside / "secret")
    (tmp_path / "folder").symlink_to(outside)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert found(look) == ["x"]
    assert set(reasons(look)) == {"link", "folder", "dangling"}
    assert all("link" in reason for reason in reasons(look).values())


def test_a_link_that_takes_the_place_of_a_file_is_not_read(tmp_path, look, message):
    (tmp_path / "x").write_bytes(message())
    (one,) = look.messages()
    (tmp_path / "x").rename(tmp_path.parent / f"{tmp_path.name}-moved")
    (tmp_path / "x").symlink_to(tmp_path.parent / f"{tmp_path.name}-moved")
    with pytest.raises(TransportError):
        read_again(one, LIMIT)


def test_very_deep_folders_end_somewhere(tmp_path, look, message):
    deep = tmp_path
    for _ in range(walk.DEPTH + 2):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(message())
    assert found(look) == []
    assert list(reasons(look).values()) == ["a folder too deep to look into"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_block(tmp_path, look):
    os.mkfifo(tmp_path / "pipe")
    assert found(look) == []
    assert reasons(look) == {"pipe": "not a file"}


def test_an_unreadable_file_is_listed(tmp_path, look, message, monkeypatch):
    (tmp_path / "x").write_bytes(message())

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:  # not chmod: the tests may run as root
        patch.setattr(scan, "open_plain", refuse)
        assert found(look) == []
        assert reasons(look) == {"x": "cannot be read: Permission denied"}
    assert found(look) == ["x"]


def test_a_file_that_changes_while_it_is_read_is_waited_for(tmp_path, message):
    data = message()
    path = tmp_path / "x"
    path.write_bytes(data)

    def touch(*_):
        os.utime(path, (1, 1))

    look = Scanner(tmp_path, limit=LIMIT, refuse=touch, check=lambda *_: None)
    assert found(look) == []
    assert reasons(look) == {"x": CHANGING}


def test_a_file_that_vanishes_while_it_is_looked_at(tmp_path, look, message, monkeypatch):
    (tmp_path / "x").write_bytes(message())
    honest = scan.walk

    def gone(*given):
        seen = honest(*given)
        (tmp_path / "x").unlink()
        return seen

    monkeypatch.setattr(scan, "walk", gone)
    assert found(look) == []
    assert "cannot be read" in reasons(look)["x"]


def test_bytes_that_changed_after_they_were_found_are_not_handed_out(tmp_path, look, message):
    (tmp_path / "x").write_bytes(message())
    (one,) = look.messages()
    (tmp_path / "x").write_bytes(message())
    with refused(TransportError, "receipt", found="x"):
        read_again(one, LIMIT)
    (tmp_path / "x").unlink()
    with pytest.raises(TransportError):
        read_again(one, LIMIT)


def test_a_resting_file_is_hashed_once(tmp_path, look, message, monkeypatch):
    (tmp_path / "x").write_bytes(message())
    monkeypatch.setattr(scan, "TICK", -10.0)
    calls = []
    real = scan.receipt
    monkeypatch.setattr(scan, "receipt", lambda *given: calls.append(1) or real(*given))
    assert found(look) == found(look) == ["x"]
    assert len(calls) == 1
    os.utime(tmp_path / "x", (5, 5))
    assert found(look) == ["x"]
    assert len(calls) == 2


def test_a_missing_folder_is_an_error_of_ours(tmp_path, look):
    shutil.rmtree(tmp_path)
    with refused(TransportError, "path", found=tmp_path.name):
        look.messages()


def test_too_many_files_end_somewhere(tmp_path, look, message, monkeypatch):
    monkeypatch.setattr(walk, "MOST_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(message())
    assert len(found(look)) == 2
    assert "a random part" in reasons(look)["."]


def test_no_message_stays_hidden_behind_too_many_files(tmp_path, look, message, monkeypatch):
    """A stranger who fills a folder delays a message; each look sees another part."""
    monkeypatch.setattr(walk, "MOST_FILES", 10)
    for number in range(50):
        (tmp_path / f"{number:02}").write_bytes(b"nothing")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "message").write_bytes(message())
    seen = sum(bool(look.messages()) for _ in range(400))
    assert 5 <= seen < 400  # 5 of 51 entries, 39 times on average


def test_the_bytes_that_are_checked_are_those_of_the_receipt(tmp_path, message):
    data, checked = message(), []

    def check(header, content):
        checked.append((header.entity, content))
        return "not to our taste" if len(checked) == 1 else None

    look = Scanner(tmp_path, limit=LIMIT, refuse=lambda _: None, check=check)
    (tmp_path / "x").write_bytes(data)
    assert found(look) == []
    assert reasons(look) == {"x": "not to our taste"}
    assert [one.receipt for one in look.messages()] == [receipt(data)]
    assert checked == [("st-anna", data)] * 2


def test_what_the_header_refuses_is_not_read_on(tmp_path, message):
    def never(*_):
        raise AssertionError("read")

    look = Scanner(tmp_path, limit=LIMIT, refuse=lambda header: f"from {header.entity}", check=never)
    (tmp_path / "x").write_bytes(message())
    assert found(look) == []
    assert reasons(look) == {"x": "from st-anna"}


def test_what_is_ignored_is_neither_read_nor_rejected(tmp_path, message):
    def never(*_):
        raise AssertionError("asked")

    look = Scanner(tmp_path, limit=LIMIT, refuse=never, check=never, ignore=lambda header: header.entity == "st-anna")
    (tmp_path / "x").write_bytes(message())
    assert found(look) == []
    assert look.rejected == []


def test_a_file_that_grew_before_it_was_opened_is_not_read(tmp_path, look, message, monkeypatch):
    path, opened = tmp_path / "x", scan.open_plain
    path.write_bytes(message())

    def grown(*given):
        os.truncate(path, LIMIT + 1)
        return opened(*given)

    monkeypatch.setattr(scan, "open_plain", grown)
    assert found(look) == []
    assert "larger than" in reasons(look)["x"]


def test_names_are_safe_to_print(tmp_path, look):
    (tmp_path / "a\x1b[2Jb").write_bytes(b"no message")
    with open(os.fsencode(tmp_path) + b"/\xff\xfe", "wb") as file:  # noqa: PTH123 - a name that is no text
        file.write(b"no message")
    look.messages()
    assert sorted(one.name for one in look.rejected) == ["??", "a?[2Jb"]
