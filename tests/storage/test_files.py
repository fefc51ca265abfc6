"""Files: whole or not there, and never larger than expected."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, TransportError
from twofold.storage import files
from twofold.storage import files as disk
from twofold.storage.files import read_limited, write_whole

KILLED = """
import os, sys
from pathlib import Path
from twofold.storage import files as disk
from twofold.storage.files import write_whole
steps = int(sys.argv[2])
def listener(name):
    global steps
    steps -= 1
    if steps < 0:
        os._exit(9)
disk._listener = listener
write_whole(Path(sys.argv[1]), b"new" * 1000)
"""


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "one"
    for content in (b"abc", b"", b"x" * 100_000):
        write_whole(path, content)
        assert read_limited(path, 100_000) == content
    assert [one.name for one in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path, monkeypatch, failing, reason):
    path = tmp_path / "one"
    write_whole(path, b"old")

    def refuse(*arguments: object, **_: object) -> int:
        if failing == "write" and refuse.calls == 0:  # a few bytes still find room
            refuse.calls += 1
            return real(arguments[0], arguments[1][:3])
        raise OSError(reason, os.strerror(reason))

    refuse.calls = 0
    real = os.write
    monkeypatch.setattr(os, failing, refuse)
    with refused(TransportError, found=os.strerror(reason)):
        write_whole(path, b"new content")
    monkeypatch.undo()
    assert [one.name for one in tmp_path.iterdir()] == ["one"]
    assert path.read_bytes() == b"old"


def test_killed_at_any_step_the_old_or_the_new_file_is_there(tmp_path):
    seen = []
    for steps in range(6):
        folder = tmp_path / str(steps)
        folder.mkdir()
        path = folder / "one"
        path.write_bytes(b"old")
        done = subprocess.run([sys.executable, "-c", KILLED, str(path), str(steps)], check=False)
        seen.append((done.returncode, path.read_bytes()[:3]))
    assert seen == [(9, b"old")] * 4 + [(9, b"new"), (0, b"new")]


def test_a_folder_that_is_not_there_says_so(tmp_path):
    with refused(TransportError, found="No such file"):
        write_whole(tmp_path / "none" / "one", b"abc")
    with refused(TransportError, found=f"{tmp_path.name}: "):
        read_limited(tmp_path, 10)


@pytest.mark.skipif(os.name == "nt", reason="rights of files are another thing on Windows")
def test_rights_are_those_asked_for(tmp_path):
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "shared", b"")
        write_whole(tmp_path / "own", b"", mode=0o600)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600


def test_a_file_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "one"
    path.write_bytes(b"x" * 11)
    with refused(BadMessage, found="one: 11 bytes", expected="at most 10"):
        read_limited(path, 10)
    assert read_limited(path, 11) == b"x" * 11


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with refused(TransportError, found="not a plain file"):
            read_limited(path, 1_000)


def test_a_link_is_followed_only_where_that_is_said(tmp_path):
    (tmp_path / "one").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "one")
    assert read_limited(tmp_path / "link", 10) == b"abc"
    with refused(TransportError, found="links are not followed"):
        read_limited(tmp_path / "link", 10, links=False)
    assert read_limited(tmp_path / "one", 10, links=False) == b"abc"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_takes_the_place_of_a_file_as_it_is_opened(tmp_path, monkeypatch, kind, links):
    """Between the look and the opening: a pipe is not waited for, and a link not followed if none may be."""
    path, opened = tmp_path / "one", os.open
    path.write_bytes(b"abc")
    (tmp_path / "other").write_bytes(b"other")

    def swapped(given, *how, **more):
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to(tmp_path / "other")
        return opened(given, *how, **more)

    monkeypatch.setattr(os, "open", swapped)
    if kind == "link" and links:
        assert read_limited(path, 10, links=links) == b"other"
    else:
        with refused(TransportError, found=f"{path.name}: "):
            read_limited(path, 10, links=links)


@pytest.mark.skipif(os.name == "nt", reason="rights of files are another thing on Windows")
def test_rights_that_a_share_adds_are_taken_away(tmp_path, monkeypatch):
    opened = os.open

    def generous(*given, **more):  # as with rights that are inherited from the folder
        descriptor = opened(*given, **more)
        os.fchmod(descriptor, 0o777)
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", generous)
        files._write_new(tmp_path / "own", b"abc", 0o600)
        files._write_new(tmp_path / "read", b"abc", 0o644)
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "read").stat().st_mode) == 0o644


@pytest.mark.skipif(os.name == "nt", reason="rights of files are another thing on Windows")
def test_a_stick_without_rights_is_written_all_the_same(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchmod", refuse)
        patch.setattr(stat, "S_IMODE", lambda _: 0o777)
        write_whole(tmp_path / "one", b"abc", mode=0o600)
    assert (tmp_path / "one").read_bytes() == b"abc"


def test_nobody_listens_in_production():
    assert disk._listener is None


PLANTED = ("link", "dangling link", "hard link", "pipe", "open to others")


def plant(place, how, victim):
    if how == "link":
        place.symlink_to(victim)
    elif how == "dangling link":
        place.symlink_to(victim.with_name("nothing"))
    elif how == "hard link":
        os.link(victim, place)
    elif how == "pipe":
        os.mkfifo(place)
    else:
        place.write_bytes(b"left")
        place.chmod(0o666)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and named pipes")
@pytest.mark.parametrize("how", PLANTED)
def test_what_is_planted_under_a_temporary_name_is_never_followed(tmp_path, how):
    """Audit M4d: no O_EXCL and no O_NOFOLLOW."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    plant(tmp_path / "one.new", how, victim)
    disk.replace(tmp_path / "one", b"content")
    assert (tmp_path / "one").read_bytes() == b"content"
    assert stat.S_ISREG((tmp_path / "one").lstat().st_mode)
    assert stat.S_IMODE((tmp_path / "one").lstat().st_mode) == 0o600
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "nothing").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and named pipes")
@pytest.mark.parametrize("how", PLANTED[:4])
@pytest.mark.parametrize("doing", [disk.destroy, disk.empty])
def test_nothing_is_destroyed_or_emptied_through_another_name(tmp_path, how, doing):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    plant(tmp_path / "one", how, victim)
    doing(tmp_path / "one")
    assert not os.path.lexists(tmp_path / "one")
    assert victim.read_bytes() == b"precious"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and named pipes")
