"""A file that is written once, whole, on disks that fill up and shares without links."""

from __future__ import annotations

import errno
import os
import stat
import time

import pytest

from tests.refused import refused
from twofold.errors import TransportError
from twofold.storage import files
from twofold.storage import files as once
from twofold.storage.files import put_once


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_once(tmp_path):
    path = tmp_path / "x"
    assert put_once(path, b"one")
    assert put_once(path, b"one")
    assert not put_once(path, b"two")
    assert not put_once(path, b"o")
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["x"]


def test_a_name_that_a_killed_writer_left_is_made_durable(tmp_path, monkeypatch):
    path, synced, real = tmp_path / "x", [], once.sync_folder

    def killed(folder):
        if path.exists():  # the last time: the name is there, and not yet durable
            raise KeyboardInterrupt
        real(folder)

    monkeypatch.setattr(once, "sync_folder", killed)
    with pytest.raises(KeyboardInterrupt):
        put_once(path, b"one")
    assert path.exists()
    monkeypatch.setattr(once, "sync_folder", lambda folder: (synced.append(folder), real(folder)))
    assert put_once(path, b"one")
    assert synced == [tmp_path]


def test_the_first_of_two_writers_wins(tmp_path, monkeypatch):
    path, link = tmp_path / "x", os.link

    def late(source, target):
        path.write_bytes(b"first")  # the other one comes in at the last moment
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert not put_once(path, b"second")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["x"]


def test_a_share_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "x"
    assert put_once(path, b"one")
    assert not put_once(path, b"two")
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["x"]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("module", "name"),
    [(files, "write_all"), (os, "fsync"), (os, "link"), (once, "sync_folder"), (files, "sync_folder")],
)
def test_a_full_disk_leaves_a_whole_file_or_none(tmp_path, monkeypatch, module, name):
    path = tmp_path / "x"
    with monkeypatch.context() as patch:
        patch.setattr(module, name, full)
        if name == "link":
            patch.setattr(type(path), "replace", full)
        with refused(TransportError, found="No space left"):
            put_once(path, b"one")
    assert not path.exists() or path.read_bytes() == b"one"
    assert set(names(tmp_path)) <= {"x"}
    assert put_once(path, b"one")


@pytest.fixture
def umask():
    """Set the umask of the process; put back afterwards."""
    before = os.umask(0)
    yield os.umask
    os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="rights of files are another thing on Windows")
@pytest.mark.parametrize(
    ("folder_mode", "mask", "expected"),
    [
        (0o750, 0o022, 0o640),
        (0o700, 0o022, 0o600),
        (0o755, 0o022, 0o644),
        (0o777, 0o022, 0o644),
        (0o777, 0o000, 0o644),  # nobody else may write into a message, whatever they may do in the folder
        (0o777, 0o077, 0o600),
        (0o755, 0o027, 0o640),
    ],
)
def test_as_readable_as_its_folder_within_the_umask(tmp_path, umask, folder_mode, mask, expected):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(folder_mode)
    umask(mask)
    put_once(folder / "x", b"one")
    assert stat.S_IMODE((folder / "x").stat().st_mode) == expected


@pytest.mark.skipif(os.name == "nt", reason="rights of files are another thing on Windows")
def test_a_link_that_takes_the_place_of_the_temporary_file_gains_nothing(tmp_path, monkeypatch):
    folder, victim, honest = tmp_path / "folder", tmp_path / "key", once.write_whole
    folder.mkdir()
    folder.chmod(0o777)
    victim.write_bytes(b"secret")
    victim.chmod(0o600)

    def swapped(path, data, **how):
        honest(path, data, **how)
        path.unlink()
        path.symlink_to(victim)

    monkeypatch.setattr(once, "write_whole", swapped)
    assert not put_once(folder / "x", b"one")
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert victim.read_bytes() == b"secret"


@pytest.mark.parametrize("content", [b"one", None])
def test_a_link_in_the_files_place_is_another_file(tmp_path, monkeypatch, content):
    """Also one that leads to the same bytes, or to nothing: a name that may lead elsewhere tomorrow."""
    target, path = tmp_path / "target", tmp_path / "x"
    if content is not None:
        target.write_bytes(content)
    path.symlink_to(target)
    for has_links in (True, False):
        if not has_links:
            monkeypatch.setattr(os, "link", full)
        assert not put_once(path, b"one")
    assert path.is_symlink()
    assert target.exists() == (content is not None)


def test_a_folder_in_the_files_place_is_not_the_file(tmp_path):
    (tmp_path / "x").mkdir()
    assert not put_once(tmp_path / "x", b"one")


def test_old_temporary_files_are_cleared_and_young_ones_left(tmp_path):
    old, young, foreign = tmp_path / ".x.0.part", tmp_path / ".x.1.part", tmp_path / ".y.0.part"
    for path in (old, young, foreign):
        path.write_bytes(b"half")
    for path in (old, foreign):
        os.utime(path, (time.time() - 2 * once.OLD,) * 2)
    put_once(tmp_path / "x", b"one")
    assert names(tmp_path) == [".x.1.part", ".y.0.part", "x"]


def test_no_folder(tmp_path):
    with pytest.raises(TransportError):
        put_once(tmp_path / "gone" / "x", b"one")