@pytest.mark.parametrize("how", ["link", "dangling link", "pipe"])
def test_nothing_is_added_to_or_locked_through_another_name(tmp_path, how):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    plant(tmp_path / "one", how, victim)
    with pytest.raises(OSError, match=r"link|plain file"):
        disk.add_to_end(tmp_path / "one", b"more")
    with pytest.raises(FileExistsError):
        disk.reserve_room(tmp_path / "one", 10)
    with pytest.raises(OSError, match=r"links|plain file"), disk.locked(tmp_path / "one", wait=0):
        pass
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "nothing").exists()


def test_a_temporary_file_exchanged_as_it_is_opened_is_not_written_to(tmp_path, monkeypatch):
    """Between the look and the opening, somebody puts another name of a file there."""
    victim, opened = tmp_path / "victim", os.open
    victim.write_bytes(b"precious")
    (tmp_path / "one.new").write_bytes(b"")
    (tmp_path / "one.new").chmod(0o600)

    def swapped(path, flags, *more):
        if Path(path).name == "one.new" and not flags & os.O_CREAT:
            Path(path).unlink()
            os.link(victim, path)
        return opened(path, flags, *more)

    monkeypatch.setattr(os, "open", swapped)
    disk.replace(tmp_path / "one", b"content")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "one").read_bytes() == b"content"


def test_room_is_used_in_place_and_given_back_in_part(tmp_path):
    disk.reserve_room(tmp_path / "one.new", 8_192, kept=4_096)
    assert (tmp_path / "one.new").stat().st_size == 4_096
    claimed = (tmp_path / "one.new").stat().st_ino
    disk.replace(tmp_path / "one", b"content")
    assert (tmp_path / "one").stat().st_ino == claimed
    assert (tmp_path / "one").read_bytes() == b"content"
    with pytest.raises(FileExistsError):
        disk.reserve_room(tmp_path / "one", 10)
